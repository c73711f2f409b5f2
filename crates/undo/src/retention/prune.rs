//! Pruning: enforces the limits of age and number, and hands over to the size cap.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use takeback_ledger::Time;
use takeback_tree::{AnyPath, PinName, Store, StoreError, WorkspaceGuard, WorkspaceId};

use super::PruneError;
use super::legacy::prune_archives;
use super::size_cap::enforce_size_cap;
use crate::Opened;
use crate::history::History;
use crate::history::record::{Checkpoint, Kind};
use crate::hook::state::{self, WorkspaceState};

/// The limits to prune by. A limit that is not given defaults to the configured one.
#[derive(Clone, Copy, Debug, Default)]
pub struct PruneOptions {
    /// The age after which an unused workspace loses its history.
    pub retention_days: Option<u64>,
    /// The size up to which the store may grow.
    pub max_size_mb: Option<u64>,
    /// True to keep the history of workspaces whose directory is gone.
    pub keep_orphans: bool,
    /// True to report what would be deleted, and delete nothing.
    pub dry_run: bool,
}

/// The checkpoints that pruning deleted, or would delete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct PruneReport {
    pub dry_run: bool,
    pub workspaces: Vec<PrunedWorkspace>,
    /// The names of the archives of older layouts that were deleted.
    pub legacy: Vec<String>,
    pub bytes_before: u64,
    /// The size of the store afterwards; in a dry run, the size before.
    pub bytes_after: u64,
    /// True if the store is still over its size cap, because the remaining checkpoints are never
    /// evicted.
    pub over_limit: bool,
    /// The workspaces that were busy. They are pruned next time.
    pub busy: Vec<AnyPath>,
    /// The pins that a dry run would have deleted so far.
    #[serde(skip)]
    pub(super) gone: HashSet<PinName>,
}

/// The checkpoints that one workspace lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct PrunedWorkspace {
    pub path: AnyPath,
    /// The number of rows.
    pub checkpoints: usize,
    /// The number of steps of other rows, and of states between calls.
    pub steps: usize,
    /// The limit that was exceeded, in words.
    pub because: &'static str,
}

/// A workspace and its history, while it is pruned.
pub(super) struct PrunableWorkspace {
    pub(super) id: WorkspaceId,
    path: PathBuf,
    last_seen: Time,
    pub(super) history: History,
    /// The pins of the states in which calls that are still running began.
    pub(super) needed: HashSet<PinName>,
}

/// The age at which a call can no longer be running.
const MAX_CALL_DURATION: Duration = Duration::from_secs(86_400);

/// Enforces all limits now.
pub fn prune(opened: &Opened, options: &PruneOptions) -> Result<PruneReport, PruneError> {
    let mut report = PruneReport { dry_run: options.dry_run, ..PruneReport::default() };
    let retention = match options.retention_days {
        Some(days) => Duration::from_secs(days.saturating_mul(86_400)),
        None => opened.settings.retention(),
    };
    let oldest = opened.now().minus(retention);
    prune_archives(opened, oldest, &mut report)?;
    if !opened.has_store() {
        return Ok(report);
    }
    let store = opened.store()?;
    report.bytes_before = store.measure_size()?;
    let mut workspaces = read_workspaces(store, opened.now())?;
    for workspace in &mut workspaces {
        prune_workspace(opened, workspace, oldest, options, &mut report)?;
    }
    if !options.dry_run {
        forget_old_state(opened, store, &workspaces, oldest);
        store.gc()?;
    }
    let limit = options
        .max_size_mb
        .map_or(opened.settings.max_total_size(), |mb| mb.saturating_mul(1 << 20));
    enforce_size_cap(store, opened.now(), limit, &mut report)?;
    if !options.dry_run {
        for workspace in workspaces.iter().filter(|workspace| workspace.last_seen < oldest) {
            if store.pin_names(&workspace.id)?.is_empty() {
                store.forget_workspace(&workspace.id)?;
            }
        }
        // A prune that found a busy workspace is repeated soon.
        if report.busy.is_empty() {
            state::write(&opened.last_prune(), &opened.now())?;
        }
    }
    report.bytes_after = store.measure_size()?;
    report.over_limit = !options.dry_run && report.bytes_after > limit;
    Ok(report)
}

/// Returns true if an automatic prune is due.
pub fn is_prune_due(opened: &Opened) -> bool {
    let settings = &opened.settings;
    if !settings.auto_prune || !settings.enabled || !opened.has_store() {
        return false;
    }
    let interval = Duration::from_secs(settings.min_interval_hours.saturating_mul(3600));
    match state::read::<Time>(&opened.last_prune()) {
        // If the time is in the future, the clock was set back: that is no reason to wait.
        Some(last) => last <= opened.now().minus(interval) || last > opened.now(),
        None => true,
    }
}

/// Enforces the limits of age and number in one workspace.
fn prune_workspace(
    opened: &Opened,
    workspace: &PrunableWorkspace,
    oldest: Time,
    options: &PruneOptions,
    report: &mut PruneReport,
) -> Result<(), PruneError> {
    let is_orphan = !workspace.path.exists();
    let is_kept = is_orphan && (options.keep_orphans || !opened.settings.delete_orphans);
    let (doomed, because) = if workspace.last_seen < oldest && !is_kept {
        let because = if is_orphan { "gone for too long" } else { "unused for too long" };
        (workspace.history.all.iter().collect(), because)
    } else {
        (workspace.exceeding(opened.settings.max_snapshots), "more than max_snapshots")
    };
    let doomed: Vec<PinName> = doomed
        .into_iter()
        .filter(|checkpoint| !checkpoint.record.pinned)
        .map(|checkpoint| checkpoint.pin.name.clone())
        .filter(|name| !workspace.needed.contains(name))
        .collect();
    evict(opened.store()?, workspace, &doomed, because, report)
}

