//! `takeback sessions list`: the latest sessions.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_ledger::{Ledger, ListOptions, SessionSummary, Time};

use super::text::{self, ShortIds};
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output;

// Neither help nor examples of its own: it is part of two commands.
#[derive(Args, Default, PartialEq)]
pub(crate) struct ListArguments {
    /// Only of this agent or platform; may be repeated
    #[arg(long = "source", value_name = "SOURCE")]
    pub(crate) sources: Vec<String>,
    /// Only those that worked in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// At most so many [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// Those that were put away, too
    #[arg(long)]
    pub(crate) archived: bool,
}

#[derive(Serialize)]
pub(crate) struct View<'s> {
    sessions: Vec<Row<'s>>,
    #[serde(skip)]
    is_all: bool,
}

#[derive(Serialize)]
struct Row<'s> {
    id: &'s str,
    source: &'s str,
    model: Option<&'s str>,
    title: Option<&'s str>,
    preview: &'s str,
    started_at: Option<Time>,
    ended_at: Option<Time>,
    end_reason: Option<&'s str>,
    last_activity: Time,
    message_count: i64,
    tool_call_count: i64,
    input_tokens: i64,
    output_tokens: i64,
    estimated_cost_usd: Option<f64>,
    actual_cost_usd: Option<f64>,
    workspace: Option<&'s str>,
    git_branch: Option<&'s str>,
    parent_session_id: Option<&'s str>,
    parent_kind: Option<&'static str>,
    archived: bool,
}

impl<'s> From<&'s SessionSummary> for Row<'s> {
    fn from(summary: &'s SessionSummary) -> Row<'s> {
        let session = &summary.session;
        Row {
            id: &session.id,
            source: &session.source,
            model: session.model.as_deref(),
            title: session.title.as_deref(),
            preview: &summary.preview,
            started_at: session.started_at,
            ended_at: session.ended_at,
            end_reason: session.end_reason.as_deref(),
            last_activity: summary.last_activity,
            message_count: session.message_count,
            tool_call_count: session.tool_call_count,
            input_tokens: session.tokens.input,
            output_tokens: session.tokens.output,
            estimated_cost_usd: session.estimated_cost_usd,
            actual_cost_usd: session.actual_cost_usd,
            workspace: session.workspace.as_deref(),
            git_branch: session.git_branch.as_deref(),
            parent_session_id: session.parent_session_id.as_deref(),
            parent_kind: session.parent_kind.map(takeback_ledger::ParentKind::as_str),
            archived: session.archived,
        }
    }
}

pub(super) fn run(arguments: &ListArguments, context: &Context) -> Result<ExitCode, Failure> {
    let ledger = logs::current_ledger(context)?;
    let found = find(arguments, &ledger, context)?;
    let view = View::new(arguments, &found);
    if context.globals.json {
        output::print_json(&view);
        return Ok(ExitCode::SUCCESS);
    }
    show(&view, &ShortIds::new(&ledger)?, is_restricted(arguments));
    Ok(ExitCode::SUCCESS)
}

/// Those that are asked for, and one more if there are more.
pub(crate) fn find(
    arguments: &ListArguments,
    ledger: &Ledger,
    context: &Context,
) -> Result<Vec<SessionSummary>, Failure> {
    Ok(ledger.sessions(&ListOptions {
        sources: arguments.sources.clone(),
        workspace: arguments.workspace.as_deref().map(|typed| workspace(typed, context)),
        archived: arguments.archived,
        limit: Some(arguments.limit() + 1),
    })?)
}

impl ListArguments {
    fn limit(&self) -> usize {
        self.limit.unwrap_or(20) as usize
    }
}

impl<'s> View<'s> {
    pub(crate) fn new(arguments: &ListArguments, found: &'s [SessionSummary]) -> View<'s> {
        let limit = arguments.limit();
        let sessions = found.iter().take(limit).map(Row::from).collect();
        View { sessions, is_all: found.len() <= limit }
    }
}

/// A directory as sessions name it.
fn workspace(typed: &Path, context: &Context) -> String {
    let path = context.directory.join(typed);
    path.canonicalize().unwrap_or(path).to_string_lossy().into_owned()
}

fn is_restricted(arguments: &ListArguments) -> bool {
    !arguments.sources.is_empty() || arguments.workspace.is_some()
}

fn show(view: &View<'_>, ids: &ShortIds, is_restricted: bool) {
    if view.sessions.is_empty() {
        println!("{}", if is_restricted { "No such sessions." } else { EMPTY });
        return;
    }
    let cells = |row: &Row<'_>| {
        vec![
            ids.of(row.id),
            text::local(row.last_activity),
            output::disarm(row.source),
            output::count(usize::try_from(row.message_count).unwrap_or_default(), "message"),
            text::name(row.title, row.preview) + if row.archived { "  (archived)" } else { "" },
        ]
    };
    let rows: Vec<Vec<String>> = view.sessions.iter().map(cells).collect();
    text::columns(&['<', '<', '<', '>', '<'], &rows).iter().for_each(|line| println!("{line}"));
    if !view.is_all {
        println!("… and more: --limit N shows them");
    }
}

const EMPTY: &str = "No sessions yet. `takeback sessions import` brings some in.";
