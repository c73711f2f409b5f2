//! The store as a whole: how large, which workspaces, what went wrong.

use std::io;

use serde::Serialize;
use takeback_ledger::Time;
use takeback_tree::{AnyPath, StoreError};

use crate::failures::Failure;
use crate::history::History;
use crate::keeper::Keeper;
use crate::retention::{WorkspaceState, size_of};

/// How the store is doing.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "the names are those of SPEC.md")]
pub struct Status {
    pub home: AnyPath,
    /// All that checkpoints take.
    pub total_bytes: u64,
    pub store_bytes: u64,
    pub max_bytes: u64,
    pub legacy: Vec<Legacy>,
    pub workspaces: Vec<WorkspaceStatus>,
    pub failures: Vec<Failure>,
}

/// An archive of an older layout.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "the names are those of SPEC.md")]
pub struct Legacy {
    pub name: String,
    pub bytes: u64,
}

/// A workspace that has checkpoints.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "the names are those of SPEC.md")]
pub struct WorkspaceStatus {
    pub path: AnyPath,
    /// Rows of its list.
    pub checkpoints: usize,
    /// RFC 3339 in UTC.
    pub last_touched: String,
    pub state: WorkspaceState,
}

/// The state could not be told.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[allow(missing_docs, reason = "each says what it is")]
pub enum StatusError {
    Store(#[from] StoreError),
    Io(#[from] io::Error),
}

impl Keeper {
    /// How the store is doing. Makes nothing if there is nothing.
    pub fn status(&self) -> Result<Status, StatusError> {
        let directory = self.checkpoints_directory();
        let mut status = Status {
            home: AnyPath(self.home().to_owned()),
            total_bytes: size_of(&directory),
            store_bytes: size_of(&directory.join("store")),
            max_bytes: self.settings.max_total_size(),
            legacy: Vec::new(),
            workspaces: Vec::new(),
            failures: self.failures(),
        };
        let legacy = self.legacy_archives()?.into_iter();
        status.legacy =
            legacy.map(|archive| Legacy { name: archive.name, bytes: archive.bytes }).collect();
        if !self.has_store() {
            return Ok(status);
        }
        let store = self.store()?;
        for id in store.pinned_workspaces()? {
            let history = History::of(store, &id)?;
            let Some(newest) = history.all.last() else { continue };
            let info = store.workspace_info(&id).ok().flatten();
            let path = info.as_ref().map_or(&newest.record.workspace, |info| &info.path).clone();
            let touched = info.map_or(newest.record.moment(), |info| Time(info.last_seen));
            status.workspaces.push(WorkspaceStatus {
                state: if path.0.exists() { WorkspaceState::Live } else { WorkspaceState::Orphan },
                checkpoints: history.rows().count(),
                last_touched: touched.max(newest.record.moment()).rfc3339(),
                path,
            });
        }
        status.workspaces.sort_by(|a, b| b.last_touched.cmp(&a.last_touched));
        Ok(status)
    }
}
