//! The tables and columns of a database.

use takeback_ledger::foreign_database::ForeignDatabase;

use super::row::Cell;

/// Returns a part that every Hermes database must have but this database lacks, or `None` if
/// nothing is missing.
///
/// One of the tables `sessions` and `schema_version` may be missing, but not both.
pub(super) fn find_missing_part(
    database: &ForeignDatabase,
) -> rusqlite::Result<Option<&'static str>> {
    let messages = database.columns("messages")?;
    if messages.is_empty() {
        return Ok(Some("table `messages`"));
    }
    if !has_column(&messages, "session_id") || !has_column(&messages, "role") {
        return Ok(Some("columns `session_id` and `role` in the table `messages`"));
    }
    let is_missing = |table| database.columns(table).map(|columns| columns.is_empty());
    if is_missing("sessions")? && is_missing("schema_version")? {
        return Ok(Some("table `sessions`"));
    }
    Ok(None)
}

pub(super) fn has_column(columns: &[String], name: &str) -> bool {
    columns.iter().any(|column| column.eq_ignore_ascii_case(name))
}

/// Builds a statement that reads the plain columns of one row. Returns `None` if there is no such
/// table.
pub(super) fn select_row(
    database: &ForeignDatabase,
    table: &str,
) -> rusqlite::Result<Option<String>> {
    let columns = database.columns(table)?;
    let quote = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
    let columns = columns.iter().map(quote).collect::<Vec<_>>().join(", ");
    let sql = format!("SELECT {columns} FROM {table} WHERE rowid = ?1");
    Ok(Some(sql).filter(|_| !columns.is_empty()))
}

/// Reads the schema version. Returns 0 if the database has none.
pub(super) fn read_version(database: &ForeignDatabase) -> rusqlite::Result<i64> {
    if !has_column(&database.columns("schema_version")?, "version") {
        return Ok(0);
    }
    let mut statement = database.prepare("SELECT version FROM schema_version LIMIT 1")?;
    let mut rows = statement.query([])?;
    let Some(row) = rows.next()? else { return Ok(0) };
    Ok(Cell::read(row.get_ref(0)?).to_integer().unwrap_or(0))
}
