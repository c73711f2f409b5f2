//! The second pass of a capture: lists directories and reads files, in parallel.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;
use rustix::io::Errno;

use super::budget::BudgetedFile;
use super::cache::{CachedEntry, Cause, Cutoff, EntryKind, FileClass, Reach};
use super::check::{DirectoryTask, stat_directory};
use super::coverage::{Coverage, Decision};
use super::gitignore::AppliedGitignores;
use super::known::KnownState;
use super::read::{ReadFailure, read_stable_content};
use super::sink::ObjectSink;
use crate::beneath::{self, Root, Stat};
use crate::object;
use crate::pack::MAX_OBJECT;
use crate::path::{RelPath, join};
use crate::rules::Scope;
use crate::threads::prepare_threads;

/// With fewer files than this, reading in parallel is not worthwhile.
pub(super) const MIN_FILES_FOR_THREADS: usize = 16;

/// With fewer directories than this, scanning them in parallel is not worthwhile.
const MIN_DIRECTORIES_FOR_THREADS: usize = 4;

/// The result of scanning a directory.
pub(crate) enum ScannedDirectory {
    Listed(DirectoryListing),
    Unreadable(i32),
    Gone,
}

/// A directory and its children, sorted by name.
pub(crate) struct DirectoryListing {
    pub(crate) path: Vec<u8>,
    pub(crate) stat: Stat,
    pub(crate) children: Vec<ListedChild>,
}

/// A file or directory in a listing.
pub(crate) struct ListedChild {
    pub(crate) name: Vec<u8>,
    pub(crate) entry: CachedEntry,
    pub(crate) source: ContentSource,
}

/// The source of a directory's content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ContentSource {
    /// None: the child is not a directory.
    Nothing,
    /// The known directory with this number. If it was scanned, its scan in [`ScanResults::known`]
    /// takes precedence.
    Known(u32),
    /// The scan of a new directory, at this index in [`ScanResults::new`].
    New(usize),
}

impl ScanResults {
    /// Finds a child in the listing of a directory.
    pub(super) fn child_mut(
        &mut self,
        directory: ContentSource,
        position: usize,
    ) -> Option<&mut ListedChild> {
        let scanned = match directory {
            ContentSource::Known(number) => self.known.get_mut(&number)?,
            ContentSource::New(at) => self.new[at].as_mut()?,
            ContentSource::Nothing => return None,
        };
        match scanned {
            ScannedDirectory::Listed(listing) => listing.children.get_mut(position),
            _ => None,
        }
    }
}

/// The directories that were scanned.
#[derive(Default)]
pub(crate) struct ScanResults {
    /// The results for known directories, keyed by directory number.
    pub(crate) known: HashMap<u32, ScannedDirectory>,
    pub(crate) new: Vec<Option<ScannedDirectory>>,
}

/// A new directory that is to be listed.
struct NewDirectory<'a> {
    /// The index of the result in [`ScanResults::new`].
    index: usize,
    path: Vec<u8>,
    above: Option<Arc<Scope>>,
    reach: Reach,
    known: Option<&'a CachedEntry>,
}

