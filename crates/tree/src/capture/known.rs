//! The state that the last capture saw, with a table of its directories.

use super::cache::{CachedDirectory, CachedEntry, StatCache};

/// The state that the last capture saw.
pub(crate) struct KnownState {
    pub(crate) cache: StatCache,
    /// The directories in the order of their entries.
    pub(crate) directories: Vec<CachedDirectory>,
}

impl KnownState {
    /// Builds the table of directories. Returns `None` if the records of the cache are
    /// inconsistent.
    pub(crate) fn new(cache: StatCache) -> Option<KnownState> {
        Some(KnownState { directories: cache.directories()?, cache })
    }

    /// Returns the entry of a directory.
    pub(crate) fn directory_entry(&self, number: u32) -> &CachedEntry {
        &self.cache.entries[self.directories[number as usize].entry as usize]
    }

    /// Returns the number of the directory whose entry is at this index.
    pub(crate) fn directory_number(&self, entry: u32) -> Option<u32> {
        let number = self.directories.binary_search_by_key(&entry, |directory| directory.entry);
        number.ok().map(|number| number as u32)
    }

    /// Finds the index of the entry with this name in a directory.
    pub(crate) fn find_child(&self, directory: &CachedEntry, name: &[u8]) -> Option<u32> {
        let children = self.cache.children(directory);
        let position = children.binary_search_by(|child| self.cache.name(child).cmp(name)).ok()?;
        Some(directory.children.0 + position as u32)
    }
}
