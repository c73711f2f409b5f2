//! The rest of an interrupted rollback: its conversation and its notices.

use takeback_base::errors::error_chain;
use takeback_tree::{Recovery, Workspace};

use super::conversation::move_messages;
use super::notices;
use crate::Opened;
use crate::history::History;
use crate::history::record::{Checkpoint, RollbackRecord};

/// Finishes the rollback that an interrupted restore was part of. The newest checkpoint is the
/// safety checkpoint of that rollback.
pub(crate) fn finish_recovered(opened: &Opened, workspace: &Workspace<'_>, recovery: &Recovery) {
    let Ok(history) = History::read(workspace.store(), workspace.id()) else { return };
    let Some(safety) = history.all.last() else { return };
    let Some(done) = &safety.record.rollback else { return };
    match recovery {
        // The safety checkpoint has the files that could not be put back.
        Recovery::Reverted(left) if !left.is_empty() => {}
        // No rollback happened, so none must be left to undo.
        Recovery::Reverted(_) => {
            let _ = workspace.store().unpin(&safety.pin.name);
        }
        Recovery::Finished(_) => {
            if let Err(error) = finish_story(opened, workspace, &history, safety, done) {
                let message = format!("a rollback was finished, but not its conversation: {error}");
                opened.note_failure(workspace.path(), &message);
            }
        }
        Recovery::Failed(_) => {}
    }
}

fn finish_story(
    opened: &Opened,
    workspace: &Workspace<'_>,
    history: &History,
    safety: &Checkpoint,
    done: &RollbackRecord,
) -> Result<(), String> {
    let now = safety.record.moment();
    for chat in done.chats() {
        move_messages(opened, chat, now).map_err(|error| error_chain(&error))?;
    }
    notices::leave_after_recovery(opened, workspace, history, safety, done)
}
