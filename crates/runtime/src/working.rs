//! The sessions that are working in a workspace right now.

use std::collections::BTreeSet;
use std::path::Path;

use takeback_ledger::TaskFilter;
use takeback_undo::history::WorkspaceRef;
use takeback_undo::view::text::agent_of;
use takeback_undo::{History, Opened};

use crate::agent::AGENT;
use crate::error::TaskError;
use crate::task_list::{TaskView, list_tasks};

/// Finds the sessions that are working in a workspace: those of takeback's own agent whose turn is
/// running, and those of other agents whose tool calls have begun but not ended.
pub fn find_working_sessions(
    opened: &Opened,
    workspace: &WorkspaceRef<'_>,
    history: &History,
) -> Result<Vec<String>, TaskError> {
    let is_other = |session: &&str| agent_of(session) != AGENT;
    let others = history.working_sessions().into_iter().filter(is_other);
    let mut working: BTreeSet<String> = others.map(str::to_owned).collect();
    working.extend(find_running_sessions(opened, &workspace.path)?);
    Ok(working.into_iter().collect())
}

/// Finds the sessions of takeback's own agent whose turn is running below a directory.
fn find_running_sessions(opened: &Opened, root: &Path) -> Result<Vec<String>, TaskError> {
    let Some(ledger) = opened.ledger()? else { return Ok(Vec::new()) };
    let states = ["running", "stopping"].map(str::to_owned).to_vec();
    let tasks = list_tasks(&ledger, &TaskFilter { states, ..TaskFilter::default() })?;
    let is_there = |workspace: &str| Path::new(workspace).starts_with(root);
    let is_running = |task: &TaskView| {
        let is_running = matches!(task.state.as_str(), "running" | "stopping");
        is_running && task.workspace.as_deref().is_some_and(is_there)
    };
    Ok(tasks.into_iter().filter(is_running).map(|task| task.session).collect())
}
