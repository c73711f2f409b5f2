//! Writing a batch to the database. All rows of one kind are written with one statement.

use std::borrow::Cow;
use std::collections::HashMap;

use postgres::Transaction;
use sha2::{Digest, Sha256};
use takeback_base::hex;
use takeback_ledger::{
    CallChange, Change, EffectsChange, MessageChange, OutboxBatch, SessionChange, Time, TurnChange,
    UsageChange, UsageRecord,
};

use crate::seal::{Place, Sealer};

/// Writes a batch. `machine` holds this machine's key in the database and its id.
pub(crate) fn apply_batch(
    transaction: &mut Transaction<'_>,
    batch: &OutboxBatch,
    machine: (i32, &str),
    sealer: &Sealer,
) -> Result<(), postgres::Error> {
    let mut sorted = Sorted::default();
    batch.changes.iter().for_each(|change| sorted.add(change));
    if !batch.deleted.is_empty() {
        let deleted: Vec<_> = batch.deleted.iter().map(|id| column_id(id)).collect();
        transaction.execute(
            "DELETE FROM takeback.sessions WHERE machine = $1 AND id = ANY ($2)",
            &[&machine.0, &deleted],
        )?;
    }
    if !batch.deleted_tasks.is_empty() {
        // If another machine has taken over a task, this machine must no longer delete the task.
        transaction.execute(
            "DELETE FROM takeback.tasks WHERE machine = $1 AND id = ANY ($2)",
            &[&machine.0, &batch.deleted_tasks],
        )?;
    }
    write_sessions(transaction, &sorted.sessions, machine, sealer)?;
    let mut writer = Writer { transaction, machine, sealer, keys: HashMap::new() };
    writer.find_keys(&batch.changes)?;
    writer.write_messages(&sorted.messages)?;
    writer.write_turns(&sorted.turns)?;
    writer.write_calls(&sorted.calls)?;
    writer.write_effects(&sorted.effects)?;
    writer.write_usage(&sorted.usage)
}

/// The changes of a batch, by kind.
#[derive(Default)]
struct Sorted<'b> {
    sessions: Vec<&'b SessionChange>,
    messages: Vec<&'b MessageChange>,
    turns: Vec<&'b TurnChange>,
    calls: Vec<&'b CallChange>,
    effects: Vec<&'b EffectsChange>,
    usage: Vec<&'b UsageChange>,
}

impl<'b> Sorted<'b> {
    fn add(&mut self, change: &'b Change) {
        match change {
            Change::Session(change) => self.sessions.push(change),
            Change::Message(change) => self.messages.push(change),
            Change::Turn(change) => self.turns.push(change),
            Change::Call(change) => self.calls.push(change),
            Change::Effects(change) => self.effects.push(change),
            Change::Usage(change) => self.usage.push(change),
        }
    }
}

/// Returns the id of the session that a change belongs to.
fn session_of(change: &Change) -> &str {
    match change {
        Change::Session(change) => &change.session.id,
        Change::Message(change) => &change.session,
        Change::Turn(change) => &change.session,
        Change::Call(change) => &change.session,
        Change::Effects(change) => &change.session,
        Change::Usage(change) => &change.session,
    }
}

/// Returns an id in the form in which it is stored in a column. Ids that PostgreSQL cannot store or
/// index are replaced by their digests.
pub(crate) fn column_id(id: &str) -> Cow<'_, str> {
    const LONGEST: usize = 512;
    if id.len() <= LONGEST && !id.contains('\0') {
        return Cow::Borrowed(id);
    }
    Cow::Owned(format!("sha256:{}", hex::encode(&Sha256::digest(id.as_bytes()))))
}

/// Returns text in a form that a column can hold. PostgreSQL cannot store NUL, so NUL is replaced
/// here; the encoded record keeps it.
fn column_text(text: &str) -> String {
    text.replace('\0', "\u{2400}")
}

/// Formats tokens as a `tsvector`. Returns `None` if they do not fit into one.
fn to_tsvector(tokens: &str) -> Option<String> {
    /// A `tsvector` must be shorter than 1 MiB.
    const LONGEST: usize = 900_000;
    if tokens.len() > LONGEST {
        return None;
    }
    let mut vector = String::with_capacity(tokens.len() * 2);
    for token in tokens.split(' ').filter(|token| !token.is_empty() && !token.contains('\0')) {
        vector.push('\'');
        vector.push_str(&token.replace('\\', "\\\\").replace('\'', "''"));
        vector.push_str("' ");
    }
    Some(vector)
}

