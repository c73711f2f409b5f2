//! One turn, step, checkpoint or rollback in full.

use std::sync::Arc;

use takeback_ledger::MessageRecord;
use takeback_tree::{GitDirectory, Head, Oid, RelPath, TreeChange};
use takeback_undo::history::{
    WorkspaceRef, compare_checkpoints, compare_with_present, read_turn_messages, revive_workspace,
};
use takeback_undo::view::{list_others_changes, list_own_changes};
use takeback_undo::{Checkpoint, CheckpointView, FindError, History};

use super::timeline::{Entry, Timeline};
use crate::app::Work;
use crate::problem::{Problem, WorkError};

/// One turn, step, checkpoint or rollback.
pub(crate) struct TurnView {
    pub(crate) timeline: Arc<Timeline>,
    /// The index of the entry in the timeline. `None` if the checkpoint is not part of a row.
    pub(crate) place: Option<usize>,
    pub(crate) checkpoint: CheckpointView,
    /// The current commit and branch of the user's repository in the workspace.
    pub(crate) head: Option<Head>,
}

/// The state that a checkpoint is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// The state after the turn, so that only the turn's own changes are shown.
    Turn,
    /// The current state of the workspace.
    Now,
    /// The state in another checkpoint.
    Checkpoint(String),
}

impl Compared {
    pub(crate) fn parse(text: &str) -> Compared {
        match text {
            "" | "turn" => Compared::Turn,
            "now" => Compared::Now,
            other => Compared::Checkpoint(other.to_owned()),
        }
    }
}

impl std::fmt::Display for Compared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Compared::Turn => "turn",
            Compared::Now => "now",
            Compared::Checkpoint(id) => id,
        })
    }
}

impl TurnView {
    pub(crate) fn entry(&self) -> Option<&Entry> {
        self.place.map(|place| &self.timeline.entries[place])
    }

    /// Returns true if the checkpoint was taken before a call other than the first of its turn.
    pub(crate) fn is_step(&self) -> bool {
        matches!(self.entry(), Some(Entry::Row(row)) if row.id != self.checkpoint.id)
    }
}

impl Work {
    /// Finds a turn or checkpoint by its id.
    pub(crate) fn turn(&self, workspace: &str, id: &str) -> Result<TurnView, WorkError> {
        let known = self.workspace(workspace)?;
        let timeline = self.app.timelines.read(&self.opened, &known)?;
        let history = History::read(known.store(), known.id())?;
        let found = find_exact(&history, &known, id)?;
        let place = timeline.find(&found.pin.id);
        let mut checkpoint = CheckpointView::new(found);
        if let Some(Entry::Row(row)) = place.map(|place| &timeline.entries[place]) {
            if row.id == checkpoint.id {
                checkpoint = checkpoint.with_row(row.as_ref().clone(), Vec::new());
            } else {
                let step = row.steps.iter().find(|step| step.id == checkpoint.id);
                checkpoint.number = step.map(|step| step.number.clone());
                checkpoint.prompt.clone_from(&row.prompt);
                checkpoint.effects.clone_from(&row.effects);
            }
        }
        let head = GitDirectory::find(&known.path).map(|git| git.head());
        Ok(TurnView { timeline, place, checkpoint, head })
    }

    /// Lists the changes between a checkpoint and another state.
    pub(crate) fn changes(
        &self,
        workspace: &str,
        id: &str,
        compared: &Compared,
        paths: &[RelPath],
    ) -> Result<Vec<TreeChange>, WorkError> {
        let known = self.workspace(workspace)?;
        let history = History::read(known.store(), known.id())?;
        let found = find_exact(&history, &known, id)?;
        let chosen = paths.to_vec().into();
        match compared {
            Compared::Turn => Ok(list_own_changes(&self.opened, &known, &history, found, paths)?),
            Compared::Now => {
                let (open, _revived) = revive_workspace(&self.opened, &known.path)?;
                let found = compare_with_present(&self.opened, &open, &history, found, &chosen)?;
                Ok(found.changes)
            }
            Compared::Checkpoint(other) => {
                let other = find_exact(&history, &known, other)?;
                let store = known.store();
                Ok(compare_checkpoints(&self.opened, store, found, other, &chosen)?.changes)
            }
        }
    }

    /// Lists the changes that others made while the turn of a checkpoint was running.
    pub(crate) fn others_changes(
        &self,
        workspace: &str,
        id: &str,
    ) -> Result<Vec<TreeChange>, WorkError> {
        let known = self.workspace(workspace)?;
        let history = History::read(known.store(), known.id())?;
        let found = find_exact(&history, &known, id)?;
        Ok(list_others_changes(&self.opened, &known, &history, found)?)
    }

    /// Reads the messages of the turn that a checkpoint belongs to.
    pub(crate) fn turn_messages(
        &self,
        workspace: &str,
        id: &Oid,
    ) -> Result<Option<Vec<MessageRecord>>, WorkError> {
        self.catch_up();
        let known = self.workspace(workspace)?;
        let history = History::read(known.store(), known.id())?;
        let mut rows = history.rows();
        let Some(row) = rows.find(|row| row.steps().any(|step| step.pin.id == *id)) else {
            return Ok(None);
        };
        Ok(read_turn_messages(&self.opened, &row)?.map(|found| found.messages))
    }
}

/// Finds a checkpoint by its id. A checkpoint of another workspace is treated as not found.
fn find_exact<'h>(
    history: &'h History,
    known: &WorkspaceRef<'_>,
    id: &str,
) -> Result<&'h Checkpoint, WorkError> {
    check_id(id)?;
    match history.find(known.store(), id) {
        Err(FindError::Elsewhere { .. }) => Err(Problem::not_found("checkpoint").into()),
        found => Ok(found?.checkpoint),
    }
}

/// Refuses the number of a row in place of an id. Row numbers change with every new checkpoint, so
/// an address must not contain one.
pub(crate) fn check_id(id: &str) -> Result<(), Problem> {
    let is_number = id.len() < 6 && id.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_number { Err(Problem::not_found("checkpoint")) } else { Ok(()) }
}
