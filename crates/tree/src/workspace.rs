//! A workspace: a directory whose states the store keeps.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::AtFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use takeback_base::paths::canonicalize;
use takeback_base::{directory, durable, hex, paths};

use crate::beneath::Root;
use crate::fault;
use crate::forbidden::ForbiddenRoots;
use crate::path::{AnyPath, RelPath, split};
use crate::pins::WorkspaceId;
use crate::store::{Store, StoreError};

/// A directory whose states the store keeps.
pub struct Workspace<'s> {
    pub(crate) store: &'s Store,
    pub(crate) id: WorkspaceId,
    pub(crate) path: PathBuf,
    pub(crate) root: Root,
    pub(crate) own: Option<RelPath>,
    /// The name of the single file, if the workspace is a single file. In that case, `path` is the
    /// directory of the file.
    pub(crate) only: Option<Vec<u8>>,
}

/// The reason why a directory cannot be a workspace.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum WorkspaceError {
    #[error("cannot open {} as a workspace", path.display())]
    Open { path: PathBuf, source: io::Error },
    /// The directory is one of those that can never be a workspace.
    #[error("{} is {what}, not a workspace", path.display())]
    Refused { path: PathBuf, what: &'static str },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The content of `workspace.json`: facts about a workspace that are kept even after its directory
/// is deleted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkspaceInfo {
    /// The canonical path.
    pub path: AnyPath,
    /// The time at which takeback first used the workspace, in milliseconds since 1970.
    pub created_at: i64,
    /// The time at which takeback last used the workspace, in milliseconds since 1970. Updated at
    /// most once an hour.
    pub last_seen: i64,
    /// True if the workspace is a single file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub single_file: bool,
}

impl Store {
    /// Opens the workspace in this directory. Fails with [`WorkspaceError::Refused`] if the
    /// directory can never be a workspace.
    pub fn workspace(
        &self,
        path: &Path,
        forbidden: &ForbiddenRoots,
    ) -> Result<Workspace<'_>, WorkspaceError> {
        let failed = |source| WorkspaceError::Open { path: path.to_owned(), source };
        let path = canonicalize(path).map_err(failed)?;
        if let Some(what) = forbidden.refusal(&path) {
            return Err(WorkspaceError::Refused { path, what });
        }
        fault::moment("the root is resolved");
        let root = Root::open(&path).map_err(failed)?;
        let own =
            forbidden.own().and_then(|own| RelPath::from_path(own.strip_prefix(&path).ok()?).ok());
        Ok(Workspace { store: self, id: self.workspace_id(&path), path, root, own, only: None })
    }

    /// Opens a single file as a workspace. This is meant for a file outside all workspaces, such as
    /// `~/.zshrc`. The file need not exist. No other file is captured, so the file can be anywhere
    /// except in takeback's own directory.
    pub fn single_file(
        &self,
        file: &Path,
        forbidden: &ForbiddenRoots,
    ) -> Result<Workspace<'_>, WorkspaceError> {
        let failed = |source| WorkspaceError::Open { path: file.to_owned(), source };
        // A link is followed, because a program that writes to the link writes to its target.
        let path = match (canonicalize(file), file.parent(), file.file_name()) {
            (Ok(path), ..) => path,
            (Err(_), Some(parent), Some(name)) => canonicalize(parent).map_err(failed)?.join(name),
            (Err(error), ..) => return Err(failed(error)),
        };
        if forbidden.own().is_some_and(|own| path.starts_with(own)) {
            return Err(WorkspaceError::Refused { path, what: "in takeback's own directory" });
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(WorkspaceError::Refused { path, what: "the root of the file system" });
        };
        fault::moment("the root is resolved");
        let root = Root::open(parent).map_err(failed)?;
        let only = Some(name.as_bytes().to_vec());
        let id = self.workspace_id(&path);
        Ok(Workspace { store: self, id, path: parent.to_owned(), root, own: None, only })
    }

    /// Computes the id of the workspace at a canonical path.
    pub fn workspace_id(&self, path: &Path) -> WorkspaceId {
        let mut hasher = Sha256::new();
        hasher.update(self.uuid());
        hasher.update(paths::as_bytes(path));
        let digest: [u8; 32] = hasher.finalize().into();
        WorkspaceId::new(hex::encode(&digest[..8]))
    }

    /// Reads the facts about a workspace. Returns `None` if there are none.
    pub fn workspace_info(&self, id: &WorkspaceId) -> Result<Option<WorkspaceInfo>, StoreError> {
        let path = self.workspace_directory(id).join("workspace.json");
        let text = durable::if_exists(fs::read(&path)).map_err(StoreError::io("read", &path))?;
        let info = text.map(|text| serde_json::from_slice(&text)).transpose();
        info.map_err(|error| StoreError::Damaged { path, reason: error.to_string() })
    }

    pub(crate) fn workspace_directory(&self, id: &WorkspaceId) -> PathBuf {
        self.directory().join("workspaces").join(id.to_string())
    }
}

impl<'s> Workspace<'s> {
    /// Returns the id of the workspace in the store.
    pub fn id(&self) -> &WorkspaceId {
        &self.id
    }

    /// Returns the canonical path of the directory. For a single file, this is the directory that
    /// contains it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the canonical path of the directory or of the single file.
    pub fn subject(&self) -> PathBuf {
        match &self.only {
            Some(name) => self.path.join(paths::from_bytes(name)),
            None => self.path.clone(),
        }
    }

    /// Returns the store that keeps the workspace's states.
    pub fn store(&self) -> &'s Store {
        self.store
    }

    /// Returns the device and inode of the directory, which do not change when it is renamed.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        self.root.identity()
    }

    /// Removes a directory inside the workspace if it is empty. Returns false if it was not
    /// removed.
    pub fn remove_if_empty(&self, path: &RelPath) -> bool {
        let (parent, name) = split(path.as_bytes());
        let removed = self.root.open_directory(parent).and_then(|parent| remove_at(parent, name));
        removed.is_ok()
    }

    /// Removes the directory of the workspace itself. Fails if it is not empty.
    pub fn remove_root_if_empty(&self) -> io::Result<()> {
        let (Some(parent), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return Ok(());
        };
        remove_at(directory::open_canonical(parent)?, name.as_bytes())
    }

    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// Returns this workspace's own directory in the store.
    pub(crate) fn directory(&self) -> PathBuf {
        self.store.workspace_directory(&self.id)
    }

    /// True if the next capture will be fast: this workspace has been captured before, or was found
    /// to be too large.
    pub fn was_scanned(&self) -> bool {
        ["state", "limit"].iter().any(|name| self.directory().join(name).exists())
    }

    /// Returns the directory for the caller's own notes about this workspace. The caller creates
    /// it. It is deleted when the store forgets the workspace, so it must not hold anything
    /// indispensable.
    pub fn notes(&self) -> PathBuf {
        self.directory().join("notes")
    }
}

fn remove_at(parent: impl AsFd, name: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(parent, paths::from_bytes(name), AtFlags::REMOVEDIR)?)
}
