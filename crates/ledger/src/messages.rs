//! Messages: appended, summed up, read.

use std::borrow::Cow;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, named_params, params};
use serde_json::Value;

use crate::search::{forget_message, index_message};
use crate::sessions::{self, Head, head, parse, parse_map};
use crate::{Ledger, LedgerError, MessageRecord, Time, mask};

/// Which messages to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// All that there are.
    #[default]
    All,
    /// Those that the model is to see: neither undone nor summed up, summaries in their places.
    Current,
}

impl Ledger {
    /// Adds messages to a session, all or none, and gives their numbers. A message of the user's
    /// begins a new turn. Messages without a time get `now`; `seq` is not looked at.
    pub fn append(
        &mut self,
        session: &str,
        messages: &[MessageRecord],
        now: Time,
    ) -> Result<Vec<i64>, LedgerError> {
        let redact = self.redact;
        let (seqs, last_id) = self.database.write(|transaction| {
            let mut appender = Appender::new(transaction, head(transaction, session)?);
            let mut seqs = Vec::with_capacity(messages.len());
            for message in messages {
                let message =
                    if redact { Cow::Owned(masked(message)) } else { Cow::Borrowed(message) };
                seqs.push(appender.append(&message, now)?);
            }
            let last_id = appender.finish()?;
            Ok::<_, LedgerError>((seqs, last_id))
        })?;
        self.index_after_append(last_id, messages);
        Ok(seqs)
    }

    /// Replaces the current messages up to `upto` by a summary, for the model. Nothing is lost:
    /// they are only marked, and come back if the summary is undone. Gives the summary's number.
    pub fn compact(
        &mut self,
        session: &str,
        upto: i64,
        summary: &MessageRecord,
        now: Time,
    ) -> Result<i64, LedgerError> {
        let mut summary = if self.redact { masked(summary) } else { summary.clone() };
        summary.summarizes = Some(upto);
        let (seq, last_id) = self.database.write(|transaction| {
            let head = head(transaction, session)?;
            let key = head.key;
            if upto < 1 || upto > head.last_seq {
                return Err(LedgerError::NoSuchMessage { session: session.to_owned(), seq: upto });
            }
            let mut appender = Appender::new(transaction, head);
            let seq = appender.append(&summary, now)?;
            let last_id = appender.finish()?;
            mark_compacted(transaction, key, upto, seq)?;
            Ok((seq, last_id))
        })?;
        self.index_after_append(last_id, &[summary]);
        Ok(seq)
    }

    /// The messages of a session, in order.
    pub fn messages(&self, session: &str, which: Which) -> Result<Vec<MessageRecord>, LedgerError> {
        self.database.snapshot(|connection| {
            let head = head(connection, session)?;
            let all = read_all(connection, head.key)?;
            Ok(match which {
                Which::All => all.into_iter().map(|stored| stored.message).collect(),
                Which::Current => current(all),
            })
        })
    }
}

/// Adds messages to one session within a transaction.
pub(crate) struct Appender<'t> {
    transaction: &'t Transaction<'t>,
    head: Head,
    messages: i64,
    calls: i64,
    last_activity: Option<Time>,
    last_id: i64,
}

impl<'t> Appender<'t> {
    pub(crate) fn new(transaction: &'t Transaction<'t>, head: Head) -> Appender<'t> {
        Appender { transaction, head, messages: 0, calls: 0, last_activity: None, last_id: 0 }
    }

    pub(crate) fn append(
        &mut self,
        message: &MessageRecord,
        now: Time,
    ) -> Result<i64, LedgerError> {
        self.append_as(self.head.last_seq + 1, message, now)
    }

    /// Adds a message under a number that is free.
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
        let calls = call_count(message.tool_calls.as_ref());
        self.insert(seq, message, time, calls)?;
        self.last_id = self.transaction.last_insert_rowid();
        self.last_activity = self.last_activity.max(Some(time));
        if !message.undone {
            self.messages += 1;
            self.calls += calls;
        }
        Ok(seq)
    }

    /// A message that is here already comes next. Gives the turn that it is part of.
    pub(crate) fn pass(&mut self, seq: i64, begins_turn: bool) -> i64 {
        self.head.last_seq = self.head.last_seq.max(seq);
        self.head.last_turn += i64::from(begins_turn);
        self.head.last_turn
    }

    /// The number of the last message so far.
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

    fn insert(
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

    /// Brings the session's row up to date and gives the last message's place in the index.
    pub(crate) fn finish(self) -> Result<i64, LedgerError> {
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
        Ok(self.last_id)
    }
}

