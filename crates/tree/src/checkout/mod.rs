//! Checking out a tree: writes its files into a new directory, which is not a workspace yet.
//!
//! A restore changes a workspace that is in use, so it needs a journal. A checkout fills a new
//! directory that no program is using yet, so a temporary name is enough (`new_directory`). If a
//! workspace still has a file with the same content, the new file shares the blocks of that file
//! where the file system supports this (`twin`).

mod new_directory;
mod twin;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use rustix::fs::{Mode as Permissions, OFlags};
use takeback_base::paths;

use crate::beneath::Root;
use crate::fault;
use crate::object::{Malformed, Mode, OwnedEntry};
use crate::oid::Oid;
use crate::owner;
use crate::path::{RelPath, split};
use crate::restore::set_mode;
use crate::store::{ObjectError, Store, StoreError};
use crate::threads::prepare_threads;
use twin::Twin;

pub use new_directory::{NewDirectory, remove_temporary};
pub(crate) use twin::{clone_content, cloning_is_impossible};

/// The maximum number of files that one thread writes at a time.
const BATCH: usize = 64;

/// The result of a checkout.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checkout {
    /// The number of files and symlinks.
    pub files: u64,
    /// The number of files that share their blocks with a file of the twin.
    pub cloned: u64,
    /// The files that were written without their setuid or setgid bit, because root wrote them and
    /// the tree may come from another user. Sorted.
    pub unprivileged: Vec<RelPath>,
}

/// The reason why a tree was not checked out.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum CheckoutError {
    #[error("cannot write {path}")]
    Io { path: RelPath, source: io::Error },
    #[error("the checkpoint is damaged")]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A directory of the tree, with the files and symlinks that are directly in it.
struct PlannedDirectory {
    path: RelPath,
    mode: Mode,
    entries: Vec<OwnedEntry>,
}

impl Store {
    /// Writes everything in a tree into a new, empty directory: files with their modes, symlinks,
    /// and directories, including empty ones. `twin` is the canonical path of a workspace that may
    /// still have some of the files. Such files are cloned where the file system supports that.
    ///
    /// ```
    /// use takeback_tree::{CaptureOptions, CaptureRules, NewDirectory, Store};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # let project = scratch.path().join("shop");
    /// # std::fs::create_dir(&project)?;
    /// # std::fs::write(project.join("cart.rs"), "struct Cart;\n")?;
    /// # let store = Store::open(scratch.path().join("store"))?;
    /// # let workspace = store.workspace(&project, &Default::default())?;
    /// # let mut lock = workspace.lock()?;
    /// # let now = std::time::SystemTime::now();
    /// # let rules = CaptureRules::default();
    /// # let options = CaptureOptions { rules: &rules, named: &[], swept: &[], now };
    /// let tree = lock.capture(&options)?.tree;
    /// lock.pin(tree, now, "")?;
    ///
    /// let copy = scratch.path().join("copy");
    /// let new = NewDirectory::create(&copy, ".copy-unfinished")?;
    /// assert_eq!(store.check_out(&tree, &new, None)?.files, 1);
    /// // The directory gets its name only now, when it is complete.
    /// new.place(0o755)?;
    /// assert_eq!(std::fs::read_to_string(copy.join("cart.rs"))?, "struct Cart;\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn check_out(
        &self,
        tree: &Oid,
        into: &NewDirectory,
        twin: Option<&Path>,
    ) -> Result<Checkout, CheckoutError> {
        prepare_threads();
        // While this lock is held, no other process deletes packs.
        let _lock = self.lock_shared()?;
        let directories = plan_directories(self, tree)?;
        let twin = twin.and_then(|path| Twin::open(self, path));
        let writer = Writer { store: self, root: into.root(), twin, cloned: AtomicU64::new(0) };
        for directory in &directories {
            writer.make_directory(&directory.path)?;
        }
        let batches: Vec<(&RelPath, &[OwnedEntry])> = directories
            .iter()
            .flat_map(|directory| {
                directory.entries.chunks(BATCH).map(|batch| (&directory.path, batch))
            })
            .collect();
        batches.par_iter().try_for_each(|(path, entries)| writer.write_entries(path, entries))?;
        // A directory gets its mode only now that its content is complete, because the mode may
        // forbid even its owner to write to it.
        for directory in directories.iter().rev().filter(|directory| !directory.path.is_root()) {
            writer.set_directory_mode(directory)?;
        }
        let count = |directory: &PlannedDirectory| directory.entries.len() as u64;
        Ok(Checkout {
            files: directories.iter().map(count).sum(),
            cloned: writer.cloned.into_inner(),
            unprivileged: find_unprivileged(&directories),
        })
    }
}

