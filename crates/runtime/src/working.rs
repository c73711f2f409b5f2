//! The sessions that are working in a workspace right now.

use std::collections::BTreeSet;
use std::path::Path;

use takeback_ledger::TaskFilter;
use takeback_undo::Opened;
use takeback_undo::view::text::agent_of;

use crate::agent::AGENT;
use crate::error::TaskError;
use crate::task_list::{TaskView, list_tasks};

/// Finds the sessions that are working in the workspace with this path: sessions of takeback's own
/// agent in which a turn is running, and sessions of other agents in which a tool call has begun
/// but not ended. `in_calls` lists all sessions with such calls; see
/// [`History::working_sessions`](takeback_undo::History::working_sessions).
pub fn find_working_sessions<'s>(
    opened: &Opened,
    workspace: &Path,
    in_calls: impl IntoIterator<Item = &'s str>,
) -> Result<Vec<String>, TaskError> {
    let others = in_calls.into_iter().filter(|session| agent_of(session) != AGENT);
    let mut working: BTreeSet<String> = others.map(str::to_owned).collect();
    working.extend(find_running_sessions(opened, workspace)?);
    Ok(working.into_iter().collect())
}

/// Finds the sessions of takeback's own agent in which a turn is running in a directory or below
/// it.
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
