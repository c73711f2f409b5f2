//! What agents' own logs of their conversations bring in: every entry once, in its place, and
//! nothing that a hook has told already.
//!
//! Two things keep it at once. How far a log was read is written in the same transaction as what
//! was read, and only by whoever went on from there. And each entry's origin, the agent's own name
//! for it, is remembered, so that a log that is read again from its beginning adds nothing. What
//! an agent writes again because more of it is known becomes more here, too.

mod grow;
mod place;
mod weave;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde_json::Value;

use self::place::Said;
use crate::sessions::{self, head, parse};
use crate::{
    Ledger, LedgerError, MessageRecord, Redactor, SessionRecord, Time, UsageRecord, mask, turns,
    usage,
};

/// How far a log has been read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bookmark {
    /// Which log: its path.
    pub log: String,
    /// Whose log.
    pub agent: String,
    /// So many bytes.
    pub offset: u64,
    /// What tells that it is still the same log.
    pub identity: String,
    /// What its reader has to know to go on.
    pub state: Value,
}

/// A part of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogPage {
    /// Where it begins; none at the beginning of a log that was never read.
    pub from: Option<Bookmark>,
    /// Where it ends.
    pub to: Bookmark,
    /// What is in it, in order.
    pub entries: Vec<LogEntry>,
}

/// Something in a log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    /// The session it belongs to, as the ledger calls it.
    pub session: String,
    /// The agent's own name for it, the only one in its session.
    pub origin: String,
    /// When it was written.
    pub time: Option<Time>,
    /// What it says.
    pub told: Told,
}

/// What an entry of a log says.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// More is known about the session.
    Session(Box<SessionRecord>),
    /// Somebody said something.
    Message(Box<MessageRecord>),
    /// What was said so far is summed up.
    Summary(Box<MessageRecord>),
    /// Tokens and cost.
    Usage(Box<UsageRecord>),
    /// A tool call came to an end.
    Outcome {
        /// Which.
        call: String,
        /// What became of it.
        outcome: String,
    },
}

/// What a part of a log brought in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenIn {
    /// The sessions that it is about.
    pub sessions: BTreeSet<String>,
    /// Those among them that were not here.
    pub new_sessions: BTreeSet<String>,
    /// How many messages were added.
    pub messages: usize,
}

impl TakenIn {
    /// With what another part brought in.
    pub fn add(&mut self, other: TakenIn) {
        self.sessions.extend(other.sessions);
        self.new_sessions.extend(other.new_sessions);
        self.messages += other.messages;
    }
}

impl Ledger {
    /// How far a log has been read.
    pub fn bookmark(&self, log: &str) -> Result<Option<Bookmark>, LedgerError> {
        bookmark(self.database.reader()?, log)
    }

