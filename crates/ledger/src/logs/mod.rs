//! Importing agents' own logs of their conversations. Every entry is imported once, at its position
//! in the conversation. A message that a hook has already reported is not added again.
//!
//! Two mechanisms keep entries from being imported twice. First, the log's bookmark is moved in the
//! same transaction that imports the entries, and only if no other process has moved it. Second,
//! the ledger remembers each entry's origin, which is the agent's own id for it. Rereading a log
//! from its beginning therefore adds nothing. If an agent logs a message again with more content,
//! the stored message grows.

mod growth;
mod placement;
mod shared_beginning;
mod weave;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde_json::Value;

use self::placement::LogMessage;
use self::shared_beginning::inherit_beginning;
use crate::sessions::{head, parse_json, upsert_session};
use crate::{
    ForkLog, Ledger, LedgerError, MessageRecord, SessionRecord, Time, UsageRecord, calls, mask,
    usage,
};

/// The position up to which a log has been read.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Bookmark {
    /// The path of the log.
    pub log: String,
    /// The agent that writes the log.
    pub agent: String,
    /// The number of bytes that have been read or, for a database, the number of messages.
    pub offset: u64,
    /// A fingerprint by which the reader recognizes the log.
    pub identity: String,
    /// The state that the reader needs to continue.
    pub state: Value,
}

/// A part of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogPage {
    /// The position where the page begins; `None` if no part of the log has been read before.
    pub from: Option<Bookmark>,
    /// The position where the page ends.
    pub to: Bookmark,
    /// The entries, in order.
    pub entries: Vec<LogEntry>,
}

/// An entry of a log.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct LogEntry {
    /// The id of the session in the ledger.
    pub session: String,
    /// The agent's own id for the entry, unique in its session.
    pub origin: String,
    pub time: Option<Time>,
    pub fact: LogFact,
}

/// A fact that an entry in a log states.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum LogFact {
    /// Information about the session.
    Session(Box<SessionRecord>),
    Message(Box<MessageRecord>),
    /// A message that summarizes the conversation so far.
    Summary(Box<MessageRecord>),
    Usage(Box<UsageRecord>),
    /// The log continues the log of another session. The lines before line `before` are only in the
    /// other log.
    ForkedFrom {
        parent: String,
        before: u64,
    },
    /// A tool call has ended.
    Outcome {
        call: String,
        outcome: String,
    },
}

/// The sessions and messages that were imported from a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogIntake {
    /// The ids of the sessions that the entries belong to.
    pub sessions: BTreeSet<String>,
    /// The ids of the sessions that are new.
    pub new_sessions: BTreeSet<String>,
    /// The number of messages that were added.
    pub messages: usize,
}

impl LogIntake {
    /// Adds the sessions and messages of another page.
    pub fn add(&mut self, other: LogIntake) {
        self.sessions.extend(other.sessions);
        self.new_sessions.extend(other.new_sessions);
        self.messages += other.messages;
    }
}

impl Ledger {
    /// Returns the position up to which a log has been read.
    pub fn bookmark(&self, log: &str) -> Result<Option<Bookmark>, LedgerError> {
        find_bookmark(self.database.reader()?, log)
    }

