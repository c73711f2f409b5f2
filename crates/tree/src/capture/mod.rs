//! Capture: workspace → tree.
//!
//! 1. Check everything that the last capture saw: one `lstat` per file (`check`).
//! 2. List the changed directories and read the changed files, in parallel and straight into one
//!    pack (`scan`).
//! 3. Build new trees along the changed paths (`state`).
//!
//! The result also lists the paths that were not captured.

mod budget;
pub(crate) mod cache;
mod check;
mod coverage;
pub(crate) mod databases;
mod gitignore;
pub(crate) mod kept;
mod known;
pub(crate) mod limit;
mod read;
mod scan;
mod sink;
mod state;
mod summary;

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use takeback_base::paths;
use takeback_base::text::format_bytes;

use crate::beneath::{Root, Stat};
use crate::git::GitDirectory;
use crate::oid::Oid;
use crate::pack::write::PackWriter;
use crate::path::RelPath;
use crate::rules::{CaptureRules, Filter};
use crate::store::{Store, StoreError};
use cache::{CacheHead, Cause, Cutoff, FileClass, Reach, StatCache};
use check::DirectoryTask;
use coverage::Coverage;
use known::KnownState;
use scan::{ContentSource, ScanResults, Scanner};
use sink::ObjectSink;

/// The options for a capture.
#[derive(Clone, Debug)]
pub struct CaptureOptions<'a> {
    /// The rules that determine what is captured.
    pub rules: &'a CaptureRules,
    /// Files and directories that are captured regardless of the rules.
    pub named: &'a [RelPath],
    /// Directories whose ignored files are also captured. Directories inside them that can be
    /// regenerated, such as `node_modules`, are still left out.
    pub swept: &'a [RelPath],
    /// The current time, taken before the capture begins. The next capture rereads all files that
    /// changed shortly before this time or after it.
    pub now: SystemTime,
}

/// A captured state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capture {
    /// The tree of the state. Its id identifies the state.
    pub tree: Oid,
    /// The number of files and symlinks in the tree.
    pub files: u64,
    /// The topmost paths that are not in the tree, sorted.
    pub uncovered: Vec<Uncovered>,
    /// The databases that were being written to each time they were read. Their files in the tree
    /// may be inconsistent with each other. Sorted.
    pub unsettled: Vec<RelPath>,
    /// The files that are setuid or setgid for another user or group. The tree omits these bits,
    /// because a restored file would belong to the current user. Sorted.
    pub unprivileged: Vec<RelPath>,
    /// The `.gitignore` files that this capture read but did not apply, because they and the
    /// `.gitignore` files above them have more than [`crate::MAX_PATTERNS`] patterns in total.
    /// Sorted.
    pub unapplied: Vec<RelPath>,
    /// True if the git index is split and its shared part cannot be read. In that case, ignored
    /// files that git tracks may be missing from the tree.
    pub incomplete_index: bool,
    /// The packs that were found to be lost or damaged. All objects in them that this state needs
    /// were stored again.
    pub damaged: Vec<String>,
    /// The filter that a restore needs.
    pub filter: Filter,
}

/// A path that a capture does not cover, with everything below it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Uncovered {
    pub path: RelPath,
    #[serde(flatten)]
    pub reason: UncoveredReason,
}

/// The reason why a path is not covered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum UncoveredReason {
    /// The file is larger than the limit for its class.
    TooLarge { size: u64 },
    /// The path was named or swept, but exceeds the budget for such paths.
    OverBudget { size: u64 },
    /// A configured or built-in rule excludes the path.
    Excluded,
    /// A `.gitignore` ignores the directory.
    Ignored,
    /// The system does not allow the path to be read.
    Unreadable { error: String },
    /// The path is a socket, pipe or device.
    Special,
    /// The file changed each time it was read.
    Changing,
    /// The file holds secrets, and the rules exclude secrets.
    Private,
    /// The path is a nested repository. This reason occurs only in imported checkpoints: the
    /// program that made them stored only a link to the repository.
    Nested,
}

impl fmt::Display for UncoveredReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UncoveredReason::TooLarge { size } => write!(f, "too large ({})", format_bytes(*size)),
            UncoveredReason::OverBudget { size } => {
                write!(f, "over the budget max_named_mb ({})", format_bytes(*size))
            }
            UncoveredReason::Excluded => f.write_str("excluded"),
            UncoveredReason::Ignored => f.write_str("ignored"),
            UncoveredReason::Unreadable { error } => write!(f, "unreadable: {error}"),
            UncoveredReason::Special => f.write_str("a socket, pipe or device"),
            UncoveredReason::Changing => f.write_str("kept changing"),
            UncoveredReason::Private => f.write_str("private"),
            UncoveredReason::Nested => f.write_str("a nested repository, stored only as a link"),
        }
    }
}

