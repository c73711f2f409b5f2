//! Other programs' databases. They may be damaged, or designed to exhaust memory or time.
//!
//! Only the plain columns of real tables are read. Views, virtual tables and generated columns are
//! not, so nothing in the database is executed. Even so, reading may never end, because a b-tree
//! can contain itself. Therefore the number of steps is limited according to the size of the
//! database.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, ffi};
use takeback_base::foreign;

/// The maximum size of a value or a row.
const MAX_VALUE: i32 = 256 << 20;

/// The maximum length of a statement, such as the definition of a table.
const MAX_SQL: i32 = 1 << 20;

/// The maximum number of instructions in a compiled statement.
const MAX_INSTRUCTIONS: i32 = 100_000;

/// The number of steps allowed for a database of any size. It is enough to read a small database.
const FREE_STEPS: u64 = 20_000_000;

/// The number of additional steps allowed for each byte of the database. Reading all rows of a
/// typical database takes less than one step per byte.
const STEPS_PER_BYTE: u64 = 16;

/// The number of steps between two checks of the limit.
const STEPS_PER_CHECK: u64 = 1_000;

/// The minimum size of a row in its table, in bytes.
const MIN_ROW: u64 = 4;

/// The number of rows allowed for a database of any size.
const FREE_ROWS: u64 = 1_000;

/// Another program's database, opened with limits on the memory and the steps that a read may take.
#[derive(Debug)]
pub struct ForeignDatabase {
    connection: Connection,
    size: u64,
}

impl ForeignDatabase {
    /// Opens a database. Fails if the database, or one of SQLite's files beside it, is not a
    /// regular file.
    pub fn open(path: &Path, access: OpenFlags) -> rusqlite::Result<ForeignDatabase> {
        let size = measure_files(path).map_err(|error| refusal(&error.to_string()))?;
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        let mut checks = (FREE_STEPS + size.saturating_mul(STEPS_PER_BYTE)) / STEPS_PER_CHECK;
        let is_over = move || {
            checks = checks.saturating_sub(1);
            checks == 0
        };
        connection.progress_handler(STEPS_PER_CHECK as i32, Some(is_over))?;
        for (limit, value) in [
            (Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE),
            (Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_SQL),
            (Limit::SQLITE_LIMIT_VDBE_OP, MAX_INSTRUCTIONS),
            (Limit::SQLITE_LIMIT_ATTACHED, 0),
        ] {
            connection.set_limit(limit, value)?;
        }
        for config in [
            DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA,
            DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW,
            DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER,
        ] {
            connection.set_db_config(config, false)?;
        }
        Ok(ForeignDatabase { connection, size })
    }

    /// Returns the total size of the database and of SQLite's files beside it, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns an upper bound for the number of rows that fit into the database.
    pub fn max_rows(&self) -> u64 {
        self.size / MIN_ROW + FREE_ROWS
    }

    /// Lists the names of a table's columns, except generated ones. A missing table has none. Fails
    /// if the name belongs to a view or a virtual table.
    pub fn columns(&self, table: &str) -> rusqlite::Result<Vec<String>> {
        // The kind is read from the parsed schema, because the table of definitions
        // (`sqlite_schema`) can contain anything.
        let kind: Option<String> = self
            .connection
            .prepare_cached(
                "SELECT type FROM pragma_table_list
                 WHERE schema = 'main' AND name = ?1 COLLATE NOCASE",
            )?
            .query_row([table], |row| row.get(0))
            .optional()?;
        match kind.as_deref() {
            None => return Ok(Vec::new()),
            Some("table") => {}
            Some(kind) => {
                let kind = if kind == "virtual" { "virtual table" } else { kind };
                let message = format!("`{table}` is a {kind}, not a table");
                return Err(refusal(&message));
            }
        }
        let mut statement =
            self.connection.prepare_cached("SELECT name FROM pragma_table_info(?1)")?;
        statement.query_map([table], |row| row.get(0))?.collect()
    }

    /// Fails unless each of these names is a plain column of the table.
    pub fn require_columns(&self, table: &str, names: &[&str]) -> rusqlite::Result<()> {
        let columns = self.columns(table)?;
        let has = |name: &&str| columns.iter().any(|column| column.eq_ignore_ascii_case(name));
        match names.iter().find(|name| !has(name)) {
            None => Ok(()),
            Some(name) => Err(refusal(&format!("the table `{table}` has no column `{name}`"))),
        }
    }
}

impl Deref for ForeignDatabase {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

/// Returns the error for a database that has more rows than fit into a file of its size.
pub fn endless_database() -> rusqlite::Error {
    failure(ffi::SQLITE_INTERRUPT, "interrupted")
}

/// Returns the error for a session or a message that is too large.
pub fn oversized(message: &str) -> rusqlite::Error {
    failure(ffi::SQLITE_TOOBIG, message)
}

/// Explains an error that was caused by one of the limits in this module. Returns `None` for other
/// errors.
pub fn limit_reason(error: &rusqlite::Error) -> Option<String> {
    let rusqlite::Error::SqliteFailure(cause, message) = error else { return None };
    match cause.code {
        ErrorCode::OperationInterrupted => Some(
            "reading it takes too long for its size, so it is damaged or was designed to be endless"
                .to_owned(),
        ),
        ErrorCode::TooBig => Some(match message {
            Some(message) if message != SQLITE_TOO_BIG => message.clone(),
            _ => format!("it has a row of more than {} MB", MAX_VALUE >> 20),
        }),
        ErrorCode::AuthorizationForStatementDenied => message.clone(),
        _ => None,
    }
}

/// SQLite's own message for a value beyond its limit.
const SQLITE_TOO_BIG: &str = "string or blob too big";

/// Returns the error for a file, table or column that must not be read. SQLite itself never returns
/// the code `SQLITE_AUTH` here, because the connection has no authorizer.
fn refusal(message: &str) -> rusqlite::Error {
    failure(ffi::SQLITE_AUTH, message)
}

fn failure(code: i32, message: &str) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(message.to_owned()))
}

/// Measures a database and SQLite's files beside it. Fails unless all of them are regular files,
/// because SQLite would wait for the other end of a pipe.
fn measure_files(path: &Path) -> io::Result<u64> {
    let mut size = fs::metadata(path)?.len();
    foreign::open_regular(path)?;
    let real = fs::canonicalize(path)?;
    for suffix in ["-wal", "-journal", "-shm"] {
        let beside = add_suffix(&real, suffix);
        let opened = foreign::open_unlinked(&beside).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", beside.display()))
        })?;
        size += opened.map_or(Ok(0), |file| file.metadata().map(|metadata| metadata.len()))?;
    }
    Ok(size)
}

fn add_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}
