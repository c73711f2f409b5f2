//! Verifying and repairing tasks.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::DAMAGED;
use crate::LedgerError;

/// The tables whose rows belong to a task.
pub(crate) const TASK_TABLES: &[&str] = &["journal", "snapshots", "goals"];

/// The query for tasks that have lost journal entries on which their state depends, with the number
/// of lost entries. It leaves out tasks that a repair has marked as damaged.
const BROKEN_TASKS: &str = "
    SELECT key, id, lost FROM (
        SELECT t.key, t.id, t.last_seq - ifnull(s.seq, 0) - (
            SELECT count(*) FROM journal j
            WHERE j.task = t.key AND j.seq > ifnull(s.seq, 0) AND json_valid(j.entry)) AS lost
        FROM tasks t LEFT JOIN snapshots s ON s.task = t.key AND json_valid(s.state)
        WHERE t.state <> ?1)
    WHERE lost > 0";

/// The query for tasks whose journal or snapshot is newer than their row in the table of tasks.
const LATE_TASKS: &str = "
    SELECT id FROM tasks t WHERE
        last_seq < (SELECT max(seq) FROM journal WHERE task = t.key)
        OR epoch < (SELECT max(epoch) FROM journal WHERE task = t.key)
        OR last_seq < (SELECT seq FROM snapshots WHERE task = t.key)";

/// Finds rows without a task, and tasks whose row and journal disagree. Returns a description of
/// each problem.
pub(crate) fn check_tasks(connection: &Connection) -> Result<Vec<String>, LedgerError> {
    let mut problems = Vec::new();
    for table in TASK_TABLES {
        let sql = format!("SELECT count(*) FROM {table} WHERE task NOT IN (SELECT key FROM tasks)");
        let lost: i64 = connection.query_row(&sql, [], |row| row.get(0))?;
        if lost > 0 {
            problems.push(format!("rows in {table} without a task: {lost}"));
        }
    }
    let mut statement = connection.prepare(LATE_TASKS)?;
    for id in statement.query_map([], |row| row.get::<_, String>(0))? {
        problems.push(format!("task {} has later journal entries than it claims", id?));
    }
    for (_, id, lost) in find_broken(connection)? {
        problems.push(format!(
            "task {id} is open although its journal is incomplete; missing \
                               entries: {lost}"
        ));
    }
    Ok(problems)
}

fn find_broken(connection: &Connection) -> Result<Vec<(i64, String, i64)>, LedgerError> {
    let mut statement = connection.prepare(BROKEN_TASKS)?;
    let rows = statement.query_map([DAMAGED], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Fills gaps in the table of tasks: adds a task for rows whose task is lost, and marks tasks that
/// cannot continue. Returns a note for each task that it marks.
pub(crate) fn complete_tasks(transaction: &Transaction<'_>) -> Result<Vec<String>, LedgerError> {
    let mut statement = transaction.prepare(
        "SELECT task FROM journal UNION SELECT task FROM snapshots UNION SELECT task FROM goals
         EXCEPT SELECT key FROM tasks",
    )?;
    let lost = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
    lost.into_iter().try_for_each(|key| recover_task(transaction, key))?;
    transaction.execute_batch(
        "UPDATE tasks SET
             last_seq = max(last_seq,
                 ifnull((SELECT max(seq) FROM journal WHERE task = key), 0),
                 ifnull((SELECT seq FROM snapshots WHERE task = key), 0)),
             epoch = max(epoch, ifnull((SELECT max(epoch) FROM journal WHERE task = key), 0));",
    )?;
    let mut notes = Vec::new();
    for (key, id, lost) in find_broken(transaction)? {
        let sql = "UPDATE tasks SET state = ?2 WHERE key = ?1";
        transaction.execute(sql, params![key, DAMAGED])?;
        notes.push(format!(
            "task {id} cannot continue: its journal is incomplete; missing entries: \
                            {lost}"
        ));
    }
    Ok(notes)
}

/// Creates a task for rows whose task is lost. Its session is the one named in the last of its
/// journal entries.
fn recover_task(transaction: &Transaction<'_>, key: i64) -> Result<(), LedgerError> {
    let sql = "SELECT session, time FROM journal WHERE task = ?1 ORDER BY seq DESC LIMIT 1";
    let last = transaction
        .query_row(sql, [key], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    let (session, time) = match last {
        Some(last) => last,
        None => {
            transaction.execute(
                "INSERT INTO sessions (id, source, started_at, last_activity)
                 VALUES ('recovered:task-' || ?1, 'recovered', 0, 0)",
                [key],
            )?;
            (transaction.last_insert_rowid(), 0)
        }
    };
    transaction.execute(
        "INSERT INTO tasks (key, id, session, kind, state, created_at, updated_at)
         VALUES (?1, 'recovered-' || ?1, ?2, 'recovered', 'recovered', ?3, ?3)",
        params![key, session, time],
    )?;
    Ok(())
}

/// Raises the epochs of all tasks, so that no lease from before a repair is valid. This is
/// necessary because the recovered rows may be older than the last leases.
pub(crate) fn fence_leases(transaction: &Transaction<'_>) -> Result<(), LedgerError> {
    const LEASES_LOST: i64 = 1_000;
    transaction.execute("UPDATE tasks SET epoch = epoch + ?1", [LEASES_LOST])?;
    Ok(())
}
