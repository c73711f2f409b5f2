//! Turns, and taking them back; tool calls, effects, notices.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, named_params, params};
use serde_json::Value;

use crate::sessions::{head, parse};
use crate::{CallRecord, EffectRecord, Ledger, LedgerError, Redactor, Time, mask};

/// One message of the user's and all the work that it caused.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// From 1.
    pub turn: i64,
    /// Its first message.
    pub first_seq: i64,
    /// When it began.
    pub started_at: Time,
    /// When it was over, if somebody told.
    pub ended_at: Option<Time>,
    /// Whether it was taken back.
    pub undone: bool,
}

/// What an undo or a redo of a conversation did.
#[derive(Clone, Debug, PartialEq)]
pub struct Undone {
    /// How many messages it took.
    pub messages: usize,
    /// How many turns.
    pub turns: usize,
    /// The first of the messages.
    pub from_seq: i64,
    /// What the user had said there.
    pub prompt: Option<String>,
}

/// Something that the agent of a session has to be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// Its number in the ledger.
    pub id: i64,
    /// When it was written.
    pub created_at: Time,
    /// What it says.
    pub body: Value,
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

    /// The last turn is over. The first time counts.
    pub fn end_turn(&mut self, session: &str, now: Time) -> Result<(), LedgerError> {
        self.database.write(|transaction| end_turn(transaction, session, now))
    }

    /// Takes back the last `turns` turns of a conversation: their messages are marked, not deleted.
    pub fn undo_turns(
        &mut self,
        session: &str,
        turns: usize,
        now: Time,
    ) -> Result<Undone, LedgerError> {
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
                Some(from_seq) => undo_from(transaction, session, from_seq, now),
                None => Err(LedgerError::NothingToUndo(session.to_owned())),
            }
        })
    }

    /// Takes back everything from a message on.
    pub fn undo_from(
        &mut self,
        session: &str,
        from_seq: i64,
        now: Time,
    ) -> Result<Undone, LedgerError> {
        self.database.write(|transaction| undo_from(transaction, session, from_seq, now))
    }

    /// Takes back the latest undo that was not redone, unless the conversation went on since.
    pub fn redo(&mut self, session: &str, now: Time) -> Result<Undone, LedgerError> {
        self.redo_of(session, None, now)
    }

    /// The same, but only if that undo was made at a certain time.
    pub fn redo_of(
        &mut self,
        session: &str,
        made: Option<Time>,
        now: Time,
    ) -> Result<Undone, LedgerError> {
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
            let is_it = |time: Time| made.is_none_or(|made| made == time);
            let Some((number, from_seq, last_seq, _)) = latest.filter(|undo| is_it(undo.3)) else {
                return Err(LedgerError::NothingToRedo(session.to_owned()));
            };
            if last_seq != head.last_seq {
                return Err(LedgerError::WentOn(session.to_owned()));
            }
            transaction.execute(
                "UPDATE undos SET redone_at = ?3 WHERE session = ?1 AND number = ?2",
                params![head.key, number, now],
            )?;
            let outcome = mark(transaction, head.key, from_seq, number, 0)?;
            recount(transaction, head.key)?;
            Ok(outcome)
        })
    }

    /// Records a tool call, or fills in what is not known of it yet.
    pub fn record_call(&mut self, session: &str, call: &CallRecord) -> Result<(), LedgerError> {
        let mut call = call.clone();
        if self.redact {
            mask::call(&mut call);
        }
        self.database.write(|transaction| record_call(transaction, session, &call))
    }

    /// The tool calls of a session, in order.
    pub fn calls(&self, session: &str) -> Result<Vec<CallRecord>, LedgerError> {
        let connection = self.database.reader()?;
        calls(connection, head(connection, session)?.key)
    }

    /// Records something that no rollback reverses.
    pub fn record_effect(
        &mut self,
        session: &str,
        effect: &EffectRecord,
        now: Time,
    ) -> Result<(), LedgerError> {
        let mut effect = effect.clone();
        if self.redact {
            mask::effect(&mut effect);
        }
        self.database.write(|transaction| record_effect(transaction, session, &effect, now))
    }

    /// The effects of a session, in order.
    pub fn effects(&self, session: &str) -> Result<Vec<EffectRecord>, LedgerError> {
        let connection = self.database.reader()?;
        effects(connection, head(connection, session)?.key)
    }

    /// The effects in a workspace since some time, of all sessions, in order.
    pub fn effects_in(
        &self,
        workspace: &str,
        since: Time,
    ) -> Result<Vec<EffectRecord>, LedgerError> {
        let connection = self.database.reader()?;
        let mut statement = connection.prepare_cached(
            "SELECT * FROM effects WHERE workspace = ?1 AND time >= ?2 ORDER BY time, id",
        )?;
        let rows = statement.query_map(params![workspace, since], read_effect)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The same, each with its session.
    pub fn effects_of(
        &self,
        workspace: &str,
        since: Time,
    ) -> Result<Vec<(String, EffectRecord)>, LedgerError> {
        let connection = self.database.reader()?;
        let mut statement = connection.prepare_cached(
            "SELECT e.*, s.id AS session_id FROM effects e JOIN sessions s ON s.key = e.session
             WHERE e.workspace = ?1 AND e.time >= ?2 ORDER BY e.time, e.id",
        )?;
        let rows = statement.query_map(params![workspace, since], |row| {
            Ok((row.get("session_id")?, read_effect(row)?))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The turn that a session was in at some time; `None` if there was none yet, or it was over.
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

    /// What the user said in a message.
    pub fn prompt(&self, session: &str, seq: i64) -> Result<Option<String>, LedgerError> {
        let connection = self.database.reader()?;
        let head = head(connection, session)?;
        let mut statement = connection.prepare_cached(
            "SELECT content FROM messages WHERE session = ?1 AND seq = ?2 AND NOT structured",
        )?;
        Ok(statement.query_row(params![head.key, seq], |row| row.get(0)).optional()?.flatten())
    }

    /// The first message of a turn that has to do with a call or came after it began; `None` if
    /// none does.
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

    /// How many messages an undo from a message on would take.
    pub fn count_from(&self, session: &str, from_seq: i64) -> Result<usize, LedgerError> {
        let connection = self.database.reader()?;
        let head = head(connection, session)?;
        let count: i64 = connection.query_row(
            "SELECT count(*) FROM messages WHERE session = ?1 AND seq >= ?2 AND NOT undone",
            params![head.key, from_seq],
            |row| row.get(0),
        )?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Everything that is known of one workspace is of another path from now on.
    pub fn move_workspace(&mut self, from: &str, to: &str) -> Result<(), LedgerError> {
        self.database.write(|transaction| {
            for table in ["sessions", "calls", "effects"] {
                let sql = format!("UPDATE {table} SET workspace = ?2 WHERE workspace = ?1");
                transaction.execute(&sql, params![from, to])?;
            }
            Ok(())
        })
    }

    /// Leaves a notice for the agent of a session.
    pub fn add_notice(
        &mut self,
        session: &str,
        body: &Value,
        now: Time,
    ) -> Result<i64, LedgerError> {
        let mut body = body.clone();
        if self.redact {
            Redactor::shared().json(&mut body);
        }
        self.database.write(|transaction| {
            let key = head(transaction, session)?.key;
            transaction.execute(
                "INSERT INTO notices (session, created_at, body) VALUES (?1, ?2, ?3)",
                params![key, now, body.to_string()],
            )?;
            Ok(transaction.last_insert_rowid())
        })
    }

    /// Whether somebody left a notice: a look without writing.
    pub fn has_notices(&self, session: &str) -> Result<bool, LedgerError> {
        let connection = self.database.reader()?;
        let mut statement = connection.prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM notices n JOIN sessions s ON s.key = n.session
             WHERE s.id = ?1 AND n.delivered_at IS NULL)",
        )?;
        Ok(statement.query_row([session], |row| row.get(0))?)
    }

    /// Takes the notices of a session that nobody has taken, each once.
    pub fn take_notices(&mut self, session: &str, now: Time) -> Result<Vec<Notice>, LedgerError> {
        self.database.write(|transaction| {
            let key = head(transaction, session)?.key;
            let mut statement = transaction.prepare_cached(
                "UPDATE notices SET delivered_at = ?2 WHERE session = ?1 AND delivered_at IS NULL
                 RETURNING id, created_at, body",
            )?;
            let rows = statement.query_map(params![key, now], |row| {
                let body: String = row.get(2)?;
                Ok(Notice { id: row.get(0)?, created_at: row.get(1)?, body: parse(&body) })
            })?;
            let mut notices = rows.collect::<Result<Vec<_>, _>>()?;
            notices.sort_by_key(|notice| notice.id);
            Ok(notices)
        })
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

fn undo_from(
    transaction: &Transaction<'_>,
    session: &str,
    from_seq: i64,
    now: Time,
) -> Result<Undone, LedgerError> {
    let head = head(transaction, session)?;
    let number: i64 = transaction.query_row(
        "SELECT ifnull(max(number), 0) + 1 FROM undos WHERE session = ?1",
        [head.key],
        |row| row.get(0),
    )?;
    // 1 marks what was undone elsewhere and came in as such: no undo of ours is ever redone for it.
    let number = number.max(2);
    let outcome = mark(transaction, head.key, from_seq, 0, number)?;
    if outcome.messages == 0 {
        return Err(LedgerError::NothingToUndo(session.to_owned()));
    }
    transaction.execute(
        "INSERT INTO undos (session, number, from_seq, last_seq, time) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![head.key, number, from_seq, head.last_seq, now],
    )?;
    recount(transaction, head.key)?;
    Ok(outcome)
}

/// Changes the mark of the messages and turns from `from_seq` on that have the mark `old`.
fn mark(
    transaction: &Transaction<'_>,
    key: i64,
    from_seq: i64,
    old: i64,
    new: i64,
) -> Result<Undone, LedgerError> {
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
    Ok(Undone { messages, turns, from_seq, prompt })
}

/// The counts of a session from its messages.
pub(crate) fn recount(connection: &Connection, key: i64) -> Result<(), LedgerError> {
    connection.execute(
        "UPDATE sessions SET (message_count, tool_call_count) = (
             SELECT count(*), ifnull(sum(call_count), 0) FROM messages
             WHERE session = ?1 AND NOT undone)
         WHERE key = ?1",
        [key],
    )?;
    Ok(())
}

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

pub(crate) fn record_call(
    transaction: &Transaction<'_>,
    session: &str,
    call: &CallRecord,
) -> Result<(), LedgerError> {
    let head = head(transaction, session)?;
    let turn = if call.turn == 0 { head.last_turn } else { call.turn };
    transaction
        .prepare_cached(
            "INSERT INTO calls (
                 session, turn, call, tool, outcome, started_at, ended_at, workspace, checkpoint,
                 tree_before, tree_after, uncertain, input)
             VALUES (
                 :session, :turn, :call, :tool, :outcome, :started_at, :ended_at, :workspace,
                 :checkpoint, :tree_before, :tree_after, :uncertain, :input)
             ON CONFLICT (session, call) DO UPDATE SET
                 tool = CASE tool WHEN '' THEN excluded.tool ELSE tool END,
                 outcome = ifnull(outcome, excluded.outcome),
                 started_at = ifnull(started_at, excluded.started_at),
                 ended_at = ifnull(ended_at, excluded.ended_at),
                 workspace = ifnull(workspace, excluded.workspace),
                 checkpoint = ifnull(checkpoint, excluded.checkpoint),
                 tree_before = ifnull(tree_before, excluded.tree_before),
                 tree_after = ifnull(tree_after, excluded.tree_after),
                 uncertain = uncertain OR excluded.uncertain,
                 input = ifnull(input, excluded.input)",
        )?
        .execute(named_params! {
            ":session": head.key,
            ":turn": turn,
            ":call": call.call,
            ":tool": call.tool,
            ":outcome": call.outcome,
            ":started_at": call.started_at,
            ":ended_at": call.ended_at,
            ":workspace": call.workspace,
            ":checkpoint": call.checkpoint,
            ":tree_before": call.tree_before,
            ":tree_after": call.tree_after,
            ":uncertain": call.uncertain,
            ":input": call.input.as_ref().map(Value::to_string),
        })?;
    Ok(())
}

/// What became of a call, if it is known that there was one and not yet what became of it.
pub(crate) fn conclude_call(
    transaction: &Transaction<'_>,
    key: i64,
    call: &str,
    outcome: &str,
    ended_at: Time,
) -> Result<(), LedgerError> {
    transaction
        .prepare_cached(
            "UPDATE calls SET outcome = ifnull(outcome, ?3), ended_at = ifnull(ended_at, ?4)
             WHERE session = ?1 AND call = ?2",
        )?
        .execute(params![key, call, outcome, ended_at])?;
    Ok(())
}

/// A message was taken back by an undo, and so was the turn that it begins.
pub(crate) fn mark_as(
    transaction: &Transaction<'_>,
    key: i64,
    seq: i64,
    undo: i64,
) -> Result<(), LedgerError> {
    for sql in [
        "UPDATE messages SET undone = ?3 WHERE session = ?1 AND seq = ?2",
        "UPDATE turns SET undone = ?3 WHERE session = ?1 AND first_seq = ?2",
    ] {
        transaction.prepare_cached(sql)?.execute([key, seq, undo])?;
    }
    Ok(())
}

/// Turns from some time on became known: calls and effects belong to those that they happened in.
pub(crate) fn assign(
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

pub(crate) fn record_effect(
    transaction: &Transaction<'_>,
    session: &str,
    effect: &EffectRecord,
    now: Time,
) -> Result<(), LedgerError> {
    let head = head(transaction, session)?;
    let turn = if effect.turn == 0 { head.last_turn } else { effect.turn };
    transaction
        .prepare_cached(
            // A hook that was cut off reports the same again.
            "INSERT INTO effects (session, turn, call, kind, command, workspace, time)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE NOT EXISTS (
                 SELECT 1 FROM effects WHERE session = ?1 AND call = ?3 AND kind = ?4
                     AND command = ?5)",
        )?
        .execute(params![
            head.key,
            turn,
            effect.call,
            effect.kind,
            effect.command,
            effect.workspace,
            effect.time.unwrap_or(now)
        ])?;
    Ok(())
}

pub(crate) fn calls(connection: &Connection, key: i64) -> Result<Vec<CallRecord>, LedgerError> {
    let mut statement =
        connection.prepare_cached("SELECT * FROM calls WHERE session = ?1 ORDER BY id")?;
    let rows = statement.query_map([key], |row| {
        let input: Option<String> = row.get("input")?;
        Ok(CallRecord {
            call: row.get("call")?,
            turn: row.get("turn")?,
            tool: row.get("tool")?,
            input: input.as_deref().map(parse),
            outcome: row.get("outcome")?,
            started_at: row.get("started_at")?,
            ended_at: row.get("ended_at")?,
            workspace: row.get("workspace")?,
            checkpoint: row.get("checkpoint")?,
            tree_before: row.get("tree_before")?,
            tree_after: row.get("tree_after")?,
            uncertain: row.get("uncertain")?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(crate) fn effects(connection: &Connection, key: i64) -> Result<Vec<EffectRecord>, LedgerError> {
    let mut statement =
        connection.prepare_cached("SELECT * FROM effects WHERE session = ?1 ORDER BY id")?;
    let rows = statement.query_map([key], read_effect)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn read_effect(row: &Row<'_>) -> rusqlite::Result<EffectRecord> {
    Ok(EffectRecord {
        turn: row.get("turn")?,
        call: row.get("call")?,
        kind: row.get("kind")?,
        command: row.get("command")?,
        workspace: row.get("workspace")?,
        time: row.get("time")?,
    })
}
