//! Turns: the user's messages, and the work that each of them causes.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde_json::Value;

use crate::sessions::{SessionHead, head};
use crate::{ConversationPoint, Ledger, LedgerError, Time};

/// One message from the user and all the work that it caused.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Turn {
    /// The number of the turn in its session, starting at 1.
    pub turn: i64,
    /// The number of the turn's first message.
    pub first_seq: i64,
    pub started_at: Time,
    /// The end of the turn, if a hook reported it.
    pub ended_at: Option<Time>,
    /// True if a rewind took the turn back.
    pub undone: bool,
}

/// The last message of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnEnd {
    /// The number of the turn's last message.
    pub seq: i64,
    /// True if some, but not all, of the turn's messages are taken back.
    pub is_cut: bool,
}

/// The identity of a tool call.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct CallId<'a> {
    /// The session that the user talks to.
    pub session: &'a str,
    /// The session that made the call: the same one, or a subagent's.
    pub reporter: &'a str,
    pub call: &'a str,
    pub began: Time,
    /// True if the ledger may have recorded a different start time for the call.
    pub late: bool,
    /// The time of the prompt that began the call's turn, if known. It identifies the turn if the
    /// ledger does not know the call.
    pub prompted: Option<Time>,
}

impl Ledger {
    /// Returns the turns of a session.
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

