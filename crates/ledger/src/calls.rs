//! Tool calls, and the effects that no rollback reverses.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, named_params, params};
use serde_json::Value;

use crate::sessions::{head, parse_json};
use crate::turns::{find_current_turn, find_owner_turn};
use crate::{CallId, CallRecord, EffectRecord, Ledger, LedgerError, Time};

/// Inserts an effect, unless it was recorded before. The same effect is reported again if a hook is
/// cut off and then run again, or if a session is imported twice. Two effects without a call can be
/// told apart only by their times.
const INSERT_EFFECT: &str = "
    INSERT INTO effects (session, turn, call, kind, command, workspace, time)
    SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7
    WHERE NOT EXISTS (
        SELECT 1 FROM effects
        WHERE session = ?1 AND call = ?3 AND kind = ?4 AND command = ?5)
    AND NOT EXISTS (
        SELECT 1 FROM effects
        WHERE ?3 IS NULL AND session = ?1 AND call IS NULL AND time = ?7
            AND kind = ?4 AND command = ?5)";

/// A point in the order of calls.
pub enum Moment<'a> {
    /// The start of a call.
    Start(CallId<'a>),
    /// A point between the starts of two calls; `None` for an unknown call.
    Between(Option<CallId<'a>>, Option<CallId<'a>>),
}

