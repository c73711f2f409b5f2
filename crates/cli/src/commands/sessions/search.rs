//! `takeback sessions search`: finds messages in all sessions.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use takeback_ledger::{Ledger, SearchHit, SearchOptions, Time};

use super::text::{self, ShortIds};
use super::when;
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output::{self, Cell, Column, Progress, Style, Table, paint};

/// Search all messages, tool names and tool calls
///
/// A message matches if it contains all terms, in any order. Case, accents and width do not matter;
/// punctuation is literal. "…" is one term, OR separates alternatives, NOT excludes a term, x* also
/// matches longer words, and *x* matches parts of words.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback search chat-send
  takeback search '\"connection refused\" OR timeout' --role tool --since 7d
  takeback search migrat* NOT rollback --source codex
  takeback search -- --force")]
pub(crate) struct Arguments {
    /// The terms to search for
    #[arg(value_name = "QUERY", required = true)]
    pub(crate) query: Vec<String>,
    /// Search only sessions of this agent or platform (repeatable)
    #[arg(long = "source", value_name = "SOURCE")]
    pub(crate) sources: Vec<String>,
    /// Skip sessions of this agent or platform (repeatable)
    #[arg(long = "exclude-source", value_name = "SOURCE")]
    pub(crate) exclude_sources: Vec<String>,
    /// Search only messages of this role: user, assistant, tool, … (repeatable)
    #[arg(long = "role", value_name = "ROLE")]
    pub(crate) roles: Vec<String>,
    /// Search only messages since this time: 30m, 12h, 7d, 3w, 6mo, 1y ago, or a date
    #[arg(long, value_name = "WHEN", value_parser = when::parse)]
    pub(crate) since: Option<Time>,
    /// Include messages that were taken back
    #[arg(long)]
    pub(crate) undone: bool,
    /// Limit the number of results
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
}

#[derive(Serialize)]
pub(crate) struct SearchView {
    query: String,
    results: Vec<HitView>,
    /// The number of matching messages that were counted.
    total: usize,
    /// True if counting stopped at `total` although there may be more matches.
    more: bool,
    /// True if the search took too long and was stopped.
    stopped: bool,
}

/// The maximum time that a search may take. Most searches take milliseconds, but `*x*` reads every
/// message.
const TIME_LIMIT: Duration = Duration::from_secs(10);

#[derive(Serialize)]
struct HitView {
    session: String,
    message: i64,
    role: String,
    time: Time,
    snippet: String,
    before: Option<String>,
    after: Option<String>,
    source: String,
    model: Option<String>,
    title: Option<String>,
    session_started: Time,
}

impl From<SearchHit> for HitView {
    fn from(hit: SearchHit) -> HitView {
        HitView {
            session: hit.session,
            message: hit.message,
            role: hit.role,
            time: hit.time,
            snippet: hit.snippet,
            before: hit.before,
            after: hit.after,
            source: hit.source,
            model: hit.model,
            title: hit.title,
            session_started: hit.session_started,
        }
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let mut ledger = logs::current_ledger(context)?;
    let progress = Progress::new("searching");
    let view = search_messages(arguments, &mut ledger, &|| false)?;
    drop(progress);
    if !output::answers_json(&view, context) {
        print_hits(&view, &ShortIds::new(&ledger)?);
    }
    Ok(ExitCode::SUCCESS)
}

/// Searches the ledger for the messages that the arguments ask for, until the time limit is reached
/// or `is_cancelled` returns true.
pub(crate) fn search_messages(
    arguments: &Arguments,
    ledger: &mut Ledger,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<SearchView, Failure> {
    let query = arguments.query.join(" ");
    let options = SearchOptions {
        sources: arguments.sources.clone(),
        exclude_sources: arguments.exclude_sources.clone(),
        roles: arguments.roles.clone(),
        since: arguments.since,
        undone: arguments.undone,
        limit: arguments.limit as usize,
    };
    let start = Instant::now();
    let is_over = || is_cancelled() || start.elapsed() > TIME_LIMIT;
    let outcome = ledger.search_until(&query, &options, &is_over)?;
    let results = outcome.results.into_iter().map(HitView::from).collect();
    let (total, more, stopped) = (outcome.total, outcome.more, outcome.stopped);
    Ok(SearchView { query, results, total, more, stopped })
}

fn print_hits(view: &SearchView, ids: &ShortIds) {
    if view.stopped {
        let limit = TIME_LIMIT.as_secs();
        output::warn(&format!("stopped after {limit} s: only the newest messages were searched"));
    }
    if view.results.is_empty() {
        println!("No matching messages.");
        return;
    }
    for hit in &view.results {
        print_heading(hit, ids);
        hit.before.iter().for_each(|before| print_neighbour(before));
        println!("  > {}", mark_matches(&output::disarm(&hit.snippet)));
        hit.after.iter().for_each(|after| print_neighbour(after));
    }
    let shown = view.results.len();
    let total = output::count(view.total, "message");
    match (view.more, shown < view.total) {
        (true, _) => println!("Showing the best {shown} of at least {total}."),
        (false, true) => println!("Showing the best {shown} of {total}."),
        (false, false) => println!("{total} found."),
    }
}

fn print_heading(hit: &HitView, ids: &ShortIds) {
    let title = Column::free().shrinks(1, 12);
    let mut heading = Table::new([Column::free(), Column::free(), Column::free(), title]);
    heading.add([
        Cell::new(format!("{} [{}] {}", ids.short_id(&hit.session), hit.message, hit.role)),
        Cell::new(text::local_time(hit.time)),
        Cell::new(&hit.source),
        Cell::new(hit.title.as_deref().unwrap_or_default()),
    ]);
    heading.print();
}

/// Prints the message before or after a match as one line.
fn print_neighbour(message: &str) {
    const WIDTH: usize = 100;
    let mut line = Table::new([Column::free().at_most(WIDTH).shrinks(1, 1)]).indented(4);
    let message = output::join_lines(message);
    if !message.is_empty() {
        line.add([Cell::new(message)]);
        line.print();
    }
}

/// On a terminal, replaces the marks `>>>` and `<<<` around each match with color.
fn mark_matches(snippet: &str) -> String {
    if !std::io::stdout().is_terminal() {
        return snippet.to_owned();
    }
    let mut parts = snippet.split(">>>");
    let mut line = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (found, rest) = part.split_once("<<<").unwrap_or((part, ""));
        line.push_str(&paint(Style::Match, found));
        line.push_str(rest);
    }
    line
}
