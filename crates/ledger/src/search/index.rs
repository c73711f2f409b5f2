//! Keeping the index up to date without slowing down appends.
//!
//! An append only writes its message. The messages after `search_state.indexed` are the tail, which
//! a search reads message by message. When a process appends or searches and finds a long tail, it
//! moves a slice of the tail into the index. It does so in a separate transaction, which takes a
//! few milliseconds.

use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use serde_json::Value;

use crate::messages::read_searchable;
use crate::search::fold::fold;
use crate::search::tokens::index_entry;
use crate::{Event, Ledger, LedgerError, MessageRecord};

/// The version of the index. It is raised when the same text begins to produce different tokens,
/// for example because of a new Unicode version. The index is then rebuilt.
pub(crate) const INDEX_VERSION: i64 = {
    let (major, minor, _) = char::UNICODE_VERSION;
    let normalization = unicode_normalization::UNICODE_VERSION;
    let tables = (major as i64 * 100 + minor as i64) * 10_000;
    100_000_000 + tables + normalization.0 as i64 * 100 + normalization.1 as i64
};

/// If the tail has fewer messages than this, indexing is not worthwhile.
const LONG_TAIL: i64 = 128;

/// If the tail has at least this many messages, a search indexes a slice first, because further
/// searches usually follow.
const SEARCHED_TAIL: i64 = 16;

/// If the tail has at least this many messages, an append waits for other writers so that it can
/// index a slice.
const VERY_LONG_TAIL: i64 = 512;
const PATIENCE: Duration = Duration::from_secs(1);

/// If a process has written more bytes of text than this since the index was last complete, it
/// indexes the messages that it appends.
const MAX_TAIL_BYTES: usize = 32 << 10;

/// The time that indexing a slice may take. Other writers have to wait that long.
const SLICE_TIME: Duration = Duration::from_millis(5);

/// The state of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IndexState {
    /// The id of the last indexed message.
    indexed: i64,
    is_current: bool,
}

impl Ledger {
    /// Indexes at least one slice of the tail after an append, if the tail has become long.
    pub(crate) fn index_after_append(&mut self, tail: i64, messages: &[MessageRecord]) {
        self.unindexed_bytes += text_size(messages);
        if self.unindexed_bytes > MAX_TAIL_BYTES || tail >= LONG_TAIL {
            self.index_after_bulk(messages.len());
        }
    }

    /// Indexes at least one slice of the tail after events were recorded, if the events added
    /// messages and the tail has become long.
    pub(crate) fn index_after_events(&mut self, events: &[Event]) {
        let messages = events.iter().filter_map(|event| match event {
            Event::Messages { messages, .. } => Some(messages.as_slice()),
            _ => None,
        });
        self.unindexed_bytes += messages.clone().map(text_size).sum::<usize>();
        if self.unindexed_bytes > MAX_TAIL_BYTES {
            self.index_after_bulk(messages.map(<[MessageRecord]>::len).sum());
        } else if messages.count() > 0 {
            self.shorten_tail();
        }
    }

    /// Indexes slices of the tail after `added` messages were added, until that many messages are
    /// indexed or the tail is empty.
    pub(crate) fn index_after_bulk(&mut self, added: usize) {
        let mut indexed = 0;
        while indexed < added.max(1) {
            match self.index_slice() {
                Some(slice) if slice.has_more && slice.indexed > 0 => indexed += slice.indexed,
                _ => break,
            }
        }
    }

    /// Indexes a slice of the tail, if the tail is long.
    pub(crate) fn shorten_tail(&mut self) {
        self.index_slice_from(LONG_TAIL);
    }

    /// Indexes a slice of the tail before a search, unless the tail is short.
    pub(super) fn shorten_tail_for_search(&mut self) {
        self.index_slice_from(SEARCHED_TAIL);
    }

    fn index_slice_from(&mut self, least: i64) {
        if self.database.reader().and_then(tail_length).is_ok_and(|tail| tail >= least) {
            self.index_slice();
        }
    }

    /// Indexes a slice of the tail. A failure only costs speed, so it is not an error: the next
    /// writer tries again. Waits for other writers only if the tail is very long.
    fn index_slice(&mut self) -> Option<SliceReport> {
        let wait = match self.database.reader().and_then(tail_length) {
            Ok(tail) if tail < VERY_LONG_TAIL => Duration::ZERO,
            _ => PATIENCE,
        };
        let slice = self
            .database
            .try_write(wait, |transaction| index_messages(transaction, SLICE_TIME))
            .ok()
            .flatten();
        if slice.as_ref().is_some_and(|slice| !slice.has_more) {
            self.unindexed_bytes = 0;
        }
        slice
    }

    /// Indexes everything, compacts the index while other processes can still write, and shrinks
    /// the file if much of it is free space. `progress` is called with the number of messages
    /// indexed so far.
    pub fn optimize(&mut self, progress: &dyn Fn(usize)) -> Result<(), LedgerError> {
        let mut indexed = 0;
        loop {
            let done =
                self.database.write(|transaction| index_messages(transaction, SLICE_TIME))?;
            indexed += done.indexed;
            progress(indexed);
            if !done.has_more {
                break;
            }
        }
        // With a negative number, FTS5 starts a merge across all levels. Later commands continue
        // that merge.
        let mut pages = -200;
        while self.database.write(|transaction| merge_pages(transaction, pages))? {
            pages = 200;
        }
        self.database.write(|transaction| {
            transaction.execute_batch("PRAGMA optimize")?;
            Ok::<_, LedgerError>(())
        })?;
        self.database.shrink()
    }

