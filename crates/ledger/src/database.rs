//! Opening the database, and who may write when.
//!
//! SQLite in WAL mode: readers never wait for writers. A write is `BEGIN IMMEDIATE`; whoever finds
//! another process writing sleeps for short random times, so that waiters do not queue up behind
//! each other, until the time that the caller gave is over.

use std::cell::OnceCell;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::{LedgerError, schema};

/// A log longer than this is moved into the database on closing. What is left of it is read again
/// by the next process that opens the database, and writing it back costs a sync: a balance.
const LOG_KEPT: u64 = 1 << 20;

/// Many busy writers never let the log come to its end by themselves. When it is longer than
/// this, one of them holds the others up for a moment, so that it starts again from its beginning.
const LOG_MOST: u64 = 16 << 20;

/// How many writes go by between two looks at the length of the log.
const WRITES_PER_LOOK: u32 = 32;

/// Why a ledger cannot be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file or its directory.
    #[error("cannot open the ledger {path}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A later version of this program wrote it.
    #[error("the ledger {path} has version {found}, this program knows versions up to {known}")]
    TooNew {
        /// Where.
        path: PathBuf,
        /// Its version.
        found: i32,
        /// Ours.
        known: i32,
    },
    /// A database of somebody else's.
    #[error("{path} is a database, but not a ledger of takeback")]
    Foreign {
        /// Where.
        path: PathBuf,
    },
    /// It is broken, or it never was a database.
    #[error("the ledger {path} is damaged")]
    Damaged {
        /// Where.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// It was left in WAL mode on a file system where that does not work, and cannot be converted.
    #[error("the ledger {path} is on a network file system and other processes use it")]
    Network {
        /// Where.
        path: PathBuf,
    },
    /// A repair was cut off before its end.
    #[error("a repair of the ledger {path} is not finished")]
    Unfinished {
        /// Where.
        path: PathBuf,
    },
    /// Others kept it locked, the disk is full, and so on.
    #[error("cannot open the ledger {path}")]
    Sqlite {
        /// Where.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
}

/// How the database keeps its promises when a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journal {
    /// Readers and a writer at the same time; needs memory that processes share.
    Wal,
    /// A rollback journal: readers and writers wait for each other. For network file systems.
    Rollback,
}

impl Journal {
    /// What works on the file system that holds this directory.
    fn suited_to(directory: &Path) -> Journal {
        #[allow(clippy::unnecessary_cast, reason = "its type differs between platforms")]
        match rustix::fs::statfs(directory) {
            Ok(statfs) if is_shared(statfs.f_type as i64) => Journal::Rollback,
            _ => Journal::Wal,
        }
    }
}

/// File systems over which processes on different machines would not share memory.
fn is_shared(kind: i64) -> bool {
    const NFS: i64 = 0x6969;
    const SMB: i64 = 0x517b;
    const SMB2: i64 = 0xfe53_4d42;
    const CIFS: i64 = 0xff53_4d42;
    const PLAN9: i64 = 0x0102_1997;
    const AFS: i64 = 0x5346_414f;
    const CODA: i64 = 0x7375_7245;
    const CEPH: i64 = 0x00c3_6400;
    const FUSE: i64 = 0x6573_5546;
    // A 32-bit number that may have been extended with its sign.
    [NFS, SMB, SMB2, CIFS, PLAN9, AFS, CODA, CEPH, FUSE].contains(&(kind & 0xffff_ffff))
}

/// The open database.
///
/// It may stay open for as long as the process runs. Between operations it holds no transaction,
/// and before each one it checks that the file it opened is still the one at its path: a repair
/// puts a new file there, and the user may delete the old one.
pub(crate) struct Database {
    connection: Connection,
    path: PathBuf,
    file: Option<FileId>,
    /// The database that another process put in the place of this one, opened by a reader. The
    /// next writer drops the old connection and keeps this one.
    successor: OnceCell<Box<Database>>,
    journal: Journal,
    wait: Duration,
    /// When all waiting ends, whatever `wait` says.
    limit: Option<Instant>,
    deadline: Deadline,
    care: Care,
    writes: u32,
}

/// What writes do beyond the usual.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Care {
    /// Commits are on the disk when they return.
    syncs: bool,
    /// Deleted rows are overwritten in the file.
    erases: bool,
}

