//! Maintenance of the store: the limits on number, age and size, the status, and the log of
//! failures.

mod clear;
pub(crate) mod days_seen;
mod delete;
pub(crate) mod failures;
mod growth;
mod legacy;
mod mirror;
mod prune;
mod size_cap;
mod status;

use std::io;

use serde::Serialize;
use takeback_tree::{GcError, StoreError};

pub use self::clear::{ClearedCheckpoints, clear_checkpoints};
pub use self::days_seen::ClockJump;
pub use self::delete::{DeleteError, DeletedCheckpoint, delete_checkpoint};
pub use self::failures::Failure;
pub use self::growth::{DaySize, read_growth};
pub(crate) use self::legacy::archive_repositories;
pub use self::legacy::{clear_legacy_archives, legacy_directories};
pub use self::mirror::{MirrorStatus, UpdateMirrorError, update_mirror};
pub(crate) use self::prune::wait_for_workspace;
pub use self::prune::{
    PruneOptions, PruneReport, PrunedWorkspace, has_packs_over_size_cap, is_prune_due, limit_rows,
    prune, prune_if_due,
};
pub use self::status::{LegacyArchive, Status, StatusError, WorkspaceStatus, read_status};

/// The reason why a prune failed. Checkpoints that the prune had already deleted stay deleted.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum PruneError {
    Store(#[from] StoreError),
    Gc(#[from] GcError),
    Io(#[from] io::Error),
}

/// The state of a workspace's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DirectoryState {
    /// The directory exists.
    Live,
    /// The directory does not exist, or cannot be reached.
    Orphan,
}
