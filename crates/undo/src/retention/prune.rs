//! Pruning: enforces the limits on age and number, and then the size cap.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, io};

use rustix::fs::FlockOperation;
use serde::Serialize;
use takeback_base::durable;
use takeback_ledger::Time;
use takeback_tree::{AnyPath, Oid, Pin, PinName, Store, StoreError, WorkspaceGuard, WorkspaceId};

use super::PruneError;
use super::days_seen::{ClockJump, DaysSeen};
use super::growth::note_size;
use super::legacy::prune_archives;
use super::size_cap::enforce_size_cap;
use crate::Opened;
use crate::fork::finish_forks;
use crate::history::History;
use crate::history::record::{Checkpoint, Kind};
use crate::hook::held::discard_old_held_files;
use crate::hook::state::{self, OpenCall, WorkspaceState};

/// The limits to prune by. A limit that is not given defaults to the configured one.
#[derive(Clone, Copy, Debug, Default)]
pub struct PruneOptions {
    /// The age after which an unused workspace loses its history.
    pub retention_days: Option<u64>,
    /// The maximum size of the store.
    pub max_size_mb: Option<u64>,
    /// True if workspaces whose directory no longer exists keep their history, regardless of its
    /// age.
    pub keep_orphans: bool,
    /// True if workspaces whose directory no longer exists lose their history, regardless of its
    /// age.
    pub delete_orphans: bool,
    /// True if an extra tenth of the size cap is freed, so that the next prune is not due right
    /// away.
    pub headroom: bool,
    /// True if the prune deletes nothing and only reports what it would delete.
    pub dry_run: bool,
}

/// The checkpoints that pruning deleted, or would delete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct PruneReport {
    pub dry_run: bool,
    pub workspaces: Vec<PrunedWorkspace>,
    /// The names of the deleted archives of repositories in older layouts.
    pub legacy: Vec<String>,
    pub bytes_before: u64,
    /// The size of the store after the prune; in a dry run, its present size.
    pub bytes_after: u64,
    /// True if the store is still over its size cap, because the remaining checkpoints are never
    /// evicted or their workspaces are in use. A dry run knows this only if it would delete
    /// nothing.
    pub over_limit: bool,
    /// The workspaces that another process was using. They are pruned next time.
    pub busy: Vec<AnyPath>,
    /// A span of time that does not count toward the age of checkpoints, because takeback was not
    /// running or the clock jumped.
    pub clock_jump: Option<ClockJump>,
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
    /// The number of other checkpoints, such as steps and states between calls.
    pub steps: usize,
    /// The reason for the deletion, in words.
    pub because: &'static str,
}

/// A workspace that is being pruned, and its history.
pub(super) struct PrunableWorkspace {
    pub(super) id: WorkspaceId,
    path: PathBuf,
    last_seen: Time,
    pub(super) history: History,
    /// The pins that hold the states before the calls that are still running.
    pub(super) needed: HashSet<PinName>,
}

/// The age at which a call can no longer be running, in days on which takeback ran. The second day
/// allows for a clock that jumps while a call is running.
const MAX_CALL_DAYS: u64 = 2;

/// Enforces all limits now.
///
/// ```
/// use takeback_undo::history::{open_workspace, take_checkpoint};
/// use takeback_undo::{CheckpointOptions, OpenOptions, Opened, PruneOptions, retention};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let project = scratch.path().join("shop");
/// # std::fs::create_dir(&project)?;
/// # std::fs::write(project.join("cart.rs"), "struct Cart;\n")?;
/// # let opened = Opened::new(OpenOptions::new(scratch.path().join("home")));
/// let workspace = open_workspace(&opened, &project)?;
/// let options = CheckpointOptions { name: Some("start".into()), ..CheckpointOptions::default() };
/// take_checkpoint(&opened, &workspace, &options)?;
/// let options = PruneOptions { dry_run: true, ..PruneOptions::default() };
/// let report = retention::prune(&opened, &options)?;
/// // Nothing exceeds a limit.
/// assert!(report.workspaces.is_empty());
/// # Ok(())
/// # }
/// ```
pub fn prune(opened: &Opened, options: &PruneOptions) -> Result<PruneReport, PruneError> {
    // Each of two concurrent prunes would evict enough to meet the size cap, so together they would
    // evict too much.
    let is_alone = options.dry_run || !opened.has_store();
    let _lock = if is_alone { None } else { Some(lock_pruning(opened)?) };
    prune_locked(opened, options)
}

