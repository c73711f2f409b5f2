//! Looking at the workspace: first at what is known, then into what changed.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use rustix::io::Errno;

use crate::beneath::{self, Root, Stat};
use crate::capture::cache::{Cache, Cause, Class, Cutoff, Directory, Entry, Kind, Reach};
use crate::capture::coverage::{Coverage, Decision};
use crate::capture::sink::Sink;
use crate::object;
use crate::oid::Oid;
use crate::path::join;
use crate::rules::Scope;

/// How often a file that changes while it is read is read at most.
const ATTEMPTS: usize = 5;
/// Fewer known entries than this are looked at without other threads.
const ALONE: usize = 400;
/// Fewer files than this are read without other threads.
const READ_ALONE: usize = 16;
const MAX_GITIGNORE: u64 = 16 << 20;

/// The state that the last capture saw, ready to be looked up.
pub(crate) struct Known {
    pub(crate) cache: Cache,
    /// In the order of their entries.
    pub(crate) directories: Vec<Directory>,
}

impl Known {
    pub(crate) fn new(cache: Cache) -> Option<Known> {
        Some(Known { directories: cache.directories()?, cache })
    }

    pub(crate) fn entry(&self, number: u32) -> &Entry {
        &self.cache.entries[self.directories[number as usize].entry as usize]
    }

    /// The number of the directory that this entry is.
    pub(crate) fn number(&self, entry: u32) -> Option<u32> {
        let number = self.directories.binary_search_by_key(&entry, |directory| directory.entry);
        number.ok().map(|number| number as u32)
    }

    fn find(&self, directory: &Entry, name: &[u8]) -> Option<u32> {
        let children = self.cache.children(directory);
        let found = children.binary_search_by(|child| self.cache.name(child).cmp(name)).ok()?;
        Some(directory.children.0 + found as u32)
    }
}

/// What is to be done about a known directory.
pub(crate) struct Finding {
    pub(crate) number: u32,
    pub(crate) list: bool,
    /// Its `.gitignore` is another one.
    pub(crate) rules_changed: bool,
    /// If it need not be listed: the entries that changed, as places among its children.
    pub(crate) changed: Vec<u32>,
}

/// What a directory turned out to be.
pub(crate) enum Outcome {
    Listed(Listing),
    Unreadable(i32),
    Gone,
}

/// A directory and what is in it, sorted by name.
pub(crate) struct Listing {
    pub(crate) stat: Stat,
    pub(crate) children: Vec<Child>,
}

pub(crate) struct Child {
    pub(crate) name: Vec<u8>,
    pub(crate) entry: Entry,
    pub(crate) below: Below,
}

/// Where the content of a directory is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Below {
    Nothing,
    /// In the known directory of this number, or its outcome.
    Known(u32),
    /// In the outcome of this number.
    New(usize),
}

/// What a scan found out about directories that changed.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) known: HashMap<u32, Outcome>,
    pub(crate) new: Vec<Option<Outcome>>,
}

pub(crate) struct Scanner<'a> {
    pub(crate) root: &'a Root,
    pub(crate) coverage: &'a Coverage,
    pub(crate) sink: &'a Sink<'a>,
    pub(crate) known: Option<&'a Known>,
    /// Trust nothing of what is known that is newer.
    pub(crate) cutoff: Cutoff,
    /// Of this scan: what is newer may be just being written.
    pub(crate) present: Cutoff,
    pub(crate) found: Mutex<Findings>,
    /// The rules that apply in a directory, and the id of its `.gitignore`: one for all of a scan.
    pub(crate) scopes: Mutex<HashMap<Vec<u8>, Rules>>,
    /// Whether the rules that were applied are not those of the `.gitignore` that was captured.
    pub(crate) unsettled: AtomicBool,
    /// How many files were found that are not known.
    pub(crate) counted: AtomicU64,
}

/// The rules that apply in a directory, and the id of its own `.gitignore`.
type Rules = (Arc<Scope>, Option<Oid>);

