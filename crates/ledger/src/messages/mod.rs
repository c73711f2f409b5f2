//! Messages: appending, summarizing and reading them.

mod appender;
mod text;

use std::borrow::Cow;

use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde_json::Value;

pub(crate) use self::appender::Appender;
use self::appender::{content_columns, count_calls};
pub(crate) use self::text::{Searchable, read_searchable, text_of};
use crate::search::{forget_message, index_message, tail_length};
use crate::sessions::{SessionHead, head, parse_json, parse_map};
use crate::{Ledger, LedgerError, MessageRecord, Time, mask};

/// The selection of messages to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageFilter {
    /// All messages, including those taken back.
    #[default]
    All,
    /// The messages for the model: those that are neither taken back nor summarized. A summary
    /// appears in place of the messages that it summarizes.
    Current,
}

impl Ledger {
    /// Appends messages to a session, all or none. Returns their new numbers; the `seq` of each
    /// message is ignored. A user message begins a new turn. A message without a time gets `now`.
    ///
    /// ```
    /// use takeback_ledger::{Ledger, LedgerOptions, MessageRecord, SessionRecord, Time};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # let mut ledger = Ledger::open(&scratch.path().join("ledger.db"), &LedgerOptions::default())?;
    /// # let now = Time(1_795_003_200_000);
    /// # let session = SessionRecord { id: "mine:1".into(), source: "mine".into(), ..Default::default() };
    /// # ledger.create_session(&session, now)?;
    /// # let say = |role: &str, text: &str| MessageRecord {
    /// #     role: role.into(),
    /// #     content: Some(text.into()),
    /// #     ..MessageRecord::default()
    /// # };
    /// let messages = [say("user", "Tidy up"), say("assistant", "Done."), say("user", "Thanks")];
    /// assert_eq!(ledger.append("mine:1", &messages, now)?, [1, 2, 3]);
    /// assert_eq!(ledger.turns("mine:1")?.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn append(
        &mut self,
        session: &str,
        messages: &[MessageRecord],
        now: Time,
    ) -> Result<Vec<i64>, LedgerError> {
        let redact = self.redact;
        let (seqs, tail) = self.database.write(|transaction| {
            let mut appender = Appender::new(transaction, head(transaction, session)?);
            let mut seqs = Vec::with_capacity(messages.len());
            for message in messages {
                let message =
                    if redact { Cow::Owned(mask_copy(message)) } else { Cow::Borrowed(message) };
                seqs.push(appender.append(&message, now)?);
            }
            appender.finish()?;
            Ok::<_, LedgerError>((seqs, tail_length(transaction)?))
        })?;
        self.index_after_append(tail, messages);
        Ok(seqs)
    }

    /// Replaces the current messages up to `upto` with a summary, as far as the model is concerned.
    /// Nothing is lost: the messages are only marked, and become current again if a rewind takes
    /// the summary back. Returns the number of the summary.
    ///
    /// ```
    /// use takeback_ledger::{Ledger, LedgerOptions, MessageFilter, MessageRecord, SessionRecord, Time};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # let mut ledger = Ledger::open(&scratch.path().join("ledger.db"), &LedgerOptions::default())?;
    /// # let now = Time(1_795_003_200_000);
    /// # let session = SessionRecord { id: "mine:1".into(), source: "mine".into(), ..Default::default() };
    /// # ledger.create_session(&session, now)?;
    /// # let say = |role: &str, text: &str| MessageRecord {
    /// #     role: role.into(),
    /// #     content: Some(text.into()),
    /// #     ..MessageRecord::default()
    /// # };
    /// let messages = [say("user", "Tidy up"), say("assistant", "Done."), say("user", "Thanks")];
    /// ledger.append("mine:1", &messages, now)?;
    /// ledger.compact("mine:1", 2, &say("user", "The imports are tidy."), now)?;
    ///
    /// // The model gets the summary and what came after the summarized messages.
    /// let current = ledger.messages("mine:1", MessageFilter::Current)?;
    /// let texts: Vec<_> = current.iter().filter_map(|message| message.content.as_ref()).collect();
    /// assert_eq!(texts, ["The imports are tidy.", "Thanks"]);
    /// assert_eq!(ledger.messages("mine:1", MessageFilter::All)?.len(), 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compact(
        &mut self,
        session: &str,
        upto: i64,
        summary: &MessageRecord,
        now: Time,
    ) -> Result<i64, LedgerError> {
        let mut summary = if self.redact { mask_copy(summary) } else { summary.clone() };
        summary.summarizes = Some(upto);
        let (seq, tail) = self.database.write(|transaction| {
            let head = head(transaction, session)?;
            let key = head.key;
            if upto < 1 || upto > head.last_seq {
                return Err(LedgerError::NoSuchMessage { session: session.to_owned(), seq: upto });
            }
            let mut appender = Appender::new(transaction, head);
            let seq = appender.append(&summary, now)?;
            appender.finish()?;
            mark_compacted(transaction, key, upto, seq)?;
            Ok((seq, tail_length(transaction)?))
        })?;
        self.index_after_append(tail, &[summary]);
        Ok(seq)
    }

    /// Returns the messages of a session, in order.
    pub fn messages(
        &self,
        session: &str,
        filter: MessageFilter,
    ) -> Result<Vec<MessageRecord>, LedgerError> {
        self.database.snapshot(|connection| {
            let head = head(connection, session)?;
            let all = read_all(connection, head.key)?;
            let all = match filter {
                MessageFilter::All => all,
                MessageFilter::Current => select_current(all),
            };
            Ok(all.into_iter().map(|stored| stored.message).collect())
        })
    }
}

