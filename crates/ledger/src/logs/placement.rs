//! Placing messages from a log in their session.

use std::borrow::Cow;
use std::collections::HashMap;

use rusqlite::{Transaction, params};

use super::weave::{IncomingMessage, UnconfirmedMessage, WovenMessage, weave};
use crate::messages::{self, Appender, StoredMessage, text_of};
use crate::sessions::{SessionHead, head};
use crate::{LedgerError, MessageRecord, Time, turns};

/// A message from a log.
pub(super) struct LogMessage<'a> {
    pub(super) origin: &'a str,
    pub(super) time: Time,
    pub(super) message: Cow<'a, MessageRecord>,
    pub(super) is_summary: bool,
}

/// A turn as it is stored in the ledger.
struct TurnRow {
    started_at: Time,
    ended_at: Option<Time>,
    undone: i64,
}

/// A rewind that has not been reversed. It took back the messages that were written between the
/// times `from` and `until`.
struct RewindSpan {
    number: i64,
    from: Time,
    until: Time,
    /// The number of the session's last message when the rewind was made.
    last_seq: i64,
}

/// Places each message from a log in its session. Returns the number of new messages.
pub(super) fn place_messages(
    transaction: &Transaction<'_>,
    id: &str,
    entries: &[LogMessage<'_>],
    now: Time,
) -> Result<usize, LedgerError> {
    if entries.is_empty() {
        return Ok(0);
    }
    let head = head(transaction, id)?;
    let (key, last) = (head.key, head.last_seq);
    let confirmed = find_last_confirmed(transaction, key)?;
    let fixed = find_last_fixed(transaction, key)?;
    let stored = messages::read_after(transaction, key, confirmed)?;
    let unconfirmed: Vec<UnconfirmedMessage> =
        stored.iter().map(|stored| describe_stored(stored, fixed)).collect();
    let incoming: Vec<IncomingMessage> = entries.iter().map(describe_incoming).collect();
    let woven = weave(&unconfirmed, &incoming);

    // The messages up to `base` keep their numbers. Later messages may get higher numbers.
    let base = if stored.is_empty() { head } else { find_base(transaction, key, &stored, fixed)? };
    let numbers = assign_numbers(&woven, &stored, base.last_seq);
    let mut conversation = Conversation {
        transaction,
        key,
        base: base.last_seq,
        turns: take_turns(transaction, key, base.last_turn)?,
        rewinds: read_rewinds(transaction, key)?,
        appender: Appender::new(transaction, base),
        added: 0,
        new_turn: None,
        latest: None,
    };
    conversation.renumber_stored(&woven, &numbers, &stored)?;
    for (message, number) in woven.into_iter().zip(numbers) {
        match message {
            WovenMessage::Stored(index, entry) => {
                conversation.keep_stored(&stored[index].message, number)?;
                if let Some(entry) = entry {
                    conversation.confirm_message(entries[entry].origin, number)?;
                }
            }
            WovenMessage::Incoming(entry) => {
                conversation.add_message(&entries[entry], number, now)?;
            }
        }
    }
    conversation.finish(last)
}

/// A session in which messages from a log are being placed.
struct Conversation<'t> {
    transaction: &'t Transaction<'t>,
    key: i64,
    /// The number of the last message that remains unchanged.
    base: i64,
    /// The turns after that message, keyed by the numbers of their first messages.
    turns: HashMap<i64, TurnRow>,
    rewinds: Vec<RewindSpan>,
    appender: Appender<'t>,
    added: usize,
    /// The start of the first turn that only the log has.
    new_turn: Option<Time>,
    /// The time of the latest new message.
    latest: Option<Time>,
}