    /// Returns the bookmarks of the logs that were read most recently.
    pub fn bookmarks(&self, limit: usize) -> Result<Vec<Bookmark>, LedgerError> {
        let connection = self.database.reader()?;
        let sql = format!("{SELECT_BOOKMARK} ORDER BY read_at DESC, id DESC LIMIT ?1");
        let mut statement = connection.prepare_cached(&sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map([limit], read_bookmark)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Imports a page of a log. Returns `None`, and imports nothing, if another process has already
    /// read past the beginning of the page.
    pub fn take_in_page(
        &mut self,
        page: &LogPage,
        now: Time,
    ) -> Result<Option<LogIntake>, LedgerError> {
        let masked = self.redact.then(|| mask_page(page));
        let page = masked.as_ref().unwrap_or(page);
        let taken = self.database.write(|transaction| take_in_page(transaction, page, now))?;
        self.index_after_bulk(taken.as_ref().map_or(0, |taken| taken.messages));
        Ok(taken)
    }
}

fn mask_page(page: &LogPage) -> LogPage {
    let mut page = page.clone();
    for entry in &mut page.entries {
        match &mut entry.fact {
            LogFact::Session(record) => mask::mask_session(record),
            LogFact::Message(message) | LogFact::Summary(message) => mask::mask_message(message),
            LogFact::Outcome { outcome, .. } => mask::mask_text(outcome),
            LogFact::Usage(usage) => mask::mask_usage(usage),
            LogFact::ForkedFrom { .. } => {}
        }
    }
    page
}

fn take_in_page(
    transaction: &Transaction<'_>,
    page: &LogPage,
    now: Time,
) -> Result<Option<LogIntake>, LedgerError> {
    if find_bookmark(transaction, &page.to.log)? != page.from {
        return Ok(None);
    }
    let mut taken = LogIntake::default();
    let ids: BTreeSet<&str> = page.entries.iter().map(|entry| entry.session.as_str()).collect();
    for id in ids {
        let entries: Vec<&LogEntry> =
            page.entries.iter().filter(|entry| entry.session == id).collect();
        // A fact that arrives late must not recreate a deleted session.
        let has_only_facts = entries.iter().all(|entry| matches!(entry.fact, LogFact::Session(_)));
        let goes_on = page.from.as_ref().is_some_and(|from| from.offset > 0);
        if has_only_facts && goes_on && head(transaction, id).is_err() {
            continue;
        }
        let record = collect_session(id, &page.to.agent, &entries);
        if upsert_session(transaction, &record, now)? {
            taken.new_sessions.insert(id.to_owned());
        }
        taken.sessions.insert(id.to_owned());
        taken.messages += take_in_session(transaction, &record, &entries, now)?;
    }
    save_bookmark(transaction, &page.to, now)?;
    Ok(Some(taken))
}

/// Collects everything that a page of a log says about a session. If a field has several values,
/// the first one is kept, as it is when the log is read in smaller pages.
fn collect_session(id: &str, agent: &str, entries: &[&LogEntry]) -> SessionRecord {
    let mut all = SessionRecord {
        id: id.to_owned(),
        source: agent.to_owned(),
        started_at: entries.iter().filter_map(|entry| entry.time).min(),
        ..SessionRecord::default()
    };
    for entry in entries {
        let LogFact::Session(more) = &entry.fact else { continue };
        let SessionRecord { model, title, workspace, git_branch, .. } = &**more;
        for (have, more) in [
            (&mut all.model, model),
            (&mut all.title, title),
            (&mut all.workspace, workspace),
            (&mut all.git_branch, git_branch),
            (&mut all.parent_session_id, &more.parent_session_id),
        ] {
            if have.is_none() {
                have.clone_from(more);
            }
        }
        all.parent_kind = all.parent_kind.or(more.parent_kind);
    }
    all
}

/// Imports the entries of one session. Returns the number of new messages.
fn take_in_session(
    transaction: &Transaction<'_>,
    record: &SessionRecord,
    entries: &[&LogEntry],
    now: Time,
) -> Result<usize, LedgerError> {
    let id = &record.id;
    let key = head(transaction, id)?.key;
    let mut time = record.started_at.unwrap_or(now);
    transaction
        .prepare_cached("UPDATE sessions SET started_at = ?2 WHERE key = ?1 AND started_at > ?2")?
        .execute(params![key, time])?;
    inherit_beginning(transaction, key, entries, now)?;
    let mut messages: Vec<LogMessage<'_>> = Vec::new();
    let mut index_of = HashMap::new();
    for entry in entries {
        // An entry without a time gets the time of the entry before it.
        time = entry.time.unwrap_or(time);
        let is_new = || remember_origin(transaction, key, &entry.origin);
        match &entry.fact {
            LogFact::Session(_) | LogFact::ForkedFrom { .. } => {}
            LogFact::Message(message) | LogFact::Summary(message) if is_new()? => {
                let is_summary = matches!(entry.fact, LogFact::Summary(_));
                let message = Cow::Borrowed(&**message);
                index_of.insert(entry.origin.as_str(), messages.len());
                messages.push(LogMessage { origin: &entry.origin, time, message, is_summary });
            }
            LogFact::Message(later) => match index_of.get(entry.origin.as_str()) {
                Some(index) => {
                    let first = &mut messages[*index].message;
                    if let Some(grown) = growth::merge_later(first, later) {
                        *first = Cow::Owned(grown);
                    }
                }
                None => growth::grow_message(transaction, key, &entry.origin, later)?,
            },
            LogFact::Usage(usage) if is_new()? => {
                let seen = Some(time);
                let usage = UsageRecord { first_seen: seen, last_seen: seen, ..(**usage).clone() };
                usage::record_usage(transaction, id, &usage, now)?;
            }
            LogFact::Outcome { call, outcome } => {
                calls::conclude_call(transaction, key, call, outcome, time)?;
            }
            LogFact::Summary(_) | LogFact::Usage(_) => {}
        }
    }
    placement::place_messages(transaction, id, &messages, now)
}

/// Remembers which entries of a fork's log are already in the ledger: those whose messages the fork
/// has in common with its parent.
pub(crate) fn adopt_pages(
    transaction: &Transaction<'_>,
    parent: i64,
    key: i64,
    log: &ForkLog<'_>,
    now: Time,
) -> Result<(), LedgerError> {
    let mut find = transaction.prepare_cached(
        "SELECT m.seq FROM origins o JOIN messages m ON m.session = ?2 AND m.seq = o.seq
         WHERE o.session = ?1 AND o.origin = ?3",
    )?;
    let mut add = transaction.prepare_cached(
        "INSERT OR IGNORE INTO origins (session, seq, origin) VALUES (?1, ?2, ?3)",
    )?;
    for entry in log.pages.iter().flat_map(|page| &page.entries) {
        let is_message = match &entry.fact {
            LogFact::Message(_) | LogFact::Summary(_) => true,
            LogFact::Usage(_) => false,
            LogFact::Session(_) | LogFact::ForkedFrom { .. } | LogFact::Outcome { .. } => continue,
        };
        let old = log.original_origin(&entry.origin);
        let seq: Option<i64> =
            find.query_row(params![parent, key, old], |row| row.get(0)).optional()?;
        if is_message && seq.is_none() {
            // This message is new in the fork, so the log must be read. Without a bookmark, the log
            // is read from the beginning, and known entries are not added again.
            return Ok(());
        }
        add.execute(params![key, seq, entry.origin])?;
    }
    log.pages.iter().try_for_each(|page| save_bookmark(transaction, &page.to, now))
}

impl ForkLog<'_> {
    /// Translates the id of an entry to the entry's id in the parent's log. An entry may have
    /// parts. The ids of the parts begin with the id of the entry.
    fn original_origin<'o>(&self, origin: &'o str) -> Cow<'o, str> {
        let (entry, part) = origin.split_at(origin.find('/').unwrap_or(origin.len()));
        match self.origins.and_then(|origins| origins.get(entry)) {
            Some(old) => Cow::Owned(format!("{old}{part}")),
            None => Cow::Borrowed(origin),
        }
    }
}

