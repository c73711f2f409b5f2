//! Copying pins from another store into a workspace of this store. The directory of the workspace
//! is about to be created.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::adopt::AdoptLock;
use crate::mirror::{Copier, CopyError, MirrorError};
use crate::object::ObjectKind;
use crate::oid::Oid;
use crate::pins::PinName;
use crate::store::{Store, StoreError};

/// Copied objects that are not pinned yet. While this value exists, no gc frees them, and no other
/// process uses the workspace.
pub struct PinCopy<'s> {
    lock: AdoptLock<'s>,
    /// The pins that can be created, by number.
    pins: Vec<(u64, Oid)>,
    /// The pins that cannot be created, because the other store lacks an object that they need.
    pub damaged: Vec<u64>,
}

/// The reason why pins were not copied.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum PinCopyError {
    #[error("{} has checkpoints of another directory", .0.display())]
    Occupied(PathBuf),
    #[error("cannot write to the store {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// Copies the objects of pins, given by number and commit, from another store. Every object is
    /// compared with its id. `path` is the canonical path that the workspace will have.
    pub fn copy_pins(
        &self,
        from: &Store,
        path: &Path,
        pins: &[(u64, Oid)],
    ) -> Result<PinCopy<'_>, PinCopyError> {
        let store_lock = self.lock_shared()?;
        let failed = |source| PinCopyError::Write { path: self.directory().to_owned(), source };
        let mut copier = Copier::new(from, self);
        let (mut copied, mut damaged) = (Vec::new(), Vec::new());
        for (seq, id) in pins {
            match copier.copy_commit(*id) {
                Ok(()) => copied.push((*seq, *id)),
                Err(CopyError::Damaged) => damaged.push(*seq),
                Err(CopyError::Mirror(MirrorError::Write { source, .. })) => {
                    return Err(failed(source));
                }
                Err(CopyError::Mirror(MirrorError::Store(error))) => return Err(error.into()),
                Err(CopyError::Mirror(MirrorError::OtherStore { path })) => {
                    return Err(PinCopyError::Occupied(path));
                }
            }
        }
        copier.writer.seal(&self.pack_directory()).map_err(failed)?;
        self.forget_packs();
        let workspace = self.workspace_id(path);
        let workspace_lock = self.lock_directory(&workspace)?;
        // An earlier attempt may have been interrupted after it had created some of the pins.
        for name in self.pin_names(&workspace)? {
            let id = self.pin_id(&name)?;
            if !copied.iter().any(|(seq, copy)| name.seq == *seq && id == Some(*copy)) {
                return Err(PinCopyError::Occupied(path.to_owned()));
            }
            copied.retain(|(seq, _)| *seq != name.seq);
        }
        let lock = AdoptLock::new(self, path, workspace, [store_lock, workspace_lock]);
        Ok(PinCopy { lock, pins: copied, damaged })
    }

    /// Finds the objects that commits need and that neither this store nor `other` has. Assumes
    /// that `other` has everything that its own objects need. If `only_commits` is true, only the
    /// commits are looked for. An object that is found to be missing cannot be read, so the objects
    /// that it needs are not looked for.
    pub fn find_absent(&self, commits: &[Oid], other: &Store, only_commits: bool) -> BTreeSet<Oid> {
        let (packs, others) = (self.packs(), other.packs());
        let mut absent = BTreeSet::new();
        let mut seen: HashSet<Oid> = HashSet::new();
        let mut waiting: Vec<(Oid, ObjectKind)> =
            commits.iter().map(|id| (*id, ObjectKind::Commit)).collect();
        while let Some((oid, kind)) = waiting.pop() {
            if oid == Oid::EMPTY_TREE || !seen.insert(oid) || others.contains(&oid) {
                continue;
            }
            if !packs.contains(&oid) {
                absent.insert(oid);
                continue;
            }
            match kind {
                _ if only_commits => {}
                ObjectKind::Commit => {
                    let Ok(commit) = self.commit(&oid) else { continue };
                    waiting.push((commit.tree, ObjectKind::Tree));
                    waiting.extend(commit.parent.map(|id| (id, ObjectKind::Commit)));
                }
                ObjectKind::Tree => {
                    let Ok(entries) = self.tree(&oid) else { continue };
                    waiting.extend(entries.iter().map(|entry| match entry.mode.is_directory() {
                        true => (entry.oid, ObjectKind::Tree),
                        false => (entry.oid, ObjectKind::Blob),
                    }));
                }
                ObjectKind::Blob => {}
            }
        }
        absent
    }

    /// Makes the next lookup list the packs again, so that it also finds the packs that the caller
    /// or another process has put into the directory of packs.
    pub fn reload_packs(&self) {
        self.forget_packs();
    }

    /// Creates a pin of a commit under a given name, in a store that only this process uses.
    pub fn place_pin(&self, name: &PinName, id: Oid) -> Result<(), StoreError> {
        let path = self.directory().join(name.to_string());
        self.write_ref(id)
            .and_then(|written| self.link_ref(name, written))
            .map(drop)
            .map_err(StoreError::io("write", &path))
    }
}

impl PinCopy<'_> {
    /// Creates the pins, durably.
    pub fn finish(self, now: SystemTime) -> Result<u64, PinCopyError> {
        let directory = self.lock.store_directory().to_owned();
        let count = self.pins.len() as u64;
        self.lock
            .pin_copies(&self.pins, now)
            .map_err(|source| PinCopyError::Write { path: directory, source })?;
        Ok(count)
    }
}
