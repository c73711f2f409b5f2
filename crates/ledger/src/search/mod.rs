//! Search: one definition of a match, and an index that finds matches quickly.
//!
//! The definition is [`matches()`]; everything else is about speed. The index proposes messages,
//! newest first, and each proposal is checked against the definition. Messages that are not indexed
//! yet are read one by one. If the index cannot help with a query, all messages are read in this
//! way.

mod fold;
mod index;
mod query;
mod snippet;
mod tokens;
mod typed;

use rusqlite::{Connection, OptionalExtension, Row, named_params, params};
use serde_json::Value;

pub(crate) use self::index::{
    INDEX_VERSION, fold_fields, forget_message, forget_session, index_message, indexed_up_to,
    tail_length,
};
use self::query::Query;
pub(crate) use self::tokens::index_entry;
use crate::messages::read_searchable;
use crate::{Ledger, LedgerError, Time};

/// The maximum number of matches that are ranked, unless the caller asks for more results. If there
/// are more matches, only the newest are ranked.
const MAX_RANKED: usize = 200;

/// The number of bytes of text after which a search stops as soon as it has enough matches to show.
const ENOUGH_READ: usize = 512 << 10;

/// The maximum number of characters shown from each of the two messages around a match.
const NEIGHBOUR_LENGTH: usize = 200;

/// The messages to search, and the maximum number of results.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// Only sessions from these sources; if empty, from all sources.
    pub sources: Vec<String>,
    /// No sessions from these sources.
    pub exclude_sources: Vec<String>,
    /// Only messages with these roles; if empty, with any role.
    pub roles: Vec<String>,
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
            since: None,
            undone: false,
            limit: 20,
        }
    }
}

/// The results of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchResults {
    /// The best matches, best first. Equally good matches are sorted newest first.
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

/// True if a message whose fields have this text matches a query. This is the definition of a
/// match.
///
/// Case, accents, width and the amount of white space do not matter. A term matches between word
/// boundaries. A character in a script without spaces has a boundary on either side, and so does
/// any punctuation. `x*` needs no boundary after it; `*x*` needs none at all. All terms must match;
/// `OR` separates alternatives; `NOT` excludes the next term or group; `(…)` is a group; and `"…"`
/// is one term. If the query contains any word, standalone punctuation is ignored, and so are
/// brackets, quotes and sentence punctuation around a word.
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

    /// Searches the messages, newest first. Calls `is_over` after each message, and stops with the
    /// results found so far when it returns true.
    pub fn search_until(
        &mut self,
        query: &str,
        options: &SearchOptions,
        is_over: &dyn Fn() -> bool,
    ) -> Result<SearchResults, LedgerError> {
        self.shorten_tail_for_search();
        let query = Query::parse(query);
        if query.is_empty() {
            return Ok(SearchResults::default());
        }
        self.database
            .snapshot(|connection| Search { connection, query: &query, options, is_over }.run())
    }
}

/// A search in progress.
struct Search<'s> {
    connection: &'s Connection,
    query: &'s Query,
    options: &'s SearchOptions,
    is_over: &'s dyn Fn() -> bool,
}

/// A match before it is ranked.
struct Candidate {
    id: i64,
    time: Time,
    /// The number of occurrences of each term of the query.
    occurrences: Vec<usize>,
    /// The length of the folded text.
    length: usize,
}

/// The matches so far.
#[derive(Default)]
struct CandidateList {
    candidates: Vec<Candidate>,
    /// The number of bytes of text read so far.
    read: usize,
    is_full: bool,
    /// True if the caller stopped the search.
    is_stopped: bool,
}

