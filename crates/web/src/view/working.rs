//! The sessions that are working in a workspace right now.

use takeback_runtime::find_working_sessions;
use takeback_undo::History;
use takeback_undo::history::WorkspaceRef;

use crate::app::Work;
use crate::problem::{Problem, WorkError};
use crate::text::agent_of;

impl Work {
    /// Finds the sessions that are working in a workspace.
    pub(crate) fn working(&self, known: &WorkspaceRef<'_>) -> Result<Vec<String>, WorkError> {
        let history = History::read(known.store(), known.id())?;
        Ok(find_working_sessions(&self.opened, &known.path, history.working_sessions())?)
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
