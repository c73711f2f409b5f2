//! A private, consistent copy of a database that another process may be writing to.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use takeback_base::durable::{self, if_exists};
use takeback_base::{foreign, hex};

use super::HermesError;

/// The time after which copying gives up on a database that changes faster than it can be copied.
const PATIENCE: Duration = Duration::from_secs(20);

/// The number of bytes copied between two checks of the original.
const PIECE: u64 = 8 << 20;

/// The maximum size of the database, and also of its journal.
const MAX_SIZE: u64 = 8 << 30;

/// A duration longer than the timestamp granularity of any local file system.
const TICK: Duration = Duration::from_millis(20);

/// The size of the header of a write-ahead log. SQLite changes the header whenever the log starts
/// over.
const LOG_HEADER: u64 = 32;

/// A copy in a separate directory, which is removed on drop.
#[derive(Debug)]
pub(super) struct PrivateCopy {
    directory: PathBuf,
    database: PathBuf,
}

impl PrivateCopy {
    /// Copies the database and its journal into a new directory below `scratch`.
    pub(super) fn create(original: &Path, scratch: &Path) -> Result<PrivateCopy, HermesError> {
        let failed = |copy: &Path, source| {
            let (path, copy) = (original.to_owned(), copy.to_owned());
            HermesError::Copy { path, copy, source }
        };
        let directory = create_directory(scratch).map_err(|error| failed(scratch, error))?;
        let copy = PrivateCopy { database: directory.join("state.db"), directory };
        let begun = Instant::now();
        // Retry immediately: right after a change, the database is least likely to change again.
        while !try_copy(original, &copy.database).map_err(|error| failed(&copy.database, error))? {
            if begun.elapsed() > PATIENCE {
                return Err(HermesError::Changing { path: original.to_owned() });
            }
        }
        Ok(copy)
    }

    pub(super) fn database(&self) -> &Path {
        &self.database
    }
}

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        // A failure cannot be reported from here. The caller can still delete `scratch`.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn create_directory(scratch: &Path) -> io::Result<PathBuf> {
    let directory = scratch.join(format!("hermes-{}", hex::random_digits(16)));
    durable::create_directory(scratch)?;
    durable::create_new_directory(&directory)?;
    Ok(directory)
}

/// Copies the database and its journal. Returns false if they changed in the meantime, which makes
/// the copies inconsistent.
fn try_copy(original: &Path, copy: &Path) -> io::Result<bool> {
    let version = SourceVersion::read_settled(original)?;
    let is_unchanged = || Ok(SourceVersion::read(original)? == version);
    if !copy_while(original, copy, is_unchanged)? {
        return Ok(false);
    }
    for suffix in ["-wal", "-journal"] {
        copy_if_exists(&add_suffix(original, suffix), &add_suffix(copy, suffix))?;
    }
    is_unchanged()
}

/// A version of the database. Files that are copied while the version stays the same are consistent
/// with each other.
///
/// With a write-ahead log, a version lasts until the log starts over. Pages that are written to the
/// database in the meantime come from the log, which is copied afterwards and takes precedence over
/// the database. The log may grow while it is being copied. This does no harm, because its
/// checksums tell SQLite where the last whole transaction ends.
///
/// Without a log, a version lasts until the database or the rollback journal changes.
#[derive(PartialEq)]
enum SourceVersion {
    Log(Vec<u8>),
    Files(FileStamp, Option<FileStamp>),
}

impl SourceVersion {
    fn read(original: &Path) -> io::Result<SourceVersion> {
        let header = read_log_header(&add_suffix(original, "-wal"))?;
        if !header.is_empty() {
            return Ok(SourceVersion::Log(header));
        }
        let journal = if_exists(fs::metadata(add_suffix(original, "-journal")))?;
        let database = FileStamp::new(&fs::metadata(original)?);
        Ok(SourceVersion::Files(database, journal.as_ref().map(FileStamp::new)))
    }

    /// Reads the version, and waits until any later change is certain to produce different
    /// timestamps.
    fn read_settled(original: &Path) -> io::Result<SourceVersion> {
        let version = SourceVersion::read(original)?;
        if matches!(version, SourceVersion::Files(..)) {
            let modified = fs::metadata(original)?.modified()?;
            let age = SystemTime::now().duration_since(modified).unwrap_or_default();
            if age < TICK {
                thread::sleep(TICK);
            }
        }
        Ok(version)
    }
}

