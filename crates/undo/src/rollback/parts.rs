//! The note that lists a rollback's parts outside the workspace. The note exists until the restore
//! of every part has been attempted. If the process is killed, the next process that locks the
//! workspace restores the parts.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use takeback_base::durable::{Durability, FileLock, replace_file};
use takeback_base::errors::error_chain;
use takeback_tree::{Oid, PinName, Recovery, RelPath, Store, Workspace, WorkspaceId};

use super::RollbackError;
use super::elsewhere::{apply_group, is_restored};
use super::planned::{Planned, PlannedWork, RollbackView};
use crate::Opened;
use crate::history::record::Record;
use crate::hook::state;

/// The parts of a rollback that are outside the workspace.
#[derive(Serialize, Deserialize)]
struct NotedParts {
    /// The number of the rollback's safety checkpoint.
    safety: u64,
    groups: Vec<Planned>,
    /// The paths in the workspace that the rollback deletes. Some are directories that become empty
    /// only once the repositories in them are gone.
    deleted: Vec<RelPath>,
}

/// The right of one process to restore the noted parts: a lock that the kernel releases when the
/// process ends.
pub(super) struct PartsClaim {
    path: PathBuf,
    _lock: FileLock,
}

fn note_path(store: &Store, workspace: &WorkspaceId) -> PathBuf {
    store.notes(workspace).join("parts")
}

/// Writes the note about the parts of a rollback that is about to be made. The caller holds the
/// workspace's lock.
pub(super) fn note_parts(
    workspace: &Workspace<'_>,
    safety: &PinName,
    work: &PlannedWork,
    view: &RollbackView,
) -> io::Result<()> {
    if work.elsewhere.is_empty() {
        return Ok(());
    }
    let (groups, deleted) = (work.elsewhere.clone(), view.deleted.clone());
    let noted = NotedParts { safety: safety.seq, groups, deleted };
    let text = serde_json::to_vec(&noted).expect("plain data becomes JSON");
    replace_file(&note_path(workspace.store(), workspace.id()), &text, Durability::Synced)
}

/// Removes the note, because no rollback was made.
pub(super) fn forget_parts(workspace: &Workspace<'_>) {
    state::remove(&note_path(workspace.store(), workspace.id()));
}

/// Claims the noted parts of a workspace. Returns `None` if there are none, or if another process
/// is restoring them.
pub(super) fn claim_parts(store: &Store, workspace: &WorkspaceId) -> Option<PartsClaim> {
    let path = note_path(store, workspace);
    if !path.exists() {
        return None;
    }
    let lock = FileLock::try_exclusive(&path).ok()??;
    lock.is_at(&path).then_some(PartsClaim { path, _lock: lock })
}

/// Returns true if a rollback was interrupted before it had restored its parts outside the
/// workspace.
pub(crate) fn has_unfinished_parts(store: &Store, workspace: &WorkspaceId) -> bool {
    claim_parts(store, workspace).is_some()
}

impl PartsClaim {
    /// Removes the note, because the restore of every part has been attempted.
    pub(super) fn end(self) {
        state::remove(&self.path);
    }
}

/// Finishes a rollback that was interrupted after the workspace itself was restored: restores the
/// parts outside the workspace. The caller holds no lock.
pub(crate) fn finish_parts(opened: &Opened, workspace: &Workspace<'_>) {
    let Some(claim) = claim_parts(workspace.store(), workspace.id()) else { return };
    if let Some(noted) = state::read::<NotedParts>(&claim.path)
        && let Some(safety) = find_made_rollback(workspace, noted.safety)
    {
        let mut is_finished = true;
        for group in noted.groups {
            let place = group.work.workspace.0.clone();
            if let Err(error) = finish_part(opened, group, workspace, safety) {
                let message = format!(
                    "a rollback was interrupted and {} is left unchanged: {}",
                    place.display(),
                    error_chain(&error)
                );
                opened.note_failure(workspace.path(), &message);
                is_finished = false;
            }
        }
        for path in noted.deleted.iter().rev() {
            let _ = workspace.remove_if_empty(path);
        }
        if is_finished {
            opened.report_recovery(&Recovery::Finished(Vec::new()));
        }
    }
    claim.end();
}

/// Returns the id of a safety checkpoint if its rollback was made.
fn find_made_rollback(workspace: &Workspace<'_>, seq: u64) -> Option<Oid> {
    let name = PinName { workspace: workspace.id().clone(), seq };
    let pin = workspace.store().pin(&name).ok()??;
    Record::parse(&pin.message).ok()?.rollback.map(|_| pin.id)
}

fn finish_part(
    opened: &Opened,
    group: Planned,
    workspace: &Workspace<'_>,
    safety: Oid,
) -> Result<(), RollbackError> {
    if group.view.changes_no_file() || is_restored(opened, &group, safety)? {
        return Ok(());
    }
    apply_group(opened, group, workspace.path(), safety).map(drop)
}
