//! Reads the session database (`state.db`) of Hermes Agent.
//!
//! Made for the schema versions 1 to 22. The columns are read by name, whatever a version has: what
//! is known is mapped and everything else is kept in `extra` under its own name. A newer version is
//! therefore read as well, as long as its tables are still called the same; so is the database of a
//! fork, whose version numbers mean something else.
//!
//! SQLite types values, not columns. A value that is not what its column should hold is converted
//! as well as it goes, and the value itself is kept in `extra` as `hermes:<column>`.

mod convert;
mod copy;
mod fields;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::vec;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use copy::PrivateCopy;
use fields::{Cell, Fields};
use takeback_ledger::{MessageRecord, SessionRecord, Time, Transcript, UsageRecord};

/// Where messages go that belong to no session at all.
const NO_SESSION: &str = "hermes-no-session";

/// Why a Hermes database cannot be read.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, thiserror::Error)]
pub enum HermesError {
    #[error("there is no Hermes database at {}", .path.display())]
    Missing { path: PathBuf },
    #[error("{} is not a file", .path.display())]
    NotAFile { path: PathBuf },
    #[error("cannot copy {} to {}", .path.display(), .copy.display())]
    Copy { path: PathBuf, copy: PathBuf, source: io::Error },
    #[error("{} changes all the time; try again when Hermes is less busy", .path.display())]
    Changing { path: PathBuf },
    #[error("{} is not an SQLite database", .path.display())]
    NotSqlite { path: PathBuf },
    #[error("{} is not a Hermes database: it has no {missing}", .path.display())]
    NotHermes { path: PathBuf, missing: &'static str },
    #[error("cannot read the Hermes database {}", .path.display())]
    Sqlite { path: PathBuf, source: rusqlite::Error },
}

/// A Hermes database, copied aside and opened.
#[derive(Debug)]
pub struct HermesDatabase {
    // Closed before its files are removed: fields are dropped in this order.
    connection: Connection,
    path: PathBuf,
    version: i64,
    _copy: PrivateCopy,
}

impl HermesDatabase {
    /// Opens a copy of the database `path`, or of `path/state.db` if that is a directory.
    ///
    /// The database and its journal are copied into a fresh directory below `scratch`, which only
    /// this user can read and which is removed when this is dropped. SQLite never sees the
    /// original, so that a running Hermes is not disturbed and nothing next to it changes.
    pub fn open(path: &Path, scratch: &Path) -> Result<HermesDatabase, HermesError> {
        let path = find(path)?;
        let copy = PrivateCopy::make(&path, scratch)?;
        let connection = connect(copy.database()).map_err(|source| sqlite_error(&path, source))?;
        check_tables(&connection, &path)?;
        let version = read_version(&connection).map_err(|source| sqlite_error(&path, source))?;
        Ok(HermesDatabase { connection, path, version, _copy: copy })
    }

    /// The schema version; 0 if the database does not say.
    pub fn version(&self) -> i64 {
        self.version
    }

    /// Every session with all its messages, oldest session first.
    ///
    /// Only the places of the rows are collected now; each session is read when its turn comes.
    /// One that cannot be read does not keep the others from being read.
    pub fn transcripts(&self) -> Result<Transcripts<'_>, HermesError> {
        let outline = Outline::read(&self.connection).map_err(|source| self.error(source))?;
        let rows = outline.session_rows();
        Ok(Transcripts { database: self, rows, entries: outline.oldest_first().into_iter() })
    }

    fn error(&self, source: rusqlite::Error) -> HermesError {
        sqlite_error(&self.path, source)
    }

    /// One row, if it is still there.
    fn row(&self, table: &str, row: i64) -> rusqlite::Result<Option<Fields>> {
        let sql = format!("SELECT * FROM {table} WHERE rowid = ?1");
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query([row])?;
        rows.next()?.map(Fields::read).transpose()
    }
}