/// Writes the sessions of a batch.
fn write_sessions(
    transaction: &mut Transaction<'_>,
    changes: &[&SessionChange],
    (key, machine): (i32, &str),
    sealer: &Sealer,
) -> Result<(), postgres::Error> {
    if changes.is_empty() {
        return Ok(());
    }
    let text = |select: fn(&SessionChange) -> Option<&str>| -> Vec<Option<String>> {
        changes.iter().map(|change| select(change).map(column_text)).collect()
    };
    let number = |select: fn(&SessionChange) -> i64| -> Vec<i64> {
        changes.iter().map(|change| select(change)).collect()
    };
    let cost = |select: fn(&SessionChange) -> Option<f64>| -> Vec<Option<f64>> {
        changes.iter().map(|change| select(change)).collect()
    };
    let mut workspaces = text(|change| change.session.workspace.as_deref());
    if sealer.seals() {
        workspaces.fill(None);
    }
    let ids: Vec<_> = changes.iter().map(|change| column_id(&change.session.id)).collect();
    let parents = changes.iter().map(|change| change.session.parent_session_id.as_deref());
    let parents: Vec<_> = parents.map(|parent| parent.map(column_id)).collect();
    let archived: Vec<bool> = changes.iter().map(|change| change.session.archived).collect();
    let started = number(|change| change.session.started_at.unwrap_or(change.last_activity).0);
    let record = |change: &&SessionChange| {
        let session = &change.session;
        let id = column_id(&session.id);
        let place = Place { machine, session: &id, table: "sessions", row: (0, 0) };
        sealer.encode(session, place)
    };
    transaction.execute(
        UPSERT_SESSIONS,
        &[
            &key,
            &ids,
            &text(|change| Some(&change.session.source)),
            &text(|change| change.session.model.as_deref()),
            &workspaces,
            &parents,
            &number(|change| change.inherited),
            &archived,
            &started,
            &number(|change| change.last_activity.0),
            &number(|change| change.session.message_count),
            &number(|change| change.session.tool_call_count),
            &number(|change| change.session.api_call_count),
            &number(|change| change.session.tokens.input),
            &number(|change| change.session.tokens.output),
            &number(|change| change.session.tokens.cache_read),
            &number(|change| change.session.tokens.cache_write),
            &number(|change| change.session.tokens.reasoning),
            &cost(|change| change.session.estimated_cost_usd),
            &cost(|change| change.session.actual_cost_usd),
            &changes.iter().map(record).collect::<Vec<_>>(),
        ],
    )?;
    Ok(())
}

const UPSERT_SESSIONS: &str = "
    INSERT INTO takeback.sessions AS s (
        machine, id, source, model, workspace, parent, inherited, archived, started_at,
        last_activity, message_count, tool_call_count, api_call_count, input_tokens, output_tokens,
        cache_read_tokens, cache_write_tokens, reasoning_tokens, estimated_cost_usd,
        actual_cost_usd, record)
    SELECT $1, g.* FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[],
        $7::bigint[], $8::boolean[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[],
        $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[],
        $19::double precision[], $20::double precision[], $21::bytea[]) AS g
    ON CONFLICT (machine, id) DO UPDATE SET (
        source, model, workspace, parent, inherited, archived, started_at, last_activity,
        message_count, tool_call_count, api_call_count, input_tokens, output_tokens,
        cache_read_tokens, cache_write_tokens, reasoning_tokens, estimated_cost_usd,
        actual_cost_usd, record) = (
        excluded.source, excluded.model, excluded.workspace, excluded.parent, excluded.inherited,
        excluded.archived, excluded.started_at, excluded.last_activity, excluded.message_count,
        excluded.tool_call_count, excluded.api_call_count, excluded.input_tokens,
        excluded.output_tokens, excluded.cache_read_tokens, excluded.cache_write_tokens,
        excluded.reasoning_tokens, excluded.estimated_cost_usd, excluded.actual_cost_usd,
        excluded.record)";

/// Writes the rows that belong to sessions.
struct Writer<'t, 'c> {
    transaction: &'t mut Transaction<'c>,
    machine: (i32, &'t str),
    sealer: &'t Sealer,
    /// The keys of the sessions, by id.
    keys: HashMap<String, i64>,
}

impl Writer<'_, '_> {
    fn find_keys(&mut self, changes: &[Change]) -> Result<(), postgres::Error> {
        let mut ids: Vec<&str> = changes.iter().map(session_of).collect();
        ids.sort_unstable();
        ids.dedup();
        let columns: Vec<Cow<'_, str>> = ids.iter().map(|id| column_id(id)).collect();
        let rows = self.transaction.query(
            "SELECT id, key FROM takeback.sessions WHERE machine = $1 AND id = ANY ($2)",
            &[&self.machine.0, &columns],
        )?;
        let by_column: HashMap<&str, i64> =
            rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        for (id, column) in ids.iter().zip(&columns) {
            if let Some(key) = by_column.get(column.as_ref()) {
                self.keys.insert((*id).to_owned(), *key);
            }
        }
        Ok(())
    }

