//! Lists and searches the sessions of all machines, and adds up their usage.

use takeback_ledger::{
    ListOptions, PriceFn, SearchOptions, SearchResults, SessionSummary, Time, UsageBy, UsageTotal,
};

use super::open_fleet;
use crate::context::Context;
use crate::failure::Failure;

/// Lists sessions, each with the name of its machine.
pub(crate) fn list_sessions(
    options: &ListOptions,
    context: &Context,
) -> Result<Vec<(String, SessionSummary)>, Failure> {
    let sessions = open_fleet(context)?.sessions(options)?;
    Ok(sessions.into_iter().map(|session| (session.machine, session.summary)).collect())
}

/// Searches messages until `is_over` returns true. Also returns, for each result, the name of its
/// machine.
pub(crate) fn search_messages(
    query: &str,
    options: &SearchOptions,
    is_over: &dyn Fn() -> bool,
    context: &Context,
) -> Result<(SearchResults, Vec<String>), Failure> {
    let found = open_fleet(context)?.search(query, options, is_over)?;
    let (machines, results) = found.hits.into_iter().map(|hit| (hit.machine, hit.hit)).unzip();
    let (total, more, stopped) = (found.total, found.more, found.stopped);
    Ok((SearchResults { results, total, more, stopped }, machines))
}

/// Adds up the usage of all sessions.
pub(crate) fn add_up_usage(
    by: UsageBy,
    day: &dyn Fn(Time) -> String,
    price: &PriceFn<'_>,
    context: &Context,
) -> Result<Vec<UsageTotal>, Failure> {
    Ok(open_fleet(context)?.usage_by(by, day, price)?)
}