/// The sessions of a [`HermesDatabase`].
#[derive(Debug)]
pub struct Transcripts<'a> {
    database: &'a HermesDatabase,
    /// Where the session of this id is.
    rows: HashMap<String, i64>,
    entries: vec::IntoIter<Entry>,
}

impl Iterator for Transcripts<'_> {
    type Item = Result<Transcript, HermesError>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entries.next()?;
        Some(self.read(&entry).map_err(|source| self.database.error(source)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl ExactSizeIterator for Transcripts<'_> {}

impl Transcripts<'_> {
    fn read(&self, entry: &Entry) -> rusqlite::Result<Transcript> {
        Ok(Transcript {
            session: self.session(entry)?,
            messages: self.messages(entry)?,
            usage: self.usage(entry)?,
            ..Transcript::default()
        })
    }

    fn session(&self, entry: &Entry) -> rusqlite::Result<SessionRecord> {
        let fields = match entry.row {
            Some(row) => self.database.row("sessions", row)?,
            None => None,
        };
        let mut session = match fields {
            Some(fields) => convert::session(fields),
            None => convert::made_up_session(entry.time),
        };
        session.id.clone_from(&entry.id);
        session.parent_kind = convert::parent_kind(&session, self.parent(&session)?.as_ref());
        Ok(session)
    }

    fn parent(&self, session: &SessionRecord) -> rusqlite::Result<Option<SessionRecord>> {
        let row = session.parent_session_id.as_ref().and_then(|id| self.rows.get(id));
        let Some(row) = row else { return Ok(None) };
        Ok(self.database.row("sessions", *row)?.map(convert::session))
    }

    fn messages(&self, entry: &Entry) -> rusqlite::Result<Vec<MessageRecord>> {
        let mut messages = Vec::with_capacity(entry.messages.len());
        for row in &entry.messages {
            if let Some(fields) = self.database.row("messages", *row)? {
                messages.push(convert::message(fields, messages.len() as i64 + 1));
            }
        }
        Ok(messages)
    }

    fn usage(&self, entry: &Entry) -> rusqlite::Result<Vec<UsageRecord>> {
        let mut usage = Vec::with_capacity(entry.usage.len());
        for row in &entry.usage {
            if let Some(fields) = self.database.row("session_model_usage", *row)? {
                usage.push(convert::usage(fields));
            }
        }
        Ok(usage)
    }
}

/// Where the rows of one session are.
#[derive(Debug, Default)]
struct Entry {
    id: String,
    /// None for messages whose session is not there.
    row: Option<i64>,
    /// When it began, or else its first message's time.
    time: Option<Time>,
    messages: Vec<i64>,
    usage: Vec<i64>,
}

/// Where the rows of all sessions are.
///
/// Read off the tables themselves. The indexes are not asked, for a damaged one hides rows.
#[derive(Debug, Default)]
struct Outline {
    entries: Vec<Entry>,
    places: HashMap<String, usize>,
}

impl Outline {
    fn read(connection: &Connection) -> rusqlite::Result<Outline> {
        let mut outline = Outline::default();
        scan(connection, "sessions", "id", "started_at", |row, id, time| {
            // A text key may be null in SQLite, and more than once.
            let entry = outline.entry(id.unwrap_or_else(|| format!("hermes-row-{row}")));
            entry.row = Some(row);
            entry.time = time;
        })?;
        // In the order of their insertion, which Hermes goes by as well: clocks jump.
        scan(connection, "messages", "session_id", "timestamp", |row, id, time| {
            let entry = outline.entry(id.unwrap_or_else(|| NO_SESSION.to_owned()));
            entry.messages.push(row);
            entry.time = entry.time.or(time);
        })?;
        scan(connection, "session_model_usage", "session_id", "first_seen", |row, id, time| {
            let entry = outline.entry(id.unwrap_or_else(|| NO_SESSION.to_owned()));
            entry.usage.push(row);
            entry.time = entry.time.or(time);
        })?;
        Ok(outline)
    }

    fn entry(&mut self, id: String) -> &mut Entry {
        let next = self.entries.len();
        let place = *self.places.entry(id.clone()).or_insert(next);
        if place == next {
            self.entries.push(Entry { id, ..Entry::default() });
        }
        &mut self.entries[place]
    }

    fn session_rows(&self) -> HashMap<String, i64> {
        self.entries.iter().filter_map(|entry| Some((entry.id.clone(), entry.row?))).collect()
    }

    fn oldest_first(mut self) -> Vec<Entry> {
        // Stable: those that began together stay in the order of their rows.
        self.entries.sort_by_key(|entry| entry.time);
        self.entries
    }
}

/// Calls `each` with the row, the session's id and a time of every row of `table`.
fn scan(
    connection: &Connection,
    table: &str,
    id: &str,
    time: &str,
    mut each: impl FnMut(i64, Option<String>, Option<Time>),
) -> rusqlite::Result<()> {
    let columns = columns(connection, table)?;
    if columns.is_empty() {
        return Ok(());
    }
    let or_null = |name| if has(&columns, name) { name } else { "NULL" };
    let (id, time) = (or_null(id), or_null(time));
    let sql = format!("SELECT rowid, {id}, {time} FROM {table} NOT INDEXED ORDER BY rowid");
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id = Cell::read(row.get_ref(1)?).id();
        each(row.get(0)?, id, Cell::read(row.get_ref(2)?).time());
    }
    Ok(())
}

