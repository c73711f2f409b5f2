//! SQLite databases. A database and its companion files (`-wal`, `-journal`) are captured as of the
//! same moment, because files from different moments would be useless.
//!
//! All of these files are read, the write-ahead log last. They are consistent if, during the reads,
//! neither the database nor its journal changed and the log only grew: SQLite ignores an incomplete
//! end of the log. The shared memory (`-shm`) is recreated by the first process that opens the
//! database.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::PoisonError;

use super::cache::{CachedEntry, Cause, EntryKind, FileClass};
use super::read::{ReadFailure, ReadOnce, read_once};
use super::scan::ContentSource::{Known, New};
use super::scan::{
    ContentSource, DirectoryListing, ListedChild, ScanResults, ScannedDirectory, Scanner,
};
use crate::beneath;
use crate::object::ObjectKind;
use crate::oid::Oid;
use crate::path::{RelPath, join, split};

/// The first bytes of a database.
const HEADER: &[u8] = b"SQLite format 3\0";
/// The length of the header of a write-ahead log. The header changes when the log starts over.
const WAL_HEADER: usize = 32;
/// The maximum number of times that the files of a database are read to get a consistent state.
const MAX_ATTEMPTS: usize = 20;
/// The number of bytes after which no further attempt is made, provided that the files of the
/// database were read at least twice.
const ENOUGH_BYTES: usize = 256 << 20;

/// A change time that makes the next capture reread the file.
const UNRELIABLE: i64 = i64::MIN;

/// The suffixes of the companion files of a database.
pub const SUFFIXES: [&[u8]; 3] = [b"-journal", b"-wal", b"-shm"];

/// Returns the path of the database that a file belongs to, according to the file's name.
pub(crate) fn database_of(path: &[u8]) -> Option<&[u8]> {
    let base = SUFFIXES.iter().find_map(|suffix| path.strip_suffix(*suffix))?;
    (!base.is_empty() && !base.ends_with(b"/")).then_some(base)
}

/// The files of a database, read one after the other.
struct Collected {
    database: ReadOnce,
    journal: Option<ReadOnce>,
    wal: Option<ReadOnce>,
}

impl Collected {
    fn len(&self) -> usize {
        let beside = [&self.journal, &self.wal];
        let beside: usize = beside.into_iter().flatten().map(|read| read.content.len()).sum();
        self.database.content.len() + beside
    }

    /// True if these files are consistent: a second read returned the same database and journal,
    /// and the log only grew.
    fn is_confirmed_by(&self, again: &Collected) -> bool {
        let content = |read: &Option<ReadOnce>| read.as_ref().map(|read| read.content.clone());
        let wal = |read: &Collected| read.wal.as_ref().map(|wal| header_of(&wal.content).to_vec());
        self.database.content == again.database.content
            && content(&self.journal) == content(&again.journal)
            && wal(self) == wal(again)
            && self.wal.as_ref().map(|wal| wal.content.len())
                <= again.wal.as_ref().map(|wal| wal.content.len())
    }
}

fn header_of(wal: &[u8]) -> &[u8] {
    &wal[..wal.len().min(WAL_HEADER)]
}