fn prune_locked(opened: &Opened, options: &PruneOptions) -> Result<PruneReport, PruneError> {
    let mut report = PruneReport { dry_run: options.dry_run, ..PruneReport::default() };
    let days = if options.dry_run { DaysSeen::read(opened) } else { DaysSeen::note_today(opened) };
    let retention = options.retention_days.unwrap_or(opened.settings.retention_days);
    let oldest = days.cutoff(opened.now(), retention);
    report.clock_jump = days.find_jump(opened.now(), retention);
    prune_archives(opened, oldest, &mut report)?;
    if !opened.has_store() {
        return Ok(report);
    }
    let store = opened.store()?;
    report.bytes_before = store.measure_size()?;
    let workspaces = read_workspaces(opened)?;
    for workspace in &workspaces {
        prune_workspace(opened, workspace, oldest, options, &mut report)?;
    }
    if !options.dry_run {
        finish_forks(opened);
        forget_old_state(opened, store, &workspaces, oldest);
        store.gc()?;
    }
    let limit = options
        .max_size_mb
        .map_or(opened.settings.max_total_size(), |mb| mb.saturating_mul(1 << 20));
    let target = if options.headroom { limit - limit / 10 } else { limit };
    enforce_size_cap(opened, limit, target, &mut report)?;
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
    let is_final = !options.dry_run || report.workspaces.is_empty();
    report.over_limit = is_final && report.bytes_after > limit;
    if !options.dry_run {
        state::write(&opened.last_size(), &report.bytes_after)?;
        note_size(opened, report.bytes_after);
    }
    Ok(report)
}