/// The reason why a capture failed. After such an error, the workspace and its checkpoints are
/// unchanged.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum CaptureError {
    #[error("the workspace has more than {limit} files to capture")]
    TooManyFiles { limit: u64 },
    #[error("the files to capture need more than {} MiB, the limit for the whole store", limit >> 20)]
    TooLarge { limit: u64 },
    /// The root of the workspace cannot be read.
    #[error("cannot read the workspace")]
    Workspace(#[source] io::Error),
    /// The objects cannot be written to the store.
    #[error("cannot write to the store {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The workspace and the store that a capture works on.
pub(crate) struct CaptureContext<'a> {
    pub(crate) store: &'a Store,
    pub(crate) root: &'a Root,
    pub(crate) path: &'a Path,
    /// Takeback's own directory, if it is inside the workspace.
    pub(crate) own: Option<RelPath>,
    /// The name of the single file, if the workspace is a single file.
    pub(crate) only: Option<&'a [u8]>,
    /// The paths that a restore will replace; `None` if the capture is not for a restore. These
    /// paths are exempt from all configured limits, and the whole capture is exempt from the limit
    /// on the number of files.
    pub(crate) in_the_way: Option<&'a [RelPath]>,
    pub(crate) writer: &'a PackWriter,
    /// The maximum number of bytes that the capture may add to the store.
    pub(crate) max_size: u64,
    /// The paths that may have changed; `None` if any path may.
    pub(crate) expected: Option<ExpectedChanges>,
    /// The packs that have been deleted or changed since the known state was saved; `None` if there
    /// are none. The list is empty if the earlier packs are unknown.
    pub(crate) suspects: Option<Vec<String>>,
    /// The packs that turn out to be lost or damaged.
    pub(crate) damaged: RefCell<Vec<String>>,
    /// The objects whose stored copies are damaged. They are stored again.
    pub(crate) distrusted: RefCell<HashSet<Oid>>,
    /// The databases that were being written to each time they were read.
    pub(crate) unsettled: RefCell<Vec<RelPath>>,
    /// The `.gitignore` files that were not applied, because they have too many patterns.
    pub(crate) unapplied: RefCell<Vec<RelPath>>,
}

impl CaptureContext<'_> {
    /// Returns the paths that may have changed since the known state. Returns `None` if any path
    /// may have changed, or if the known state has to be checked for another reason, such as a
    /// damaged object anywhere in it.
    fn find_expected(&self, known: &KnownState, head: &CacheHead) -> Option<&[RelPath]> {
        let known_head = &known.cache.head;
        let is_trusted = known_head.rules == head.rules
            && known_head.generation == head.generation
            && self.suspects.is_none()
            && self.distrusted.borrow().is_empty();
        let expected = self.expected.as_ref().filter(|_| is_trusted)?;
        (expected.since == known.cache.entries[0].oid).then_some(&expected.paths)
    }
}

/// The paths that may have changed since a state.
pub(crate) struct ExpectedChanges {
    pub(crate) since: Oid,
    pub(crate) paths: Vec<RelPath>,
}

/// The state of a workspace in memory, and the part of it that the cache on disk lacks.
pub(crate) struct WorkspaceState {
    known: KnownState,
    pub(crate) unsaved: Unsaved,
}

impl WorkspaceState {
    /// Reads the state from the cache on disk.
    pub(crate) fn load(directory: &Path) -> Option<WorkspaceState> {
        let known = KnownState::new(StatCache::load(directory)?)?;
        Some(WorkspaceState { known, unsaved: Unsaved::Nothing })
    }

    pub(crate) fn cache(&self) -> &StatCache {
        &self.known.cache
    }

    /// Records that the cache on disk now has the whole state.
    pub(crate) fn mark_saved(&mut self) {
        self.unsaved = Unsaved::Nothing;
    }
}

/// The entries that still have to be written to the cache on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Unsaved {
    Nothing,
    /// The header and the entries at these indexes.
    Entries(Vec<u32>),
    All,
}

impl Unsaved {
    fn merge(self, other: Unsaved) -> Unsaved {
        match (self, other) {
            (Unsaved::Nothing, other) | (other, Unsaved::Nothing) => other,
            (Unsaved::Entries(mut one), Unsaved::Entries(other)) => {
                one.extend(other);
                Unsaved::Entries(one)
            }
            _ => Unsaved::All,
        }
    }
}

