//! Reading states and writes.

use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Channel, Encoded, ThreadKey, ThreadState, ThreadWrite};
use crate::{Ledger, LedgerError};

/// The size in bytes at which a page of states ends.
const PAGE_BYTES: usize = 8 << 20;

/// A selection of states.
#[derive(Clone, Debug, Default)]
pub struct ThreadFilter {
    /// The name of the app; only its states are selected.
    pub app: String,
    /// Only states of this thread.
    pub thread: Option<String>,
    /// Only states of this subgraph.
    pub namespace: Option<String>,
    /// Only the state with this id.
    pub id: Option<String>,
    /// Only states with a smaller id.
    pub before: Option<String>,
    /// Only states whose metadata has each of these fields, with the same value.
    pub metadata: Map<String, Value>,
    /// The position after which to continue.
    pub after: Option<ThreadPosition>,
    /// The maximum number of states.
    pub limit: Option<usize>,
}

/// A position in a list of states, which is ordered by descending id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ThreadPosition {
    pub id: String,
    /// The number of the state in the ledger. It is needed because states of two threads may have
    /// the same id.
    pub number: i64,
}

/// A page of a list of states.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ThreadPage {
    /// The states, by descending id.
    pub states: Vec<ThreadState>,
    /// The position at which the list continues; `None` if this is its end.
    pub next: Option<ThreadPosition>,
}

/// The columns of a state, as [`read_state`] expects them.
const SELECT_STATE: &str = "SELECT key, app, thread, namespace, id, parent, time, files, metadata,
    deltas, type, content FROM thread_states";

impl Ledger {
    /// Returns a state of a thread: the one with this id, or the latest one.
    pub fn thread_state(
        &self,
        key: &ThreadKey,
        id: Option<&str>,
    ) -> Result<Option<ThreadState>, LedgerError> {
        self.database.snapshot(|connection| {
            let sql = format!(
                "{SELECT_STATE} WHERE (app, thread, namespace) = (?1, ?2, ?3)
                 AND (?4 IS NULL OR id = ?4) ORDER BY id DESC LIMIT 1"
            );
            let found = connection
                .prepare_cached(&sql)?
                .query_row(params![key.app, key.thread, key.namespace, id], read_state)
                .optional()?;
            found.map(|(number, state)| complete_state(connection, number, state)).transpose()
        })
    }

    /// Lists states by descending id. The list may be longer than the returned page.
    pub fn list_thread_states(&self, filter: &ThreadFilter) -> Result<ThreadPage, LedgerError> {
        self.database.snapshot(|connection| list_states(connection, filter))
    }
}

fn list_states(connection: &Connection, filter: &ThreadFilter) -> Result<ThreadPage, LedgerError> {
    let mut sql = format!("{SELECT_STATE} WHERE app = ?");
    let mut values: Vec<&dyn ToSql> = vec![&filter.app];
    let conditions = [
        ("thread = ?", &filter.thread),
        ("namespace = ?", &filter.namespace),
        ("id = ?", &filter.id),
        ("id < ?", &filter.before),
    ];
    for (condition, value) in &conditions {
        if let Some(value) = value {
            sql.push_str(" AND ");
            sql.push_str(condition);
            values.push(value);
        }
    }
    if let Some(after) = &filter.after {
        sql.push_str(" AND (id < ? OR (id = ? AND key < ?))");
        values.extend([&after.id as &dyn ToSql, &after.id, &after.number]);
    }
    sql.push_str(" ORDER BY id DESC, key DESC");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(values.as_slice())?;
    let mut page = ThreadPage::default();
    let (mut size, mut last) = (0, None);
    while let Some(row) = rows.next()? {
        if size >= PAGE_BYTES {
            page.next = last;
            break;
        }
        if filter.limit.is_some_and(|limit| page.states.len() >= limit) {
            break;
        }
        let (number, state) = read_state(row)?;
        let has_all = filter.metadata.iter().all(|(key, value)| {
            state.metadata.get(key).is_some_and(|found| is_equal(found, value))
        });
        if !has_all {
            continue;
        }
        let state = complete_state(connection, number, state)?;
        let values = state.channels.iter().filter_map(|channel| channel.value.as_ref());
        let writes = state.writes.iter().map(|write| &write.value);
        let parts = values.chain(writes).chain([&state.content]);
        size += parts.map(|part| part.data.len()).sum::<usize>();
        last = Some(ThreadPosition { id: state.id.clone(), number });
        page.states.push(state);
    }
    Ok(page)
}

/// Compares JSON values. Numbers such as 1 and 1.0 are equal.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

/// Reads the row of a state, without its channels and writes.
fn read_state(row: &Row<'_>) -> rusqlite::Result<(i64, ThreadState)> {
    let metadata: String = row.get(8)?;
    let deltas: String = row.get(9)?;
    let state = ThreadState {
        key: ThreadKey { app: row.get(1)?, thread: row.get(2)?, namespace: row.get(3)? },
        id: row.get(4)?,
        parent: row.get(5)?,
        time: row.get(6)?,
        files: row.get(7)?,
        metadata: serde_json::from_str(&metadata).unwrap_or_default(),
        deltas: serde_json::from_str(&deltas).unwrap_or_default(),
        content: Encoded { kind: row.get(10)?, data: row.get(11)? },
        channels: Vec::new(),
        writes: Vec::new(),
    };
    Ok((row.get(0)?, state))
}

/// Adds the channels and the writes of a state.
fn complete_state(
    connection: &Connection,
    number: i64,
    mut state: ThreadState,
) -> Result<ThreadState, LedgerError> {
    let mut statement = connection.prepare_cached(
        "SELECT channel, version, type, data
         FROM thread_channels LEFT JOIN thread_values v ON v.key = value
         WHERE state = ?1 ORDER BY channel",
    )?;
    let mut rows = statement.query([number])?;
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        let Some(kind) = row.get(2)? else {
            return Err(LedgerError::NoSuchValue {
                thread: state.key.thread,
                state: state.id,
                channel: name,
            });
        };
        let value = Some(Encoded { kind, data: row.get(3)? });
        state.channels.push(Channel { name, version: row.get(1)?, value });
    }
    let mut statement = connection.prepare_cached(
        "SELECT task, path, position, channel, type, data FROM thread_writes
         WHERE (app, thread, namespace, state_id) = (?1, ?2, ?3, ?4)
         ORDER BY path, task, position",
    )?;
    let ThreadKey { app, thread, namespace } = &state.key;
    let writes = statement.query_map(params![app, thread, namespace, state.id], |row| {
        Ok(ThreadWrite {
            task: row.get(0)?,
            path: row.get(1)?,
            position: row.get(2)?,
            channel: row.get(3)?,
            value: Encoded { kind: row.get(4)?, data: row.get(5)? },
        })
    })?;
    state.writes = writes.collect::<Result<_, _>>()?;
    Ok(state)
}

/// Finds channels whose state or value is missing. Returns a description of each problem.
pub(crate) fn check_threads(connection: &Connection) -> Result<Vec<String>, LedgerError> {
    let mut problems = Vec::new();
    for (lacking, condition) in [
        ("state", "state NOT IN (SELECT key FROM thread_states)"),
        ("value", "value NOT IN (SELECT key FROM thread_values)"),
    ] {
        let sql = format!("SELECT count(*) FROM thread_channels WHERE {condition}");
        let lost: i64 = connection.query_row(&sql, [], |row| row.get(0))?;
        if lost > 0 {
            problems.push(format!("channels of threads without a {lacking}: {lost}"));
        }
    }
    Ok(problems)
}
