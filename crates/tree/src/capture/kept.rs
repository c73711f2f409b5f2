//! The state of the workspace that was captured last, kept in memory until the next capture. A
//! long-running process that captures the same workspace again reads its stat cache only if another
//! process has changed the cache.

use std::fs;
use std::path::{Path, PathBuf};

use super::WorkspaceState;
use super::cache::read_checksum;
use crate::beneath::Stat;

/// The names of the files of a stat cache.
const FILES: [&str; 2] = ["state", "state.log"];

/// The state of a workspace, and the stats of the files that hold it.
pub(crate) struct KeptState {
    directory: PathBuf,
    files: [Stat; 2],
    /// The checksum of the cache. On some file systems, times are too coarse to tell two caches
    /// apart.
    checksum: Option<u32>,
    state: WorkspaceState,
}

impl KeptState {
    /// Keeps a state that was read from the files in this directory, or written to them. The caller
    /// must hold the workspace's lock.
    pub(crate) fn new(directory: &Path, state: WorkspaceState) -> KeptState {
        let (files, checksum) = (stat_files(directory), checksum_of(directory));
        KeptState { directory: directory.to_owned(), files, checksum, state }
    }

    /// Returns the state if it belongs to this directory and the files there have not changed.
    pub(crate) fn into_state(self, directory: &Path) -> Option<WorkspaceState> {
        let is_same = self.directory == directory
            && self.files == stat_files(directory)
            && self.checksum.is_some()
            && self.checksum == checksum_of(directory);
        is_same.then_some(self.state)
    }
}

fn checksum_of(directory: &Path) -> Option<u32> {
    read_checksum(&directory.join(FILES[0])).ok()
}

fn stat_files(directory: &Path) -> [Stat; 2] {
    FILES.map(|name| {
        let metadata = fs::symlink_metadata(directory.join(name));
        metadata.map(|metadata| Stat::of(&metadata)).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use crate::{CaptureOptions, CaptureRules, ForbiddenRoots, Store};

    use super::*;

    /// Captures a workspace, and returns the directory with its cache.
    fn capture(store: &Store, root: &Path) -> PathBuf {
        let workspace = store.workspace(root, &ForbiddenRoots::default()).unwrap();
        let mut lock = workspace.lock().unwrap();
        let (rules, now) = (CaptureRules::default(), SystemTime::now());
        let options = CaptureOptions { rules: &rules, named: &[], swept: &[], now };
        lock.capture(&options).unwrap();
        lock.finish(now).unwrap();
        workspace.directory()
    }

    #[test]
    fn a_state_is_kept_until_another_process_changes_its_files() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap().join("work");
        fs::create_dir(&root).unwrap();
        let stores = [(); 2].map(|()| Store::open(scratch.path().join("store")).unwrap());
        let directory = capture(&stores[0], &root);
        assert!(stores[0].take_state(&directory).is_some());
        capture(&stores[0], &root);
        fs::write(root.join("new"), "new").unwrap();
        capture(&stores[1], &root);
        assert!(stores[0].take_state(&directory).is_none());
        assert!(stores[1].take_state(&directory).is_some());
        assert!(stores[1].take_state(&directory).is_none(), "it is taken only once");
    }
}
