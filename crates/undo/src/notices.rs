//! What agents have to be told after files went back.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use takeback_ledger::{LedgerError, Time};
use takeback_tree::{Oid, RelPath, Workspace};

use crate::keeper::Keeper;
use crate::protect::chain;
use crate::record::Checkpoints;
use crate::rollback::RollbackView;

/// At most so many paths are named.
const NAMED: usize = 200;

/// Leaves a notice for every session that worked in a workspace.
pub(crate) fn leave(
    keeper: &Keeper,
    workspace: &Workspace<'_>,
    view: &RollbackView,
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
    let body = body(workspace, view, tree);
    for session in sessions {
        match ledger.add_notice(session, &body, now) {
            // It was deleted, or never made it into the ledger.
            Ok(_) | Err(LedgerError::NoSuchSession(_)) => {}
            Err(error) => return Err(chain(&error)),
        }
    }
    Ok(())
}

/// `tree`: the state that was led to. What a file was then says later whether somebody changed it
/// again.
fn body(workspace: &Workspace<'_>, view: &RollbackView, tree: &Oid) -> Value {
    let store = workspace.store();
    let content =
        |path: &RelPath| -> Option<String> { Some(store.entry(tree, path).ok()??.1.to_string()) };
    let files = view.restored.iter().map(|path| json!({ "path": path, "content": content(path) }));
    let gone = view.deleted.iter().map(|path| json!({ "path": path, "content": null }));
    json!({
        "kind": "rollback",
        "workspace": workspace.path().display().to_string(),
        "checkpoint": view.checkpoint.to_string(),
        "files": files.chain(gone).take(NAMED).collect::<Vec<_>>(),
        "file_count": view.restored.len() + view.deleted.len(),
        "effects": view.effects,
    })
}
