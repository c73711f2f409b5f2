//! Tasks: work that continues after its process has died.
//!
//! The state of a task follows from its journal alone. A process works on a task under a lease. The
//! kernel holds the lease's lock, so the death of the process is noticed without a clock. The epoch
//! of the lease is checked in each write, so a process that has lost its lease can no longer write.

mod carry;
mod checks;
mod goals;
mod journal;
mod lease;
mod lock;
mod log;
mod snapshots;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, named_params, params};
use serde_json::Value;

pub(crate) use self::checks::{TASK_TABLES, check_tasks, complete_tasks, fence_leases};
pub use self::goals::{Budget, GoalRecord, GoalState, GoalUpdate, Spending};
pub use self::journal::{AppendOutcome, AppendedMessage, JournalEntry, TaskChange};
pub use self::lease::Lease;
pub use self::log::{
    LogContent, LogError, LogLease, LogRecord, LoggedTask, TaskBase, TaskLog, TaskStep,
};
pub use self::snapshots::{LoadedTask, Snapshot};
use crate::sessions::{head, parse_json};
use crate::{Ledger, LedgerError, Redactor, Time};

/// Work that continues after its process has died: a chat, a goal or a subagent.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct TaskRecord {
    /// The id: 1 to 64 letters, digits, `-` and `_`. It is also the name of a lock file.
    pub id: String,
    /// The session that the task works in.
    pub session: String,
    /// The task that this one works for.
    pub parent: Option<String>,
    /// `chat`, `goal`, `subagent`, or another word that the agent chooses.
    pub kind: String,
    /// `idle`, `running`, `waiting`, `done`, or another word that the agent chooses.
    pub state: String,
    pub workspace: Option<String>,
    /// Other data that the agent needs before it reads the journal. It should be small, because
    /// each append rewrites the row.
    pub detail: Option<Value>,
    /// The epoch of the last lease; 0 if there was none. Ignored when the task is created.
    pub epoch: i64,
    /// The number of the last journal entry; 0 if there is none. Ignored when the task is created.
    pub last_seq: i64,
    /// Ignored when the task is created.
    pub created_at: Time,
    /// The time of the last append, lease or change of state. Ignored when the task is created.
    pub updated_at: Time,
}

/// The selection of tasks to list.
#[derive(Clone, Debug, Default)]
pub struct TaskFilter {
    /// Only tasks in this session.
    pub session: Option<String>,
    /// Only tasks that work for this task.
    pub parent: Option<String>,
    /// Only tasks in these states; if empty, in any state.
    pub states: Vec<String>,
    /// Only tasks in this workspace.
    pub workspace: Option<String>,
}

/// The state that a repair gives a task whose journal has lost entries. Such a task cannot
/// continue.
const DAMAGED: &str = "damaged";

impl Ledger {
    /// Creates a task in an existing session.
    pub fn create_task(&mut self, task: &TaskRecord, now: Time) -> Result<(), LedgerError> {
        let task = mask_task(self.redact, task);
        self.database.write(|transaction| insert_task(transaction, &task, now))
    }

    /// Returns the task with exactly this id.
    pub fn task(&self, id: &str) -> Result<TaskRecord, LedgerError> {
        find_task(self.database.reader()?, id)
    }