impl Database {
    /// Opens the database or makes it.
    pub(crate) fn open(
        path: &Path,
        journal: Option<Journal>,
        wait: Duration,
    ) -> Result<Database, OpenError> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let failed = |source| OpenError::Io { path: path.to_owned(), source };
        make_file(directory, path).map_err(failed)?;
        // The log is beside the file itself, wherever a link to it is.
        let path = &fs::canonicalize(path).map_err(failed)?;
        let journal = journal.unwrap_or_else(|| Journal::suited_to(directory));
        let deadline = Deadline::default();
        deadline.set(wait);
        loop {
            if crate::repair::is_unfinished(path) {
                return Err(OpenError::Unfinished { path: path.to_owned() });
            }
            let file = FileId::at(path);
            let opened = connect(path, journal, &deadline);
            // A repair may have put another file in its place while this process waited for a
            // lock on the old one.
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
        let explain = |source| explain(&path, source);
        self.deadline.set(self.wait);
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(explain)?;
        // Another process may have done it while this one waited.
        let found = check(&transaction, &path)?;
        if found < schema::VERSION {
            schema::bring_up_to_date(&transaction, found).map_err(explain)?;
        }
        transaction.commit().map_err(explain)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How long a write waits for other processes.
    pub(crate) fn wait(&self) -> Duration {
        self.wait
    }

    pub(crate) fn set_wait(&mut self, wait: Duration) {
        self.wait = wait;
    }

    /// From now on all waiting together takes at most as long as one write may wait; `false` lifts
    /// that.
    pub(crate) fn limit_waiting(&mut self, limited: bool) {
        self.limit = limited.then(|| Instant::now() + self.wait);
    }

    /// Whether that time is over.
    pub(crate) fn is_out_of_time(&self) -> bool {
        self.limit.is_some_and(|limit| Instant::now() >= limit)
    }

    fn set_deadline(&self, wait: Duration) {
        let left = self.limit.map(|limit| limit.saturating_duration_since(Instant::now()));
        self.deadline.set(left.map_or(wait, |left| left.min(wait)));
    }

    /// The connection for reading, to the file that is at the path now.
    pub(crate) fn reader(&self) -> Result<&Connection, LedgerError> {
        self.set_deadline(self.wait);
        if self.is_in_place() {
            return Ok(&self.connection);
        }
        if self.successor.get().is_none() {
            let _ = self.successor.set(Box::new(self.open_again()?));
        }
        self.successor.get().expect("it was set above").reader()
    }

    /// True if the file at the path is the one that is open.
    fn is_in_place(&self) -> bool {
        FileId::at(&self.path) == self.file
    }

    /// Opens the file that is at the path now.
    fn open_again(&self) -> Result<Database, LedgerError> {
        let mut database = Database::open(&self.path, Some(self.journal), self.wait)?;
        database.limit = self.limit;
        database.take_care(self.care)?;
        Ok(database)
    }

    /// Makes commits durable when they return, or, as usual, when the log is moved.
    pub(crate) fn sync_commits(&mut self, syncs: bool) -> Result<(), LedgerError> {
        self.take_care(Care { syncs, ..self.care })
    }

    fn take_care(&mut self, care: Care) -> Result<(), LedgerError> {
        if self.journal == Journal::Wal && care.syncs != self.care.syncs {
            let mode = if care.syncs { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", mode)?;
        }
        if care.erases != self.care.erases {
            let mode = if care.erases { "ON" } else { "OFF" };
            self.connection.pragma_update(None, "secure_delete", mode)?;
        }
        self.care = care;
        Ok(())
    }

    /// Writes all of it or nothing, and overwrites in the file what it deletes.
    pub(crate) fn erase<T>(
        &mut self,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        self.take_care(Care { erases: true, ..self.care })?;
        let erased = self.write(write);
        self.take_care(Care { erases: false, ..self.care })?;
        erased
    }

    /// Runs several reads that see the same moment.
    pub(crate) fn snapshot<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let transaction = self.reader()?.unchecked_transaction()?;
        let value = read(&transaction)?;
        transaction.finish()?;
        Ok(value)
    }

    /// Writes all of it or nothing.
    pub(crate) fn write<T, E: From<LedgerError>>(
        &mut self,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let wait = self.wait;
        match self.write_within(wait, write) {
            Err(Attempt::Busy) => Err(LedgerError::Busy { waited: wait }.into()),
            Err(Attempt::Failed(error)) => Err(error),
            Ok(value) => Ok(value),
        }
    }

    /// Writes what can be left to the next process: `None` if others are writing for as long as
    /// this waits.
    pub(crate) fn try_write<T>(
        &mut self,
        wait: Duration,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, LedgerError>,
    ) -> Result<Option<T>, LedgerError> {
        match self.write_within(wait, write) {
            Err(Attempt::Busy) => Ok(None),
            Err(Attempt::Failed(error)) => Err(error),
            Ok(value) => Ok(Some(value)),
        }
    }

    fn write_within<T, E: From<LedgerError>>(
        &mut self,
        wait: Duration,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, Attempt<E>> {
        loop {
            self.set_deadline(wait);
            let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
            let is_current = match &begun {
                // Looked at with the lock held: a repair cannot replace the file before the commit.
                Ok(transaction) => {
                    FileId::at(&self.path) == self.file
                        && version(transaction).map_err(Attempt::of)? == schema::VERSION
                }
                Err(_) => FileId::at(&self.path) == self.file,
            };
            if is_current {
                let transaction = begun.map_err(Attempt::of)?;
                let value = write(&transaction).map_err(Attempt::Failed)?;
                transaction.commit().map_err(Attempt::of)?;
                self.after_write();
                return Ok(value);
            }
            drop(begun);
            *self = match self.successor.take() {
                Some(successor) => *successor,
                None => self.open_again().map_err(|error| Attempt::Failed(error.into()))?,
            };
        }
    }

    fn after_write(&mut self) {
        self.writes = self.writes.wrapping_add(1);
        if self.writes.is_multiple_of(WRITES_PER_LOOK) && self.log_length() > LOG_MOST {
            // For others, this is one write more to wait for.
            self.deadline.set(Duration::from_millis(20));
            self.checkpoint("FULL");
        }
    }

    /// Moves the log into the database. It is about speed only: what cannot be done now, the next
    /// writer does.
    fn checkpoint(&self, mode: &str) {
        let sql = format!("PRAGMA wal_checkpoint({mode})");
        let _ = self.connection.query_row(&sql, [], |_| Ok(()));
    }

    fn log_length(&self) -> u64 {
        let mut log = self.path.as_os_str().to_owned();
        log.push("-wal");
        fs::metadata(&log).map_or(0, |log| log.len())
    }

    /// Gives free space in the file back to the disk, if there is much of it; others have to wait
    /// for that. Then the log, unless somebody is reading.
    pub(crate) fn shrink(&self) -> Result<(), LedgerError> {
        self.set_deadline(self.wait);
        let free: i64 = self.connection.query_row("PRAGMA freelist_count", [], |row| row.get(0))?;
        let pages: i64 = self.connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
        if free * 10 > pages {
            self.connection.execute_batch("VACUUM")?;
        }
        self.deadline.set(Duration::ZERO);
        self.checkpoint("TRUNCATE");
        Ok(())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if self.writes > 0 && self.journal == Journal::Wal && self.log_length() > LOG_KEPT {
            self.deadline.set(Duration::ZERO);
            self.checkpoint("PASSIVE");
        }
    }
}

enum Attempt<E> {
    Busy,
    Failed(E),
}

impl<E: From<LedgerError>> Attempt<E> {
    fn of(error: rusqlite::Error) -> Attempt<E> {
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

fn explain(path: &Path, source: rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    if is_damage(&source) {
        OpenError::Damaged { path, source }
    } else {
        OpenError::Sqlite { path, source }
    }
}

/// The file and its directory, for nobody else to read. SQLite gives its log the same mode.
fn make_file(directory: &Path, path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// The identity of a file. No other file has it as long as this one is open.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file at a path, if there is one.
    fn at(path: &Path) -> Option<FileId> {
        let file = fs::metadata(path).ok()?;
        Some(FileId { device: file.dev(), inode: file.ino() })
    }
}

/// A connection that is ready for use, and the version of what it leads to.
fn connect(
    path: &Path,
    journal: Journal,
    deadline: &Deadline,
) -> Result<(Connection, i32), OpenError> {
    let explain = |source| explain(path, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let mut connection = Connection::open_with_flags(path, flags).map_err(explain)?;
    // Closing is not the time to sync: see `Drop`. And should this turn out to be the wrong file,
    // the log is not its own.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(explain)?;
    let waiting = deadline.clone();
    connection.busy_handler(Some(move |tries| waiting.pause(tries))).map_err(explain)?;
    let found = check(&connection, path)?;
    configure(&connection, journal).map_err(explain)?;
    // Other processes that do the same make this fail at once: SQLite does not wait here.
    let mut tries = 0;
    let got = loop {
        match set_journal(&connection, journal) {
            Err(error) if is_busy(&error) && deadline.pause(tries) => tries += 1,
            got => break got.map_err(explain)?,
        }
    };
    if got != journal {
        return Err(OpenError::Network { path: path.to_owned() });
    }
    // With a lock on the file that it leads to.
    check(&connection, path)?;
    Ok((connection, found))
}

/// Is it ours, and of which version? 0 for an empty file. The first read of header and schema.
fn check(connection: &Connection, path: &Path) -> Result<i32, OpenError> {
    let explain = |source| explain(path, source);
    // Three reads of one moment: another process may be making the tables.
    let transaction = connection.is_autocommit().then(|| connection.unchecked_transaction());
    let transaction = transaction.transpose().map_err(explain)?;
    let number = |pragma| connection.query_row(pragma, [], |row| row.get::<_, i32>(0));
    let version = version(connection).map_err(explain)?;
    let application = number("PRAGMA application_id").map_err(explain)?;
    let tables = number("SELECT count(*) FROM sqlite_schema").map_err(explain)?;
    drop(transaction);
    match (application, tables) {
        (schema::APPLICATION_ID, _) if version > schema::VERSION => {
            Err(OpenError::TooNew { path: path.to_owned(), found: version, known: schema::VERSION })
        }
        (schema::APPLICATION_ID, _) => Ok(version),
        (0, 0) => Ok(0),
        _ => Err(OpenError::Foreign { path: path.to_owned() }),
    }
}

/// The version of the schema, as the program that made the tables noted it.
fn version(connection: &Connection) -> rusqlite::Result<i32> {
    connection.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))
}

fn configure(connection: &Connection, journal: Journal) -> rusqlite::Result<()> {
    // Commits survive the end of the process at once, and a power cut from the next time the
    // log is moved into the database. Without the log, every commit has to be synced.
    connection.pragma_update(
        None,
        "synchronous",
        match journal {
            Journal::Wal => "NORMAL",
            Journal::Rollback => "FULL",
        },
    )?;
    connection.pragma_update(None, "journal_size_limit", LOG_KEPT as i64)?;
    connection.pragma_update(None, "cache_size", -16_000)?;
    connection.pragma_update(None, "secure_delete", "OFF")?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

fn set_journal(connection: &Connection, wanted: Journal) -> rusqlite::Result<Journal> {
    let pragma = match wanted {
        Journal::Wal => "PRAGMA journal_mode = WAL",
        Journal::Rollback => "PRAGMA journal_mode = TRUNCATE",
    };
    let mode: String = connection.query_row(pragma, [], |row| row.get(0))?;
    Ok(if mode.eq_ignore_ascii_case("wal") { Journal::Wal } else { Journal::Rollback })
}

/// Until when an operation may wait for other processes.
#[derive(Clone)]
struct Deadline {
    start: Instant,
    /// Nanoseconds after `start`.
    end: Arc<AtomicU64>,
}

impl Default for Deadline {
    fn default() -> Deadline {
        Deadline { start: Instant::now(), end: Arc::default() }
    }
}

impl Deadline {
    fn set(&self, wait: Duration) {
        let end = (self.start.elapsed() + wait).as_nanos();
        self.end.store(u64::try_from(end).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Called by SQLite when another process is in the way: sleeps a little, or gives up.
    fn pause(&self, tries: i32) -> bool {
        let end = Duration::from_nanos(self.end.load(Ordering::Relaxed));
        let left = end.saturating_sub(self.start.elapsed());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(jitter(tries).min(left));
        true
    }
}

/// Short at first, never longer than 10 ms, and never in step with others.
fn jitter(tries: i32) -> Duration {
    let ceiling = 200_u64 << tries.clamp(0, 6);
    let mut random = [0; 8];
    // Without randomness all wait equally long, which is slower and right.
    let _ = getrandom::fill(&mut random);
    Duration::from_micros(50 + u64::from_le_bytes(random) % ceiling.min(10_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_in_either_sign() {
        assert!(is_shared(0x6969));
        assert!(is_shared(0xff53_4d42));
        assert!(is_shared(i64::from(0xff53_4d42_u32 as i32)));
        assert!(!is_shared(0xef53), "ext4");
        assert!(!is_shared(0x0102_1994), "tmpfs");
    }

    #[test]
    fn pauses_end_with_the_deadline() {
        let deadline = Deadline::default();
        deadline.set(Duration::ZERO);
        assert!(!deadline.pause(0));
        deadline.set(Duration::from_secs(60));
        assert!(deadline.pause(0));
    }
}