/// The metadata that changes when a file is written or replaced.
#[derive(PartialEq)]
struct FileStamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    fn new(metadata: &Metadata) -> FileStamp {
        FileStamp {
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

fn copy_if_exists(original: &Path, copy: &Path) -> io::Result<()> {
    if if_exists(copy_while(original, copy, || Ok(true)))?.is_none() {
        // An earlier attempt may have left a file behind.
        if_exists(fs::remove_file(copy))?;
    }
    Ok(())
}

/// Copies a file piece by piece while `is_unchanged` returns true. Returns false if it stopped
/// early.
fn copy_while(
    original: &Path,
    copy: &Path,
    is_unchanged: impl Fn() -> io::Result<bool>,
) -> io::Result<bool> {
    // Symbolic links are not followed: SQLite does not follow a link that has the name of a journal
    // either, and the path of the database contains no links.
    let from = foreign::open_unlinked(original).map_err(|error| name_file(original, &error))?;
    let from = from.ok_or(io::ErrorKind::NotFound)?;
    if from.metadata()?.len() > MAX_SIZE {
        return Err(too_large(original));
    }
    let mut from = from.take(MAX_SIZE + 1);
    // `fs::copy` would also copy the mode, and the original may be read-only or readable by all
    // users.
    let mut to = durable::create_file(copy)?;
    while io::copy(&mut Read::by_ref(&mut from).take(PIECE), &mut to)? > 0 {
        if !is_unchanged()? {
            return Ok(false);
        }
    }
    // The file may have grown beyond the limit while it was being copied.
    if from.limit() == 0 { Err(too_large(original)) } else { Ok(true) }
}

fn read_log_header(log: &Path) -> io::Result<Vec<u8>> {
    let mut header = Vec::new();
    let opened = foreign::open_unlinked(log).map_err(|error| name_file(log, &error))?;
    if let Some(file) = opened {
        file.take(LOG_HEADER).read_to_end(&mut header)?;
    }
    Ok(header)
}

fn too_large(path: &Path) -> io::Error {
    let error = io::Error::other(format!("it is larger than {} GB", MAX_SIZE >> 30));
    name_file(path, &error)
}

fn name_file(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn add_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    fn insert_row(connection: &Connection) {
        connection
            .execute_batch("CREATE TABLE IF NOT EXISTS t (x); INSERT INTO t VALUES (1)")
            .unwrap();
    }

    #[test]
    fn a_version_ends_when_the_log_starts_over() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state.db");
        let connection = Connection::open(&file).unwrap();
        connection.execute_batch("PRAGMA journal_mode = WAL").unwrap();
        insert_row(&connection);
        let version = SourceVersion::read_settled(&file).unwrap();
        insert_row(&connection);
        assert!(SourceVersion::read(&file).unwrap() == version, "the log only grew");
        connection.execute_batch("PRAGMA wal_checkpoint(PASSIVE)").unwrap();
        assert!(SourceVersion::read(&file).unwrap() == version, "everything new is in the log");
        insert_row(&connection);
        assert!(SourceVersion::read(&file).unwrap() != version, "the log has started over");
    }

    #[test]
    fn a_version_without_a_log_ends_when_the_database_changes() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state.db");
        let connection = Connection::open(&file).unwrap();
        insert_row(&connection);
        let version = SourceVersion::read_settled(&file).unwrap();
        assert!(SourceVersion::read(&file).unwrap() == version);
        insert_row(&connection);
        assert!(SourceVersion::read(&file).unwrap() != version);
    }

    #[test]
    fn copying_stops_when_the_original_has_changed() {
        let directory = tempfile::tempdir().unwrap();
        let (file, copy) = (directory.path().join("a"), directory.path().join("b"));
        fs::write(&file, vec![7; PIECE as usize + 1]).unwrap();
        assert!(!copy_while(&file, &copy, || Ok(false)).unwrap());
        assert_eq!(fs::metadata(&copy).unwrap().len(), PIECE);
        assert!(copy_while(&file, &copy, || Ok(true)).unwrap());
        assert_eq!(fs::metadata(&copy).unwrap().len(), PIECE + 1);
    }
}