    /// The logs that were read last.
    pub fn bookmarks(&self, limit: usize) -> Result<Vec<Bookmark>, LedgerError> {
        let connection = self.database.reader()?;
        let sql = format!("{SELECT} ORDER BY read_at DESC, id DESC LIMIT ?1");
        let mut statement = connection.prepare_cached(&sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map([limit], read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Takes in a part of a log. `None`, and nothing is taken in, if somebody else has read on from
    /// where it begins.
    pub fn take_in_page(
        &mut self,
        page: &LogPage,
        now: Time,
    ) -> Result<Option<TakenIn>, LedgerError> {
        let masked = self.redact.then(|| masked(page));
        let page = masked.as_ref().unwrap_or(page);
        let taken = self.database.write(|transaction| take_in(transaction, page, now))?;
        self.index_after_bulk(taken.as_ref().map_or(0, |taken| taken.messages));
        Ok(taken)
    }
}

fn masked(page: &LogPage) -> LogPage {
    let mut page = page.clone();
    for entry in &mut page.entries {
        match &mut entry.told {
            Told::Session(record) => mask::session(record),
            Told::Message(message) | Told::Summary(message) => mask::message(message),
            Told::Outcome { outcome, .. } => {
                *outcome = Redactor::shared().text(outcome).into_owned();
            }
            Told::Usage(_) => {}
        }
    }
    page
}

fn take_in(
    transaction: &Transaction<'_>,
    page: &LogPage,
    now: Time,
) -> Result<Option<TakenIn>, LedgerError> {
    if bookmark(transaction, &page.to.log)? != page.from {
        return Ok(None);
    }
    let mut taken = TakenIn::default();
    let ids: BTreeSet<&str> = page.entries.iter().map(|entry| entry.session.as_str()).collect();
    for id in ids {
        let entries: Vec<&LogEntry> =
            page.entries.iter().filter(|entry| entry.session == id).collect();
        // Facts that come late do not bring back what was deleted.
        let is_told_of = entries.iter().all(|entry| matches!(entry.told, Told::Session(_)));
        let goes_on = page.from.as_ref().is_some_and(|from| from.offset > 0);
        if is_told_of && goes_on && head(transaction, id).is_err() {
            continue;
        }
        let record = session_of(id, &page.to.agent, &entries);
        if sessions::upsert(transaction, &record, now)? {
            taken.new_sessions.insert(id.to_owned());
        }
        taken.sessions.insert(id.to_owned());
        taken.messages += take_in_session(transaction, &record, &entries, now)?;
    }
    save(transaction, &page.to, now)?;
    Ok(Some(taken))
}

/// All that a part of a log says about a session. What is said first counts, as it would if the
/// log was read in smaller parts.
fn session_of(id: &str, agent: &str, entries: &[&LogEntry]) -> SessionRecord {
    let mut all = SessionRecord {
        id: id.to_owned(),
        source: agent.to_owned(),
        started_at: entries.iter().filter_map(|entry| entry.time).min(),
        ..SessionRecord::default()
    };
    for entry in entries {
        let Told::Session(more) = &entry.told else { continue };
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

/// Gives the number of messages that are new.
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
    let mut said: Vec<Said<'_>> = Vec::new();
    let mut places = HashMap::new();
    for entry in entries {
        // Without a time of its own it happened right after the one before it.
        time = entry.time.unwrap_or(time);
        let is_new = || remember(transaction, key, &entry.origin);
        match &entry.told {
            Told::Session(_) => {}
            Told::Message(message) | Told::Summary(message) if is_new()? => {
                let is_summary = matches!(entry.told, Told::Summary(_));
                let message = Cow::Borrowed(&**message);
                places.insert(entry.origin.as_str(), said.len());
                said.push(Said { origin: &entry.origin, time, message, is_summary });
            }
            Told::Message(later) => match places.get(entry.origin.as_str()) {
                Some(place) => {
                    let said = &mut said[*place].message;
                    *said = grow::grown(said, later).map_or_else(|| said.clone(), Cow::Owned);
                }
                None => grow::grow(transaction, key, &entry.origin, later)?,
            },
            Told::Usage(usage) if is_new()? => {
                let seen = Some(time);
                let usage = UsageRecord { first_seen: seen, last_seen: seen, ..(**usage).clone() };
                usage::record(transaction, id, &usage, now)?;
            }
            Told::Outcome { call, outcome } => {
                turns::conclude_call(transaction, key, call, outcome, time)?;
            }
            Told::Summary(_) | Told::Usage(_) => {}
        }
    }
    place::place(transaction, id, &said, now)
}

/// Remembers that an entry came in. `false` if it had before.
fn remember(transaction: &Transaction<'_>, key: i64, origin: &str) -> Result<bool, LedgerError> {
    let added = transaction
        .prepare_cached("INSERT OR IGNORE INTO origins (session, origin) VALUES (?1, ?2)")?
        .execute(params![key, origin])?;
    Ok(added == 1)
}

const SELECT: &str = "SELECT log, agent, offset, identity, state FROM bookmarks";

fn bookmark(connection: &Connection, log: &str) -> Result<Option<Bookmark>, LedgerError> {
    let sql = format!("{SELECT} WHERE log = ?1");
    Ok(connection.prepare_cached(&sql)?.query_row([log], read).optional()?)
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Bookmark> {
    let state: String = row.get(4)?;
    let offset: i64 = row.get(2)?;
    Ok(Bookmark {
        log: row.get(0)?,
        agent: row.get(1)?,
        offset: offset.unsigned_abs(),
        identity: row.get(3)?,
        state: parse(&state),
    })
}

fn save(transaction: &Transaction<'_>, bookmark: &Bookmark, now: Time) -> Result<(), LedgerError> {
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