/// A scan in progress, shared by many threads.
pub(crate) struct Scanner<'a> {
    pub(super) root: &'a Root,
    pub(super) coverage: &'a Coverage,
    pub(super) sink: &'a ObjectSink<'a>,
    known: Option<&'a KnownState>,
    /// The cutoff of the known state: a known entry newer than this is not trusted.
    known_cutoff: Cutoff,
    /// The cutoff of this scan: a file newer than this may be in the middle of a write.
    pub(super) present_cutoff: Cutoff,
    results: Mutex<ScanResults>,
    /// The new directories that are to be listed by other threads.
    waiting: Mutex<Vec<NewDirectory<'a>>>,
    gitignores: AppliedGitignores,
    /// The number of files in all listings so far, excluding those that are captured only because
    /// the caller asks for them.
    new_files: AtomicU64,
    /// The files that are captured only because the caller asks for them.
    pub(super) budgeted: Mutex<Vec<BudgetedFile>>,
    /// The databases of which at least one file was read.
    pub(super) databases: Mutex<BTreeSet<Vec<u8>>>,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(
        root: &'a Root,
        coverage: &'a Coverage,
        sink: &'a ObjectSink<'a>,
        known: Option<&'a KnownState>,
        present_cutoff: Cutoff,
    ) -> Scanner<'a> {
        Scanner {
            root,
            coverage,
            sink,
            known,
            known_cutoff: known.map_or(present_cutoff, |known| known.cache.head.cutoff),
            present_cutoff,
            results: Mutex::default(),
            waiting: Mutex::default(),
            gitignores: AppliedGitignores::default(),
            new_files: AtomicU64::new(0),
            budgeted: Mutex::default(),
            databases: Mutex::default(),
        }
    }

    /// Ends the scan and returns its results.
    pub(crate) fn into_results(self) -> ScanResults {
        self.results.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the directories that are part of the new state. A known directory may have been
    /// scanned twice; only one of the two results is part of the new state.
    pub(super) fn find_live_directories(&self) -> HashSet<ContentSource> {
        let results = self.lock_results();
        let mut below: HashMap<u32, Vec<ContentSource>> = HashMap::new();
        for (number, directory) in (0..).zip(self.known.iter().flat_map(|known| &known.directories))
        {
            if number != 0 {
                below.entry(directory.parent).or_default().push(ContentSource::Known(number));
            }
        }
        let root =
            if self.known.is_some() { ContentSource::Known(0) } else { ContentSource::New(0) };
        let (mut live, mut pending) = (HashSet::new(), vec![root]);
        while let Some(source) = pending.pop() {
            live.insert(source);
            let scanned = match source {
                ContentSource::Known(number) => results.known.get(&number),
                ContentSource::New(at) => results.new[at].as_ref(),
                ContentSource::Nothing => continue,
            };
            match (scanned, source) {
                (Some(ScannedDirectory::Listed(listing)), _) => {
                    pending.extend(listing.children.iter().map(|child| child.source));
                }
                (None, ContentSource::Known(number)) => {
                    pending.extend(below.get(&number).into_iter().flatten());
                }
                _ => {}
            }
        }
        live
    }

    /// True if a `.gitignore` changed while it was being applied.
    pub(crate) fn has_unsettled_rules(&self) -> bool {
        self.gitignores.has_unsettled()
    }

    /// Takes the list of `.gitignore` files that were not applied because they have too many
    /// patterns.
    pub(crate) fn take_unapplied(&self) -> Vec<RelPath> {
        self.gitignores.take_over_limit()
    }

    /// True if there are more files than the limit allows.
    pub(crate) fn has_too_many_files(&self) -> bool {
        self.new_files.load(Ordering::Relaxed) > self.coverage.max_files
    }

    /// True if there is no point in continuing the scan.
    pub(super) fn is_hopeless(&self) -> bool {
        self.has_too_many_files() || self.sink.has_failed()
    }

    fn known(&self) -> &'a KnownState {
        self.known.expect("only a scan with a known state finds known entries")
    }

    pub(super) fn lock_results(&self) -> MutexGuard<'_, ScanResults> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Scans everything, without a known state.
    pub(crate) fn scan_everything(&self) {
        prepare_threads();
        rayon::scope(|scope| {
            self.spawn_listing(Some(scope), Vec::new(), None, Reach::Normal, None);
        });
    }

    /// Scans known directories: lists some of them, and reads changed files in the others.
    pub(crate) fn scan_tasks(&self, tasks: &[DirectoryTask]) {
        let new_rules = tasks.iter().filter(|task| task.rules_changed);
        let new_rules: HashSet<u32> = new_rules.map(|task| task.number).collect();
        let new_rules = &new_rules;
        // Waking up the other threads takes longer than the work of most captures.
        let is_small = tasks.len() < MIN_DIRECTORIES_FOR_THREADS;
        if is_small {
            tasks.iter().for_each(|task| self.run_task(None, task, new_rules));
        }
        let waiting = std::mem::take(&mut *self.lock_waiting());
        if is_small && waiting.is_empty() {
            return;
        }
        prepare_threads();
        rayon::scope(|scope| {
            for directory in waiting {
                scope.spawn(move |scope| self.list_new_directory(scope, directory));
            }
            for task in tasks.iter().filter(|_| !is_small) {
                scope.spawn(move |scope| self.run_task(Some(scope), task, new_rules));
            }
        });
    }

    fn lock_waiting(&self) -> MutexGuard<'_, Vec<NewDirectory<'a>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list_new_directory<'s>(&'s self, scope: &rayon::Scope<'s>, directory: NewDirectory<'a>) {
        let NewDirectory { index, path, above, reach, known } = directory;
        let slot = ContentSource::New(index);
        let scanned = self.list_directory(Some(scope), &path, above.as_ref(), reach, known, slot);
        self.lock_results().new[index] = Some(scanned);
    }

    fn run_task<'s>(
        &'s self,
        scope: Option<&rayon::Scope<'s>>,
        task: &DirectoryTask,
        new_rules: &HashSet<u32>,
    ) {
        let directory = &self.known().directories[task.number as usize];
        let entry = self.known().directory_entry(task.number);
        let refreshed = || self.refresh_files(&directory.path, entry, &task.changed);
        let scanned = (!task.list).then(refreshed).flatten().unwrap_or_else(|| {
            // `list_directory` looks up the patterns in `gitignores`.
            self.gitignores.apply_up_to(self.root, self.known(), task.number, new_rules);
            let slot = ContentSource::Known(task.number);
            self.list_directory(scope, &directory.path, None, entry.reach, Some(entry), slot)
        });
        self.lock_results().known.insert(task.number, scanned);
    }

    /// Rereads the changed files of a known directory. Returns `None` if the directory has to be
    /// listed, because the decision about a file may have changed.
    fn refresh_files(
        &self,
        path: &[u8],
        entry: &CachedEntry,
        changed: &[u32],
    ) -> Option<ScannedDirectory> {
        let known = self.known();
        let fd = match self.root.open_directory(path) {
            Ok(fd) => fd,
            Err(error) => return Some(unopened_directory(&error)),
        };
        let mut children: Vec<ListedChild> = list_known_children(known, entry);
        let mut gone = Vec::new();
        for position in changed.iter().map(|position| *position as usize) {
            let child = &mut children[position];
            let path = join(path, &child.name);
            match beneath::stat_at(&fd, &child.name) {
                Ok(stat) => {
                    let class = child.entry.class;
                    if stat.size > self.coverage.size_limit(class, &path)
                        && self.coverage.request(&path).is_some()
                    {
                        return None;
                    }
                    let entry = self.read_entry(fd.as_fd(), &path, &child.name, stat, class);
                    if child.name == b".gitignore" && entry.oid != child.entry.oid {
                        self.gitignores.note_unsettled();
                    }
                    child.entry = entry;
                }
                Err(error) if is_gone(&error) => gone.push(position),
                Err(error) => child.entry = unknown_entry(&error),
            }
        }
        gone.into_iter().rev().for_each(|position| drop(children.remove(position)));
        let path = path.to_vec();
        Some(ScannedDirectory::Listed(DirectoryListing { path, stat: entry.stat, children }))
    }

    /// Lists a directory in another thread: immediately if there is a `scope`, and otherwise once
    /// the known directories have been scanned. Returns the index of the result in
    /// [`ScanResults::new`].
    fn spawn_listing<'s>(
        &'s self,
        scope: Option<&rayon::Scope<'s>>,
        path: Vec<u8>,
        above: Option<Arc<Scope>>,
        reach: Reach,
        known: Option<&'a CachedEntry>,
    ) -> usize {
        let index = {
            let mut results = self.lock_results();
            results.new.push(None);
            results.new.len() - 1
        };
        let directory = NewDirectory { index, path, above, reach, known };
        match scope {
            Some(scope) => scope.spawn(move |scope| self.list_new_directory(scope, directory)),
            None => self.lock_waiting().push(directory),
        }
        index
    }

    fn list_directory<'s>(
        &'s self,
        scope: Option<&rayon::Scope<'s>>,
        path: &[u8],
        above: Option<&Arc<Scope>>,
        reach: Reach,
        known: Option<&'a CachedEntry>,
        slot: ContentSource,
    ) -> ScannedDirectory {
        let fd = match self.root.open_directory(path) {
            Ok(fd) => fd,
            Err(error) => return unopened_directory(&error),
        };
        let fd = fd.as_fd();
        let (stat, names) =
            match stat_directory(fd).and_then(|stat| Ok((stat, beneath::list_names(fd)?))) {
                Ok(listed) => listed,
                Err(error) => return unopened_directory(&error),
            };
        let (patterns, applied) = self.gitignores.apply(above, path, Some(fd));
        let mut children = Vec::with_capacity(names.len());
        let mut to_read = Vec::new();
        for name in names {
            if self.is_hopeless() {
                break;
            }
            let child_path = join(path, &name);
            let child = match beneath::stat_at(fd, &name) {
                Ok(stat) => {
                    let known_at = known.and_then(|entry| self.known?.find_child(entry, &name));
                    self.decide_child(
                        scope,
                        child_path.clone(),
                        name,
                        stat,
                        reach,
                        &patterns,
                        known_at,
                    )
                }
                Err(error) => self.unseen_child(reach, &child_path, name, &error),
            };
            let Some((child, is_unread)) = child else { continue };
            if !child.entry.stat.is_directory()
                && child.entry.stat.size <= MAX_OBJECT
                && self.coverage.is_budgeted(child.entry.class, &child_path)
            {
                self.defer_file(slot, children.len(), child_path, &child.entry, is_unread);
            } else if is_unread {
                to_read.push(children.len());
            }
            children.push(child);
        }
        self.read_children(fd, path, &mut children, &to_read);
        let gitignore = children.binary_search_by(|child| child.name[..].cmp(b".gitignore"));
        self.gitignores.check_captured(gitignore.ok().map(|at| &children[at].entry), applied);
        // If names appeared or disappeared in the meantime, the listing does not show the state at
        // any one moment, so the next capture must list the directory again.
        let stat = match stat_directory(fd) {
            Ok(after) if after == stat => stat,
            _ => Stat { ctime: i64::MIN, ..stat },
        };
        let path = path.to_vec();
        ScannedDirectory::Listed(DirectoryListing { path, stat, children })
    }

    /// Decides what to do with a name in a listing. Returns its entry, and true if the file still
    /// has to be read. Returns `None` if the name is left out without a report.
    #[allow(clippy::too_many_arguments, reason = "all arguments describe one name")]
    fn decide_child<'s>(
        &'s self,
        scope: Option<&rayon::Scope<'s>>,
        path: Vec<u8>,
        name: Vec<u8>,
        stat: Stat,
        reach: Reach,
        patterns: &Arc<Scope>,
        known_at: Option<u32>,
    ) -> Option<(ListedChild, bool)> {
        let mut is_unread = false;
        let mut entry = CachedEntry::new(EntryKind::Uncovered, stat);
        let mut source = ContentSource::Nothing;
        match self.coverage.decide(reach, patterns, &path, &stat) {
            Decision::Pass => return None,
            Decision::Leave(cause) => entry.cause = cause,
            // The class `Named` makes the next capture decide about this directory again.
            Decision::LeaveRemade => {
                (entry.cause, entry.class) = (Cause::Excluded, FileClass::Named);
            }
            Decision::Enter(reach, cause) => {
                let stat = Stat { size: 0, ..stat };
                let directory = CachedEntry::new(EntryKind::Directory, stat);
                entry = CachedEntry { reach, cause, ..directory };
                source = self.enter_directory(scope, path, patterns, reach, known_at, &mut entry);
            }
            Decision::Capture(class) => {
                if class != FileClass::Named {
                    self.new_files.fetch_add(1, Ordering::Relaxed);
                }
                let known = known_at.map(|at| &self.known().cache.entries[at as usize]);
                match known {
                    Some(known) if self.is_still_valid(known, &stat, class, &path) => {
                        entry = CachedEntry { class, ..*known };
                    }
                    _ => {
                        entry.class = class;
                        is_unread = true;
                    }
                }
            }
        }
        Some((ListedChild { name, entry, source }, is_unread))
    }

    /// Returns the entry for a name whose `lstat` fails. Returns `None` if the name no longer
    /// exists, or if it would be left out without a report anyway.
    fn unseen_child(
        &self,
        reach: Reach,
        path: &[u8],
        name: Vec<u8>,
        error: &io::Error,
    ) -> Option<(ListedChild, bool)> {
        let is_silent = object::is_git_name(&name) || reach == Reach::Partial;
        let is_requested =
            || self.coverage.request(path).is_some() || self.coverage.has_requests_below(path);
        if is_gone(error) || (is_silent && !is_requested()) {
            return None;
        }
        let entry = unknown_entry(error);
        Some((ListedChild { name, entry, source: ContentSource::Nothing }, false))
    }

    /// True if the known entry of a file is still valid.
    fn is_still_valid(
        &self,
        known: &CachedEntry,
        stat: &Stat,
        class: FileClass,
        path: &[u8],
    ) -> bool {
        // The size limit may have changed because the class of the file or the rules changed.
        let is_covered = match known.kind {
            EntryKind::File => stat.size <= self.coverage.size_limit(class, path),
            EntryKind::Symlink => true,
            EntryKind::Directory | EntryKind::Uncovered => false,
        };
        is_covered && known.stat == *stat && !self.known_cutoff.is_racy(stat)
    }

    /// Determines the source of a directory's content: the known directory, or a new listing.
    fn enter_directory<'s>(
        &'s self,
        scope: Option<&rayon::Scope<'s>>,
        path: Vec<u8>,
        patterns: &Arc<Scope>,
        reach: Reach,
        known_at: Option<u32>,
        entry: &mut CachedEntry,
    ) -> ContentSource {
        let number = known_at.and_then(|at| self.known().directory_number(at));
        match number {
            Some(number) if self.known().directory_entry(number).reach == reach => {
                let known = self.known().directory_entry(number);
                (entry.oid, entry.stat) = (known.oid, known.stat);
                ContentSource::Known(number)
            }
            number => {
                let known = number.map(|number| self.known().directory_entry(number));
                let above = Some(patterns.clone());
                ContentSource::New(self.spawn_listing(scope, path, above, reach, known))
            }
        }
    }

    fn read_children(
        &self,
        fd: BorrowedFd<'_>,
        path: &[u8],
        children: &mut [ListedChild],
        to_read: &[usize],
    ) {
        let read = |child: &ListedChild| {
            let path = join(path, &child.name);
            self.read_entry(fd, &path, &child.name, child.entry.stat, child.entry.class)
        };
        if to_read.len() < MIN_FILES_FOR_THREADS {
            to_read.iter().for_each(|at| children[*at].entry = read(&children[*at]));
            return;
        }
        prepare_threads();
        let entries: Vec<CachedEntry> =
            to_read.par_iter().with_min_len(4).map(|at| read(&children[*at])).collect();
        to_read.iter().zip(entries).for_each(|(at, entry)| children[*at].entry = entry);
    }

    /// Reads a file or symlink into the store.
    pub(super) fn read_entry(
        &self,
        fd: BorrowedFd<'_>,
        path: &[u8],
        name: &[u8],
        stat: Stat,
        class: FileClass,
    ) -> CachedEntry {
        let uncovered = |cause, stat| CachedEntry {
            cause,
            class,
            ..CachedEntry::new(EntryKind::Uncovered, stat)
        };
        if self.is_hopeless() {
            return uncovered(Cause::Changing, stat);
        }
        if stat.is_symlink() {
            return match beneath::read_link(fd, name) {
                Ok(target) => {
                    let oid = self.sink.add_object(object::ObjectKind::Blob, &target);
                    CachedEntry { oid, class, ..CachedEntry::new(EntryKind::Symlink, stat) }
                }
                Err(error) => mark_unreadable(uncovered(Cause::Unreadable, stat), &error),
            };
        }
        self.read_file_entry(fd, path, name, stat, class)
    }

    fn read_file_entry(
        &self,
        fd: BorrowedFd<'_>,
        path: &[u8],
        name: &[u8],
        stat: Stat,
        mut class: FileClass,
    ) -> CachedEntry {
        let mut limit = self.coverage.size_limit(class, path);
        let is_plain = class == FileClass::Plain;
        if stat.size > limit && is_plain && self.coverage.tracked().contains(path) {
            class = FileClass::Tracked;
            limit = self.coverage.size_limit(class, path);
        }
        let uncovered = |cause, stat| CachedEntry {
            cause,
            class,
            ..CachedEntry::new(EntryKind::Uncovered, stat)
        };
        if stat.size > limit {
            return uncovered(Cause::TooLarge, stat);
        }
        let read = read_stable_content(fd, name, limit, self.present_cutoff, |oid, content| {
            self.sink.add_known_object(oid, object::ObjectKind::Blob, content);
            self.note_database(path, content);
        });
        match read {
            Ok((stat, oid)) => {
                CachedEntry { oid, class, ..CachedEntry::new(EntryKind::File, stat) }
            }
            Err(ReadFailure::TooLarge(stat)) => uncovered(Cause::TooLarge, stat),
            Err(ReadFailure::Changing) => {
                self.note_changing_database(fd, path, name);
                uncovered(Cause::Changing, stat)
            }
            Err(ReadFailure::Io(error)) => {
                mark_unreadable(uncovered(Cause::Unreadable, stat), &error)
            }
        }
    }
}

