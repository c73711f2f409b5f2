//! Export packs: packs that are built to leave the machine.
//!
//! The packs of the store hold both private files and others, so they are never copied as they are.
//! An export writes the objects that commits need into new packs, and private objects into packs of
//! their own. No delta refers to an object in another pack, so a pack without private objects
//! reveals nothing of them.

mod private;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
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
    /// Returns true for an object that is left out, because the destination has it.
    pub has: &'a dyn Fn(&Oid) -> bool,
    /// The existing directory that the packs are written to.
    pub directory: &'a Path,
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

/// The packs that an export wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Export {
    /// The packs, in the order in which they were written.
    pub packs: Vec<ExportedPack>,
    /// The commits that were left out, because an object that they need is missing or damaged.
    pub damaged: Vec<Oid>,
    /// True if the store has lost objects and the loss was accepted. Commits may need objects that
    /// were not exported.
    pub has_losses: bool,
}

/// The objects that commits need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The ids of the objects.
    pub objects: HashSet<Oid>,
    /// True if no id is missing, because nothing is damaged or lost.
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
    /// Writes the objects that commits need into export packs. Changes nothing in the store, and
    /// does not get in the way of other processes: the packs are opened at the beginning, and stay
    /// readable even if a gc removes them.
    pub fn export(&self, options: &ExportOptions<'_>) -> Result<Export, ExportError> {
        let sources = self.open_export_sources()?;
        let mut recent = RecentObjects::new(RECENT_BYTES);
        let accepted = self.accepted_losses();
        let mut export = Export { has_losses: !accepted.is_empty(), ..Export::default() };
        let mut needed = NeededObjects::new(AbsentObject::Lost).without(accepted);
        let tips = add_histories(
            &mut needed,
            &sources,
            &mut recent,
            options.histories,
            &mut export.damaged,
        );
        let private = match options.privacy {
            ExportPrivacy::Private(rules) => {
                find_private_objects(&sources, &mut recent, rules, &tips)
            }
            ExportPrivacy::All | ExportPrivacy::Off => HashSet::new(),
        };
        let mut grouping = Grouping::new(&sources, options, &private);
        let groups = needed.divide(&sources, |oid, place| grouping.find_group(oid, place));
        for (group, is_private) in groups.iter().zip(grouping.is_private) {
            let name = write_group(&sources, &mut recent, group, options.directory)?;
            export.packs.extend(name.map(|name| ExportedPack { name, is_private }));
        }
        Ok(export)
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
    /// the traversal notices.
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

/// Adds the objects that commits need, except those of damaged commits. Returns the other commits.
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
    /// True for each group of private objects.
    is_private: Vec<bool>,
    /// The group that is being filled, with its size in bytes: first for objects that are not
    /// private, then for private ones.
    growing: [Option<(usize, u64)>; 2],
}

impl<'a> Grouping<'a> {
    fn new(
        sources: &'a SourcePacks,
        options: &'a ExportOptions<'a>,
        private: &'a HashSet<Oid>,
    ) -> Grouping<'a> {
        Grouping { sources, options, private, is_private: Vec::new(), growing: [None; 2] }
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
        let group = match growing {
            Some((group, bytes)) if *bytes + length <= self.options.max_pack => {
                *bytes += length;
                *group
            }
            _ => {
                self.is_private.push(is_private);
                let group = self.is_private.len() - 1;
                *growing = Some((group, length));
                group
            }
        };
        Some(group)
    }
}

/// Writes the objects of one pack. Returns its name.
fn write_group(
    sources: &SourcePacks,
    recent: &mut RecentObjects,
    group: &NeededObjects,
    directory: &Path,
) -> Result<Option<String>, ExportError> {
    let failed = |source| ExportError::Write { path: directory.to_owned(), source };
    let writer = PackWriter::new(directory);
    repack::write_objects(sources, recent, group, 0, &writer).map_err(|error| match error {
        RepackError::Object(error) => ExportError::Damaged(error),
        RepackError::Write(error) => failed(error),
    })?;
    writer.seal(directory).map_err(failed)
}

/// Reads the ids of all objects in the index of a pack.
pub fn read_pack_index(path: &Path) -> io::Result<Vec<Oid>> {
    let index = PackIndex::open(path)?;
    match index.is_intact()? {
        true => Ok(index.entries()?.into_iter().map(|(oid, _)| oid).collect()),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "the index is damaged")),
    }
}