    /// Rebuilds the index from the messages.
    pub(crate) fn rebuild_index(&mut self, progress: &dyn Fn(usize)) -> Result<(), LedgerError> {
        self.database.write(|transaction| reset_index(transaction))?;
        self.optimize(progress)
    }
}

/// Estimates the number of bytes that a search would read in these messages.
pub(crate) fn text_size(messages: &[MessageRecord]) -> usize {
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

/// The result of indexing a slice.
#[derive(Debug)]
struct SliceReport {
    indexed: usize,
    /// True if the tail has more messages.
    has_more: bool,
}

/// Indexes messages in the tail, oldest first, until the time is up. Indexes at least one.
fn index_messages(connection: &Connection, time: Duration) -> Result<SliceReport, LedgerError> {
    let start = Instant::now();
    let mut state = read_state(connection)?;
    if !state.is_current {
        reset_index(connection)?;
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
    let mut has_more = false;
    while let Some(row) = rows.next()? {
        // FTS5 writes its entries only at the commit, which takes about as long as everything
        // before it.
        if indexed > 0 && start.elapsed() * 2 > time {
            has_more = true;
            break;
        }
        let id: i64 = row.get(0)?;
        insert.execute(params![id, index_entry(&fold_fields(&read_searchable(row)?))])?;
        state.indexed = id;
        indexed += 1;
    }
    if indexed > 0 {
        connection
            .prepare_cached("UPDATE search_state SET indexed = ?1")?
            .execute([state.indexed])?;
    }
    Ok(SliceReport { indexed, has_more })
}

/// Folds the fields of a message into one string, each on its own line. No term spans two fields,
/// because folded text has no line breaks.
pub(crate) fn fold_fields(fields: &[String; 3]) -> String {
    let mut text = fold(&fields[0]);
    for field in &fields[1..] {
        text.push('\n');
        if !field.is_empty() {
            text.push_str(&fold(field));
        }
    }
    text
}

/// Removes the messages of a session from the index, before they are deleted.
pub(crate) fn forget_session(connection: &Connection, key: i64) -> Result<(), LedgerError> {
    let state = read_state(connection)?;
    if state.is_current {
        let mut read = connection.prepare_cached(
            "SELECT id, structured, content, tool_name, tool_calls FROM messages
             WHERE session = ?1 AND id <= ?2",
        )?;
        let mut delete = connection
            .prepare_cached("INSERT INTO words (words, rowid, tokens) VALUES ('delete', ?1, ?2)")?;
        let mut rows = read.query([key, state.indexed])?;
        while let Some(row) = rows.next()? {
            let entry = index_entry(&fold_fields(&read_searchable(row)?));
            delete.execute(params![row.get::<_, i64>(0)?, entry])?;
        }
    }
    // SQLite will reuse the ids of the last messages once they are deleted, so these ids must no
    // longer be treated as indexed.
    connection.execute(
        "UPDATE search_state SET indexed = min(indexed, ifnull(
             (SELECT id FROM messages WHERE session <> ?1 ORDER BY id DESC LIMIT 1), 0))",
        [key],
    )?;
    Ok(())
}

/// Removes a message from the index, before it is changed.
pub(crate) fn forget_message(connection: &Connection, id: i64) -> Result<(), LedgerError> {
    change_entry(
        connection,
        id,
        "INSERT INTO words (words, rowid, tokens) VALUES ('delete', ?1, ?2)",
    )
}

/// Adds a changed message back to the index, unless it is in the tail.
pub(crate) fn index_message(connection: &Connection, id: i64) -> Result<(), LedgerError> {
    change_entry(connection, id, "INSERT INTO words (rowid, tokens) VALUES (?1, ?2)")
}

fn change_entry(connection: &Connection, id: i64, sql: &str) -> Result<(), LedgerError> {
    if id > indexed_up_to(connection)? {
        return Ok(());
    }
    let mut read = connection.prepare_cached(
        "SELECT structured, content, tool_name, tool_calls FROM messages WHERE id = ?1",
    )?;
    let fields = read.query_row([id], read_searchable)?;
    connection.prepare_cached(sql)?.execute(params![id, index_entry(&fold_fields(&fields))])?;
    Ok(())
}

/// Counts the messages after the last indexed one.
pub(crate) fn tail_length(connection: &Connection) -> Result<i64, LedgerError> {
    let mut last = connection.prepare_cached("SELECT ifnull(max(id), 0) FROM messages")?;
    let last: i64 = last.query_row([], |row| row.get(0))?;
    Ok(last - indexed_up_to(connection)?)
}

/// Returns the id of the last indexed message.
pub(crate) fn indexed_up_to(connection: &Connection) -> Result<i64, LedgerError> {
    let state = read_state(connection)?;
    Ok(if state.is_current { state.indexed } else { 0 })
}

fn read_state(connection: &Connection) -> Result<IndexState, LedgerError> {
    let mut statement = connection.prepare_cached("SELECT version, indexed FROM search_state")?;
    Ok(statement.query_row([], |row| {
        Ok(IndexState { is_current: row.get::<_, i64>(0)? == INDEX_VERSION, indexed: row.get(1)? })
    })?)
}

/// Empties the index.
fn reset_index(connection: &Connection) -> Result<(), LedgerError> {
    connection.execute("INSERT INTO words (words) VALUES ('delete-all')", [])?;
    connection.execute("UPDATE search_state SET version = ?1, indexed = 0", [INDEX_VERSION])?;
    Ok(())
}

/// Merges index pages, `pages` at a time. Returns false if there was nothing to do.
fn merge_pages(connection: &Connection, pages: i64) -> Result<bool, LedgerError> {
    let before = connection.total_changes();
    connection.execute("INSERT INTO words (words, rank) VALUES ('merge', ?1)", [pages])?;
    Ok(connection.total_changes() - before >= 2)
}
