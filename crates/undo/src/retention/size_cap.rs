//! The size cap: evicts the oldest checkpoints of all workspaces until the store fits.

use std::collections::HashSet;

use takeback_ledger::Time;
use takeback_tree::{PinName, Store, StoreError};

use super::PruneError;
use super::prune::{PrunableWorkspace, PruneReport, evict, read_workspaces};
use crate::history::record::{Checkpoint, Kind};

/// A checkpoint that may be evicted.
struct Candidate {
    time: Time,
    name: PinName,
    workspace: usize,
    is_row: bool,
    is_newest_row: bool,
}

/// Evicts checkpoints until the store is not larger than `limit`. The newest row of each workspace
/// goes last.
pub(super) fn enforce_size_cap(
    store: &Store,
    now: Time,
    limit: u64,
    report: &mut PruneReport,
) -> Result<(), PruneError> {
    loop {
        let size = store.measure_size()?;
        if size <= limit {
            return Ok(());
        }
        let workspaces = read_workspaces(store, now)?;
        let candidates = list_candidates(&workspaces, &report.gone);
        let count = count_needed(store, &candidates, &workspaces, &report.gone, size - limit)?;
        if count == 0 {
            return Ok(());
        }
        let mut has_evicted = false;
        for (index, workspace) in workspaces.iter().enumerate() {
            let doomed: Vec<PinName> = candidates[..count]
                .iter()
                .filter(|candidate| candidate.workspace == index)
                .map(|candidate| candidate.name.clone())
                .collect();
            let busy = report.busy.len();
            evict(store, workspace, &doomed, "over max_total_size_mb", report)?;
            has_evicted |= !doomed.is_empty() && report.busy.len() == busy;
        }
        if report.dry_run || !has_evicted {
            return Ok(());
        }
        store.gc()?;
    }
}

/// Lists everything that may be evicted, in order of eviction.
fn list_candidates(workspaces: &[PrunableWorkspace], gone: &HashSet<PinName>) -> Vec<Candidate> {
    let mut all = Vec::new();
    for (index, workspace) in workspaces.iter().enumerate() {
        let rows: Vec<&PinName> =
            workspace.history.rows().map(|row| &row.first().pin.name).collect();
        let newest_turn = workspace.history.rows().next().and_then(|row| row.turn());
        for Checkpoint { pin, record } in &workspace.history.all {
            if record.pinned || workspace.needed.contains(&pin.name) || gone.contains(&pin.name) {
                continue;
            }
            let is_of_newest = newest_turn.is_some() && record.turn() == newest_turn;
            all.push(Candidate {
                time: record.moment(),
                name: pin.name.clone(),
                workspace: index,
                // A safety checkpoint is kept for as long as rows of its age exist, so that its
                // rollback can be undone.
                is_row: rows.contains(&&pin.name) || record.kind == Kind::Safety || is_of_newest,
                is_newest_row: rows.first() == Some(&&pin.name),
            });
        }
    }
    all.sort_by(|a, b| {
        let key = |c: &Candidate| (c.is_newest_row, c.is_row, c.time, c.name.seq);
        key(a).cmp(&key(b))
    });
    // The newest row of all stays even if it alone exceeds the limit.
    if all.last().is_some_and(|last| last.is_newest_row) {
        all.pop();
    }
    all
}

/// Returns how many of the candidates must be evicted to free `bytes`: at least one, if there are
/// any.
fn count_needed(
    store: &Store,
    candidates: &[Candidate],
    workspaces: &[PrunableWorkspace],
    gone: &HashSet<PinName>,
    bytes: u64,
) -> Result<usize, StoreError> {
    let mut going: HashSet<&PinName> = candidates.iter().map(|candidate| &candidate.name).collect();
    going.extend(gone);
    let all = workspaces.iter().flat_map(|workspace| &workspace.history.all);
    let staying = all.map(|known| &known.pin.name).filter(|name| !going.contains(name));
    let last_first = candidates.iter().rev().map(|candidate| &candidate.name);
    let order: Vec<PinName> = staying.chain(last_first).chain(gone).cloned().collect();
    let mut weights = store.weigh_pins(&order)?;
    let mut freed: u64 = weights.split_off(weights.len() - gone.len()).iter().sum();
    for (count, weight) in weights.iter().rev().take(candidates.len()).enumerate() {
        if freed >= bytes {
            return Ok(count);
        }
        freed += weight;
    }
    Ok(candidates.len())
}