/// Waits until no other process is pruning. Closing the file releases the lock.
fn lock_pruning(opened: &Opened) -> io::Result<fs::File> {
    let file = durable::open_file(&opened.checkpoints_directory().join(".prune_lock"))?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// Prunes if a prune is due or the store is over its size cap. This lists all files in the store,
/// so it must not run while an agent is waiting.
pub fn prune_if_due(opened: &Opened) -> Result<(), PruneError> {
    let is_due = || is_prune_due(opened) || is_size_cap_exceeded(opened);
    if !is_due() {
        return Ok(());
    }
    let _lock = lock_pruning(opened)?;
    // Another process may have pruned in the meantime.
    if is_due() {
        prune_locked(opened, &PruneOptions { headroom: true, ..PruneOptions::default() })?;
    }
    Ok(())
}

/// Returns true if an automatic prune is due.
pub fn is_prune_due(opened: &Opened) -> bool {
    if !opened.settings.auto_prune || !opened.settings.enabled || !opened.has_store() {
        return false;
    }
    let hours = opened.settings.min_interval_hours;
    let interval = Duration::from_secs(hours.saturating_mul(3600));
    match state::read::<Time>(&opened.last_prune()) {
        // If the time is in the future, the clock was set back. That is no reason to wait.
        Some(last) => last <= opened.now().minus(interval) || last > opened.now(),
        None => true,
    }
}

/// Returns true if the store is over its size cap and automatic pruning may help. This lists all
/// files in the store, so it must not run while an agent is waiting.
fn is_size_cap_exceeded(opened: &Opened) -> bool {
    is_over_cap(opened, |store| {
        let size = store.measure_size()?;
        note_size(opened, size);
        Ok(size)
    })
}

/// Returns true if the packs alone are over the size cap and automatic pruning may help. This is
/// cheap: there are few packs.
pub fn has_packs_over_size_cap(opened: &Opened) -> bool {
    is_over_cap(opened, Store::measure_packs)
}

fn is_over_cap(opened: &Opened, measure: impl Fn(&Store) -> Result<u64, StoreError>) -> bool {
    if !opened.settings.auto_prune || !opened.settings.enabled || !opened.has_store() {
        return false;
    }
    let Ok(size) = opened.store().and_then(measure) else { return false };
    let limit = opened.settings.max_total_size();
    // If the last prune could not bring the store below the cap, pruning is repeated only once the
    // store has grown.
    let left = state::read::<u64>(&opened.last_size()).filter(|left| *left > limit);
    size > limit && left.is_none_or(|left| size > left.saturating_add(limit / 20))
}

/// Deletes a workspace's checkpoints beyond `max_snapshots`, if pruning is automatic. The space is
/// freed only by the next prune.
pub fn limit_rows(opened: &Opened, id: &WorkspaceId) -> Result<(), PruneError> {
    if !opened.settings.auto_prune || !opened.settings.enabled {
        return Ok(());
    }
    let cutoff = DaysSeen::note_today(opened).cutoff(opened.now(), MAX_CALL_DAYS);
    let workspace = read_workspace(opened.store()?, id, cutoff)?;
    let doomed = workspace.list_exceeding(opened.settings.max_snapshots);
    let mut report = PruneReport::default();
    evict(opened.store()?, &workspace, &doomed, TOO_MANY, &mut report)
}

/// The reason for deleting checkpoints beyond `max_snapshots`.
const TOO_MANY: &str = "more than max_snapshots";

/// Enforces the limits on age and number in one workspace.
fn prune_workspace(
    opened: &Opened,
    workspace: &PrunableWorkspace,
    oldest: Time,
    options: &PruneOptions,
    report: &mut PruneReport,
) -> Result<(), PruneError> {
    // A directory that cannot be reached, for instance on a failing disk, may still exist.
    let is_orphan = !workspace.path.try_exists().unwrap_or(true);
    let is_kept = is_orphan && (options.keep_orphans || !opened.settings.delete_orphans);
    let is_old = workspace.last_seen < oldest && !is_kept;
    let (doomed, because) = match () {
        () if is_orphan && options.delete_orphans => {
            (workspace.list_unprotected(), "the directory is gone")
        }
        () if is_old && is_orphan => (workspace.list_unprotected(), "gone for too long"),
        () if is_old => (workspace.list_unprotected(), "unused for too long"),
        () => (workspace.list_exceeding(opened.settings.max_snapshots), TOO_MANY),
    };
    evict(opened.store()?, workspace, &doomed, because, report)
}

/// Deletes checkpoints of a workspace, unless another process is using the workspace.
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
        // Another process may have pruned since the history was read.
        History::read(store, &workspace.id)?.keep_traces(store, doomed);
        unpin_all(store, workspace, doomed)?;
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

/// Deletes pins of a locked workspace. Skips pins that have changed because another process
/// renumbered the history, and pins that are needed by calls that began after the pins were listed.
fn unpin_all(
    store: &Store,
    workspace: &PrunableWorkspace,
    doomed: &[PinName],
) -> Result<(), StoreError> {
    let open_calls = WorkspaceState::new(store.notes(&workspace.id)).open_calls();
    let known = workspace.history.open.iter().map(|call| (&call.session, &call.call));
    let known: HashSet<_> = known.collect();
    let new_calls = open_calls.iter().filter(|call| !known.contains(&(&call.session, &call.call)));
    let in_use: HashSet<Oid> = new_calls.map(|call| call.tree).collect();
    let pins = workspace.history.all.iter().map(|known| (&known.pin.name, &known.pin));
    let pins: HashMap<&PinName, &Pin> = pins.collect();
    for name in doomed {
        let Some(pin) = pins.get(name).filter(|pin| !in_use.contains(&pin.tree)) else { continue };
        if store.pin_id(name)? == Some(pin.id) {
            store.unpin(name)?;
        }
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
    let oldest_call = DaysSeen::read(opened).cutoff(opened.now(), MAX_CALL_DAYS);
    for directory in ["sessions", "calls", "told"] {
        state::remove_older(&opened.checkpoints_directory().join(directory), oldest);
    }
    discard_old_held_files(opened, oldest_call);
    for workspace in workspaces {
        let hook_state = WorkspaceState::new(store.notes(&workspace.id));
        hook_state.forget_before(oldest);
        hook_state.drop_open_calls(|call| call.time < oldest_call);
    }
    let _ = opened.failure_log().forget_before(oldest);
}

/// Waits until no other process is using a workspace. Returns `None` if the workspace remains in
/// use, or if a restore in it was interrupted.
pub(crate) fn wait_for_workspace(
    store: &Store,
    id: &WorkspaceId,
) -> Result<Option<WorkspaceGuard>, StoreError> {
    Ok(store.wait_for_workspace(id)?.filter(|guard| !guard.has_unfinished_restore()))
}

/// Reads all workspaces with their histories.
pub(super) fn read_workspaces(opened: &Opened) -> Result<Vec<PrunableWorkspace>, StoreError> {
    let store = opened.store()?;
    let oldest_call = DaysSeen::read(opened).cutoff(opened.now(), MAX_CALL_DAYS);
    store.workspaces()?.iter().map(|id| read_workspace(store, id, oldest_call)).collect()
}

/// Reads one workspace, in order to delete some of its checkpoints now.
pub(super) fn read_prunable(
    opened: &Opened,
    id: &WorkspaceId,
) -> Result<PrunableWorkspace, StoreError> {
    let oldest_call = DaysSeen::read(opened).cutoff(opened.now(), MAX_CALL_DAYS);
    read_workspace(opened.store()?, id, oldest_call)
}

/// Reads a workspace with its history. Calls that have begun since `oldest_call` may still be
/// running.
fn read_workspace(
    store: &Store,
    id: &WorkspaceId,
    oldest_call: Time,
) -> Result<PrunableWorkspace, StoreError> {
    let history = History::read(store, id)?;
    // If the workspace's own file is lost, use the path and the time of the newest checkpoint.
    let info = store.workspace_info(id).ok().flatten();
    let newest = history.all.last().map(|newest| newest.record.moment());
    let path = info.as_ref().map(|info| info.path.0.clone());
    let path = path.or_else(|| Some(history.all.last()?.record.workspace.0.clone()));
    let last_seen = info.map(|info| Time(info.last_seen)).or(newest).unwrap_or_default();
    let running = history.open.iter().filter(|call| call.time >= oldest_call);
    // Of several checkpoints with the same tree, one suffices. The newest is kept, because rows are
    // evicted oldest first.
    let find_start = |call: &OpenCall| {
        let known = history.all.iter().filter(|known| known.pin.tree == call.tree);
        known.max_by_key(|known| (known.pin.name.seq <= call.seq, known.pin.name.seq))
    };
    let needed = running.filter_map(find_start).map(|known| known.pin.name.clone()).collect();
    let path = path.unwrap_or_else(|| PathBuf::from(id.to_string()));
    Ok(PrunableWorkspace { id: id.clone(), path, last_seen, history, needed })
}

impl PrunableWorkspace {
    /// Returns true if a checkpoint is never deleted: it has a name, it is pinned, or a running
    /// call needs it.
    pub(super) fn is_protected(&self, checkpoint: &Checkpoint) -> bool {
        checkpoint.record.is_protected() || self.needed.contains(&checkpoint.pin.name)
    }

    /// Returns the newest safety checkpoint, with which the last rollback can be undone.
    pub(super) fn newest_safety(&self) -> Option<&PinName> {
        let mut newest_first = self.history.all.iter().rev();
        let safety = newest_first.find(|known| known.record.kind == Kind::Safety);
        safety.map(|known| &known.pin.name)
    }

    /// Lists all checkpoints that are not protected.
    fn list_unprotected(&self) -> Vec<PinName> {
        let all = self.history.all.iter();
        all.filter(|known| !self.is_protected(known)).map(|known| known.pin.name.clone()).collect()
    }

    /// Lists the checkpoints beyond a limit on rows and steps, except protected ones and the newest
    /// safety checkpoint.
    fn list_exceeding(&self, limit: usize) -> Vec<PinName> {
        let newest_safety = self.newest_safety();
        // The newest row is always kept.
        let all = self.exceeding(limit.max(1)).into_iter();
        all.filter(|known| !self.is_protected(known) && Some(&known.pin.name) != newest_safety)
            .map(|known| known.pin.name.clone())
            .collect()
    }

    /// Lists the checkpoints beyond the newest `limit` rows, and the steps beyond the newest
    /// `limit` steps. Protected rows do not count toward the limit.
    fn exceeding(&self, limit: usize) -> Vec<&Checkpoint> {
        let rows: Vec<_> = self.history.rows().collect();
        let unprotected = rows.iter().filter(|row| !row.first().record.is_protected());
        let kept: Vec<_> = unprotected.take(limit).collect();
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
            // A step may have the only copy of a path that its row does not cover.
            let first = &row.first().record;
            let needed = row.steps().filter(|step| step.record.may_cover_more_than(first));
            keep.extend(needed.map(|step| &step.pin.name));
        }
        let Some(oldest) = kept.last().map(|row| row.first().pin.name.seq) else {
            return Vec::new();
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
