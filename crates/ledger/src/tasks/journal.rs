//! The journal of a task, and the writes that belong to its entries.

use rusqlite::{Connection, Transaction, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::goals::{mask_update, update_goal};
use super::lease::{TaskHead, check_lease};
use super::{GoalRecord, GoalUpdate, Lease, TaskRecord, find_task, insert_task, mask_task};
use crate::event::{apply_events, mask_if};
use crate::sessions::head;
use crate::{Event, Ledger, LedgerError, Redactor, Time};

/// An entry in the journal of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct JournalEntry {
    /// The number of the entry in its journal, starting at 1.
    pub seq: i64,
    /// The epoch of the lease under which the entry was written.
    pub epoch: i64,
    pub time: Time,
    /// True if secrets were masked. In that case, the instructions in the entry must not be carried
    /// out: a command with a mask in it is a different command.
    pub masked: bool,
    pub entry: Value,
}

/// The writes that an append makes in addition to the journal entries, in the same transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskChange<'a> {
    /// Events in any session.
    pub events: &'a [Event],
    /// Tasks to create, such as those of subagents. Their sessions can be created by `events`.
    pub new_tasks: &'a [TaskRecord],
    /// The new state of the task.
    pub state: Option<&'a str>,
    /// The session in which the task continues, for example one that `events` creates after a
    /// compaction.
    pub session: Option<&'a str>,
    /// A change to a goal, such as adding the cost of the entries.
    pub goal: Option<&'a GoalUpdate>,
}

/// A message that the events of an append added.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct AppendedMessage {
    pub session: String,
    pub seq: i64,
    /// True if secrets in the message were masked.
    pub masked: bool,
}

/// The result of an append.
#[derive(Clone, Debug, PartialEq)]
pub struct AppendOutcome {
    /// The entries, as they are stored.
    pub entries: Vec<JournalEntry>,
    /// The messages that the events added, in order.
    pub messages: Vec<AppendedMessage>,
    /// The state that the task had before. If it is not the state that this process set last,
    /// another process has called [`Ledger::set_task_state`].
    pub previous_state: String,
    /// The goal after its change.
    pub goal: Option<GoalRecord>,
}

impl Ledger {
    /// Appends entries to the journal of a task, together with the writes in `change`: all or none.
    /// Fails with [`LedgerError::Fenced`] if a later lease has been taken. Nothing is spooled: an
    /// append that fails can be tried again.
    ///
    /// `entries` is called with the messages that the events added, so that the entries can contain
    /// their numbers. Masking changes only strings. It keeps keys, numbers and the shape of the
    /// entries, so they can still be parsed.
    ///
    /// ```
    /// use serde_json::json;
    /// use takeback_ledger::{Ledger, LedgerError, LedgerOptions, SessionRecord};
    /// use takeback_ledger::{TaskChange, TaskRecord, Time};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # let mut ledger = Ledger::open(&scratch.path().join("ledger.db"), &LedgerOptions::default())?;
    /// # let now = Time(1_795_003_200_000);
    /// # let session = SessionRecord { id: "mine:1".into(), source: "mine".into(), ..Default::default() };
    /// # ledger.create_session(&session, now)?;
    /// let task = TaskRecord {
    ///     id: "1".into(),
    ///     session: "mine:1".into(),
    ///     kind: "chat".into(),
    ///     state: "idle".into(),
    ///     ..TaskRecord::default()
    /// };
    /// ledger.create_task(&task, now)?;
    /// let lease = ledger.take_lease("1", now)?;
    /// let change = TaskChange { state: Some("running"), ..TaskChange::default() };
    /// ledger.append_journal(&lease, &change, |_| vec![json!({ "step": "ask the model" })], now)?;
    ///
    /// // After a crash, the next process reads how far the task had come.
    /// drop(lease);
    /// let next = ledger.take_lease("1", now)?;
    /// assert_eq!(next.epoch(), 2);
    /// assert_eq!(ledger.read_journal("1", 0)?[0].entry["step"], "ask the model");
    /// # Ok(())
    /// # }
    /// ```
    pub fn append_journal(
        &mut self,
        lease: &Lease,
        change: &TaskChange<'_>,
        entries: impl FnOnce(&[AppendedMessage]) -> Vec<Value>,
        now: Time,
    ) -> Result<AppendOutcome, LedgerError> {
        let redact = self.redact;
        let events = mask_if(redact, change.events);
        let is_masked = find_masked(change.events, &events);
        let goal = change.goal.map(|update| mask_update(redact, update));
        let outcome = self.database.write(|transaction| {
            let mut task = check_lease(transaction, lease)?;
            let messages: Vec<AppendedMessage> = apply_events(transaction, &events, now)?
                .into_iter()
                .zip(is_masked)
                .map(|((session, seq), masked)| AppendedMessage { session, seq, masked })
                .collect();
            for new in change.new_tasks {
                insert_task(transaction, &mask_task(redact, new), now)?;
            }
            if let Some(session) = change.session {
                move_task(transaction, &mut task, session)?;
            }
            let goal = goal.map(|update| update_goal(transaction, &update, now)).transpose()?;
            let entries = number_entries(entries(&messages), &task, lease.epoch(), redact, now);
            insert_entries(transaction, &task, &entries)?;
            update_row(transaction, &task, entries.len(), change.state, now)?;
            Ok::<_, LedgerError>(AppendOutcome {
                entries,
                messages,
                previous_state: task.state,
                goal,
            })
        })?;
        self.index_after_events(&events);
        Ok(outcome)
    }

