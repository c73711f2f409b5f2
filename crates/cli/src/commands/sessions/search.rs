//! `takeback sessions search`: every message of every session.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_ledger::{Hit, Ledger, SearchOptions, Time};

use super::text::{self, ShortIds};
use super::when;
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output::{self, Progress, Style, paint};

/// Search all messages, tool names and tool calls
///
/// All terms have to be there, in any order; case, accents and width do not matter. Punctuation is
/// literal. "…" is one term, OR separates alternatives, NOT excludes a term, x* also finds longer
/// words and *x* parts of words.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback sessions search chat-send
  takeback sessions search '\"connection refused\" OR timeout' --role tool --since 7d
  takeback sessions search migrat* NOT rollback --source codex
  takeback sessions search -- --force")]
pub(crate) struct Arguments {
    /// What to look for
    #[arg(value_name = "QUERY", required = true)]
    pub(crate) query: Vec<String>,
    /// Only in sessions of this agent or platform; may be repeated
    #[arg(long = "source", value_name = "SOURCE")]
    pub(crate) sources: Vec<String>,
    /// Not in sessions of this one; may be repeated
    #[arg(long = "exclude-source", value_name = "SOURCE")]
    pub(crate) exclude_sources: Vec<String>,
    /// Only what this role said (user, assistant, tool, …); may be repeated
    #[arg(long = "role", value_name = "ROLE")]
    pub(crate) roles: Vec<String>,
    /// Only since then: 30m, 12h, 7d, 3w, 6mo, 1y, or a date
    #[arg(long, value_name = "WHEN", value_parser = when::parse)]
    pub(crate) since: Option<Time>,
    /// Messages that were taken back, too
    #[arg(long)]
    pub(crate) undone: bool,
    /// At most so many results
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
}

#[derive(Serialize)]
pub(crate) struct View {
    query: String,
    results: Vec<Row>,
    /// How many messages match, as far as was counted.
    total: usize,
    /// Whether counting stopped before the end.
    more: bool,
}

#[derive(Serialize)]
struct Row {
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

impl From<Hit> for Row {
    fn from(hit: Hit) -> Row {
        Row {
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

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let mut ledger = logs::current_ledger(context)?;
    let progress = Progress::new("searching");
    let view = view(arguments, &mut ledger)?;
    drop(progress);
    if context.globals.json {
        output::print_json(&view);
    } else {
        show(&view, &ShortIds::new(&ledger)?);
    }
    Ok(ExitCode::SUCCESS)
}

/// What is found.
pub(crate) fn view(arguments: &Arguments, ledger: &mut Ledger) -> Result<View, Failure> {
    let query = arguments.query.join(" ");
    let options = SearchOptions {
        sources: arguments.sources.clone(),
        exclude_sources: arguments.exclude_sources.clone(),
        roles: arguments.roles.clone(),
        since: arguments.since,
        undone: arguments.undone,
        limit: arguments.limit as usize,
    };
    let outcome = ledger.search(&query, &options)?;
    let results = outcome.results.into_iter().map(Row::from).collect();
    Ok(View { query, results, total: outcome.total, more: outcome.more })
}

fn show(view: &View, ids: &ShortIds) {
    if view.results.is_empty() {
        println!("No message matches.");
        return;
    }
    for row in &view.results {
        let title = row.title.as_deref().map(|title| format!("  {}", output::disarm(title)));
        println!(
            "{} [{}] {}  {}  {}{}",
            ids.of(&row.session),
            row.message,
            output::disarm(&row.role),
            text::local(row.time),
            output::disarm(&row.source),
            title.unwrap_or_default()
        );
        row.before.iter().for_each(|before| neighbour(before));
        println!("  > {}", mark_matches(&output::disarm(&row.snippet)));
        row.after.iter().for_each(|after| neighbour(after));
    }
    let shown = view.results.len();
    let total = output::count(view.total, "message");
    match (view.more, shown < view.total) {
        (true, _) => println!("The best {shown} of {total} and more."),
        (false, true) => println!("The best {shown} of {total}."),
        (false, false) => println!("{total}."),
    }
}

/// The message before or after a match, as one line.
fn neighbour(message: &str) {
    const LENGTH: usize = 100;
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    if !line.is_empty() {
        println!("    {}", output::disarm(&output::shorten(&line, LENGTH)));
    }
}

/// Shows matches in bold on a terminal, and otherwise between marks.
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