/// Whether the content has a structure, and the content.
fn content_columns(message: &MessageRecord) -> (bool, Option<Cow<'_, str>>) {
    match &message.content {
        None | Some(Value::Null) => (false, None),
        Some(Value::String(text)) => (false, Some(Cow::Borrowed(text.as_str()))),
        Some(value) => (true, Some(Cow::Owned(value.to_string()))),
    }
}

/// Puts what a message says in the place of what it said so far. It is not undone.
pub(crate) fn replace(
    transaction: &Transaction<'_>,
    key: i64,
    message: &MessageRecord,
) -> Result<(), LedgerError> {
    let sql = "SELECT id, call_count FROM messages WHERE session = ?1 AND seq = ?2";
    let (id, calls_before): (i64, i64) = transaction
        .prepare_cached(sql)?
        .query_row([key, message.seq], |row| Ok((row.get(0)?, row.get(1)?)))?;
    forget_message(transaction, id)?;
    let (structured, content) = content_columns(message);
    let calls = call_count(message.tool_calls.as_ref());
    transaction
        .prepare_cached(
            "UPDATE messages SET
                 structured = ?2, content = ?3, tool_calls = ?4, call_count = ?5, reasoning = ?6,
                 finish_reason = ?7, tool_name = ?8
             WHERE id = ?1",
        )?
        .execute(params![
            id,
            structured,
            content,
            message.tool_calls.as_ref().map(Value::to_string),
            calls,
            message.reasoning,
            message.finish_reason,
            message.tool_name,
        ])?;
    index_message(transaction, id)?;
    transaction
        .prepare_cached(
            "UPDATE sessions SET tool_call_count = tool_call_count + ?2 WHERE key = ?1",
        )?
        .execute([key, calls - calls_before])?;
    Ok(())
}

/// Copies messages that are not undone into a new session, under their numbers.
pub(crate) fn copy(
    transaction: &Transaction<'_>,
    head: Head,
    messages: impl Iterator<Item = Stored>,
    now: Time,
) -> Result<usize, LedgerError> {
    let messages: Vec<Stored> = messages.filter(|stored| !stored.message.undone).collect();
    let has = |seq: i64| messages.binary_search_by_key(&seq, |stored| stored.message.seq).is_ok();
    let key = head.key;
    let mut appender = Appender::new(transaction, head);
    let mut compacted = Vec::new();
    for stored in &messages {
        // What a summary that is not copied sums up is itself again.
        let is_compacted =
            stored.compacted == -1 || (stored.compacted > 0 && has(stored.compacted));
        let message = MessageRecord { compacted: is_compacted, ..stored.message.clone() };
        appender.append_as(message.seq, &message, now)?;
        if is_compacted {
            compacted.push((message.seq, stored.compacted));
        }
    }
    appender.finish()?;
    for (seq, summary) in compacted {
        transaction.execute(
            "UPDATE messages SET compacted = ?3 WHERE session = ?1 AND seq = ?2",
            params![key, seq, summary],
        )?;
    }
    Ok(messages.len())
}

/// Marks what a summary stands for.
pub(crate) fn mark_compacted(
    transaction: &Transaction<'_>,
    key: i64,
    upto: i64,
    summary: i64,
) -> Result<(), LedgerError> {
    // A summary of an earlier part is summed up itself.
    transaction.execute(
        "UPDATE messages SET compacted = ?3
         WHERE session = ?1 AND ifnull(summarizes, seq) <= ?2 AND seq <> ?3
           AND NOT undone AND (compacted = 0 OR compacted IN (
               SELECT seq FROM messages WHERE session = ?1 AND undone))",
        params![key, upto, summary],
    )?;
    Ok(())
}

