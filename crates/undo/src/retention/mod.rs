//! How much history is kept: limits of number, age and size.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use takeback_ledger::Time;
use takeback_tree::{AnyPath, GcError, PinName, Store, StoreError, WorkspaceGuard, WorkspaceId};

use crate::history::History;
use crate::keeper::Keeper;
use crate::notes::{self, Notes};
use crate::record::{Checkpoint, Kind};

/// What to prune by; what is not given is as configured.
#[derive(Clone, Copy, Debug, Default)]
pub struct PruneOptions {
    /// Workspaces that nobody touched for so long lose their history.
    pub retention_days: Option<u64>,
    /// How large the store may be.
    pub max_size_mb: Option<u64>,
    /// Keep the history of workspaces that are gone.
    pub keep_orphans: bool,
    /// Only say what would go.
    pub dry_run: bool,
}

/// What pruning did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// Whether nothing was really done.
    pub dry_run: bool,
    /// By workspace.
    pub workspaces: Vec<PrunedWorkspace>,
    /// Legacy archives that went.
    pub legacy: Vec<String>,
    /// Size of the store before.
    pub bytes_before: u64,
    /// Size of the store after; as before in a dry run.
    pub bytes_after: u64,
    /// Whether the store is still larger than it may be, because what is left is not evicted.
    pub over_limit: bool,
    /// Workspaces that were busy and are pruned next time.
    pub busy: Vec<AnyPath>,
    /// In a dry run: what would be gone by now.
    #[serde(skip)]
    gone: HashSet<PinName>,
}

/// What one workspace lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PrunedWorkspace {
    /// Where.
    pub path: AnyPath,
    /// How many rows.
    pub checkpoints: usize,
    /// How many steps of others, and what was kept to tell changes apart.
    pub steps: usize,
    /// Why, in words.
    pub because: &'static str,
}

/// What clearing deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names are those of SPEC.md")]
pub struct Cleared {
    pub checkpoints: usize,
    pub workspaces: usize,
    pub bytes: u64,
    /// Workspaces that somebody is using, and that keep theirs.
    pub busy: Vec<AnyPath>,
}