/// Looks at everything that is known: one `lstat` per file.
pub(crate) fn check(root: &Root, known: &Known, cutoff: Cutoff) -> Vec<Finding> {
    let check = |number: usize| check_directory(root, known, cutoff, number as u32);
    let all = 0..known.directories.len();
    if known.cache.entries.len() < ALONE {
        all.filter_map(check).collect()
    } else {
        all.into_par_iter().with_min_len(8).filter_map(check).collect()
    }
}

fn check_directory(root: &Root, known: &Known, cutoff: Cutoff, number: u32) -> Option<Finding> {
    let entry = known.entry(number);
    let list =
        |rules_changed| Some(Finding { number, list: true, rules_changed, changed: Vec::new() });
    let Ok(fd) = root.directory(&known.directories[number as usize].path) else {
        return list(false);
    };
    let fd = fd.as_fd();
    let unchanged = |stat: &Stat, entry: &Entry| {
        *stat == entry.stat && !entry.is_doubtful() && !cutoff.is_racy(stat)
    };
    let mut listed = directory_stat(fd).is_ok_and(|stat| unchanged(&stat, entry));
    let mut changed = Vec::new();
    let mut rules_changed = false;
    for (place, child) in (0..).zip(known.cache.children(entry)) {
        if !listed {
            break;
        }
        let name = known.cache.name(child);
        // A `.gitignore` counts whether it is captured itself or not.
        let has_rules = name == b".gitignore" && child.kind != Kind::Directory;
        if !child.wants_stat() && !has_rules {
            continue;
        }
        match beneath::stat_at(fd, name) {
            Ok(stat) if unchanged(&stat, child) => {}
            // What is not a directory any more, or could not be read as one, is listed again; so
            // is what was captured for being tracked, because its size may be the reason.
            Ok(stat)
                if stat.mode >> 12 == child.stat.mode >> 12
                    && !stat.is_directory()
                    && child.class != Class::Tracked =>
            {
                changed.push(place);
                rules_changed |= has_rules && gitignore_differs(fd, Some(child));
            }
            _ => listed = false,
        }
    }
    if !listed {
        let known_one =
            known.find(entry, b".gitignore").map(|at| &known.cache.entries[at as usize]);
        return list(gitignore_differs(fd, known_one));
    }
    if rules_changed {
        return list(true);
    }
    (!changed.is_empty()).then_some(Finding { number, list: false, rules_changed: false, changed })
}

/// The stat of a directory, without the size that means nothing.
fn directory_stat(fd: BorrowedFd<'_>) -> io::Result<Stat> {
    Ok(Stat { size: 0, ..beneath::stat_fd(fd)? })
}

/// The id of the `.gitignore` that a directory is captured with, `Some(None)` if there is none
/// that counts, or `None` if that cannot be said.
fn settled_as(gitignore: Option<&Entry>) -> Option<Option<Oid>> {
    match gitignore {
        Some(entry) if entry.kind == Kind::Uncovered => None,
        Some(entry) => Some((entry.kind == Kind::File).then_some(entry.oid)),
        None => Some(None),
    }
}

fn gitignore_differs(fd: BorrowedFd<'_>, known: Option<&Entry>) -> bool {
    let now = read_gitignore(fd).map(|text| Oid::of(object::Kind::Blob, &text));
    let then = known.filter(|entry| entry.kind == Kind::File).map(|entry| entry.oid);
    // One that is there but was not captured may have been read all the same: look again.
    now != then || known.is_some_and(|entry| entry.kind == Kind::Uncovered)
}

/// The patterns of a directory. Like git, does not follow a symlink, and one that cannot be read
/// ignores nothing.
fn read_gitignore(fd: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let file = beneath::open_file(fd, b".gitignore").ok()?;
    let stat = beneath::stat_fd(&file).ok()?;
    if !stat.is_file() || stat.size > MAX_GITIGNORE {
        return None;
    }
    let mut text = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, MAX_GITIGNORE), &mut text).ok()?;
    Some(text)
}

