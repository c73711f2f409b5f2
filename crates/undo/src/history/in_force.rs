//! The turns that are in force: those that led to the current state of the workspace.

use std::collections::{BTreeSet, HashMap};

use takeback_tree::Oid;

use super::History;
use super::record::Action;

/// The turns that led to a state. Each is identified by the number of its row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing {
    /// The turns that no rollback has taken back.
    pub(crate) in_force: BTreeSet<usize>,
    /// The turns that an undo has taken back as far as possible.
    pub(crate) undone: BTreeSet<usize>,
}

impl History {
    /// Finds the turns that led to the current state. A rollback sets the workspace to the state of
    /// a checkpoint, so exactly the turns that were in force at the checkpoint are in force again.
    /// Returning to a newer checkpoint thus reinstates turns.
    pub(crate) fn standing(&self) -> Standing {
        let begins: HashMap<Oid, usize> = self
            .rows()
            .filter(|row| row.turn().is_some())
            .map(|row| (row.first().pin.id, row.number))
            .collect();
        let rollbacks = self.events().filter_map(|known| known.record.rollback.as_ref());
        let targets: BTreeSet<Oid> = rollbacks.map(|done| done.to).collect();
        let mut states: HashMap<Oid, Standing> = HashMap::new();
        // Maps each undo, and each reversal of an undo, to the row of the turn that was undone.
        let mut undos: HashMap<Oid, usize> = HashMap::new();
        let mut now = Standing::default();
        for known in self.events() {
            let id = known.pin.id;
            if targets.contains(&id) {
                states.insert(id, now.clone());
            }
            now.in_force.extend(begins.get(&id));
            let Some(done) = &known.record.rollback else { continue };
            let reversed = done.reverses.and_then(|reversed| undos.get(&reversed));
            let undone = begins.get(&done.to).filter(|_| done.action == Action::UndoTurn);
            if let Some(row) = reversed.or(undone).copied() {
                undos.insert(id, row);
                match done.action {
                    Action::Undo => drop(now.undone.remove(&row)),
                    _ => drop(now.undone.insert(row)),
                }
            } else if done.is_whole()
                && let Some(then) = states.get(&done.to)
            {
                now.clone_from(then);
            }
        }
        now
    }
}
