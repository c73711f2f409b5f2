//! Search: one definition of a match, and an index that finds matches quickly.
//!
//! The definition is [`matches()`]; everything else is about speed. The index proposes messages,
//! newest first, and each proposal is checked against the definition. Messages that are not indexed
//! yet are read one by one. If the index cannot help with a query, all messages are read in this
//! way.

mod collector;
mod fold;
mod index;
mod index_query;
mod query;
mod snippet;
mod suggest;
mod tokens;
mod typed;

use rusqlite::{Connection, OptionalExtension, named_params, params};
use serde_json::Value;

pub use self::collector::SearchCollector;
pub(crate) use self::index::{
    INDEX_VERSION, fold_fields, forget_message, forget_session, index_message, indexed_up_to,
    tail_length, text_size,
};
pub use self::index_query::IndexQuery;
use self::query::Query;
pub(crate) use self::tokens::index_entry;
use crate::messages::{Searchable, read_searchable};
use crate::{Ledger, LedgerError, MessageRecord, Time};

/// The maximum number of characters shown from each of the two messages around a match.
const NEIGHBOR_LENGTH: usize = 200;

/// The messages to search, and the maximum number of results.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// Only sessions from these sources; if empty, from all sources.
    pub sources: Vec<String>,
    /// No sessions from these sources.
    pub exclude_sources: Vec<String>,
    /// Only messages with these roles; if empty, with any role.
    pub roles: Vec<String>,
    /// Only sessions in this workspace.
    pub workspace: Option<String>,
    /// Only messages since this time.
    pub since: Option<Time>,
    /// True to include messages that were taken back.
    pub undone: bool,
    /// The maximum number of results.
    pub limit: usize,
}

impl Default for SearchOptions {
    fn default() -> SearchOptions {
        SearchOptions {
            sources: Vec::new(),
            exclude_sources: Vec::new(),
            roles: Vec::new(),
            workspace: None,
            since: None,
            undone: false,
            limit: 20,
        }
    }
}

/// The results of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchResults {
    /// The best matches, best first. The results of tool calls come after all other matches.
    /// Equally good matches are sorted newest first.
    pub results: Vec<SearchHit>,
    /// The number of matching messages that the search counted.
    pub total: usize,
    /// True if counting stopped early.
    pub more: bool,
    /// True if the caller stopped the search. In that case, older messages may also match.
    pub stopped: bool,
}

/// A message that matches.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct SearchHit {
    /// The id of the session.
    pub session: String,
    /// The number of the message in its session.
    pub message: i64,
    pub role: String,
    pub time: Time,
    /// The text around the first match, with `>>>` and `<<<` around each match.
    pub snippet: String,
    /// The beginning of the previous message.
    pub before: Option<String>,
    /// The beginning of the next message.
    pub after: Option<String>,
    pub source: String,
    pub model: Option<String>,
    pub title: Option<String>,
    pub session_started: Time,
}

/// True if a message with this text in its fields matches a query. This is the definition of a
/// match.
///
/// Case, accents, width and the amount of white space do not matter. A term matches between word
/// boundaries. A character in a script without spaces has a boundary on either side, and so does
/// any punctuation. `x*` needs no boundary after it; `*x*` needs none at all. All terms must match;
/// `OR` separates alternatives; `NOT` excludes the next term or group; `(…)` is a group; and `"…"`
/// is one term. If the query contains any word, standalone punctuation is ignored, and so are
/// brackets, quotes and sentence punctuation around a word.
///
/// ```
/// use takeback_ledger::matches;
///
/// let text = ["Fix chat-send in main.rs"];
/// assert!(matches("CHAT-SEND fix", &text));
/// assert!(matches("mai* NOT cart", &text));
/// assert!(!matches("chat-sen", &text));
/// ```
pub fn matches(query: &str, texts: &[&str]) -> bool {
    let query = Query::parse(query);
    let text: Vec<String> = texts.iter().map(|text| fold::fold(text)).collect();
    query.matches(&text.join("\n"))
}

impl Ledger {
    /// Searches all messages. Any text is a valid query; see [`matches()`].
    pub fn search(
        &mut self,
        query: &str,
        options: &SearchOptions,
    ) -> Result<SearchResults, LedgerError> {
        self.search_until(query, options, &|| false)
    }

    /// Searches the messages, newest first. Calls `is_over` after each message. Once `is_over`
    /// returns true, stops and returns the results found so far.
    pub fn search_until(
        &mut self,
        query: &str,
        options: &SearchOptions,
        is_over: &dyn Fn() -> bool,
    ) -> Result<SearchResults, LedgerError> {
        self.shorten_tail_for_search();
        let collector = SearchCollector::new(query, options.limit);
        if collector.is_empty() {
            return Ok(SearchResults::default());
        }
        self.database.snapshot(|connection| {
            Search { connection, options, is_over, collector, is_stopped: false }.run()
        })
    }
}

/// A search in progress.
struct Search<'s> {
    connection: &'s Connection,
    options: &'s SearchOptions,
    is_over: &'s dyn Fn() -> bool,
    /// The matches so far.
    collector: SearchCollector<i64>,
    /// True if the caller stopped the search.
    is_stopped: bool,
}

