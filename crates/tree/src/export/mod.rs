//! Export packs: packs that are built to leave the machine.
//!
//! The packs of the store hold private files as well as others, so these packs are never copied
//! directly. Instead, an export writes the objects that commits need into new packs, and puts
//! private objects into packs of their own. No delta refers to an object in another pack, so a pack
//! without private objects reveals nothing about them.

mod private;
#[cfg(test)]
mod tests;

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::oid::Oid;
use crate::pack::index::PackIndex;
use crate::pack::read::RecentObjects;
use crate::pack::write::PackWriter;
use crate::packs::list_pack_names;
use crate::reachability::{AbsentObject, NeededObjects, NewerRef};
use crate::repack::{self, RepackError};
use crate::rules::CaptureRules;
use crate::source_packs::{ObjectPlace, SourcePacks};
use crate::store::{ObjectError, Store, StoreError};
use private::find_private_objects;

/// The maximum total size in bytes of the objects that are kept in memory.
const RECENT_BYTES: usize = 24 << 20;

/// A request for export packs.
pub struct ExportOptions<'a> {
    /// For each workspace, the commits of its pins, the newest first.
    pub histories: &'a [Vec<Oid>],
    /// The objects that are private.
    pub privacy: ExportPrivacy<'a>,
    /// Returns true for an object that is left out, because the destination already has it.
    pub has: &'a dyn Fn(&Oid) -> bool,
    /// The size in bytes after which another pack is begun.
    pub max_pack: u64,
}

/// The objects that an export writes into packs of their own.
#[derive(Clone, Copy)]
pub enum ExportPrivacy<'a> {
    /// All objects.
    All,
    /// Files that match the private patterns of these rules, the directories that list such files,
    /// and copies of repositories' indexes, which list them as well.
    Private(&'a CaptureRules),
    /// None.
    Off,
}

/// An export that has found its objects and divided them into packs. The packs are written one by
/// one, so the first can leave the machine while the others are still being written.
pub struct Export {
    /// The commits that are left out, because an object that they need is missing or damaged.
    pub damaged: Vec<Oid>,
    /// True if the store has lost objects and the loss was accepted. In that case, commits may need
    /// objects that are not exported.
    pub has_losses: bool,
    sources: SourcePacks,
    recent: RecentObjects,
    waiting: VecDeque<PackPlan>,
}

/// The objects of a pack that is not written yet.
struct PackPlan {
    objects: NeededObjects,
    is_private: bool,
    /// The size of the objects in the packs of the store.
    bytes: u64,
}

/// The objects that commits need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The ids of the objects.
    pub objects: HashSet<Oid>,
    /// True if `objects` is complete, which means that no needed object is damaged or lost.
    pub is_complete: bool,
}

/// A pack that an export wrote: two files with the extensions `pack` and `idx`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedPack {
    /// The name of the files without the extension.
    pub name: String,
    /// True if the pack holds private objects, and false if it holds none.
    pub is_private: bool,
}

/// The reason why an export failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum ExportError {
    /// An object turned out to be damaged after the traversal had reached it.
    #[error("the store is damaged and must be repaired first")]
    Damaged(#[source] ObjectError),
    #[error("cannot write to {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// Finds the objects that commits need, and divides them into export packs. Changes nothing in
    /// the store, and does not block other processes. Packs that this call keeps open stay readable
    /// even if a gc removes them.
    pub fn export(&self, options: &ExportOptions<'_>) -> Result<Export, ExportError> {
        let sources = self.open_export_sources()?;
        let mut recent = RecentObjects::new(RECENT_BYTES);
        let accepted = self.accepted_losses();
        let has_losses = !accepted.is_empty();
        let mut needed = NeededObjects::new(AbsentObject::Lost).without(accepted);
        let mut damaged = Vec::new();
        let tips =
            add_histories(&mut needed, &sources, &mut recent, options.histories, &mut damaged);
        let private = match options.privacy {
            ExportPrivacy::Private(rules) => {
                find_private_objects(&sources, &mut recent, rules, &tips)
            }
            ExportPrivacy::All | ExportPrivacy::Off => HashSet::new(),
        };
        let mut grouping = Grouping::new(&sources, options, &private);
        let groups = needed.divide(&sources, |oid, place| grouping.find_group(oid, place));
        let waiting = groups.into_iter().zip(grouping.groups).map(|(objects, group)| {
            let Group { is_private, bytes } = group;
            PackPlan { objects, is_private, bytes }
        });
        let waiting = waiting.collect();
        Ok(Export { damaged, has_losses, sources, recent, waiting })
    }

    /// Finds the objects that commits need. Each history lists the commits of a workspace, the
    /// newest first.
    pub fn find_needs(&self, histories: &[Vec<Oid>]) -> Result<Needs, StoreError> {
        let sources = self.open_export_sources()?;
        let mut recent = RecentObjects::new(RECENT_BYTES);
        let accepted = self.accepted_losses();
        let has_losses = !accepted.is_empty();
        let mut needed = NeededObjects::new(AbsentObject::Lost).without(accepted);
        let mut damaged = Vec::new();
        add_histories(&mut needed, &sources, &mut recent, histories, &mut damaged);
        let ids = needed.objects.iter().map(|object| sources.object(object.place).oid);
        Ok(Needs { objects: ids.collect(), is_complete: damaged.is_empty() && !has_losses })
    }

    /// Returns the total size in bytes of all packs.
    pub fn pack_bytes(&self) -> Result<u64, StoreError> {
        let directory = self.pack_directory();
        let mut bytes = 0;
        for name in list_pack_names(&directory) {
            let found = fs::metadata(directory.join(name).with_extension("pack"));
            bytes += found.map_or(0, |found| found.len());
        }
        Ok(bytes)
    }

    /// Opens all packs. A pack that cannot be opened is skipped; if one of its objects is needed,
    /// the traversal finds that the object is missing.
    fn open_export_sources(&self) -> Result<SourcePacks, StoreError> {
        // While the lock is held, no other process deletes packs.
        let _lock = self.lock_shared()?;
        let mut sources = SourcePacks::default();
        for name in list_pack_names(&self.pack_directory()) {
            let _ = sources.open(&self.pack_directory(), &name, false);
        }
        Ok(sources)
    }
}

