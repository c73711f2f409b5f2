//! Collecting matches from any source of messages, and ranking them.

use super::fold_fields;
use super::index_query::IndexQuery;
use super::query::{Query, Term};
use super::snippet::make_snippet;
use crate::messages::Searchable;
use crate::{MessageRecord, Time};

/// The maximum number of matches that are ranked, unless the caller asks for more results. If there
/// are more matches, only the newest are ranked.
const MAX_RANKED: usize = 200;

/// A search that has read more bytes of text than this stops as soon as it has enough matches to
/// show.
const ENOUGH_READ: usize = 512 << 10;

/// A search in messages that the caller provides, newest first. The messages can be stored
/// anywhere. `Id` identifies a message.
pub struct SearchCollector<Id> {
    query: Query,
    limit: usize,
    candidates: Vec<Candidate<Id>>,
    /// The number of bytes of text read so far.
    read: usize,
}

/// A match before it is ranked.
struct Candidate<Id> {
    id: Id,
    time: Time,
    /// True for the result of a tool call.
    is_result: bool,
    /// The number of occurrences of each term of the query.
    occurrences: Vec<usize>,
    /// The length of the folded text.
    length: usize,
}

impl<Id: Ord> SearchCollector<Id> {
    /// Begins a search for the best `limit` matches. Any text is a valid query; see
    /// [`matches()`](super::matches()).
    pub fn new(query: &str, limit: usize) -> SearchCollector<Id> {
        SearchCollector { query: Query::parse(query), limit, candidates: Vec::new(), read: 0 }
    }

    /// True if nothing was typed, so nothing matches.
    pub fn is_empty(&self) -> bool {
        self.query.is_empty()
    }

    /// Returns a condition that the tokens of every match satisfy. Returns `None` if there is no
    /// such condition, in which case all messages must be read.
    pub fn index_query(&self) -> Option<IndexQuery> {
        self.query.index_query()
    }

    /// Keeps a message if it matches. Returns true if no further message is needed.
    ///
    /// ```
    /// use takeback_ledger::{MessageRecord, SearchCollector, Time};
    ///
    /// let said = |text: &str| MessageRecord { content: Some(text.into()), ..MessageRecord::default() };
    /// let mut collector = SearchCollector::new("imports OR tests", 10);
    /// for (number, text) in ["tidy the imports", "thanks", "run the tests"].iter().enumerate() {
    ///     collector.consider(number, Time(number as i64), &said(text));
    /// }
    /// assert_eq!(collector.count(), 2);
    /// // Equally good matches come newest first.
    /// assert_eq!(collector.take_best(), [2, 0]);
    /// ```
    pub fn consider(&mut self, id: Id, time: Time, message: &MessageRecord) -> bool {
        let is_result = matches!(message.role.as_str(), "tool" | "function");
        self.consider_fields(id, time, is_result, &Searchable::of(message).0)
    }

    /// Keeps a message with these fields if it matches. Returns true if no further message is
    /// needed.
    pub(super) fn consider_fields(
        &mut self,
        id: Id,
        time: Time,
        is_result: bool,
        fields: &[String; 3],
    ) -> bool {
        let text = fold_fields(fields);
        self.read += text.len();
        if self.query.matches(&text) {
            let occurrences =
                self.query.terms().map(|term| count_occurrences(term, &text)).collect();
            let length = text.len();
            self.candidates.push(Candidate { id, time, is_result, occurrences, length });
        }
        self.is_full()
    }

    /// True if no further message is needed.
    pub fn is_full(&self) -> bool {
        let matches = self.candidates.len();
        matches >= MAX_RANKED.max(self.limit)
            || (self.read > ENOUGH_READ && matches >= self.limit.max(1))
    }

    /// Returns the number of matches.
    pub fn count(&self) -> usize {
        self.candidates.len()
    }

    /// Returns the text around the first match in a message, with marks around each match.
    pub fn snippet(&self, message: &MessageRecord) -> String {
        self.snippet_of(&Searchable::of(message).0)
    }

    /// Returns the text around the first match in these fields, with marks around each match.
    pub(super) fn snippet_of(&self, fields: &[String; 3]) -> String {
        make_snippet(&self.query, fields)
    }

    /// Ranks the matches by Okapi BM25, with statistics computed from the matches alone. Among
    /// equally good matches, the newest comes first. The results of tool calls come last: they
    /// repeat whole files, and users more often look for prompts, answers and calls. Returns the
    /// best matches, and empties the collector.
    pub fn take_best(&mut self) -> Vec<Id> {
        const K1: f64 = 1.2;
        const B: f64 = 0.75;
        let candidates = std::mem::take(&mut self.candidates);
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
        let score = |candidate: &Candidate<Id>| -> f64 {
            let norm = K1 * (1.0 - B + B * candidate.length as f64 / average.max(1.0));
            let term =
                |(count, weight): (&usize, &f64)| weight * *count as f64 / (*count as f64 + norm);
            candidate.occurrences.iter().zip(&weights).map(term).sum()
        };
        let mut scored: Vec<(f64, Candidate<Id>)> =
            candidates.into_iter().map(|candidate| (score(&candidate), candidate)).collect();
        scored.sort_by(|(left, a), (right, b)| {
            let order = a.is_result.cmp(&b.is_result).then(right.total_cmp(left));
            order.then(b.time.cmp(&a.time)).then(b.id.cmp(&a.id))
        });
        scored.into_iter().take(self.limit).map(|(_, candidate)| candidate.id).collect()
    }
}

fn count_occurrences(term: &Term, text: &str) -> usize {
    /// The maximum number of occurrences that count toward the rank.
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
