//! Search: one definition of what matches, an index that answers exactly that.
//!
//! The definition is [`matches()`]; everything else is about speed. The index proposes messages,
//! newest first, and each proposal is checked with the definition; messages that are not indexed
//! yet, and queries that the index cannot help with, are read one by one.

mod fold;
mod index;
mod query;
mod snippet;
mod tokens;

use rusqlite::{Connection, OptionalExtension, Row, named_params, params};
use serde_json::Value;

pub(crate) use self::index::{
    INDEX_VERSION, folded, forget_message, forget_session, index_message, indexed_up_to,
};
use self::query::Query;
pub(crate) use self::tokens::index_entry;
use crate::{Ledger, LedgerError, Time, messages};

/// How many matches are ranked: the newest ones.
const RANKED: usize = 200;

/// After so many bytes of text, as many matches as are to be shown are enough.
const READ: usize = 512 << 10;

/// How many characters of the messages before and after a match are shown.
const NEIGHBOUR_LENGTH: usize = 200;

/// Where to search and what to show.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// Only sessions of these sources; empty: of all.
    pub sources: Vec<String>,
    /// No sessions of these.
    pub exclude_sources: Vec<String>,
    /// Only messages of these roles; empty: of all.
    pub roles: Vec<String>,
    /// Only messages since then.
    pub since: Option<Time>,
    /// Messages that were taken back, too.
    pub undone: bool,
    /// At most so many results.
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

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchOutcome {
    /// The best matches, best first; equally good ones newest first.
    pub results: Vec<Hit>,
    /// How many messages match, as far as was counted.
    pub total: usize,
    /// Whether counting stopped before the end.
    pub more: bool,
}

/// A message that matches.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The session's id.
    pub session: String,
    /// The message's number in it.
    pub message: i64,
    /// Who said it.
    pub role: String,
    /// When.
    pub time: Time,
    /// The text around the first match, with `>>>` and `<<<` around each match.
    pub snippet: String,
    /// The beginning of the message before it.
    pub before: Option<String>,
    /// The beginning of the message after it.
    pub after: Option<String>,
    /// Where the session took place.
    pub source: String,
    /// Its model.
    pub model: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// When it began.
    pub session_started: Time,
}

/// Whether a message with these texts matches a query: the definition.
///
/// Case, accents and width do not matter, nor how much white space there is. A term matches
/// between word boundaries; characters of scripts without spaces have one on either side, as has
/// all punctuation. `x*` needs none behind it, `*x*` none at all. Terms are all needed, `OR`
/// separates alternatives, `NOT` excludes the next term, `"…"` is one term.
pub fn matches(query: &str, texts: &[&str]) -> bool {
    let query = Query::parse(query);
    let text: Vec<String> = texts.iter().map(|text| fold::fold(text)).collect();
    !query.clauses.is_empty() && query.matches(&text.join("\n"))
}

impl Ledger {
    /// Searches all messages. Every text is a query; see [`matches()`].
    pub fn search(
        &mut self,
        query: &str,
        options: &SearchOptions,
    ) -> Result<SearchOutcome, LedgerError> {
        self.shorten_tail();
        let query = Query::parse(query);
        if query.clauses.is_empty() {
            return Ok(SearchOutcome::default());
        }
        self.database.snapshot(|connection| Search { connection, query: &query, options }.run())
    }
}

struct Search<'s> {
    connection: &'s Connection,
    query: &'s Query,
    options: &'s SearchOptions,
}

/// A match before it is ranked.
struct Candidate {
    id: i64,
    time: Time,
    /// How often each term of the query occurs.
    occurrences: Vec<usize>,
    /// The length of the folded text.
    length: usize,
}

/// Matches as they come.
#[derive(Default)]
struct Found {
    candidates: Vec<Candidate>,
    read: usize,
    is_full: bool,
}