impl Scanner<'_> {
    /// If this file is a database or belongs to one, records that database for
    /// [`Scanner::settle_databases`].
    pub(super) fn note_database(&self, path: &[u8], content: &[u8]) {
        let base = if content.starts_with(HEADER) { Some(path) } else { database_of(path) };
        if let Some(base) = base {
            let mut databases = self.databases.lock().unwrap_or_else(PoisonError::into_inner);
            databases.insert(base.to_vec());
        }
    }

    /// If this file is a database or belongs to one, records that database for
    /// [`Scanner::settle_databases`]. This function is for a file whose content is unknown, because
    /// the file changed each time it was read.
    pub(super) fn note_changing_database(&self, fd: BorrowedFd<'_>, path: &[u8], name: &[u8]) {
        let header = if is_database(fd, name) { HEADER } else { b"" };
        self.note_database(path, header);
    }

    /// Makes sure that the captured files of each database are consistent. Returns the databases
    /// for which that was impossible.
    pub(crate) fn settle_databases(&self) -> Vec<RelPath> {
        let bases =
            std::mem::take(&mut *self.databases.lock().unwrap_or_else(PoisonError::into_inner));
        if bases.is_empty() || self.is_hopeless() {
            return Vec::new();
        }
        let live = self.find_live_directories();
        let unsettled = bases.into_iter().filter(|base| !self.settle_database(base, &live));
        unsettled.filter_map(|base| RelPath::new(base).ok()).collect()
    }

    /// Makes the captured files of one database consistent. Returns false if its files may be
    /// inconsistent with each other.
    fn settle_database(&self, base: &[u8], live: &HashSet<ContentSource>) -> bool {
        let (directory, name) = split(base);
        let Ok(fd) = self.root.open_directory(directory) else { return true };
        let fd = fd.as_fd();
        let mut results = self.lock_results();
        let ScanResults { known, new } = &mut *results;
        let known = known.iter_mut().map(|(number, scanned)| (Known(*number), Some(scanned)));
        let new = (0..).zip(new).map(|(at, scanned)| (New(at), scanned.as_mut()));
        let listing = known.chain(new).find_map(|(source, scanned)| match scanned? {
            ScannedDirectory::Listed(listing)
                if listing.path == directory && live.contains(&source) =>
            {
                Some(listing)
            }
            _ => None,
        });
        let Some(listing) = listing else { return true };
        let Some(database) = find_child(listing, name).map(|at| listing.children[at].entry) else {
            return true;
        };
        if !is_database(fd, name) {
            return true;
        }
        match database.kind {
            EntryKind::Uncovered if database.cause != Cause::Changing => {
                leave_beside(listing, name, &database);
                true
            }
            EntryKind::File | EntryKind::Uncovered => {
                self.is_quiet(fd, listing, name) || self.read_group(fd, listing, name, &database)
            }
            EntryKind::Directory | EntryKind::Symlink => true,
        }
    }

    /// True if no file of a database has changed since it was read. This means that the files are
    /// consistent.
    fn is_quiet(&self, fd: BorrowedFd<'_>, listing: &DirectoryListing, name: &[u8]) -> bool {
        let is_same = |suffix: &[u8]| {
            let name = [name, suffix].concat();
            let listed = find_child(listing, &name).map(|at| &listing.children[at].entry);
            match (beneath::stat_at(fd, &name), listed) {
                (Ok(stat), Some(entry)) => {
                    entry.kind == EntryKind::File
                        && stat == entry.stat
                        && !self.present_cutoff.is_racy(&stat)
                }
                (Err(_), None) => true,
                _ => false,
            }
        };
        is_same(b"") && is_same(b"-journal") && is_same(b"-wal")
    }

    /// Reads the files of a database until they are consistent. Returns false if they never were.
    fn read_group(
        &self,
        fd: BorrowedFd<'_>,
        listing: &mut DirectoryListing,
        name: &[u8],
        database: &CachedEntry,
    ) -> bool {
        let limit = self.coverage.size_limit(database.class, &join(&listing.path, name));
        let limits = (limit, limit.max(self.coverage.rules.max_file_size));
        let mut last: Option<Collected> = None;
        let mut bytes = 0;
        let mut is_settled = false;
        for attempt in 0..MAX_ATTEMPTS {
            let Ok((collected, is_one_moment)) = self.collect(fd, name, limits) else {
                last = None;
                break;
            };
            bytes += collected.len();
            is_settled = is_one_moment;
            if !is_settled && let Some(last) = &last {
                is_settled = last.is_confirmed_by(&collected);
                // A confirmed `last` is consistent, because its log was read between two equal
                // states of the database.
                if is_settled {
                    break;
                }
            }
            last = Some(collected);
            if is_settled || (attempt > 0 && bytes > ENOUGH_BYTES) {
                break;
            }
        }
        let Some(Collected { database: read, journal, wal }) = last else {
            let at = find_child(listing, name).expect("the database is listed");
            listing.children[at].entry.stat.ctime = UNRELIABLE;
            return false;
        };
        self.replace_child(listing, name, Some(read), database.class, is_settled);
        for (suffix, read) in [(&b"-journal"[..], journal), (b"-wal", wal)] {
            if self.coverage.is_single_file() {
                is_settled &= read.is_none_or(|read| read.content.is_empty());
            } else {
                let name = [name, suffix].concat();
                self.replace_child(listing, &name, read, database.class, is_settled);
            }
        }
        is_settled
    }

    /// Reads the files of a database once. The returned flag is true if the files are consistent.
    fn collect(
        &self,
        fd: BorrowedFd<'_>,
        name: &[u8],
        (limit, limit_beside): (u64, u64),
    ) -> Result<(Collected, bool), ReadFailure> {
        let beside = |suffix: &[u8]| [name, suffix].concat();
        let database = read_once(fd, name, limit)?.ok_or(ReadFailure::Changing)?;
        let journal = read_once(fd, &beside(b"-journal"), limit_beside)?;
        let wal = read_once(fd, &beside(b"-wal"), limit_beside)?;
        let is_still =
            |name: &[u8], read: Option<&ReadOnce>| match (beneath::stat_at(fd, name), read) {
                (Ok(stat), Some(read)) => {
                    read.is_same && stat == read.stat && !self.present_cutoff.is_racy(&stat)
                }
                (Err(_), None) => true,
                _ => false,
            };
        let has_same_log = match (&wal, read_header(fd, &beside(b"-wal"))) {
            (Some(wal), Some(header)) => header == header_of(&wal.content),
            (None, None) => true,
            _ => false,
        };
        let is_one_moment = has_same_log
            && is_still(&beside(b"-journal"), journal.as_ref())
            && is_still(name, Some(&database));
        Ok((Collected { database, journal, wal }, is_one_moment))
    }

    /// Updates a listing with a file that was read, or removes the file from the listing if the
    /// file does not exist.
    fn replace_child(
        &self,
        listing: &mut DirectoryListing,
        name: &[u8],
        read: Option<ReadOnce>,
        class: FileClass,
        is_settled: bool,
    ) {
        let at = listing.children.binary_search_by(|child| child.name[..].cmp(name));
        let Some(ReadOnce { mut stat, content, .. }) = read else {
            if let Ok(at) = at {
                listing.children.remove(at);
            }
            return;
        };
        let oid = Oid::of(ObjectKind::Blob, &content);
        self.sink.add_known_object(oid, ObjectKind::Blob, &content);
        if !is_settled {
            // The next capture must reread the file.
            stat.ctime = UNRELIABLE;
        }
        let entry = CachedEntry { oid, class, ..CachedEntry::new(EntryKind::File, stat) };
        match at {
            Ok(at) => {
                let class = match listing.children[at].entry.kind {
                    EntryKind::File => listing.children[at].entry.class,
                    _ => class,
                };
                listing.children[at].entry = CachedEntry { class, ..entry };
            }
            Err(at) => {
                let source = ContentSource::Nothing;
                listing.children.insert(at, ListedChild { name: name.to_vec(), entry, source });
            }
        }
    }
}