impl Scanner<'_> {
    /// Looks into directories: into the listed ones as a whole, into others for what changed.
    pub(crate) fn run(&self, findings: &[Finding]) {
        // Only below these is everything decided anew.
        let new_rules = findings.iter().filter(|finding| finding.rules_changed);
        let new_rules: HashSet<u32> = new_rules.map(|finding| finding.number).collect();
        let new_rules = &new_rules;
        rayon::scope(|scope| {
            for finding in findings {
                scope.spawn(move |scope| self.look_into(scope, finding, new_rules));
            }
        });
    }

    /// Captures everything, knowing nothing.
    pub(crate) fn run_new(&self) {
        rayon::scope(|scope| {
            self.enter_later(scope, Vec::new(), None, Reach::Normal, None);
        });
    }

    fn look_into<'s>(
        &'s self,
        scope: &rayon::Scope<'s>,
        finding: &Finding,
        new_rules: &HashSet<u32>,
    ) {
        let known = self.known.expect("a finding is about something known");
        let directory = &known.directories[finding.number as usize];
        let entry = known.entry(finding.number);
        let outcome = if finding.list {
            // The listing finds the rules where this leaves them.
            self.scope_of(finding.number, new_rules);
            self.list(scope, &directory.path, None, entry.reach, Some(entry))
        } else {
            self.refresh(&directory.path, entry, &finding.changed)
        };
        self.found().known.insert(finding.number, outcome);
    }

    fn found(&self) -> std::sync::MutexGuard<'_, Findings> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads again those of a directory's files that changed.
    fn refresh(&self, path: &[u8], entry: &Entry, changed: &[u32]) -> Outcome {
        let known = self.known.expect("only a known directory is refreshed");
        let fd = match self.root.directory(path) {
            Ok(fd) => fd,
            Err(error) => return unopened(&error),
        };
        let mut children: Vec<Child> = (entry.children.0..)
            .zip(known.cache.children(entry))
            .map(|(at, child)| Child {
                name: known.cache.name(child).to_vec(),
                entry: *child,
                below: known.number(at).map_or(Below::Nothing, Below::Known),
            })
            .collect();
        let mut gone = Vec::new();
        for place in changed.iter().map(|place| *place as usize) {
            let child = &mut children[place];
            let path = join(path, &child.name);
            match beneath::stat_at(&fd, &child.name) {
                Ok(stat) => {
                    let entry = self.read(fd.as_fd(), &path, &child.name, stat, child.entry.class);
                    if child.name == b".gitignore" && entry.oid != child.entry.oid {
                        self.unsettled.store(true, Ordering::Relaxed);
                    }
                    child.entry = entry;
                }
                Err(error) if is_gone(&error) => gone.push(place),
                Err(error) => child.entry = unknown(&error),
            }
        }
        gone.into_iter().rev().for_each(|place| drop(children.remove(place)));
        Outcome::Listed(Listing { stat: entry.stat, children })
    }

    /// Lists a directory in the background and returns where its outcome will be.
    fn enter_later<'s>(
        &'s self,
        scope: &rayon::Scope<'s>,
        path: Vec<u8>,
        above: Option<Arc<Scope>>,
        reach: Reach,
        known: Option<&'s Entry>,
    ) -> usize {
        let slot = {
            let mut found = self.found();
            found.new.push(None);
            found.new.len() - 1
        };
        scope.spawn(move |scope| {
            let outcome = self.list(scope, &path, above.as_ref(), reach, known);
            self.found().new[slot] = Some(outcome);
        });
        slot
    }

    fn list<'s>(
        &'s self,
        scope: &rayon::Scope<'s>,
        path: &[u8],
        above: Option<&Arc<Scope>>,
        reach: Reach,
        known: Option<&'s Entry>,
    ) -> Outcome {
        let fd = match self.root.directory(path) {
            Ok(fd) => fd,
            Err(error) => return unopened(&error),
        };
        let fd = fd.as_fd();
        let (stat, names) =
            match directory_stat(fd).and_then(|stat| Ok((stat, beneath::names(fd)?))) {
                Ok(found) => found,
                Err(error) => return unopened(&error),
            };
        let (rules, applied) = self.enter(above, path, Some(fd));
        let mut children = Vec::with_capacity(names.len());
        let mut to_read = Vec::new();
        for name in names {
            if self.is_over() {
                break;
            }
            let child_path = join(path, &name);
            let stat = match beneath::stat_at(fd, &name) {
                Ok(stat) => stat,
                Err(error) => {
                    children.extend(self.unseen(reach, &child_path, name, &error));
                    continue;
                }
            };
            let known_at = known.and_then(|entry| self.known?.find(entry, &name));
            let mut child =
                Child { name, entry: Entry::new(Kind::Uncovered, stat), below: Below::Nothing };
            match self.coverage.decide(reach, &rules, &child_path, &stat) {
                Decision::Pass => continue,
                Decision::Leave(cause) => child.entry.cause = cause,
                Decision::Enter(reach, cause) => {
                    let stat = Stat { size: 0, ..stat };
                    child.entry = Entry { reach, cause, ..Entry::new(Kind::Directory, stat) };
                    child.below =
                        self.below(scope, child_path, &rules, reach, known_at, &mut child.entry);
                }
                Decision::Capture(class) => {
                    self.count();
                    let known = known_at.map(|at| &self.known().cache.entries[at as usize]);
                    match known {
                        Some(known) if self.still_is(known, &stat, class, &child_path) => {
                            child.entry = Entry { class, ..*known };
                        }
                        _ => {
                            child.entry.class = class;
                            to_read.push(children.len());
                        }
                    }
                }
            }
            children.push(child);
        }
        self.read_all(fd, path, &mut children, &to_read);
        let gitignore = children.binary_search_by(|child| child.name[..].cmp(b".gitignore"));
        if settled_as(gitignore.ok().map(|at| &children[at].entry)).is_some_and(|id| id != applied)
        {
            self.unsettled.store(true, Ordering::Relaxed);
        }
        // Entries that came or went meanwhile: what was listed is as of no single moment, so the
        // next capture lists again.
        let stat = match directory_stat(fd) {
            Ok(after) if after == stat => stat,
            _ => Stat { ctime: i64::MIN, ..stat },
        };
        Outcome::Listed(Listing { stat, children })
    }

    /// The entry of a name that nothing can be said of; `None` if it is gone or would be left
    /// without a word anyway.
    fn unseen(&self, reach: Reach, path: &[u8], name: Vec<u8>, error: &io::Error) -> Option<Child> {
        let is_silent = name == b".git" || reach == Reach::Partial;
        if is_gone(error) || (is_silent && !self.coverage.names_under(path)) {
            return None;
        }
        Some(Child { name, entry: unknown(error), below: Below::Nothing })
    }

    fn known(&self) -> &Known {
        self.known.expect("something known was found")
    }

    /// Whether what is known of a file still holds.
    fn still_is(&self, known: &Entry, stat: &Stat, class: Class, path: &[u8]) -> bool {
        // Its limit may be another one: under another rule, or since the rules changed.
        let is_covered = match known.kind {
            Kind::File => stat.size <= self.coverage.limit(class, path),
            Kind::Symlink => true,
            Kind::Directory | Kind::Uncovered => false,
        };
        is_covered && known.stat == *stat && !self.cutoff.is_racy(stat)
    }

    /// Where the content of a directory comes from: from what is known of it, or from a new look.
    fn below<'s>(
        &'s self,
        scope: &rayon::Scope<'s>,
        path: Vec<u8>,
        rules: &Arc<Scope>,
        reach: Reach,
        known_at: Option<u32>,
        entry: &mut Entry,
    ) -> Below {
        let number = known_at.and_then(|at| self.known().number(at));
        match number {
            Some(number) if self.known().entry(number).reach == reach => {
                let known = self.known().entry(number);
                (entry.oid, entry.stat) = (known.oid, known.stat);
                Below::Known(number)
            }
            number => {
                let known = number.map(|number| self.known().entry(number));
                Below::New(self.enter_later(scope, path, Some(rules.clone()), reach, known))
            }
        }
    }

    fn count(&self) {
        self.counted.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether there are more files than may be captured.
    pub(crate) fn has_too_many(&self) -> bool {
        self.counted.load(Ordering::Relaxed) > self.coverage.rules.max_files
    }

    /// Whether there is no point in going on.
    fn is_over(&self) -> bool {
        self.has_too_many() || self.sink.has_failed()
    }

    /// The rules that apply in a known directory, from the `.gitignore` files on the way to it.
    fn scope_of(&self, number: u32, new_rules: &HashSet<u32>) -> Arc<Scope> {
        let known = self.known();
        let path = |number: u32| &known.directories[number as usize].path;
        let cached = |number: u32| {
            let scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
            scopes.get(path(number)).map(|(scope, _)| scope.clone())
        };
        let mut missing = Vec::new();
        let mut at = Some(number);
        let mut scope = None;
        while let Some(number) = at.filter(|_| scope.is_none()) {
            scope = cached(number);
            if scope.is_none() {
                missing.push(number);
            }
            at = (number != 0).then(|| known.directories[number as usize].parent);
        }
        for number in missing.into_iter().rev() {
            let fd = self.root.directory(path(number)).ok();
            let fd = fd.as_ref().map(AsFd::as_fd);
            let (entered, applied) = self.enter(scope.as_ref(), path(number), fd);
            // Whatever is not decided anew was decided by the rules that are known.
            let gitignore = known.find(known.entry(number), b".gitignore");
            let then = settled_as(gitignore.map(|at| &known.cache.entries[at as usize]));
            if !new_rules.contains(&number) && then.is_some_and(|then| then != applied) {
                self.unsettled.store(true, Ordering::Relaxed);
            }
            scope = Some(entered);
        }
        scope.expect("the root has a scope")
    }

    /// The rules in a directory, and the id of its `.gitignore`, read once in a scan.
    fn enter(&self, above: Option<&Arc<Scope>>, path: &[u8], fd: Option<BorrowedFd<'_>>) -> Rules {
        let known = self.scopes.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        known.unwrap_or_else(|| {
            let text = fd.and_then(read_gitignore);
            let id = text.as_ref().map(|text| Oid::of(object::Kind::Blob, text));
            let entered = (Scope::enter(above, path, text.as_deref()), id);
            let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
            scopes.entry(path.to_vec()).or_insert(entered).clone()
        })
    }

    fn read_all(&self, fd: BorrowedFd<'_>, path: &[u8], children: &mut [Child], to_read: &[usize]) {
        let read = |child: &Child| {
            let path = join(path, &child.name);
            self.read(fd, &path, &child.name, child.entry.stat, child.entry.class)
        };
        if to_read.len() < READ_ALONE {
            to_read.iter().for_each(|at| children[*at].entry = read(&children[*at]));
            return;
        }
        let entries: Vec<Entry> =
            to_read.par_iter().with_min_len(4).map(|at| read(&children[*at])).collect();
        to_read.iter().zip(entries).for_each(|(at, entry)| children[*at].entry = entry);
    }

    /// Reads a file or symlink into the store.
    fn read(
        &self,
        fd: BorrowedFd<'_>,
        path: &[u8],
        name: &[u8],
        stat: Stat,
        class: Class,
    ) -> Entry {
        let uncovered = |cause, stat| Entry { cause, class, ..Entry::new(Kind::Uncovered, stat) };
        if self.is_over() {
            return uncovered(Cause::Changing, stat);
        }
        if stat.is_symlink() {
            return match beneath::read_link(fd, name) {
                Ok(target) => {
                    let oid = self.sink.add(object::Kind::Blob, &target);
                    Entry { oid, class, ..Entry::new(Kind::Symlink, stat) }
                }
                Err(error) => unreadable(uncovered(Cause::Unreadable, stat), &error),
            };
        }
        let mut class = class;
        let mut limit = self.coverage.limit(class, path);
        if stat.size > limit && class == Class::Plain && self.coverage.tracked().contains(path) {
            class = Class::Tracked;
            limit = self.coverage.limit(class, path);
        }
        let uncovered = |cause, stat| Entry { cause, class, ..Entry::new(Kind::Uncovered, stat) };
        if stat.size > limit {
            return uncovered(Cause::TooLarge, stat);
        }
        match with_content(fd, name, limit, self.present, |oid, content| {
            self.sink.add_as(oid, object::Kind::Blob, content);
        }) {
            Ok((stat, oid)) => Entry { oid, class, ..Entry::new(Kind::File, stat) },
            Err(Unread::TooLarge(stat)) => uncovered(Cause::TooLarge, stat),
            Err(Unread::Changing) => uncovered(Cause::Changing, stat),
            Err(Unread::Failed(error)) => unreadable(uncovered(Cause::Unreadable, stat), &error),
        }
    }
}

