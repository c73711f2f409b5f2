//! `takeback status`: shows the workspace, the store, the agents and what went wrong, on one page.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use takeback_tree::AnyPath;
use takeback_undo::{Failure as Missed, RowView, retention};

use super::doctor::agents::{self, AgentView};
use super::doctor::checks;
use super::list;
use super::open_tasks::{OpenTask, list_open_tasks};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Cell, Column, Style, Table};

/// Show the state of this workspace, the store and the agents on one page
///
/// `takeback doctor` checks more and says what to do; `takeback checkpoints` lists all workspaces.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback status
  takeback status --json")]
pub(crate) struct Arguments {}

/// A summary of the workspace, the store and the agents.
#[derive(Serialize)]
struct StatusView {
    /// The path of the workspace; `None` if the directory cannot be a workspace.
    workspace: Option<AnyPath>,
    /// False if checkpoints are switched off.
    enabled: bool,
    /// The number of checkpoints that the workspace has.
    checkpoints: usize,
    newest: Option<RowView>,
    store_bytes: u64,
    max_bytes: u64,
    /// The number of workspaces in the store.
    workspaces: usize,
    agents: Vec<AgentView>,
    failures: Vec<Missed>,
    /// The conversations and goals of takeback's own agent that were interrupted or are waiting for
    /// the user.
    tasks: Vec<OpenTask>,
    /// The number of problems that the quick checks find. `takeback doctor` explains them and
    /// checks more.
    problems: usize,
}

pub(crate) fn run(_: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let view = read_status(context)?;
    if context.globals.json {
        output::print_json(&view);
    } else {
        print_status(&view, context);
    }
    Ok(ExitCode::SUCCESS)
}

fn read_status(context: &Context) -> Result<StatusView, Failure> {
    let opened = context.opened()?;
    let status = retention::read_status(opened)?;
    // A directory that cannot be a workspace has no list, but everything else can be shown.
    let list = list::make_list(context).ok();
    let mut problems = Vec::new();
    let agents = agents::check_agents(&[], context, &mut problems)?;
    checks::check_store(opened, context, &mut problems);
    checks::check_ledger(context, &mut problems);
    let workspace = list.as_ref().map(|list| list.workspace.clone());
    let rows = list.map(|list| list.checkpoints).unwrap_or_default();
    Ok(StatusView {
        workspace,
        enabled: opened.settings().enabled,
        checkpoints: rows.len(),
        newest: rows.into_iter().next(),
        store_bytes: status.store_bytes,
        max_bytes: status.max_bytes,
        workspaces: status.workspaces.len(),
        agents,
        failures: status.failures,
        // If the ledger cannot be read, `problems` already counts that.
        tasks: list_open_tasks(context).unwrap_or_default(),
        problems: problems.len(),
    })
}

fn print_status(view: &StatusView, context: &Context) {
    let mut table = Table::new([Column::left(), Column::free().shrinks(0, 20)]);
    let mut add = |title: &str, cell: Cell| table.add([Cell::new(title), cell]);
    let workspace = view.workspace.as_ref().map(|path| output::tilde(&path.0, context));
    add(
        "Workspace",
        Cell::new(workspace.as_deref().unwrap_or("none: this directory cannot be one")),
    );
    if !view.enabled {
        add("", Cell::styled(Style::Warning, "checkpoints are switched off"));
    }
    add("Checkpoints", Cell::new(view.checkpoints.to_string()));
    if let Some(row) = &view.newest {
        add("Newest", Cell::new(describe_row(row)));
    }
    let (used, limit) = (output::bytes(view.store_bytes), output::bytes(view.max_bytes));
    let workspaces = output::count(view.workspaces, "workspace");
    add("Store", Cell::new(format!("{used} of at most {limit}; {workspaces}")));
    if view.agents.is_empty() {
        add("Agents", Cell::new("none found on this machine"));
    }
    let mut title = "Agents";
    for agent in &view.agents {
        add(title, describe_agent(agent));
        title = "";
    }
    let mut title = "Failures";
    for missed in &view.failures {
        let path = output::tilde(&missed.workspace.0, context);
        let text = format!("{path}: {}", list::describe_failure(missed));
        add(title, Cell::styled(Style::Warning, text));
        title = "";
    }
    let mut title = "Tasks";
    for task in &view.tasks {
        add(title, Cell::styled(Style::Warning, task.describe()));
        title = "";
    }
    table.print();
    if view.problems > 0 {
        let problems = output::count(view.problems, "problem");
        println!("{problems}. Run `takeback doctor` for fixes and more checks.");
    }
}

/// Describes a row of the list in one line.
fn describe_row(row: &RowView) -> String {
    let time = output::local_time(&row.time);
    let prompt = row.prompt.as_deref().map(|prompt| format!("  “{}”", output::join_lines(prompt)));
    format!("{time}  {}{}", row.reason, prompt.unwrap_or_default())
}

fn describe_agent(agent: &AgentView) -> Cell {
    let state = match (agent.user, agent.project) {
        ("absent", "absent") => {
            let text = format!(
                "{}: hooks not installed (`takeback install {}`)",
                agent.title, agent.agent
            );
            return Cell::styled(Style::Warning, text);
        }
        ("absent", project) => format!("{project} in this project"),
        (user, _) => user.to_owned(),
    };
    let fired = match &agent.last_fired {
        Some(time) => format!("hook last ran {}", output::local_time(time)),
        None => "no hook has run yet".to_owned(),
    };
    Cell::new(format!("{}: {state}, {fired}", agent.title))
}
