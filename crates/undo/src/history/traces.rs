//! Traces of pruned checkpoints. They show which turns and rollbacks came after a kept checkpoint,
//! and which paths these turns and rollbacks named. With the traces, a return to that checkpoint
//! also takes back turns that are no longer in the list.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use takeback_tree::{Filter, Oid, Pin, PinName, Store, WorkspaceId};

use super::History;
use super::record::{Action, CallRef, Checkpoint, Record};
use crate::hook::state;

/// The trace of a pruned checkpoint: its position in the order of events, and its call or rollback.
#[derive(Serialize, Deserialize)]
pub(crate) struct Trace {
    /// The newest kept checkpoint that is older than the pruned one.
    after: Oid,
    id: Oid,
    seq: u64,
    record: Record,
}

/// The pruned checkpoints that followed each kept checkpoint, oldest first. Their trees are lost.
pub(super) type PrunedCheckpoints = HashMap<Oid, Vec<Checkpoint>>;

/// Reads the traces of a workspace, oldest first.
pub(crate) fn read_traces(store: &Store, workspace: &WorkspaceId) -> Vec<Trace> {
    state::read(&traces_path(store, workspace)).unwrap_or_default()
}

/// Replaces the traces of a workspace. The caller holds the workspace's lock.
pub(crate) fn write_traces(store: &Store, workspace: &WorkspaceId, traces: &[Trace]) {
    let path = traces_path(store, workspace);
    match traces {
        [] => state::remove(&path),
        // If this fails, a rollback to an older checkpoint cannot take back the pruned turns. This
        // is not an error, because a full disk must not prevent pruning.
        traces => drop(state::write(&path, &traces)),
    }
}

fn traces_path(store: &Store, workspace: &WorkspaceId) -> PathBuf {
    store.notes(workspace).join("pruned")
}

/// Reads the traces of a workspace, except those of checkpoints that still exist.
pub(super) fn read_pruned(
    store: &Store,
    workspace: &WorkspaceId,
    existing: &[Checkpoint],
) -> PrunedCheckpoints {
    let traces = read_traces(store, workspace);
    if traces.is_empty() {
        return PrunedCheckpoints::new();
    }
    let existing: HashSet<Oid> = existing.iter().map(|known| known.pin.id).collect();
    let mut pruned = PrunedCheckpoints::new();
    for Trace { after, id, seq, record } in traces {
        if !existing.contains(&id) {
            let name = PinName { workspace: workspace.clone(), seq };
            let (tree, message) = (Oid::EMPTY_TREE, String::new());
            let pin = Pin { name, id, tree, attachment: None, time: 0, message };
            pruned.entry(after).or_default().push(Checkpoint { pin, record });
        }
    }
    pruned
}

impl History {
    /// Returns the checkpoints of all kinds and the traces of pruned ones, oldest first.
    pub(crate) fn events(&self) -> impl Iterator<Item = &Checkpoint> {
        let following = |known: &Checkpoint| self.pruned.get(&known.pin.id).into_iter().flatten();
        self.all.iter().flat_map(move |known| [known].into_iter().chain(following(known)))
    }

    /// Keeps traces of the checkpoints that are about to be pruned. The caller holds the
    /// workspace's lock.
    pub(crate) fn keep_traces(&self, store: &Store, doomed: &[PinName]) {
        write_traces(store, &self.workspace, &self.find_traces(doomed));
    }

    /// Finds the traces that are needed once the checkpoints in `doomed` are gone. Between two kept
    /// checkpoints, these are the first event of each turn, the first event that names each path,
    /// and all rollbacks with their targets. Nothing is needed from before the oldest kept
    /// checkpoint, because no rollback returns there.
    fn find_traces(&self, doomed: &[PinName]) -> Vec<Trace> {
        let doomed: HashSet<&PinName> = doomed.iter().collect();
        let kept = self.all.iter().filter(|known| !doomed.contains(&known.pin.name));
        let kept: HashSet<Oid> = kept.map(|known| known.pin.id).collect();
        let rollbacks = self.events().filter_map(|known| known.record.rollback.as_ref());
        let targets: HashSet<Oid> = rollbacks.map(|done| done.to).collect();
        let (mut after, mut traces) = (None, Vec::new());
        let (mut turns, mut named) = (HashSet::new(), HashSet::new());
        for Checkpoint { pin, record } in self.events() {
            if kept.contains(&pin.id) {
                after = Some(pin.id);
                turns.clear();
                named.clear();
                continue;
            }
            let Some(after) = after else { continue };
            let known_before = turns.len() + named.len();
            turns.extend(record.calls().map(|call| (call.reporter(), &call.turn)));
            named.extend(record.named_paths());
            let is_first = turns.len() + named.len() > known_before;
            if is_first || record.rollback.is_some() || targets.contains(&pin.id) {
                let record = reduce(record.clone());
                traces.push(Trace { after, id: pin.id, seq: pin.name.seq, record });
            }
        }
        traces
    }
}

/// Clears all fields of a record that are meaningless without the tree.
fn reduce(record: Record) -> Record {
    let reduce_call = |call: CallRef| CallRef { writes: Vec::new(), ..call };
    // Uncovered paths are treated as named if the undo of a turn changed them.
    let is_undo = record.rollback.as_ref().is_some_and(|done| done.action == Action::UndoTurn);
    Record {
        reason: String::new(),
        repository: None,
        call: record.call.map(reduce_call),
        unended: record.unended.into_iter().map(reduce_call).collect(),
        filter: Filter::default(),
        uncovered: if is_undo { record.uncovered } else { Vec::new() },
        unsettled: Vec::new(),
        unprivileged: Vec::new(),
        ..record
    }
}
