//! Snapshots: loading a task without reading its whole journal.

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use super::journal::{JournalEntry, mask_value, read_entries};
use super::lease::check_lease;
use super::{Lease, TaskRecord, find_task};
use crate::{Ledger, LedgerError, Time};

/// The state of a task after one of its journal entries.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Snapshot {
    /// The number of the last journal entry that the state includes.
    pub seq: i64,
    pub time: Time,
    /// True if secrets in the state were masked.
    pub masked: bool,
    pub state: Value,
}

/// A task with its snapshot and the journal entries that are needed to determine its state.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct LoadedTask {
    pub task: TaskRecord,
    pub snapshot: Option<Snapshot>,
    /// The journal entries after the snapshot; all entries if there is no snapshot.
    pub entries: Vec<JournalEntry>,
}

impl Ledger {
    /// Stores the state of a task after the journal entry `seq`, and replaces the previous
    /// snapshot. Fails with [`LedgerError::Fenced`] if a later lease has been taken.
    pub fn write_snapshot(
        &mut self,
        lease: &Lease,
        seq: i64,
        state: &Value,
        now: Time,
    ) -> Result<(), LedgerError> {
        let mut state = state.clone();
        let masked = self.redact && mask_value(&mut state);
        self.database.write(|transaction| {
            let task = check_lease(transaction, lease)?;
            if !(1..=task.last_seq).contains(&seq) {
                return Err(LedgerError::NoSuchEntry { task: lease.task().to_owned(), seq });
            }
            transaction
                .prepare_cached(
                    "INSERT OR REPLACE INTO snapshots (task, seq, epoch, time, masked, state)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![task.key, seq, lease.epoch(), now, masked, state.to_string()])?;
            Ok(())
        })
    }

    /// Loads a task: its snapshot and the journal entries after it. Fails with
    /// [`LedgerError::NoSuchEntry`] if one of these entries is lost.
    pub fn load_task(&self, id: &str) -> Result<LoadedTask, LedgerError> {
        self.database.snapshot(|connection| {
            let task = find_task(connection, id)?;
            let snapshot = read_snapshot(connection, id)?;
            let after = snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
            let entries = read_entries(connection, &task, after)?;
            Ok(LoadedTask { task, snapshot, entries })
        })
    }
}

/// Reads the snapshot of a task. A snapshot that cannot be parsed is treated as missing, because
/// the state can be derived from the journal.
fn read_snapshot(connection: &Connection, id: &str) -> Result<Option<Snapshot>, LedgerError> {
    let mut statement = connection.prepare_cached(
        "SELECT s.seq, s.time, s.masked, s.state FROM snapshots s
         JOIN tasks t ON t.key = s.task WHERE t.id = ?1",
    )?;
    let read = |row: &rusqlite::Row<'_>| {
        let state = serde_json::from_str(&row.get::<_, String>(3)?).ok();
        let (seq, time, masked) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(state.map(|state| Snapshot { seq, time, masked, state }))
    };
    Ok(statement.query_row([id], read).optional()?.flatten())
}
