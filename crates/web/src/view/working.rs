//! The sessions that are working in a workspace right now.

use std::collections::BTreeSet;
use std::path::Path;

use takeback_ledger::TaskFilter;
use takeback_runtime::{AGENT, list_tasks};
use takeback_undo::History;
use takeback_undo::history::WorkspaceRef;

use crate::app::Work;
use crate::problem::{Problem, WorkError};
use crate::text::agent_of;

impl Work {
    /// Finds the sessions that are working in a workspace: those of takeback's own agent whose turn
    /// is running, and those of other agents whose tool calls have begun but not ended.
    pub(crate) fn working(&self, known: &WorkspaceRef<'_>) -> Result<Vec<String>, WorkError> {
        let history = History::read(known.store(), known.id())?;
        let is_other = |session: &&str| agent_of(session) != AGENT;
        let others = history.working_sessions().into_iter().filter(is_other);
        let mut working: BTreeSet<String> = others.map(str::to_owned).collect();
        working.extend(self.running_sessions(&known.path)?);
        Ok(working.into_iter().collect())
    }

    /// Finds the sessions of takeback's own agent whose turn is running below a directory.
    fn running_sessions(&self, root: &Path) -> Result<Vec<String>, WorkError> {
        let Some(ledger) = self.opened.ledger()? else { return Ok(Vec::new()) };
        let states = ["running", "stopping"].map(str::to_owned).to_vec();
        let tasks = list_tasks(&ledger, &TaskFilter { states, ..TaskFilter::default() })?;
        let is_there = |workspace: &str| Path::new(workspace).starts_with(root);
        let running = tasks.into_iter().filter(|task| {
            let is_running = matches!(task.state.as_str(), "running" | "stopping");
            is_running && task.workspace.as_deref().is_some_and(is_there)
        });
        Ok(running.map(|task| task.session).collect())
    }

    /// Refuses to change a workspace in which an agent is working.
    pub(crate) fn refuse_if_working(&self, known: &WorkspaceRef<'_>) -> Result<(), WorkError> {
        let working = self.working(known)?;
        let Some(first) = working.first() else { return Ok(()) };
        let title =
            format!("{} is working in this workspace; nothing was changed", agent_of(first));
        let problem = Problem::new(409, title).hint("wait until its turn ends, or stop it");
        Err(Problem { working, ..problem }.into())
    }
}
