//! `takeback sessions search`: finds messages in all sessions.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use takeback_ledger::{Ledger, SearchHit, SearchOptions, Time};

use super::list::resolve_workspace;
use super::text::{self, ShortIds};
use super::when;
use crate::commands::fleet;
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output::{self, Cell, Column, Progress, Style, Table, paint};

/// Search all messages, tool names and tool calls
///
/// A message matches if it contains all terms, in any order. Case, accents and width do not matter;
/// punctuation is literal. "…" is one term, OR separates alternatives, NOT excludes a term, x* also
/// matches longer words, and *x* matches parts of words.
#[derive(Args, Clone)]
#[command(after_help = "\
Examples:
  takeback search chat-send
  takeback search '\"connection refused\" OR timeout' --role tool --since 7d
  takeback search migrat* NOT rollback --agent codex
  takeback search cart --workspace .
  takeback search chat-send --fleet      in the sessions of all machines
  takeback search -- --force")]
pub(crate) struct Arguments {
    /// The terms to search for
    #[arg(value_name = "QUERY", required = true)]
    pub(crate) query: Vec<String>,
    /// Search only sessions of this agent or platform (repeatable)
    #[arg(long = "source", visible_alias = "agent", value_name = "SOURCE")]
    pub(crate) sources: Vec<String>,
    /// Skip sessions of this agent or platform (repeatable)
    #[arg(long = "exclude-source", visible_alias = "exclude-agent", value_name = "SOURCE")]
    pub(crate) exclude_sources: Vec<String>,
    /// Search only messages of this role: user, assistant, tool, … (repeatable)
    #[arg(long = "role", value_name = "ROLE")]
    pub(crate) roles: Vec<String>,
    /// Search only sessions that worked in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<String>,
    /// Search only messages since this time: 30m, 12h, 7d, 3w, 6mo, 1y ago, or a date
    #[arg(long, value_name = "WHEN", value_parser = when::parse)]
    pub(crate) since: Option<Time>,
    /// Include messages that were taken back
    #[arg(long)]
    pub(crate) undone: bool,
    /// Limit the number of results
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Search the sessions of all machines of the fleet
    #[arg(long)]
    pub(crate) fleet: bool,
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
    /// The name of the machine, in a search over all machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
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
            machine: None,
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
    let workspace = arguments.workspace.as_deref();
    let workspace = workspace.map(|typed| resolve_workspace(Path::new(typed), context));
    let arguments = Arguments { workspace, ..arguments.clone() };
    if arguments.fleet {
        return run_in_fleet(&arguments, context);
    }
    let mut ledger = logs::current_ledger(context)?;
    let progress = Progress::new("searching");
    let view = search_messages(&arguments, &mut ledger, &|| false)?;
    let suggestion = match view.results.is_empty() {
        true => suggest_query(&arguments, &mut ledger)?,
        false => None,
    };
    drop(progress);
    if !output::answers_json(&view, context) {
        print_hits(&view, suggestion.as_deref(), &ShortIds::new(&ledger)?);
    }
    Ok(ExitCode::SUCCESS)
}

fn run_in_fleet(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let progress = Progress::new("searching");
    let query = arguments.query.join(" ");
    let start = Instant::now();
    let is_over = || start.elapsed() > TIME_LIMIT;
    let (found, machines) =
        fleet::search_messages(&query, &arguments.options(), &is_over, context)?;
    drop(progress);
    let results = machines
        .into_iter()
        .zip(found.results)
        .map(|(machine, hit)| HitView { machine: Some(machine), ..hit.into() })
        .collect();
    let (total, more, stopped) = (found.total, found.more, found.stopped);
    let view = SearchView { query, results, total, more, stopped };
    if !output::answers_json(&view, context) {
        print_hits(&view, None, &ShortIds::none());
    }
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    fn options(&self) -> SearchOptions {
        SearchOptions {
            sources: self.sources.clone(),
            exclude_sources: self.exclude_sources.clone(),
            roles: self.roles.clone(),
            workspace: self.workspace.clone(),
            since: self.since,
            undone: self.undone,
            limit: self.limit as usize,
        }
    }
}