    /// Lists tasks, starting with the one that changed last.
    pub fn tasks(&self, filter: &TaskFilter) -> Result<Vec<TaskRecord>, LedgerError> {
        let connection = self.database.reader()?;
        let sql = format!(
            "{SELECT_TASK}
             WHERE (?1 IS NULL OR s.id = ?1) AND (?2 IS NULL OR t.parent = ?2)
               AND (?3 = '[]' OR t.state IN (SELECT value FROM json_each(?3)))
               AND (?4 IS NULL OR t.workspace = ?4)
             ORDER BY t.updated_at DESC, t.key DESC"
        );
        let states = Value::from(filter.states.clone()).to_string();
        let parameters = params![filter.session, filter.parent, states, filter.workspace];
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map(parameters, read_task)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Finds the task that the user refers to by its id, or by an unambiguous beginning of the id.
    pub fn resolve_task(&self, typed: &str) -> Result<String, LedgerError> {
        let found = resolve_id(self.database.reader()?, "tasks", typed)?;
        found.ok_or_else(|| LedgerError::NoSuchTask(typed.to_owned()))
    }

    /// Sets the state of a task. No lease is needed, so another process can use this to ask the
    /// process that is working on the task to pause or stop. That process learns of the change from
    /// [`AppendOutcome::previous_state`].
    pub fn set_task_state(&mut self, id: &str, state: &str, now: Time) -> Result<(), LedgerError> {
        self.database.write(|transaction| {
            let changed = transaction
                .prepare_cached("UPDATE tasks SET state = ?2, updated_at = ?3 WHERE id = ?1")?
                .execute(params![id, state, now])?;
            if changed == 1 { Ok(()) } else { Err(LedgerError::NoSuchTask(id.to_owned())) }
        })
    }
}

/// The query for tasks with all their columns. Callers append a condition.
const SELECT_TASK: &str =
    "SELECT t.*, s.id AS session_id FROM tasks t JOIN sessions s ON s.key = t.session";

fn find_task(connection: &Connection, id: &str) -> Result<TaskRecord, LedgerError> {
    let sql = format!("{SELECT_TASK} WHERE t.id = ?1");
    let found = connection.prepare_cached(&sql)?.query_row([id], read_task).optional()?;
    found.ok_or_else(|| LedgerError::NoSuchTask(id.to_owned()))
}

fn read_task(row: &Row<'_>) -> rusqlite::Result<TaskRecord> {
    let detail: Option<String> = row.get("detail")?;
    Ok(TaskRecord {
        id: row.get("id")?,
        session: row.get("session_id")?,
        parent: row.get("parent")?,
        kind: row.get("kind")?,
        state: row.get("state")?,
        workspace: row.get("workspace")?,
        detail: detail.as_deref().map(parse_json),
        epoch: row.get("epoch")?,
        last_seq: row.get("last_seq")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

/// Finds the key of a task.
fn find_key(connection: &Connection, id: &str) -> Result<i64, LedgerError> {
    let mut statement = connection.prepare_cached("SELECT key FROM tasks WHERE id = ?1")?;
    let found = statement.query_row([id], |row| row.get(0)).optional()?;
    found.ok_or_else(|| LedgerError::NoSuchTask(id.to_owned()))
}

/// Finds the id that the user means in the table `tasks` or `goals`.
fn resolve_id(
    connection: &Connection,
    table: &str,
    typed: &str,
) -> Result<Option<String>, LedgerError> {
    if typed.is_empty() {
        return Ok(None);
    }
    let mut statement = connection.prepare_cached(&format!(
        "SELECT id FROM {table} WHERE substr(id, 1, length(?1)) = ?1
         ORDER BY id = ?1 DESC, updated_at DESC LIMIT 6"
    ))?;
    let mut candidates =
        statement.query_map([typed], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    match candidates.first() {
        Some(first) if candidates.len() > 1 && first != typed => {
            Err(LedgerError::Ambiguous { typed: typed.to_owned(), candidates })
        }
        Some(_) => Ok(Some(candidates.remove(0))),
        None => Ok(None),
    }
}

/// Returns a copy of the task. If `redact` is true, masks the secrets in it.
fn mask_task(redact: bool, task: &TaskRecord) -> TaskRecord {
    let mut task = task.clone();
    if redact {
        task.detail.iter_mut().for_each(|detail| Redactor::shared().mask_json(detail));
    }
    task
}

fn insert_task(
    transaction: &Transaction<'_>,
    task: &TaskRecord,
    now: Time,
) -> Result<(), LedgerError> {
    check_id(&task.id)?;
    if find_key(transaction, &task.id).is_ok() {
        return Err(LedgerError::TaskExists(task.id.clone()));
    }
    if let Some(parent) = &task.parent {
        find_key(transaction, parent)?;
    }
    transaction
        .prepare_cached(
            "INSERT INTO tasks (
                 id, session, parent, kind, state, created_at, updated_at, workspace, detail)
             VALUES (
                 :id, :session, :parent, :kind, :state, :now, :now, :workspace, :detail)",
        )?
        .execute(named_params! {
            ":id": task.id,
            ":session": head(transaction, &task.session)?.key,
            ":parent": task.parent,
            ":kind": task.kind,
            ":state": task.state,
            ":now": now,
            ":workspace": task.workspace,
            ":detail": task.detail.as_ref().map(Value::to_string),
        })?;
    Ok(())
}

/// Refuses an id that cannot be the name of a lock file.
fn check_id(id: &str) -> Result<(), LedgerError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    match (1..=64).contains(&id.len()) && id.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(LedgerError::BadTaskId(id.to_owned())),
    }
}

/// Finds the ids of the tasks in a session.
pub(crate) fn find_ids(connection: &Connection, session: i64) -> Result<Vec<String>, LedgerError> {
    let mut statement = connection.prepare_cached("SELECT id FROM tasks WHERE session = ?1")?;
    let rows = statement.query_map([session], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Deletes the tasks in a session with everything that belongs to them.
pub(crate) fn delete_tasks(transaction: &Transaction<'_>, session: i64) -> Result<(), LedgerError> {
    for table in TASK_TABLES {
        let sql =
            format!("DELETE FROM {table} WHERE task IN (SELECT key FROM tasks WHERE session = ?1)");
        transaction.prepare_cached(&sql)?.execute([session])?;
    }
    for sql in [
        "UPDATE tasks SET parent = NULL
         WHERE parent IN (SELECT id FROM tasks WHERE session = ?1)",
        "DELETE FROM tasks WHERE session = ?1",
    ] {
        transaction.prepare_cached(sql)?.execute([session])?;
    }
    Ok(())
}