impl Search<'_> {
    fn run(&self) -> Result<SearchResults, LedgerError> {
        let indexed = indexed_up_to(self.connection)?;
        let mut found = CandidateList::default();
        match self.query.index_query() {
            None => self.scan_messages(0, &mut found)?,
            Some(index_query) => {
                self.scan_messages(indexed, &mut found)?;
                self.ask_index(&index_query, indexed, &mut found)?;
            }
        }
        let (total, stopped) = (found.candidates.len(), found.is_stopped);
        let more = found.is_full || stopped;
        let best = rank_candidates(found.candidates, self.options.limit);
        let results =
            best.iter().map(|candidate| self.read_hit(candidate)).collect::<Result<_, _>>()?;
        Ok(SearchResults { results, total, more, stopped })
    }

    /// Reads the messages after `after` one by one, newest first.
    fn scan_messages(&self, after: i64, found: &mut CandidateList) -> Result<(), LedgerError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM messages m CROSS JOIN sessions s ON s.key = m.session
             WHERE m.id > :bound AND {FILTER} ORDER BY m.id DESC"
        );
        self.collect_candidates(&sql, after, None, found)
    }

    /// Reads the messages up to `upto` that the index proposes, newest first.
    fn ask_index(
        &self,
        query: &str,
        upto: i64,
        found: &mut CandidateList,
    ) -> Result<(), LedgerError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM words w CROSS JOIN messages m ON m.id = w.rowid
             CROSS JOIN sessions s ON s.key = m.session
             WHERE w.words MATCH :query AND m.id <= :bound AND {FILTER} ORDER BY w.rowid DESC"
        );
        self.collect_candidates(&sql, upto, Some(query), found)
    }

    fn collect_candidates(
        &self,
        sql: &str,
        bound: i64,
        index_query: Option<&str>,
        found: &mut CandidateList,
    ) -> Result<(), LedgerError> {
        let list = |values: &[String]| Value::from(values.to_vec()).to_string();
        let mut statement = self.connection.prepare_cached(sql)?;
        let since = self.options.since.unwrap_or(Time(i64::MIN));
        let (sources, exclude) = (list(&self.options.sources), list(&self.options.exclude_sources));
        let roles = list(&self.options.roles);
        let mut rows = match index_query {
            None => statement.query(named_params! {
                ":bound": bound, ":undone": self.options.undone, ":since": since,
                ":sources": sources, ":exclude": exclude, ":roles": roles,
            })?,
            Some(index_query) => statement.query(named_params! {
                ":bound": bound, ":undone": self.options.undone, ":since": since,
                ":sources": sources, ":exclude": exclude, ":roles": roles, ":query": index_query,
            })?,
        };
        while !found.is_full && !found.is_stopped {
            let Some(row) = rows.next()? else { break };
            self.consider_message(row, found)?;
        }
        Ok(())
    }

    fn consider_message(
        &self,
        row: &Row<'_>,
        found: &mut CandidateList,
    ) -> Result<(), LedgerError> {
        let text = fold_fields(&read_searchable(row)?);
        found.read += text.len();
        if self.query.matches(&text) {
            found.candidates.push(Candidate {
                id: row.get("id")?,
                time: row.get("timestamp")?,
                occurrences: self
                    .query
                    .terms()
                    .map(|term| count_occurrences(term, &text))
                    .collect(),
                length: text.len(),
            });
        }
        let matches = found.candidates.len();
        found.is_full = matches >= MAX_RANKED.max(self.options.limit)
            || (found.read > ENOUGH_READ && matches >= self.options.limit.max(1));
        found.is_stopped = !found.is_full && (self.is_over)();
        Ok(())
    }

    fn read_hit(&self, candidate: &Candidate) -> Result<SearchHit, LedgerError> {
        let sql = "
            SELECT m.session AS session_key, m.seq, m.role, m.timestamp, m.structured, m.content,
                   m.tool_name, m.tool_calls, s.id, s.source, s.model, s.title, s.started_at
            FROM messages m JOIN sessions s ON s.key = m.session WHERE m.id = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([candidate.id])?;
        let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let fields = read_searchable(row)?;
        let (key, seq): (i64, i64) = (row.get("session_key")?, row.get("seq")?);
        Ok(SearchHit {
            session: row.get("id")?,
            message: seq,
            role: row.get("role")?,
            time: row.get("timestamp")?,
            snippet: snippet::make_snippet(self.query, &fields),
            before: self.read_neighbour(key, seq, "seq < ?2", "DESC")?,
            after: self.read_neighbour(key, seq, "seq > ?2", "ASC")?,
            source: row.get("source")?,
            model: row.get("model")?,
            title: row.get("title")?,
            session_started: row.get("started_at")?,
        })
    }

    /// Reads the beginning of the previous or next message.
    fn read_neighbour(
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
        Ok(fields.map(|fields| {
            let text = fields.iter().find(|field| !field.is_empty()).map_or("", String::as_str);
            text.chars().take(NEIGHBOUR_LENGTH).collect()
        }))
    }
}

const COLUMNS: &str = "m.id, m.timestamp, m.structured, m.content, m.tool_name, m.tool_calls";

/// The messages that the options select. A message that a fork has in common with its parent is
/// found only in the parent, unless it has been taken back there.
const FILTER: &str = "
    (:undone OR NOT m.undone) AND m.timestamp >= :since
    AND (m.seq > s.inherited OR NOT EXISTS (
        SELECT 1 FROM sessions p CROSS JOIN messages pm ON pm.session = p.key AND pm.seq = m.seq
        WHERE p.id = s.parent_session_id AND (:undone OR NOT pm.undone)))
    AND (:roles = '[]' OR m.role IN (SELECT value FROM json_each(:roles)))
    AND (:sources = '[]' OR s.source IN (SELECT value FROM json_each(:sources)))
    AND s.source NOT IN (SELECT value FROM json_each(:exclude))";

fn count_occurrences(term: &query::Term, text: &str) -> usize {
    /// The maximum number of occurrences that count for the rank.
    const MOST: usize = 16;
    let mut from = 0;
    let mut count = 0;
    while count < MOST
        && let Some(found) = term.find(text, from)
    {
        count += 1;
        from = found.end;
    }
    count
}

/// Ranks the candidates by Okapi BM25, with statistics computed from the candidates alone. Among
/// equally good candidates, the newest comes first. Returns the best `limit` candidates.
fn rank_candidates(candidates: Vec<Candidate>, limit: usize) -> Vec<Candidate> {
    const K1: f64 = 1.2;
    const B: f64 = 0.75;
    let number = candidates.len().max(1) as f64;
    let average =
        candidates.iter().map(|candidate| candidate.length).sum::<usize>() as f64 / number;
    let terms = candidates.first().map_or(0, |candidate| candidate.occurrences.len());
    let weights: Vec<f64> = (0..terms)
        .map(|term| {
            let having = candidates.iter().filter(|other| other.occurrences[term] > 0).count();
            (1.0 + (number - having as f64 + 0.5) / (having as f64 + 0.5)).ln()
        })
        .collect();
    let score = |candidate: &Candidate| -> f64 {
        let norm = K1 * (1.0 - B + B * candidate.length as f64 / average.max(1.0));
        let term =
            |(count, weight): (&usize, &f64)| weight * *count as f64 / (*count as f64 + norm);
        candidate.occurrences.iter().zip(&weights).map(term).sum()
    };
    let mut scored: Vec<(f64, Candidate)> =
        candidates.into_iter().map(|candidate| (score(&candidate), candidate)).collect();
    scored.sort_by(|(left, a), (right, b)| {
        right.total_cmp(left).then(b.time.cmp(&a.time)).then(b.id.cmp(&a.id))
    });
    scored.into_iter().take(limit).map(|(_, candidate)| candidate).collect()
}
