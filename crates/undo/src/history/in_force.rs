//! The turns that are in force: those that led to the state that the workspace was last set to.

use std::collections::{BTreeSet, HashMap};

use takeback_tree::Oid;

use super::History;

impl History {
    /// The numbers of the rows whose turns no rollback has taken back. A rollback sets the workspace
    /// to the state of a checkpoint, so exactly those turns are in force that were in force there:
    /// going forward again brings turns back.
    pub(crate) fn rows_in_force(&self) -> BTreeSet<usize> {
        let begins: HashMap<Oid, usize> = self
            .rows()
            .filter(|row| row.turn().is_some())
            .map(|row| (row.first().pin.id, row.number))
            .collect();
        let whole = |known: &'_ super::Checkpoint| {
            known.record.rollback.as_ref().filter(|done| done.is_whole()).map(|done| done.to)
        };
        let targets: BTreeSet<Oid> = self.all.iter().filter_map(whole).collect();
        let mut states: HashMap<Oid, BTreeSet<usize>> = HashMap::new();
        let mut now = BTreeSet::new();
        for known in &self.all {
            if targets.contains(&known.pin.id) {
                states.insert(known.pin.id, now.clone());
            }
            now.extend(begins.get(&known.pin.id));
            // If the checkpoint was pruned, so were the rows before it.
            if let Some(then) = whole(known).and_then(|target| states.get(&target)) {
                now.clone_from(then);
            }
        }
        now
    }
}