impl Export {
    /// True if the packs will have everything that the commits need.
    pub fn is_whole(&self) -> bool {
        self.damaged.is_empty() && !self.has_losses
    }

    /// Returns the approximate size in bytes of the packs that are not written yet. The written
    /// packs are smaller if better deltas are found.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting.iter().map(|plan| plan.bytes).sum()
    }

    /// Writes the next pack into an existing directory. Returns `None` if all packs have been
    /// written. The pack is not synced, so a power cut may damage it.
    pub fn write_next(&mut self, directory: &Path) -> Result<Option<ExportedPack>, ExportError> {
        let Some(plan) = self.waiting.pop_front() else { return Ok(None) };
        let name = write_pack(&self.sources, &mut self.recent, &plan.objects, directory)?;
        Ok(Some(ExportedPack { name, is_private: plan.is_private }))
    }
}

/// Adds the objects that commits need, except those of damaged commits. Returns the commits that
/// are not damaged.
fn add_histories(
    needed: &mut NeededObjects,
    sources: &SourcePacks,
    recent: &mut RecentObjects,
    histories: &[Vec<Oid>],
    damaged: &mut Vec<Oid>,
) -> Vec<Oid> {
    let mut tips = Vec::new();
    for history in histories {
        let mut newer = NewerRef::default();
        for tip in history {
            let (first, before) = (needed.objects.len(), newer);
            match needed.add_ref(sources, recent, &mut newer, *tip) {
                Ok(()) => tips.push(*tip),
                Err(_) => {
                    needed.forget_from(sources, first);
                    newer = before;
                    damaged.push(*tip);
                }
            }
        }
    }
    tips
}

/// The assignment of objects to packs, in the order in which the traversal reached them.
struct Grouping<'a> {
    sources: &'a SourcePacks,
    options: &'a ExportOptions<'a>,
    private: &'a HashSet<Oid>,
    groups: Vec<Group>,
    /// The numbers of the groups that are being filled: one for objects that are not private, and
    /// one for private objects.
    growing: [Option<usize>; 2],
}

/// The objects of one pack.
struct Group {
    is_private: bool,
    bytes: u64,
}

impl<'a> Grouping<'a> {
    fn new(
        sources: &'a SourcePacks,
        options: &'a ExportOptions<'a>,
        private: &'a HashSet<Oid>,
    ) -> Grouping<'a> {
        Grouping { sources, options, private, groups: Vec::new(), growing: [None; 2] }
    }

    fn find_group(&mut self, oid: &Oid, place: ObjectPlace) -> Option<usize> {
        if (self.options.has)(oid) {
            return None;
        }
        let is_private = match self.options.privacy {
            ExportPrivacy::All => true,
            ExportPrivacy::Private(_) => self.private.contains(oid),
            ExportPrivacy::Off => false,
        };
        let length = self.sources.entry_length(place);
        let growing = &mut self.growing[usize::from(is_private)];
        let has_room = |group: &usize| self.groups[*group].bytes + length <= self.options.max_pack;
        let group = growing.filter(has_room).unwrap_or_else(|| {
            self.groups.push(Group { is_private, bytes: 0 });
            self.groups.len() - 1
        });
        *growing = Some(group);
        self.groups[group].bytes += length;
        Some(group)
    }
}

/// Writes one pack, which must have at least one object. Returns the name of the pack.
fn write_pack(
    sources: &SourcePacks,
    recent: &mut RecentObjects,
    objects: &NeededObjects,
    directory: &Path,
) -> Result<String, ExportError> {
    let failed = |source| ExportError::Write { path: directory.to_owned(), source };
    let writer = PackWriter::new_volatile(directory);
    repack::write_objects(sources, recent, objects, 0, &writer).map_err(|error| match error {
        RepackError::Object(error) => ExportError::Damaged(error),
        RepackError::Write(error) => failed(error),
    })?;
    let name = writer.seal(directory).map_err(failed)?;
    Ok(name.expect("a pack has objects"))
}

/// Reads the ids of all objects in the index of a pack.
pub fn read_pack_index(path: &Path) -> io::Result<Vec<Oid>> {
    let index = PackIndex::open(path)?;
    match index.is_intact()? {
        true => Ok(index.entries()?.into_iter().map(|(oid, _)| oid).collect()),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "the index is damaged")),
    }
}
