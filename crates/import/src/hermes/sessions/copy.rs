//! A private, consistent copy of a database that somebody else may be writing to.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::HermesError;

/// How long to wait for a moment that is quiet for as long as copying takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// How much is copied before looking again whether it was in vain.
const PIECE: u64 = 8 << 20;

/// Longer than the clock of any local file system stands still.
const TICK: Duration = Duration::from_millis(20);

/// What marks one run of the write-ahead log; it is new whenever the log starts over.
const LOG_HEADER: u64 = 32;

/// A copy in a directory of its own, which goes when this is dropped.
#[derive(Debug)]
pub(super) struct PrivateCopy {
    directory: PathBuf,
    database: PathBuf,
}

impl PrivateCopy {
    pub(super) fn make(original: &Path, scratch: &Path) -> Result<PrivateCopy, HermesError> {
        let failed = |copy: &Path, source| {
            let (path, copy) = (original.to_owned(), copy.to_owned());
            HermesError::Copy { path, copy, source }
        };
        let directory = make_directory(scratch).map_err(|error| failed(scratch, error))?;
        let copy = PrivateCopy { database: directory.join("state.db"), directory };
        let begun = Instant::now();
        // The first attempt is made in any case, and again at once: copying had better begin right
        // after a change.
        while !copy_once(original, &copy.database).map_err(|error| failed(&copy.database, error))? {
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
        // Nobody is left to tell, and it is in a directory for such things.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn make_directory(scratch: &Path) -> io::Result<PathBuf> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let directory = scratch.join(format!("hermes-{:016x}", u64::from_ne_bytes(random)));
    DirBuilder::new().mode(0o700).recursive(true).create(scratch)?;
    DirBuilder::new().mode(0o700).create(&directory)?;
    Ok(directory)
}

/// Copies everything; whether it belongs together.
fn copy_once(original: &Path, copy: &Path) -> io::Result<bool> {
    let moment = Moment::settled(original)?;
    let lasts = || Ok(Moment::now(original)? == moment);
    if !copy_while(original, copy, lasts)? {
        return Ok(false);
    }
    for suffix in ["-wal", "-journal"] {
        copy_if_there(&with_suffix(original, suffix), &with_suffix(copy, suffix))?;
    }
    lasts()
}

/// As long as this is the same, the files belong together.
///
/// With a write-ahead log that is the run of the log. What comes into the database meanwhile comes
/// from the log, which is copied afterwards and wins over the database. The log may well grow: its
/// checksums tell SQLite where the last whole transaction ends.
///
/// Without one, the database and the rollback journal themselves must not change.
#[derive(PartialEq)]
enum Moment {
    Log(Vec<u8>),
    Files(Stamp, Option<Stamp>),
}

impl Moment {
    fn now(original: &Path) -> io::Result<Moment> {
        let header = log_header(&with_suffix(original, "-wal"))?;
        if !header.is_empty() {
            return Ok(Moment::Log(header));
        }
        let journal = if_there(fs::metadata(with_suffix(original, "-journal")))?;
        let database = Stamp::of(&fs::metadata(original)?);
        Ok(Moment::Files(database, journal.as_ref().map(Stamp::of)))
    }

    /// A moment that every later change will end.
    fn settled(original: &Path) -> io::Result<Moment> {
        let moment = Moment::now(original)?;
        if matches!(moment, Moment::Files(..)) {
            let modified = fs::metadata(original)?.modified()?;
            let age = SystemTime::now().duration_since(modified).unwrap_or_default();
            if age < TICK {
                thread::sleep(TICK);
            }
        }
        Ok(moment)
    }
}

/// What changes when a file changes.
#[derive(PartialEq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

fn copy_if_there(original: &Path, copy: &Path) -> io::Result<()> {
    if if_there(copy_while(original, copy, || Ok(true)))?.is_none() {
        // One of an earlier attempt does not belong to this one.
        if_there(fs::remove_file(copy))?;
    }
    Ok(())
}

/// Copies a file, but gives up when `lasts` says so; whether it is whole.
fn copy_while(
    original: &Path,
    copy: &Path,
    lasts: impl Fn() -> io::Result<bool>,
) -> io::Result<bool> {
    let mut from = File::open(original)?;
    // Not `fs::copy`: that takes over the mode, which may be read-only or open to everybody.
    let mut to =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(copy)?;
    while io::copy(&mut Read::by_ref(&mut from).take(PIECE), &mut to)? > 0 {
        if !lasts()? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn log_header(log: &Path) -> io::Result<Vec<u8>> {
    let mut header = Vec::new();
    if let Some(file) = if_there(File::open(log))? {
        file.take(LOG_HEADER).read_to_end(&mut header)?;
    }
    Ok(header)
}

fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    fn write(connection: &Connection) {
        connection
            .execute_batch("CREATE TABLE IF NOT EXISTS t (x); INSERT INTO t VALUES (1)")
            .unwrap();
    }

    #[test]
    fn a_moment_lasts_until_the_log_starts_over() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state.db");
        let connection = Connection::open(&file).unwrap();
        connection.execute_batch("PRAGMA journal_mode = WAL").unwrap();
        write(&connection);
        let moment = Moment::settled(&file).unwrap();
        write(&connection);
        assert!(Moment::now(&file).unwrap() == moment, "the log only grew");
        connection.execute_batch("PRAGMA wal_checkpoint(PASSIVE)").unwrap();
        assert!(Moment::now(&file).unwrap() == moment, "all that is new is in the log");
        write(&connection);
        assert!(Moment::now(&file).unwrap() != moment, "the log has forgotten what it had");
    }

    #[test]
    fn a_moment_without_a_log_lasts_until_the_database_changes() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state.db");
        let connection = Connection::open(&file).unwrap();
        write(&connection);
        let moment = Moment::settled(&file).unwrap();
        assert!(Moment::now(&file).unwrap() == moment);
        write(&connection);
        assert!(Moment::now(&file).unwrap() != moment);
    }

    #[test]
    fn a_copy_that_is_in_vain_is_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let (file, copy) = (directory.path().join("a"), directory.path().join("b"));
        fs::write(&file, vec![7; PIECE as usize + 1]).unwrap();
        assert!(!copy_while(&file, &copy, || Ok(false)).unwrap());
        assert_eq!(fs::metadata(&copy).unwrap().len(), PIECE);
        assert!(copy_while(&file, &copy, || Ok(true)).unwrap());
        assert_eq!(fs::metadata(&copy).unwrap().len(), PIECE + 1);
    }
}