/// Marks a message that is here as it is marked there.
pub(crate) fn take_over_marks(
    connection: &Connection,
    key: i64,
    here: &MessageRecord,
    there: &MessageRecord,
) -> Result<(), LedgerError> {
    if there.undone && !here.undone {
        for sql in [
            "UPDATE messages SET undone = 1 WHERE session = ?1 AND seq = ?2",
            "UPDATE turns SET undone = 1 WHERE session = ?1 AND first_seq = ?2",
        ] {
            connection.prepare_cached(sql)?.execute([key, here.seq])?;
        }
    }
    if there.compacted && !here.compacted {
        let sql = "UPDATE messages SET compacted = -1 WHERE session = ?1 AND seq = ?2";
        connection.prepare_cached(sql)?.execute([key, here.seq])?;
    }
    Ok(())
}

/// Finds for messages that came in as summed up the summary that did it, if it came along: the
/// first one behind them that reaches as far, and rather one that is not undone.
pub(crate) fn link_summaries(connection: &Connection, key: i64) -> Result<(), LedgerError> {
    connection.execute(
        "WITH summaries AS MATERIALIZED (
             SELECT seq, summarizes, undone FROM messages
             WHERE session = ?1 AND summarizes IS NOT NULL)
         UPDATE messages AS m SET compacted = ifnull((
             SELECT seq FROM summaries s
             WHERE s.summarizes >= ifnull(m.summarizes, m.seq) AND s.seq > m.seq
             ORDER BY s.undone <> 0, s.seq LIMIT 1), -1)
         WHERE session = ?1 AND compacted = -1",
        [key],
    )?;
    Ok(())
}

/// How many tools a message calls.
fn call_count(tool_calls: Option<&Value>) -> i64 {
    match tool_calls {
        Some(Value::Array(calls)) => calls.len() as i64,
        _ => 0,
    }
}

/// A message with what only the database knows.
pub(crate) struct Stored {
    pub(crate) message: MessageRecord,
    /// The summary it is part of, -1 if that is not known, or 0.
    compacted: i64,
}

pub(crate) fn read_all(connection: &Connection, key: i64) -> Result<Vec<Stored>, LedgerError> {
    read_after(connection, key, i64::MIN)
}