/// Lists the children of a known directory as the last capture saw them.
pub(crate) fn list_known_children(known: &KnownState, directory: &CachedEntry) -> Vec<ListedChild> {
    (directory.children.0..)
        .zip(known.cache.children(directory))
        .map(|(at, entry)| ListedChild {
            name: known.cache.name(entry).to_vec(),
            entry: *entry,
            source: known.directory_number(at).map_or(ContentSource::Nothing, ContentSource::Known),
        })
        .collect()
}

fn unopened_directory(error: &io::Error) -> ScannedDirectory {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => ScannedDirectory::Gone,
        errno => ScannedDirectory::Unreadable(errno.map_or(0, Errno::raw_os_error)),
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Returns the entry for a name whose `lstat` fails.
pub(super) fn unknown_entry(error: &io::Error) -> CachedEntry {
    let entry = CachedEntry::new(EntryKind::Uncovered, Stat::default());
    mark_unreadable(CachedEntry { cause: Cause::Unreadable, ..entry }, error)
}

/// Stores the error number in place of the oid, because an unreadable entry has no oid.
pub(crate) fn mark_unreadable(mut entry: CachedEntry, error: &io::Error) -> CachedEntry {
    let number = error.raw_os_error().unwrap_or(0);
    if number == Errno::NOENT.raw_os_error() || number == Errno::LOOP.raw_os_error() {
        entry.cause = Cause::Changing;
    }
    entry.oid.0[..4].copy_from_slice(&number.to_le_bytes());
    entry
}
