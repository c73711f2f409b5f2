//! The rows that belong to each session. They are found before any session is read.

use std::collections::HashMap;

use takeback_ledger::Time;
use takeback_ledger::foreign_database::{ForeignDatabase, endless_database};

use super::row::Cell;
use super::schema::has_column;

/// The id of the session that receives messages without a session id.
const NO_SESSION: &str = "hermes-no-session";

/// The row ids of one session and of everything that belongs to it.
#[derive(Debug, Default)]
pub(super) struct SessionRows {
    pub(super) id: String,
    /// The row of the session itself; `None` for messages whose session is missing.
    pub(super) session: Option<i64>,
    /// The time at which the session began, or the time of its first message.
    pub(super) time: Option<Time>,
    pub(super) messages: Vec<i64>,
    pub(super) usage: Vec<i64>,
}

/// The row ids of all sessions. They are read from the tables themselves, not from the indexes,
/// because a damaged index hides rows.
#[derive(Debug, Default)]
pub(super) struct Outline {
    sessions: Vec<SessionRows>,
    indexes: HashMap<String, usize>,
    /// The total size of all ids.
    id_bytes: u64,
}

impl Outline {
    pub(super) fn read(database: &ForeignDatabase) -> rusqlite::Result<Outline> {
        let mut outline = Outline::default();
        let mut scan = |table, id, time, visit: fn(&mut SessionRows, i64, Option<Time>)| {
            scan_table(database, table, id, time, |row, id, time| {
                // The id can be null, even if it is the primary key: SQLite allows any number of
                // null keys.
                let missing = || match table {
                    "sessions" => format!("hermes-row-{row}"),
                    _ => NO_SESSION.to_owned(),
                };
                visit(outline.rows_of(id.unwrap_or_else(missing)), row, time);
                // In a damaged database, several rows can share the same bytes, so the total size
                // of the ids must be limited. The factor allows for ids that are generated or
                // encoded, which can be longer than the stored values.
                outline.id_bytes <= 4 * database.size()
            })
        };
        scan("sessions", "id", "started_at", |rows, row, time| {
            rows.session = Some(row);
            rows.time = time;
        })?;
        // Messages are read in insertion order, as in Hermes, because the clock may have been set
        // back.
        scan("messages", "session_id", "timestamp", |rows, row, time| {
            rows.messages.push(row);
            rows.time = rows.time.or(time);
        })?;
        scan("session_model_usage", "session_id", "first_seen", |rows, row, time| {
            rows.usage.push(row);
            rows.time = rows.time.or(time);
        })?;
        Ok(outline)
    }

    fn rows_of(&mut self, id: String) -> &mut SessionRows {
        let next = self.sessions.len();
        let index = *self.indexes.entry(id.clone()).or_insert(next);
        if index == next {
            self.id_bytes += id.len() as u64;
            self.sessions.push(SessionRows { id, ..SessionRows::default() });
        }
        &mut self.sessions[index]
    }

    /// Maps the id of each session to its row in the `sessions` table.
    pub(super) fn rows_by_id(&self) -> HashMap<String, i64> {
        let rows = self.sessions.iter();
        rows.filter_map(|rows| Some((rows.id.clone(), rows.session?))).collect()
    }

    /// Returns the sessions, oldest first. Sessions that began at the same time stay in the order
    /// of their rows.
    pub(super) fn into_oldest_first(mut self) -> Vec<SessionRows> {
        self.sessions.sort_by_key(|rows| rows.time);
        self.sessions
    }
}

/// Calls `visit` for every row of a table, with the row id, the session's id and the time. A
/// missing table is treated as empty, and a missing column as null. Fails if the table has more
/// rows than fit into the database, or if `visit` returns false.
fn scan_table(
    database: &ForeignDatabase,
    table: &str,
    id: &str,
    time: &str,
    mut visit: impl FnMut(i64, Option<String>, Option<Time>) -> bool,
) -> rusqlite::Result<()> {
    let columns = database.columns(table)?;
    if columns.is_empty() {
        return Ok(());
    }
    let or_null = |name| if has_column(&columns, name) { name } else { "NULL" };
    let (id, time) = (or_null(id), or_null(time));
    let sql = format!("SELECT rowid, {id}, {time} FROM {table} NOT INDEXED ORDER BY rowid");
    let mut statement = database.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut left = database.max_rows();
    while let Some(row) = rows.next()? {
        let id = Cell::read(row.get_ref(1)?).to_id();
        let fits = visit(row.get(0)?, id, Cell::read(row.get_ref(2)?).to_time());
        left = left.saturating_sub(1);
        if left == 0 || !fits {
            return Err(endless_database());
        }
    }
    Ok(())
}
