//! Hermes Agent's sessions database (`state.db`).
//!
//! Supports schema versions 1 to 22. Columns are read by name: known columns are mapped, and all
//! others are kept in `extra` under their own names. So databases of newer versions can be read as
//! long as their tables have the same names. The databases of forks of Hermes can be read in the
//! same way, although a version number may have a different meaning there.
//!
//! In SQLite, values have types, but columns do not. A value of an unexpected type is converted as
//! far as possible, and the original is kept in `extra` as `hermes:<column>`.

mod copy;
mod outline;
mod records;
mod row;
mod schema;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::vec;

use rusqlite::{ErrorCode, OpenFlags};
use takeback_ledger::foreign_database::{ForeignDatabase, limit_reason, oversized};
use takeback_ledger::{MessageRecord, SessionRecord, Transcript, UsageRecord};

use copy::PrivateCopy;
use outline::{Outline, SessionRows};
use row::RowFields;

/// The reason why a Hermes database cannot be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum HermesError {
    #[error("no Hermes database at {}", .path.display())]
    Missing { path: PathBuf },
    #[error("{} is not a file", .path.display())]
    NotAFile { path: PathBuf },
    #[error("cannot copy {} to {}", .path.display(), .copy.display())]
    Copy { path: PathBuf, copy: PathBuf, source: io::Error },
    #[error("{} changes faster than it can be copied; stop Hermes and try again", .path.display())]
    Changing { path: PathBuf },
    #[error("{} is not an SQLite database", .path.display())]
    NotSqlite { path: PathBuf },
    #[error("{} is not a Hermes database: it has no {missing}", .path.display())]
    NotHermes { path: PathBuf, missing: &'static str },
    /// The database, or a session in it, exceeds a limit.
    #[error("cannot read the Hermes database {}: {reason}", .path.display())]
    Refused { path: PathBuf, reason: String },
    #[error("cannot read the Hermes database {}", .path.display())]
    Sqlite { path: PathBuf, source: rusqlite::Error },
}

/// The approximate maximum memory that one session may take.
const MAX_SESSION: usize = 1 << 30;

/// An open copy of a Hermes database.
#[derive(Debug)]
pub struct HermesDatabase {
    // Fields are dropped in this order: the connection is closed before its files are removed.
    connection: ForeignDatabase,
    path: PathBuf,
    version: i64,
    /// For each table, the statement that reads one of its rows; `None` if the table is missing.
    statements: [Option<String>; 3],
    _copy: PrivateCopy,
}

impl HermesDatabase {
    /// Opens a copy of the database at `path`, or at `path/state.db` if `path` is a directory.
    ///
    /// The database and its journal are copied into a new directory below `scratch`. Only this user
    /// can read that directory, and it is removed when the value is dropped. SQLite never opens the
    /// original, so a running Hermes is not disturbed, and no file next to the original changes.
    pub fn open(path: &Path, scratch: &Path) -> Result<HermesDatabase, HermesError> {
        let path = resolve_database(path)?;
        let copy = PrivateCopy::create(&path, scratch)?;
        let failed = |source| sqlite_error(&path, source);
        let connection = open_connection(copy.database()).map_err(failed)?;
        if let Some(missing) = schema::find_missing_part(&connection).map_err(failed)? {
            return Err(HermesError::NotHermes { path, missing });
        }
        let version = schema::read_version(&connection).map_err(failed)?;
        let mut statements = TABLES.map(|_| None);
        for (statement, table) in statements.iter_mut().zip(TABLES) {
            *statement = schema::select_row(&connection, table).map_err(failed)?;
        }
        Ok(HermesDatabase { connection, path, version, statements, _copy: copy })
    }

    /// Returns the schema version, or 0 if the database has none.
    pub fn version(&self) -> i64 {
        self.version
    }

    /// Returns every session with all its messages, oldest session first.
    ///
    /// At first, only row ids are collected. Each session is read when the iterator reaches it. A
    /// session that cannot be read does not affect the others.
    pub fn transcripts(&self) -> Result<Transcripts<'_>, HermesError> {
        let failed = |source| sqlite_error(&self.path, source);
        let outline = Outline::read(&self.connection).map_err(failed)?;
        let rows_by_id = outline.rows_by_id();
        let sessions = outline.into_oldest_first().into_iter();
        Ok(Transcripts { database: self, rows_by_id, sessions })
    }

    /// Reads the plain columns of a row. Reduces `budget` by the memory that the columns need.
    fn read_row(
        &self,
        table: Table,
        row: i64,
        budget: &mut usize,
    ) -> rusqlite::Result<Option<RowFields>> {
        let Some(sql) = &self.statements[table as usize] else { return Ok(None) };
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([row])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let fields = RowFields::read(row)?;
        let left = budget.checked_sub(fields.cost());
        *budget = left.ok_or_else(|| {
            oversized(&format!("the session takes more than {} MB of memory", MAX_SESSION >> 20))
        })?;
        Ok(Some(fields))
    }
}

