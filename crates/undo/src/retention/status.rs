//! The status of the store: its size, its workspaces, its failures.

use std::io;

use serde::Serialize;
use takeback_ledger::Time;
use takeback_tree::{AnyPath, StoreError};

use super::DirectoryState;
use super::days_seen::{ClockJump, DaysSeen};
use super::failures::Failure;
use super::legacy::{directory_size, list_archives};
use super::mirror::{MirrorStatus, read_mirror_status};
use super::size_cap::has_candidates;
use crate::Opened;
use crate::history::History;

/// The status of the store.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct Status {
    pub home: AnyPath,
    /// The size of all files that belong to checkpoints, including archives.
    pub total_bytes: u64,
    pub store_bytes: u64,
    pub max_bytes: u64,
    /// True if the store is over its size cap and a prune could evict checkpoints.
    pub can_shrink: bool,
    /// A span of time that does not count toward the age of checkpoints, because takeback was not
    /// running or the clock jumped.
    pub clock_jump: Option<ClockJump>,
    pub legacy: Vec<LegacyArchive>,
    pub workspaces: Vec<WorkspaceStatus>,
    pub failures: Vec<Failure>,
    /// The mirror, if one is configured.
    pub mirror: Option<MirrorStatus>,
}

/// An archive of repositories in an older layout.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct LegacyArchive {
    pub name: String,
    pub bytes: u64,
}

/// The status of a workspace that has checkpoints.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "documented in docs/protocol.md")]
pub struct WorkspaceStatus {
    pub path: AnyPath,
    /// The number of rows in the workspace's list.
    pub checkpoints: usize,
    /// The time of the last capture or restore: RFC 3339 in UTC.
    pub last_touched: String,
    pub state: DirectoryState,
}

/// The reason why the status could not be read.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum StatusError {
    Store(#[from] StoreError),
    Io(#[from] io::Error),
}

/// Reads the status of the store. Does not create a store.
///
/// ```
/// use takeback_undo::history::{open_workspace, take_checkpoint};
/// use takeback_undo::{CheckpointOptions, OpenOptions, Opened, retention};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let project = scratch.path().join("shop");
/// # std::fs::create_dir(&project)?;
/// # std::fs::write(project.join("cart.rs"), "struct Cart;\n")?;
/// # let opened = Opened::new(OpenOptions::new(scratch.path().join("home")));
/// let workspace = open_workspace(&opened, &project)?;
/// let options = CheckpointOptions { name: Some("start".into()), ..CheckpointOptions::default() };
/// take_checkpoint(&opened, &workspace, &options)?;
/// let status = retention::read_status(&opened)?;
/// assert_eq!(status.workspaces[0].checkpoints, 1);
/// assert!(status.store_bytes < status.max_bytes);
/// # Ok(())
/// # }
/// ```
pub fn read_status(opened: &Opened) -> Result<Status, StatusError> {
    let directory = opened.checkpoints_directory();
    let archives = list_archives(opened)?.into_iter();
    let mut status = Status {
        home: AnyPath(opened.home().to_owned()),
        total_bytes: directory_size(&directory),
        store_bytes: directory_size(&directory.join("store")),
        max_bytes: opened.settings.max_total_size(),
        can_shrink: false,
        clock_jump: DaysSeen::read(opened).find_jump(opened.now(), opened.settings.retention_days),
        legacy: archives
            .map(|archive| LegacyArchive { name: archive.name, bytes: archive.bytes })
            .collect(),
        workspaces: Vec::new(),
        failures: opened.failures(),
        mirror: read_mirror_status(opened),
    };
    if !opened.has_store() {
        return Ok(status);
    }
    let store = opened.store()?;
    for id in store.pinned_workspaces()? {
        let history = History::read(store, &id)?;
        let Some(newest) = history.all.last() else { continue };
        let info = store.workspace_info(&id).ok().flatten();
        let path = info.as_ref().map_or(&newest.record.workspace, |info| &info.path).clone();
        let touched = info.map_or(newest.record.moment(), |info| Time(info.last_seen));
        status.workspaces.push(WorkspaceStatus {
            state: if path.0.exists() { DirectoryState::Live } else { DirectoryState::Orphan },
            checkpoints: history.rows().count(),
            last_touched: touched.max(newest.record.moment()).rfc3339(),
            path,
        });
    }
    status.can_shrink = status.store_bytes > status.max_bytes && has_candidates(opened)?;
    status.workspaces.sort_by(|a, b| b.last_touched.cmp(&a.last_touched));
    Ok(status)
}
