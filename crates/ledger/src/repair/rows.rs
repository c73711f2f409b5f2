//! The rows of a repaired database.

use std::collections::HashMap;

use rusqlite::types::Value;
use rusqlite::{Connection, Transaction, params, params_from_iter};
use takeback_salvage::{self as salvage, DamagedDatabase, SalvagedRow};

use super::RepairReport;
use crate::tasks::{TASK_TABLES, complete_tasks};
use crate::threads::THREAD_TABLES;
use crate::verify::SESSION_TABLES;
use crate::{LedgerError, turns};

/// A table of the new database.
struct Table {
    name: String,
    /// For each column: its name, its declared type, and true if it allows NULL.
    columns: Vec<(String, String, bool)>,
}

/// Copies every row that can be read into the new database.
pub(super) fn copy_rows(
    transaction: &Transaction<'_>,
    damaged: &DamagedDatabase,
    progress: &dyn Fn(u64, u64),
) -> Result<RepairReport, LedgerError> {
    let tables = read_tables(transaction)?;
    let mut report = RepairReport::default();
    let mut unknown = 0_u64;
    let mut rows = damaged.rows();
    let mut saved = 0;
    // Rows that are reachable from the root of a table come first, so they take precedence over
    // stale copies in other pages.
    for row in rows.by_ref() {
        if row.table.as_deref() == Some("spooled") {
            transaction
                .prepare_cached("INSERT OR IGNORE INTO spooled (id) VALUES (?1)")?
                .execute(params_from_iter(row.values.into_iter().take(1).map(sql_value)))?;
            continue;
        }
        let table = match &row.table {
            Some(name) => tables.iter().find(|table| table.name == *name),
            None => find_fitting(&tables, &row),
        };
        let Some(table) = table else {
            unknown += u64::from(row.table.is_none());
            continue;
        };
        let is_orphan = row.table.is_none();
        if insert_row(transaction, table, row)? {
            saved += 1;
            report.orphans += u64::from(is_orphan);
            report.other_rows += u64::from(!matches!(table.name.as_str(), "sessions" | "messages"));
            progress(saved, 0);
        }
    }
    let read = rows.report();
    report.unreadable_pages = u64::from(read.unreadable_pages);
    if unknown > 0 {
        report
            .notes
            .push(format!("rows of unknown tables, which are only in the backup: {unknown}"));
    }
    if read.skipped_cells > 0 {
        report.notes.push(format!("rows that could not be read: {}", read.skipped_cells));
    }
    if report.orphans > 0 && !read.freelist_whole {
        report.notes.push("some deleted rows may have reappeared".to_owned());
    }
    if !read.header_readable || !read.schema_whole {
        report.notes.push("the header or the schema of the database was damaged".to_owned());
    }
    Ok(report)
}

/// Reads the tables and columns of the new database.
fn read_tables(connection: &Connection) -> Result<Vec<Table>, LedgerError> {
    let mut tables = Vec::new();
    let others = ["sessions", "bookmarks"];
    let names = [SESSION_TABLES, TASK_TABLES, THREAD_TABLES, &others].concat();
    for name in names {
        let mut statement = connection.prepare(&format!("PRAGMA table_info({name})"))?;
        let columns = statement
            .query_map([], |row| Ok((row.get(1)?, row.get(2)?, !row.get::<_, bool>(3)?)))?
            .collect::<Result<_, _>>()?;
        tables.push(Table { name: name.to_owned(), columns });
    }
    Ok(tables)
}

/// Finds the table to which a row of an unknown table belongs, by the number and the types of the
/// row's values. Returns `None` unless exactly one table fits.
fn find_fitting<'t>(tables: &'t [Table], row: &SalvagedRow) -> Option<&'t Table> {
    let fits = |table: &&Table| {
        table.columns.len() == row.values.len()
            && table.columns.iter().zip(&row.values).skip(1).all(
                |((_, declared, nullable), value)| match (declared.as_str(), value) {
                    (_, salvage::Value::Null) => *nullable,
                    ("TEXT", salvage::Value::Text(_)) => true,
                    ("INTEGER", salvage::Value::Integer(_)) => true,
                    ("BLOB", salvage::Value::Blob(_)) => true,
                    ("REAL", salvage::Value::Integer(_) | salvage::Value::Real(_)) => true,
                    _ => false,
                },
            )
    };
    let mut fitting = tables.iter().filter(fits);
    fitting.next().filter(|_| fitting.next().is_none())
}