    /// Encodes a row of a session.
    fn encode<T: serde::Serialize>(
        &self,
        value: &T,
        session: &str,
        table: &'static str,
        row: (i64, i64),
    ) -> Vec<u8> {
        let session = &column_id(session);
        self.sealer.encode(value, Place { machine: self.machine.1, session, table, row })
    }

    /// Returns the key of a session. A session is always shipped before its rows; if a session is
    /// missing nevertheless, its rows are left out until the session is shipped again.
    fn key(&self, session: &str) -> Option<i64> {
        self.keys.get(session).copied()
    }

    fn write_messages(&mut self, changes: &[&MessageChange]) -> Result<(), postgres::Error> {
        let (mut keys, mut seqs, mut turns, mut times) = (vec![], vec![], vec![], vec![]);
        let (mut roles, mut undone, mut words, mut records) = (vec![], vec![], vec![], vec![]);
        let mut gone = (vec![], vec![]);
        for MessageChange { session, seq, message } in changes {
            let Some(key) = self.key(session) else { continue };
            let Some(row) = message else {
                gone.0.push(key);
                gone.1.push(*seq);
                continue;
            };
            keys.push(key);
            seqs.push(*seq);
            turns.push(row.turn);
            roles.push(column_text(&row.message.role));
            times.push(row.message.timestamp.map_or(0, |Time(time)| time));
            undone.push(row.message.undone);
            words.push(if self.sealer.seals() { None } else { to_tsvector(&row.tokens) });
            records.push(self.encode(&row.message, session, "messages", (*seq, 0)));
        }
        if !gone.0.is_empty() {
            self.transaction.execute(
                "DELETE FROM takeback.messages m USING unnest($1::bigint[], $2::bigint[]) AS g (k, s)
                 WHERE m.session = g.k AND m.seq = g.s",
                &[&gone.0, &gone.1],
            )?;
        }
        if !keys.is_empty() {
            self.transaction.execute(
                UPSERT_MESSAGES,
                &[&keys, &seqs, &turns, &roles, &times, &undone, &words, &records],
            )?;
        }
        Ok(())
    }

    fn write_turns(&mut self, changes: &[&TurnChange]) -> Result<(), postgres::Error> {
        let (mut all_keys, mut all_numbers) = (vec![], vec![]);
        let (mut keys, mut numbers, mut firsts) = (vec![], vec![], vec![]);
        let (mut started, mut ended, mut undone) = (vec![], vec![], vec![]);
        for TurnChange { session, number, turn } in changes {
            let Some(key) = self.key(session) else { continue };
            all_keys.push(key);
            all_numbers.push(*number);
            if let Some(turn) = turn {
                keys.push(key);
                numbers.push(*number);
                firsts.push(turn.first_seq);
                started.push(turn.started_at.0);
                ended.push(turn.ended_at.map(|Time(time)| time));
                undone.push(turn.undone);
            }
        }
        if all_keys.is_empty() {
            return Ok(());
        }
        self.transaction.execute(
            "DELETE FROM takeback.turns t USING unnest($1::bigint[], $2::bigint[]) AS g (k, n)
             WHERE t.session = g.k AND t.turn = g.n",
            &[&all_keys, &all_numbers],
        )?;
        self.transaction.execute(
            "INSERT INTO takeback.turns (session, turn, first_seq, started_at, ended_at, undone)
             SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
                 $5::bigint[], $6::boolean[])",
            &[&keys, &numbers, &firsts, &started, &ended, &undone],
        )?;
        Ok(())
    }

