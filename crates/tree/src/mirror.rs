//! A mirror: a second store that has the same pins, in case the first one is deleted.
//!
//! Copying adds and renames pins, but deletes none. A pin that is deleted from the first store
//! stays in the mirror until the mirror's own limits delete it. A mirror has the id of its store,
//! so its workspaces have the same ids, and everything that reads a store can read the mirror.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use takeback_base::durable::{self, Durability};

use crate::fault;
use crate::lock::{read_seq, write_seq};
use crate::object::{self, Commit, ObjectKind};
use crate::oid::Oid;
use crate::pack::write::PackWriter;
use crate::packs::Packs;
use crate::pins::{PinName, WorkspaceId};
use crate::store::{ObjectError, Store, StoreError};

/// The result of bringing a mirror up to date.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct MirrorReport {
    /// The number of pins that were added or replaced.
    pub pins: u64,
    pub objects: u64,
    /// The pins that were not copied, because an object that they need is lost or damaged.
    pub damaged: Vec<PinName>,
    /// The workspaces that were not copied, because another process is using them in the mirror.
    /// The next copy includes them.
    pub busy: Vec<WorkspaceId>,
}

/// The reason why a mirror could not be brought up to date. Everything that was already copied
/// stays in the mirror.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum MirrorError {
    /// The directory holds the checkpoints of another store.
    #[error("{} holds the checkpoints of another store", path.display())]
    OtherStore { path: PathBuf },
    #[error("cannot write to the mirror {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// Opens the mirror of this store in a directory, and creates it if it does not exist.
    pub fn open_mirror(&self, directory: impl Into<PathBuf>) -> Result<Store, MirrorError> {
        let mirror = Store::open_with_uuid(directory.into(), self.uuid())?;
        match mirror.uuid() == self.uuid() {
            true => Ok(mirror),
            false => Err(MirrorError::OtherStore { path: mirror.directory().to_owned() }),
        }
    }

    /// Copies every pin that the mirror lacks, with everything that the pin needs.
    ///
    /// ```
    /// use takeback_tree::{CaptureOptions, CaptureRules, Store};
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
    /// lock.pin(tree, now, "before the call\n")?;
    ///
    /// let mirror = store.open_mirror(scratch.path().join("other-disk"))?;
    /// store.copy_to_mirror(&mirror)?;
    /// assert_eq!(mirror.pin_names(workspace.id())?, store.pin_names(workspace.id())?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn copy_to_mirror(&self, mirror: &Store) -> Result<MirrorReport, MirrorError> {
        let _lock = mirror.lock_shared()?;
        let mut copier = Copier::new(self, mirror);
        let mut report = MirrorReport::default();
        let (mut copied, mut known) = (Vec::new(), HashMap::new());
        for workspace in self.pinned_workspaces()? {
            for name in self.pin_names(&workspace)? {
                let Some(id) = self.pin_id(&name)? else { continue };
                known.insert(id, name.clone());
                if mirror.pin_id(&name)? == Some(id) {
                    continue;
                }
                match copier.copy_commit(id) {
                    Ok(()) => copied.push((name, id)),
                    Err(CopyError::Damaged) => report.damaged.push(name),
                    Err(CopyError::Mirror(error)) => return Err(error),
                }
            }
        }
        report.objects = copier.writer.count() as u64;
        let failed = |source| MirrorError::Write { path: mirror.directory().to_owned(), source };
        copier.writer.seal(&mirror.pack_directory()).map_err(failed)?;
        mirror.forget_packs();
        for pins in copied.chunk_by(|(a, _), (b, _)| a.workspace == b.workspace) {
            let workspace = &pins[0].0.workspace;
            let Some(_guard) = mirror.try_lock_workspace(workspace)? else {
                report.busy.push(workspace.clone());
                continue;
            };
            self.name_pins(mirror, pins).map_err(failed)?;
            self.copy_facts(mirror, workspace).map_err(failed)?;
            report.pins += pins.len() as u64;
        }
        drop_old_names(mirror, &known)?;
        Ok(report)
    }

    /// Gives copied pins their names in the mirror. The caller must hold the locks of the workspace
    /// and the mirror.
    fn name_pins(&self, mirror: &Store, pins: &[(PinName, Oid)]) -> io::Result<()> {
        for (name, id) in pins {
            fault::point("mirror ref")?;
            match mirror.directory().join(name.to_string()).exists() {
                // The pin's message has changed.
                true => mirror.replace_ref(name, *id)?,
                false => mirror.place_ref(name, mirror.write_ref(*id)?)?,
            }
        }
        Ok(())
    }

    /// Copies the path and the times of a workspace, and the number of its next pin.
    fn copy_facts(&self, mirror: &Store, workspace: &WorkspaceId) -> io::Result<()> {
        let [from, to] = [self, mirror].map(|store| store.workspace_directory(workspace));
        if let Some(facts) = durable::if_exists(fs::read(from.join("workspace.json")))? {
            let path = to.join("workspace.json");
            let temporary = mirror.temporary();
            durable::replace_file_through(&temporary, &path, &facts, Durability::Cached)?;
        }
        let seq = to.join("seq");
        write_seq(&seq, read_seq(&from.join("seq")).max(read_seq(&seq))).map(drop)
    }
}

