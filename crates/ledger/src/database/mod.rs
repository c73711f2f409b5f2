//! The open database: reading, writing, and waiting for other processes.
//!
//! In WAL mode, readers never wait for writers. A write begins with `BEGIN IMMEDIATE`. A process
//! that has to wait for another one sleeps for short random times, so that waiting processes do not
//! all retry at the same time. It gives up at the caller's deadline.

mod connect;
mod deadline;

use std::cell::OnceCell;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};
use takeback_base::paths;

pub use self::connect::{JournalMode, OpenError};
use self::deadline::Deadline;
use crate::{LedgerError, schema};

/// The length of the log, in bytes, above which the log is moved into the database when the
/// database is closed. This is a compromise: a long log slows down the next process that opens the
/// database, but moving the log costs a sync.
const LOG_KEPT: u64 = 1 << 20;

/// The length of the log, in bytes, above which a writer briefly blocks the others, so that the log
/// can start over. Otherwise, with many busy writers, the log would grow forever.
const LOG_MOST: u64 = 16 << 20;

/// The number of writes between two checks of the log's length.
const WRITES_PER_LOOK: u32 = 32;

/// The open database.
///
/// A database can stay open as long as the process runs. Between operations it holds no
/// transaction. Before each operation it checks that the open file is still the one at its path,
/// because a repair replaces the file, and the user may delete the old one.
pub(crate) struct Database {
    connection: Connection,
    path: PathBuf,
    file: Option<FileId>,
    /// The new database, if another process has put one at the path and a read has already opened
    /// it. The next write drops the old connection and uses this database.
    successor: OnceCell<Box<Database>>,
    journal: JournalMode,
    wait: Duration,
    /// The time at which all waiting ends, even if `wait` has not passed by then.
    limit: Option<Instant>,
    deadline: Deadline,
    care: Care,
    /// True if the connection currently syncs its commits.
    is_syncing: bool,
    writes: u32,
}

/// Optional guarantees for writes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Care {
    /// True if every write is on disk before it returns, except for work that can be repeated.
    syncs: bool,
    /// True if deleted rows are overwritten in the file.
    erases: bool,
}