    /// Finds the last message of a turn. If a part of the turn is taken back, this is the last
    /// remaining message.
    pub fn end_of_turn(&self, session: &str, turn: &Turn) -> Result<TurnEnd, LedgerError> {
        let connection = self.database.reader()?;
        let head = head(connection, session)?;
        let mut statement = connection.prepare_cached(
            "SELECT ifnull(max(seq), ?3), max(seq) FILTER (WHERE undone = 0)
             FROM messages WHERE session = ?1 AND turn = ?2",
        )?;
        let (last, left): (i64, Option<i64>) = statement
            .query_row([head.key, turn.turn, turn.first_seq], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        Ok(TurnEnd { seq: left.unwrap_or(last), is_cut: left.is_some_and(|left| left != last) })
    }

    /// Returns the turn that a call is part of, or `None` if no turn had begun or the last one was
    /// over. The turn is determined by the order of messages and calls in the ledger, or by the
    /// time of its prompt if the ledger does not know the call. The start time of the call is used
    /// only if the prompt is not known either.
    pub fn turn_of_call(&self, call: &CallId<'_>) -> Result<Option<Turn>, LedgerError> {
        let connection = self.database.reader()?;
        let owner = head(connection, call.session)?.key;
        let naming = find_naming_turn(connection, owner, call)?;
        self.turn_of_named_call(owner, call, naming)
    }

    /// Returns the turn that a call is part of. `naming` is the turn whose messages name the call,
    /// if there is exactly one such turn.
    pub(crate) fn turn_of_named_call(
        &self,
        owner: i64,
        call: &CallId<'_>,
        naming: Option<i64>,
    ) -> Result<Option<Turn>, LedgerError> {
        let connection = self.database.reader()?;
        let number = match naming {
            Some(turn) => Some(turn),
            None => find_recorded_turn(connection, owner, call)?,
        };
        let number = match (number, call.prompted) {
            (None, Some(prompted)) => find_prompted_turn(connection, owner, prompted)?,
            (number, _) => number,
        };
        let Some(number) = number else { return self.turn_at(call.session, call.began) };
        let mut statement = connection.prepare_cached(
            "SELECT turn, first_seq, started_at, ended_at, undone FROM turns
             WHERE session = ?1 AND turn = ?2",
        )?;
        Ok(statement.query_row([owner, number], read_turn).optional()?)
    }

    /// Returns the turn that a session was in at the given time, or `None` if no turn had begun or
    /// the last one was over.
    fn turn_at(&self, session: &str, time: Time) -> Result<Option<Turn>, LedgerError> {
        let connection = self.database.reader()?;
        let head = head(connection, session)?;
        // The clock may have been set back in the meantime, so the last turn does not necessarily
        // have the latest time.
        let mut statement = connection.prepare_cached(
            "SELECT turn, first_seq, started_at, ended_at, undone FROM turns
             WHERE session = ?1 AND started_at <= ?2 ORDER BY started_at DESC, turn DESC LIMIT 1",
        )?;
        let turn = statement.query_row(params![head.key, time], read_turn).optional()?;
        Ok(turn.filter(|turn| turn.ended_at.is_none_or(|ended| time <= ended)))
    }

    /// Returns the text of a message, unless its content is structured.
    pub fn prompt(&self, session: &str, seq: i64) -> Result<Option<String>, LedgerError> {
        let connection = self.database.reader()?;
        let head = head(connection, session)?;
        let mut statement = connection.prepare_cached(
            "SELECT content FROM messages WHERE session = ?1 AND seq = ?2 AND NOT structured",
        )?;
        Ok(statement.query_row(params![head.key, seq], |row| row.get(0)).optional()?.flatten())
    }

    /// Returns the point in a conversation at which a call of a turn began. The point is before the
    /// first message that names the call, or else before the turn's first message since the call
    /// began. If there is no such message either, the point is the end of the turn.
    pub fn point_of_call(
        &self,
        turn: &Turn,
        call: &CallId<'_>,
    ) -> Result<ConversationPoint, LedgerError> {
        let connection = self.database.reader()?;
        let head = head(connection, call.session)?;
        let mut statement = connection.prepare_cached(
            "SELECT ifnull(
                 min(seq) FILTER (WHERE tool_call_id = ?4 OR instr(tool_calls, ?5)),
                 min(seq) FILTER (WHERE timestamp >= ?6)), max(seq)
             FROM messages WHERE session = ?1 AND turn = ?2 AND seq > ?3",
        )?;
        let quoted = Value::from(call.call).to_string();
        let parameters =
            params![head.key, turn.turn, turn.first_seq, call.call, quoted, call.began];
        let (first, last): (Option<i64>, Option<i64>) =
            statement.query_row(parameters, |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(match first {
            Some(first) => ConversationPoint::BeforeMessage(first),
            None => ConversationPoint::AfterMessage(last.unwrap_or(turn.first_seq)),
        })
    }
}

/// Finds the turn whose messages name a call, if there is exactly one such turn.
fn find_naming_turn(
    connection: &Connection,
    owner: i64,
    call: &CallId<'_>,
) -> Result<Option<i64>, LedgerError> {
    if !is_named_by_messages(call) {
        return Ok(None);
    }
    let mut statement = connection.prepare_cached(
        "SELECT min(turn), max(turn) FROM messages
         WHERE session = ?1 AND (tool_call_id = ?2 OR instr(tool_calls, ?3))",
    )?;
    let quoted = Value::from(call.call).to_string();
    let (first, last): (Option<i64>, Option<i64>) = statement
        .query_row(params![owner, call.call, quoted], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(first.filter(|_| first == last))
}

/// True if the messages of the call's session may name the call.
pub(crate) fn is_named_by_messages(call: &CallId<'_>) -> bool {
    call.reporter == call.session && !call.call.is_empty()
}

/// Finds the turn that a call was recorded in. Returns 0 if the call was recorded outside any turn,
/// and `None` if the turn is unknown.
fn find_recorded_turn(
    connection: &Connection,
    owner: i64,
    call: &CallId<'_>,
) -> Result<Option<i64>, LedgerError> {
    // The start time distinguishes calls with the same id.
    let recorded = connection
        .prepare_cached(
            "SELECT c.id, c.turn, c.owner_turn FROM calls c JOIN sessions s ON s.key = c.session
             WHERE s.id = ?1 AND c.call = ?2 AND (c.started_at = ?3 OR ?4)",
        )?
        .query_row(params![call.reporter, call.call, call.began, call.late], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, Option<i64>>(2)?))
        })
        .optional()?;
    let Some((id, turn, owner_turn)) = recorded else { return Ok(None) };
    if call.reporter == call.session {
        return Ok(Some(turn));
    }
    if owner_turn.is_some() {
        return Ok(owner_turn);
    }
    // Ledgers older than version 3 did not record the parent's turn for a subagent's call, so take
    // the turn of the parent's latest call before this one.
    let of_parent = connection
        .prepare_cached(
            "SELECT turn FROM calls WHERE session = ?1 AND id < ?2 ORDER BY id DESC LIMIT 1",
        )?
        .query_row([owner, id], |row| row.get(0))
        .optional()?;
    Ok(of_parent)
}

