//! The rollbacks that can be undone and redone, and the turns that they have taken back.

use std::ops::Range;

use takeback_tree::Oid;

use super::RollbackError;
use crate::history::History;
use crate::history::record::{Action, Checkpoint, RollbackRecord};

/// The direction in which to go through past rollbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Back to before the latest rollback that is not undone.
    Undo,
    /// Forward to before the latest undo.
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

/// Lists the rollbacks that can be undone and those that can be redone, the latest last.
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

/// Lists the ranges of checkpoint numbers whose turns were taken back by whole rollbacks.
pub(super) fn find_undone_ranges(history: &History) -> Vec<Range<u64>> {
    let seq = |id: Oid| {
        let known = history.all.iter().find(|known| known.pin.id == id);
        known.map(|known| known.pin.name.seq)
    };
    let (undo, _) = reversal_stacks(history);
    let whole = undo.iter().filter(|(_, done)| done.files && done.paths.is_empty());
    let ranges = whole
        .filter_map(|(safety, done)| Some(seq(find_target(history, done)?)?..safety.pin.name.seq));
    ranges.collect()
}

/// Finds the checkpoint that a rollback, or its redo, returned to.
fn find_target(history: &History, done: &RollbackRecord) -> Option<Oid> {
    let done_by = |safety: Option<Oid>| {
        let known = history.all.iter().find(|known| Some(known.pin.id) == safety);
        known.and_then(|known| known.record.rollback.as_ref())
    };
    match done.action {
        Action::Rollback => Some(done.to),
        // A redo reverses an undo, which in turn reversed the rollback that the redo repeats.
        Action::Redo => find_target(history, done_by(done_by(done.reverses)?.reverses)?),
        Action::Undo | Action::UndoTurn => None,
    }
}
