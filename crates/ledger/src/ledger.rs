//! The open ledger, its options and its errors.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Time;
use crate::database::{self, Database, JournalMode, OpenError};
use crate::spool::Spool;

/// Options for opening a ledger.
#[derive(Clone, Debug)]
pub struct LedgerOptions {
    /// The time that a write waits for other processes before it fails.
    pub wait: Duration,
    /// True if secrets are masked before records are written.
    pub redact: bool,
    /// The journal mode. `None` chooses the one that suits the file system.
    pub journal: Option<JournalMode>,
    /// True if every write is on disk before it returns, so that it survives a power cut.
    pub durable: bool,
}

impl Default for LedgerOptions {
    /// Returns options that wait up to a minute for other processes, mask nothing, and let the
    /// system decide when to write to disk.
    fn default() -> LedgerOptions {
        LedgerOptions {
            wait: Duration::from_secs(60),
            redact: false,
            journal: None,
            durable: false,
        }
    }
}

/// The reason why an operation failed. A write that failed changed nothing.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum LedgerError {
    /// Other processes were writing during the whole wait.
    #[error("other processes kept the ledger locked for {waited:?}")]
    Busy { waited: Duration },
    #[error("no session {0:?}")]
    NoSuchSession(String),
    /// Several sessions, tasks or goals match; `candidates` holds the ids of some of them.
    #[error("{typed:?} is ambiguous: {}", .candidates.join(" or "))]
    Ambiguous { typed: String, candidates: Vec<String> },
    #[error("session {session} has no message {seq}")]
    NoSuchMessage { session: String, seq: i64 },
    #[error("session {0:?} already exists")]
    Exists(String),
    #[error(transparent)]
    Title(#[from] crate::TitleError),
    #[error("no turn left to take back in session {0}")]
    NothingToRewind(String),
    #[error("no messages to restore in session {0}")]
    NothingToUnrewind(String),
    /// The messages that a rewind took back cannot be restored, because the conversation has
    /// continued since.
    #[error("session {0} has continued since then, so its messages cannot be restored")]
    WentOn(String),
    #[error("no task {0:?}")]
    NoSuchTask(String),
    #[error("task {0:?} already exists")]
    TaskExists(String),
    /// A task's id is also the name of its lock file.
    #[error("task id {0:?} does not consist of 1 to 64 letters, digits, `-` and `_`")]
    BadTaskId(String),
    /// Another process holds the lock of the task, or this process holds it already.
    #[error("task {0} is running")]
    TaskRunning(String),
    /// Another process has since taken the task's lease.
    #[error("another process has taken over task {task}")]
    Fenced { task: String, epoch: i64, current: i64 },
    /// Part of a journal is lost, so the task's state cannot be determined.
    #[error("entry {seq} is missing in the journal of task {task}, or cannot be read")]
    NoSuchEntry { task: String, seq: i64 },
    /// A step of another machine does not fit the conversation in this ledger.
    #[error("entry {seq} of task {task} does not fit the conversation in this ledger")]
    Diverged { task: String, seq: i64 },
    #[error("no goal {0:?}")]
    NoSuchGoal(String),
    #[error("goal {0:?} already exists")]
    GoalExists(String),
    #[error("thread {0:?} already exists")]
    ThreadExists(String),
    /// The value of a channel is lost, so the state cannot be read.
    #[error("state {state} of thread {thread} has lost the value of channel {channel:?}")]
    NoSuchValue { thread: String, state: String, channel: String },
    /// A state of a thread, or the writes after the state, would not fit into one response.
    #[error("{what} would have {size} bytes; the limit is {max}")]
    TooLarge { what: &'static str, size: i64, max: i64 },
    #[error("cannot lock tasks in {path}")]
    TaskLock { path: PathBuf, source: std::io::Error },
    #[error("cannot use the spool {path}")]
    Spool { path: PathBuf, source: std::io::Error },
    #[error("the ledger is damaged")]
    Damaged(#[source] rusqlite::Error),
    /// Another process replaced the open file or upgraded it to a later version, and this process
    /// cannot open it again.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Any other SQLite error, such as a full disk or a read-only file.
    #[error("cannot use the ledger")]
    Sqlite(#[source] rusqlite::Error),
}

impl From<rusqlite::Error> for LedgerError {
    fn from(error: rusqlite::Error) -> LedgerError {
        if database::is_busy(&error) {
            LedgerError::Busy { waited: Duration::ZERO }
        } else if database::is_damage(&error) {
            LedgerError::Damaged(error)
        } else {
            LedgerError::Sqlite(error)
        }
    }
}

/// The maximum time that [`Ledger::refresh`] waits for other processes.
const PATIENCE: Duration = Duration::from_millis(100);

/// The ledger: all sessions of all agents on this machine.
///
/// A ledger can stay open as long as its process runs, and can move between threads. It notices
/// when a repair by another process replaces the database. But in WAL mode, a repair waits until
/// all ledgers are closed, so an idle process should close its ledger.
pub struct Ledger {
    pub(crate) database: Database,
    pub(crate) redact: bool,
    /// True if every write is on disk before it returns.
    pub(crate) durable: bool,
    pub(crate) spool: Spool,
    /// The size in bytes of the text that this process has written since the index was last
    /// complete.
    pub(crate) unindexed_bytes: usize,
}

impl Ledger {
    /// Opens or creates the ledger in this file, and adds the events that are waiting in the
    /// directory `spool` beside it. Opening is cheap: only [`Ledger::verify`] checks the whole
    /// database.
    pub fn open(path: &Path, options: &LedgerOptions) -> Result<Ledger, OpenError> {
        let mut ledger = Ledger::open_alone(path, options)?;
        ledger.refresh();
        Ok(ledger)
    }

    /// Adds the events that are waiting in the spool to the ledger, as [`Ledger::open`] does. A
    /// process that keeps its ledger open calls this before each piece of work. Events that cannot
    /// be added within 100 ms are left for the next call.
    pub fn refresh(&mut self) {
        let wait = self.database.wait();
        self.set_wait(wait.min(PATIENCE));
        let _ = self.take_in_spool();
        self.set_wait(wait);
    }

    /// Opens the ledger without adding the events in the spool.
    pub(crate) fn open_alone(path: &Path, options: &LedgerOptions) -> Result<Ledger, OpenError> {
        let LedgerOptions { wait, redact, journal, durable } = *options;
        let mut database = Database::open(path, journal, wait)?;
        database.sync_commits(durable);
        let spool = Spool::beside(database.path());
        Ok(Ledger { database, redact, durable, spool, unindexed_bytes: 0 })
    }

    /// Returns the canonical path of the database.
    pub fn path(&self) -> &Path {
        self.database.path()
    }

    /// Copies a consistent state of the whole ledger to another file. Replaces the content of that
    /// file in one transaction, so a copy that is interrupted changes nothing.
    pub fn copy_to(&self, path: &Path) -> Result<(), LedgerError> {
        self.database.copy_to(path)
    }

    /// Adds the events that are waiting in the spool to the ledger. Waits for other processes as
    /// long as a write does. Returns false if some events are still waiting.
    pub fn catch_up(&mut self) -> Result<bool, LedgerError> {
        self.take_in_spool()
    }

    /// Sets how long writes wait for other processes from now on.
    pub fn set_wait(&mut self, wait: Duration) {
        self.database.set_wait(wait);
    }
}

impl rusqlite::ToSql for Time {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

impl rusqlite::types::FromSql for Time {
    fn column_result(value: rusqlite::types::ValueRef<'_>) -> rusqlite::types::FromSqlResult<Time> {
        i64::column_result(value).map(Time)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{Event, SessionRecord};

    /// Creates a session. Returns the value of `PRAGMA synchronous` that the commit used.
    fn create_session(ledger: &mut Ledger, id: &str) -> i64 {
        let session = SessionRecord { id: id.into(), ..SessionRecord::default() };
        ledger.create_session(&session, Time(1)).unwrap();
        let connection = ledger.database.reader().unwrap();
        connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_durable_ledger_syncs_every_write() {
        const NORMAL: i64 = 1;
        const FULL: i64 = 2;
        let scratch = tempfile::TempDir::new().unwrap();
        let path = scratch.path().join("state.db");
        let mut usual = Ledger::open(&path, &LedgerOptions::default()).unwrap();
        assert_eq!(create_session(&mut usual, "a"), NORMAL);
        let options = LedgerOptions { durable: true, ..LedgerOptions::default() };
        let mut ledger = Ledger::open(&path, &options).unwrap();
        assert_eq!(create_session(&mut ledger, "b"), FULL);

        ledger.index_after_bulk(1);
        assert_eq!(create_session(&mut ledger, "c"), FULL, "after the index was updated");

        for ledger in [&mut usual, &mut ledger] {
            let events = [Event::TurnEnd { session: "a".into() }];
            ledger.spool.add_events(&events, Time(1)).unwrap();
            assert!(ledger.catch_up().unwrap());
        }
        assert_eq!(create_session(&mut usual, "d"), NORMAL, "after the spool was imported");
        assert_eq!(create_session(&mut ledger, "e"), FULL, "after the spool was imported");

        let copy = scratch.path().join("copy.db");
        ledger.copy_to(&copy).unwrap();
        fs::rename(&copy, &path).unwrap();
        assert_eq!(create_session(&mut ledger, "f"), FULL, "after the file was replaced");
    }
}