fn find(path: &Path) -> Result<PathBuf, HermesError> {
    let file = if path.is_dir() { path.join("state.db") } else { path.to_owned() };
    // SQLite keeps the journal next to the file that a link points to.
    let found = file.canonicalize().map_err(|_| HermesError::Missing { path: file })?;
    if found.is_file() { Ok(found) } else { Err(HermesError::NotAFile { path: found }) }
}

fn connect(copy: &Path) -> rusqlite::Result<Connection> {
    // Writable, so that SQLite can bring in the journal.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(copy, flags)?;
    // A broken definition of a search table, which Hermes suffers from, must not hide the messages.
    connection.execute_batch("PRAGMA writable_schema = ON; PRAGMA trusted_schema = OFF;")?;
    Ok(connection)
}

fn check_tables(connection: &Connection, path: &Path) -> Result<(), HermesError> {
    let columns_of = |table| columns(connection, table).map_err(|error| sqlite_error(path, error));
    let not_hermes = |missing| Err(HermesError::NotHermes { path: path.to_owned(), missing });
    let messages = columns_of("messages")?;
    if messages.is_empty() {
        return not_hermes("table `messages`");
    }
    if !has(&messages, "session_id") || !has(&messages, "role") {
        return not_hermes("`session_id` and `role` of messages");
    }
    if columns_of("sessions")?.is_empty() && columns_of("schema_version")?.is_empty() {
        return not_hermes("table `sessions`");
    }
    Ok(())
}

/// The names of the columns; none if there is no such table.
fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
    statement.query_map([table], |row| row.get(0))?.collect()
}

fn has(columns: &[String], name: &str) -> bool {
    columns.iter().any(|column| column.eq_ignore_ascii_case(name))
}

fn read_version(connection: &Connection) -> rusqlite::Result<i64> {
    if !has(&columns(connection, "schema_version")?, "version") {
        return Ok(0);
    }
    let mut statement = connection.prepare("SELECT version FROM schema_version LIMIT 1")?;
    let mut rows = statement.query([])?;
    let Some(row) = rows.next()? else { return Ok(0) };
    Ok(Cell::read(row.get_ref(0)?).integer().unwrap_or(0))
}

fn sqlite_error(path: &Path, source: rusqlite::Error) -> HermesError {
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => HermesError::NotSqlite { path },
        _ => HermesError::Sqlite { path, source },
    }
}
