//! Reading the changed rows.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::types::Value as Item;
use rusqlite::{Connection, OptionalExtension};

use super::Kind;
use crate::messages::{Searchable, read_with_turn};
use crate::search::{fold_fields, index_entry};
use crate::sessions::{SELECT_SESSION, read_session};
use crate::{
    CallRecord, EffectRecord, LedgerError, MessageRecord, SessionRecord, Time, Turn, UsageRecord,
    calls, mask, turns, usage,
};

/// Changes that are shipped together.
#[derive(Debug, Default)]
pub struct OutboxBatch {
    /// The numbers of the marks.
    pub(super) numbers: Vec<i64>,
    /// The ids of deleted sessions. If [`OutboxBatch::changes`] has a session with such an id, that
    /// session was created after the deletion.
    pub deleted: Vec<String>,
    /// The ids of deleted tasks.
    pub deleted_tasks: Vec<String>,
    /// The changed rows, in the order in which they last changed. Sessions come before their rows.
    pub changes: Vec<Change>,
}

impl OutboxBatch {
    /// True if nothing is left to ship.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Counts the rows that changed.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }
}

/// A row as it is now. If the row was deleted, the field for its content is `None` or empty.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Change {
    Session(SessionChange),
    Message(MessageChange),
    Turn(TurnChange),
    Call(CallChange),
    Effects(EffectsChange),
    Usage(UsageChange),
}

/// A session without its messages.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct SessionChange {
    pub session: SessionRecord,
    pub last_activity: Time,
    /// For a fork, the last message that it has in common with its parent.
    pub inherited: i64,
}

/// A message that changed. `message` is `None` if it was deleted.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct MessageChange {
    pub session: String,
    pub seq: i64,
    pub message: Option<MessageRow>,
}

/// A message with the number of its turn. `tokens` are the tokens of the message's text for the
/// search index, each once, separated by spaces.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct MessageRow {
    pub message: MessageRecord,
    pub turn: i64,
    pub tokens: String,
}

/// A turn that changed. `turn` is `None` if it was deleted.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct TurnChange {
    pub session: String,
    pub number: i64,
    pub turn: Option<Turn>,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct CallChange {
    pub session: String,
    pub id: String,
    pub call: Option<CallRecord>,
}

/// All effects of a turn.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct EffectsChange {
    pub session: String,
    pub turn: i64,
    pub effects: Vec<EffectRecord>,
}

/// The usage of all models in a session.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct UsageChange {
    pub session: String,
    pub usage: Vec<UsageRecord>,
}

/// A mark in the outbox.
struct Mark {
    number: i64,
    kind: Option<Kind>,
    session: i64,
    item: Item,
}

/// Reads the oldest changes.
pub(super) fn read(
    connection: &Connection,
    rows: usize,
    bytes: usize,
) -> Result<OutboxBatch, LedgerError> {
    let marks = read_marks(connection, rows)?;
    let mut reader =
        BatchReader { connection, ids: BTreeMap::new(), batch: OutboxBatch::default() };
    let mut sessions = BTreeSet::new();
    let mut read = 0;
    for mark in marks {
        if read >= bytes && !reader.batch.numbers.is_empty() {
            break;
        }
        // If the session itself is still marked, the fleet may not have it yet. The session must
        // arrive before its rows.
        if mark.session > 0
            && sessions.insert(mark.session)
            && let Some(number) = find_session_mark(connection, mark.session)?
        {
            reader.batch.numbers.push(number);
            read += reader.read_session(mark.session)?;
        }
        if mark.kind != Some(Kind::Session) {
            reader.batch.numbers.push(mark.number);
            read += reader.read_row(&mark)?;
        }
    }
    Ok(reader.batch)
}

fn read_marks(connection: &Connection, rows: usize) -> Result<Vec<Mark>, LedgerError> {
    let mut statement = connection.prepare_cached(
        "SELECT number, kind, session, item FROM outbox ORDER BY number LIMIT ?1",
    )?;
    let marks = statement.query_map([rows as i64], |row| {
        Ok(Mark {
            number: row.get(0)?,
            kind: Kind::from_number(row.get(1)?),
            session: row.get(2)?,
            item: row.get(3)?,
        })
    })?;
    Ok(marks.collect::<Result<_, _>>()?)
}

