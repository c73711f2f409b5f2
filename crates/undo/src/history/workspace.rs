//! The workspace that the user means by a path, even if its directory no longer exists.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode};
use takeback_base::directory;
use takeback_base::paths::canonicalize;
use takeback_ledger::Time;
use takeback_tree::{Store, StoreError, Workspace, WorkspaceError, WorkspaceId};

use super::take::TakeError;
use super::{FindError, History};
use crate::Opened;
use crate::hook::state::WorkspaceState;

/// A workspace that the store has a history of. Its directory need not exist.
pub struct WorkspaceRef<'s> {
    pub(crate) store: &'s Store,
    pub(crate) id: WorkspaceId,
    /// The directory, or the single file.
    pub path: PathBuf,
}

impl<'s> WorkspaceRef<'s> {
    /// Creates a reference to an open workspace.
    pub fn of(workspace: &Workspace<'s>) -> WorkspaceRef<'s> {
        let (store, id) = (workspace.store(), workspace.id().clone());
        WorkspaceRef { store, id, path: workspace.subject() }
    }

    /// Returns the store that holds the workspace's checkpoints.
    pub fn store(&self) -> &'s Store {
        self.store
    }

    /// Returns the workspace's id in the store.
    pub fn id(&self) -> &WorkspaceId {
        &self.id
    }

    pub(crate) fn hook_state(&self) -> WorkspaceState {
        WorkspaceState::new(self.store.notes(&self.id))
    }
}

/// The directories that were recreated for a missing workspace, each given as its parent directory
/// and its name. Directories that are still empty are removed on drop.
#[derive(Default)]
pub struct RevivedDirectories(Vec<(OwnedFd, OsString)>);

impl RevivedDirectories {
    /// Creates a directory and its missing parents, without following links.
    fn create(path: &Path) -> io::Result<RevivedDirectories> {
        let mut revived = RevivedDirectories::default();
        let mut missing = path.ancestors().take_while(|path| !path.exists()).collect::<Vec<_>>();
        let existing = missing.last().copied().unwrap_or(path).parent();
        let (Some(existing), false) = (existing, missing.is_empty()) else { return Ok(revived) };
        let mut above = directory::open_canonical(existing)?;
        while let Some(name) = missing.pop().and_then(Path::file_name) {
            let made = rustix::fs::mkdirat(&above, name, Mode::from(0o777));
            let inside = directory::open_beneath(above.as_fd(), name.as_bytes())?;
            // Another process may have created the directory in the meantime.
            if made.is_ok() {
                revived.0.push((above, name.to_owned()));
            }
            above = inside;
        }
        Ok(revived)
    }

    /// Returns the device and inode of the workspace's directory, or `None` if it had to be
    /// recreated.
    pub(crate) fn identity_of(&self, workspace: &Workspace<'_>) -> Option<(u64, u64)> {
        if self.0.is_empty() { workspace.identity().ok() } else { None }
    }
}

impl Drop for RevivedDirectories {
    fn drop(&mut self) {
        for (above, name) in self.0.iter().rev() {
            // This fails for a directory that is not empty, as it should.
            let _ = rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR);
        }
    }
}

/// Opens the workspace that a path belongs to: the project around a directory, or a single file.
pub fn open_workspace<'o>(opened: &'o Opened, path: &Path) -> Result<Workspace<'o>, TakeError> {
    let store = opened.store()?;
    if fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return Ok(store.single_file(path, &opened.forbidden)?);
    }
    let failed = |source: io::Error| WorkspaceError::Open { path: path.to_owned(), source };
    let root = opened.find_root(path).map_err(failed)?;
    Ok(store.workspace(&root, &opened.forbidden)?)
}

/// Finds the workspace that the user means by a path, in order to read its history.
pub fn find_workspace<'o>(opened: &'o Opened, path: &Path) -> Result<WorkspaceRef<'o>, TakeError> {
    let store = opened.store()?;
    if let Some(known) = find_known_path(store, path)? {
        let path = find_around(opened, &known)?.unwrap_or(known);
        return Ok(WorkspaceRef { store, id: store.workspace_id(&path), path });
    }
    Ok(WorkspaceRef::of(&open_workspace(opened, path)?))
}

/// Lists all workspaces that have checkpoints, and when takeback last used each of them. The most
/// recently used comes first.
pub fn known_workspaces(opened: &Opened) -> Result<Vec<(WorkspaceRef<'_>, Time)>, StoreError> {
    if !opened.has_store() {
        return Ok(Vec::new());
    }
    let store = opened.store()?;
    let mut known = Vec::new();
    for id in store.pinned_workspaces()? {
        if let Ok(Some(info)) = store.workspace_info(&id)
            && store.has_pins(&id)?
        {
            known.push((WorkspaceRef { store, id, path: info.path.0 }, Time(info.last_seen)));
        }
    }
    known.sort_by_key(|(_, last_seen)| Reverse(*last_seen));
    Ok(known)
}

