//! The contract that both the ledger and the fleet's database fulfill when they answer queries.
//!
//! All writes go to the ledger. A fleet offers only three operations: it lists sessions, searches
//! messages and adds up usage. Only the ledger offers the other operations: reading whole sessions,
//! resolving the beginning of an id, suggesting corrections for misspelled words, rewinding,
//! forking, and everything about titles, tasks and threads.

pub(crate) mod lists;
pub(crate) mod oracle;
pub(crate) mod search;

use takeback_ledger::{
    Ledger, ListOptions, MessageRecord, PriceFn, SearchOptions, SearchResults, SessionRecord,
    SessionSummary, Time, UsageBy, UsageTotal,
};

/// An implementation of the contract.
pub(crate) trait Backend {
    /// Returns the ledger to write to. Later queries see everything that is written to it.
    fn ledger(&mut self) -> &mut Ledger;

    fn search(&mut self, query: &str, options: &SearchOptions) -> SearchResults;

    fn sessions(&mut self, options: &ListOptions) -> Vec<SessionSummary>;

    fn usage_by(
        &mut self,
        by: UsageBy,
        day: &dyn Fn(Time) -> String,
        price: &PriceFn<'_>,
    ) -> Vec<UsageTotal>;

    /// The number of random cases to try.
    fn cases(&self) -> u32;
}

/// A part of the contract. It gets a backend without any sessions.
pub(crate) type Part = fn(&mut dyn Backend);

/// The parts of the contract, with their names.
pub(crate) const PARTS: &[(&str, Part)] = &[
    ("filters", search::a_search_filters_and_shows_the_messages_around_a_match),
    ("workspaces", search::on_request_only_the_sessions_of_a_workspace_are_searched),
    ("results of tools", search::results_of_tools_come_after_messages),
    ("better matches", search::the_better_match_comes_first),
    ("long queries", search::pasted_text_of_any_length_is_a_query),
    ("forks", search::a_search_finds_a_message_of_a_fork_once),
    ("matches", oracle::a_search_finds_what_a_scan_finds),
    ("any query", oracle::any_text_can_be_searched_for),
    ("lists", lists::lists_have_previews_and_begin_with_the_latest),
    ("usage", lists::usage_adds_up),
    ("prices", lists::costs_are_estimated_from_prices_and_unknown_prices_are_counted),
];

/// Returns the number of random cases that the environment asks for.
#[allow(dead_code, reason = "not every user of this module tries that many cases")]
pub(crate) fn case_count() -> u32 {
    std::env::var("TAKEBACK_SEARCH_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(150)
}

fn create_session(backend: &mut dyn Backend, id: &str) {
    backend.ledger().create_session(&session(id), at(0)).unwrap();
}

fn say(backend: &mut dyn Backend, session: &str, role: &str, text: &str) {
    backend.ledger().append(session, &[message(role, text)], at(1)).unwrap();
}

/// Returns the session and number of each message that a search finds.
fn find(backend: &mut dyn Backend, query: &str) -> Vec<(String, i64)> {
    let found = backend.search(query, &SearchOptions::default());
    found.results.into_iter().map(|hit| (hit.session, hit.message)).collect()
}

fn session(id: &str) -> SessionRecord {
    SessionRecord { id: id.to_owned(), source: "test".to_owned(), ..SessionRecord::default() }
}

fn message(role: &str, text: &str) -> MessageRecord {
    MessageRecord { role: role.to_owned(), content: Some(text.into()), ..MessageRecord::default() }
}

fn at(seconds: i64) -> Time {
    Time((1_700_000_000 + seconds) * 1_000)
}