fn find_child(listing: &DirectoryListing, name: &[u8]) -> Option<usize> {
    listing.children.binary_search_by(|child| child.name[..].cmp(name)).ok()
}

/// Leaves out the companion files of a database that is itself left out. Restoring a log together
/// with a different state of its database would destroy the database.
fn leave_beside(listing: &mut DirectoryListing, name: &[u8], database: &CachedEntry) {
    for suffix in SUFFIXES {
        let Some(at) = find_child(listing, &[name, suffix].concat()) else { continue };
        let entry = &mut listing.children[at].entry;
        if entry.kind == EntryKind::File {
            let CachedEntry { cause, class, .. } = *database;
            *entry =
                CachedEntry { cause, class, ..CachedEntry::new(EntryKind::Uncovered, entry.stat) };
        }
    }
}

fn is_database(fd: BorrowedFd<'_>, name: &[u8]) -> bool {
    read_header(fd, name).is_some_and(|header| header.starts_with(HEADER))
}

/// Reads the first bytes of a file. Returns `None` if it cannot be read.
fn read_header(fd: BorrowedFd<'_>, name: &[u8]) -> Option<Vec<u8>> {
    let file = beneath::open_file(fd, name).ok()?;
    let mut header = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(file, WAL_HEADER as u64), &mut header)
        .ok()?;
    Some(header)
}
