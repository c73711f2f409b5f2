//! Moves the history of a workspace whose directory has been moved.

use std::io;
use std::path::{Path, PathBuf};

use takeback_ledger::{LedgerError, OpenError};
use takeback_tree::{MoveError, PinError, StoreError, Workspace, WorkspaceError};

use crate::Opened;
use crate::history::labels::{add_labels, read_labels};
use crate::history::traces::{read_traces, write_traces};
use crate::history::workspace::find_known_path;

/// The result of moving a history.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct MovedHistory {
    pub from: PathBuf,
    pub to: PathBuf,
    /// The number of moved checkpoints, of all kinds.
    pub checkpoints: u64,
}

/// The reason why a history could not be moved.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum MoveHistoryError {
    #[error("no checkpoints for {}", .0.display())]
    NoHistory(PathBuf),
    #[error("the history is already at {}", .0.display())]
    SamePlace(PathBuf),
    #[error("cannot move the history of a single file to {}: the file name differs", .0.display())]
    OtherName(PathBuf),
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error(transparent)]
    Move(#[from] MoveError),
    #[error("the checkpoints were moved, but the ledger still has the old path")]
    Ledger(#[source] LedgerError),
    #[error("the checkpoints were moved, but the ledger still has the old path")]
    Open(#[source] OpenError),
}

/// Moves the history of a workspace whose directory has been moved. If the new directory already
/// has a history, the moved history is placed before it.
pub fn move_history(
    opened: &Opened,
    old: &Path,
    new: &Path,
) -> Result<MovedHistory, MoveHistoryError> {
    let store = opened.store()?;
    let from =
        find_known_path(store, old)?.ok_or_else(|| MoveHistoryError::NoHistory(old.to_owned()))?;
    let to = open_new_place(opened, &from, new)?;
    if from == to.subject() {
        return Err(MoveHistoryError::SamePlace(from));
    }
    // The store must know the new path before the pins are moved: a workspace that is known only by
    // its old path is treated as an orphan, and a prune would delete its history.
    let lock = opened.lock(&to)?;
    add_labels(store, to.id(), read_labels(store, &store.workspace_id(&from)))?;
    lock.finish(opened.system_time())?;
    let mut traces = read_traces(store, &store.workspace_id(&from));
    let checkpoints = store.move_workspace(&store.workspace_id(&from), &to)?;
    if !traces.is_empty() {
        let lock = opened.lock(&to)?;
        traces.extend(read_traces(store, to.id()));
        write_traces(store, to.id(), &traces);
        lock.finish(opened.system_time())?;
    }
    if let Some(mut ledger) = opened.ledger().map_err(MoveHistoryError::Open)? {
        let (from, to) = (from.display().to_string(), to.subject().display().to_string());
        ledger.move_workspace(&from, &to).map_err(MoveHistoryError::Ledger)?;
    }
    Ok(MovedHistory { from, to: to.subject(), checkpoints })
}

/// Opens the workspace that a history is moved to. The history of a single file can be moved only
/// to a single file.
fn open_new_place<'o>(
    opened: &'o Opened,
    from: &Path,
    new: &Path,
) -> Result<Workspace<'o>, MoveHistoryError> {
    let store = opened.store()?;
    let info = store.workspace_info(&store.workspace_id(from)).ok().flatten();
    if info.is_some_and(|info| info.single_file) {
        // The trees of a single file contain its name.
        let name = from.file_name().unwrap_or_default();
        let file = if new.is_dir() { new.join(name) } else { new.to_owned() };
        if file.file_name() != Some(name) {
            return Err(MoveHistoryError::OtherName(file));
        }
        return Ok(store.single_file(&file, &opened.forbidden)?);
    }
    let failed = |source: io::Error| WorkspaceError::Open { path: new.to_owned(), source };
    let root = opened.find_root(new).map_err(failed)?;
    Ok(store.workspace(&root, &opened.forbidden)?)
}