/// Replaces the content of a message that is not taken back.
pub(crate) fn replace_message(
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
    let calls = count_calls(message.tool_calls.as_ref());
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

/// Copies the messages that are not taken back into a new session, keeping their numbers. Returns
/// the number of copied messages.
pub(crate) fn copy_messages(
    transaction: &Transaction<'_>,
    head: SessionHead,
    messages: impl Iterator<Item = StoredMessage>,
    now: Time,
) -> Result<usize, LedgerError> {
    let messages: Vec<StoredMessage> = messages.filter(|stored| !stored.message.undone).collect();
    let has = |seq: i64| messages.binary_search_by_key(&seq, |stored| stored.message.seq).is_ok();
    let key = head.key;
    let mut appender = Appender::new(transaction, head);
    let mut compacted = Vec::new();
    for stored in &messages {
        // If a summary is not copied, the messages that it summarizes become current again.
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

/// Marks the messages that a summary replaces.
pub(crate) fn mark_compacted(
    transaction: &Transaction<'_>,
    key: i64,
    upto: i64,
    summary: i64,
) -> Result<(), LedgerError> {
    // An earlier summary of some of these messages is marked as well.
    transaction.execute(
        "UPDATE messages SET compacted = ?3
         WHERE session = ?1 AND ifnull(summarizes, seq) <= ?2 AND seq <> ?3
           AND NOT undone AND (compacted = 0 OR compacted IN (
               SELECT seq FROM messages WHERE session = ?1 AND undone))",
        params![key, upto, summary],
    )?;
    Ok(())
}

/// Marks a stored message as taken back or summarized if its imported copy has that mark.
pub(crate) fn take_over_marks(
    connection: &Connection,
    key: i64,
    stored: &MessageRecord,
    imported: &MessageRecord,
) -> Result<(), LedgerError> {
    if imported.undone && !stored.undone {
        for sql in [
            "UPDATE messages SET undone = 1 WHERE session = ?1 AND seq = ?2",
            "UPDATE turns SET undone = 1 WHERE session = ?1 AND first_seq = ?2",
        ] {
            connection.prepare_cached(sql)?.execute([key, stored.seq])?;
        }
    }
    if imported.compacted && !stored.compacted {
        let sql = "UPDATE messages SET compacted = -1 WHERE session = ?1 AND seq = ?2";
        connection.prepare_cached(sql)?.execute([key, stored.seq])?;
    }
    Ok(())
}

/// Finds the summaries of messages that were imported as summarized. The summary of a message is
/// the first later summary that covers it, preferably one that is not taken back.
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

/// A message as it is stored.
pub(crate) struct StoredMessage {
    pub(crate) message: MessageRecord,
    /// The number of the summary; -1 if the summary is unknown, 0 if there is none.
    compacted: i64,
}

/// Reads all messages of a session, in order.
pub(crate) fn read_all(
    connection: &Connection,
    key: i64,
) -> Result<Vec<StoredMessage>, LedgerError> {
    read_after(connection, key, i64::MIN)
}

/// Reads the messages of a session after `seq`, in order.
pub(crate) fn read_after(
    connection: &Connection,
    key: i64,
    seq: i64,
) -> Result<Vec<StoredMessage>, LedgerError> {
    let sql =
        format!("SELECT {COLUMNS} FROM messages WHERE session = ?1 AND seq > ?2 ORDER BY seq");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([key, seq], read_message)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Reads one message.
pub(crate) fn read_one(
    connection: &Connection,
    key: i64,
    seq: i64,
) -> Result<Option<MessageRecord>, LedgerError> {
    let stored = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM messages WHERE session = ?1 AND seq = ?2"))?
        .query_row([key, seq], read_message)
        .optional()?;
    Ok(stored.map(|stored| stored.message))
}

/// Reads one message and the number of its turn.
pub(crate) fn read_with_turn(
    connection: &Connection,
    key: i64,
    seq: i64,
) -> Result<Option<(MessageRecord, i64)>, LedgerError> {
    let found = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS}, turn FROM messages WHERE session = ?1 AND seq = ?2"
        ))?
        .query_row([key, seq], |row| Ok((read_message(row)?.message, row.get("turn")?)))
        .optional()?;
    Ok(found)
}

/// The columns that [`read_message`] reads, in the order in which it reads them.
const COLUMNS: &str = "seq, role, structured, content, tool_call_id, tool_calls, tool_name, \
    timestamp, token_count, finish_reason, reasoning, reasoning_content, reasoning_details, \
    codex_reasoning_items, codex_message_items, undone, compacted, summarizes, extra";

/// A reader of the columns of a row, one after the other. It does not use names, because finding a
/// column by its name takes longer than reading the column. That matters in long sessions.
struct Cells<'r> {
    row: &'r Row<'r>,
    next: usize,
}