/// Captures the workspace, starting from its known state.
pub(crate) fn capture_workspace(
    context: &CaptureContext<'_>,
    known: Option<WorkspaceState>,
    options: &CaptureOptions<'_>,
) -> Result<(Capture, WorkspaceState), CaptureError> {
    let git = if context.only.is_none() { GitDirectory::find(context.path) } else { None };
    let index = git.map(|git| git.index_path());
    let mut head = CacheHead {
        rules: fingerprint(options.rules, context.own.as_ref()),
        generation: context.store.generation(),
        cutoff: Cutoff { scan: to_nanoseconds(options.now) },
        index: index.as_deref().map(stat_index).unwrap_or_default(),
        named: false,
    };
    let coverage = Coverage::new(options, context, index);
    head.named = coverage.has_requests();
    let mut state = match known {
        Some(state) => {
            let is_partial = context.find_expected(&state.known, &head).is_some();
            let cutoff = state.known.cache.head.cutoff;
            let state = update_state(context, &coverage, options, &mut head, state)?;
            if is_partial {
                // Not all files were read again, so files that are newer than the earlier cutoff
                // are still not trusted.
                head.cutoff = cutoff;
            }
            state
        }
        None => make_first_state(context, &coverage, &mut head)?,
    };
    let (mut capture, extra) = summary::summarize(&state.known, options.rules);
    capture.damaged = context.damaged.take();
    capture.damaged.sort();
    capture.damaged.dedup();
    capture.unsettled = context.unsettled.take();
    capture.unsettled.sort();
    capture.incomplete_index = coverage.lacks_tracked_paths();
    capture.unapplied = context.unapplied.take();
    capture.unapplied.sort();
    // A file that two threads read is listed twice.
    capture.unapplied.dedup();
    if capture.files - extra > coverage.max_files {
        return Err(CaptureError::TooManyFiles { limit: options.rules.max_files });
    }
    // If there are no entries to save, the header is saved only if a field other than its cutoff
    // has changed.
    let saved = state.known.cache.head;
    if state.unsaved == Unsaved::Nothing && (CacheHead { cutoff: saved.cutoff, ..head }) != saved {
        state.unsaved = Unsaved::Entries(Vec::new());
    }
    if state.unsaved != Unsaved::Nothing {
        state.known.cache.head = head;
    }
    Ok((capture, state))
}

/// Builds the state of a workspace that has no known state.
fn make_first_state(
    context: &CaptureContext<'_>,
    coverage: &Coverage,
    head: &mut CacheHead,
) -> Result<WorkspaceState, CaptureError> {
    context.damaged.borrow_mut().extend(context.store.set_aside_broken()?);
    let sink = ObjectSink::new(context);
    let results = scan_changes(context, coverage, &sink, None, head)?;
    let mut assembled = state::assemble(None, *head, results, ContentSource::New(0))?;
    state::make_trees(&sink, &mut assembled);
    sink.check_written(context)?;
    Ok(WorkspaceState { known: assembled.known, unsaved: Unsaved::All })
}

/// Builds a new state from a known one, most of which is usually still valid.
fn update_state(
    context: &CaptureContext<'_>,
    coverage: &Coverage,
    options: &CaptureOptions<'_>,
    head: &mut CacheHead,
    WorkspaceState { mut known, mut unsaved }: WorkspaceState,
) -> Result<WorkspaceState, CaptureError> {
    let known_head = known.cache.head;
    let mut rebuild_trees = false;
    if known_head.generation != head.generation || context.suspects.is_some() {
        context.damaged.borrow_mut().extend(context.store.set_aside_broken()?);
        rebuild_trees = state::distrust_missing_objects(&mut known.cache, context);
        // Within a generation, no object is deleted on purpose, so the suspect packs are lost or
        // damaged.
        if rebuild_trees && known_head.generation == head.generation {
            context.damaged.borrow_mut().extend(context.suspects.iter().flatten().cloned());
        }
        // The list of packs has to be saved again, along with the state.
        unsaved = unsaved.merge(Unsaved::Entries(Vec::new()));
    }
    rebuild_trees |= state::distrust_damaged_objects(&mut known, options, context);
    let expected = context.find_expected(&known, head);
    let mut tasks = check::find_changes(context.root, &known, known_head.cutoff, expected);
    if known_head.rules != head.rules {
        tasks = list_all_directories(&known);
    } else {
        let directories = find_redecided_directories(&known, coverage, &known_head, head);
        state::add_listings(&known, &mut tasks, &directories);
    }
    if tasks.is_empty() && !rebuild_trees {
        return Ok(WorkspaceState { known, unsaved });
    }
    let set_aside = context.store.set_aside_broken()?;
    if !set_aside.is_empty() {
        context.damaged.borrow_mut().extend(set_aside);
        // Objects of the known state may have been in the broken packs. The store now has a new
        // generation, so the recursive call checks whether objects are missing.
        head.generation = context.store.generation();
        return update_state(context, coverage, options, head, WorkspaceState { known, unsaved });
    }
    let damaged = state::find_damaged_trees(&mut known, &tasks, context);
    let sink = ObjectSink::new(context);
    state::store_known_trees(&sink, &known, &damaged);
    let results = scan_changes(context, coverage, &sink, Some((&known, &tasks)), head)?;
    let mut assembled = if state::has_same_names(&known, &results) {
        state::patch(known, results)
    } else {
        state::assemble(Some(&known), known_head, results, ContentSource::Known(0))?
    };
    if rebuild_trees {
        assembled.changed.fill(true);
    }
    state::make_trees(&sink, &mut assembled);
    sink.check_written(context)?;
    Ok(WorkspaceState { known: assembled.known, unsaved: unsaved.merge(assembled.unsaved) })
}