/// Finds the workspace with the given id, if it has checkpoints.
pub fn known_workspace<'o>(
    opened: &'o Opened,
    id: &WorkspaceId,
) -> Result<Option<WorkspaceRef<'o>>, StoreError> {
    if !opened.has_store() {
        return Ok(None);
    }
    let store = opened.store()?;
    if !store.has_pins(id)? {
        return Ok(None);
    }
    let info = store.workspace_info(id)?;
    Ok(info.map(|info| WorkspaceRef { store, id: id.clone(), path: info.path.0 }))
}

/// Finds the workspace that the user means by a path and a checkpoint. If the directory has become
/// part of a larger workspace, an id can still identify a checkpoint in the directory's own
/// history.
pub fn find_workspace_with<'o>(
    opened: &'o Opened,
    path: &Path,
    checkpoint: &str,
) -> Result<WorkspaceRef<'o>, TakeError> {
    let around = find_workspace(opened, path)?;
    let Some(inner) = find_inner_history(opened, path)? else { return Ok(around) };
    let found = History::read(around.store, &around.id)?;
    let is_inner = match found.find(around.store, checkpoint) {
        Err(FindError::Elsewhere { workspace, .. }) => workspace == inner.path,
        _ => false,
    };
    Ok(if is_inner { inner } else { around })
}

/// Finds the larger workspace that now contains a directory with a history of its own, for example
/// because of a `git init` above the directory. Returns the larger workspace only if it also has a
/// history, which shows that checkpoints are now taken there.
fn find_around(opened: &Opened, known: &Path) -> Result<Option<PathBuf>, StoreError> {
    let is_repository_data = known.components().any(|part| part.as_os_str() == ".git");
    if is_repository_data || !known.is_dir() {
        return Ok(None);
    }
    let store = opened.store()?;
    let Ok(root) = opened.find_root(known) else { return Ok(None) };
    let has_history = root != known && !store.pin_names(&store.workspace_id(&root))?.is_empty();
    Ok(has_history.then_some(root))
}

/// Finds a directory's own history, if the directory is now part of a larger workspace.
pub(crate) fn find_inner_history<'o>(
    opened: &'o Opened,
    path: &Path,
) -> Result<Option<WorkspaceRef<'o>>, StoreError> {
    let store = opened.store()?;
    let Some(known) = find_known_path(store, path)? else { return Ok(None) };
    let is_inner = find_around(opened, &known)?.is_some();
    Ok(is_inner.then(|| WorkspaceRef { store, id: store.workspace_id(&known), path: known }))
}

/// Opens the workspace that the user means, so that files in it can be restored. If the path has a
/// history of its own, or a directory above a missing path has one, opens the workspace with that
/// history. Otherwise, opens the workspace that the path belongs to. Recreates the directory if it
/// is missing. The caller must keep the second value for as long as it uses the workspace.
pub fn revive_workspace<'o>(
    opened: &'o Opened,
    path: &Path,
) -> Result<(Workspace<'o>, RevivedDirectories), TakeError> {
    let store = opened.store()?;
    let Some(path) = find_known_path(store, path)? else {
        return Ok((open_workspace(opened, path)?, RevivedDirectories::default()));
    };
    let info = store.workspace_info(&store.workspace_id(&path)).ok().flatten();
    let is_file = info.is_some_and(|info| info.single_file);
    let directory = if is_file { path.parent().unwrap_or(&path) } else { &path };
    let failed = |source| WorkspaceError::Open { path: directory.to_owned(), source };
    // Never restore through a link, or over something that is not a directory.
    let in_the_way = || {
        let message = "something else is in its place: move it away and try again";
        failed(io::Error::new(io::ErrorKind::AlreadyExists, message))
    };
    if fs::symlink_metadata(directory).is_ok_and(|found| !found.is_dir()) {
        return Err(in_the_way().into());
    }
    let revived = RevivedDirectories::create(directory).map_err(failed)?;
    let workspace = match is_file {
        true => store.single_file(&path, &opened.forbidden)?,
        false => store.workspace(&path, &opened.forbidden)?,
    };
    // Opening the workspace resolved the path again, and by then a part of the path may have been
    // replaced by a link.
    if workspace.subject() != path {
        return Err(in_the_way().into());
    }
    Ok((workspace, revived))
}

/// Finds the path that the user means by a typed path: a path for which the store has a history.
/// The path may no longer exist.
pub(crate) fn find_known_path(store: &Store, typed: &Path) -> Result<Option<PathBuf>, StoreError> {
    // Once its links are resolved, the typed path may be a path with a history.
    let parent = typed.parent().and_then(|parent| canonicalize(parent).ok());
    let beside = parent.zip(typed.file_name()).map(|(parent, name)| parent.join(name));
    let given: PathBuf = typed.components().collect();
    let candidates = canonicalize(typed).ok().into_iter().chain(beside).chain([given.clone()]);
    // A directory above a missing directory may have a history.
    let is_gone = fs::symlink_metadata(typed).is_err();
    let above = given.ancestors().skip(1).filter(|_| is_gone).map(Path::to_owned);
    for path in candidates.chain(above.collect::<Vec<_>>()) {
        if !store.pin_names(&store.workspace_id(&path))?.is_empty() {
            return Ok(Some(path));
        }
    }
    Ok(None)
}
