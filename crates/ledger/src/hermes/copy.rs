//! A private, consistent copy of a database that somebody else may be writing to.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use super::HermesError;

/// With a pause that grows by [`PAUSE`] each time: about four seconds.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(20);

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
        for attempt in 0..ATTEMPTS {
            thread::sleep(PAUSE * attempt);
            match copy_once(original, &copy.database) {
                Ok(true) => return Ok(copy),
                Ok(false) => {}
                Err(error) => return Err(failed(&copy.database, error)),
            }
        }
        Err(HermesError::Changing { path: original.to_owned() })
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
///
/// It does if neither the database nor a rollback journal changed meanwhile, and the write-ahead
/// log did not start over. That log may well grow: its checksums tell SQLite where the last whole
/// transaction ends.
fn copy_once(original: &Path, copy: &Path) -> io::Result<bool> {
    let before = Stamps::settled(original)?;
    copy_file(original, copy)?;
    for suffix in ["-wal", "-journal"] {
        copy_if_there(&with_suffix(original, suffix), &with_suffix(copy, suffix))?;
    }
    let same_log =
        log_header(&with_suffix(original, "-wal"))? == log_header(&with_suffix(copy, "-wal"))?;
    Ok(same_log && Stamps::of(original)? == before)
}

/// What changes when the files change.
#[derive(PartialEq)]
struct Stamps {
    database: Stamp,
    journal: Option<Stamp>,
}

#[derive(PartialEq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamps {
    fn of(original: &Path) -> io::Result<Stamps> {
        let journal = if_there(fs::metadata(with_suffix(original, "-journal")))?;
        Ok(Stamps {
            database: Stamp::of(&fs::metadata(original)?),
            journal: journal.as_ref().map(Stamp::of),
        })
    }

    /// Stamps that every later change will differ from.
    fn settled(original: &Path) -> io::Result<Stamps> {
        let stamps = Stamps::of(original)?;
        let modified = fs::metadata(original)?.modified()?;
        let age = SystemTime::now().duration_since(modified).unwrap_or_default();
        if age < TICK {
            thread::sleep(TICK);
        }
        Ok(stamps)
    }
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
    if if_there(copy_file(original, copy))?.is_none() {
        // One of an earlier attempt does not belong to this one.
        if_there(fs::remove_file(copy))?;
    }
    Ok(())
}

fn copy_file(original: &Path, copy: &Path) -> io::Result<()> {
    let mut from = File::open(original)?;
    // Not `fs::copy`: that takes over the mode, which may be read-only or open to everybody.
    let mut to =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(copy)?;
    io::copy(&mut from, &mut to)?;
    Ok(())
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
