//! Storing states and writes.

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde_json::Value;

use super::delete::{delete_state_row, delete_unused_values};
use super::{
    Channel, Encoded, MAX_STATE_BYTES, MAX_WRITES_BYTES, ThreadKey, ThreadState, ThreadWrite,
};
use crate::{Ledger, LedgerError, Time};

impl Ledger {
    /// Stores a state, replacing any state with the same id. A channel without a value takes its
    /// value from the parent or the replaced state, if one of them has the channel in the same
    /// version. Returns the channels whose values are still missing. If there are any, nothing is
    /// stored.
    pub fn put_thread_state(
        &mut self,
        state: &ThreadState,
        now: Time,
    ) -> Result<Vec<String>, LedgerError> {
        self.database.write(|transaction| {
            let parent = match &state.parent {
                Some(parent) => find_state_key(transaction, &state.key, parent)?,
                None => None,
            };
            let replaced = find_state_key(transaction, &state.key, &state.id)?;
            let known: Vec<i64> = parent.into_iter().chain(replaced).collect();
            let (shared, missing) = find_shared_values(transaction, &known, &state.channels)?;
            if !missing.is_empty() {
                return Ok(missing);
            }
            let values = insert_values(transaction, &state.channels, shared)?;
            let former = replaced.map(|key| delete_state_row(transaction, key)).transpose()?;
            let key = insert_state(transaction, state, now)?;
            let channels = state.channels.iter().map(|channel| (&channel.name, &channel.version));
            for ((name, version), value) in channels.zip(values) {
                transaction.prepare_cached(INSERT_CHANNEL)?.execute((key, name, version, value))?;
            }
            delete_unused_values(transaction, &former.unwrap_or_default())?;
            check_size(transaction, key)?;
            Ok(Vec::new())
        })
    }

    /// Stores results of tasks in the step that follows a state. The state itself may be stored
    /// later. A result that the task already has at the same position is kept, unless the position
    /// is negative.
    pub fn put_thread_writes(
        &mut self,
        key: &ThreadKey,
        state: &str,
        writes: &[ThreadWrite],
    ) -> Result<(), LedgerError> {
        self.database.write(|transaction| {
            for write in writes {
                let verb = if write.position < 0 { "REPLACE" } else { "IGNORE" };
                let sql = format!(
                    "INSERT OR {verb} INTO thread_writes
                         (app, thread, namespace, state_id, task, position, path, channel, type, data)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
                );
                transaction.prepare_cached(&sql)?.execute(params![
                    key.app,
                    key.thread,
                    key.namespace,
                    state,
                    write.task,
                    write.position,
                    write.path,
                    write.channel,
                    write.value.kind,
                    write.value.data,
                ])?;
            }
            let size: i64 = transaction
                .prepare_cached(
                    "SELECT ifnull(sum(length(data)), 0) FROM thread_writes
                     WHERE (app, thread, namespace, state_id) = (?1, ?2, ?3, ?4)",
                )?
                .query_row(params![key.app, key.thread, key.namespace, state], |row| row.get(0))?;
            if size > MAX_WRITES_BYTES {
                return Err(LedgerError::TooLarge { what: "the writes after a state", size, max: MAX_WRITES_BYTES });
            }
            Ok(())
        })
    }

    /// Copies all states and writes of a thread into a new thread of the app. Returns the number of
    /// copied states, which is 0 if the thread does not exist.
    pub fn copy_thread(&mut self, app: &str, from: &str, to: &str) -> Result<usize, LedgerError> {
        self.database.write(|transaction| {
            let exists = transaction
                .prepare_cached("SELECT 1 FROM thread_states WHERE (app, thread) = (?1, ?2)")?
                .exists(params![app, to])?;
            if exists {
                return Err(LedgerError::ThreadExists(to.to_owned()));
            }
            let copied = transaction.execute(
                "INSERT INTO thread_states (app, thread, namespace, id, parent, run, time, files,
                                            metadata, deltas, type, content)
                 SELECT app, ?3, namespace, id, parent, run, time, files, metadata, deltas, type,
                        content
                 FROM thread_states WHERE (app, thread) = (?1, ?2)",
                params![app, from, to],
            )?;
            transaction.execute(
                "INSERT INTO thread_channels (state, channel, version, value)
                 SELECT new.key, channel, version, value
                 FROM thread_states old JOIN thread_channels ON state = old.key
                 JOIN thread_states new ON (new.app, new.thread, new.namespace, new.id) =
                                           (?1, ?3, old.namespace, old.id)
                 WHERE (old.app, old.thread) = (?1, ?2)",
                params![app, from, to],
            )?;
            transaction.execute(
                "INSERT OR IGNORE INTO thread_writes (app, thread, namespace, state_id, task,
                                                      position, path, channel, type, data)
                 SELECT app, ?3, namespace, state_id, task, position, path, channel, type, data
                 FROM thread_writes WHERE (app, thread) = (?1, ?2)",
                params![app, from, to],
            )?;
            Ok(copied)
        })
    }
}

