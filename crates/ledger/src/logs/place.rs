//! Messages of a log take their places in a session.

use std::borrow::Cow;
use std::collections::HashMap;

use rusqlite::{Transaction, params};

use super::weave::{Incoming, Place, Waiting, weave};
use crate::messages::{self, Appender, Stored, text_of};
use crate::sessions::{Head, head};
use crate::{LedgerError, MessageRecord, Time, turns};

/// What somebody said, in a log.
pub(super) struct Said<'a> {
    pub(super) origin: &'a str,
    pub(super) time: Time,
    pub(super) message: Cow<'a, MessageRecord>,
    pub(super) is_summary: bool,
}

/// A turn as it is in the ledger.
struct TurnRow {
    started_at: Time,
    ended_at: Option<Time>,
    undone: i64,
}

/// An undo that holds: what was said between these times was taken back by it.
struct Undo {
    number: i64,
    from: Time,
    until: Time,
}

/// Gives each message its place and says how many are new.
pub(super) fn place(
    transaction: &Transaction<'_>,
    id: &str,
    said: &[Said<'_>],
    now: Time,
) -> Result<usize, LedgerError> {
    if said.is_empty() {
        return Ok(0);
    }
    let head = head(transaction, id)?;
    let (key, last) = (head.key, head.last_seq);
    let (confirmed, fixed) = (confirmed(transaction, key)?, fixed(transaction, key)?);
    let stored = messages::read_after(transaction, key, confirmed)?;
    let waiting: Vec<Waiting> = stored.iter().map(|stored| of_stored(stored, fixed)).collect();
    let incoming: Vec<Incoming> = said.iter().map(of_said).collect();
    let places = weave(&waiting, &incoming);

    // Whatever is behind this place may get a higher number.
    let base = if stored.is_empty() { head } else { base(transaction, key, &stored, fixed)? };
    let numbers = numbers(&places, &stored, base.last_seq);
    let mut conversation = Conversation {
        transaction,
        key,
        base: base.last_seq,
        turns: take_turns(transaction, key, base.last_turn)?,
        undos: undos(transaction, key)?,
        appender: Appender::new(transaction, base),
        added: 0,
        new_turn: None,
        latest: None,
    };
    conversation.renumber(&places, &numbers, &stored)?;
    for (place, number) in places.into_iter().zip(numbers) {
        match place {
            Place::Waiting(index, entry) => {
                conversation.keep(&stored[index].message, number)?;
                if let Some(entry) = entry {
                    conversation.confirm(said[entry].origin, number)?;
                }
            }
            Place::Incoming(entry) => conversation.enter(&said[entry], number, now)?,
        }
    }
    conversation.finish(last)
}

/// A session while messages of a log take their places in it.
struct Conversation<'t> {
    transaction: &'t Transaction<'t>,
    key: i64,
    /// Up to here everything stays as it is.
    base: i64,
    /// The turns behind that, by their first messages.
    turns: HashMap<i64, TurnRow>,
    undos: Vec<Undo>,
    appender: Appender<'t>,
    added: usize,
    /// When the first of the turns began that only the log knows.
    new_turn: Option<Time>,
    /// When the last of the new messages was said.
    latest: Option<Time>,
}

impl Conversation<'_> {
    /// From the last to the first, so that every number is free when it is taken.
    fn renumber(
        &self,
        places: &[Place],
        numbers: &[i64],
        stored: &[Stored],
    ) -> Result<(), LedgerError> {
        let mut statement = self
            .transaction
            .prepare_cached("UPDATE messages SET seq = ?3 WHERE session = ?1 AND seq = ?2")?;
        for (place, number) in places.iter().zip(numbers).rev() {
            if let Place::Waiting(index, _) = place
                && stored[*index].message.seq != *number
            {
                statement.execute([self.key, stored[*index].message.seq, *number])?;
            }
        }
        Ok(())
    }

    /// A message that is here comes next: it gets its turn, and the turn its message.
    fn keep(&mut self, message: &MessageRecord, number: i64) -> Result<(), LedgerError> {
        if number <= self.base {
            return Ok(());
        }
        let begins = message.role == "user" && message.summarizes.is_none();
        let turn = self.appender.pass(number, begins);
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

    /// A message that only the log has comes next.
    fn enter(&mut self, said: &Said<'_>, number: i64, now: Time) -> Result<(), LedgerError> {
        let Said { origin, time, message, is_summary } = said;
        let (time, is_summary) = (*time, *is_summary);
        let undo = self.undos.iter().rev().find(|undo| undo.from <= time && time <= undo.until);
        let undo = undo.map(|undo| undo.number);
        let message = MessageRecord {
            timestamp: Some(time),
            undone: undo.is_some(),
            summarizes: is_summary.then(|| self.appender.last_seq()),
            ..(**message).clone()
        };
        if message.role == "user" && !is_summary {
            self.new_turn = Some(self.new_turn.map_or(time, |first| first.min(time)));
        }
        self.appender.append_as(number, &message, now)?;
        match (undo, message.summarizes) {
            (Some(undo), _) => turns::mark_as(self.transaction, self.key, number, undo)?,
            (None, Some(upto)) => {
                messages::mark_compacted(self.transaction, self.key, upto, number)?;
            }
            (None, None) => {}
        }
        self.latest = self.latest.max(Some(time));
        self.added += 1;
        self.confirm(origin, number)
    }

    /// The log has it, too.
    fn confirm(&self, origin: &str, seq: i64) -> Result<(), LedgerError> {
        self.transaction
            .prepare_cached("UPDATE origins SET seq = ?3 WHERE session = ?1 AND origin = ?2")?
            .execute(params![self.key, origin, seq])?;
        Ok(())
    }

    /// `last` was the last message before. Gives the number of new ones.
    fn finish(self, last: i64) -> Result<usize, LedgerError> {
        let now_last = self.appender.last_seq();
        self.appender.finish()?;
        if let Some(first) = self.new_turn {
            turns::assign(self.transaction, self.key, first)?;
        }
        if let Some(latest) = self.latest {
            // What was said before an undo does not make the conversation go on after it.
            self.transaction
                .prepare_cached(
                    "UPDATE undos SET last_seq = ?3
                     WHERE session = ?1 AND last_seq = ?2 AND redone_at IS NULL AND time >= ?4",
                )?
                .execute(params![self.key, last, now_last, latest])?;
        }
        Ok(self.added)
    }
}

