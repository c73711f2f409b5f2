//! Keeping the index: off the way of the appends, in slices, always right.
//!
//! An append only writes its message. The messages behind `search_state.indexed` are the tail: a
//! search reads them one by one. Whoever appends or searches and finds a long tail moves some of
//! it into the index, for a few milliseconds, in a transaction of its own.

use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use serde_json::Value;

use crate::search::fold::fold;
use crate::search::tokens::index_entry;
use crate::{Event, Ledger, LedgerError, MessageRecord, messages};

/// Changes when the same text gives other tokens: then the index is made anew. The tables of
/// Unicode have a part in it.
pub(crate) const INDEX_VERSION: i64 = {
    let (major, minor, _) = char::UNICODE_VERSION;
    let normalization = unicode_normalization::UNICODE_VERSION;
    let tables = (major as i64 * 100 + minor as i64) * 10_000;
    100_000_000 + tables + normalization.0 as i64 * 100 + normalization.1 as i64
};

/// How many messages a search reads one by one before it is worth to index them.
const TAIL: i64 = 128;

/// With so many, an index that is behind is everybody's problem: whoever appends waits for a turn
/// to index.
const TAIL_MOST: i64 = 512;
const PATIENCE: Duration = Duration::from_secs(1);

/// How many bytes of text may be left in the tail.
const TAIL_BYTES: usize = 32 << 10;

/// How long others wait for a slice.
const SLICE: Duration = Duration::from_millis(5);

/// How far the index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    indexed: i64,
    is_current: bool,
}

impl Ledger {
    /// Indexes a slice of the tail after an append, if the tail is long.
    pub(crate) fn index_after_append(&mut self, last_id: i64, messages: &[MessageRecord]) {
        self.unindexed_bytes += text_size(messages);
        let indexed = self.database.reader().and_then(indexed_up_to).unwrap_or(last_id);
        if self.unindexed_bytes > TAIL_BYTES || last_id - indexed >= TAIL {
            self.index_after_bulk(messages.len());
        }
    }

    /// Indexes a slice of the tail after events with messages, if the tail is long.
    pub(crate) fn index_after_events(&mut self, events: &[Event]) {
        let messages = events.iter().filter_map(|event| match event {
            Event::Messages { messages, .. } => Some(messages.as_slice()),
            _ => None,
        });
        self.unindexed_bytes += messages.clone().map(text_size).sum::<usize>();
        if self.unindexed_bytes > TAIL_BYTES {
            self.index_after_bulk(messages.map(<[MessageRecord]>::len).sum());
        } else if messages.count() > 0 {
            self.shorten_tail();
        }
    }

    /// After many messages: slices until as many are indexed as were added, or all.
    pub(crate) fn index_after_bulk(&mut self, added: usize) {
        let mut indexed = 0;
        while indexed < added.max(1) {
            match self.index_slice() {
                Some(slice) if slice.left && slice.indexed > 0 => indexed += slice.indexed,
                _ => break,
            }
        }
    }

    /// Before a search: a long tail is made a little shorter.
    pub(crate) fn shorten_tail(&mut self) {
        if self.tail().is_ok_and(|tail| tail >= TAIL) {
            self.index_slice();
        }
    }

    /// The messages are in; whether they are indexed now or by the next writer is a matter of
    /// speed alone, so that what fails here is nobody's problem. As long as the tail is short
    /// enough, it is left to somebody who does not have to wait.
    fn index_slice(&mut self) -> Option<Slice> {
        let wait = match self.tail() {
            Ok(tail) if tail < TAIL_MOST => Duration::ZERO,
            _ => PATIENCE,
        };
        let slice =
            self.database.try_write(wait, |transaction| slice(transaction, SLICE)).ok().flatten();
        if slice.as_ref().is_some_and(|slice| !slice.left) {
            self.unindexed_bytes = 0;
        }
        slice
    }

    fn tail(&self) -> Result<i64, LedgerError> {
        let connection = self.database.reader()?;
        let mut last = connection.prepare_cached("SELECT ifnull(max(id), 0) FROM messages")?;
        let last: i64 = last.query_row([], |row| row.get(0))?;
        Ok(last - indexed_up_to(connection)?)
    }

    /// Indexes everything and packs the index tightly, while others can write; gives free space
    /// back to the disk. Tells how many messages it has indexed so far.
    pub fn optimize(&mut self, progress: &dyn Fn(usize)) -> Result<(), LedgerError> {
        let mut indexed = 0;
        loop {
            let done = self.database.write(|transaction| slice(transaction, SLICE))?;
            indexed += done.indexed;
            progress(indexed);
            if !done.left {
                break;
            }
        }
        // The first command may merge across levels; the ones after it go on with that merge.
        let mut pages = -200;
        while self.database.write(|transaction| merge(transaction, pages))? {
            pages = 200;
        }
        self.database.write(|transaction| {
            transaction.execute_batch("PRAGMA optimize")?;
            Ok::<_, LedgerError>(())
        })?;
        self.database.shrink()
    }

    /// Makes the index anew from the messages.
    pub fn rebuild_index(&mut self, progress: &dyn Fn(usize)) -> Result<(), LedgerError> {
        self.database.write(|transaction| reset(transaction))?;
        self.optimize(progress)
    }
}

