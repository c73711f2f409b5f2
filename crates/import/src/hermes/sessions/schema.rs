//! The tables and columns of a database.

use rusqlite::Connection;

use super::row::Cell;

/// Returns a part that a Hermes database must have and this database lacks, or `None` if nothing is
/// missing.
///
/// One of the tables `sessions` and `schema_version` may be missing, but not both.
pub(super) fn find_missing_part(connection: &Connection) -> rusqlite::Result<Option<&'static str>> {
    let messages = list_columns(connection, "messages")?;
    if messages.is_empty() {
        return Ok(Some("table `messages`"));
    }
    if !has_column(&messages, "session_id") || !has_column(&messages, "role") {
        return Ok(Some("columns `session_id` and `role` in the table `messages`"));
    }
    let is_missing = |table| list_columns(connection, table).map(|columns| columns.is_empty());
    if is_missing("sessions")? && is_missing("schema_version")? {
        return Ok(Some("table `sessions`"));
    }
    Ok(None)
}

/// Lists the names of a table's columns. A missing table has none.
pub(super) fn list_columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
    statement.query_map([table], |row| row.get(0))?.collect()
}

pub(super) fn has_column(columns: &[String], name: &str) -> bool {
    columns.iter().any(|column| column.eq_ignore_ascii_case(name))
}

/// Reads the schema version, or 0 if the database has none.
pub(super) fn read_version(connection: &Connection) -> rusqlite::Result<i64> {
    if !has_column(&list_columns(connection, "schema_version")?, "version") {
        return Ok(0);
    }
    let mut statement = connection.prepare("SELECT version FROM schema_version LIMIT 1")?;
    let mut rows = statement.query([])?;
    let Some(row) = rows.next()? else { return Ok(0) };
    Ok(Cell::read(row.get_ref(0)?).to_integer().unwrap_or(0))
}
