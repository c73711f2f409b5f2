//! How much room pins take.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use takeback_base::durable::ignore_missing;

use crate::history::{Absent, Needed, Newer};
use crate::oid::Oid;
use crate::origins::Origins;
use crate::pack::read::Recent;
use crate::pins::{PinName, WorkspaceId};
use crate::store::{Store, StoreError, is_damage, names};

/// How many bytes of objects are kept in memory.
const RECENT: usize = 24 << 20;

impl Store {
    /// For each pin, how many bytes on disk it needs that none before it in the list does: about
    /// as much as a gc would free without it and all that come after it. A pin that is not there
    /// or not whole weighs nothing, and what it needs counts for those after it.
    ///
    /// Pins of a workspace should come in order, newest first: any order is right, this one is
    /// quick.
    pub fn weigh(&self, newest_first: &[PinName]) -> Result<Vec<u64>, StoreError> {
        // Nothing may be packed anew meanwhile.
        let _lock = self.share()?;
        let origins = self.sound_packs()?;
        let mut scale = Scale {
            needed: Needed::new(Absent::Lost),
            origins: &origins,
            recent: Recent::new(RECENT),
            newer: HashMap::new(),
        };
        let mut weights = Vec::with_capacity(newest_first.len());
        for name in newest_first {
            let id = match self.pin_id(name) {
                Err(StoreError::Damaged { .. }) => None,
                id => id?,
            };
            weights.push(id.map_or(0, |id| scale.weigh(&name.workspace, id)));
        }
        Ok(weights)
    }

    /// All packs that can be trusted: what others have counts as lost.
    fn sound_packs(&self) -> Result<Origins, StoreError> {
        let directory = self.pack_directory();
        let mut origins = Origins::default();
        for name in names(&directory) {
            match origins.open(&directory, &name, false) {
                Err(error) if !is_damage(&error) => {
                    return Err(StoreError::io("read", &directory)(error));
                }
                _ => {}
            }
        }
        Ok(origins)
    }

    /// The size of everything in the store's directory, in bytes.
    pub fn bytes(&self) -> Result<u64, StoreError> {
        let mut bytes = 0;
        let mut directories = vec![self.directory().to_owned()];
        while let Some(directory) = directories.pop() {
            let mut add = |entry: fs::DirEntry| {
                let found = entry.metadata()?;
                match found.is_dir() {
                    true => directories.push(entry.path()),
                    false => bytes += found.len(),
                }
                Ok(())
            };
            each_entry(&directory, &mut add).map_err(StoreError::io("list", &directory))?;
        }
        Ok(bytes)
    }
}

/// Does something with all entries of a directory. Others may remove some meanwhile.
fn each_entry(
    directory: &Path,
    work: &mut dyn FnMut(fs::DirEntry) -> io::Result<()>,
) -> io::Result<()> {
    ignore_missing(fs::read_dir(directory).and_then(|entries| {
        for entry in entries {
            ignore_missing(work(entry?))?;
        }
        Ok(())
    }))
}

/// What was weighed so far.
struct Scale<'a> {
    needed: Needed,
    origins: &'a Origins,
    recent: Recent,
    /// What the next pin of each workspace is compared with.
    newer: HashMap<WorkspaceId, Newer>,
}

impl Scale<'_> {
    fn weigh(&mut self, workspace: &WorkspaceId, id: Oid) -> u64 {
        let first = self.needed.objects.len();
        let newer = self.newer.entry(workspace.clone()).or_default();
        let added = self.needed.add_ref(self.origins, &mut self.recent, newer, id);
        if added.is_err() {
            self.needed.forget_from(self.origins, first);
        }
        let added = &self.needed.objects[first..];
        added.iter().map(|object| self.origins.length(object.place)).sum()
    }
}

#[cfg(test)]
mod tests;