/// Deletes checkpoints of a workspace, unless another process is using it.
pub(super) fn evict(
    store: &Store,
    workspace: &PrunableWorkspace,
    doomed: &[PinName],
    because: &'static str,
    report: &mut PruneReport,
) -> Result<(), PruneError> {
    if doomed.is_empty() {
        return Ok(());
    }
    let path = AnyPath(workspace.path.clone());
    if report.dry_run {
        report.gone.extend(doomed.iter().cloned());
    } else {
        let Some(_guard) = wait_for_workspace(store, &workspace.id)? else {
            if !report.busy.contains(&path) {
                report.busy.push(path);
            }
            return Ok(());
        };
        for name in doomed {
            store.unpin(name)?;
        }
    }
    let rows: HashSet<&PinName> =
        workspace.history.rows().map(|row| &row.first().pin.name).collect();
    let checkpoints = doomed.iter().filter(|name| rows.contains(name)).count();
    let steps = doomed.len() - checkpoints;
    let mut known = report.workspaces.iter_mut();
    match known.find(|known| known.path == path && known.because == because) {
        Some(known) => {
            known.checkpoints += checkpoints;
            known.steps += steps;
        }
        None => report.workspaces.push(PrunedWorkspace { path, checkpoints, steps, because }),
    }
    Ok(())
}

/// Forgets sessions that have not reported for a long time, calls that can no longer be running,
/// and old failures.
fn forget_old_state(
    opened: &Opened,
    store: &Store,
    workspaces: &[PrunableWorkspace],
    oldest: Time,
) {
    for directory in ["sessions", "calls", "told"] {
        state::remove_older(&opened.checkpoints_directory().join(directory), oldest);
    }
    for workspace in workspaces {
        let hook_state = WorkspaceState::new(store.notes(&workspace.id));
        hook_state.forget_before(oldest);
        let yesterday = opened.now().minus(MAX_CALL_DURATION);
        hook_state.drop_open_calls(|call| call.time < yesterday);
    }
    let _ = opened.failure_log().forget_before(oldest);
}

/// Waits until no other process uses a workspace. Returns `None` if it stays in use, or if a
/// restore in it was interrupted.
pub(super) fn wait_for_workspace(
    store: &Store,
    id: &WorkspaceId,
) -> Result<Option<WorkspaceGuard>, StoreError> {
    Ok(store.wait_for_workspace(id)?.filter(|guard| !guard.has_unfinished_restore()))
}

/// Reads all workspaces with their histories.
pub(super) fn read_workspaces(
    store: &Store,
    now: Time,
) -> Result<Vec<PrunableWorkspace>, StoreError> {
    let mut found = Vec::new();
    for id in store.workspaces()? {
        let history = History::read(store, &id)?;
        // If the workspace's own file is lost, use the time of the newest checkpoint.
        let info = store.workspace_info(&id).ok().flatten();
        let newest = history.all.last().map(|newest| newest.record.moment());
        let path = info.as_ref().map(|info| info.path.0.clone());
        let path = path.or_else(|| Some(history.all.last()?.record.workspace.0.clone()));
        let last_seen = info.map(|info| Time(info.last_seen)).or(newest).unwrap_or_default();
        let running = history.open.iter().filter(|call| call.time >= now.minus(MAX_CALL_DURATION));
        let in_use: HashSet<_> = running.map(|call| call.tree).collect();
        let is_needed = |checkpoint: &&Checkpoint| in_use.contains(&checkpoint.pin.tree);
        let needed = history.all.iter().filter(is_needed).map(|known| known.pin.name.clone());
        let needed = needed.collect();
        let path = path.unwrap_or_else(|| PathBuf::from(id.to_string()));
        found.push(PrunableWorkspace { id, path, last_seen, history, needed });
    }
    Ok(found)
}

impl PrunableWorkspace {
    /// Lists the checkpoints beyond the newest `limit` rows, and the steps beyond the newest
    /// `limit` steps.
    fn exceeding(&self, limit: usize) -> Vec<&Checkpoint> {
        let rows: Vec<_> = self.history.rows().collect();
        let unpinned = rows.iter().filter(|row| !row.first().record.pinned);
        let kept: Vec<_> = unpinned.take(limit).collect();
        let mut steps = 0;
        let mut keep: HashSet<&PinName> = HashSet::new();
        let mut turns = HashSet::new();
        for (index, row) in kept.iter().enumerate() {
            keep.insert(&row.first().pin.name);
            steps += row.steps().count() - 1;
            // The newest turn keeps all its steps, even beyond the limit.
            if index == 0 || steps <= limit {
                keep.extend(row.steps().map(|step| &step.pin.name));
                turns.extend(row.turn());
            }
        }
        let Some(oldest) = kept.last().map(|row| row.first().pin.name.seq) else {
            return if limit == 0 { self.history.all.iter().collect() } else { Vec::new() };
        };
        let is_exceeding = |checkpoint: &&Checkpoint| {
            let Checkpoint { pin, record } = *checkpoint;
            match (record.kind, record.turn()) {
                (Kind::Manual | Kind::Call, _) => !keep.contains(&pin.name),
                // States between calls are useful only as long as the steps of their turn exist.
                (_, Some(turn)) => !turns.contains(&turn),
                (_, None) => pin.name.seq < oldest,
            }
        };
        self.history.all.iter().filter(is_exceeding).collect()
    }
}
