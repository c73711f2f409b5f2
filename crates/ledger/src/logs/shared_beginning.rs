//! Forks that agents make themselves: a log that begins with the messages of another session.
//!
//! Such a session becomes a fork of the other one in the ledger, with the shared messages under the
//! same numbers, so that a search finds each of them once. Shared messages are recognized only by
//! the agent's own ids. The fork inherits messages only until its log contains a message that is
//! not shared.

use rusqlite::{OptionalExtension, Transaction, params};

use super::placement::find_last_confirmed;
use super::{LogEntry, LogFact};
use crate::messages::{self, StoredMessage};
use crate::sessions::SessionHead;
use crate::{LedgerError, MessageRecord, Time};

/// A message that two sessions have in common.
struct SharedMessage<'a> {
    origin: &'a str,
    /// The number of the message in the other session.
    seq: i64,
}

/// The facts about a session whose log is being read.
struct Reader<'t> {
    transaction: &'t Transaction<'t>,
    key: i64,
    id: String,
    source: String,
    /// The session of which this one is known to be a fork, and the number of the last message that
    /// both have.
    parent: Option<String>,
    inherited: i64,
}

/// Makes a session a fork if its log begins with messages of another session. `entries` are the
/// next entries of the log.
pub(super) fn inherit_beginning(
    transaction: &Transaction<'_>,
    key: i64,
    entries: &[&LogEntry],
    now: Time,
) -> Result<(), LedgerError> {
    let Some(reader) = Reader::new(transaction, key)? else { return Ok(()) };
    let named = entries.iter().find_map(|entry| match &entry.fact {
        LogFact::ForkedFrom { parent, before } => Some((parent.as_str(), *before)),
        _ => None,
    });
    if let Some((parent, before)) = named {
        return reader.inherit_named(parent, before, now);
    }
    let messages: Vec<&LogEntry> = entries
        .iter()
        .filter(|entry| matches!(entry.fact, LogFact::Message(_) | LogFact::Summary(_)))
        .copied()
        .collect();
    let mut best: (Option<i64>, Vec<SharedMessage<'_>>) = (None, Vec::new());
    for parent in reader.find_candidates(&messages)? {
        let shared = reader.find_shared(parent, &messages)?;
        if shared.len() > best.1.len() {
            best = (Some(parent), shared);
        }
    }
    let (Some(parent), shared) = best else { return Ok(()) };
    let seqs: Vec<i64> = shared.iter().map(|shared| shared.seq).collect();
    reader.inherit(parent, &seqs, now)?;
    for SharedMessage { origin, seq } in &shared {
        reader.remember(origin, Some(*seq))?;
    }
    // The cost of the shared messages was already counted in the other session.
    let is_shared = |entry: &&&LogEntry| match entry.fact {
        LogFact::Message(_) | LogFact::Summary(_) => {
            shared.iter().any(|shared| shared.origin == entry.origin)
        }
        _ => true,
    };
    for entry in entries.iter().take_while(is_shared) {
        if let LogFact::Usage(_) = entry.fact {
            reader.remember(&entry.origin, None)?;
        }
    }
    Ok(())
}

impl<'t> Reader<'t> {
    /// Reads the facts about a session. Returns `None` if the session cannot become a fork or
    /// inherit further messages. This is the case if its log has messages of its own, if it is a
    /// subagent's session or a continuation, or if it was rewound.
    fn new(transaction: &'t Transaction<'t>, key: i64) -> Result<Option<Self>, LedgerError> {
        let sql = "SELECT id, source, parent_session_id, ifnull(parent_kind, 'fork') = 'fork',
                       inherited, EXISTS (SELECT 1 FROM undos WHERE session = ?1)
                   FROM sessions WHERE key = ?1";
        let (reader, can_be_fork) = transaction.prepare_cached(sql)?.query_row([key], |row| {
            let (id, source) = (row.get(0)?, row.get(1)?);
            let (parent, inherited) = (row.get(2)?, row.get(4)?);
            let can_be_fork = row.get::<_, bool>(3)? && !row.get::<_, bool>(5)?;
            Ok((Reader { transaction, key, id, source, parent, inherited }, can_be_fork))
        })?;
        let is_at_its_beginning = find_last_confirmed(transaction, key)? == reader.inherited;
        Ok((can_be_fork && is_at_its_beginning).then_some(reader))
    }

    /// Finds the sessions that contain the log's first message.
    fn find_candidates(&self, messages: &[&LogEntry]) -> Result<Vec<i64>, LedgerError> {
        // Some agents use an entry's line number as its id. Then equal ids prove nothing.
        let Some(first) = messages.first().filter(|first| !is_position(&first.origin)) else {
            return Ok(Vec::new());
        };
        let mut statement = self.transaction.prepare_cached(
            "SELECT s.key FROM sessions s CROSS JOIN origins o
                 ON o.session = s.key AND o.origin = ?1 AND o.seq IS NOT NULL
             WHERE s.source = ?2 AND s.key <> ?3 AND (?4 IS NULL OR s.id = ?4)
                 AND (?5 IS NULL OR (s.started_at <= ?5 AND s.last_activity >= ?5))
             ORDER BY s.key",
        )?;
        let (parent, time) = (&self.parent, first.time);
        let rows = statement
            .query_map(params![first.origin, self.source, self.key, parent, time], |row| {
                row.get(0)
            })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Finds the messages that the beginning of the log shares with another session, in the same
    /// order.
    fn find_shared<'e>(
        &self,
        parent: i64,
        messages: &[&'e LogEntry],
    ) -> Result<Vec<SharedMessage<'e>>, LedgerError> {
        let mut statement = self.transaction.prepare_cached(
            "SELECT o.seq, m.role FROM origins o JOIN messages m
                 ON m.session = o.session AND m.seq = o.seq
             WHERE o.session = ?1 AND o.origin = ?2",
        )?;
        let (mut shared, mut last) = (Vec::new(), self.inherited);
        for entry in messages {
            let (LogFact::Message(message) | LogFact::Summary(message)) = &entry.fact else {
                break;
            };
            let found: Option<(i64, String)> = statement
                .query_row(params![parent, entry.origin], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            match found {
                Some((seq, role)) if seq > last && role == message.role => {
                    last = seq;
                    shared.push(SharedMessage { origin: &entry.origin, seq });
                }
                // Agents log a message again when it has grown.
                Some((seq, _)) if seq <= last => {}
                _ => break,
            }
        }
        Ok(shared)
    }

    /// Inherits messages from the session that the log names as the parent: those before line
    /// `before` of the parent's log. They are missing from this session's own log.
    fn inherit_named(&self, parent: &str, before: u64, now: Time) -> Result<(), LedgerError> {
        if self.inherited > 0 || self.parent.as_deref().is_some_and(|known| known != parent) {
            return Ok(());
        }
        let key: Option<i64> = self
            .transaction
            .prepare_cached("SELECT key FROM sessions WHERE id = ?1")?
            .query_row([parent], |row| row.get(0))
            .optional()?;
        let mut shared: Vec<(i64, String)> = Vec::new();
        if let Some(key) = key {
            let mut statement = self.transaction.prepare_cached(
                "SELECT seq, origin FROM origins
                 WHERE session = ?1 AND seq IS NOT NULL AND origin LIKE '#%'
                     AND CAST(substr(origin, 2) AS INTEGER) < ?2 ORDER BY seq",
            )?;
            let rows = statement
                .query_map(params![key, before as i64], |row| Ok((row.get(0)?, row.get(1)?)))?;
            shared = rows.collect::<Result<_, _>>()?;
        }
        let Some(key) = key.filter(|_| !shared.is_empty()) else {
            return self.set_parent(parent, 0);
        };
        let mut seqs: Vec<i64> = shared.iter().map(|(seq, _)| *seq).collect();
        seqs.dedup();
        self.inherit(key, &seqs, now)?;
        for (seq, origin) in &shared {
            self.remember(origin, Some(*seq))?;
        }
        Ok(())
    }

    /// Copies messages of another session, with their numbers, and puts them before the messages
    /// that hooks have reported.
    fn inherit(&self, parent: i64, seqs: &[i64], now: Time) -> Result<(), LedgerError> {
        let Some(last) = seqs.last().copied() else { return Ok(()) };
        let mut stored: Vec<StoredMessage> = messages::read_all(self.transaction, parent)?;
        stored.retain(|stored| seqs.contains(&stored.message.seq));
        stored.iter_mut().for_each(|stored| stored.message.undone = false);
        let begins_turn =
            |message: &MessageRecord| message.role == "user" && message.summarizes.is_none();
        let turns = stored.iter().filter(|stored| begins_turn(&stored.message)).count() as i64;
        let turn = self.find_inherited_turn()?;
        let (last_seq, last_turn) = self.make_room(last - self.inherited, turns, turn)?;
        let head = SessionHead { key: self.key, last_seq: self.inherited, last_turn: turn };
        messages::copy_messages(self.transaction, head, stored.into_iter(), now)?;
        let sql = "UPDATE sessions SET last_seq = max(last_seq, ?2), last_turn = max(last_turn, ?3)
                   WHERE key = ?1";
        self.transaction.prepare_cached(sql)?.execute([self.key, last_seq, last_turn])?;
        let sql = "SELECT id FROM sessions WHERE key = ?1";
        let parent: String =
            self.transaction.prepare_cached(sql)?.query_row([parent], |row| row.get(0))?;
        self.set_parent(&parent, last)
    }

    /// Returns the number of the last turn among the messages that are already inherited.
    fn find_inherited_turn(&self) -> Result<i64, LedgerError> {
        let sql = "SELECT ifnull(max(turn), 0) FROM messages WHERE session = ?1 AND seq <= ?2";
        let mut statement = self.transaction.prepare_cached(sql)?;
        Ok(statement.query_row([self.key, self.inherited], |row| row.get(0))?)
    }

    /// Moves the messages and turns after the inherited ones to higher numbers. Returns the numbers
    /// of the last message and of the last turn.
    fn make_room(&self, seqs: i64, turns: i64, turn: i64) -> Result<(i64, i64), LedgerError> {
        for (table, column, by, after) in [
            ("messages", "seq", seqs, self.inherited),
            ("turns", "first_seq", seqs, self.inherited),
            ("turns", "turn", turns, turn),
            ("messages", "turn", turns, turn),
            ("calls", "turn", turns, turn),
            ("effects", "turn", turns, turn),
        ] {
            // A number must be free when it is assigned, so the rows are first given negative
            // numbers.
            let away = format!(
                "UPDATE {table} SET {column} = -({column} + ?2)
                 WHERE session = ?1 AND {column} > ?3"
            );
            let back = format!(
                "UPDATE {table} SET {column} = -{column} WHERE session = ?1 AND {column} < 0"
            );
            self.transaction.execute(&away, params![self.key, by, after])?;
            self.transaction.execute(&back, [self.key])?;
        }
        let sql = "UPDATE calls SET owner_turn = owner_turn + ?2
                   WHERE owner_turn > ?3 AND session IN (
                       SELECT key FROM sessions WHERE parent_session_id = ?1)";
        self.transaction.execute(sql, params![self.id, turns, turn])?;
        let sql =
            "SELECT ifnull(max(seq), 0), ifnull(max(turn), 0) FROM messages WHERE session = ?1";
        let mut statement = self.transaction.prepare_cached(sql)?;
        Ok(statement.query_row([self.key], |row| Ok((row.get(0)?, row.get(1)?)))?)
    }

    fn set_parent(&self, parent: &str, inherited: i64) -> Result<(), LedgerError> {
        let sql = "UPDATE sessions SET parent_session_id = ?2, parent_kind = 'fork', inherited = ?3
                   WHERE key = ?1";
        self.transaction.prepare_cached(sql)?.execute(params![self.key, parent, inherited])?;
        Ok(())
    }

    fn remember(&self, origin: &str, seq: Option<i64>) -> Result<(), LedgerError> {
        let sql = "INSERT OR IGNORE INTO origins (session, seq, origin) VALUES (?1, ?2, ?3)";
        self.transaction.prepare_cached(sql)?.execute(params![self.key, seq, origin])?;
        Ok(())
    }
}

/// True if the agent's id for an entry is only the entry's position in the log.
fn is_position(origin: &str) -> bool {
    origin.starts_with(['#', '@'])
}
