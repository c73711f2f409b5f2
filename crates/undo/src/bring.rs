//! The history of a workspace follows when its directory is moved.

use std::path::{Path, PathBuf};

use takeback_ledger::{LedgerError, OpenError};
use takeback_tree::{MoveError, StoreError, WorkspaceError};

use crate::keeper::Keeper;

/// A workspace that was moved.
#[derive(Debug)]
pub struct Moved {
    /// Where its history was.
    pub from: PathBuf,
    /// Where it is.
    pub to: PathBuf,
    /// How many checkpoints, of all kinds.
    pub checkpoints: u64,
}

/// The history of a workspace did not move.
#[derive(Debug, thiserror::Error)]
pub enum MoveWorkspaceError {
    /// Nothing is known of the old place.
    #[error("there are no checkpoints for {}", .0.display())]
    NoHistory(PathBuf),
    /// It is the same place.
    #[error("{} is the same place", .0.display())]
    SamePlace(PathBuf),
    /// The new place cannot be one.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The pins.
    #[error(transparent)]
    Move(#[from] MoveError),
    /// The checkpoints are moved; what the ledger knows is not.
    #[error("the checkpoints are moved, but the ledger does not know it")]
    Ledger(#[source] LedgerError),
    /// Likewise.
    #[error("the checkpoints are moved, but the ledger does not know it")]
    Open(#[source] OpenError),
}

impl Keeper {
    /// The archives that the first start over an older layout made.
    pub fn legacy_directories(&self) -> Vec<PathBuf> {
        let archives = self.legacy_archives().unwrap_or_default();
        archives.iter().map(|archive| self.checkpoints_directory().join(&archive.name)).collect()
    }

    /// A workspace was moved: its history follows. If the new place has one already, the old one
    /// comes before it.
    pub fn move_workspace(&self, old: &Path, new: &Path) -> Result<Moved, MoveWorkspaceError> {
        let store = self.store()?;
        let to = store.workspace(&self.root(new)?, &self.places)?;
        let from =
            self.known_path(old)?.ok_or_else(|| MoveWorkspaceError::NoHistory(old.to_owned()))?;
        if from == to.path() {
            return Err(MoveWorkspaceError::SamePlace(from));
        }
        let checkpoints = store.move_workspace(&store.workspace_id(&from), &to)?;
        if let Some(mut ledger) = self.ledger().map_err(MoveWorkspaceError::Open)? {
            let (from, to) = (from.display().to_string(), to.path().display().to_string());
            ledger.move_workspace(&from, &to).map_err(MoveWorkspaceError::Ledger)?;
        }
        Ok(Moved { from, to: to.path().to_owned(), checkpoints })
    }
}
