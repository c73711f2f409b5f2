//! Opening a connection to the database file.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use takeback_base::durable;

use super::deadline::Deadline;
use super::{LOG_KEPT, is_busy, is_damage};
use crate::schema;

/// The reason why a ledger cannot be opened. After such an error, its content is unchanged.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum OpenError {
    /// The file or its directory cannot be used.
    #[error("cannot open the ledger {path}")]
    Io { path: PathBuf, source: io::Error },
    /// A later version of this program wrote the ledger.
    #[error("the ledger {path} has version {found}; this takeback reads up to version {known}")]
    TooNew { path: PathBuf, found: i32, known: i32 },
    /// Another program's database is at the path.
    #[error("{path} is another program's database, not takeback's ledger")]
    Foreign { path: PathBuf },
    /// The file is broken, or was never a database.
    #[error("the ledger {path} is damaged")]
    Damaged { path: PathBuf, source: rusqlite::Error },
    /// The ledger is in WAL mode on a file system that does not support WAL. It cannot be
    /// converted, because other processes are using it.
    #[error("the ledger {path} is on a network file system, and other processes are using it")]
    Network { path: PathBuf },
    /// A repair was interrupted.
    #[error("a repair of the ledger {path} was interrupted")]
    Unfinished { path: PathBuf },
    /// Any other SQLite error, such as a lock held by another process or a full disk.
    #[error("cannot open the ledger {path}")]
    Sqlite { path: PathBuf, source: rusqlite::Error },
}

/// The mechanism that keeps writes atomic when a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalMode {
    /// A write-ahead log. Readers do not wait for a writer, and a writer does not wait for readers.
    /// It needs memory that is shared between processes.
    Wal,
    /// A rollback journal, for network file systems. Readers and writers wait for each other.
    Rollback,
}

impl JournalMode {
    /// Chooses the journal mode that works on a directory's file system.
    pub(super) fn suited_to(directory: &Path) -> JournalMode {
        #[allow(clippy::unnecessary_cast, reason = "its type differs between platforms")]
        match rustix::fs::statfs(directory) {
            Ok(statfs) if is_shared(statfs.f_type as i64) => JournalMode::Rollback,
            _ => JournalMode::Wal,
        }
    }
}

/// True for file systems that several machines can share. Processes on different machines cannot
/// share the memory that [`JournalMode::Wal`] needs.
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
    // The type of a file system has 32 bits, and may have been sign-extended.
    [NFS, SMB, SMB2, CIFS, PLAN9, AFS, CODA, CEPH, FUSE].contains(&(kind & 0xffff_ffff))
}

pub(super) fn open_error(path: &Path, source: rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    if is_damage(&source) {
        OpenError::Damaged { path, source }
    } else {
        OpenError::Sqlite { path, source }
    }
}

/// Creates the file and its directory if they are missing, accessible only to their owner. SQLite
/// gives its log the same permissions.
pub(super) fn create_missing(directory: &Path, path: &Path) -> io::Result<()> {
    durable::create_directory(directory)?;
    match durable::create_new_file(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Opens a connection that is ready for use. Also returns the version of the schema.
pub(super) fn connect(
    path: &Path,
    journal: JournalMode,
    deadline: &Deadline,
) -> Result<(Connection, i32), OpenError> {
    let explain = |source| open_error(path, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let mut connection = Connection::open_with_flags(path, flags).map_err(explain)?;
    // By default, the last connection moves the log into the database when it closes. That costs a
    // sync. It would also be wrong after a repair has replaced the file, because the log at the
    // path then belongs to the new file. Instead, `Drop` moves the log if it is long.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(explain)?;
    let waiting = deadline.clone();
    connection.busy_handler(Some(move |tries| waiting.pause(tries))).map_err(explain)?;
    let found = check_version(&connection, path)?;
    configure(&connection, journal).map_err(explain)?;
    // SQLite does not wait if another process sets the journal mode at the same time, so this loop
    // waits.
    let mut tries = 0;
    let got = loop {
        match set_journal_mode(&connection, journal) {
            Err(error) if is_busy(&error) && deadline.pause(tries) => tries += 1,
            got => break got.map_err(explain)?,
        }
    };
    if got != journal {
        return Err(OpenError::Network { path: path.to_owned() });
    }
    // Check again: another process may have changed the database before this connection locked it.
    check_version(&connection, path)?;
    Ok((connection, found))
}

/// Checks that a database is a ledger. Returns its version, or 0 for an empty file. Also detects a
/// damaged header or schema.
pub(super) fn check_version(connection: &Connection, path: &Path) -> Result<i32, OpenError> {
    let explain = |source| open_error(path, source);
    // All reads must see the same state: another process may be creating the tables.
    let transaction = connection.is_autocommit().then(|| connection.unchecked_transaction());
    let transaction = transaction.transpose().map_err(explain)?;
    let number = |pragma| connection.query_row(pragma, [], |row| row.get::<_, i32>(0));
    let version = read_version(connection).map_err(explain)?;
    let application = number("PRAGMA application_id").map_err(explain)?;
    let tables = number("SELECT count(*) FROM sqlite_schema").map_err(explain)?;
    drop(transaction);
    match (application, tables) {
        (schema::APPLICATION_ID, _) if version > schema::VERSION => {
            Err(OpenError::TooNew { path: path.to_owned(), found: version, known: schema::VERSION })
        }
        (schema::APPLICATION_ID, _) if version >= schema::OLDEST_VERSION => Ok(version),
        (0, 0) => Ok(0),
        _ => Err(OpenError::Foreign { path: path.to_owned() }),
    }
}

/// Reads the version of the schema, as recorded by the program that created the tables.
pub(super) fn read_version(connection: &Connection) -> rusqlite::Result<i32> {
    connection.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))
}

fn configure(connection: &Connection, journal: JournalMode) -> rusqlite::Result<()> {
    // In WAL mode, a commit always survives a crash of the process, but it survives a power cut
    // only once the log has been moved into the database. Without a write-ahead log, every commit
    // must be synced.
    connection.pragma_update(
        None,
        "synchronous",
        match journal {
            JournalMode::Wal => "NORMAL",
            JournalMode::Rollback => "FULL",
        },
    )?;
    connection.pragma_update(None, "journal_size_limit", LOG_KEPT as i64)?;
    connection.pragma_update(None, "cache_size", -16_000)?;
    connection.pragma_update(None, "secure_delete", "OFF")?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

fn set_journal_mode(connection: &Connection, wanted: JournalMode) -> rusqlite::Result<JournalMode> {
    let pragma = match wanted {
        JournalMode::Wal => "PRAGMA journal_mode = WAL",
        JournalMode::Rollback => "PRAGMA journal_mode = TRUNCATE",
    };
    let mode: String = connection.query_row(pragma, [], |row| row.get(0))?;
    Ok(if mode.eq_ignore_ascii_case("wal") { JournalMode::Wal } else { JournalMode::Rollback })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_recognized_even_if_the_type_is_sign_extended() {
        assert!(is_shared(0x6969));
        assert!(is_shared(0xff53_4d42));
        assert!(is_shared(i64::from(0xff53_4d42_u32 as i32)));
        assert!(!is_shared(0xef53), "ext4");
        assert!(!is_shared(0x0102_1994), "tmpfs");
    }
}
