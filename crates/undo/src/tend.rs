//! What is done when nobody waits: the state at the end of a turn, counts, merging, pruning.

use std::path::Path;

use takeback_ledger::Time;
use takeback_tree::{Workspace, WorkspaceError};

use crate::history::History;
use crate::keeper::{Keeper, TakeError};
use crate::notes::Notes;
use crate::record::{Kind, Record};
use crate::subject::Subject;

impl Keeper {
    /// Captures a workspace, so that the next checkpoint only has to look for changes.
    pub fn warm(&self, directory: &Path) -> Result<(), TakeError> {
        let workspace = self.store()?.workspace(directory, &self.places)?;
        let mut lock = self.lock(&workspace)?;
        lock.capture(&self.capture_options(&self.rules, &[]))?;
        lock.finish(self.system_time())?;
        Ok(())
    }

    /// Looks after a workspace at the end of a turn.
    pub fn tend(&self, directory: &Path, session: &str, ended: Time) -> Result<(), TakeError> {
        let workspace = match self.store()?.workspace(directory, &self.places) {
            // Nothing was protected there, so there is nothing to tend.
            Err(WorkspaceError::Refused { .. }) => return Ok(()),
            workspace => workspace?,
        };
        self.conclude_turn(&workspace, session, ended)?;
        let history = History::of(workspace.store(), workspace.id())?;
        self.counts(&Subject::of(&workspace), &history);
        Ok(())
    }

    /// Calls that have no end by now get none, and the state is kept if it is a new one.
    fn conclude_turn(
        &self,
        workspace: &Workspace<'_>,
        session: &str,
        ended: Time,
    ) -> Result<(), TakeError> {
        let mut lock = self.lock(workspace)?;
        let notes = Notes::new(workspace.notes());
        notes.drop_calls(|call| call.session == session && call.time <= ended);
        let names = workspace.store().pin_names(workspace.id())?;
        let newest = names.last().and_then(|name| workspace.store().pin(name).ok().flatten());
        let capture = lock.capture(&self.capture_options(&self.rules, &[]))?;
        if newest.is_some_and(|newest| newest.tree != capture.tree) {
            let record = self.record(&mut lock, Kind::State, "at the end of a turn")?;
            let (tree, record): (_, Record) = (capture.tree, record.of(capture));
            self.pin(&mut lock, tree, record)?;
        }
        lock.finish(self.system_time())?;
        Ok(())
    }
}
