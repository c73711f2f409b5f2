//! Rewinding a conversation: taking back messages without deleting them.
//!
//! A rewind moves the end of the conversation to an earlier message, or to a message that another
//! rewind took back. The table `undos` is the log of these moves. It also determines which message
//! precedes a given one in the conversation: the message with the previous number or, if the end
//! was moved in between, the message at the new end. So the conversation at any earlier point can
//! be derived from the log alone, without comparing times.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};

use crate::sessions::{SessionHead, head};
use crate::turns::recount_session;
use crate::{Ledger, LedgerError, Time};

/// The messages that a rewind took back, or that an unrewind restored.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct RewindOutcome {
    pub messages: usize,
    pub turns: usize,
    /// The number of the first of these messages.
    pub from_seq: i64,
    /// The first prompt among these messages.
    pub prompt: Option<String>,
}

/// The numbers of messages that are taken back and restored when the end of a conversation moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ConversationMove {
    pub taken_back: usize,
    pub brought_back: usize,
    /// The prompt of the first turn that is taken back, if the whole turn is taken back. Only
    /// [`Ledger::count_move`] sets it.
    pub prompt: Option<String>,
    /// The number of turns whose prompts are taken back. Only [`Ledger::count_move`] sets it.
    pub turns: usize,
}

impl ConversationMove {
    /// True if the conversation does not change.
    pub fn is_empty(&self) -> bool {
        self.taken_back == 0 && self.brought_back == 0
    }
}

/// A past point in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConversationPoint {
    /// The point right before a message.
    BeforeMessage(i64),
    /// The point right after a message.
    AfterMessage(i64),
    /// The point right before the rewind that was made at this time.
    BeforeRewind(Time),
}

/// The extent of a conversation at a point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConversationMark {
    /// The number of the last message, even if it was taken back.
    pub last_seq: i64,
    /// The number of the last turn, even if it was taken back.
    pub last_turn: i64,
    /// A number that grows whenever messages are taken back or restored.
    pub moves: i64,
}

impl Ledger {
    /// Takes back the last `turns` turns of a conversation. Their messages are marked, not deleted.
    pub fn rewind_turns(
        &mut self,
        session: &str,
        turns: usize,
        now: Time,
    ) -> Result<RewindOutcome, LedgerError> {
        self.database.write(|transaction| {
            let key = head(transaction, session)?.key;
            let first: Option<i64> = transaction.query_row(
                "SELECT min(first_seq) FROM (
                         SELECT first_seq FROM turns WHERE session = ?1 AND NOT undone
                         ORDER BY first_seq DESC LIMIT ?2)",
                params![key, i64::try_from(turns).unwrap_or(i64::MAX)],
                |row| row.get(0),
            )?;
            let from = first.ok_or_else(|| LedgerError::NothingToRewind(session.to_owned()))?;
            let before = read_marks(transaction, key)?;
            move_to_point(transaction, session, ConversationPoint::BeforeMessage(from), now)?;
            describe_changes(transaction, key, &before, true)
        })
    }

    /// Restores the messages that the latest rewind took back, unless the conversation has
    /// continued since.
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
    /// ledger.append("mine:1", &[say("user", "Tidy up"), say("assistant", "Done.")], now)?;
    /// ledger.rewind_turns("mine:1", 1, now)?;
    /// assert!(ledger.messages("mine:1", MessageFilter::Current)?.is_empty());
    ///
    /// ledger.unrewind("mine:1", now)?;
    /// assert_eq!(ledger.messages("mine:1", MessageFilter::Current)?.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn unrewind(&mut self, session: &str, now: Time) -> Result<RewindOutcome, LedgerError> {
        self.database.write(|transaction| {
            let head = head(transaction, session)?;
            let log = RewindLog::read(transaction, head.key)?;
            let Some(latest) = log.rows.iter().rev().find(|row| !row.is_redone) else {
                return Err(LedgerError::NothingToUnrewind(session.to_owned()));
            };
            if latest.last_seq != head.last_seq {
                return Err(LedgerError::WentOn(session.to_owned()));
            }
            let before = read_marks(transaction, head.key)?;
            let end = log.end_before(latest);
            set_redone(transaction, head.key, latest.number, now)?;
            set_end(transaction, head.key, &log, end, latest.number)?;
            recount_session(transaction, head.key)?;
            describe_changes(transaction, head.key, &before, false)
        })
    }

    /// Returns a conversation to an earlier point. This may take messages back, restore messages
    /// that have been taken back since, or both.
    pub fn return_to_point(
        &mut self,
        session: &str,
        point: ConversationPoint,
        now: Time,
    ) -> Result<ConversationMove, LedgerError> {
        self.database.write(|transaction| move_to_point(transaction, session, point, now))
    }

    /// Returns a mark that changes whenever the conversation changes.
    pub fn conversation_mark(&self, session: &str) -> Result<ConversationMark, LedgerError> {
        let connection = self.database.reader()?;
        let SessionHead { key, last_seq, last_turn } = head(connection, session)?;
        let sql = "SELECT count(*) + count(redone_at) FROM undos WHERE session = ?1";
        let moves = connection.prepare_cached(sql)?.query_row([key], |row| row.get(0))?;
        Ok(ConversationMark { last_seq, last_turn, moves })
    }

    /// Counts the messages that [`Ledger::return_to_point`] would take back and restore.
    pub fn count_move(
        &self,
        session: &str,
        point: ConversationPoint,
    ) -> Result<ConversationMove, LedgerError> {
        let connection = self.database.reader()?;
        let head = head(connection, session)?;
        let log = RewindLog::read(connection, head.key)?;
        let end = log.find_end(session, point)?;
        let mut count = ConversationMove::default();
        for part in log.divide(end) {
            let number = |sql: &str| {
                let mut statement = connection.prepare_cached(sql)?;
                let count: i64 =
                    statement.query_row([head.key, part.from, part.to], |row| row.get(0))?;
                Ok::<_, rusqlite::Error>(usize::try_from(count).unwrap_or(0))
            };
            if part.is_in {
                count.brought_back +=
                    number(&format!("SELECT count(*) FROM messages WHERE {TAKEN_BACK}"))?;
            } else {
                count.taken_back +=
                    number(&format!("SELECT count(*) FROM messages WHERE {IN_FORCE}"))?;
                let first = find_first_prompt(connection, head.key, &part)?;
                count.prompt = first.or(count.prompt);
                count.turns += number(
                    "SELECT count(*) FROM turns
                     WHERE session = ?1 AND first_seq BETWEEN ?2 AND ?3 AND undone = 0",
                )?;
            }
        }
        Ok(count)
    }
}

