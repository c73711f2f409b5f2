//! Deleting sessions, and clearing their messages.

use std::collections::BTreeSet;

use rusqlite::{Connection, Transaction, params};
use serde_json::Value;

use super::head;
use crate::{Ledger, LedgerError, Time, tasks};

/// The selection of sessions that [`Ledger::prune`] deletes.
#[derive(Clone, Debug, Default)]
pub struct PruneOptions {
    /// Only sessions that have been inactive since this time, whether they have ended or not.
    pub inactive_since: Time,
    /// Only sessions from these sources; if empty, from all sources.
    pub sources: Vec<String>,
    /// Only sessions in this state.
    pub state: Option<SessionState>,
    /// Sessions that have not ended and have been active since this time are kept, because they may
    /// still be running.
    pub open_since: Option<Time>,
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum SessionState {
    Open,
    Ended,
    Archived,
}

impl Ledger {
    /// Deletes a session with its messages, and the sessions of its subagents. Keeps its forks and
    /// continuations, which then have no parent. Returns the ids of the deleted sessions. Fails
    /// with [`LedgerError::TaskRunning`] if a process is working on a task in one of these
    /// sessions.
    pub fn delete_session(&mut self, id: &str) -> Result<Vec<String>, LedgerError> {
        let running = self.running_tasks()?;
        self.database.erase(|transaction| {
            head(transaction, id)?;
            let doomed = find_doomed(transaction, id)?;
            for session in &doomed {
                refuse_running(transaction, session.key, &running)?;
            }
            delete_sessions(transaction, &doomed)
        })
    }

    /// Deletes the messages of a session and everything that belongs to them, but keeps the session
    /// itself. Returns the number of deleted messages. Fails with [`LedgerError::TaskRunning`] if a
    /// process is working on a task in the session.
    pub fn clear_messages(&mut self, id: &str) -> Result<usize, LedgerError> {
        let running = self.running_tasks()?;
        self.database.erase(|transaction| {
            let head = head(transaction, id)?;
            refuse_running(transaction, head.key, &running)?;
            let cleared = clear_session(transaction, head.key)?;
            transaction.execute(
                "UPDATE sessions SET message_count = 0, tool_call_count = 0 WHERE key = ?1",
                [head.key],
            )?;
            Ok(cleared)
        })
    }

    /// Returns the ids of the sessions that [`Ledger::prune`] would delete. The sessions of their
    /// subagents are deleted with them.
    pub fn prunable(&self, options: &PruneOptions) -> Result<Vec<String>, LedgerError> {
        let running = self.running_tasks()?;
        let connection = self.database.reader()?;
        let mut statement = connection.prepare_cached(
            "SELECT id FROM sessions
             WHERE max(last_activity, ifnull(ended_at, 0)) < ?1
               AND (?2 = '[]' OR source IN (SELECT value FROM json_each(?2)))
               AND CASE ?3 WHEN 'open' THEN ended_at IS NULL WHEN 'ended' THEN ended_at IS NOT NULL
                           WHEN 'archived' THEN archived ELSE 1 END
             ORDER BY last_activity, key",
        )?;
        let sources = Value::from(options.sources.clone()).to_string();
        let state = options.state.map(|state| match state {
            SessionState::Open => "open",
            SessionState::Ended => "ended",
            SessionState::Archived => "archived",
        });
        let rows = statement
            .query_map(params![options.inactive_since, sources, state], |row| row.get(0))?;
        let mut prunable = Vec::new();
        for id in rows {
            let id: String = id?;
            let doomed = find_doomed(connection, &id)?;
            if !options.spare(&doomed) && !has_running(connection, &doomed, &running)? {
                prunable.push(id);
            }
        }
        Ok(prunable)
    }

    /// Deletes old sessions, each in its own transaction. Returns the ids of the deleted sessions.
    ///
    /// ```
    /// use takeback_ledger::{Ledger, LedgerOptions, PruneOptions, SessionRecord, Time};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # let mut ledger = Ledger::open(&scratch.path().join("ledger.db"), &LedgerOptions::default())?;
    /// # let now = Time(1_795_003_200_000);
    /// # let session = SessionRecord { id: "mine:1".into(), source: "mine".into(), ..Default::default() };
    /// # ledger.create_session(&session, now)?;
    /// let options = PruneOptions { inactive_since: Time(now.0 + 1), ..PruneOptions::default() };
    /// assert_eq!(ledger.prunable(&options)?, ["mine:1"]);
    /// assert_eq!(ledger.prune(&options)?, ["mine:1"]);
    /// assert!(ledger.session("mine:1").is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn prune(&mut self, options: &PruneOptions) -> Result<Vec<String>, LedgerError> {
        let mut gone = Vec::new();
        for id in self.prunable(options)? {
            let running = self.running_tasks()?;
            gone.extend(self.database.erase(|transaction| {
                // In the meantime, the session may have been deleted along with an earlier one, or
                // may have continued.
                let doomed = find_doomed(transaction, &id)?;
                match options.spare(&doomed) || has_running(transaction, &doomed, &running)? {
                    true => Ok(Vec::new()),
                    false => delete_sessions(transaction, &doomed),
                }
            })?);
        }
        Ok(gone)
    }
}