fn find_session_mark(connection: &Connection, key: i64) -> Result<Option<i64>, LedgerError> {
    let mut statement = connection.prepare_cached(
        "SELECT number FROM outbox WHERE session = ?1 AND kind = ?2 AND item = 0",
    )?;
    Ok(statement.query_row([key, Kind::Session as i64], |row| row.get(0)).optional()?)
}

struct BatchReader<'c> {
    connection: &'c Connection,
    /// The ids of the sessions that were looked up, by their keys.
    ids: BTreeMap<i64, Option<String>>,
    batch: OutboxBatch,
}

impl BatchReader<'_> {
    /// Returns the id of the session with this key, or `None` if there is no such session.
    fn id(&mut self, key: i64) -> Result<Option<String>, LedgerError> {
        if let Some(known) = self.ids.get(&key) {
            return Ok(known.clone());
        }
        let mut statement =
            self.connection.prepare_cached("SELECT id FROM sessions WHERE key = ?1")?;
        let id: Option<String> = statement.query_row([key], |row| row.get(0)).optional()?;
        self.ids.insert(key, id.clone());
        Ok(id)
    }

    /// Reads a session. Returns the number of bytes of text.
    fn read_session(&mut self, key: i64) -> Result<usize, LedgerError> {
        let sql = format!("{SELECT_SESSION} WHERE s.key = ?1");
        let mut statement = self.connection.prepare_cached(&sql)?;
        let found = statement
            .query_row([key], |row| {
                Ok(SessionChange {
                    session: read_session(row)?,
                    last_activity: row.get("last_activity")?,
                    inherited: row.get("inherited")?,
                })
            })
            .optional()?;
        let Some(mut change) = found else { return Ok(0) };
        mask::mask_session(&mut change.session);
        let size = change.session.system_prompt.as_ref().map_or(0, String::len);
        self.batch.changes.push(Change::Session(change));
        Ok(size)
    }

    /// Reads a row that belongs to a session. Returns the number of bytes of text.
    fn read_row(&mut self, mark: &Mark) -> Result<usize, LedgerError> {
        if let (Some(Kind::Deleted), Item::Text(id)) = (mark.kind, &mark.item) {
            self.batch.deleted.push(id.clone());
            return Ok(id.len());
        }
        if let (Some(Kind::DeletedTask), Item::Text(id)) = (mark.kind, &mark.item) {
            self.batch.deleted_tasks.push(id.clone());
            return Ok(id.len());
        }
        let Some(session) = self.id(mark.session)? else { return Ok(0) };
        let (connection, key) = (self.connection, mark.session);
        let change = match (mark.kind, &mark.item) {
            (Some(Kind::Message), Item::Integer(seq)) => {
                return self.read_message(session, key, *seq);
            }
            (Some(Kind::Turn), Item::Integer(number)) => Change::Turn(TurnChange {
                turn: turns::read_numbered(connection, key, *number)?,
                session,
                number: *number,
            }),
            (Some(Kind::Call), Item::Text(id)) => {
                let mut call = calls::read_one_call(connection, key, id)?;
                call.iter_mut().for_each(mask::mask_call);
                Change::Call(CallChange { session, id: id.clone(), call })
            }
            (Some(Kind::Effects), Item::Integer(turn)) => {
                let mut effects = calls::read_effects_of_turn(connection, key, *turn)?;
                effects.iter_mut().for_each(mask::mask_effect);
                Change::Effects(EffectsChange { session, turn: *turn, effects })
            }
            (Some(Kind::Usage), _) => {
                let mut usage = usage::read_usage(connection, key)?;
                usage.iter_mut().for_each(mask::mask_usage);
                Change::Usage(UsageChange { session, usage })
            }
            // No version of takeback writes any other kind of mark.
            _ => return Ok(0),
        };
        let size = match &change {
            Change::Call(CallChange { call: Some(call), .. }) => {
                call.input.as_ref().map_or(0, |input| input.to_string().len())
            }
            _ => 0,
        };
        self.batch.changes.push(change);
        Ok(size)
    }

    fn read_message(&mut self, session: String, key: i64, seq: i64) -> Result<usize, LedgerError> {
        let mut size = 0;
        let message = read_with_turn(self.connection, key, seq)?.map(|(mut message, turn)| {
            mask::mask_message(&mut message);
            let tokens = index_entry(&fold_fields(&Searchable::of(&message).0));
            size = tokens.len() + crate::search::text_size(std::slice::from_ref(&message));
            MessageRow { message, turn, tokens }
        });
        self.batch.changes.push(Change::Message(MessageChange { session, seq, message }));
        Ok(size)
    }
}