/// Finds the messages that were part of a conversation at an earlier point, or that are part of it
/// now if no point is given. Returns their numbers.
pub(crate) fn find_conversation(
    connection: &Connection,
    session: &str,
    point: Option<ConversationPoint>,
) -> Result<BTreeSet<i64>, LedgerError> {
    let head = head(connection, session)?;
    let log = RewindLog::read(connection, head.key)?;
    let end = match point {
        Some(point) => log.find_end(session, point)?,
        None => log.present_end(head.last_seq),
    };
    let sql = format!("SELECT seq FROM messages WHERE {IN_FORCE} OR {TAKEN_BACK}");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut found = BTreeSet::new();
    for part in log.divide(end).iter().filter(|part| part.is_in) {
        for seq in statement.query_map([head.key, part.from, part.to], |row| row.get(0))? {
            found.insert(seq?);
        }
    }
    Ok(found)
}

/// The condition for messages that are part of the conversation.
const IN_FORCE: &str = "session = ?1 AND seq BETWEEN ?2 AND ?3 AND undone = 0";

/// The condition for messages that a rewind took back. It excludes messages that were read from a
/// log after the rewind, and messages that were imported as already taken back.
const TAKEN_BACK: &str = "session = ?1 AND seq BETWEEN ?2 AND ?3 AND undone > 1 AND seq <= (
    SELECT last_seq FROM undos u WHERE u.session = ?1 AND u.number = messages.undone)";

/// A move of the end of a conversation.
#[derive(Debug)]
struct RewindRow {
    number: i64,
    from_seq: i64,
    /// The number of the session's last message when the move was made.
    last_seq: i64,
    /// The end of the conversation before the move; `None` in rows from older versions.
    was_seq: Option<i64>,
    /// The end of the conversation after the move; `None` in rows from older versions.
    to_seq: Option<i64>,
    time: Time,
    is_redone: bool,
}

/// All moves of the end of a conversation, in order.
struct RewindLog {
    rows: Vec<RewindRow>,
}

/// A range of messages that are either all in a conversation or all outside it.
struct Part {
    from: i64,
    to: i64,
    is_in: bool,
}