    fn write_calls(&mut self, changes: &[&CallChange]) -> Result<(), postgres::Error> {
        let (mut keys, mut calls, mut turns, mut records) = (vec![], vec![], vec![], vec![]);
        let (mut all_keys, mut all_calls) = (vec![], vec![]);
        for CallChange { session, id, call } in changes {
            let Some(key) = self.key(session) else { continue };
            all_keys.push(key);
            all_calls.push(column_id(id));
            if let Some(call) = call {
                keys.push(key);
                calls.push(column_id(id));
                turns.push(call.turn);
                records.push(self.encode(call, session, "calls", (call.turn, 0)));
            }
        }
        if all_keys.is_empty() {
            return Ok(());
        }
        self.transaction.execute(
            "DELETE FROM takeback.calls c USING unnest($1::bigint[], $2::text[]) AS g (k, c)
             WHERE c.session = g.k AND c.call = g.c",
            &[&all_keys, &all_calls],
        )?;
        self.transaction.execute(
            "INSERT INTO takeback.calls (session, call, turn, record)
             SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bytea[])",
            &[&keys, &calls, &turns, &records],
        )?;
        Ok(())
    }

    fn write_effects(&mut self, changes: &[&EffectsChange]) -> Result<(), postgres::Error> {
        let (mut all_keys, mut all_turns) = (vec![], vec![]);
        let (mut keys, mut turns) = (vec![], vec![]);
        let (mut positions, mut records) = (vec![], vec![]);
        for EffectsChange { session, turn, effects } in changes {
            let Some(key) = self.key(session) else { continue };
            all_keys.push(key);
            all_turns.push(*turn);
            for (position, effect) in (0_i32..).zip(effects) {
                keys.push(key);
                turns.push(*turn);
                positions.push(position);
                let row = (*turn, i64::from(position));
                records.push(self.encode(effect, session, "effects", row));
            }
        }
        if all_keys.is_empty() {
            return Ok(());
        }
        self.transaction.execute(
            "DELETE FROM takeback.effects e USING unnest($1::bigint[], $2::bigint[]) AS g (k, t)
             WHERE e.session = g.k AND e.turn = g.t",
            &[&all_keys, &all_turns],
        )?;
        self.transaction.execute(
            "INSERT INTO takeback.effects (session, turn, position, record)
             SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::integer[], $4::bytea[])",
            &[&keys, &turns, &positions, &records],
        )?;
        Ok(())
    }

    fn write_usage(&mut self, changes: &[&UsageChange]) -> Result<(), postgres::Error> {
        let (mut all_keys, mut keys, mut positions) = (vec![], vec![], vec![]);
        let (mut rows, mut records) = (vec![], vec![]);
        for UsageChange { session, usage } in changes {
            let Some(key) = self.key(session) else { continue };
            all_keys.push(key);
            for (position, usage) in (0_i32..).zip(usage) {
                keys.push(key);
                positions.push(position);
                rows.push(usage);
                records.push(self.encode(usage, session, "usage", (i64::from(position), 0)));
            }
        }
        if all_keys.is_empty() {
            return Ok(());
        }
        self.transaction
            .execute("DELETE FROM takeback.usage WHERE session = ANY ($1)", &[&all_keys])?;
        let number = |select: fn(&UsageRecord) -> i64| -> Vec<i64> {
            rows.iter().map(|usage| select(usage)).collect()
        };
        let cost = |select: fn(&UsageRecord) -> Option<f64>| -> Vec<Option<f64>> {
            rows.iter().map(|usage| select(usage)).collect()
        };
        self.transaction.execute(
            INSERT_USAGE,
            &[
                &keys,
                &positions,
                &rows.iter().map(|usage| column_text(&usage.model)).collect::<Vec<_>>(),
                &number(|usage| usage.api_call_count),
                &number(|usage| usage.tokens.input),
                &number(|usage| usage.tokens.output),
                &number(|usage| usage.tokens.cache_read),
                &number(|usage| usage.tokens.cache_write),
                &number(|usage| usage.tokens.reasoning),
                &cost(|usage| usage.estimated_cost_usd),
                &cost(|usage| usage.actual_cost_usd),
                &records,
            ],
        )?;
        Ok(())
    }
}

const INSERT_USAGE: &str = "
    INSERT INTO takeback.usage (
        session, position, model, api_call_count, input_tokens, output_tokens, cache_read_tokens,
        cache_write_tokens, reasoning_tokens, estimated_cost_usd, actual_cost_usd, record)
    SELECT * FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::bigint[], $5::bigint[],
        $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::double precision[],
        $11::double precision[], $12::bytea[])";

const UPSERT_MESSAGES: &str = "
    INSERT INTO takeback.messages AS m (
        session, seq, turn, role, time, undone, words, record)
    SELECT g.session, g.seq, g.turn, g.role, g.time, g.undone, g.words::tsvector, g.record
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::boolean[],
        $7::text[], $8::bytea[]) AS g (session, seq, turn, role, time, undone, words, record)
    ON CONFLICT (session, seq) DO UPDATE SET (turn, role, time, undone, words, record) = (
        excluded.turn, excluded.role, excluded.time, excluded.undone, excluded.words,
        excluded.record)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_fits_into_a_column() {
        assert_eq!(column_id("claude:a"), "claude:a");
        let (long, longer) = ("x".repeat(513), "x".repeat(514));
        assert_eq!(column_id(&long).len(), 71);
        assert_ne!(column_id(&long), column_id(&longer));
        assert!(!column_id("a\0b").contains('\0'));
    }

    #[test]
    fn tokens_are_quoted() {
        assert_eq!(to_tsvector("a b' \\ ").unwrap(), "'a' 'b''' '\\\\' ");
        assert_eq!(to_tsvector(&"x ".repeat(500_000)), None);
    }
}
