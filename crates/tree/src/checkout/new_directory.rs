//! A directory that is filled under a temporary name. It gets its final name only once it is
//! complete and on disk, so that an unfinished directory cannot be mistaken for a complete one.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::Mode as Permissions;
use takeback_base::durable;
use takeback_base::paths::canonicalize;

use crate::beneath::Root;
use crate::fault;

/// A directory under a temporary name. Unless it is placed, it is removed on drop, together with
/// the directories above it that had to be created.
#[derive(Debug)]
pub struct NewDirectory {
    temporary: PathBuf,
    destination: PathBuf,
    root: Root,
    /// The parent directories that were created, outermost first.
    parents: Vec<PathBuf>,
    is_placed: bool,
}

impl NewDirectory {
    /// Creates the directory `name` next to `destination`, which must be an absolute path without
    /// links. Also creates the missing directories above the two. Until the directory is placed,
    /// only this user can access it.
    pub fn create(destination: &Path, name: &str) -> io::Result<NewDirectory> {
        let parent = destination.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let mut parents: Vec<PathBuf> = parent
            .ancestors()
            .take_while(|above| fs::symlink_metadata(above).is_err())
            .map(Path::to_owned)
            .collect();
        parents.reverse();
        let temporary = parent.join(name);
        let create = || {
            fault::point("create a new directory")?;
            fs::create_dir_all(parent)?;
            fs::DirBuilder::new().mode(0o700).create(&temporary)?;
            Root::open(&canonicalize(&temporary)?)
        };
        let root = create().inspect_err(|_| remove_empty(&parents))?;
        let destination = destination.to_owned();
        Ok(NewDirectory { temporary, destination, root, parents, is_placed: false })
    }

    /// Returns the path that the directory has until it is placed.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Returns the device and inode, which stay the same when the directory is placed.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        self.root.identity()
    }

    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// Sets the directory's permissions, syncs everything in it, and gives it its final name. If an
    /// empty directory has that name, the new directory replaces it and takes over its permissions.
    /// If anything else has that name, this fails and changes nothing at that path.
    pub fn place(mut self, permissions: u32) -> io::Result<()> {
        let existing = fs::symlink_metadata(&self.destination).ok();
        let existing = existing.map(|found| found.permissions().mode());
        let bits = existing.unwrap_or(permissions) & 0o777;
        fault::point("place a new directory")?;
        rustix::fs::fchmod(&self.root, Permissions::from(bits as rustix::fs::RawMode))?;
        sync_content(&self.root)?;
        match existing {
            // This replaces only an empty directory.
            Some(_) => fs::rename(&self.temporary, &self.destination)?,
            None => durable::rename_new(&self.temporary, &self.destination)?,
        }
        self.is_placed = true;
        // If this fails, a power cut may still bring back the temporary name.
        let _ = self.destination.parent().map(durable::sync_directory);
        // The directory already has its final name, so a failure no longer matters here.
        let _ = fault::point("a new directory is in its place");
        fault::moment("a new directory is in its place");
        Ok(())
    }
}

impl Drop for NewDirectory {
    fn drop(&mut self) {
        if !self.is_placed {
            // If this fails, the caller's next attempt removes the rest.
            let _ = remove_temporary(&self.temporary);
            remove_empty(&self.parents);
        }
    }
}

/// Removes directories that were created and are still empty. `directories` begins with the
/// outermost directory.
fn remove_empty(directories: &[PathBuf]) {
    for directory in directories.iter().rev() {
        let _ = fs::remove_dir(directory);
    }
}

/// Removes a directory that was never placed, even if it contains directories that their owner is
/// not allowed to write to. Does nothing if the directory does not exist.
pub fn remove_temporary(path: &Path) -> io::Result<()> {
    let found = durable::if_exists(fs::symlink_metadata(path))?;
    match found {
        None => Ok(()),
        Some(found) if found.is_dir() => remove_directory(path),
        Some(_) => fs::remove_file(path),
    }
}

fn remove_directory(path: &Path) -> io::Result<()> {
    let removed = fs::remove_dir_all(path);
    if removed.is_ok() {
        return removed;
    }
    let mut pending = vec![path.to_owned()];
    while let Some(directory) = pending.pop() {
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    fs::remove_dir_all(path)
}

/// Syncs everything on the directory's file system. For a directory with many files, this is much
/// faster than syncing each of them.
#[cfg(target_os = "linux")]
fn sync_content(root: &Root) -> io::Result<()> {
    Ok(rustix::fs::syncfs(root)?)
}

/// Syncs the directory itself. Its files were synced when they were written.
#[cfg(not(target_os = "linux"))]
fn sync_content(root: &Root) -> io::Result<()> {
    Ok(rustix::fs::fsync(root)?)
}