impl RewindLog {
    fn read(connection: &Connection, key: i64) -> Result<RewindLog, LedgerError> {
        let mut statement = connection.prepare_cached(
            "SELECT number, from_seq, last_seq, was_seq, to_seq, time, redone_at IS NOT NULL
             FROM undos WHERE session = ?1 ORDER BY number",
        )?;
        let rows = statement.query_map([key], |row| {
            Ok(RewindRow {
                number: row.get(0)?,
                from_seq: row.get(1)?,
                last_seq: row.get(2)?,
                was_seq: row.get(3)?,
                to_seq: row.get(4)?,
                time: row.get(5)?,
                is_redone: row.get(6)?,
            })
        })?;
        Ok(RewindLog { rows: rows.collect::<Result<_, _>>()? })
    }

    /// Finds the last of the moves that were made when `last` was the session's last message.
    /// Ignores the move with the number `before`, all later moves, and moves that were reversed.
    fn last_at(&self, last: i64, before: i64) -> Option<&RewindRow> {
        let is_it =
            |row: &&RewindRow| !row.is_redone && row.last_seq == last && row.number < before;
        self.rows.iter().rev().find(is_it)
    }

    /// Returns the message that precedes `seq` in its conversation, or 0 if there is none.
    fn predecessor(&self, seq: i64) -> i64 {
        match self.last_at(seq - 1, i64::MAX) {
            Some(row) => self.end_after(row),
            None => seq - 1,
        }
    }

    /// Returns the end of the conversation after a move, or 0 if no message was left.
    fn end_after(&self, row: &RewindRow) -> i64 {
        let end = row.to_seq.unwrap_or_else(|| self.predecessor(row.from_seq.min(row.last_seq)));
        end.min(row.last_seq)
    }

    /// Returns where the conversation ended before a move.
    fn end_before(&self, row: &RewindRow) -> i64 {
        row.was_seq.unwrap_or_else(|| match self.last_at(row.last_seq, row.number) {
            Some(earlier) => self.end_after(earlier),
            None => row.last_seq,
        })
    }

    /// Returns the current end of the conversation. `last` is the last message of the session.
    fn present_end(&self, last: i64) -> i64 {
        self.last_at(last, i64::MAX).map_or(last, |row| self.end_after(row))
    }

    /// Finds the end of the conversation at an earlier point.
    fn find_end(&self, session: &str, point: ConversationPoint) -> Result<i64, LedgerError> {
        match point {
            ConversationPoint::BeforeMessage(seq) => Ok(self.predecessor(seq)),
            ConversationPoint::AfterMessage(seq) => Ok(seq),
            ConversationPoint::BeforeRewind(time) => {
                let row = self.find_made_at(time);
                let row = row.ok_or_else(|| LedgerError::NothingToUnrewind(session.to_owned()))?;
                Ok(self.end_before(row))
            }
        }
    }

    fn find_made_at(&self, time: Time) -> Option<&RewindRow> {
        self.rows.iter().rev().find(|row| row.time == time)
    }

    /// Divides all messages into ranges, each either inside or outside the conversation that ends
    /// at `end`.
    fn divide(&self, end: i64) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut after = i64::MAX;
        let mut end = end;
        while end > 0 {
            parts.push(Part { from: end + 1, to: after, is_in: false });
            let earlier = self.rows.iter().filter(|row| !row.is_redone && row.last_seq < end);
            let cut = earlier.map(|row| row.last_seq).max();
            let from = cut.map_or(1, |cut| cut + 1);
            parts.push(Part { from, to: end, is_in: true });
            after = from - 1;
            end = match cut.and_then(|cut| self.last_at(cut, i64::MAX)) {
                Some(row) => self.end_after(row),
                None => 0,
            };
        }
        parts.push(Part { from: 1, to: after, is_in: false });
        parts
    }
}

/// Finds the prompt at the beginning of a part. Returns `None` if the part's first message that has
/// not been taken back is not a prompt.
fn find_first_prompt(
    connection: &Connection,
    key: i64,
    part: &Part,
) -> Result<Option<String>, LedgerError> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT content FROM messages WHERE {IN_FORCE} AND NOT structured
             AND seq IN (SELECT first_seq FROM turns WHERE session = ?1)
             AND seq = (SELECT min(seq) FROM messages WHERE {IN_FORCE})"
    ))?;
    let found = statement.query_row([key, part.from, part.to], |row| row.get(0)).optional()?;
    Ok(found.flatten())
}