/// Inserts a row. Returns false if the table already has a row with the same identity. The first
/// column is the rowid.
fn insert_row(
    transaction: &Transaction<'_>,
    table: &Table,
    row: SalvagedRow,
) -> Result<bool, LedgerError> {
    let values = row.values.into_iter().take(table.columns.len());
    let mut values: Vec<Value> = values.map(sql_value).collect();
    let Some(first) = values.first_mut() else { return Ok(false) };
    *first = Value::Integer(row.rowid);
    let names: Vec<&str> =
        table.columns.iter().take(values.len()).map(|(name, ..)| name.as_str()).collect();
    let marks = vec!["?"; values.len()].join(", ");
    let sql =
        format!("INSERT OR IGNORE INTO {} ({}) VALUES ({marks})", table.name, names.join(", "));
    Ok(transaction.prepare_cached(&sql)?.execute(params_from_iter(values))? == 1)
}

fn sql_value(value: salvage::Value) -> Value {
    match value {
        salvage::Value::Null => Value::Null,
        salvage::Value::Integer(number) => Value::Integer(number),
        salvage::Value::Real(number) => Value::Real(number),
        salvage::Value::Text(text) => Value::Text(text),
        salvage::Value::Blob(bytes) => Value::Blob(bytes),
    }
}

/// Completes the recovered rows: adds missing tasks, sessions and turns that rows refer to, and
/// corrects the counts. Returns notes for the user.
pub(super) fn complete_rows(transaction: &Transaction<'_>) -> Result<Vec<String>, LedgerError> {
    // A recovered task may also need a session.
    let notes = complete_tasks(transaction)?;
    let mut lost: HashMap<i64, i64> = HashMap::new();
    for table in SESSION_TABLES {
        let time = if *table == "messages" { "ifnull(min(timestamp), 0)" } else { "0" };
        let mut statement = transaction.prepare(&format!(
            "SELECT session, {time} FROM {table}
             WHERE session NOT IN (SELECT key FROM sessions) GROUP BY session"
        ))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (key, time): (i64, i64) = (row.get(0)?, row.get(1)?);
            let earliest = lost.entry(key).or_insert(time);
            *earliest = (*earliest).max(time);
        }
    }
    for (key, time) in lost {
        transaction.execute(
            "INSERT INTO sessions (key, id, source, started_at, last_activity)
             VALUES (?1, 'recovered:' || ?1, 'recovered', ?2, ?2)",
            params![key, time],
        )?;
    }
    transaction.execute_batch(
        "INSERT OR IGNORE INTO turns (session, turn, first_seq, started_at, undone)
             SELECT session, turn, min(seq), min(timestamp), min(undone) FROM messages
             WHERE turn > 0 GROUP BY session, turn;
         UPDATE sessions SET
             last_seq = max(last_seq, ifnull((SELECT max(seq) FROM messages WHERE session = key), 0)),
             last_turn = max(last_turn, ifnull((SELECT max(turn) FROM messages WHERE session = key), 0)),
             last_activity = max(last_activity,
                 ifnull((SELECT max(timestamp) FROM messages WHERE session = key), 0));",
    )?;
    let mut statement = transaction.prepare("SELECT key FROM sessions")?;
    let keys = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
    keys.into_iter().try_for_each(|key| turns::recount_session(transaction, key))?;
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    /// True if there is a value that fits both columns.
    fn overlap(one: &(String, String, bool), other: &(String, String, bool)) -> bool {
        let is_number = |declared: &str| matches!(declared, "INTEGER" | "REAL");
        (one.2 && other.2) || one.1 == other.1 || (is_number(&one.1) && is_number(&other.1))
    }

    #[test]
    fn a_row_whose_table_is_unknown_fits_only_one_table() {
        let connection = Connection::open_in_memory().unwrap();
        schema::bring_up_to_date(&connection, 0).unwrap();
        let tables = read_tables(&connection).unwrap();
        for (number, one) in tables.iter().enumerate() {
            for other in &tables[number + 1..] {
                let mut columns = one.columns.iter().zip(&other.columns).skip(1);
                let fits_both = one.columns.len() == other.columns.len()
                    && columns.all(|(one, other)| overlap(one, other));
                assert!(!fits_both, "{} and {}", one.name, other.name);
            }
        }
    }
}
