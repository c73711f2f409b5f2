//! `takeback sessions list`: lists the latest sessions.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_ledger::{Ledger, ListOptions, SessionSummary, Time};

use super::text::{self, ShortIds};
use crate::commands::fleet;
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;
use crate::output::{self, Cell, Column, Style, Table};

// The options of `sessions list`. This is not a doc comment, because clap would show it as help.
#[derive(Args, Default, PartialEq)]
pub(crate) struct ListArguments {
    /// Show only sessions of this agent or platform (repeatable)
    #[arg(long = "source", visible_alias = "agent", value_name = "SOURCE")]
    pub(crate) sources: Vec<String>,
    /// Show only sessions that worked in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Limit the number of results [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// Include archived sessions
    #[arg(long)]
    pub(crate) archived: bool,
    /// List the sessions of all machines of the fleet
    #[arg(long)]
    pub(crate) fleet: bool,
}

impl ListArguments {
    /// True if no option is given.
    pub(super) fn is_empty(&self) -> bool {
        let ListArguments { sources, workspace, limit, archived, fleet } = self;
        sources.is_empty() && workspace.is_none() && limit.is_none() && !archived && !fleet
    }
}

#[derive(Serialize)]
pub(crate) struct SessionList<'s> {
    sessions: Vec<SessionRow<'s>>,
    #[serde(skip)]
    is_complete: bool,
}

#[derive(Serialize)]
struct SessionRow<'s> {
    /// The name of the machine, in a list of the sessions of all machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<&'s str>,
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

impl<'s> From<&'s SessionSummary> for SessionRow<'s> {
    fn from(summary: &'s SessionSummary) -> SessionRow<'s> {
        let session = &summary.session;
        SessionRow {
            machine: None,
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

impl<'s> From<&'s (String, SessionSummary)> for SessionRow<'s> {
    fn from((machine, summary): &'s (String, SessionSummary)) -> SessionRow<'s> {
        SessionRow { machine: Some(machine), ..SessionRow::from(summary) }
    }
}

pub(super) fn run(arguments: &ListArguments, context: &Context) -> Result<ExitCode, Failure> {
    if arguments.fleet {
        return run_in_fleet(arguments, context);
    }
    let ledger = logs::current_ledger(context)?;
    let found = find_sessions(arguments, &ledger, context)?;
    let list = SessionList::new(arguments, &found);
    if output::answers_json(&list, context) {
        return Ok(ExitCode::SUCCESS);
    }
    print_list(&list, &ShortIds::new(&ledger)?, is_filtered(arguments));
    Ok(ExitCode::SUCCESS)
}

fn run_in_fleet(arguments: &ListArguments, context: &Context) -> Result<ExitCode, Failure> {
    let found = fleet::list_sessions(&arguments.options(context), context)?;
    let limit = arguments.limit();
    let sessions = found.iter().take(limit).map(SessionRow::from).collect();
    let list = SessionList { sessions, is_complete: found.len() <= limit };
    if !output::answers_json(&list, context) {
        print_list(&list, &ShortIds::none(), true);
    }
    Ok(ExitCode::SUCCESS)
}

/// Finds the sessions to list. If there are more sessions than the limit, the result contains one
/// more than the limit.
pub(crate) fn find_sessions(
    arguments: &ListArguments,
    ledger: &Ledger,
    context: &Context,
) -> Result<Vec<SessionSummary>, Failure> {
    Ok(ledger.sessions(&arguments.options(context))?)
}

impl ListArguments {
    fn limit(&self) -> usize {
        self.limit.unwrap_or(20) as usize
    }

    /// Returns the options of the query for these sessions. The limit is one more than the number
    /// of sessions to list, so that the result shows whether there are more.
    fn options(&self, context: &Context) -> ListOptions {
        ListOptions {
            sources: self.sources.clone(),
            workspace: self.workspace.as_deref().map(|typed| resolve_workspace(typed, context)),
            archived: self.archived,
            limit: Some(self.limit() + 1),
        }
    }
}

impl<'s> SessionList<'s> {
    pub(crate) fn new(arguments: &ListArguments, found: &'s [SessionSummary]) -> SessionList<'s> {
        let limit = arguments.limit();
        let sessions = found.iter().take(limit).map(SessionRow::from).collect();
        SessionList { sessions, is_complete: found.len() <= limit }
    }
}

/// Returns the path of a directory as the ledger records it: absolute and, if it exists, canonical.
pub(super) fn resolve_workspace(typed: &Path, context: &Context) -> String {
    let path = context.directory.join(typed);
    path.canonicalize().unwrap_or(path).to_string_lossy().into_owned()
}

fn is_filtered(arguments: &ListArguments) -> bool {
    !arguments.sources.is_empty() || arguments.workspace.is_some()
}

fn print_list(list: &SessionList<'_>, ids: &ShortIds, is_filtered: bool) {
    if list.sessions.is_empty() {
        println!("{}", if is_filtered { "No matching sessions." } else { NO_SESSIONS });
        return;
    }
    let has_machines = list.sessions.iter().any(|row| row.machine.is_some());
    let columns = [
        Column::left(),
        Column::left().shrinks(4, 0),
        Column::left().shrinks(2, 6),
        Column::right().shrinks(1, 0),
        Column::free().shrinks(3, 24),
        Column::free(),
    ];
    let mut table = Table::new(has_machines.then(Column::left).into_iter().chain(columns));
    for row in &list.sessions {
        let messages = usize::try_from(row.message_count).unwrap_or_default();
        let cells = [
            Cell::styled(Style::Id, ids.short_id(row.id)),
            Cell::new(text::local_time(row.last_activity)),
            Cell::new(row.source),
            Cell::new(output::count(messages, "message")),
            text::session_name(row.title, row.preview),
            Cell::new(if row.archived { "(archived)" } else { "" }),
        ];
        table.add(row.machine.map(Cell::new).into_iter().chain(cells));
    }
    table.print();
    if !list.is_complete {
        println!("… and more (--limit N shows more)");
    }
}

const NO_SESSIONS: &str = "No sessions yet. Run `takeback install AGENT` to record new ones, or \
                           `takeback sessions import` to import old ones.";