impl Search<'_> {
    fn run(mut self) -> Result<SearchResults, LedgerError> {
        let indexed = indexed_up_to(self.connection)?;
        match self.collector.index_query() {
            None => self.scan_messages(0)?,
            Some(index_query) => {
                self.scan_messages(indexed)?;
                self.ask_index(&index_query.to_fts5(), indexed)?;
            }
        }
        let (total, stopped) = (self.collector.count(), self.is_stopped);
        let more = self.collector.is_full() || stopped;
        let best = self.collector.take_best();
        let results = best.iter().map(|id| self.read_hit(*id)).collect::<Result<_, _>>()?;
        Ok(SearchResults { results, total, more, stopped })
    }

    /// Reads the messages after `after` one by one, newest first.
    fn scan_messages(&mut self, after: i64) -> Result<(), LedgerError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM messages m CROSS JOIN sessions s ON s.key = m.session
             WHERE m.id > :bound AND {FILTER} ORDER BY m.id DESC"
        );
        self.collect_candidates(&sql, after, None)
    }

    /// Reads the messages up to `upto` that the index proposes, newest first.
    fn ask_index(&mut self, query: &str, upto: i64) -> Result<(), LedgerError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM words w CROSS JOIN messages m ON m.id = w.rowid
             CROSS JOIN sessions s ON s.key = m.session
             WHERE w.words MATCH :query AND m.id <= :bound AND {FILTER} ORDER BY w.rowid DESC"
        );
        self.collect_candidates(&sql, upto, Some(query))
    }

    fn collect_candidates(
        &mut self,
        sql: &str,
        bound: i64,
        index_query: Option<&str>,
    ) -> Result<(), LedgerError> {
        let list = |values: &[String]| Value::from(values.to_vec()).to_string();
        let mut statement = self.connection.prepare_cached(sql)?;
        let since = self.options.since.unwrap_or(Time(i64::MIN));
        let (sources, exclude) = (list(&self.options.sources), list(&self.options.exclude_sources));
        let (roles, workspace) = (list(&self.options.roles), &self.options.workspace);
        let mut rows = match index_query {
            None => statement.query(named_params! {
                ":bound": bound, ":undone": self.options.undone, ":since": since,
                ":sources": sources, ":exclude": exclude, ":roles": roles, ":workspace": workspace,
            })?,
            Some(index_query) => statement.query(named_params! {
                ":bound": bound, ":undone": self.options.undone, ":since": since,
                ":sources": sources, ":exclude": exclude, ":roles": roles, ":workspace": workspace,
                ":query": index_query,
            })?,
        };
        while !self.collector.is_full() && !self.is_stopped {
            let Some(row) = rows.next()? else { break };
            let (id, time) = (row.get("id")?, row.get("timestamp")?);
            let (is_result, fields) = (row.get("is_result")?, read_searchable(row)?);
            let is_full = self.collector.consider_fields(id, time, is_result, &fields);
            self.is_stopped = !is_full && (self.is_over)();
        }
        Ok(())
    }

    fn read_hit(&self, id: i64) -> Result<SearchHit, LedgerError> {
        let sql = "
            SELECT m.session AS session_key, m.seq, m.role, m.timestamp, m.structured, m.content,
                   m.tool_name, m.tool_calls, s.id, s.source, s.model, s.title, s.started_at
            FROM messages m JOIN sessions s ON s.key = m.session WHERE m.id = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([id])?;
        let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let fields = read_searchable(row)?;
        let (key, seq): (i64, i64) = (row.get("session_key")?, row.get("seq")?);
        Ok(SearchHit {
            session: row.get("id")?,
            message: seq,
            role: row.get("role")?,
            time: row.get("timestamp")?,
            snippet: self.collector.snippet_of(&fields),
            before: self.read_neighbor(key, seq, "seq < ?2", "DESC")?,
            after: self.read_neighbor(key, seq, "seq > ?2", "ASC")?,
            source: row.get("source")?,
            model: row.get("model")?,
            title: row.get("title")?,
            session_started: row.get("started_at")?,
        })
    }

    /// Reads the beginning of the previous or next message.
    fn read_neighbor(
        &self,
        key: i64,
        seq: i64,
        side: &str,
        order: &str,
    ) -> Result<Option<String>, LedgerError> {
        let sql = format!(
            "SELECT structured, content, tool_name, tool_calls FROM messages
             WHERE session = ?1 AND {side} AND (?3 OR NOT undone) ORDER BY seq {order} LIMIT 1"
        );
        let fields = self
            .connection
            .prepare_cached(&sql)?
            .query_row(params![key, seq, self.options.undone], read_searchable)
            .optional()?;
        Ok(fields.as_ref().map(begin_of))
    }
}

const COLUMNS: &str = "m.id, m.timestamp, m.role IN ('tool', 'function') AS is_result,
    m.structured, m.content, m.tool_name, m.tool_calls";

/// The messages that the options select. A message that a fork has in common with its parent is
/// found only in the parent, unless it has been taken back there.
const FILTER: &str = "
    (:undone OR NOT m.undone) AND m.timestamp >= :since
    AND (m.seq > s.inherited OR NOT EXISTS (
        SELECT 1 FROM sessions p CROSS JOIN messages pm ON pm.session = p.key AND pm.seq = m.seq
        WHERE p.id = s.parent_session_id AND (:undone OR NOT pm.undone)))
    AND (:workspace IS NULL OR s.workspace = :workspace)
    AND (:roles = '[]' OR m.role IN (SELECT value FROM json_each(:roles)))
    AND (:sources = '[]' OR s.source IN (SELECT value FROM json_each(:sources)))
    AND s.source NOT IN (SELECT value FROM json_each(:exclude))";

/// Returns the beginning of a message, as it is shown before or after a match.
pub fn beginning_of(message: &MessageRecord) -> String {
    begin_of(&Searchable::of(message).0)
}

fn begin_of(fields: &[String; 3]) -> String {
    let text = fields.iter().find(|field| !field.is_empty()).map_or("", String::as_str);
    text.chars().take(NEIGHBOR_LENGTH).collect()
}
