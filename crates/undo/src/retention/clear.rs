//! The deletion of all checkpoints.

use serde::Serialize;
use takeback_ledger::Time;
use takeback_tree::AnyPath;

use super::PruneError;
use super::prune::wait_for_workspace;
use crate::Opened;
use crate::history::History;

/// The result of deleting all checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct ClearedCheckpoints {
    pub checkpoints: usize,
    pub workspaces: usize,
    pub bytes: u64,
    /// The workspaces that another process was using. They keep their checkpoints.
    pub busy: Vec<AnyPath>,
}

/// Deletes all checkpoints of all workspaces, pinned ones included, and frees their space.
pub fn clear_checkpoints(opened: &Opened) -> Result<ClearedCheckpoints, PruneError> {
    let mut cleared = ClearedCheckpoints::default();
    if !opened.has_store() {
        return Ok(cleared);
    }
    let store = opened.store()?;
    let before = store.measure_size()?;
    for id in store.workspaces()? {
        let info = store.workspace_info(&id).ok().flatten();
        let path = info.map_or_else(|| AnyPath(id.to_string().into()), |info| info.path);
        match wait_for_workspace(store, &id)? {
            Some(_guard) => {
                let rows = History::read(store, &id)?.rows().count();
                let names = store.pin_names(&id)?;
                cleared.workspaces += usize::from(!names.is_empty());
                for name in names {
                    store.unpin(&name)?;
                }
                cleared.checkpoints += rows;
            }
            None => cleared.busy.push(path),
        }
        store.forget_workspace(&id)?;
    }
    store.gc()?;
    opened.failure_log().forget_before(Time(i64::MAX))?;
    cleared.bytes = before.saturating_sub(store.measure_size()?);
    Ok(cleared)
}