impl Conversation<'_> {
    /// Assigns new numbers to stored messages. Starts with the last message, so that every number
    /// is free when it is assigned.
    fn renumber_stored(
        &self,
        woven: &[WovenMessage],
        numbers: &[i64],
        stored: &[StoredMessage],
    ) -> Result<(), LedgerError> {
        let mut statement = self
            .transaction
            .prepare_cached("UPDATE messages SET seq = ?3 WHERE session = ?1 AND seq = ?2")?;
        for (message, number) in woven.iter().zip(numbers).rev() {
            if let WovenMessage::Stored(index, _) = message
                && stored[*index].message.seq != *number
            {
                statement.execute([self.key, stored[*index].message.seq, *number])?;
            }
        }
        Ok(())
    }

    /// Moves the appender past a stored message. Updates the turn number of the message, and stores
    /// the turn again if the message begins one.
    fn keep_stored(&mut self, message: &MessageRecord, number: i64) -> Result<(), LedgerError> {
        if number <= self.base {
            return Ok(());
        }
        let begins = message.role == "user" && message.summarizes.is_none();
        let turn = self.appender.pass_message(number, begins);
        self.transaction
            .prepare_cached("UPDATE messages SET turn = ?3 WHERE session = ?1 AND seq = ?2")?
            .execute([self.key, number, turn])?;
        if begins {
            let row = self.turns.get(&message.seq);
            self.transaction
                .prepare_cached(
                    "INSERT INTO turns (session, turn, first_seq, started_at, ended_at, undone)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![
                    self.key,
                    turn,
                    number,
                    row.map_or(message.timestamp.unwrap_or_default(), |row| row.started_at),
                    row.and_then(|row| row.ended_at),
                    row.map_or(i64::from(message.undone), |row| row.undone),
                ])?;
        }
        Ok(())
    }

    /// Adds a message that only the log has.
    fn add_message(
        &mut self,
        entry: &LogMessage<'_>,
        number: i64,
        now: Time,
    ) -> Result<(), LedgerError> {
        let LogMessage { origin, time, message, is_summary } = entry;
        let (time, is_summary) = (*time, *is_summary);
        let took_it_back = |rewind: &&RewindSpan| rewind.from <= time && time <= rewind.until;
        let rewind = self.rewinds.iter().rposition(|rewind| took_it_back(&rewind));
        let rewind = rewind.map(|index| {
            let rewind = &mut self.rewinds[index];
            // The message was written before the rewind, so the rewind also covers it.
            if number == rewind.last_seq + 1 {
                rewind.last_seq = number;
            }
            (rewind.number, rewind.last_seq)
        });
        let message = MessageRecord {
            timestamp: Some(time),
            undone: rewind.is_some(),
            summarizes: is_summary.then(|| self.appender.last_seq()),
            ..(**message).clone()
        };
        if message.role == "user" && !is_summary {
            self.new_turn = Some(self.new_turn.map_or(time, |first| first.min(time)));
        }
        self.appender.append_as(number, &message, now)?;
        match (rewind, message.summarizes) {
            (Some((rewind, last)), _) => {
                turns::mark_undone(self.transaction, self.key, number, rewind)?;
                self.transaction
                    .prepare_cached(
                        "UPDATE undos SET
                             was_seq = CASE was_seq WHEN last_seq THEN ?3 ELSE was_seq END,
                             last_seq = ?3
                         WHERE session = ?1 AND number = ?2",
                    )?
                    .execute([self.key, rewind, last])?;
            }
            (None, Some(upto)) => {
                messages::mark_compacted(self.transaction, self.key, upto, number)?;
            }
            (None, None) => {}
        }
        self.latest = self.latest.max(Some(time));
        self.added += 1;
        self.confirm_message(origin, number)
    }

    /// Records that a stored message is also in the log, under this id.
    fn confirm_message(&self, origin: &str, seq: i64) -> Result<(), LedgerError> {
        self.transaction
            .prepare_cached("UPDATE origins SET seq = ?3 WHERE session = ?1 AND origin = ?2")?
            .execute(params![self.key, origin, seq])?;
        Ok(())
    }

    /// Completes the session. Returns the number of new messages. `last` is the number of the
    /// session's last message before the messages were placed.
    fn finish(self, last: i64) -> Result<usize, LedgerError> {
        let now_last = self.appender.last_seq();
        self.appender.finish()?;
        if let Some(first) = self.new_turn {
            turns::assign_to_turns(self.transaction, self.key, first)?;
        }
        if let Some(latest) = self.latest {
            // These messages were written before the rewind, so they are not treated as a
            // continuation of the rewound conversation.
            self.transaction
                .prepare_cached(
                    "UPDATE undos SET
                         was_seq = CASE was_seq WHEN last_seq THEN ?3 ELSE was_seq END,
                         last_seq = ?3
                     WHERE session = ?1 AND last_seq = ?2 AND redone_at IS NULL AND time >= ?4",
                )?
                .execute(params![self.key, last, now_last, latest])?;
        }
        Ok(self.added)
    }
}

/// Finds the last message that must keep its number, and the turn of that message.
fn find_base(
    transaction: &Transaction<'_>,
    key: i64,
    stored: &[StoredMessage],
    fixed: i64,
) -> Result<SessionHead, LedgerError> {
    let first = stored.first().map_or(1, |stored| stored.message.seq);
    let numbers = stored.iter().map(|stored| stored.message.seq);
    let last_seq = numbers.rev().find(|seq| *seq <= fixed).unwrap_or(first - 1);
    let last_turn = transaction
        .prepare_cached(
            "SELECT ifnull(max(turn), 0) FROM turns WHERE session = ?1 AND first_seq <= ?2",
        )?
        .query_row([key, last_seq], |row| row.get(0))?;
    Ok(SessionHead { key, last_seq, last_turn })
}