/// Moves the end of a conversation to an earlier point, and records the move.
fn move_to_point(
    transaction: &Transaction<'_>,
    session: &str,
    point: ConversationPoint,
    now: Time,
) -> Result<ConversationMove, LedgerError> {
    let head = head(transaction, session)?;
    let log = RewindLog::read(transaction, head.key)?;
    let end = log.find_end(session, point)?;
    let was = log.present_end(head.last_seq);
    // The number 1 marks messages that were imported as already taken back.
    let number = log.rows.last().map_or(0, |row| row.number).max(1) + 1;
    let moved = set_end(transaction, head.key, &log, end, number)?;
    if moved.is_empty() {
        return Ok(moved);
    }
    let from = match point {
        ConversationPoint::BeforeMessage(seq) => seq,
        ConversationPoint::AfterMessage(_) | ConversationPoint::BeforeRewind(_) => end + 1,
    };
    transaction.execute(
        "INSERT INTO undos (session, number, from_seq, last_seq, time, was_seq, to_seq)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![head.key, number, from.min(head.last_seq), head.last_seq, now, was, end],
    )?;
    // A rewind and its reversal cancel out, so the next unrewind reverses an earlier rewind.
    if let ConversationPoint::BeforeRewind(time) = point
        && let Some(row) = log.find_made_at(time)
        && log.last_at(head.last_seq, i64::MAX).is_some_and(|last| last.number == row.number)
    {
        set_redone(transaction, head.key, row.number, now)?;
        set_redone(transaction, head.key, number, now)?;
    }
    recount_session(transaction, head.key)?;
    Ok(moved)
}

/// Marks messages and turns so that the conversation ends at `end`.
fn set_end(
    transaction: &Transaction<'_>,
    key: i64,
    log: &RewindLog,
    end: i64,
    number: i64,
) -> Result<ConversationMove, LedgerError> {
    let mut moved = ConversationMove::default();
    for part in log.divide(end) {
        let (condition, mark) = if part.is_in { (TAKEN_BACK, 0) } else { (IN_FORCE, number) };
        let sql = format!("UPDATE messages SET undone = ?4 WHERE {condition}");
        let count = transaction.prepare_cached(&sql)?.execute([key, part.from, part.to, mark])?;
        if part.is_in {
            moved.brought_back += count;
        } else {
            moved.taken_back += count;
        }
    }
    transaction
        .prepare_cached(
            "UPDATE turns SET undone = ifnull((
                 SELECT undone FROM messages m
                 WHERE m.session = ?1 AND m.seq = turns.first_seq), undone)
             WHERE session = ?1",
        )?
        .execute([key])?;
    Ok(moved)
}

fn set_redone(
    transaction: &Transaction<'_>,
    key: i64,
    number: i64,
    now: Time,
) -> Result<(), LedgerError> {
    transaction.execute(
        "UPDATE undos SET redone_at = ?3 WHERE session = ?1 AND number = ?2",
        params![key, number, now],
    )?;
    Ok(())
}

/// Reads the number of each message, and whether the message is in the conversation.
fn read_marks(transaction: &Transaction<'_>, key: i64) -> Result<Vec<(i64, bool)>, LedgerError> {
    let mut statement = transaction
        .prepare_cached("SELECT seq, undone = 0 FROM messages WHERE session = ?1 ORDER BY seq")?;
    let rows = statement.query_map([key], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Describes the messages that have been taken back or restored since their marks were read.
fn describe_changes(
    transaction: &Transaction<'_>,
    key: i64,
    before: &[(i64, bool)],
    taken_back: bool,
) -> Result<RewindOutcome, LedgerError> {
    let after = read_marks(transaction, key)?;
    let changed =
        before.iter().zip(&after).filter(|(was, is)| was.1 != is.1 && was.1 == taken_back);
    let changed: Vec<i64> = changed.map(|(was, _)| was.0).collect();
    let mut outcome = RewindOutcome {
        messages: changed.len(),
        turns: 0,
        from_seq: changed.first().copied().unwrap_or(0),
        prompt: None,
    };
    let mut statement = transaction.prepare_cached(
        "SELECT m.content, m.structured FROM turns t
         JOIN messages m ON m.session = t.session AND m.seq = t.first_seq
         WHERE t.session = ?1 AND t.first_seq = ?2",
    )?;
    for seq in changed {
        let mut rows = statement.query([key, seq])?;
        let Some(row) = rows.next()? else { continue };
        outcome.turns += 1;
        if outcome.prompt.is_none() && !row.get::<_, bool>(1)? {
            outcome.prompt = row.get(0)?;
        }
    }
    Ok(outcome)
}