/// Deletes the old names of pins that were renumbered or moved, if the mirror also has the pins
/// under their new names. `known` holds the pins of the store.
fn drop_old_names(mirror: &Store, known: &HashMap<Oid, PinName>) -> Result<(), StoreError> {
    let current: HashSet<&PinName> = known.values().collect();
    for workspace in mirror.pinned_workspaces()? {
        for name in mirror.pin_names(&workspace)? {
            let id = mirror.pin_id(&name)?.filter(|_| !current.contains(&name));
            let new = id.and_then(|id| known.get(&id));
            if let Some(new) = new
                && mirror.pin_id(new)? == id
            {
                mirror.unpin(&name)?;
            }
        }
    }
    Ok(())
}

/// A copy in progress.
pub(crate) struct Copier<'a> {
    from: &'a Store,
    /// The packs of the mirror.
    packs: Arc<Packs>,
    pub(crate) writer: PackWriter,
    mirror: PathBuf,
}

/// The reason why a pin was not copied.
pub(crate) enum CopyError {
    /// An object of the pin is lost or damaged. Other pins are not affected.
    Damaged,
    Mirror(MirrorError),
}

impl From<ObjectError> for CopyError {
    fn from(_: ObjectError) -> CopyError {
        CopyError::Damaged
    }
}

impl<'a> Copier<'a> {
    /// Begins to copy objects into a store whose lock the caller must hold.
    pub(crate) fn new(from: &'a Store, mirror: &Store) -> Copier<'a> {
        let (packs, writer) = (mirror.packs(), mirror.new_pack());
        Copier { from, packs, writer, mirror: mirror.directory().to_owned() }
    }

    /// Copies a commit with its attachment and its tree. An object is written only after everything
    /// that it refers to, so an object that the mirror has is complete.
    pub(crate) fn copy_commit(&mut self, id: Oid) -> Result<(), CopyError> {
        let mut waiting = vec![id];
        let mut commits = Vec::new();
        while let Some(id) = waiting.pop().filter(|id| !self.has_object(id)) {
            let (kind, content) = self.from.read_object(&id)?;
            let commit =
                Commit::parse(&content).map_err(|error| ObjectError::Malformed(id, error))?;
            self.copy_tree(commit.tree)?;
            waiting.extend(commit.parent);
            commits.push((kind, id, content));
        }
        let mut commits = commits.iter().rev();
        commits.try_for_each(|(kind, id, content)| self.add_object(*kind, *id, content))
    }

    fn copy_tree(&mut self, root: Oid) -> Result<(), CopyError> {
        let (mut trees, mut files) = (Vec::new(), HashSet::new());
        let mut seen = HashSet::new();
        let mut waiting = vec![root];
        while let Some(oid) = waiting.pop() {
            if self.has_object(&oid) || !seen.insert(oid) {
                continue;
            }
            let (kind, content) = match oid {
                // The empty tree can be read even if a damaged store has lost it.
                Oid::EMPTY_TREE => (ObjectKind::Tree, Vec::new()),
                _ => self.from.read_object(&oid)?,
            };
            for entry in object::parse_entries(&content) {
                let entry = entry.map_err(|error| ObjectError::Malformed(oid, error))?;
                match entry.mode.is_directory() {
                    true => waiting.push(entry.oid),
                    false => drop(files.insert(entry.oid)),
                }
            }
            trees.push((kind, oid, content));
        }
        for oid in files.into_iter().filter(|oid| !self.packs.contains(oid)) {
            if !self.writer.contains(&oid) {
                let (kind, content) = self.from.read_object(&oid)?;
                self.add_object(kind, oid, &content)?;
            }
        }
        trees.iter().try_for_each(|(kind, oid, content)| self.add_object(*kind, *oid, content))
    }

    fn has_object(&self, oid: &Oid) -> bool {
        self.writer.contains(oid) || self.packs.contains(oid)
    }

    fn add_object(&self, kind: ObjectKind, oid: Oid, content: &[u8]) -> Result<(), CopyError> {
        self.writer.add(kind, oid, content).map_err(|source| {
            CopyError::Mirror(MirrorError::Write { path: self.mirror.clone(), source })
        })
    }
}

#[cfg(test)]
mod tests;
