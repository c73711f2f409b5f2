//! The rollbacks that can be undone and redone.

use super::RollbackError;
use crate::history::History;
use crate::history::record::{Action, Checkpoint, RollbackRecord};

/// The direction in which to go through past rollbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Back to the state before the latest rollback that has not been undone.
    Undo,
    /// Forward to the state before the latest undo.
    Redo,
}

/// A rollback that was made: its safety checkpoint and its record.
type MadeRollback<'h> = (&'h Checkpoint, &'h RollbackRecord);

/// Finds the rollback that the next undo or redo reverses.
pub(super) fn find_reversible(
    history: &History,
    direction: Direction,
) -> Result<MadeRollback<'_>, RollbackError> {
    let (undo, redo) = reversal_stacks(history);
    let (stack, nothing) = match direction {
        Direction::Undo => (undo, RollbackError::NothingToUndo),
        Direction::Redo => (redo, RollbackError::NothingToRedo),
    };
    stack.last().copied().ok_or(nothing)
}

/// Lists the rollbacks that can be undone and those that can be redone. In both lists, the latest
/// comes last.
fn reversal_stacks(history: &History) -> (Vec<MadeRollback<'_>>, Vec<MadeRollback<'_>>) {
    let (mut undo, mut redo): (Vec<MadeRollback<'_>>, Vec<MadeRollback<'_>>) = Default::default();
    for safety in &history.all {
        let Some(done) = &safety.record.rollback else { continue };
        let is_reversed = |(known, _): &MadeRollback<'_>| done.reverses == Some(known.pin.id);
        match done.action {
            Action::Rollback | Action::UndoTurn => {
                undo.push((safety, done));
                redo.clear();
            }
            Action::Undo => {
                undo.retain(|known| !is_reversed(known));
                redo.push((safety, done));
            }
            Action::Redo => {
                redo.retain(|known| !is_reversed(known));
                undo.push((safety, done));
            }
        }
    }
    (undo, redo)
}
