//! Adopting states from a foreign repository as the older history of a workspace.
//!
//! 1. [`Store::adopt`] begins the adoption. Until it ends, gc deletes none of the adopted objects.
//! 2. [`Adoption::take_tree`] copies a tree and everything in it into a pack. It rewrites all
//!    trees, because the store uses different modes than git and allows fewer names.
//! 3. [`Adoption::lock`] makes the pack durable and locks the workspace, whose directory need not
//!    exist.
//! 4. [`AdoptLock::finish`] renumbers existing pins where needed, and pins the adopted states.
//!
//! If an adoption is interrupted at any point, the store stays consistent: the pins created so far
//! are in the right order, and another adoption adds the missing pins.

mod entries;
mod pins;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use takeback_base::durable::FileLock;

use crate::capture::{Uncovered, UncoveredReason};
use crate::git::{ForeignObjectError, ForeignRepository};
use crate::lock::PinError;
use crate::object::{Mode, ObjectKind, OwnedEntry, is_valid_name};
use crate::oid::Oid;
use crate::pack::MAX_OBJECT;
use crate::pack::write::PackWriter;
use crate::packs::Packs;
use crate::store::{Store, StoreError};
use crate::threads::prepare_threads;

pub use pins::AdoptLock;

use entries::{
    encode_tree, move_below, normalize_mode, path_of_name, read_entries, uncovered_size,
};

/// The maximum length of a name in a file system.
const MAX_NAME: usize = 255;

/// The maximum total size of a state's directories, measured as git tree objects.
const MAX_DIRECTORY_BYTES: u64 = 128 << 20;

/// The maximum number of files in a state. Without this limit, a few trees, each of which contains
/// the next one many times, could expand to any number of files.
const MAX_FILES: u64 = 1_000_000;

/// The maximum depth of the directories in a state.
const MAX_DEPTH: u64 = 10_000;

/// The maximum total size of a state's uncovered paths. A path is counted once for each directory
/// above it, because each of these directories has its own copy of the path.
const MAX_UNCOVERED_BYTES: u64 = 16 << 20;

/// The maximum total size of the uncovered paths in an adoption. These paths are kept in memory
/// until the adoption ends.
const MAX_ALL_UNCOVERED_BYTES: u64 = 256 << 20;

/// The words that follow the limit in the error for a state with too many uncovered paths.
const UNCOVERED_MEGABYTES: &str = "MB of paths that cannot be imported";

/// The maximum size of a file that is copied in parallel with other files. Larger files are copied
/// one at a time.
const MAX_PARALLEL: u64 = 32 << 20;

/// The mode of a tree entry that links to a commit in another repository.
const NESTED: u32 = 0o160_000;

/// A state that was adopted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adopted {
    /// The tree of the state in the store.
    pub tree: Oid,
    /// The number of files and symlinks in the tree.
    pub files: u64,
    /// The topmost paths that are not in the tree, sorted.
    pub uncovered: Vec<Uncovered>,
}

/// The reason why a state was not adopted.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum AdoptError {
    /// An object that the state needs cannot be read. Other states are not affected.
    #[error(transparent)]
    Foreign(#[from] ForeignObjectError),
    #[error("cannot write to the store {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// A pin for an adopted state. It is inserted before the newer pins of the workspace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OlderPin {
    /// The number of the existing pin after which the new pin is inserted; 0 to insert it before
    /// all existing pins.
    pub after: u64,
    /// The tree of the adopted state.
    pub tree: Oid,
    /// The time at which the state was recorded, in seconds since 1970.
    pub time: i64,
}

/// An adoption in progress.
pub struct Adoption<'s> {
    store: &'s Store,
    packs: Arc<Packs>,
    writer: PackWriter,
    /// The rewritten trees, keyed by the ids of the foreign trees.
    trees: HashMap<Oid, RewrittenTree>,
    /// The files that are too large for the store, with their sizes.
    too_large: HashMap<Oid, u64>,
    /// The total size of all uncovered paths so far.
    uncovered_bytes: u64,
    store_lock: FileLock,
}

/// A foreign tree that was rewritten for the store. Its uncovered paths are relative to the tree.
#[derive(Clone, Default)]
struct RewrittenTree {
    oid: Oid,
    files: u64,
    depth: u64,
    uncovered: Vec<Uncovered>,
}

/// The objects of a state that have not been written yet.
#[derive(Default)]
struct PendingObjects {
    blobs: HashSet<Oid>,
    /// The foreign id, the id in the store, and the content of each tree.
    trees: Vec<(Oid, Oid, Vec<u8>)>,
    /// The total size of the foreign trees.
    directory_bytes: u64,
    /// The total size of the uncovered paths in all trees.
    uncovered_bytes: u64,
}