/// Finds the values that a new state shares with states that are already stored. Returns two lists:
/// for each channel, the key of the shared value if there is one; and the channels whose values are
/// missing.
fn find_shared_values(
    transaction: &Transaction<'_>,
    known: &[i64],
    channels: &[Channel],
) -> Result<(Vec<Option<i64>>, Vec<String>), LedgerError> {
    let (mut shared, mut missing) = (Vec::new(), Vec::new());
    for channel in channels {
        let mut found = None;
        for state in known {
            found = match &channel.value {
                None => transaction
                    .prepare_cached(
                        "SELECT value FROM thread_channels
                         WHERE (state, channel, version) = (?1, ?2, ?3)",
                    )?
                    .query_row(params![state, channel.name, channel.version], |row| row.get(0)),
                Some(Encoded { kind, data }) => transaction
                    .prepare_cached(
                        "SELECT value FROM thread_channels JOIN thread_values v ON v.key = value
                         WHERE (state, channel) = (?1, ?2) AND type = ?3 AND data = ?4",
                    )?
                    .query_row(params![state, channel.name, kind, data], |row| row.get(0)),
            }
            .optional()?;
            if found.is_some() {
                break;
            }
        }
        if found.is_none() && channel.value.is_none() {
            missing.push(channel.name.clone());
        }
        shared.push(found);
    }
    Ok((shared, missing))
}

/// Inserts the values that are not stored yet. Returns the keys of all values.
fn insert_values(
    transaction: &Transaction<'_>,
    channels: &[Channel],
    shared: Vec<Option<i64>>,
) -> Result<Vec<i64>, LedgerError> {
    let mut keys = Vec::new();
    for (channel, shared) in channels.iter().zip(shared) {
        keys.push(match (shared, &channel.value) {
            (Some(key), _) => key,
            (None, value) => {
                let Encoded { kind, data } = value.clone().unwrap_or_default();
                transaction
                    .prepare_cached("INSERT INTO thread_values (type, data) VALUES (?1, ?2)")?
                    .execute(params![kind, data])?;
                transaction.last_insert_rowid()
            }
        });
    }
    Ok(keys)
}

const INSERT_CHANNEL: &str =
    "INSERT INTO thread_channels (state, channel, version, value) VALUES (?1, ?2, ?3, ?4)";

/// Inserts the row of a state, and returns its key.
fn insert_state(
    transaction: &Transaction<'_>,
    state: &ThreadState,
    now: Time,
) -> Result<i64, LedgerError> {
    let ThreadKey { app, thread, namespace } = &state.key;
    let run = state.metadata.get("run_id").and_then(Value::as_str);
    transaction
        .prepare_cached(
            "INSERT INTO thread_states (app, thread, namespace, id, parent, run, time, files,
                                        metadata, deltas, type, content)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            app,
            thread,
            namespace,
            state.id,
            state.parent,
            run,
            now,
            state.files,
            Value::Object(state.metadata.clone()).to_string(),
            Value::from(state.deltas.clone()).to_string(),
            state.content.kind,
            state.content.data,
        ])?;
    Ok(transaction.last_insert_rowid())
}

/// Fails if a state with its values is too large for an answer.
fn check_size(transaction: &Transaction<'_>, key: i64) -> Result<(), LedgerError> {
    let size: i64 = transaction
        .prepare_cached(
            "SELECT length(content) + (
                 SELECT ifnull(sum(length(data)), 0)
                 FROM thread_channels JOIN thread_values v ON v.key = value WHERE state = ?1)
             FROM thread_states WHERE key = ?1",
        )?
        .query_row([key], |row| row.get(0))?;
    match size > MAX_STATE_BYTES {
        true => Err(LedgerError::TooLarge { what: "a state", size, max: MAX_STATE_BYTES }),
        false => Ok(()),
    }
}

/// Finds the key of the row of a state.
pub(super) fn find_state_key(
    connection: &Connection,
    key: &ThreadKey,
    id: &str,
) -> Result<Option<i64>, LedgerError> {
    let found = connection
        .prepare_cached(
            "SELECT key FROM thread_states
             WHERE (app, thread, namespace, id) = (?1, ?2, ?3, ?4)",
        )?
        .query_row(params![key.app, key.thread, key.namespace, id], |row| row.get(0))
        .optional()?;
    Ok(found)
}