/// A table that is read row by row.
#[derive(Clone, Copy)]
enum Table {
    Sessions,
    Messages,
    Usage,
}

/// The names of the tables, in the order of [`Table`].
const TABLES: [&str; 3] = ["sessions", "messages", "session_model_usage"];

/// An iterator over the sessions of a [`HermesDatabase`].
#[derive(Debug)]
pub struct Transcripts<'a> {
    database: &'a HermesDatabase,
    /// The row of each session in the `sessions` table, by session id.
    rows_by_id: HashMap<String, i64>,
    sessions: vec::IntoIter<SessionRows>,
}

impl Iterator for Transcripts<'_> {
    type Item = Result<Transcript, HermesError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rows = self.sessions.next()?;
        let failed = |source| sqlite_error(&self.database.path, source);
        Some(self.read_transcript(&rows).map_err(failed))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.sessions.size_hint()
    }
}

impl ExactSizeIterator for Transcripts<'_> {}

impl Transcripts<'_> {
    fn read_transcript(&self, rows: &SessionRows) -> rusqlite::Result<Transcript> {
        let mut budget = MAX_SESSION;
        Ok(Transcript {
            session: self.read_session(rows, &mut budget)?,
            messages: self.read_messages(rows, &mut budget)?,
            usage: self.read_usage(rows, &mut budget)?,
            ..Transcript::default()
        })
    }

    fn read_session(
        &self,
        rows: &SessionRows,
        budget: &mut usize,
    ) -> rusqlite::Result<SessionRecord> {
        let fields = match rows.session {
            Some(row) => self.database.read_row(Table::Sessions, row, budget)?,
            None => None,
        };
        let mut session = match fields {
            Some(fields) => records::session_record(fields),
            None => records::missing_session(rows.time),
        };
        session.id.clone_from(&rows.id);
        session.parent_kind =
            records::parent_kind(&session, self.read_parent(&session, budget)?.as_ref());
        Ok(session)
    }

    fn read_parent(
        &self,
        session: &SessionRecord,
        budget: &mut usize,
    ) -> rusqlite::Result<Option<SessionRecord>> {
        let row = session.parent_session_id.as_ref().and_then(|id| self.rows_by_id.get(id));
        let Some(row) = row else { return Ok(None) };
        let fields = self.database.read_row(Table::Sessions, *row, budget)?;
        Ok(fields.map(records::session_record))
    }

    fn read_messages(
        &self,
        rows: &SessionRows,
        budget: &mut usize,
    ) -> rusqlite::Result<Vec<MessageRecord>> {
        let mut messages = Vec::new();
        for row in &rows.messages {
            if let Some(fields) = self.database.read_row(Table::Messages, *row, budget)? {
                messages.push(records::message_record(fields, messages.len() as i64 + 1));
            }
        }
        Ok(messages)
    }

    fn read_usage(
        &self,
        rows: &SessionRows,
        budget: &mut usize,
    ) -> rusqlite::Result<Vec<UsageRecord>> {
        let mut usage = Vec::new();
        for row in &rows.usage {
            if let Some(fields) = self.database.read_row(Table::Usage, *row, budget)? {
                usage.push(records::usage_record(fields));
            }
        }
        Ok(usage)
    }
}

/// Finds the database file. Follows links, because SQLite keeps the journal next to the file that a
/// link points to.
fn resolve_database(path: &Path) -> Result<PathBuf, HermesError> {
    let file = if path.is_dir() { path.join("state.db") } else { path.to_owned() };
    let found = file.canonicalize().map_err(|_| HermesError::Missing { path: file })?;
    if found.is_file() { Ok(found) } else { Err(HermesError::NotAFile { path: found }) }
}

fn open_connection(copy: &Path) -> rusqlite::Result<ForeignDatabase> {
    // The copy is opened for writing, so that SQLite can apply the journal.
    let connection = ForeignDatabase::open(copy, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // Hermes is known to break the definitions of its search tables. With `writable_schema`, SQLite
    // still reads the other tables.
    connection.execute_batch("PRAGMA writable_schema = ON;")?;
    Ok(connection)
}

fn sqlite_error(path: &Path, source: rusqlite::Error) -> HermesError {
    let path = path.to_owned();
    match (source.sqlite_error_code(), limit_reason(&source)) {
        (Some(ErrorCode::NotADatabase), _) => HermesError::NotSqlite { path },
        (_, Some(reason)) => HermesError::Refused { path, reason },
        _ => HermesError::Sqlite { path, source },
    }
}