impl Search<'_> {
    fn run(&self) -> Result<SearchOutcome, LedgerError> {
        let indexed = indexed_up_to(self.connection)?;
        let mut found = Found::default();
        match self.query.index_query() {
            None => self.scan(0, &mut found)?,
            Some(index_query) => {
                self.scan(indexed, &mut found)?;
                self.ask_index(&index_query, indexed, &mut found)?;
            }
        }
        let (total, more) = (found.candidates.len(), found.is_full);
        let best = rank(found.candidates, self.options.limit);
        let results = best.iter().map(|candidate| self.hit(candidate)).collect::<Result<_, _>>()?;
        Ok(SearchOutcome { results, total, more })
    }

    /// Messages behind `after`, newest first.
    fn scan(&self, after: i64, found: &mut Found) -> Result<(), LedgerError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM messages m CROSS JOIN sessions s ON s.key = m.session
             WHERE m.id > :bound AND {FILTER} ORDER BY m.id DESC"
        );
        self.collect(&sql, after, None, found)
    }

    /// Messages up to `upto` that the index proposes, newest first.
    fn ask_index(&self, query: &str, upto: i64, found: &mut Found) -> Result<(), LedgerError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM words w CROSS JOIN messages m ON m.id = w.rowid
             CROSS JOIN sessions s ON s.key = m.session
             WHERE w.words MATCH :query AND m.id <= :bound AND {FILTER} ORDER BY w.rowid DESC"
        );
        self.collect(&sql, upto, Some(query), found)
    }

    fn collect(
        &self,
        sql: &str,
        bound: i64,
        index_query: Option<&str>,
        found: &mut Found,
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
        while !found.is_full {
            let Some(row) = rows.next()? else { break };
            self.consider(row, found)?;
        }
        Ok(())
    }

    fn consider(&self, row: &Row<'_>, found: &mut Found) -> Result<(), LedgerError> {
        let text = folded(&messages::searchable(row)?);
        found.read += text.len();
        if self.query.matches(&text) {
            found.candidates.push(Candidate {
                id: row.get("id")?,
                time: row.get("timestamp")?,
                occurrences: self.query.terms().map(|term| occurrences(term, &text)).collect(),
                length: text.len(),
            });
        }
        let matches = found.candidates.len();
        found.is_full = matches >= RANKED.max(self.options.limit)
            || (found.read > READ && matches >= self.options.limit.max(1));
        Ok(())
    }

    fn hit(&self, candidate: &Candidate) -> Result<Hit, LedgerError> {
        let sql = "
            SELECT m.session AS session_key, m.seq, m.role, m.timestamp, m.structured, m.content,
                   m.tool_name, m.tool_calls, s.id, s.source, s.model, s.title, s.started_at
            FROM messages m JOIN sessions s ON s.key = m.session WHERE m.id = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([candidate.id])?;
        let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let fields = messages::searchable(row)?;
        let (key, seq): (i64, i64) = (row.get("session_key")?, row.get("seq")?);
        Ok(Hit {
            session: row.get("id")?,
            message: seq,
            role: row.get("role")?,
            time: row.get("timestamp")?,
            snippet: snippet::snippet(self.query, &fields),
            before: self.neighbour(key, seq, "seq < ?2", "DESC")?,
            after: self.neighbour(key, seq, "seq > ?2", "ASC")?,
            source: row.get("source")?,
            model: row.get("model")?,
            title: row.get("title")?,
            session_started: row.get("started_at")?,
        })
    }

    fn neighbour(
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
            .query_row(params![key, seq, self.options.undone], messages::searchable)
            .optional()?;
        Ok(fields.map(|fields| {
            let text = fields.iter().find(|field| !field.is_empty()).map_or("", String::as_str);
            text.chars().take(NEIGHBOUR_LENGTH).collect()
        }))
    }
}

const COLUMNS: &str = "m.id, m.timestamp, m.structured, m.content, m.tool_name, m.tool_calls";

const FILTER: &str = "
    (:undone OR NOT m.undone) AND m.timestamp >= :since
    AND (:roles = '[]' OR m.role IN (SELECT value FROM json_each(:roles)))
    AND (:sources = '[]' OR s.source IN (SELECT value FROM json_each(:sources)))
    AND s.source NOT IN (SELECT value FROM json_each(:exclude))";

fn occurrences(term: &query::Term, text: &str) -> usize {
    /// More make no difference to the rank.
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

/// The best candidates by Okapi BM25 among the candidates; equally good ones newest first.
fn rank(candidates: Vec<Candidate>, limit: usize) -> Vec<Candidate> {
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
