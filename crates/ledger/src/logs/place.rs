//! Messages of a log take their places in a session.

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
    pub(super) message: &'a MessageRecord,
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
    let (key, old_last) = (head.key, head.last_seq);
    let confirmed = confirmed(transaction, key)?;
    let fixed = fixed(transaction, key)?;
    let stored = messages::read_after(transaction, key, confirmed)?;
    let waiting: Vec<Waiting> = stored.iter().map(|stored| of_stored(stored, fixed)).collect();
    let incoming: Vec<Incoming> = said.iter().map(of_said).collect();
    let places = weave(&waiting, &incoming);

    // Whatever is behind this number may get a higher one.
    let base = stored
        .iter()
        .map(|stored| stored.message.seq)
        .filter(|seq| *seq <= fixed)
        .fold(confirmed, i64::max);
    let base_turn = turn_before(transaction, key, base)?;
    let rows = take_turns(transaction, key, base_turn)?;
    let numbers = numbers(&places, &stored, base);
    // From the last to the first, so that every number is free when it is taken.
    for (place, number) in places.iter().zip(&numbers).rev() {
        if let Place::Waiting(index, _) = place
            && stored[*index].message.seq != *number
        {
            transaction
                .prepare_cached("UPDATE messages SET seq = ?3 WHERE session = ?1 AND seq = ?2")?
                .execute(params![key, stored[*index].message.seq, number])?;
        }
    }

    let undos = undos(transaction, key)?;
    let mut appender =
        Appender::new(transaction, Head { key, last_seq: base, last_turn: base_turn });
    let mut added = 0;
    let mut first_new_turn: Option<Time> = None;
    let mut latest: Option<Time> = None;
    for (place, number) in places.iter().zip(&numbers).map(|(place, number)| (*place, *number)) {
        match place {
            Place::Waiting(index, entry) => {
                let message = &stored[index].message;
                if number > base {
                    let begins = message.role == "user" && message.summarizes.is_none();
                    let turn = appender.pass(number, begins);
                    settle(transaction, key, message, number, turn, begins, &rows)?;
                }
                if let Some(entry) = entry {
                    confirm(transaction, key, said[entry].origin, number)?;
                }
            }
            Place::Incoming(entry) => {
                let Said { origin, time, message, is_summary } = &said[entry];
                let undo =
                    undos.iter().rev().find(|undo| undo.from <= *time && *time <= undo.until);
                let message = MessageRecord {
                    timestamp: Some(*time),
                    undone: undo.is_some(),
                    summarizes: is_summary.then(|| appender.last_seq()),
                    ..(*message).clone()
                };
                if message.role == "user" && !is_summary {
                    first_new_turn = Some(first_new_turn.map_or(*time, |first| first.min(*time)));
                }
                appender.append_as(number, &message, now)?;
                if let Some(undo) = undo {
                    turns::mark_as(transaction, key, number, undo.number)?;
                } else if let Some(upto) = message.summarizes {
                    messages::mark_compacted(transaction, key, upto, number)?;
                }
                confirm(transaction, key, origin, number)?;
                latest = latest.max(Some(*time));
                added += 1;
            }
        }
    }
    let last = appender.last_seq();
    appender.finish()?;
    if let Some(first) = first_new_turn {
        turns::assign(transaction, key, first)?;
    }
    if let Some(latest) = latest {
        // What came in was said before the undo, so the conversation has not gone on since.
        transaction
            .prepare_cached(
                "UPDATE undos SET last_seq = ?3
                 WHERE session = ?1 AND last_seq = ?2 AND redone_at IS NULL AND time >= ?4",
            )?
            .execute(params![key, old_last, last, latest])?;
    }
    Ok(added)
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
        text: words(said.message),
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

fn turn_before(transaction: &Transaction<'_>, key: i64, seq: i64) -> Result<i64, LedgerError> {
    Ok(transaction
        .prepare_cached(
            "SELECT ifnull(max(turn), 0) FROM turns WHERE session = ?1 AND first_seq <= ?2",
        )?
        .query_row(params![key, seq], |row| row.get(0))?)
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

/// A message that is here gets its turn, and the turn its message.
fn settle(
    transaction: &Transaction<'_>,
    key: i64,
    message: &MessageRecord,
    number: i64,
    turn: i64,
    begins: bool,
    rows: &HashMap<i64, TurnRow>,
) -> Result<(), LedgerError> {
    transaction
        .prepare_cached(
            "UPDATE messages SET turn = ?3 WHERE session = ?1 AND seq = ?2 AND turn <> ?3",
        )?
        .execute(params![key, number, turn])?;
    if begins {
        let row = rows.get(&message.seq);
        transaction
            .prepare_cached(
                "INSERT INTO turns (session, turn, first_seq, started_at, ended_at, undone)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                key,
                turn,
                number,
                row.map_or(message.timestamp.unwrap_or_default(), |row| row.started_at),
                row.and_then(|row| row.ended_at),
                row.map_or(i64::from(message.undone), |row| row.undone),
            ])?;
    }
    Ok(())
}

fn confirm(
    transaction: &Transaction<'_>,
    key: i64,
    origin: &str,
    seq: i64,
) -> Result<(), LedgerError> {
    transaction
        .prepare_cached("UPDATE origins SET seq = ?3 WHERE session = ?1 AND origin = ?2")?
        .execute(params![key, origin, seq])?;
    Ok(())
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