/// The last message that keeps its number, and its turn.
fn base(
    transaction: &Transaction<'_>,
    key: i64,
    stored: &[Stored],
    fixed: i64,
) -> Result<Head, LedgerError> {
    let first = stored.first().map_or(1, |stored| stored.message.seq);
    let numbers = stored.iter().map(|stored| stored.message.seq);
    let last_seq = numbers.rev().find(|seq| *seq <= fixed).unwrap_or(first - 1);
    let last_turn = transaction
        .prepare_cached(
            "SELECT ifnull(max(turn), 0) FROM turns WHERE session = ?1 AND first_seq <= ?2",
        )?
        .query_row([key, last_seq], |row| row.get(0))?;
    Ok(Head { key, last_seq, last_turn })
}

/// The number of each place: what is here keeps its own, unless that is taken by now.
fn numbers(places: &[Place], stored: &[Stored], base: i64) -> Vec<i64> {
    let mut next = base + 1;
    let number = |place: &Place| {
        let own = match place {
            Place::Waiting(index, _) => stored[*index].message.seq,
            Place::Incoming(_) => next,
        };
        if own <= base {
            return own;
        }
        let number = own.max(next);
        next = number + 1;
        number
    };
    places.iter().map(number).collect()
}

fn of_stored(stored: &Stored, fixed: i64) -> Waiting {
    let message = &stored.message;
    Waiting {
        time: message.timestamp.unwrap_or_default(),
        is_prompt: message.role == "user",
        text: words(message),
        is_fixed: message.seq <= fixed,
    }
}

fn of_said(said: &Said<'_>) -> Incoming {
    Incoming {
        time: said.time,
        is_prompt: said.message.role == "user" && !said.is_summary,
        text: words(&said.message),
    }
}

/// What tells whether two messages are the same.
fn words(message: &MessageRecord) -> String {
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

/// The last message that a log has confirmed.
fn confirmed(transaction: &Transaction<'_>, key: i64) -> Result<i64, LedgerError> {
    Ok(transaction
        .prepare_cached("SELECT ifnull(max(seq), 0) FROM origins WHERE session = ?1")?
        .query_row([key], |row| row.get(0))?)
}

/// The last message whose number others rely on.
fn fixed(transaction: &Transaction<'_>, key: i64) -> Result<i64, LedgerError> {
    Ok(transaction
        .prepare_cached(
            "SELECT max(
                 ifnull((SELECT max(max(from_seq, last_seq)) FROM undos WHERE session = ?1), 0),
                 ifnull((SELECT max(seq) FROM messages
                         WHERE session = ?1 AND summarizes IS NOT NULL AND seq > ?2), 0))",
        )?
        .query_row(params![key, confirmed(transaction, key)?], |row| row.get(0))?)
}

/// Takes the turns behind one out of the ledger, by their first messages.
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

/// The undos that hold, in order.
fn undos(transaction: &Transaction<'_>, key: i64) -> Result<Vec<Undo>, LedgerError> {
    let mut statement = transaction.prepare_cached(
        "SELECT u.number, m.timestamp, u.time FROM undos u
         JOIN messages m ON m.session = u.session AND m.seq = u.from_seq
         WHERE u.session = ?1 AND u.redone_at IS NULL ORDER BY u.number",
    )?;
    let rows = statement.query_map([key], |row| {
        Ok(Undo { number: row.get(0)?, from: row.get(1)?, until: row.get(2)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