/// A session that is to be deleted.
struct DoomedSession {
    key: i64,
    id: String,
    last_activity: Time,
    is_open: bool,
}

impl PruneOptions {
    /// True if one of the sessions is too recent to be deleted, or may still be running.
    fn spare(&self, doomed: &[DoomedSession]) -> bool {
        let open_since = self.open_since.unwrap_or(Time(i64::MAX));
        doomed.iter().any(|session| {
            session.last_activity >= self.inactive_since
                || (session.is_open && session.last_activity >= open_since)
        })
    }
}

/// Finds a session and the sessions of its subagents, recursively.
fn find_doomed(connection: &Connection, id: &str) -> Result<Vec<DoomedSession>, LedgerError> {
    let mut statement = connection.prepare_cached(
        "WITH RECURSIVE doomed (key, id) AS (
             SELECT key, id FROM sessions WHERE id = ?1
             UNION
             SELECT s.key, s.id FROM sessions s JOIN doomed d ON s.parent_session_id = d.id
             WHERE s.parent_kind = 'subagent')
         SELECT d.key, d.id, max(s.last_activity, ifnull(s.ended_at, 0)), s.ended_at IS NULL
         FROM doomed d JOIN sessions s ON s.key = d.key",
    )?;
    let rows = statement.query_map([id], |row| {
        let (key, id) = (row.get(0)?, row.get(1)?);
        Ok(DoomedSession { key, id, last_activity: row.get(2)?, is_open: row.get(3)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// True if a process is working on a task in one of the sessions.
fn has_running(
    connection: &Connection,
    sessions: &[DoomedSession],
    running: &BTreeSet<String>,
) -> Result<bool, LedgerError> {
    for session in sessions {
        match refuse_running(connection, session.key, running) {
            Err(LedgerError::TaskRunning(_)) => return Ok(true),
            other => other?,
        }
    }
    Ok(false)
}

/// Fails if a process is working on a task in the session.
fn refuse_running(
    connection: &Connection,
    key: i64,
    running: &BTreeSet<String>,
) -> Result<(), LedgerError> {
    if running.is_empty() {
        return Ok(());
    }
    match tasks::find_ids(connection, key)?.into_iter().find(|task| running.contains(task)) {
        Some(task) => Err(LedgerError::TaskRunning(task)),
        None => Ok(()),
    }
}

/// Deletes sessions with everything that belongs to them. Returns their ids.
fn delete_sessions(
    transaction: &Transaction<'_>,
    doomed: &[DoomedSession],
) -> Result<Vec<String>, LedgerError> {
    for DoomedSession { key, id, .. } in doomed {
        clear_session(transaction, *key)?;
        for table in ["session_texts", "usage", "notices"] {
            transaction.execute(&format!("DELETE FROM {table} WHERE session = ?1"), [key])?;
        }
        transaction.execute(
            "UPDATE sessions SET parent_session_id = NULL, parent_kind = NULL, inherited = 0
             WHERE parent_session_id = ?1",
            [id],
        )?;
        transaction.execute("DELETE FROM sessions WHERE key = ?1", [key])?;
    }
    Ok(doomed.iter().map(|session| session.id.clone()).collect())
}

/// Deletes the messages of a session and everything that belongs to them. Returns the number of
/// deleted messages.
fn clear_session(transaction: &Transaction<'_>, key: i64) -> Result<usize, LedgerError> {
    crate::search::forget_session(transaction, key)?;
    tasks::delete_tasks(transaction, key)?;
    let cleared = transaction.execute("DELETE FROM messages WHERE session = ?1", [key])?;
    for table in ["turns", "calls", "effects", "undos", "origins"] {
        transaction.execute(&format!("DELETE FROM {table} WHERE session = ?1"), [key])?;
    }
    Ok(cleared)
}
