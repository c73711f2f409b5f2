//! Finishes an interrupted rollback: moves the conversation and writes the notices.

use std::path::Path;

use takeback_base::errors::error_chain;
use takeback_tree::{Lock, Recovery, Store, Workspace, WorkspaceId};

use super::conversation::move_messages;
use super::notices;
use super::parts::has_unfinished_parts;
use crate::Opened;
use crate::history::History;
use crate::history::record::{Checkpoint, RollbackRecord};

/// Finishes the rollback that an interrupted restore was part of. The safety checkpoint's record
/// says what else belongs to the rollback. Returns the sessions whose messages were moved.
pub(crate) fn finish_recovered(opened: &Opened, lock: &mut Lock<'_>) -> Vec<String> {
    let workspace = lock.workspace();
    let mut moved = Vec::new();
    let Ok(history) = History::read(workspace.store(), workspace.id()) else { return moved };
    let safety = match lock.recovered_pin() {
        Some(name) => history.all.iter().find(|known| known.pin.name == *name),
        // The restore does not name its safety checkpoint, because another version of takeback
        // began it. Nothing has been pinned since then, so the safety checkpoint must be the newest
        // one.
        None => history.all.last().filter(|known| known.record.rollback.is_some()),
    };
    match (lock.recovery(), safety) {
        // The rollback was reverted, so its safety checkpoint is not needed. If some files could
        // not be put back, the checkpoint is kept, because it contains them.
        (Some(Recovery::Reverted(left)), Some(safety)) if left.is_empty() => {
            let _ = workspace.store().unpin(&safety.pin.name);
        }
        (Some(Recovery::Finished(_) | Recovery::Restored), Some(safety)) => {
            if let Some(done) = &safety.record.rollback {
                if let Err(error) = finish_story(opened, workspace, &history, safety, done) {
                    let message =
                        format!("a rollback restored the files, but not the conversation: {error}");
                    opened.note_failure(workspace.path(), &message);
                    // The next process that locks the workspace tries again.
                    lock.keep_restore_open();
                    return moved;
                }
                moved.extend(done.chats().map(|chat| chat.session.clone()));
            }
        }
        _ => {}
    }
    if matches!(lock.recovery(), Some(Recovery::Finished(_) | Recovery::Restored)) {
        lock.end_restore();
    }
    moved
}

/// Returns true if a rollback was interrupted, and taking the workspace's lock would finish it.
pub(crate) fn is_interrupted(store: &Store, workspace: &WorkspaceId) -> bool {
    store.has_interrupted_restore(workspace) || has_unfinished_parts(store, workspace)
}

/// Finishes an interrupted rollback in a workspace before the conversation continues, because the
/// rollback must not take back later messages. If another process is making or finishing a
/// rollback, waits for that process, but not for long. If the conversation cannot be moved now, it
/// stays as it is.
pub(crate) fn finish_before_turn(opened: &Opened, workspace: &Path) {
    if !opened.has_store() {
        return;
    }
    let Ok(store) = opened.store() else { return };
    let id = store.workspace_id(workspace);
    if (store.has_unfinished_restore(&id) || has_unfinished_parts(store, &id))
        && matches!(store.wait_for_workspace(&id), Ok(Some(_)))
        && let Ok(workspace) = store.workspace(workspace, &opened.forbidden)
        && let Ok(mut lock) = opened.lock(&workspace)
        && matches!(lock.recovery(), Some(Recovery::Finished(_) | Recovery::Restored))
    {
        lock.end_restore();
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
