//! Deleting threads, runs and old states.
//!
//! The value of a channel may follow from earlier states and their writes. Earlier states are kept
//! as long as a state that needs them is kept.

use std::collections::{BTreeSet, HashSet};

use rusqlite::{Connection, Transaction, params};

use super::ThreadKey;
use super::write::find_state_key;
use crate::{Ledger, LedgerError};

impl Ledger {
    /// Deletes a thread. Returns the number of deleted states.
    pub fn delete_thread(&mut self, app: &str, thread: &str) -> Result<usize, LedgerError> {
        self.database.write(|transaction| {
            let states = select_keys(
                transaction,
                "SELECT key FROM thread_states WHERE (app, thread) = (?1, ?2)",
                (app, thread),
            )?;
            delete_states(transaction, &states)?;
            // Writes may have been stored before their state.
            transaction.execute(
                "DELETE FROM thread_writes WHERE (app, thread) = (?1, ?2)",
                params![app, thread],
            )?;
            Ok(states.len())
        })
    }

    /// Deletes the states of a thread. Keeps the latest state of each subgraph, and the earlier
    /// states that it needs. Returns the number of deleted states.
    pub fn prune_thread(&mut self, app: &str, thread: &str) -> Result<usize, LedgerError> {
        self.database.write(|transaction| {
            let latest = select_keys(
                transaction,
                "SELECT key FROM thread_states s WHERE (app, thread) = (?1, ?2) AND id = (
                     SELECT max(id) FROM thread_states
                     WHERE (app, thread, namespace) = (s.app, s.thread, s.namespace))",
                (app, thread),
            )?;
            let all = select_keys(
                transaction,
                "SELECT key FROM thread_states WHERE (app, thread) = (?1, ?2)",
                (app, thread),
            )?;
            let kept = with_sources(transaction, latest)?;
            let deleted = all.difference(&kept).copied().collect();
            delete_states(transaction, &deleted)?;
            Ok(deleted.len())
        })
    }

    /// Deletes the states that the given runs of an app created, except those that are needed by
    /// states of other runs. Returns the number of deleted states.
    pub fn delete_thread_runs(&mut self, app: &str, runs: &[String]) -> Result<usize, LedgerError> {
        self.database.write(|transaction| {
            let mut chosen = BTreeSet::new();
            for run in runs {
                let sql = "SELECT key FROM thread_states WHERE (app, run) = (?1, ?2)";
                chosen.extend(select_keys(transaction, sql, (app, run))?);
            }
            let others = select_keys(
                transaction,
                "SELECT key FROM thread_states WHERE app = ?1 AND deltas <> ?2",
                (app, "[]"),
            )?;
            let others = others.difference(&chosen).copied().collect();
            let kept = with_sources(transaction, others)?;
            let deleted = chosen.difference(&kept).copied().collect();
            delete_states(transaction, &deleted)?;
            Ok(deleted.len())
        })
    }
}

fn select_keys(
    connection: &Connection,
    sql: &str,
    values: (&str, &str),
) -> Result<BTreeSet<i64>, LedgerError> {
    let mut statement = connection.prepare_cached(sql)?;
    let keys = statement.query_map(values, |row| row.get(0))?;
    Ok(keys.collect::<Result<_, _>>()?)
}

/// Adds the states that the given states need: for each channel without a value, the earlier states
/// up to the one that has the value.
fn with_sources(
    connection: &Connection,
    states: BTreeSet<i64>,
) -> Result<BTreeSet<i64>, LedgerError> {
    let mut all = states.clone();
    for state in states {
        let (_, _, mut needed) = read_ancestry(connection, state)?;
        // A state that was stored again after a later state may be its own ancestor.
        let mut seen = HashSet::from([state]);
        let mut current = state;
        while !needed.is_empty() {
            let (key, parent, _) = read_ancestry(connection, current)?;
            let parent = parent.map(|parent| find_state_key(connection, &key, &parent));
            let Some(parent) = parent.transpose()?.flatten() else { break };
            if !seen.insert(parent) {
                break;
            }
            all.insert(parent);
            let mut rest = Vec::new();
            for channel in needed {
                if !has_value(connection, parent, &channel)? {
                    rest.push(channel);
                }
            }
            (needed, current) = (rest, parent);
        }
    }
    Ok(all)
}

/// Reads the thread of a state, the id of its parent, and the channels whose values follow from
/// earlier states.
fn read_ancestry(
    connection: &Connection,
    state: i64,
) -> rusqlite::Result<(ThreadKey, Option<String>, Vec<String>)> {
    let sql = "SELECT app, thread, namespace, parent, deltas FROM thread_states WHERE key = ?1";
    connection.prepare_cached(sql)?.query_row([state], |row| {
        let key = ThreadKey { app: row.get(0)?, thread: row.get(1)?, namespace: row.get(2)? };
        let deltas: String = row.get(4)?;
        Ok((key, row.get(3)?, serde_json::from_str(&deltas).unwrap_or_default()))
    })
}

fn has_value(connection: &Connection, state: i64, channel: &str) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM thread_channels WHERE (state, channel) = (?1, ?2)")?
        .exists(params![state, channel])
}

/// Deletes states with their writes, and the values that no other state uses.
fn delete_states(transaction: &Transaction<'_>, states: &BTreeSet<i64>) -> Result<(), LedgerError> {
    for state in states {
        transaction
            .prepare_cached(
                "DELETE FROM thread_writes WHERE (app, thread, namespace, state_id) =
                     (SELECT app, thread, namespace, id FROM thread_states WHERE key = ?1)",
            )?
            .execute([state])?;
        let values = delete_state_row(transaction, *state)?;
        delete_unused_values(transaction, &values)?;
    }
    Ok(())
}

/// Deletes the row of a state and its channels. Returns the keys of the channels' values, which may
/// now be unused.
pub(super) fn delete_state_row(
    transaction: &Transaction<'_>,
    state: i64,
) -> Result<Vec<i64>, LedgerError> {
    let mut statement =
        transaction.prepare_cached("SELECT value FROM thread_channels WHERE state = ?1")?;
    let values = statement.query_map([state], |row| row.get(0))?.collect::<Result<_, _>>()?;
    transaction.prepare_cached("DELETE FROM thread_channels WHERE state = ?1")?.execute([state])?;
    transaction.prepare_cached("DELETE FROM thread_states WHERE key = ?1")?.execute([state])?;
    Ok(values)
}

/// Deletes the values with these keys, except those that a state still uses.
pub(super) fn delete_unused_values(
    transaction: &Transaction<'_>,
    values: &[i64],
) -> Result<(), LedgerError> {
    for value in values {
        transaction
            .prepare_cached(
                "DELETE FROM thread_values WHERE key = ?1
                 AND NOT EXISTS (SELECT 1 FROM thread_channels WHERE value = ?1)",
            )?
            .execute([value])?;
    }
    Ok(())
}
