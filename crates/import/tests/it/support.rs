//! A Hermes home directory, for tests of its sessions database.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use takeback_import::hermes::{HermesDatabase, HermesError};
use takeback_ledger::Transcript;
use tempfile::TempDir;

/// A Hermes home directory, and a directory for copies.
pub(crate) struct HermesHome {
    directory: TempDir,
    scratch: TempDir,
}

/// The content, the mode and the modification time of a file.
type FileState = (Vec<u8>, u32, i64, i64);

impl HermesHome {
    pub(crate) fn new() -> HermesHome {
        HermesHome {
            directory: tempfile::tempdir().unwrap(),
            scratch: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// Returns the path of the sessions database.
    pub(crate) fn file(&self) -> PathBuf {
        self.path().join("state.db")
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.file()).unwrap()
    }

    pub(crate) fn open(&self) -> Result<HermesDatabase, HermesError> {
        HermesDatabase::open(self.path(), self.scratch())
    }

    pub(crate) fn list_files(&self) -> BTreeMap<PathBuf, FileState> {
        let entries = fs::read_dir(self.path()).unwrap();
        let state = |path: PathBuf| {
            let metadata = fs::symlink_metadata(&path).unwrap();
            let content = fs::read(&path).unwrap();
            (path, (content, metadata.mode(), metadata.mtime(), metadata.mtime_nsec()))
        };
        entries.map(|entry| state(entry.unwrap().path())).collect()
    }
}

pub(crate) fn read_all(database: &HermesDatabase) -> Vec<Transcript> {
    database.transcripts().unwrap().collect::<Result<_, _>>().unwrap()
}
