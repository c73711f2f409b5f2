//! Deleting one checkpoint, or one turn with its steps, at the user's request.

use std::collections::BTreeSet;

use serde::Serialize;
use takeback_tree::{Oid, PinName, StoreError};

use super::PruneError;
use super::prune::{PruneReport, evict, read_prunable};
use crate::Opened;
use crate::history::record::{Checkpoint, Kind};
use crate::history::{FindError, History, WorkspaceRef};

/// The result of deleting a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct DeletedCheckpoint {
    pub id: Oid,
    /// The number of checkpoints that were deleted. A turn may have several.
    pub checkpoints: usize,
}

/// The reason why a checkpoint was not deleted. After such an error, all checkpoints still exist.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum DeleteError {
    #[error(transparent)]
    Find(#[from] FindError),
    #[error("checkpoint {0} is pinned or has a name")]
    Protected(String),
    #[error("a running call needs checkpoint {0}")]
    Needed(String),
    #[error("another process is using the workspace")]
    Busy,
    #[error(transparent)]
    Prune(#[from] PruneError),
}

impl From<StoreError> for DeleteError {
    fn from(error: StoreError) -> DeleteError {
        DeleteError::Prune(error.into())
    }
}

/// Deletes the checkpoint with the given row number, step, name or id. The first checkpoint of a
/// turn is deleted together with the turn's other checkpoints. The next prune frees the space.
pub fn delete_checkpoint(
    opened: &Opened,
    workspace: &WorkspaceRef<'_>,
    checkpoint: &str,
) -> Result<DeletedCheckpoint, DeleteError> {
    let store = workspace.store();
    let prunable = read_prunable(opened, workspace.id())?;
    let found = prunable.history.find(store, checkpoint)?.checkpoint;
    let doomed = list_doomed(&prunable.history, found);
    for known in &prunable.history.all {
        if doomed.contains(&known.pin.name) {
            let id = known.pin.id.to_string()[..7].to_owned();
            if known.record.is_protected() {
                return Err(DeleteError::Protected(id));
            }
            if prunable.is_protected(known) {
                return Err(DeleteError::Needed(id));
            }
        }
    }
    let doomed: Vec<PinName> = doomed.into_iter().collect();
    let mut report = PruneReport::default();
    evict(store, &prunable, &doomed, "deleted by the user", &mut report)?;
    if !report.busy.is_empty() {
        return Err(DeleteError::Busy);
    }
    Ok(DeletedCheckpoint { id: found.pin.id, checkpoints: doomed.len() })
}

/// Lists the pins that are deleted together with a checkpoint.
fn list_doomed(history: &History, found: &Checkpoint) -> BTreeSet<PinName> {
    let mut doomed = BTreeSet::from([found.pin.name.clone()]);
    let Some(row) = history.rows().find(|row| row.first().pin.name == found.pin.name) else {
        return doomed;
    };
    doomed.extend(row.steps().map(|step| step.pin.name.clone()));
    // States between the calls of a turn are useless without the turn.
    let is_between = |known: &&Checkpoint| {
        matches!(known.record.kind, Kind::After | Kind::State)
            && known.record.call.as_ref().is_some_and(|call| {
                let began =
                    call.began.as_ref().map(|began| began.seq + known.record.shift(&known.pin));
                history.row_of(call, began.unwrap_or(known.pin.name.seq)) == Some(row.number)
            })
    };
    doomed.extend(history.all.iter().filter(is_between).map(|known| known.pin.name.clone()));
    doomed
}
