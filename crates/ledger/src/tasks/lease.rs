//! Leases: the right of one process to continue a task.

use rusqlite::{Connection, OptionalExtension, params};

use super::lock::TaskLock;
use super::{check_id, find_key};
use crate::{Ledger, LedgerError, Time};

/// The right to continue a task. It lasts until it is dropped, its process ends, or another process
/// seizes the lease.
#[derive(Debug)]
pub struct Lease {
    task: String,
    epoch: i64,
    _lock: TaskLock,
}

impl Lease {
    /// Returns the id of the task.
    pub fn task(&self) -> &str {
        &self.task
    }

    /// Returns the number of this lease, which is higher than the numbers of the task's earlier
    /// leases.
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    pub(super) fn rename(&mut self, task: &str) {
        task.clone_into(&mut self.task);
    }

    pub(super) fn set_epoch(&mut self, epoch: i64) {
        self.epoch = epoch;
    }
}

/// The columns of a task that are needed to append to its journal.
pub(super) struct TaskHead {
    pub(super) key: i64,
    /// The key of the session.
    pub(super) session: i64,
    pub(super) last_seq: i64,
    pub(super) state: String,
}

impl Ledger {
    /// Takes the lease of a task. Fails with [`LedgerError::TaskRunning`] while the process that
    /// has the lease is alive. Any earlier lease is fenced: writes under it fail.
    pub fn take_lease(&mut self, task: &str, now: Time) -> Result<Lease, LedgerError> {
        self.check_task(task)?;
        match self.task_locks().try_lock(task)? {
            Some(lock) => self.raise_epoch(task, lock, now),
            None => Err(LedgerError::TaskRunning(task.to_owned())),
        }
    }

    /// Takes the lease of a task even if the process that has it is alive, and fences that process.
    /// This is meant for cases in which that process hangs or runs on another machine.
    pub fn seize_lease(&mut self, task: &str, now: Time) -> Result<Lease, LedgerError> {
        self.check_task(task)?;
        let lock = self.task_locks().replace_lock(task)?;
        self.raise_epoch(task, lock, now)
    }

    /// Fails if the task does not exist, or if its id cannot be part of a path. Only another
    /// program can have written such an id.
    fn check_task(&self, task: &str) -> Result<(), LedgerError> {
        find_key(self.database.reader()?, task)?;
        check_id(task)
    }

    fn raise_epoch(&mut self, task: &str, lock: TaskLock, now: Time) -> Result<Lease, LedgerError> {
        let epoch = self.database.write(|transaction| {
            let sql = "UPDATE tasks SET epoch = epoch + 1, updated_at = ?2 WHERE id = ?1
                       RETURNING epoch";
            let mut statement = transaction.prepare_cached(sql)?;
            let epoch = statement.query_row(params![task, now], |row| row.get(0)).optional()?;
            epoch.ok_or_else(|| LedgerError::NoSuchTask(task.to_owned()))
        })?;
        Ok(Lease { task: task.to_owned(), epoch, _lock: lock })
    }
}

/// Reads the columns of a task that are needed to append to its journal. Fails if a later lease has
/// been taken.
pub(super) fn check_lease(connection: &Connection, lease: &Lease) -> Result<TaskHead, LedgerError> {
    let Lease { task, epoch, .. } = lease;
    let found = connection
        .prepare_cached("SELECT epoch, key, session, last_seq, state FROM tasks WHERE id = ?1")?
        .query_row([task], |row| {
            let (key, session) = (row.get(1)?, row.get(2)?);
            let head = TaskHead { key, session, last_seq: row.get(3)?, state: row.get(4)? };
            Ok((row.get(0)?, head))
        })
        .optional()?;
    match found {
        Some((current, head)) if current == *epoch => Ok(head),
        Some((current, _)) => {
            Err(LedgerError::Fenced { task: task.clone(), epoch: *epoch, current })
        }
        None => Err(LedgerError::NoSuchTask(task.clone())),
    }
}
