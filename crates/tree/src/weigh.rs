//! Measuring the size of pins on disk.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use takeback_base::durable::ignore_missing;

use crate::oid::Oid;
use crate::pack::read::RecentObjects;
use crate::packs::{is_damage, list_pack_names};
use crate::pins::{PinName, WorkspaceId};
use crate::reachability::{AbsentObject, NeededObjects, NewerRef};
use crate::source_packs::SourcePacks;
use crate::store::{Store, StoreError};

/// The maximum total size in bytes of the objects that are kept in memory.
const RECENT_BYTES: usize = 24 << 20;

impl Store {
    /// Measures how many bytes on disk each pin needs, not counting objects that an earlier pin in
    /// the list also needs. If a pin and all pins after it in the list were deleted, a gc would
    /// free about the sum of their sizes. A pin that is missing or damaged weighs nothing, and its
    /// objects are counted for the pins after it.
    ///
    /// Any order gives correct results. Listing the pins of a workspace newest first is fastest.
    pub fn weigh_pins(&self, newest_first: &[PinName]) -> Result<Vec<u64>, StoreError> {
        // While the lock is held, no other process rewrites packs.
        let _lock = self.lock_shared()?;
        let sources = self.open_intact_packs()?;
        let mut weighing = Weighing {
            needed: NeededObjects::new(AbsentObject::Lost),
            sources: &sources,
            recent: RecentObjects::new(RECENT_BYTES),
            newer: HashMap::new(),
        };
        let mut weights = Vec::with_capacity(newest_first.len());
        for name in newest_first {
            let id = match self.pin_id(name) {
                Err(StoreError::Damaged { .. }) => None,
                id => id?,
            };
            weights.push(id.map_or(0, |id| weighing.weigh_pin(&name.workspace, id)));
        }
        Ok(weights)
    }

    /// Opens all intact packs. Objects in other packs are treated as lost.
    fn open_intact_packs(&self) -> Result<SourcePacks, StoreError> {
        let directory = self.pack_directory();
        let mut sources = SourcePacks::default();
        for name in list_pack_names(&directory) {
            match sources.open(&directory, &name, false) {
                Err(error) if !is_damage(&error) => {
                    return Err(StoreError::io("read", &directory)(error));
                }
                _ => {}
            }
        }
        Ok(sources)
    }

    /// Measures the size of all files in the store's directory, in bytes.
    pub fn measure_size(&self) -> Result<u64, StoreError> {
        measure_directory(self.directory())
    }

    /// Measures the size of all packs, in bytes.
    pub fn measure_packs(&self) -> Result<u64, StoreError> {
        measure_directory(&self.pack_directory())
    }
}

fn measure_directory(directory: &Path) -> Result<u64, StoreError> {
    let mut bytes = 0;
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let mut add = |entry: fs::DirEntry| {
            let metadata = entry.metadata()?;
            match metadata.is_dir() {
                true => directories.push(entry.path()),
                false => bytes += metadata.len(),
            }
            Ok(())
        };
        for_each_entry(&directory, &mut add).map_err(StoreError::io("list", &directory))?;
    }
    Ok(bytes)
}

/// Calls `action` with each entry of a directory. Other processes may remove entries at the same
/// time.
fn for_each_entry(
    directory: &Path,
    action: &mut dyn FnMut(fs::DirEntry) -> io::Result<()>,
) -> io::Result<()> {
    ignore_missing(fs::read_dir(directory).and_then(|entries| {
        for entry in entries {
            ignore_missing(action(entry?))?;
        }
        Ok(())
    }))
}

/// A measurement in progress, with the objects of the pins that have been weighed so far.
struct Weighing<'a> {
    needed: NeededObjects,
    sources: &'a SourcePacks,
    recent: RecentObjects,
    /// For each workspace, the pin that was weighed last. The next pin of the workspace is compared
    /// with this pin.
    newer: HashMap<WorkspaceId, NewerRef>,
}

impl Weighing<'_> {
    fn weigh_pin(&mut self, workspace: &WorkspaceId, id: Oid) -> u64 {
        let first = self.needed.objects.len();
        let newer = self.newer.entry(workspace.clone()).or_default();
        let added = self.needed.add_ref(self.sources, &mut self.recent, newer, id);
        if added.is_err() {
            self.needed.forget_from(self.sources, first);
        }
        let added = &self.needed.objects[first..];
        added.iter().map(|object| self.sources.entry_length(object.place)).sum()
    }
}

#[cfg(test)]
mod tests;