impl Store {
    /// Begins an adoption.
    pub fn adopt(&self) -> Result<Adoption<'_>, StoreError> {
        let store_lock = self.lock_shared()?;
        Ok(Adoption {
            store: self,
            packs: self.packs(),
            writer: self.new_pack(),
            trees: HashMap::new(),
            too_large: HashMap::new(),
            uncovered_bytes: 0,
            store_lock,
        })
    }
}

impl<'s> Adoption<'s> {
    /// Copies a tree from a foreign repository, with all objects that the store lacks.
    ///
    /// Directories get the mode 40755. Files get 100755 if their owner may execute them, otherwise
    /// 100644. [`Adopted::uncovered`] lists the entries that are left out: links to nested
    /// repositories, names that are invalid in the store, and files that are too large.
    pub fn take_tree(
        &mut self,
        foreign: &ForeignRepository,
        tree: Oid,
    ) -> Result<Adopted, AdoptError> {
        loop {
            let mut pending = PendingObjects::default();
            let taken = self
                .rewrite_tree(foreign, tree, &mut pending)
                .map_err(AdoptError::from)
                .and_then(|()| self.write_objects(foreign, &pending));
            if let Ok(too_large) = &taken
                && too_large.is_empty()
            {
                self.uncovered_bytes += pending.uncovered_bytes;
                break;
            }
            // `self.trees` may contain a tree only if everything in the tree was copied.
            pending.trees.iter().for_each(|(oid, ..)| drop(self.trees.remove(oid)));
            // The next iteration leaves these files out.
            self.too_large.extend(taken?);
        }
        let RewrittenTree { oid, files, mut uncovered, .. } = self.trees[&tree].clone();
        // Each state gets its own copy of the paths, even if several states have the same tree.
        self.uncovered_bytes += uncovered.iter().map(uncovered_size).sum::<u64>();
        if self.uncovered_bytes > MAX_ALL_UNCOVERED_BYTES {
            let (things, limit) = (UNCOVERED_MEGABYTES, MAX_ALL_UNCOVERED_BYTES >> 20);
            return Err(ForeignObjectError::TooMany { tree, things, limit }.into());
        }
        uncovered.sort_by(|a, b| a.path.cmp(&b.path));
        uncovered.dedup_by(|a, b| a.path == b.path);
        Ok(Adopted { tree: oid, files, uncovered })
    }

    /// Rewrites a tree and the trees in it, from the bottom up. Adds to `pending` the objects that
    /// must be written.
    fn rewrite_tree(
        &mut self,
        foreign: &ForeignRepository,
        root: Oid,
        pending: &mut PendingObjects,
    ) -> Result<(), ForeignObjectError> {
        // This uses a stack instead of recursion, because foreign trees may have any depth.
        let mut waiting: Vec<(Oid, Option<Vec<OwnedEntry>>)> = vec![(root, None)];
        while let Some((oid, entries)) = waiting.pop() {
            match entries {
                _ if self.trees.contains_key(&oid) => {}
                Some(entries) => self.rewrite_entries(oid, entries, pending)?,
                None => {
                    let entries = read_entries(foreign, root, oid, pending)?;
                    let is_entered = |entry: &&OwnedEntry| {
                        entry.mode.is_directory()
                            && self.find_refusal(entry.mode, &entry.name, entry.oid).is_none()
                    };
                    let inside = entries.iter().filter(is_entered);
                    let inside: Vec<Oid> = inside.map(|entry| entry.oid).collect();
                    waiting.push((oid, Some(entries)));
                    waiting.extend(inside.into_iter().map(|oid| (oid, None)));
                }
            }
        }
        Ok(())
    }

    /// Rewrites one tree. The trees in it must already have been rewritten.
    fn rewrite_entries(
        &mut self,
        foreign: Oid,
        entries: Vec<OwnedEntry>,
        pending: &mut PendingObjects,
    ) -> Result<(), ForeignObjectError> {
        let too_many = |things, limit| ForeignObjectError::TooMany { tree: foreign, things, limit };
        let mut tree = RewrittenTree::default();
        let mut kept: BTreeMap<Vec<u8>, (Mode, Oid)> = BTreeMap::new();
        let left = MAX_ALL_UNCOVERED_BYTES.saturating_sub(self.uncovered_bytes);
        let max_uncovered = MAX_UNCOVERED_BYTES.min(left);
        let mut add_uncovered = |tree: &mut RewrittenTree, uncovered: Uncovered| {
            pending.uncovered_bytes += uncovered_size(&uncovered);
            tree.uncovered.push(uncovered);
            match pending.uncovered_bytes <= max_uncovered {
                true => Ok(()),
                false => Err(too_many(UNCOVERED_MEGABYTES, max_uncovered >> 20)),
            }
        };
        for OwnedEntry { mode, name, oid } in entries {
            let refusal = self.find_refusal(mode, &name, oid);
            let refusal = refusal.or(kept.contains_key(&name).then_some(UncoveredReason::Special));
            if let Some(reason) = refusal {
                add_uncovered(&mut tree, Uncovered { path: path_of_name(&name), reason })?;
            } else if mode.is_directory() {
                let inside = &self.trees[&oid];
                tree.files += inside.files;
                tree.depth = tree.depth.max(inside.depth + 1);
                for uncovered in &inside.uncovered {
                    add_uncovered(&mut tree, move_below(&name, uncovered))?;
                }
                kept.insert(name, (Mode::directory(0o755), inside.oid));
            } else {
                tree.files += 1;
                pending.blobs.insert(oid);
                kept.insert(name, (normalize_mode(mode), oid));
            }
            if tree.files > MAX_FILES {
                return Err(too_many("files", MAX_FILES));
            }
        }
        if tree.depth > MAX_DEPTH {
            return Err(too_many("levels of directories", MAX_DEPTH));
        }
        let content = encode_tree(kept);
        tree.oid = Oid::of(ObjectKind::Tree, &content);
        pending.trees.push((foreign, tree.oid, content));
        self.trees.insert(foreign, tree);
        Ok(())
    }