/// Reads all directories of a tree, each before its subdirectories.
fn plan_directories(store: &Store, tree: &Oid) -> Result<Vec<PlannedDirectory>, ObjectError> {
    let mut directories = Vec::new();
    let mut pending = vec![(RelPath::root(), Mode::directory(0o700), *tree)];
    while let Some((path, mode, tree)) = pending.pop() {
        let mut entries = Vec::new();
        for entry in store.tree(&tree)? {
            if entry.mode.is_directory() {
                pending.push((path.join(&entry.name), entry.mode, entry.oid));
            } else if entry.mode.is_file() || entry.mode.is_symlink() {
                entries.push(entry);
            } else {
                return Err(ObjectError::Malformed(tree, Malformed("tree")));
            }
        }
        directories.push(PlannedDirectory { path, mode, entries });
    }
    Ok(directories)
}

/// Returns the mode that a file gets. Root drops the setuid and setgid bits. Otherwise, a tree from
/// a user without privileges could contain a file that every user could then run as root.
fn granted_mode(mode: Mode) -> Mode {
    match owner::is_root() && mode.is_file() && owner::is_privileged(mode.permissions()) {
        true => Mode::file(mode.permissions() & 0o1777),
        false => mode,
    }
}

fn find_unprivileged(directories: &[PlannedDirectory]) -> Vec<RelPath> {
    let is_reduced = |entry: &&OwnedEntry| granted_mode(entry.mode) != entry.mode;
    let mut paths: Vec<RelPath> = directories
        .iter()
        .flat_map(|directory| {
            let reduced = directory.entries.iter().filter(is_reduced);
            reduced.map(|entry| directory.path.join(&entry.name))
        })
        .collect();
    paths.sort();
    paths
}

/// Returns a function that turns a system error at this path into a [`CheckoutError`].
fn failed_at(path: &RelPath) -> impl FnOnce(io::Error) -> CheckoutError {
    let path = path.clone();
    move |source| CheckoutError::Io { path, source }
}

/// A checkout in progress.
struct Writer<'a> {
    store: &'a Store,
    root: &'a Root,
    twin: Option<Twin>,
    cloned: AtomicU64,
}

impl Writer<'_> {
    fn make_directory(&self, path: &RelPath) -> Result<(), CheckoutError> {
        if path.is_root() {
            return Ok(());
        }
        let (parent, name) = split(path.as_bytes());
        let make = || {
            fault::point("check out a directory")?;
            let parent = self.root.open_directory(parent)?;
            Ok(rustix::fs::mkdirat(parent, paths::from_bytes(name), Permissions::RWXU)?)
        };
        make().map_err(failed_at(path))
    }

    fn set_directory_mode(&self, directory: &PlannedDirectory) -> Result<(), CheckoutError> {
        let opened = self.root.open_directory(directory.path.as_bytes());
        opened
            .and_then(|opened| set_mode(opened, directory.mode))
            .map_err(failed_at(&directory.path))
    }

    /// Writes files and symlinks into one directory.
    fn write_entries(&self, path: &RelPath, entries: &[OwnedEntry]) -> Result<(), CheckoutError> {
        let directory = self.root.open_directory(path.as_bytes()).map_err(failed_at(path))?;
        for entry in entries {
            self.write_entry(directory.as_fd(), &path.join(&entry.name), entry)?;
        }
        Ok(())
    }

    fn write_entry(
        &self,
        directory: BorrowedFd<'_>,
        path: &RelPath,
        entry: &OwnedEntry,
    ) -> Result<(), CheckoutError> {
        let name = paths::from_bytes(&entry.name);
        fault::point("check out a file").map_err(failed_at(path))?;
        self.store.handled.fetch_add(1, Ordering::Relaxed);
        if entry.mode.is_symlink() {
            let target = self.store.blob(&entry.oid)?;
            let linked = rustix::fs::symlinkat(paths::from_bytes(&target), directory, name);
            return linked.map_err(|error| failed_at(path)(error.into()));
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(directory, name, flags, Permissions::from(0o600));
        let mut file = File::from(opened.map_err(|error| failed_at(path)(error.into()))?);
        if self.twin.as_ref().is_some_and(|twin| twin.clone_into(path, &entry.oid, &file)) {
            self.cloned.fetch_add(1, Ordering::Relaxed);
        } else {
            let content = self.store.blob(&entry.oid)?;
            // A clone that failed may have left some content.
            file.set_len(0).and_then(|()| file.write_all(&content)).map_err(failed_at(path))?;
        }
        let finished = set_mode(&file, granted_mode(entry.mode)).and_then(|()| sync_alone(&file));
        finished.map_err(failed_at(path))
    }
}

/// Syncs a file. This is needed only on systems where one call cannot sync the whole file system.
/// On Linux, [`NewDirectory::place`] makes such a call.
#[cfg(not(target_os = "linux"))]
fn sync_alone(file: &File) -> io::Result<()> {
    file.sync_all()
}

#[cfg(target_os = "linux")]
fn sync_alone(_: &File) -> io::Result<()> {
    Ok(())
}
