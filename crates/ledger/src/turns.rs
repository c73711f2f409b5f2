//! Turns, and rewinding a conversation: taking back messages without deleting them.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde_json::Value;

use crate::sessions::head;
use crate::{Ledger, LedgerError, Time};

/// One message of the user's and all the work that it caused.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Turn {
    /// The number of the turn in its session, from 1.
    pub turn: i64,
    /// The number of its first message.
    pub first_seq: i64,
    pub started_at: Time,
    /// The end of the turn, if a hook reported it.
    pub ended_at: Option<Time>,
    /// True if a rewind took it back.
    pub undone: bool,
}

/// The messages that a rewind took back, or that an unrewind brought back.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct RewindOutcome {
    pub messages: usize,
    pub turns: usize,
    /// The number of the first of the messages.
    pub from_seq: i64,
    /// The first prompt among the messages.
    pub prompt: Option<String>,
}

impl Ledger {
    /// The turns of a session.
    pub fn turns(&self, session: &str) -> Result<Vec<Turn>, LedgerError> {
        let connection = self.database.reader()?;
        let head = head(connection, session)?;
        let mut statement = connection.prepare_cached(
            "SELECT turn, first_seq, started_at, ended_at, undone FROM turns
             WHERE session = ?1 ORDER BY turn",
        )?;
        let rows = statement.query_map([head.key], read_turn)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

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
            match first {
                Some(from_seq) => rewind_from(transaction, session, from_seq, now),
                None => Err(LedgerError::NothingToRewind(session.to_owned())),
            }
        })
    }

    /// Takes back the messages of a conversation from one on. They are marked, not deleted.
    pub fn rewind_from(
        &mut self,
        session: &str,
        from_seq: i64,
        now: Time,
    ) -> Result<RewindOutcome, LedgerError> {
        self.database.write(|transaction| rewind_from(transaction, session, from_seq, now))
    }

    /// Brings back the messages of the latest rewind, unless the conversation went on since.
    pub fn unrewind(&mut self, session: &str, now: Time) -> Result<RewindOutcome, LedgerError> {
        self.unrewind_made_at(session, None, now)
    }

    /// Brings back the messages of the latest rewind, if that was made at a certain time and the
    /// conversation did not go on since.
    pub fn unrewind_made_at(
        &mut self,
        session: &str,
        made: Option<Time>,
        now: Time,
    ) -> Result<RewindOutcome, LedgerError> {
        self.database.write(|transaction| {
            let head = head(transaction, session)?;
            let latest = transaction
                .query_row(
                    "SELECT number, from_seq, last_seq, time FROM undos
                     WHERE session = ?1 AND redone_at IS NULL ORDER BY number DESC LIMIT 1",
                    [head.key],
                    |row| {
                        let time: Time = row.get(3)?;
                        Ok((row.get::<_, i64>(0)?, row.get(1)?, row.get::<_, i64>(2)?, time))
                    },
                )
                .optional()?;
            let is_wanted = |time: Time| made.is_none_or(|made| made == time);
            let latest = latest.filter(|rewind| is_wanted(rewind.3));
            let Some((number, from_seq, last_seq, _)) = latest else {
                return Err(LedgerError::NothingToUnrewind(session.to_owned()));
            };
            if last_seq != head.last_seq {
                return Err(LedgerError::WentOn(session.to_owned()));
            }
            transaction.execute(
                "UPDATE undos SET redone_at = ?3 WHERE session = ?1 AND number = ?2",
                params![head.key, number, now],
            )?;
            let outcome = change_marks(transaction, head.key, from_seq, number, 0)?;
            recount_session(transaction, head.key)?;
            Ok(outcome)
        })
    }

    /// The turn that a session was in at a time; `None` if no turn had begun or the last was over.
    pub fn turn_at(&self, session: &str, time: Time) -> Result<Option<Turn>, LedgerError> {
        let connection = self.database.reader()?;
        let head = head(connection, session)?;
        let mut statement = connection.prepare_cached(
            "SELECT turn, first_seq, started_at, ended_at, undone FROM turns
             WHERE session = ?1 AND started_at <= ?2 ORDER BY turn DESC LIMIT 1",
        )?;
        let turn = statement.query_row(params![head.key, time], read_turn).optional()?;
        Ok(turn.filter(|turn| turn.ended_at.is_none_or(|ended| time <= ended)))
    }

    /// The text of a message, unless it is structured.
    pub fn prompt(&self, session: &str, seq: i64) -> Result<Option<String>, LedgerError> {
        let connection = self.database.reader()?;
        let head = head(connection, session)?;
        let mut statement = connection.prepare_cached(
            "SELECT content FROM messages WHERE session = ?1 AND seq = ?2 AND NOT structured",
        )?;
        Ok(statement.query_row(params![head.key, seq], |row| row.get(0)).optional()?.flatten())
    }

    /// The first message of a turn that names a call or came after it began; `None` if there is
    /// none.
    pub fn message_of_call(
        &self,
        session: &str,
        turn: &Turn,
        call: &str,
        began: Time,
    ) -> Result<Option<i64>, LedgerError> {
        let connection = self.database.reader()?;
        let head = head(connection, session)?;
        let mut statement = connection.prepare_cached(
            "SELECT min(seq) FROM messages
             WHERE session = ?1 AND seq > ?2 AND NOT undone
                 AND (tool_call_id = ?3 OR instr(tool_calls, ?4) OR timestamp >= ?5)",
        )?;
        let quoted = Value::from(call).to_string();
        let found = statement
            .query_row(params![head.key, turn.first_seq, call, quoted, began], |row| row.get(0))?;
        Ok(found)
    }

    /// Counts the messages that a rewind from a message on would take back.
    pub fn count_messages_from(&self, session: &str, from_seq: i64) -> Result<usize, LedgerError> {
        let connection = self.database.reader()?;
        let head = head(connection, session)?;
        let count: i64 = connection.query_row(
            "SELECT count(*) FROM messages WHERE session = ?1 AND seq >= ?2 AND NOT undone",
            params![head.key, from_seq],
            |row| row.get(0),
        )?;
        Ok(usize::try_from(count).unwrap_or(0))
    }
}

