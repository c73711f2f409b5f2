//! What agents have to be told after files went back.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use takeback_ledger::{LedgerError, Time};
use takeback_tree::{Oid, RelPath, Workspace};

use crate::failures::chain;
use crate::keeper::Keeper;
use crate::list::EffectView;
use crate::record::{Checkpoint, Checkpoints, Rollback};

/// At most so many paths are named.
const NAMED: usize = 200;

/// What there is to tell.
pub(crate) struct Told<'a> {
    pub(crate) checkpoint: Oid,
    pub(crate) restored: &'a [RelPath],
    pub(crate) deleted: &'a [RelPath],
    pub(crate) effects: &'a [EffectView],
}

/// Leaves a notice for every session that worked in a workspace.
pub(crate) fn leave(
    keeper: &Keeper,
    workspace: &Workspace<'_>,
    told: &Told<'_>,
    tree: &Oid,
    now: Time,
) -> Result<(), String> {
    let Some(mut ledger) = keeper.ledger().map_err(|error| chain(&error))? else { return Ok(()) };
    let known =
        Checkpoints::of(workspace.store(), workspace.id()).map_err(|error| chain(&error))?;
    let sessions: BTreeSet<&str> = known
        .all
        .iter()
        .filter_map(|known| Some(known.record.call.as_ref()?.session.as_str()))
        .collect();
    if sessions.is_empty() {
        return Ok(());
    }
    let body = body(workspace, told, tree);
    for session in sessions {
        match ledger.add_notice(session, &body, now) {
            // It was deleted, or never made it into the ledger.
            Ok(_) | Err(LedgerError::NoSuchSession(_)) => {}
            Err(error) => return Err(chain(&error)),
        }
    }
    Ok(())
}

/// The same for a rollback that was cut off and is finished.
pub(crate) fn leave_after_recovery(
    keeper: &Keeper,
    workspace: &Workspace<'_>,
    safety: &Checkpoint,
    done: &Rollback,
    now: Time,
) -> Result<(), String> {
    let changes = workspace.store().changed_paths(&safety.pin.tree, &done.tree);
    let is_asked_for = |path: &RelPath| {
        done.paths.is_empty() || done.paths.iter().any(|asked| path.starts_with(asked))
    };
    let (mut restored, mut deleted) = (Vec::new(), Vec::new());
    for change in changes.map_err(|error| chain(&error))? {
        if is_asked_for(&change.path) {
            let list = if change.to.is_some() { &mut restored } else { &mut deleted };
            list.push(change.path);
        }
    }
    let told = Told { checkpoint: done.to, restored: &restored, deleted: &deleted, effects: &[] };
    leave(keeper, workspace, &told, &done.tree, now)
}

/// `tree`: the state that was led to. What a file was then says later whether somebody changed it
/// again.
fn body(workspace: &Workspace<'_>, told: &Told<'_>, tree: &Oid) -> Value {
    let store = workspace.store();
    let content =
        |path: &RelPath| -> Option<String> { Some(store.entry(tree, path).ok()??.1.to_string()) };
    let files = told.restored.iter().map(|path| json!({ "path": path, "content": content(path) }));
    let gone = told.deleted.iter().map(|path| json!({ "path": path, "content": null }));
    json!({
        "kind": "rollback",
        "workspace": workspace.path().display().to_string(),
        "checkpoint": told.checkpoint.to_string(),
        "files": files.chain(gone).take(NAMED).collect::<Vec<_>>(),
        "file_count": told.restored.len() + told.deleted.len(),
        "effects": told.effects,
    })
}