fn unopened(error: &io::Error) -> Outcome {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Outcome::Gone,
        errno => Outcome::Unreadable(errno.map_or(0, Errno::raw_os_error)),
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// The entry of something whose kind is not even known.
fn unknown(error: &io::Error) -> Entry {
    let entry = Entry::new(Kind::Uncovered, Stat::default());
    unreadable(Entry { cause: Cause::Unreadable, ..entry }, error)
}

/// Keeps the error number where the oid of something readable would be.
pub(crate) fn unreadable(mut entry: Entry, error: &io::Error) -> Entry {
    let number = error.raw_os_error().unwrap_or(0);
    if number == Errno::NOENT.raw_os_error() || number == Errno::LOOP.raw_os_error() {
        entry.cause = Cause::Changing;
    }
    entry.oid.0[..4].copy_from_slice(&number.to_le_bytes());
    entry
}

enum Unread {
    Failed(io::Error),
    TooLarge(Stat),
    Changing,
}

thread_local! {
    static CONTENT: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// A buffer that grew beyond this for one large file is given back.
const KEPT_BUFFER: usize = 8 << 20;

/// Hands over a file's content as of one moment, and returns the stat and id that belong to it.
///
/// A file that was just written may be in the middle of another write that no stat shows: its
/// times are set when a write begins. It counts when it was read twice and was the same.
fn with_content(
    fd: BorrowedFd<'_>,
    name: &[u8],
    limit: u64,
    present: Cutoff,
    use_content: impl FnOnce(Oid, &[u8]),
) -> Result<(Stat, Oid), Unread> {
    CONTENT.with_borrow_mut(|buffer| {
        let mut previous = None;
        for _ in 0..ATTEMPTS {
            let file = beneath::open_file(fd, name).map_err(Unread::Failed)?;
            let before = beneath::stat_fd(&file).map_err(Unread::Failed)?;
            if !before.is_file() {
                return Err(Unread::Changing);
            }
            if before.size > limit {
                return Err(Unread::TooLarge(before));
            }
            let size = before.size as usize;
            if buffer.len() <= size {
                buffer.resize(size + 1, 0);
            }
            // One byte more than there should be: so the end is seen without asking again.
            let read = read_up_to(&file, &mut buffer[..=size]).map_err(Unread::Failed)?;
            let after = beneath::stat_fd(&file).map_err(Unread::Failed)?;
            if read != size || before != after {
                previous = None;
                continue;
            }
            let oid = Oid::of(object::Kind::Blob, &buffer[..size]);
            if present.is_racy(&after) && previous != Some(oid) {
                previous = Some(oid);
                continue;
            }
            use_content(oid, &buffer[..size]);
            if buffer.len() > KEPT_BUFFER {
                *buffer = Vec::new();
            }
            return Ok((after, oid));
        }
        Err(Unread::Changing)
    })
}

/// Fills as much of the buffer as the file has.
fn read_up_to(file: &std::fs::File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    loop {
        match rustix::io::read(file, &mut buffer[filled..]) {
            Ok(0) => return Ok(filled),
            Ok(read) => {
                filled += read;
                // A regular file gives less than asked for only at its end.
                if filled == buffer.len() || filled + 1 == buffer.len() {
                    return Ok(filled);
                }
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