impl<'r> Cells<'r> {
    fn next<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        self.next += 1;
        self.row.get(self.next - 1)
    }

    fn next_text(&mut self) -> rusqlite::Result<Option<&'r str>> {
        self.next += 1;
        Ok(self.row.get_ref(self.next - 1)?.as_str_or_null()?)
    }

    fn next_json(&mut self) -> rusqlite::Result<Option<Value>> {
        Ok(self.next_text()?.map(parse_json))
    }
}

fn read_message(row: &Row<'_>) -> rusqlite::Result<StoredMessage> {
    let mut cells = Cells { row, next: 0 };
    let (seq, role, structured) = (cells.next()?, cells.next()?, cells.next()?);
    let content = cells.next_text()?;
    let content = content.map(|text| if structured { parse_json(text) } else { Value::from(text) });
    // Rust evaluates the fields of a struct expression in the order in which they are written, so
    // the columns are read in order.
    let mut message = MessageRecord {
        seq,
        role,
        content,
        tool_call_id: cells.next()?,
        tool_calls: cells.next_json()?,
        tool_name: cells.next()?,
        timestamp: cells.next()?,
        token_count: cells.next()?,
        finish_reason: cells.next()?,
        reasoning: cells.next()?,
        reasoning_content: cells.next()?,
        reasoning_details: cells.next_json()?,
        codex_reasoning_items: cells.next_json()?,
        codex_message_items: cells.next_json()?,
        undone: cells.next()?,
        ..MessageRecord::default()
    };
    let compacted: i64 = cells.next()?;
    message.compacted = compacted != 0;
    message.summarizes = cells.next()?;
    message.extra = cells.next_text()?.map(parse_map).unwrap_or_default();
    Ok(StoredMessage { message, compacted })
}

/// Selects the messages for the model. A summary comes after the last message that it summarizes.
/// If the summary is taken back, the messages that it summarizes are current.
fn select_current(mut all: Vec<StoredMessage>) -> Vec<StoredMessage> {
    let undone = all.iter().filter(|stored| stored.message.undone);
    let undone: Vec<i64> = undone.map(|stored| stored.message.seq).collect();
    all.retain(|stored| {
        !stored.message.undone
            && (stored.compacted == 0 || undone.binary_search(&stored.compacted).is_ok())
    });
    all.iter_mut().for_each(|stored| stored.message.compacted = false);
    // Sorting is avoided where possible: the messages are large, and they are almost always already
    // in order.
    let place = |stored: &StoredMessage| {
        let StoredMessage { message, .. } = stored;
        (message.summarizes.unwrap_or(message.seq), message.summarizes.is_some(), message.seq)
    };
    if !all.is_sorted_by_key(place) {
        all.sort_by_key(place);
    }
    all
}

/// Returns a copy of the message with its secrets masked.
pub(crate) fn mask_copy(message: &MessageRecord) -> MessageRecord {
    let mut message = message.clone();
    mask::mask_message(&mut message);
    message
}