/// Assigns a number to each message. A stored message keeps its number, unless an earlier message
/// has taken it.
fn assign_numbers(woven: &[WovenMessage], stored: &[StoredMessage], base: i64) -> Vec<i64> {
    let mut next = base + 1;
    let number = |message: &WovenMessage| {
        let own = match message {
            WovenMessage::Stored(index, _) => stored[*index].message.seq,
            WovenMessage::Incoming(_) => next,
        };
        if own <= base {
            return own;
        }
        let number = own.max(next);
        next = number + 1;
        number
    };
    woven.iter().map(number).collect()
}

fn describe_stored(stored: &StoredMessage, fixed: i64) -> UnconfirmedMessage {
    let message = &stored.message;
    UnconfirmedMessage {
        time: message.timestamp.unwrap_or_default(),
        is_prompt: message.role == "user",
        text: comparable_text(message),
        is_fixed: message.seq <= fixed,
    }
}

fn describe_incoming(entry: &LogMessage<'_>) -> IncomingMessage {
    IncomingMessage {
        time: entry.time,
        is_prompt: entry.message.role == "user" && !entry.is_summary,
        text: comparable_text(&entry.message),
    }
}

/// Returns the text by which two versions of a message are recognized as the same message.
fn comparable_text(message: &MessageRecord) -> String {
    let content = message.content.as_ref().map(text_of).unwrap_or_default();
    let text = content.split_whitespace().collect::<Vec<_>>().join(" ");
    match (message.role.as_str(), &message.tool_call_id, &message.tool_calls) {
        ("user", _, _) => text,
        (role, Some(call), _) => format!("{role} {call}"),
        (role, None, calls) => {
            format!("{role} {text} {}", calls.as_ref().map(text_of).unwrap_or_default())
        }
    }
}

/// Finds the last message that a log has confirmed.
pub(super) fn find_last_confirmed(
    transaction: &Transaction<'_>,
    key: i64,
) -> Result<i64, LedgerError> {
    Ok(transaction
        .prepare_cached("SELECT ifnull(max(seq), 0) FROM origins WHERE session = ?1")?
        .query_row([key], |row| row.get(0))?)
}

/// Finds the last message whose number must not change because rewinds or summaries refer to it.
fn find_last_fixed(transaction: &Transaction<'_>, key: i64) -> Result<i64, LedgerError> {
    Ok(transaction
        .prepare_cached(
            "SELECT max(
                 ifnull((SELECT max(max(from_seq, last_seq)) FROM undos WHERE session = ?1), 0),
                 ifnull((SELECT max(seq) FROM messages
                         WHERE session = ?1 AND summarizes IS NOT NULL AND seq > ?2), 0))",
        )?
        .query_row(params![key, find_last_confirmed(transaction, key)?], |row| row.get(0))?)
}

/// Removes the turns after the turn `after` from the ledger. Returns them keyed by the numbers of
/// their first messages.
fn take_turns(
    transaction: &Transaction<'_>,
    key: i64,
    after: i64,
) -> Result<HashMap<i64, TurnRow>, LedgerError> {
    let mut statement = transaction.prepare_cached(
        "DELETE FROM turns WHERE session = ?1 AND turn > ?2
         RETURNING first_seq, started_at, ended_at, undone",
    )?;
    let rows = statement.query_map(params![key, after], |row| {
        let (started_at, ended_at, undone) = (row.get(1)?, row.get(2)?, row.get(3)?);
        Ok((row.get(0)?, TurnRow { started_at, ended_at, undone }))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Reads the rewinds that have not been reversed, in order.
fn read_rewinds(transaction: &Transaction<'_>, key: i64) -> Result<Vec<RewindSpan>, LedgerError> {
    let mut statement = transaction.prepare_cached(
        "SELECT u.number, m.timestamp, u.time, u.last_seq FROM undos u
         JOIN messages m ON m.session = u.session AND m.seq = u.from_seq
         WHERE u.session = ?1 AND u.redone_at IS NULL ORDER BY u.number",
    )?;
    let rows = statement.query_map([key], |row| {
        let (from, until) = (row.get(1)?, row.get(2)?);
        Ok(RewindSpan { number: row.get(0)?, from, until, last_seq: row.get(3)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
