//! The files of a repair: the lock, the backup, and the replacement of the database.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, fcntl_lock};
use takeback_base::durable;

use crate::Time;

/// True if a repair created a new database but was interrupted before putting it in place.
pub(crate) fn is_unfinished(path: &Path) -> bool {
    ready_path(path).exists()
}

/// Returns the path to which the new database is renamed once it is complete.
fn ready_path(path: &Path) -> PathBuf {
    path_beside(path, "ready")
}

/// The time that a repair waits for other processes to close the ledger. Hooks keep it open for
/// milliseconds, and a server closes it when it has been idle for a short time.
const PATIENCE: Duration = Duration::from_secs(3);

/// The result of trying to lock the database file.
pub(super) enum DatabaseLock {
    /// No other process is using the database, and none can open it as long as this file stays
    /// open.
    Locked(File),
    /// Other processes had the database open during the whole wait.
    InUse,
    /// Another repair replaced the database in the meantime.
    Replaced,
}

/// Takes a lock that is granted only while no other process holds a lock on the database. In WAL
/// mode, every open connection holds one.
pub(super) fn lock_file(path: &Path) -> io::Result<DatabaseLock> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let start = Instant::now();
    loop {
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if is_at(&file, path)? => return Ok(DatabaseLock::Locked(file)),
            Ok(()) => return Ok(DatabaseLock::Replaced),
            Err(rustix::io::Errno::ACCESS | rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        if start.elapsed() > PATIENCE {
            return Ok(DatabaseLock::InUse);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// True if an open file is still the file at this path.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let (open, at_path) = (file.metadata()?, fs::metadata(path)?);
    Ok((open.dev(), open.ino()) == (at_path.dev(), at_path.ino()))
}

/// Returns the path of a file next to the database: `state.db` → `state.db.<what>`.
pub(super) fn path_beside(path: &Path, what: &str) -> PathBuf {
    with_suffix(path, &format!(".{what}"))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Copies the database and its log durably to a new path. Returns that path.
pub(super) fn back_up(path: &Path, locked: &mut File, now: Time) -> io::Result<PathBuf> {
    let mut backup = path_beside(path, &format!("damaged-{}", now.0));
    let mut number = 1;
    while backup.try_exists()? {
        number += 1;
        backup = path_beside(path, &format!("damaged-{}-{number}", now.0));
    }
    copy_file(locked, &backup)?;
    for suffix in ["-wal", "-journal"] {
        let log = with_suffix(path, suffix);
        if log.try_exists()? {
            copy_file(&mut File::open(&log)?, &with_suffix(&backup, suffix))?;
        }
    }
    Ok(backup)
}

fn copy_file(from: &mut File, to: &Path) -> io::Result<()> {
    let mut out = durable::create_new_file(to)?;
    io::copy(from, &mut out)?;
    out.sync_all()
}

/// Removes a database and its log files.
pub(super) fn remove_database(database: &Path) -> io::Result<()> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        durable::ignore_missing(fs::remove_file(with_suffix(database, suffix)))?;
    }
    Ok(())
}

/// Gives the new database the name that marks it as complete.
pub(super) fn mark_ready(path: &Path, fresh: &Path) -> io::Result<()> {
    let log = with_suffix(fresh, "-wal");
    if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        return Err(io::Error::other("the new database is not complete without its log"));
    }
    File::open(fresh)?.sync_all()?;
    fs::rename(fresh, ready_path(path))?;
    remove_database(fresh)?;
    durable::sync_directory(directory_of(path))
}

/// Puts the new database in place. Removes the old log first, because SQLite must never apply it to
/// the new database.
pub(super) fn put_in_place(path: &Path) -> io::Result<()> {
    for suffix in ["-wal", "-shm", "-journal"] {
        durable::ignore_missing(fs::remove_file(with_suffix(path, suffix)))?;
    }
    durable::sync_directory(directory_of(path))?;
    fs::rename(ready_path(path), path)?;
    durable::sync_directory(directory_of(path))
}

fn directory_of(path: &Path) -> &Path {
    path.parent().expect("the canonical path of a file has a parent")
}