/// A message of a session, with the agent's own id for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct MessageOrigin {
    pub seq: i64,
    pub turn: i64,
    pub role: String,
    /// The agent's own id; `None` if the message has not been found in the agent's log.
    pub origin: Option<String>,
    /// True if the message was taken back.
    pub undone: bool,
    /// True if the session is a fork, and the message was copied from its parent.
    pub inherited: bool,
}

impl Ledger {
    /// Lists the messages of a session in order, with the agent's own ids for them.
    pub fn message_origins(&self, id: &str) -> Result<Vec<MessageOrigin>, LedgerError> {
        let connection = self.database.reader()?;
        let key = head(connection, id)?.key;
        let mut statement = connection.prepare_cached(
            "SELECT m.seq, m.role, m.undone <> 0, m.seq <= s.inherited, m.turn,
                 (SELECT o.origin FROM origins o WHERE o.session = m.session AND o.seq = m.seq
                  ORDER BY o.id LIMIT 1)
             FROM messages m JOIN sessions s ON s.key = m.session
             WHERE m.session = ?1 ORDER BY m.seq",
        )?;
        let rows = statement.query_map([key], |row| {
            let (seq, role, turn, origin) = (row.get(0)?, row.get(1)?, row.get(4)?, row.get(5)?);
            let (undone, inherited) = (row.get(2)?, row.get(3)?);
            Ok(MessageOrigin { seq, turn, role, origin, undone, inherited })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// Remembers that an entry was imported. Returns false if it had been imported before.
fn remember_origin(
    transaction: &Transaction<'_>,
    key: i64,
    origin: &str,
) -> Result<bool, LedgerError> {
    let added = transaction
        .prepare_cached("INSERT OR IGNORE INTO origins (session, origin) VALUES (?1, ?2)")?
        .execute(params![key, origin])?;
    Ok(added == 1)
}

const SELECT_BOOKMARK: &str = "SELECT log, agent, offset, identity, state FROM bookmarks";

fn find_bookmark(connection: &Connection, log: &str) -> Result<Option<Bookmark>, LedgerError> {
    let sql = format!("{SELECT_BOOKMARK} WHERE log = ?1");
    Ok(connection.prepare_cached(&sql)?.query_row([log], read_bookmark).optional()?)
}

fn read_bookmark(row: &rusqlite::Row<'_>) -> rusqlite::Result<Bookmark> {
    let state: String = row.get(4)?;
    let offset: i64 = row.get(2)?;
    Ok(Bookmark {
        log: row.get(0)?,
        agent: row.get(1)?,
        offset: offset.unsigned_abs(),
        identity: row.get(3)?,
        state: parse_json(&state),
    })
}

fn save_bookmark(
    transaction: &Transaction<'_>,
    bookmark: &Bookmark,
    now: Time,
) -> Result<(), LedgerError> {
    let Bookmark { log, agent, offset, identity, state } = bookmark;
    transaction
        .prepare_cached(
            "INSERT INTO bookmarks (log, agent, offset, read_at, identity, state)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (log) DO UPDATE SET
                 agent = excluded.agent, offset = excluded.offset, read_at = excluded.read_at,
                 identity = excluded.identity, state = excluded.state",
        )?
        .execute(params![
            log,
            agent,
            i64::try_from(*offset).unwrap_or(i64::MAX),
            now,
            identity,
            state.to_string()
        ])?;
    Ok(())
}