/// Pruning failed; what went before is gone.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[allow(missing_docs, reason = "each says what it is")]
pub enum PruneError {
    Store(#[from] StoreError),
    Gc(#[from] GcError),
    Io(#[from] io::Error),
}

/// How a workspace is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceState {
    /// It is there.
    Live,
    /// It is not, or cannot be reached.
    Orphan,
}

/// Something that can be evicted for its size.
struct Candidate {
    time: Time,
    name: PinName,
    workspace: usize,
    is_row: bool,
    is_last_row: bool,
}

/// A workspace with its history while it is pruned.
struct Workspace {
    id: WorkspaceId,
    path: PathBuf,
    last_seen: Time,
    history: History,
    needed: HashSet<PinName>,
}

impl Keeper {
    /// Enforces all limits now.
    pub fn prune(&self, options: &PruneOptions) -> Result<Pruned, PruneError> {
        let mut pruned = Pruned { dry_run: options.dry_run, ..Pruned::default() };
        let retention = match options.retention_days {
            Some(days) => Duration::from_secs(days.saturating_mul(86_400)),
            None => self.settings.retention(),
        };
        let oldest = self.now().minus(retention);
        self.prune_legacy(oldest, &mut pruned)?;
        if !self.has_store() {
            return Ok(pruned);
        }
        let store = self.store()?;
        pruned.bytes_before = store.bytes()?;
        let mut workspaces = workspaces(store, self.now())?;
        for workspace in &mut workspaces {
            self.prune_workspace(store, workspace, oldest, options, &mut pruned)?;
        }
        if !options.dry_run {
            self.forget_old_notes(store, &workspaces, oldest);
            store.gc()?;
        }
        let limit = options
            .max_size_mb
            .map_or(self.settings.max_total_size(), |mb| mb.saturating_mul(1 << 20));
        self.prune_size(store, limit, &mut pruned)?;
        if !options.dry_run {
            for workspace in workspaces.iter().filter(|workspace| workspace.last_seen < oldest) {
                if store.pin_names(&workspace.id)?.is_empty() {
                    store.forget_workspace(&workspace.id)?;
                }
            }
            // What was busy is tried again soon.
            if pruned.busy.is_empty() {
                notes::write(&self.last_prune(), &self.now())?;
            }
        }
        pruned.bytes_after = store.bytes()?;
        pruned.over_limit = !options.dry_run && pruned.bytes_after > limit;
        Ok(pruned)
    }

    /// When it was last pruned.
    pub(crate) fn last_prune(&self) -> PathBuf {
        self.checkpoints_directory().join(".last_prune")
    }

    /// Whether it is time to prune again without being asked.
    pub fn prune_is_due(&self) -> bool {
        if !self.settings.auto_prune || !self.settings.enabled || !self.has_store() {
            return false;
        }
        let interval = Duration::from_secs(self.settings.min_interval_hours.saturating_mul(3600));
        match notes::read::<Time>(&self.last_prune()) {
            // A time to come is no reason to wait for it.
            Some(last) => last <= self.now().minus(interval) || last > self.now(),
            None => true,
        }
    }

    /// Archives of older layouts.
    fn prune_legacy(&self, oldest: Time, pruned: &mut Pruned) -> io::Result<()> {
        for archive in self.legacy_archives()? {
            if archive.since.is_some_and(|since| since < oldest) {
                if !pruned.dry_run {
                    fs::remove_dir_all(self.checkpoints_directory().join(&archive.name))?;
                }
                pruned.legacy.push(archive.name);
            }
        }
        Ok(())
    }

    /// Age and number.
    fn prune_workspace(
        &self,
        store: &Store,
        workspace: &mut Workspace,
        oldest: Time,
        options: &PruneOptions,
        pruned: &mut Pruned,
    ) -> Result<(), PruneError> {
        let is_orphan = !workspace.path.exists();
        let keeps = is_orphan && (options.keep_orphans || !self.settings.delete_orphans);
        let (doomed, because) = if workspace.last_seen < oldest && !keeps {
            let because = if is_orphan { "gone for long" } else { "not touched for long" };
            (workspace.history.all.iter().collect(), because)
        } else {
            (workspace.beyond(self.settings.max_snapshots), "more than max_snapshots")
        };
        let doomed: Vec<PinName> = doomed
            .into_iter()
            .filter(|checkpoint| !checkpoint.record.pinned)
            .map(|checkpoint| checkpoint.pin.name.clone())
            .filter(|name| !workspace.needed.contains(name))
            .collect();
        self.evict(store, workspace, &doomed, because, pruned)
    }

    fn evict(
        &self,
        store: &Store,
        workspace: &Workspace,
        doomed: &[PinName],
        because: &'static str,
        pruned: &mut Pruned,
    ) -> Result<(), PruneError> {
        if doomed.is_empty() {
            return Ok(());
        }
        let path = AnyPath(workspace.path.clone());
        if pruned.dry_run {
            pruned.gone.extend(doomed.iter().cloned());
        } else {
            let Some(_guard) = wait_for(store, &workspace.id)? else {
                if !pruned.busy.contains(&path) {
                    pruned.busy.push(path);
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
        let known = pruned
            .workspaces
            .iter_mut()
            .find(|known| known.path == path && known.because == because);
        match known {
            Some(known) => {
                known.checkpoints += checkpoints;
                known.steps += steps;
            }
            None => pruned.workspaces.push(PrunedWorkspace { path, checkpoints, steps, because }),
        }
        Ok(())
    }

    /// Size: the oldest go first, wherever they are, until it fits; the newest row of each
    /// workspace last.
    fn prune_size(&self, store: &Store, limit: u64, pruned: &mut Pruned) -> Result<(), PruneError> {
        loop {
            let size = store.bytes()?;
            if size <= limit {
                return Ok(());
            }
            let workspaces = workspaces(store, self.now())?;
            let candidates = candidates(&workspaces, &pruned.gone);
            let count = excess(store, &candidates, &workspaces, &pruned.gone, size - limit)?;
            if count == 0 {
                return Ok(());
            }
            let mut evicted = false;
            for (index, workspace) in workspaces.iter().enumerate() {
                let doomed: Vec<PinName> = candidates[..count]
                    .iter()
                    .filter(|candidate| candidate.workspace == index)
                    .map(|candidate| candidate.name.clone())
                    .collect();
                let busy = pruned.busy.len();
                self.evict(store, workspace, &doomed, "over max_total_size_mb", pruned)?;
                evicted |= !doomed.is_empty() && pruned.busy.len() == busy;
            }
            if pruned.dry_run || !evicted {
                return Ok(());
            }
            store.gc()?;
        }
    }

    /// Deletes all checkpoints of all workspaces, pinned ones included, and frees their space.
    /// Workspaces that somebody is just using keep theirs.
    pub fn clear(&self) -> Result<Cleared, PruneError> {
        let mut cleared = Cleared::default();
        if !self.has_store() {
            return Ok(cleared);
        }
        let store = self.store()?;
        let before = store.bytes()?;
        for id in store.workspaces()? {
            let info = store.workspace_info(&id).ok().flatten();
            let path = info.map_or_else(|| AnyPath(id.to_string().into()), |info| info.path);
            match store.try_lock_workspace(&id)? {
                Some(guard) if !guard.has_unfinished_restore() => {
                    let rows = History::of(store, &id)?.rows().count();
                    let names = store.pin_names(&id)?;
                    cleared.workspaces += usize::from(!names.is_empty());
                    for name in names {
                        store.unpin(&name)?;
                    }
                    cleared.checkpoints += rows;
                }
                _ => cleared.busy.push(path),
            }
            store.forget_workspace(&id)?;
        }
        store.gc()?;
        self.failure_list().forget(Time(i64::MAX))?;
        cleared.bytes = before.saturating_sub(store.bytes()?);
        Ok(cleared)
    }

    /// Deletes the archives of older layouts.
    pub fn clear_legacy(&self) -> io::Result<()> {
        for archive in self.legacy_archives()? {
            fs::remove_dir_all(self.checkpoints_directory().join(archive.name))?;
        }
        Ok(())
    }

    /// Notes of sessions that are not heard of any more, and failures nobody cares about.
    fn forget_old_notes(&self, store: &Store, workspaces: &[Workspace], oldest: Time) {
        for directory in ["sessions", "calls"] {
            notes::remove_older(&self.checkpoints_directory().join(directory), oldest);
        }
        for workspace in workspaces {
            let notes = Notes::new(store.notes(&workspace.id));
            notes.forget_before(oldest);
            let yesterday = self.now().minus(RUNNING);
            notes.drop_calls(|call| call.time < yesterday);
        }
        let _ = self.failure_list().forget(oldest);
    }

    /// Archives of older layouts.
    pub(crate) fn legacy_archives(&self) -> io::Result<Vec<Archive>> {
        let directory = self.checkpoints_directory();
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut archives = Vec::new();
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if let Some(stamp) = name.strip_prefix("legacy-") {
                let since = jiff::civil::DateTime::strptime("%Y%m%d-%H%M%S", stamp).ok();
                let since = since.and_then(|since| since.to_zoned(jiff::tz::TimeZone::UTC).ok());
                let since = since.map(|since| Time(since.timestamp().as_millisecond()));
                archives.push(Archive { bytes: size_of(&directory.join(&name)), name, since });
            }
        }
        archives.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(archives)
    }
}

/// A call that began longer ago does not run any more.
const RUNNING: Duration = Duration::from_secs(86_400);

/// Waits a moment until nobody uses a workspace: nothing goes that somebody needs.
fn wait_for(store: &Store, id: &WorkspaceId) -> Result<Option<WorkspaceGuard>, StoreError> {
    const ATTEMPTS: u32 = 50;
    for attempt in 0..ATTEMPTS {
        if let Some(guard) = store.try_lock_workspace(id)? {
            return Ok(Some(guard).filter(|guard| !guard.has_unfinished_restore()));
        }
        if attempt + 1 < ATTEMPTS {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(None)
}

/// An archive of an older layout.
pub(crate) struct Archive {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    since: Option<Time>,
}

/// All bytes in a directory.
pub(crate) fn size_of(directory: &Path) -> u64 {
    let mut size = 0;
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => pending.push(entry.path()),
                Ok(metadata) => size += metadata.len(),
                Err(_) => {}
            }
        }
    }
    size
}

fn workspaces(store: &Store, now: Time) -> Result<Vec<Workspace>, StoreError> {
    let mut found = Vec::new();
    for id in store.workspaces()? {
        let history = History::of(store, &id)?;
        // If that is lost, the newest checkpoint tells.
        let info = store.workspace_info(&id).ok().flatten();
        let newest = history.all.last().map(|newest| newest.record.moment());
        let path = info.as_ref().map(|info| info.path.0.clone());
        let path = path.or_else(|| Some(history.all.last()?.record.workspace.0.clone()));
        let last_seen = info.map(|info| Time(info.last_seen)).or(newest).unwrap_or_default();
        let calls = history.open.iter().filter(|call| call.time >= now.minus(RUNNING));
        let in_use: HashSet<_> = calls.map(|call| call.tree).collect();
        let is_needed = |checkpoint: &&Checkpoint| in_use.contains(&checkpoint.pin.tree);
        let needed = history.all.iter().filter(is_needed).map(|known| known.pin.name.clone());
        let needed = needed.collect();
        let path = path.unwrap_or_else(|| PathBuf::from(id.to_string()));
        found.push(Workspace { id, path, last_seen, history, needed });
    }
    Ok(found)
}

impl Workspace {
    /// What is more than so many rows, and more than as many steps: the oldest.
    fn beyond(&self, limit: usize) -> Vec<&Checkpoint> {
        let rows: Vec<_> = self.history.rows().collect();
        let unpinned = rows.iter().filter(|row| !row.first().record.pinned);
        let kept: Vec<_> = unpinned.take(limit).collect();
        let mut steps = 0;
        let mut keep: HashSet<&PinName> = HashSet::new();
        let mut turns = HashSet::new();
        for (index, row) in kept.iter().enumerate() {
            keep.insert(&row.first().pin.name);
            steps += row.steps().count() - 1;
            // The newest turn keeps its steps however many there are.
            if index == 0 || steps <= limit {
                keep.extend(row.steps().map(|step| &step.pin.name));
                turns.extend(row.turn());
            }
        }
        let Some(oldest) = kept.last().map(|row| row.first().pin.name.seq) else {
            return if limit == 0 { self.history.all.iter().collect() } else { Vec::new() };
        };
        let goes = |checkpoint: &&Checkpoint| {
            let Checkpoint { pin, record } = *checkpoint;
            match (record.kind, record.turn()) {
                (Kind::Manual | Kind::Call, _) => !keep.contains(&pin.name),
                // What tells changes apart is of use only as long as its turn's steps are.
                (_, Some(turn)) => !turns.contains(&turn),
                (_, None) => pin.name.seq < oldest,
            }
        };
        self.history.all.iter().filter(goes).collect()
    }
}

/// Everything that may go, in the order in which it goes.
fn candidates(workspaces: &[Workspace], gone: &HashSet<PinName>) -> Vec<Candidate> {
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
                // Rollbacks can be undone for as long as rows of their age exist.
                is_row: rows.contains(&&pin.name) || record.kind == Kind::Safety || is_of_newest,
                is_last_row: rows.first() == Some(&&pin.name),
            });
        }
    }
    all.sort_by(|a, b| {
        let key = |c: &Candidate| (c.is_last_row, c.is_row, c.time, c.name.seq);
        key(a).cmp(&key(b))
    });
    // The very newest row stays even if it alone is too large.
    if all.last().is_some_and(|last| last.is_last_row) {
        all.pop();
    }
    all
}

/// How many of the candidates have to go to free so many bytes, at least one if there is any.
fn excess(
    store: &Store,
    candidates: &[Candidate],
    workspaces: &[Workspace],
    gone: &HashSet<PinName>,
    bytes: u64,
) -> Result<usize, StoreError> {
    let mut going: HashSet<&PinName> = candidates.iter().map(|candidate| &candidate.name).collect();
    going.extend(gone);
    let all = workspaces.iter().flat_map(|workspace| &workspace.history.all);
    let staying = all.map(|known| &known.pin.name).filter(|name| !going.contains(name));
    let last_first = candidates.iter().rev().map(|candidate| &candidate.name);
    let order: Vec<PinName> = staying.chain(last_first).chain(gone).cloned().collect();
    let mut weights = store.weigh(&order)?;
    let mut freed: u64 = weights.split_off(weights.len() - gone.len()).iter().sum();
    for (count, weight) in weights.iter().rev().take(candidates.len()).enumerate() {
        if freed >= bytes {
            return Ok(count);
        }
        freed += weight;
    }
    Ok(candidates.len())
}