impl Ledger {
    /// Returns the effects that all sessions have had in a workspace since the given point, in
    /// order. The order of the calls determines which effects came after the point. Where that
    /// order is not known, the time of an effect is compared with `time`.
    pub fn effects_since(
        &self,
        workspace: &str,
        moment: &Moment<'_>,
        time: Time,
    ) -> Result<Vec<EffectRecord>, LedgerError> {
        let connection = self.database.reader()?;
        let find = |call: &Option<CallId<'_>>| match call {
            Some(call) => find_call(connection, call),
            None => Ok(None),
        };
        // Calls are numbered in the order in which they were reported.
        let (last, next) = match moment {
            Moment::Start(call) => {
                let first = find_call(connection, call)?;
                (first.map(|first| first - 1), first)
            }
            Moment::Between(last, next) => (find(last)?, find(next)?),
        };
        let mut statement = connection.prepare_cached(
            "SELECT e.* FROM effects e
             LEFT JOIN calls c ON c.session = e.session AND c.call = e.call
             WHERE e.workspace = ?1 AND CASE
                 WHEN c.id >= ?3 THEN 1 WHEN c.id <= ?2 THEN 0 ELSE e.time >= ?4 END
             ORDER BY e.id",
        )?;
        let rows = statement.query_map(params![workspace, last, next, time], read_effect)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Returns the effects that all sessions have had in a workspace, in order. Each comes with the
    /// id of its session and the number of its turn, or 0 if it belongs to no turn.
    pub fn effects_with_sessions(
        &self,
        workspace: &str,
    ) -> Result<Vec<(String, i64, EffectRecord)>, LedgerError> {
        let connection = self.database.reader()?;
        let mut statement = connection.prepare_cached(
            "SELECT e.*, s.id AS session_id, ifnull(c.turn, e.turn) AS call_turn FROM effects e
             JOIN sessions s ON s.key = e.session
             LEFT JOIN calls c ON c.session = e.session AND c.call = e.call
             WHERE e.workspace = ?1 ORDER BY e.id",
        )?;
        let rows = statement.query_map(params![workspace], |row| {
            Ok((row.get("session_id")?, row.get("call_turn")?, read_effect(row)?))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Returns the calls that changed files in a workspace during one turn of a session, or during
    /// the whole session if no turn is given. Each call is returned as a pair: the id of the
    /// session that made it, and its own id. Includes the calls of subagents.
    pub fn changing_calls(
        &self,
        session: &str,
        turn: Option<i64>,
        workspace: &str,
    ) -> Result<Vec<(String, String)>, LedgerError> {
        let connection = self.database.reader()?;
        head(connection, session)?;
        let mut statement = connection.prepare_cached(
            "WITH RECURSIVE below(key, id) AS (
                 SELECT key, id FROM sessions WHERE id = ?1
                 UNION
                 SELECT s.key, s.id FROM below JOIN sessions s
                     ON s.parent_session_id = below.id AND s.parent_kind = 'subagent')
             SELECT b.id, c.call FROM calls c JOIN below b ON b.key = c.session
             WHERE c.workspace = ?3 AND c.tree_before IS NOT c.tree_after
               AND c.tree_after IS NOT NULL
               AND (?2 IS NULL OR ?2 = CASE b.id WHEN ?1 THEN c.turn ELSE c.owner_turn END)
             ORDER BY c.id",
        )?;
        let rows = statement
            .query_map(params![session, turn, workspace], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Returns the agents whose hooks reported the end of a call that changed files.
    pub fn agents_that_report_ends(&self) -> Result<BTreeSet<String>, LedgerError> {
        let connection = self.database.reader()?;
        let mut statement = connection.prepare_cached(
            "SELECT DISTINCT source FROM sessions s WHERE EXISTS (
                 SELECT 1 FROM calls WHERE session = s.key AND tree_after IS NOT NULL)",
        )?;
        let rows = statement.query_map([], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Moves everything that is recorded for one workspace to another path.
    pub fn move_workspace(&mut self, from: &str, to: &str) -> Result<(), LedgerError> {
        self.database.write(|transaction| {
            for table in ["sessions", "calls", "effects", "tasks"] {
                let sql = format!("UPDATE {table} SET workspace = ?2 WHERE workspace = ?1");
                transaction.execute(&sql, params![from, to])?;
            }
            // Notices that were already delivered keep the old path.
            transaction.execute(
                "UPDATE notices SET body = json_set(body, '$.workspace', ?2)
                 WHERE delivered_at IS NULL AND json_valid(body)
                   AND json_extract(body, '$.workspace') = ?1",
                params![from, to],
            )?;
            Ok(())
        })
    }
}

/// Finds the number of a call. A call with the same id but a different start time is a different
/// call.
fn find_call(connection: &Connection, call: &CallId<'_>) -> Result<Option<i64>, LedgerError> {
    let mut statement = connection.prepare_cached(
        "SELECT c.id FROM calls c JOIN sessions s ON s.key = c.session
         WHERE s.id = ?1 AND c.call = ?2 AND (c.started_at = ?3 OR ?4)",
    )?;
    let parameters = params![call.reporter, call.call, call.began, call.late];
    Ok(statement.query_row(parameters, |row| row.get(0)).optional()?)
}

/// Records a tool call, or fills in fields that were not known before.
pub(crate) fn record_call(
    transaction: &Transaction<'_>,
    session: &str,
    call: &CallRecord,
) -> Result<(), LedgerError> {
    let head = head(transaction, session)?;
    let turn = if call.turn == 0 { find_current_turn(transaction, &head)? } else { call.turn };
    transaction
        .prepare_cached(
            "INSERT INTO calls (
                 session, turn, call, tool, outcome, started_at, ended_at, workspace, checkpoint,
                 tree_before, tree_after, uncertain, input, owner_turn)
             VALUES (
                 :session, :turn, :call, :tool, :outcome, :started_at, :ended_at, :workspace,
                 :checkpoint, :tree_before, :tree_after, :uncertain, :input, :owner_turn)
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
            ":owner_turn": find_owner_turn(transaction, session)?,
        })?;
    Ok(())
}

/// Records the outcome of a known call, unless it already has one.
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

/// Records an effect.
pub(crate) fn record_effect(
    transaction: &Transaction<'_>,
    session: &str,
    effect: &EffectRecord,
    now: Time,
) -> Result<(), LedgerError> {
    let head = head(transaction, session)?;
    let turn = if effect.turn == 0 { head.last_turn } else { effect.turn };
    transaction.prepare_cached(INSERT_EFFECT)?.execute(params![
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

/// Reads the tool calls of a session, in order.
pub(crate) fn read_calls(
    connection: &Connection,
    key: i64,
) -> Result<Vec<CallRecord>, LedgerError> {
    let mut statement =
        connection.prepare_cached("SELECT * FROM calls WHERE session = ?1 ORDER BY id")?;
    let rows = statement.query_map([key], read_call)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Reads the tool call with this id.
pub(crate) fn read_one_call(
    connection: &Connection,
    key: i64,
    call: &str,
) -> Result<Option<CallRecord>, LedgerError> {
    let sql = "SELECT * FROM calls WHERE session = ?1 AND call = ?2";
    Ok(connection.prepare_cached(sql)?.query_row(params![key, call], read_call).optional()?)
}

fn read_call(row: &Row<'_>) -> rusqlite::Result<CallRecord> {
    let input: Option<String> = row.get("input")?;
    Ok(CallRecord {
        call: row.get("call")?,
        turn: row.get("turn")?,
        tool: row.get("tool")?,
        input: input.as_deref().map(parse_json),
        outcome: row.get("outcome")?,
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
        workspace: row.get("workspace")?,
        checkpoint: row.get("checkpoint")?,
        tree_before: row.get("tree_before")?,
        tree_after: row.get("tree_after")?,
        uncertain: row.get("uncertain")?,
    })
}

/// Reads the effects of a turn, in order.
pub(crate) fn read_effects_of_turn(
    connection: &Connection,
    key: i64,
    turn: i64,
) -> Result<Vec<EffectRecord>, LedgerError> {
    let mut statement = connection
        .prepare_cached("SELECT * FROM effects WHERE session = ?1 AND turn = ?2 ORDER BY id")?;
    let rows = statement.query_map([key, turn], read_effect)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Reads the effects of a session, in order.
pub(crate) fn read_effects(
    connection: &Connection,
    key: i64,
) -> Result<Vec<EffectRecord>, LedgerError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    #[test]
    fn a_new_effect_is_compared_only_with_effects_of_the_same_call_or_the_same_time() {
        let connection = Connection::open_in_memory().unwrap();
        schema::bring_up_to_date(&connection, 0).unwrap();
        let mut statement =
            connection.prepare(&format!("EXPLAIN QUERY PLAN {INSERT_EFFECT}")).unwrap();
        let unbound = [Option::<i64>::None; 7];
        let rows = statement
            .query_map(rusqlite::params_from_iter(unbound), |row| row.get::<_, String>("detail"));
        let plan: Vec<String> = rows.unwrap().map(Result::unwrap).collect();
        let reads: Vec<&String> = plan.iter().filter(|step| step.contains("effects")).collect();
        let [by_call, by_time] = reads[..] else { panic!("{plan:?}") };
        assert!(by_call.contains("effects_call (session=? AND call=?"), "{by_call}");
        assert!(by_time.contains("effects_call (session=? AND call=? AND time=?"), "{by_time}");
    }
}