/// Finds the turn whose prompt has exactly this time.
fn find_prompted_turn(
    connection: &Connection,
    owner: i64,
    prompted: Time,
) -> Result<Option<i64>, LedgerError> {
    let mut statement = connection
        .prepare_cached("SELECT max(turn) FROM turns WHERE session = ?1 AND started_at = ?2")?;
    Ok(statement.query_row(params![owner, prompted], |row| row.get(0))?)
}

/// Finds the turn that a session is in. Returns 0 if it is not in any turn.
pub(crate) fn find_current_turn(
    connection: &Connection,
    head: &SessionHead,
) -> Result<i64, LedgerError> {
    let mut statement = connection.prepare_cached(
        "SELECT ended_at IS NOT NULL FROM turns WHERE session = ?1 AND turn = ?2",
    )?;
    let is_over: Option<bool> =
        statement.query_row([head.key, head.last_turn], |row| row.get(0)).optional()?;
    Ok(if is_over == Some(true) { 0 } else { head.last_turn })
}

/// Finds the current turn of the topmost session that a subagent works for. Returns `None` if the
/// session is not a subagent's, or if no turn is running.
pub(crate) fn find_owner_turn(
    connection: &Connection,
    session: &str,
) -> Result<Option<i64>, LedgerError> {
    let mut statement = connection.prepare_cached(
        "WITH RECURSIVE above(id, parent, depth) AS (
             SELECT id, parent_session_id, 0 FROM sessions
             WHERE id = ?1 AND parent_kind = 'subagent'
             UNION ALL
             SELECT s.id, CASE s.parent_kind WHEN 'subagent' THEN s.parent_session_id END, depth + 1
             FROM above JOIN sessions s ON s.id = above.parent WHERE depth < 20)
         SELECT id FROM above WHERE depth > 0 ORDER BY depth DESC LIMIT 1",
    )?;
    let owner: Option<String> = statement.query_row([session], |row| row.get(0)).optional()?;
    let Some(owner) = owner else { return Ok(None) };
    let turn = find_current_turn(connection, &head(connection, &owner)?)?;
    Ok(Some(turn).filter(|turn| *turn > 0))
}

/// Reads the turn with this number.
pub(crate) fn read_numbered(
    connection: &Connection,
    key: i64,
    number: i64,
) -> Result<Option<Turn>, LedgerError> {
    let sql = "SELECT turn, first_seq, started_at, ended_at, undone FROM turns
               WHERE session = ?1 AND turn = ?2";
    Ok(connection.prepare_cached(sql)?.query_row([key, number], read_turn).optional()?)
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

/// Recounts the messages and tool calls of a session.
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

/// Ends the current turn of a session, unless it has already ended.
pub(crate) fn end_turn(
    transaction: &Transaction<'_>,
    session: &str,
    now: Time,
) -> Result<(), LedgerError> {
    let head = head(transaction, session)?;
    let sql = "UPDATE turns SET ended_at = ifnull(ended_at, ?3) WHERE session = ?1 AND turn = ?2";
    transaction.prepare_cached(sql)?.execute(params![head.key, head.last_turn, now])?;
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

/// Assigns all calls and effects since the given time to the turns in which they happened. A log
/// can report a turn after hooks have reported its calls.
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