/// Counts the bytes of text that a search would read in these messages.
fn text_size(messages: &[MessageRecord]) -> usize {
    fn size(value: &Value) -> usize {
        match value {
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(size).sum(),
            Value::Object(map) => map.values().map(size).sum(),
            _ => 0,
        }
    }
    let texts = messages.iter().flat_map(|message| [&message.content, &message.tool_calls]);
    texts.flatten().map(size).sum()
}

/// What a slice did.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) indexed: usize,
    /// Whether there is more.
    pub(crate) left: bool,
}

/// Indexes messages, oldest first, at least one, until the time is over.
fn slice(connection: &Connection, time: Duration) -> Result<Slice, LedgerError> {
    let start = Instant::now();
    let mut state = state(connection)?;
    if !state.is_current {
        reset(connection)?;
        state.indexed = 0;
    }
    let mut read = connection.prepare_cached(
        "SELECT id, structured, content, tool_name, tool_calls FROM messages
         WHERE id > ?1 ORDER BY id",
    )?;
    let mut insert =
        connection.prepare_cached("INSERT INTO words (rowid, tokens) VALUES (?1, ?2)")?;
    let mut rows = read.query([state.indexed])?;
    let mut indexed = 0;
    let mut left = false;
    while let Some(row) = rows.next()? {
        // FTS5 writes what it has gathered at the commit, which takes about as long again.
        if indexed > 0 && start.elapsed() * 2 > time {
            left = true;
            break;
        }
        let id: i64 = row.get(0)?;
        insert.execute(params![id, index_entry(&folded(&messages::searchable(row)?))])?;
        state.indexed = id;
        indexed += 1;
    }
    if indexed > 0 {
        connection
            .prepare_cached("UPDATE search_state SET indexed = ?1")?
            .execute([state.indexed])?;
    }
    Ok(Slice { indexed, left })
}

/// The fields of a message as one folded text. No term spans two of them: folded text has no
/// line breaks.
pub(crate) fn folded(fields: &[String; 3]) -> String {
    let mut text = fold(&fields[0]);
    for field in &fields[1..] {
        text.push('\n');
        if !field.is_empty() {
            text.push_str(&fold(field));
        }
    }
    text
}

/// Takes the messages of a session out of the index, before they are deleted.
pub(crate) fn forget_session(connection: &Connection, key: i64) -> Result<(), LedgerError> {
    let state = state(connection)?;
    if state.is_current {
        let mut read = connection.prepare_cached(
            "SELECT id, structured, content, tool_name, tool_calls FROM messages
             WHERE session = ?1 AND id <= ?2",
        )?;
        let mut delete = connection
            .prepare_cached("INSERT INTO words (words, rowid, tokens) VALUES ('delete', ?1, ?2)")?;
        let mut rows = read.query([key, state.indexed])?;
        while let Some(row) = rows.next()? {
            let entry = index_entry(&folded(&messages::searchable(row)?));
            delete.execute(params![row.get::<_, i64>(0)?, entry])?;
        }
    }
    // The ids of the last messages will be given out again.
    connection.execute(
        "UPDATE search_state SET indexed = min(indexed, ifnull(
             (SELECT id FROM messages WHERE session <> ?1 ORDER BY id DESC LIMIT 1), 0))",
        [key],
    )?;
    Ok(())
}

/// Takes a message out of the index, before it is changed.
pub(crate) fn forget_message(connection: &Connection, id: i64) -> Result<(), LedgerError> {
    reindex(connection, id, "INSERT INTO words (words, rowid, tokens) VALUES ('delete', ?1, ?2)")
}

/// Puts it in again. One that is in the tail is left there.
pub(crate) fn index_message(connection: &Connection, id: i64) -> Result<(), LedgerError> {
    reindex(connection, id, "INSERT INTO words (rowid, tokens) VALUES (?1, ?2)")
}

fn reindex(connection: &Connection, id: i64, sql: &str) -> Result<(), LedgerError> {
    if id > indexed_up_to(connection)? {
        return Ok(());
    }
    let mut read = connection.prepare_cached(
        "SELECT structured, content, tool_name, tool_calls FROM messages WHERE id = ?1",
    )?;
    let fields = read.query_row([id], messages::searchable)?;
    connection.prepare_cached(sql)?.execute(params![id, index_entry(&folded(&fields))])?;
    Ok(())
}

/// Up to which message a search can ask the index.
pub(crate) fn indexed_up_to(connection: &Connection) -> Result<i64, LedgerError> {
    let state = state(connection)?;
    Ok(if state.is_current { state.indexed } else { 0 })
}

fn state(connection: &Connection) -> Result<State, LedgerError> {
    let mut statement = connection.prepare_cached("SELECT version, indexed FROM search_state")?;
    Ok(statement.query_row([], |row| {
        Ok(State { is_current: row.get::<_, i64>(0)? == INDEX_VERSION, indexed: row.get(1)? })
    })?)
}

fn reset(connection: &Connection) -> Result<(), LedgerError> {
    connection.execute("INSERT INTO words (words) VALUES ('delete-all')", [])?;
    connection.execute("UPDATE search_state SET version = ?1, indexed = 0", [INDEX_VERSION])?;
    Ok(())
}

/// Merges so many pages of the index. `false` if there was nothing to do.
fn merge(connection: &Connection, pages: i64) -> Result<bool, LedgerError> {
    let before = connection.total_changes();
    connection.execute("INSERT INTO words (words, rank) VALUES ('merge', ?1)", [pages])?;
    Ok(connection.total_changes() - before >= 2)
}
