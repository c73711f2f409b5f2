//! The locks of tasks: a file per task, in the directory `tasks` beside the database.
//!
//! A task is locked only while a process holds the kernel's lock on its file; the mere existence of
//! the file means nothing. Another lock, `tasks/lock`, is held briefly to take or test a task's
//! lock. So testing a task's lock never makes the task look as if it were running.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use takeback_base::durable::{self, FileLock};
use takeback_base::lock_wait::LockWait;

use crate::{Ledger, LedgerError};

/// The lock of a task, released when this value is dropped or its process ends.
#[derive(Debug)]
pub(super) struct TaskLock {
    _file: FileLock,
}

/// The directory with the locks of all tasks.
pub(super) struct TaskLocks {
    directory: PathBuf,
    /// The time to wait for other processes that are taking or testing locks.
    wait: Duration,
}

impl Ledger {
    /// Returns the ids of the tasks whose leases are held by running processes. Does not wait for
    /// these processes.
    pub fn running_tasks(&self) -> Result<BTreeSet<String>, LedgerError> {
        self.task_locks().list_held()
    }

    pub(super) fn task_locks(&self) -> TaskLocks {
        let directory = self.database.path().with_file_name("tasks");
        TaskLocks { directory, wait: self.database.wait() }
    }
}

impl TaskLocks {
    /// Takes the lock of a task, or returns `None` if it is held.
    pub(super) fn try_lock(&self, task: &str) -> Result<Option<TaskLock>, LedgerError> {
        let _guard = self.guard()?;
        self.open_lock(task).map_err(|source| self.failed(source))
    }

    /// Takes the lock of a task. If it is held, puts a new file in its place: the process that
    /// holds the old lock keeps a lock that no longer has any effect.
    pub(super) fn replace_lock(&self, task: &str) -> Result<TaskLock, LedgerError> {
        let _guard = self.guard()?;
        let replace = || {
            durable::ignore_missing(fs::remove_file(self.file_of(task)))?;
            self.open_lock(task)?.ok_or_else(|| io::ErrorKind::WouldBlock.into())
        };
        replace().map_err(|source| self.failed(source))
    }

    /// Takes the lock of a task, or returns `None` if it is held. Removes the files of all locks
    /// that are not held. The caller holds the guard.
    fn open_lock(&self, task: &str) -> io::Result<Option<TaskLock>> {
        self.sweep_files()?;
        let lock = FileLock::try_exclusive(&self.file_of(task))?;
        Ok(lock.map(|lock| TaskLock { _file: lock }))
    }

    fn file_of(&self, task: &str) -> PathBuf {
        self.directory.join(format!("{task}.lock"))
    }

    fn list_held(&self) -> Result<BTreeSet<String>, LedgerError> {
        if !self.directory.exists() {
            return Ok(BTreeSet::new());
        }
        let _guard = self.guard()?;
        self.sweep_files().map_err(|source| self.failed(source))
    }

    /// Removes the files of all locks that are not held. Returns the tasks whose locks are held.
    /// The caller holds the guard, so no other process can open a file that is about to be removed
    /// and then lock it.
    fn sweep_files(&self) -> io::Result<BTreeSet<String>> {
        let mut held = BTreeSet::new();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            let Some(task) = task_of(&path) else { continue };
            match FileLock::try_exclusive(&path)? {
                Some(_lock) => durable::ignore_missing(fs::remove_file(&path))?,
                None => drop(held.insert(task)),
            }
        }
        Ok(held)
    }

    /// Keeps other processes from taking or testing locks while the guard is held. Creates the
    /// directory if it is missing.
    fn guard(&self) -> Result<FileLock, LedgerError> {
        let path = self.directory.join("lock");
        let wait = LockWait::silent(self.wait);
        let lock = durable::with_directory(&path, || FileLock::exclusive_within(&path, &wait));
        lock.map_err(|source| self.failed(source))?.ok_or(LedgerError::Busy { waited: self.wait })
    }

    fn failed(&self, source: io::Error) -> LedgerError {
        LedgerError::TaskLock { path: self.directory.clone(), source }
    }
}

/// Returns the task that a lock file belongs to.
fn task_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    name.strip_suffix(".lock").map(str::to_owned)
}
