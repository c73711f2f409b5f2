//! The ledger: one open database and what it promises.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Time;
use crate::database::{self, Database, Journal, OpenError};
use crate::spool::Spool;

/// How a ledger is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a write waits for other processes before it fails.
    pub wait: Duration,
    /// Whether secrets are masked before anything is written.
    pub redact: bool,
    /// Other than what suits the file system.
    pub journal: Option<Journal>,
}

impl Default for Options {
    /// For somebody who waits for the answer: patient, and nothing masked.
    fn default() -> Options {
        Options { wait: Duration::from_secs(60), redact: false, journal: None }
    }
}

/// Why something did not happen. A write that failed changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Other processes were writing all the time.
    #[error("other processes kept the ledger locked for {waited:?}")]
    Busy {
        /// How long it was tried.
        waited: Duration,
    },
    /// There is no such session.
    #[error("there is no session {0:?}")]
    NoSuchSession(String),
    /// Several sessions could be meant.
    #[error("{typed:?} could be {}", .candidates.join(" or "))]
    Ambiguous {
        /// What was given.
        typed: String,
        /// Ids of some of the sessions that it fits.
        candidates: Vec<String>,
    },
    /// There is no such message.
    #[error("session {session} has no message {seq}")]
    NoSuchMessage {
        /// The session.
        session: String,
        /// The message.
        seq: i64,
    },
    /// There is a session of this id already.
    #[error("there is a session {0:?} already")]
    Exists(String),
    /// A title that is taken, or is none.
    #[error(transparent)]
    Title(#[from] crate::TitleError),
    /// No turn is left to be undone.
    #[error("no turn left to take back in session {0}")]
    NothingToUndo(String),
    /// No undo that could be redone.
    #[error("nothing to bring back in session {0}")]
    NothingToRedo(String),
    /// After the undo the conversation went on.
    #[error("session {0} went on since then, so its messages cannot be brought back")]
    WentOn(String),
    /// The spool.
    #[error("cannot use the spool {path}")]
    Spool {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The database is broken.
    #[error("the ledger is damaged")]
    Damaged(#[source] rusqlite::Error),
    /// Another process put another file in the place of the open one, or changed it to a later
    /// version, and it cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Anything else that SQLite says: disk full, read-only, …
    #[error("the ledger cannot be used")]
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

/// How long opening waits for others in order to take in the spool.
const PATIENCE: Duration = Duration::from_millis(100);

/// All sessions of all agents on this machine.
///
/// A ledger may stay open for as long as a process runs, and move from one thread to another. It
/// notices when a repair by another process puts a new database in the place of the old one.
/// As long as it is open, though, a repair that has to do so waits: a process without work for
/// it should close it.
pub struct Ledger {
    pub(crate) database: Database,
    pub(crate) redact: bool,
    pub(crate) spool: Spool,
    /// Bytes of text that this process wrote since the index was last complete.
    pub(crate) unindexed_bytes: usize,
}

impl Ledger {
    /// Opens the ledger in this file, or makes it, and takes in what waits in the directory
    /// `spool` beside it. Cheap: deep checks are [`Ledger::verify`]'s.
    pub fn open(path: &Path, options: &Options) -> Result<Ledger, OpenError> {
        let mut ledger = Ledger::open_alone(path, options)?;
        ledger.refresh();
        Ok(ledger)
    }

    /// Takes in what waits in the spool, as opening does. For a ledger that stays open: call it
    /// before each piece of work. What cannot be taken in within 100 ms is left to the next call.
    pub fn refresh(&mut self) {
        let wait = self.database.wait();
        self.set_wait(wait.min(PATIENCE));
        let _ = self.take_in_spool();
        self.set_wait(wait);
    }

    /// The same without a look at the spool.
    pub(crate) fn open_alone(path: &Path, options: &Options) -> Result<Ledger, OpenError> {
        let database = Database::open(path, options.journal, options.wait)?;
        let spool = Spool::beside(database.path());
        Ok(Ledger { database, redact: options.redact, spool, unindexed_bytes: 0 })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.database.path()
    }

    /// Whether everything that hooks reported is in it: takes in what waits in the spool, for as
    /// long as writes wait.
    pub fn catch_up(&mut self) -> Result<bool, LedgerError> {
        self.take_in_spool()
    }

    /// How long writes wait for other processes from now on.
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
