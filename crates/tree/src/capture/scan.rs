//! Looking at the workspace: first at what is known, then into what changed.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use rustix::io::Errno;

use crate::beneath::{self, Root, Stat};
use crate::capture::cache::{Cache, Cause, Class, Cutoff, Directory, Entry, Kind, Reach};
use crate::capture::coverage::{Coverage, Decision};
use crate::object;
use crate::oid::Oid;
use crate::pack::write::PackWriter;
use crate::path::join;
use crate::rules::Scope;
use crate::store::Packs;

/// How often a file that changes while it is read is read again.
const ATTEMPTS: usize = 3;
/// Fewer known entries than this are looked at without other threads.
const ALONE: usize = 400;
/// Fewer files than this are read without other threads.
const READ_ALONE: usize = 16;
const MAX_GITIGNORE: u64 = 16 << 20;

/// The state that the last capture saw, ready to be looked up.
pub(crate) struct Known {
    pub(crate) cache: Cache,
    pub(crate) directories: Vec<Directory>,
    /// For each entry that is a directory: its number in `directories`.
    numbers: HashMap<u32, u32>,
}

impl Known {
    pub(crate) fn new(cache: Cache) -> Option<Known> {
        let directories = cache.directories()?;
        let numbers = (0..).zip(&directories).map(|(number, directory)| (directory.entry, number));
        Some(Known { numbers: numbers.collect(), cache, directories })
    }

    pub(crate) fn entry(&self, number: u32) -> &Entry {
        &self.cache.entries[self.directories[number as usize].entry as usize]
    }