/// The messages behind one.
pub(crate) fn read_after(
    connection: &Connection,
    key: i64,
    seq: i64,
) -> Result<Vec<Stored>, LedgerError> {
    let mut statement = connection
        .prepare_cached("SELECT * FROM messages WHERE session = ?1 AND seq > ?2 ORDER BY seq")?;
    let rows = statement.query_map([key, seq], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The message with a number.
pub(crate) fn read_one(
    connection: &Connection,
    key: i64,
    seq: i64,
) -> Result<Option<MessageRecord>, LedgerError> {
    let stored = connection
        .prepare_cached("SELECT * FROM messages WHERE session = ?1 AND seq = ?2")?
        .query_row([key, seq], read)
        .optional()?;
    Ok(stored.map(|stored| stored.message))
}

pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let json = |column: &str| -> rusqlite::Result<Option<Value>> {
        Ok(row.get::<_, Option<String>>(column)?.as_deref().map(parse))
    };
    let content: Option<String> = row.get("content")?;
    let structured: bool = row.get("structured")?;
    let compacted: i64 = row.get("compacted")?;
    let extra: Option<String> = row.get("extra")?;
    let message = MessageRecord {
        seq: row.get("seq")?,
        role: row.get("role")?,
        content: content.map(|text| if structured { parse(&text) } else { Value::from(text) }),
        tool_call_id: row.get("tool_call_id")?,
        tool_calls: json("tool_calls")?,
        tool_name: row.get("tool_name")?,
        timestamp: row.get("timestamp")?,
        token_count: row.get("token_count")?,
        finish_reason: row.get("finish_reason")?,
        reasoning: row.get("reasoning")?,
        reasoning_content: row.get("reasoning_content")?,
        reasoning_details: json("reasoning_details")?,
        codex_reasoning_items: json("codex_reasoning_items")?,
        codex_message_items: json("codex_message_items")?,
        undone: row.get("undone")?,
        compacted: compacted != 0,
        summarizes: row.get("summarizes")?,
        extra: extra.as_deref().map(parse_map).unwrap_or_default(),
    };
    Ok(Stored { message, compacted })
}

/// What the model is to see: a summary stands behind the last message that it sums up, and what
/// it summed up is back if it is undone.
fn current(all: Vec<Stored>) -> Vec<MessageRecord> {
    let undone: Vec<i64> = all
        .iter()
        .filter(|stored| stored.message.undone)
        .map(|stored| stored.message.seq)
        .collect();
    let mut current: Vec<MessageRecord> = all
        .into_iter()
        .filter(|stored| {
            !stored.message.undone
                && (stored.compacted == 0 || undone.binary_search(&stored.compacted).is_ok())
        })
        .map(|stored| MessageRecord { compacted: false, ..stored.message })
        .collect();
    current.sort_by_key(|message| {
        (message.summarizes.unwrap_or(message.seq), message.summarizes.is_some(), message.seq)
    });
    current
}

/// The message with secrets masked.
pub(crate) fn masked(message: &MessageRecord) -> MessageRecord {
    let mut message = message.clone();
    mask::message(&mut message);
    message
}

/// The text in structured content or in tool calls: all strings and numbers, each on a line of
/// its own, but no types, signatures and binary data. Arguments that are JSON in a string are
/// looked into.
pub(crate) fn text_of(value: &Value) -> String {
    let mut text = String::new();
    collect_text(value, "", &mut text);
    text
}

fn collect_text(value: &Value, key: &str, text: &mut String) {
    match value {
        Value::Object(map) => {
            let is_text =
                |key: &str| !matches!(key, "type" | "data" | "signature" | "encrypted_content");
            map.iter()
                .filter(|(key, _)| is_text(key))
                .for_each(|(key, value)| collect_text(value, key, text));
        }
        Value::Array(values) => values.iter().for_each(|value| collect_text(value, key, text)),
        Value::String(string) => {
            if matches!(key, "arguments" | "input")
                && let Ok(value @ (Value::Object(_) | Value::Array(_))) =
                    serde_json::from_str(string)
            {
                collect_text(&value, "", text);
            } else if !string.starts_with("data:") {
                push_line(text, string);
            }
        }
        Value::Number(number) => push_line(text, &number.to_string()),
        Value::Bool(_) | Value::Null => {}
    }
}

fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// What a search looks into: content, tool name and tool calls, each by itself.
pub(crate) fn searchable(row: &Row<'_>) -> rusqlite::Result<[String; 3]> {
    let content: Option<String> = row.get("content")?;
    let structured: bool = row.get("structured")?;
    let name: Option<String> = row.get("tool_name")?;
    let calls: Option<String> = row.get("tool_calls")?;
    let content = content.unwrap_or_default();
    Ok([
        if structured { text_of(&sessions::parse(&content)) } else { content },
        name.unwrap_or_default(),
        calls.map(|calls| text_of(&sessions::parse(&calls))).unwrap_or_default(),
    ])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_text_of_blocks_is_what_people_read() {
        let content = json!([
            { "type": "text", "text": "look at this" },
            { "type": "image", "source": { "type": "base64", "data": "aGVsbG8=" } },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,aGVsbG8=" } },
        ]);
        assert_eq!(text_of(&content), "look at this");
    }

    #[test]
    fn arguments_in_a_string_are_looked_into() {
        let calls = json!([{ "id": "call_1", "type": "function", "function": {
            "name": "write", "arguments": "{\"path\": \"a.rs\", \"text\": \"fn main() {\\nlet x\"}" } }]);
        let text = text_of(&calls);
        assert!(text.lines().any(|line| line == "let x"), "{text}");
        assert!(text.lines().any(|line| line == "write"), "{text}");
    }
}
