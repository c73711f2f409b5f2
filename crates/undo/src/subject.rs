//! Which workspace somebody means by a path, though it may be gone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use takeback_tree::{Store, StoreError, Workspace, WorkspaceError, WorkspaceId};

use crate::keeper::{Keeper, TakeError};
use crate::notes::Notes;

/// A workspace to look at: what the store has of it, whether it is there or not.
pub struct Subject<'s> {
    pub(crate) store: &'s Store,
    pub(crate) id: WorkspaceId,
    /// The directory, or the single file.
    pub path: PathBuf,
}

impl<'s> Subject<'s> {
    /// What there is of a workspace.
    pub fn of(workspace: &Workspace<'s>) -> Subject<'s> {
        Subject { store: workspace.store(), id: workspace.id().clone(), path: workspace.subject() }
    }

    pub(crate) fn notes(&self) -> Notes {
        Notes::new(self.store.notes(&self.id))
    }
}

/// Directories that were made for a workspace that was gone. If nothing comes into them, they go
/// again.
pub struct Revived(Vec<PathBuf>);

impl Drop for Revived {
    fn drop(&mut self) {
        for directory in &self.0 {
            // What is not empty stays.
            let _ = fs::remove_dir(directory);
        }
    }
}

impl Keeper {
    /// The workspace that somebody means, to look at.
    pub fn subject(&self, path: &Path) -> Result<Subject<'_>, TakeError> {
        let store = self.store()?;
        if let Some(path) = self.known_path(path)? {
            return Ok(Subject { store, id: store.workspace_id(&path), path });
        }
        Ok(Subject::of(&self.workspace(path)?))
    }

    /// The workspace that somebody means, to work with: the one at this very path if it has a
    /// history, otherwise the one that the path belongs to. A directory that is gone is made anew,
    /// so that what was in it can come back; keep the second value as long as it is used.
    pub fn workspace_with_history(
        &self,
        path: &Path,
    ) -> Result<(Workspace<'_>, Revived), TakeError> {
        let store = self.store()?;
        let Some(path) = self.known_path(path)? else {
            return Ok((self.workspace(path)?, Revived(Vec::new())));
        };
        let info = store.workspace_info(&store.workspace_id(&path)).ok().flatten();
        let is_file = info.is_some_and(|info| info.single_file);
        let directory = if is_file { path.parent().unwrap_or(&path) } else { &path };
        let missing = directory.ancestors().take_while(|directory| !directory.exists());
        let revived = Revived(missing.map(Path::to_owned).collect());
        let failed = |source| WorkspaceError::Open { path: directory.to_owned(), source };
        // Nothing is restored through a link, or over something that is no directory.
        if fs::symlink_metadata(directory).is_ok_and(|found| !found.is_dir()) {
            let message = "something else is in its place now: move that away and repeat";
            return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, message)).into());
        }
        fs::create_dir_all(directory).map_err(failed)?;
        let workspace = match is_file {
            true => store.single_file(&path, &self.places)?,
            false => store.workspace(&path, &self.places)?,
        };
        Ok((workspace, revived))
    }

    /// The path that the store knows a workspace by, if it has a history there: it need not exist
    /// any more.
    pub(crate) fn known_path(&self, typed: &Path) -> Result<Option<PathBuf>, StoreError> {
        let store = self.store()?;
        // Links on the way may still lead there.
        let parent = typed.parent().and_then(|parent| fs::canonicalize(parent).ok());
        let beside = parent.zip(typed.file_name()).map(|(parent, name)| parent.join(name));
        let given: PathBuf = typed.components().collect();
        let candidates =
            fs::canonicalize(typed).ok().into_iter().chain(beside).chain([given.clone()]);
        // Of what is gone, whatever is above it may have a history.
        let is_gone = fs::symlink_metadata(typed).is_err();
        let above = given.ancestors().skip(1).filter(|_| is_gone).map(Path::to_owned);
        for path in candidates.chain(above.collect::<Vec<_>>()) {
            if !store.pin_names(&store.workspace_id(&path))?.is_empty() {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }
}