    pub(crate) fn number(&self, entry: u32) -> Option<u32> {
        self.numbers.get(&entry).copied()
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
    pub(crate) packs: Arc<Packs>,
    pub(crate) writer: &'a PackWriter,
    pub(crate) known: Option<&'a Known>,
    /// Trust nothing of what is known that is newer.
    pub(crate) cutoff: Cutoff,
    pub(crate) found: Mutex<Findings>,
    pub(crate) scopes: Mutex<HashMap<Vec<u8>, Arc<Scope>>>,
    pub(crate) counted: AtomicU64,
    pub(crate) stopped: AtomicBool,
    /// Why the capture cannot go on: the store does not take what it is given.
    pub(crate) failure: Mutex<Option<io::Error>>,
}

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
        if !child.wants_stat() {
            continue;
        }
        let name = known.cache.name(child);
        match beneath::stat_at(fd, name) {
            Ok(stat) if unchanged(&stat, child) => {}
            // What is not a directory any more, or could not be read as one, is listed again.
            Ok(stat) if stat.mode >> 12 == child.stat.mode >> 12 && !stat.is_directory() => {
                changed.push(place);
                rules_changed |= name == b".gitignore" && gitignore_differs(fd, Some(child));
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
        rayon::scope(|scope| {
            for finding in findings {
                scope.spawn(move |scope| self.look_into(scope, finding));
            }
        });
    }

    /// Captures everything, knowing nothing.
    pub(crate) fn run_new(&self) {
        rayon::scope(|scope| {
            self.enter_later(scope, Vec::new(), None, Reach::Normal, None);
        });
    }

    fn look_into<'s>(&'s self, scope: &rayon::Scope<'s>, finding: &Finding) {
        let known = self.known.expect("a finding is about something known");
        let directory = &known.directories[finding.number as usize];
        let entry = known.entry(finding.number);
        let outcome = if finding.list {
            let parent = crate::path::split(&directory.path).0;
            let above = (finding.number != 0).then(|| self.scope_of(parent)).flatten();
            self.list(scope, &directory.path, above.as_ref(), entry.reach, Some(entry))
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
                    child.entry =
                        self.read(fd.as_fd(), &path, &child.name, stat, child.entry.class);
                }
                Err(_) => gone.push(place),
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
        let rules = Scope::enter(above, path, read_gitignore(fd).as_deref());
        let mut children = Vec::with_capacity(names.len());
        let mut to_read = Vec::new();
        for name in names {
            if self.stopped.load(Ordering::Relaxed) {
                break;
            }
            let Ok(stat) = beneath::stat_at(fd, &name) else { continue };
            let child_path = join(path, &name);
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
        // Entries that came or went meanwhile: what was listed is as of no single moment, so the
        // next capture lists again.
        let stat = match directory_stat(fd) {
            Ok(after) if after == stat => stat,
            _ => Stat { ctime: i64::MIN, ..stat },
        };
        Outcome::Listed(Listing { stat, children })
    }

    fn known(&self) -> &Known {
        self.known.expect("something known was found")
    }

    /// Whether what is known of a file still holds.
    fn still_is(&self, known: &Entry, stat: &Stat, class: Class, path: &[u8]) -> bool {
        known.stat == *stat
            && matches!(known.kind, Kind::File | Kind::Symlink)
            && !self.cutoff.is_racy(stat)
            && (class == known.class || stat.size <= self.coverage.limit(class, path))
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
        if self.counted.fetch_add(1, Ordering::Relaxed) >= self.coverage.rules.max_files {
            self.stopped.store(true, Ordering::Relaxed);
        }
    }

    /// The rules that apply in a directory, from the `.gitignore` files on the way to it.
    fn scope_of(&self, path: &[u8]) -> Option<Arc<Scope>> {
        let cached = |path: &[u8]| {
            self.scopes.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
        };
        let mut missing = vec![path];
        let mut scope = cached(path);
        while scope.is_none() && !missing.last()?.is_empty() {
            let parent = crate::path::split(missing.last()?).0;
            scope = cached(parent);
            missing.push(parent);
        }
        if scope.is_some() {
            missing.pop();
        }
        for path in missing.into_iter().rev() {
            let text = self.root.directory(path).ok().and_then(|fd| read_gitignore(fd.as_fd()));
            let entered = Scope::enter(scope.as_ref(), path, text.as_deref());
            let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
            scopes.insert(path.to_vec(), entered.clone());
            scope = Some(entered);
        }
        scope.or_else(|| cached(path))
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
        if self.stopped.load(Ordering::Relaxed) {
            return uncovered(Cause::Changing, stat);
        }
        if stat.is_symlink() {
            return match beneath::read_link(fd, name) {
                Ok(target) => {
                    let oid = self.store(object::Kind::Blob, &target);
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
        match with_content(fd, name, limit, |content| self.store(object::Kind::Blob, content)) {
            Ok((stat, oid)) => Entry { oid, class, ..Entry::new(Kind::File, stat) },
            Err(Unread::TooLarge(stat)) => uncovered(Cause::TooLarge, stat),
            Err(Unread::Changing) => uncovered(Cause::Changing, stat),
            Err(Unread::Failed(error)) => unreadable(uncovered(Cause::Unreadable, stat), &error),
        }
    }

    /// Adds an object to the pack unless the store has it.
    pub(crate) fn store(&self, kind: object::Kind, content: &[u8]) -> Oid {
        let oid = Oid::of(kind, content);
        if self.writer.contains(&oid) || self.packs.contains(&oid) {
            return oid;
        }
        if let Err(error) = self.writer.add(kind, oid, content) {
            self.stopped.store(true, Ordering::Relaxed);
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
        }
        oid
    }
}

fn unopened(error: &io::Error) -> Outcome {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Outcome::Gone,
        errno => Outcome::Unreadable(errno.map_or(0, Errno::raw_os_error)),
    }
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

/// Hands over a file's content as of one moment, with the stat that belongs to it.
fn with_content<T>(
    fd: BorrowedFd<'_>,
    name: &[u8],
    limit: u64,
    use_content: impl FnOnce(&[u8]) -> T,
) -> Result<(Stat, T), Unread> {
    CONTENT.with_borrow_mut(|buffer| {
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
            if read == size && before == after {
                let result = use_content(&buffer[..size]);
                if buffer.len() > KEPT_BUFFER {
                    *buffer = Vec::new();
                }
                return Ok((after, result));
            }
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