/// Runs the tasks of a scan, or scans everything if no state is known.
fn scan_changes(
    context: &CaptureContext<'_>,
    coverage: &Coverage,
    sink: &ObjectSink<'_>,
    changed: Option<(&KnownState, &[DirectoryTask])>,
    head: &mut CacheHead,
) -> Result<ScanResults, CaptureError> {
    let known = changed.map(|(known, _)| known);
    let scanner = Scanner::new(context.root, coverage, sink, known, head.cutoff);
    match changed {
        Some((_, tasks)) => scanner.scan_tasks(tasks),
        None => scanner.scan_everything(),
    }
    scanner.read_budgeted_files();
    context.unsettled.replace(scanner.settle_databases());
    context.unapplied.replace(scanner.take_unapplied());
    sink.check_written(context)?;
    if scanner.has_too_many_files() {
        return Err(CaptureError::TooManyFiles { limit: coverage.max_files });
    }
    // If a `.gitignore` changed while it was being applied, or if a part of the index could not be
    // read, the next capture must make a new decision about every path. An invalid fingerprint of
    // the rules forces it to do so.
    if scanner.has_unsettled_rules() || coverage.lacks_tracked_paths() {
        head.rules = !head.rules;
    }
    Ok(scanner.into_results())
}

fn list_all_directories(known: &KnownState) -> Vec<DirectoryTask> {
    (0..known.directories.len() as u32).map(|number| DirectoryTask::list(number, false)).collect()
}

/// Finds the directories in which the decision about an entry may have changed, because different
/// paths are now tracked or named.
fn find_redecided_directories(
    known: &KnownState,
    coverage: &Coverage,
    known_head: &CacheHead,
    head: &CacheHead,
) -> Vec<u32> {
    let index_changed = known_head.index != head.index;
    if !index_changed && !known_head.named && !head.named {
        return Vec::new();
    }
    let mut numbers = Vec::new();
    for (number, directory) in (0..).zip(&known.directories) {
        let entry = known.directory_entry(number);
        for child in known.cache.children(entry) {
            let is_special = child.cause != Cause::None || child.class != FileClass::Plain;
            if !is_special && child.reach == Reach::Normal {
                continue;
            }
            let path = crate::path::join(&directory.path, known.cache.name(child));
            let was_forced = child.class == FileClass::Named
                || child.class == FileClass::Tracked
                || matches!(child.reach, Reach::Partial | Reach::Named);
            let is_named = head.named
                && (coverage.request(&path).is_some() || coverage.has_requests_below(&path));
            let is_tracked = || {
                let tracked = coverage.tracked();
                tracked.contains(&path) || tracked.has_any_under(&path)
            };
            if was_forced || is_named || (index_changed && is_tracked()) {
                numbers.push(number);
                break;
            }
        }
        if matches!(entry.reach, Reach::Partial | Reach::Named) {
            numbers.push(number);
        }
    }
    numbers
}

/// Hashes the rules and the path of takeback's own directory. If the result changes, a capture
/// makes a new decision about every path.
fn fingerprint(rules: &CaptureRules, own: Option<&RelPath>) -> u64 {
    let text = serde_json::to_vec(&(rules, own)).expect("plain data serializes to JSON");
    let hash = Oid::of(crate::object::ObjectKind::Blob, &text);
    u64::from_le_bytes(hash.0[..8].try_into().expect("eight bytes"))
}

fn to_nanoseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Stats the git index, so that later captures can tell whether it changed.
fn stat_index(path: &Path) -> Stat {
    let stat = crate::beneath::stat_at(rustix::fs::CWD, paths::as_bytes(path));
    let stat = stat.unwrap_or_default();
    // The header keeps 63 bits of the inode number and no mode.
    Stat { mode: 0, inode: stat.inode & (u64::MAX >> 1), ..stat }
}