impl Database {
    /// Opens the database, or creates it.
    pub(crate) fn open(
        path: &Path,
        journal: Option<JournalMode>,
        wait: Duration,
    ) -> Result<Database, OpenError> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let failed = |source| OpenError::Io { path: path.to_owned(), source };
        connect::create_missing(directory, path).map_err(failed)?;
        // The log is next to the file itself, not next to a link to it.
        let path = &paths::canonicalize(path).map_err(failed)?;
        let journal = journal.unwrap_or_else(|| JournalMode::suited_to(directory));
        let deadline = Deadline::default();
        deadline.set(wait);
        loop {
            if crate::repair::is_unfinished(path) {
                return Err(OpenError::Unfinished { path: path.to_owned() });
            }
            let file = FileId::at(path);
            let opened = connect::connect(path, journal, &deadline);
            // A repair may have replaced the file while this process waited for a lock on the old
            // one.
            if FileId::at(path) != file {
                continue;
            }
            let (connection, found) = opened?;
            let mut database = Database {
                connection,
                path: path.to_owned(),
                file,
                successor: OnceCell::new(),
                journal,
                wait,
                limit: None,
                deadline,
                care: Care::default(),
                is_syncing: false,
                writes: 0,
            };
            if found < schema::VERSION {
                database.bring_up_to_date()?;
            }
            return Ok(database);
        }
    }

    fn bring_up_to_date(&mut self) -> Result<(), OpenError> {
        let path = self.path.clone();
        let explain = |source| connect::open_error(&path, source);
        self.deadline.set(self.wait);
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(explain)?;
        // Another process may have created the tables while this one waited.
        let found = connect::check_version(&transaction, &path)?;
        if found < schema::VERSION {
            schema::bring_up_to_date(&transaction, found).map_err(explain)?;
        }
        transaction.commit().map_err(explain)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns how long a write waits for other processes.
    pub(crate) fn wait(&self) -> Duration {
        self.wait
    }

    pub(crate) fn set_wait(&mut self, wait: Duration) {
        self.wait = wait;
    }

    /// If `limited` is true, limits the total of all later waits to the time that a single write
    /// may wait. Otherwise, removes this limit.
    pub(crate) fn limit_waiting(&mut self, limited: bool) {
        self.limit = limited.then(|| Instant::now() + self.wait);
    }

    /// True if the limit set by [`Database::limit_waiting`] has been reached.
    pub(crate) fn is_out_of_time(&self) -> bool {
        self.limit.is_some_and(|limit| Instant::now() >= limit)
    }

    fn set_deadline(&self, wait: Duration) {
        let left = self.limit.map(|limit| limit.saturating_duration_since(Instant::now()));
        self.deadline.set(left.map_or(wait, |left| left.min(wait)));
    }

    /// Returns a connection for reading the file that is currently at the path.
    pub(crate) fn reader(&self) -> Result<&Connection, LedgerError> {
        self.set_deadline(self.wait);
        if self.is_in_place() {
            return Ok(&self.connection);
        }
        if self.successor.get().is_none() {
            let _ = self.successor.set(Box::new(self.open_again()?));
        }
        self.successor.get().expect("the successor was set above").reader()
    }

    /// True if the file at the path is the one that is open.
    fn is_in_place(&self) -> bool {
        FileId::at(&self.path) == self.file
    }

    /// Opens the file that is currently at the path.
    fn open_again(&self) -> Result<Database, LedgerError> {
        let mut database = Database::open(&self.path, Some(self.journal), self.wait)?;
        database.limit = self.limit;
        database.take_care(self.care)?;
        Ok(database)
    }

    /// Drops the old connection, and from now on uses the file that is currently at the path. If
    /// a read has already opened that file, its connection is used, with the current settings.
    fn switch_to_present(&mut self) -> Result<(), LedgerError> {
        let mut present = match self.successor.take() {
            Some(successor) => *successor,
            None => self.open_again()?,
        };
        (present.wait, present.limit) = (self.wait, self.limit);
        present.take_care(self.care)?;
        *self = present;
        Ok(())
    }

    /// Sets whether every commit is durable before it returns. Otherwise, commits become durable
    /// when the log is moved into the database.
    pub(crate) fn sync_commits(&mut self, syncs: bool) {
        self.care.syncs = syncs;
    }

    fn take_care(&mut self, care: Care) -> rusqlite::Result<()> {
        self.sync_commits(care.syncs);
        self.set_erasing(care.erases)
    }

    fn set_syncing(&mut self, syncs: bool) -> rusqlite::Result<()> {
        if self.journal == JournalMode::Wal && syncs != self.is_syncing {
            let mode = if syncs { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", mode)?;
            self.is_syncing = syncs;
        }
        Ok(())
    }

    fn set_erasing(&mut self, erases: bool) -> rusqlite::Result<()> {
        if erases != self.care.erases {
            let mode = if erases { "ON" } else { "OFF" };
            self.connection.pragma_update(None, "secure_delete", mode)?;
            self.care.erases = erases;
        }
        Ok(())
    }

    /// Runs a write in one transaction, and overwrites deleted data in the file.
    pub(crate) fn erase<T>(
        &mut self,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        self.set_erasing(true)?;
        let erased = self.write(write);
        self.set_erasing(false)?;
        erased
    }

    /// Runs several reads that see the same state.
    pub(crate) fn snapshot<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let transaction = self.reader()?.unchecked_transaction()?;
        let value = read(&transaction)?;
        transaction.finish()?;
        Ok(value)
    }

    /// Runs a write in one transaction.
    pub(crate) fn write<T, E: From<LedgerError>>(
        &mut self,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let wait = self.wait;
        match self.write_within(wait, self.care.syncs, write) {
            Err(Attempt::Busy) => Err(LedgerError::Busy { waited: wait }.into()),
            Err(Attempt::Failed(error)) => Err(error),
            Ok(value) => Ok(value),
        }
    }

    /// Runs a write in one transaction, which is on disk before this returns.
    pub(crate) fn write_synced<T>(
        &mut self,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let wait = self.wait;
        match self.write_within(wait, true, write) {
            Err(Attempt::Busy) => Err(LedgerError::Busy { waited: wait }),
            Err(Attempt::Failed(error)) => Err(error),
            Ok(value) => Ok(value),
        }
    }

    /// Runs a write in one transaction, or returns `None` if other processes are still writing
    /// after `wait`. This is meant for work that can be left to the next process, so the write is
    /// never synced.
    pub(crate) fn try_write<T>(
        &mut self,
        wait: Duration,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, LedgerError>,
    ) -> Result<Option<T>, LedgerError> {
        match self.write_within(wait, false, write) {
            Err(Attempt::Busy) => Ok(None),
            Err(Attempt::Failed(error)) => Err(error),
            Ok(value) => Ok(Some(value)),
        }
    }

    fn write_within<T, E: From<LedgerError>>(
        &mut self,
        wait: Duration,
        syncs: bool,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, Attempt<E>> {
        loop {
            self.set_deadline(wait);
            self.set_syncing(syncs).map_err(Attempt::from_sqlite)?;
            let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
            let is_current = match &begun {
                // The lock is already held during this check, so a repair cannot replace the file
                // between the check and the commit.
                Ok(transaction) => {
                    FileId::at(&self.path) == self.file
                        && connect::read_version(transaction).map_err(Attempt::from_sqlite)?
                            == schema::VERSION
                }
                Err(_) => FileId::at(&self.path) == self.file,
            };
            if is_current {
                let transaction = begun.map_err(Attempt::from_sqlite)?;
                let value = write(&transaction).map_err(Attempt::Failed)?;
                transaction.commit().map_err(Attempt::from_sqlite)?;
                self.after_write();
                return Ok(value);
            }
            drop(begun);
            self.switch_to_present().map_err(|error| Attempt::Failed(error.into()))?;
        }
    }

    fn after_write(&mut self) {
        self.writes = self.writes.wrapping_add(1);
        if self.writes.is_multiple_of(WRITES_PER_LOOK) && self.log_length() > LOG_MOST {
            // Moving the log makes other writers wait, as any write does.
            self.deadline.set(Duration::from_millis(20));
            self.move_log("FULL");
        }
    }

    /// Moves the log into the database. If this fails, only speed is lost: a later writer tries
    /// again.
    fn move_log(&self, mode: &str) {
        let sql = format!("PRAGMA wal_checkpoint({mode})");
        let _ = self.connection.query_row(&sql, [], |_| Ok(()));
    }

    fn log_length(&self) -> u64 {
        let mut log = self.path.as_os_str().to_owned();
        log.push("-wal");
        fs::metadata(&log).map_or(0, |log| log.len())
    }

    /// Copies a consistent state of the database to another file.
    pub(crate) fn copy_to(&self, path: &Path) -> Result<(), LedgerError> {
        const ALL_PAGES: i32 = -1;
        let mut copy = Database::open(path, None, self.wait)?;
        let backup = Backup::new(self.reader()?, &mut copy.connection)?;
        match backup.step(ALL_PAGES)? {
            StepResult::Done => Ok(()),
            // Another process has locked one of the two files.
            _ => Err(LedgerError::Busy { waited: Duration::ZERO }),
        }
    }

    /// Shrinks the file if much of it is free space. Other writers have to wait for this. Then
    /// empties the log, unless another process is reading.
    pub(crate) fn shrink(&self) -> Result<(), LedgerError> {
        self.set_deadline(self.wait);
        let free: i64 = self.connection.query_row("PRAGMA freelist_count", [], |row| row.get(0))?;
        let pages: i64 = self.connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
        if free * 10 > pages {
            self.connection.execute_batch("VACUUM")?;
        }
        self.deadline.set(Duration::ZERO);
        self.move_log("TRUNCATE");
        Ok(())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if self.writes > 0 && self.journal == JournalMode::Wal && self.log_length() > LOG_KEPT {
            self.deadline.set(Duration::ZERO);
            self.move_log("PASSIVE");
        }
    }
}

/// The reason why a write did not happen.
enum Attempt<E> {
    Busy,
    Failed(E),
}

impl<E: From<LedgerError>> Attempt<E> {
    fn from_sqlite(error: rusqlite::Error) -> Attempt<E> {
        if is_busy(&error) {
            Attempt::Busy
        } else {
            Attempt::Failed(LedgerError::from(error).into())
        }
    }
}

pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// The identity of a file. No other file can have the same identity while the file is open.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// Identifies the file at a path, if there is one.
    fn at(path: &Path) -> Option<FileId> {
        let file = fs::metadata(path).ok()?;
        Some(FileId { device: file.dev(), inode: file.ino() })
    }
}
