//! The twin of a new directory: a workspace that may still have the same files. Where the file
//! system supports it, a file is cloned: both files share their blocks until one of them is written
//! to.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

use crate::beneath::{self, Root};
use crate::capture::cache::{EntryKind, StatCache};
use crate::oid::Oid;
use crate::path::{RelPath, split};
use crate::store::Store;

/// A workspace, and the state that its last capture saw.
pub(super) struct Twin {
    root: Root,
    cache: StatCache,
    /// False once the file system has refused to clone a file.
    can_clone: AtomicBool,
}

impl Twin {
    /// Opens the workspace at a canonical path. Returns `None` if the directory cannot be opened,
    /// or if the workspace has no stat cache.
    pub(super) fn open(store: &Store, path: &Path) -> Option<Twin> {
        let root = Root::open(path).ok()?;
        let cache = StatCache::load(&store.workspace_directory(&store.workspace_id(path)))?;
        Some(Twin { root, cache, can_clone: AtomicBool::new(true) })
    }

    /// Clones the content with this id into a new file, if the workspace's file at this path still
    /// has that content. Returns false if the content was not cloned. In that case, the new file
    /// may have any content.
    pub(super) fn clone_into(&self, path: &RelPath, oid: &Oid, file: &File) -> bool {
        if !self.can_clone.load(Ordering::Relaxed) {
            return false;
        }
        self.try_clone(path, oid, file).unwrap_or_else(|error| {
            if cloning_is_impossible(&error) {
                self.can_clone.store(false, Ordering::Relaxed);
            }
            false
        })
    }

    fn try_clone(&self, path: &RelPath, oid: &Oid, file: &File) -> io::Result<bool> {
        let Some(known) = self.cache.find_entry(path.as_bytes()) else { return Ok(false) };
        let is_same = known.kind == EntryKind::File && known.oid == *oid;
        // The stat of a racy file does not prove that its content is unchanged.
        if !is_same || known.is_doubtful() || self.cache.head.cutoff.is_racy(&known.stat) {
            return Ok(false);
        }
        let (parent, name) = split(path.as_bytes());
        let source = beneath::open_file(self.root.open_directory(parent)?, name)?;
        if beneath::stat_fd(&source)? != known.stat {
            return Ok(false);
        }
        clone_content(&source, file)?;
        // As in a capture, a read is valid only if the metadata is the same before and after it.
        Ok(beneath::stat_fd(&source)? == known.stat)
    }
}

/// True if an error means that no file can be cloned between the two file systems.
pub(crate) fn cloning_is_impossible(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOTSUP | Errno::NOTTY | Errno::XDEV | Errno::NOSYS | Errno::PERM)
    )
}

/// Makes a new file share all blocks of another one.
#[cfg(target_os = "linux")]
pub(crate) fn clone_content(source: &File, file: &File) -> io::Result<()> {
    Ok(rustix::fs::ioctl_ficlone(file, source)?)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn clone_content(_: &File, _: &File) -> io::Result<()> {
    Err(Errno::NOTSUP.into())
}