    /// Returns the entries of a journal after the entry `after`, in order. Fails with
    /// [`LedgerError::NoSuchEntry`] if one of them is lost.
    pub fn read_journal(&self, task: &str, after: i64) -> Result<Vec<JournalEntry>, LedgerError> {
        self.database.snapshot(|connection| {
            let task = find_task(connection, task)?;
            read_entries(connection, &task, after)
        })
    }
}

/// Determines for each message whether masking changed it.
fn find_masked(original: &[Event], stored: &[Event]) -> Vec<bool> {
    let mut is_masked = Vec::new();
    for pair in original.iter().zip(stored) {
        if let (Event::Messages { messages, .. }, Event::Messages { messages: stored, .. }) = pair {
            is_masked.extend(messages.iter().zip(stored).map(|(one, other)| one != other));
        }
    }
    is_masked
}

/// Moves a task to another session.
pub(super) fn move_task(
    transaction: &Transaction<'_>,
    task: &mut TaskHead,
    session: &str,
) -> Result<(), LedgerError> {
    task.session = head(transaction, session)?.key;
    transaction
        .prepare_cached("UPDATE tasks SET session = ?2 WHERE key = ?1")?
        .execute([task.key, task.session])?;
    Ok(())
}

/// Numbers the entries. If `redact` is true, also masks the secrets in them.
fn number_entries(
    values: Vec<Value>,
    task: &TaskHead,
    epoch: i64,
    redact: bool,
    now: Time,
) -> Vec<JournalEntry> {
    let number = |(seq, mut entry): (i64, Value)| {
        let masked = redact && mask_value(&mut entry);
        JournalEntry { seq, epoch, time: now, masked, entry }
    };
    (task.last_seq + 1..).zip(values).map(number).collect()
}

/// Masks the secrets in a value. Returns true if there were any.
pub(super) fn mask_value(value: &mut Value) -> bool {
    let original = value.clone();
    Redactor::shared().mask_json(value);
    *value != original
}

pub(super) fn insert_entries(
    transaction: &Transaction<'_>,
    task: &TaskHead,
    entries: &[JournalEntry],
) -> Result<(), LedgerError> {
    let mut statement = transaction.prepare_cached(
        "INSERT INTO journal (task, session, seq, epoch, time, masked, entry)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for JournalEntry { seq, epoch, time, masked, entry } in entries {
        let entry = entry.to_string();
        statement.execute(params![task.key, task.session, seq, epoch, time, masked, entry])?;
    }
    Ok(())
}

pub(super) fn update_row(
    transaction: &Transaction<'_>,
    task: &TaskHead,
    added: usize,
    state: Option<&str>,
    now: Time,
) -> Result<(), LedgerError> {
    transaction
        .prepare_cached(
            "UPDATE tasks SET last_seq = last_seq + ?2, state = ifnull(?3, state), updated_at = ?4
             WHERE key = ?1",
        )?
        .execute(params![task.key, added as i64, state, now])?;
    Ok(())
}

/// Reads the entries of a journal after the entry `after`. Fails if one of them is lost.
pub(super) fn read_entries(
    connection: &Connection,
    task: &TaskRecord,
    after: i64,
) -> Result<Vec<JournalEntry>, LedgerError> {
    let lost = |seq| LedgerError::NoSuchEntry { task: task.id.clone(), seq };
    let mut statement = connection.prepare_cached(
        "SELECT j.seq, j.epoch, j.time, j.masked, j.entry FROM journal j
         JOIN tasks t ON t.key = j.task
         WHERE t.id = ?1 AND j.seq > ?2 ORDER BY j.seq",
    )?;
    let mut rows = statement.query(params![task.id, after])?;
    let mut entries = Vec::new();
    let mut next = after.max(0) + 1;
    while let Some(row) = rows.next()? {
        let (seq, json) = (row.get(0)?, row.get::<_, String>(4)?);
        let entry = serde_json::from_str(&json).ok().filter(|_| seq == next);
        entries.push(JournalEntry {
            seq,
            epoch: row.get(1)?,
            time: row.get(2)?,
            masked: row.get(3)?,
            entry: entry.ok_or_else(|| lost(next))?,
        });
        next += 1;
    }
    if next <= task.last_seq { Err(lost(next)) } else { Ok(entries) }
}
