//! The size cap: evicts checkpoints until the store fits. In each round, each workspace loses its
//! oldest checkpoint.

use std::collections::HashSet;

use takeback_ledger::Time;
use takeback_tree::{PinName, Store, StoreError};

use super::PruneError;
use super::prune::{PrunableWorkspace, PruneReport, evict, read_workspaces};
use crate::Opened;
use crate::history::record::{Checkpoint, Kind};

/// A checkpoint that may be evicted.
struct Candidate {
    time: Time,
    name: PinName,
    workspace: usize,
    /// True if the checkpoint is a row, a safety checkpoint or part of the newest turn. Such
    /// checkpoints are evicted last.
    is_row: bool,
    /// The number of older candidates in the same workspace that have the same value of `is_row`.
    /// Candidates are sorted by this number, so that each round evicts one checkpoint per
    /// workspace.
    round: usize,
}

/// If the store is larger than `limit`, evicts checkpoints until it is no larger than `target`.
pub(super) fn enforce_size_cap(
    opened: &Opened,
    limit: u64,
    target: u64,
    report: &mut PruneReport,
) -> Result<(), PruneError> {
    let store = opened.store()?;
    if store.measure_size()? <= limit {
        return Ok(());
    }
    loop {
        let size = store.measure_size()?;
        if size <= target {
            return Ok(());
        }
        let workspaces = read_workspaces(opened)?;
        let candidates = list_candidates(&workspaces, &report.gone);
        let count = count_needed(store, &candidates, &workspaces, &report.gone, size - target)?;
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

/// Returns true if there is a checkpoint that the size cap may evict.
pub(super) fn has_candidates(opened: &Opened) -> Result<bool, StoreError> {
    Ok(!list_candidates(&read_workspaces(opened)?, &HashSet::new()).is_empty())
}

/// Lists the checkpoints that may be evicted, in order of eviction. In each round, each workspace
/// loses its oldest checkpoint.
fn list_candidates(workspaces: &[PrunableWorkspace], gone: &HashSet<PinName>) -> Vec<Candidate> {
    let mut all = Vec::new();
    for (index, workspace) in workspaces.iter().enumerate() {
        all.extend(list_candidates_of(workspace, index, gone));
    }
    all.sort_by(|a, b| {
        let key = |c: &Candidate| (c.is_row, c.round, c.time, c.name.seq);
        key(a).cmp(&key(b))
    });
    all
}

fn list_candidates_of(
    workspace: &PrunableWorkspace,
    index: usize,
    gone: &HashSet<PinName>,
) -> Vec<Candidate> {
    let rows: Vec<&PinName> = workspace.history.rows().map(|row| &row.first().pin.name).collect();
    let newest_turn = workspace.history.rows().next().and_then(|row| row.turn());
    // The newest row is kept even if it alone exceeds the limit. The newest safety checkpoint is
    // kept too, so that the last rollback can always be undone.
    let kept = [rows.first().copied(), workspace.newest_safety()];
    let mut rounds = [0, 0];
    let mut all = Vec::new();
    for checkpoint in &workspace.history.all {
        let Checkpoint { pin, record } = checkpoint;
        let is_kept = kept.contains(&Some(&pin.name)) || workspace.is_protected(checkpoint);
        if is_kept || gone.contains(&pin.name) {
            continue;
        }
        let is_of_newest = newest_turn.is_some() && record.turn() == newest_turn;
        // A safety checkpoint is kept for as long as rows of the same age exist, so that its
        // rollback can be undone.
        let is_row = rows.contains(&&pin.name) || record.kind == Kind::Safety || is_of_newest;
        let round = &mut rounds[usize::from(is_row)];
        let (time, name) = (record.moment(), pin.name.clone());
        all.push(Candidate { time, name, workspace: index, is_row, round: *round });
        *round += 1;
    }
    all
}

/// Returns how many of the candidates must be evicted to free `bytes`, given that the pins in
/// `gone` are deleted as well. Returns the number of all candidates if they do not suffice.
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
