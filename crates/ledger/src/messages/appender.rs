//! Appending messages to a session.

use std::borrow::Cow;

use rusqlite::{Transaction, named_params, params};
use serde_json::Value;

use crate::sessions::SessionHead;
use crate::{LedgerError, MessageRecord, Time};

/// A writer that appends messages to one session within a transaction.
pub(crate) struct Appender<'t> {
    transaction: &'t Transaction<'t>,
    head: SessionHead,
    messages: i64,
    calls: i64,
    last_activity: Option<Time>,
}

impl<'t> Appender<'t> {
    pub(crate) fn new(transaction: &'t Transaction<'t>, head: SessionHead) -> Appender<'t> {
        Appender { transaction, head, messages: 0, calls: 0, last_activity: None }
    }

    /// Appends a message. Returns its number.
    pub(crate) fn append(
        &mut self,
        message: &MessageRecord,
        now: Time,
    ) -> Result<i64, LedgerError> {
        self.append_as(self.head.last_seq + 1, message, now)
    }

    /// Adds a message under a free number. Returns that number.
    pub(crate) fn append_as(
        &mut self,
        seq: i64,
        message: &MessageRecord,
        now: Time,
    ) -> Result<i64, LedgerError> {
        let time = message.timestamp.unwrap_or(now);
        self.head.last_seq = self.head.last_seq.max(seq);
        if message.role == "user" && message.summarizes.is_none() {
            self.head.last_turn += 1;
            self.begin_turn(seq, time, message.undone)?;
        }
        let calls = count_calls(message.tool_calls.as_ref());
        self.insert_message(seq, message, time, calls)?;
        self.last_activity = self.last_activity.max(Some(time));
        if !message.undone {
            self.messages += 1;
            self.calls += calls;
        }
        Ok(seq)
    }

    /// Moves past a message that is already in the ledger. Returns the number of the message's
    /// turn.
    pub(crate) fn pass_message(&mut self, seq: i64, begins_turn: bool) -> i64 {
        self.head.last_seq = self.head.last_seq.max(seq);
        self.head.last_turn += i64::from(begins_turn);
        self.head.last_turn
    }

    /// Returns the number of the last message so far.
    pub(crate) fn last_seq(&self) -> i64 {
        self.head.last_seq
    }

    fn begin_turn(&self, seq: i64, time: Time, undone: bool) -> Result<(), LedgerError> {
        self.transaction
            .prepare_cached(
                "INSERT INTO turns (session, turn, first_seq, started_at, undone)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![self.head.key, self.head.last_turn, seq, time, undone])?;
        Ok(())
    }

    fn insert_message(
        &self,
        seq: i64,
        message: &MessageRecord,
        time: Time,
        calls: i64,
    ) -> Result<(), LedgerError> {
        let (structured, content) = content_columns(message);
        let json = |value: &Option<Value>| value.as_ref().map(Value::to_string);
        let extra =
            (!message.extra.is_empty()).then(|| Value::from(message.extra.clone()).to_string());
        self.transaction
            .prepare_cached(
                "INSERT INTO messages (
                     session, seq, turn, role, timestamp, undone, compacted, summarizes, call_count,
                     token_count, finish_reason, tool_call_id, tool_name, structured, content,
                     tool_calls, reasoning, reasoning_content, reasoning_details,
                     codex_reasoning_items, codex_message_items, extra)
                 VALUES (
                     :session, :seq, :turn, :role, :timestamp, :undone, :compacted, :summarizes,
                     :call_count, :token_count, :finish_reason, :tool_call_id, :tool_name,
                     :structured, :content, :tool_calls, :reasoning, :reasoning_content,
                     :reasoning_details, :codex_reasoning_items, :codex_message_items, :extra)",
            )?
            .execute(named_params! {
                ":session": self.head.key,
                ":seq": seq,
                ":turn": self.head.last_turn,
                ":role": message.role,
                ":timestamp": time,
                ":undone": message.undone,
                ":compacted": if message.compacted { -1 } else { 0 },
                ":summarizes": message.summarizes,
                ":call_count": calls,
                ":token_count": message.token_count,
                ":finish_reason": message.finish_reason,
                ":tool_call_id": message.tool_call_id,
                ":tool_name": message.tool_name,
                ":structured": structured,
                ":content": content,
                ":tool_calls": json(&message.tool_calls),
                ":reasoning": message.reasoning,
                ":reasoning_content": message.reasoning_content,
                ":reasoning_details": json(&message.reasoning_details),
                ":codex_reasoning_items": json(&message.codex_reasoning_items),
                ":codex_message_items": json(&message.codex_message_items),
                ":extra": extra,
            })?;
        Ok(())
    }

    /// Updates the session's row.
    pub(crate) fn finish(self) -> Result<(), LedgerError> {
        self.transaction
            .prepare_cached(
                "UPDATE sessions SET
                     last_seq = ?2, last_turn = ?3, message_count = message_count + ?4,
                     tool_call_count = tool_call_count + ?5,
                     last_activity = max(last_activity, ifnull(?6, last_activity))
                 WHERE key = ?1",
            )?
            .execute(params![
                self.head.key,
                self.head.last_seq,
                self.head.last_turn,
                self.messages,
                self.calls,
                self.last_activity
            ])?;
        Ok(())
    }
}

/// Returns the columns `structured` and `content` of a message.
pub(super) fn content_columns(message: &MessageRecord) -> (bool, Option<Cow<'_, str>>) {
    match &message.content {
        None | Some(Value::Null) => (false, None),
        Some(Value::String(text)) => (false, Some(Cow::Borrowed(text.as_str()))),
        Some(value) => (true, Some(Cow::Owned(value.to_string()))),
    }
}

/// Counts the tool calls in a message.
pub(super) fn count_calls(tool_calls: Option<&Value>) -> i64 {
    match tool_calls {
        Some(Value::Array(calls)) => calls.len() as i64,
        _ => 0,
    }
}