/// Suggests another spelling of the query, if a search for that spelling has results.
fn suggest_query(arguments: &Arguments, ledger: &mut Ledger) -> Result<Option<String>, Failure> {
    let Some(suggested) = ledger.suggest_query(&arguments.query.join(" "))? else {
        return Ok(None);
    };
    let query = vec![suggested.clone()];
    let found = search_messages(&Arguments { query, ..arguments.clone() }, ledger, &|| false)?;
    Ok((!found.results.is_empty()).then_some(suggested))
}

/// Searches the ledger for the messages that the arguments ask for, until the time limit is reached
/// or `is_cancelled` returns true.
pub(crate) fn search_messages(
    arguments: &Arguments,
    ledger: &mut Ledger,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<SearchView, Failure> {
    let query = arguments.query.join(" ");
    let options = arguments.options();
    let start = Instant::now();
    let is_over = || is_cancelled() || start.elapsed() > TIME_LIMIT;
    let outcome = ledger.search_until(&query, &options, &is_over)?;
    let results = outcome.results.into_iter().map(HitView::from).collect();
    let (total, more, stopped) = (outcome.total, outcome.more, outcome.stopped);
    Ok(SearchView { query, results, total, more, stopped })
}

fn print_hits(view: &SearchView, suggestion: Option<&str>, ids: &ShortIds) {
    if view.stopped {
        let limit = TIME_LIMIT.as_secs();
        output::warn(&format!("stopped after {limit} s: only the newest messages were searched"));
    }
    if view.results.is_empty() {
        println!("No matching messages.");
        if let Some(suggestion) = suggestion {
            println!("Did you mean: {}", output::disarm(suggestion));
        }
        return;
    }
    // Group the matches by session. The session with the best match comes first.
    let mut sessions: Vec<Vec<&HitView>> = Vec::new();
    for hit in &view.results {
        match sessions.iter_mut().find(|hits| is_same_session(hits[0], hit)) {
            Some(hits) => hits.push(hit),
            None => sessions.push(vec![hit]),
        }
    }
    for hits in sessions {
        print_heading(hits[0], ids);
        for hit in hits {
            hit.before.iter().for_each(|before| print_neighbor(before));
            let snippet = mark_matches(&output::disarm(&hit.snippet));
            println!("  > [{}] {}  {snippet}", hit.message, output::disarm(&hit.role));
            hit.after.iter().for_each(|after| print_neighbor(after));
        }
    }
    let shown = view.results.len();
    let total = output::count(view.total, "message");
    match (view.more, shown < view.total) {
        (true, _) => println!("Showing the best {shown} of at least {total}."),
        (false, true) => println!("Showing the best {shown} of {total}."),
        (false, false) => println!("{total} found."),
    }
    let best = &view.results[0];
    if best.machine.is_some() {
        return;
    }
    let id = ids.short_id(&best.session);
    println!("`takeback sessions show {id} --around {}` shows the best one in full.", best.message);
}

fn is_same_session(a: &HitView, b: &HitView) -> bool {
    a.session == b.session && a.machine == b.machine
}

/// Prints the session that the matches below belong to.
fn print_heading(hit: &HitView, ids: &ShortIds) {
    let title = Column::free().shrinks(1, 12);
    let machine = hit.machine.as_ref();
    let columns = [Column::free(), Column::free(), Column::free(), title];
    let mut heading = Table::new(machine.map(|_| Column::free()).into_iter().chain(columns));
    let cells = [
        Cell::styled(Style::Id, ids.short_id(&hit.session)),
        Cell::new(text::local_time(hit.time)),
        Cell::new(&hit.source),
        Cell::new(hit.title.as_deref().unwrap_or_default()),
    ];
    heading.add(machine.map(Cell::new).into_iter().chain(cells));
    heading.print();
}

/// Prints the message before or after a match as one line.
fn print_neighbor(message: &str) {
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