    /// Returns the reason why an entry in a tree is left out, or `None` if the store accepts it.
    fn find_refusal(&self, mode: Mode, name: &[u8], oid: Oid) -> Option<UncoveredReason> {
        // On a file system that ignores case, `.GIT/hooks` is the user's own `.git/hooks`.
        let is_git = name.eq_ignore_ascii_case(b".git");
        if is_git || !is_valid_name(name) || name.len() > MAX_NAME {
            Some(UncoveredReason::Excluded)
        } else if let Some(size) = self.too_large.get(&oid) {
            Some(UncoveredReason::TooLarge { size: *size })
        } else if mode.0 == NESTED {
            Some(UncoveredReason::Nested)
        } else {
            let known = mode.is_directory() || mode.is_file() || mode.is_symlink();
            (!known).then_some(UncoveredReason::Special)
        }
    }

    /// Writes the objects that the store lacks. Files come first, so that a tree is never written
    /// without its content. Returns the files that are too large, with their sizes; if there are
    /// any, no tree is written.
    fn write_objects(
        &self,
        foreign: &ForeignRepository,
        pending: &PendingObjects,
    ) -> Result<Vec<(Oid, u64)>, AdoptError> {
        prepare_threads();
        let blobs: Vec<&Oid> = pending.blobs.iter().filter(|oid| !self.has_object(oid)).collect();
        let large: Vec<(Oid, u64)> = blobs
            .into_par_iter()
            .filter_map(|oid| self.copy_blob(foreign, oid, MAX_PARALLEL).transpose())
            .collect::<Result<_, _>>()?;
        let too_large: Vec<(Oid, u64)> = large
            .iter()
            .filter_map(|(oid, _)| self.copy_blob(foreign, oid, MAX_OBJECT).transpose())
            .collect::<Result<_, _>>()?;
        if too_large.is_empty() {
            let mut trees = pending.trees.iter().filter(|(_, oid, _)| !self.has_object(oid));
            trees.try_for_each(|(_, oid, content)| {
                self.add_object(ObjectKind::Tree, *oid, content)
            })?;
        }
        Ok(too_large)
    }

    /// Copies a file of at most `max_size` bytes. If the file is larger, copies nothing and returns
    /// its id and size.
    fn copy_blob(
        &self,
        foreign: &ForeignRepository,
        oid: &Oid,
        max_size: u64,
    ) -> Result<Option<(Oid, u64)>, AdoptError> {
        match foreign.blob(oid, max_size) {
            Ok(content) => self.add_object(ObjectKind::Blob, *oid, &content).map(|()| None),
            Err(ForeignObjectError::TooLarge { oid, size }) => Ok(Some((oid, size))),
            Err(error) => Err(error.into()),
        }
    }

    fn has_object(&self, oid: &Oid) -> bool {
        self.writer.contains(oid) || self.packs.contains(oid)
    }

    fn add_object(&self, kind: ObjectKind, oid: Oid, content: &[u8]) -> Result<(), AdoptError> {
        let path = || self.store.directory().to_owned();
        self.writer
            .add(kind, oid, content)
            .map_err(|source| AdoptError::Write { path: path(), source })
    }

    /// Makes the adopted states durable and locks the workspace at this canonical path. Waits while
    /// another process holds the lock.
    pub fn lock(self, path: &Path) -> Result<AdoptLock<'s>, PinError> {
        let store = self.store;
        self.writer.seal(&store.pack_directory()).map_err(write_error(store))?;
        store.forget_packs();
        let workspace = store.workspace_id(path);
        let workspace_lock = store.lock_directory(&workspace)?;
        Ok(AdoptLock::new(store, path, workspace, [self.store_lock, workspace_lock]))
    }
}

/// Returns a function that turns a system error into the error for a failed write to the store.
fn write_error(store: &Store) -> impl Fn(io::Error) -> PinError + use<> {
    let path = store.directory().to_owned();
    move |source| PinError::Write { path: path.clone(), source }
}

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;