fn read_turn(row: &Row<'_>) -> rusqlite::Result<Turn> {
    Ok(Turn {
        turn: row.get(0)?,
        first_seq: row.get(1)?,
        started_at: row.get(2)?,
        ended_at: row.get(3)?,
        undone: row.get(4)?,
    })
}

fn rewind_from(
    transaction: &Transaction<'_>,
    session: &str,
    from_seq: i64,
    now: Time,
) -> Result<RewindOutcome, LedgerError> {
    let head = head(transaction, session)?;
    let number: i64 = transaction.query_row(
        "SELECT ifnull(max(number), 0) + 1 FROM undos WHERE session = ?1",
        [head.key],
        |row| row.get(0),
    )?;
    // 1 marks messages that came in as taken back by another ledger. No unrewind brings those back.
    let number = number.max(2);
    let outcome = change_marks(transaction, head.key, from_seq, 0, number)?;
    if outcome.messages == 0 {
        return Err(LedgerError::NothingToRewind(session.to_owned()));
    }
    transaction.execute(
        "INSERT INTO undos (session, number, from_seq, last_seq, time) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![head.key, number, from_seq, head.last_seq, now],
    )?;
    recount_session(transaction, head.key)?;
    Ok(outcome)
}

/// Changes the mark of the messages and turns from `from_seq` on that have the mark `old`.
fn change_marks(
    transaction: &Transaction<'_>,
    key: i64,
    from_seq: i64,
    old: i64,
    new: i64,
) -> Result<RewindOutcome, LedgerError> {
    let parameters = params![key, from_seq, old, new];
    let messages = transaction.execute(
        "UPDATE messages SET undone = ?4 WHERE session = ?1 AND seq >= ?2 AND undone = ?3",
        parameters,
    )?;
    let turns = transaction.execute(
        "UPDATE turns SET undone = ?4 WHERE session = ?1 AND first_seq >= ?2 AND undone = ?3",
        parameters,
    )?;
    let prompt = transaction
        .query_row(
            "SELECT content FROM messages
             WHERE session = ?1 AND seq >= ?2 AND role = 'user' AND undone = ?3 AND NOT structured
             ORDER BY seq LIMIT 1",
            params![key, from_seq, new],
            |row| row.get(0),
        )
        .optional()?
        .flatten();
    Ok(RewindOutcome { messages, turns, from_seq, prompt })
}

/// Counts the messages and tool calls of a session anew.
pub(crate) fn recount_session(connection: &Connection, key: i64) -> Result<(), LedgerError> {
    connection.execute(
        "UPDATE sessions SET (message_count, tool_call_count) = (
             SELECT count(*), ifnull(sum(call_count), 0) FROM messages
             WHERE session = ?1 AND NOT undone)
         WHERE key = ?1",
        [key],
    )?;
    Ok(())
}

/// Ends the current turn of a session. The first end counts.
pub(crate) fn end_turn(
    transaction: &Transaction<'_>,
    session: &str,
    now: Time,
) -> Result<(), LedgerError> {
    let head = head(transaction, session)?;
    transaction.execute(
        "UPDATE turns SET ended_at = ifnull(ended_at, ?3) WHERE session = ?1 AND turn = ?2",
        params![head.key, head.last_turn, now],
    )?;
    Ok(())
}

/// Marks a message, and the turn that it begins, as taken back by a rewind.
pub(crate) fn mark_undone(
    transaction: &Transaction<'_>,
    key: i64,
    seq: i64,
    rewind: i64,
) -> Result<(), LedgerError> {
    for sql in [
        "UPDATE messages SET undone = ?3 WHERE session = ?1 AND seq = ?2",
        "UPDATE turns SET undone = ?3 WHERE session = ?1 AND first_seq = ?2",
    ] {
        transaction.prepare_cached(sql)?.execute([key, seq, rewind])?;
    }
    Ok(())
}

/// Assigns the calls and effects since a time to the turns that they happened in. For turns that
/// became known later than their calls.
pub(crate) fn assign_to_turns(
    transaction: &Transaction<'_>,
    key: i64,
    since: Time,
) -> Result<(), LedgerError> {
    for (table, time) in [("calls", "started_at"), ("effects", "time")] {
        let sql = format!(
            "UPDATE {table} AS x SET turn = ifnull((
                 SELECT max(turn) FROM turns t WHERE t.session = ?1 AND t.started_at <= x.{time}),
                 turn)
             WHERE session = ?1 AND {time} >= ?2"
        );
        transaction.prepare_cached(&sql)?.execute(params![key, since])?;
    }
    Ok(())
}
