//! The record of all installations: the files that takeback wrote, and their originals.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use takeback_base::durable::{self, Durability, FileLock};
use takeback_base::hex;

/// The name of the record's file.
pub(super) const FILE_NAME: &str = "record.json";

/// The record of all installations, with copies of file contents next to it. A copy is named after
/// the digest of its content.
pub(super) struct InstallRecord {
    directory: PathBuf,
    data: RecordData,
}

/// The content of the record's file.
#[derive(Default, Serialize, Deserialize)]
struct RecordData {
    files: BTreeMap<PathBuf, InstalledFile>,
    /// Directories that takeback created for the files.
    #[serde(default)]
    directories: BTreeSet<PathBuf>,
}

/// A file that takeback wrote in an agent's configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct InstalledFile {
    pub(super) agent: String,
    /// The root of the project; `None` for a user installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) project: Option<PathBuf>,
    /// The digest of the original content; `None` if takeback created the file.
    pub(super) original: Option<String>,
    /// The digest of the content that takeback wrote.
    pub(super) written: String,
    /// The digest of the content that takeback had written earlier. The file still has that content
    /// if writing the new content failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) replaced: Option<String>,
}

impl InstalledFile {
    /// True if `bytes` is content that takeback wrote.
    pub(super) fn is_as_written(&self, bytes: &[u8]) -> bool {
        let digest = content_digest(bytes);
        self.written == digest || self.replaced.as_ref() == Some(&digest)
    }

    fn needs_copy(&self, digest: &str) -> bool {
        let copies = [self.original.as_ref(), Some(&self.written), self.replaced.as_ref()];
        copies.into_iter().flatten().any(|needed| needed == digest)
    }
}

/// True if a recorded file belongs to takeback alone, judging by its name: users' settings are in
/// JSON and TOML files.
pub(super) fn is_own_file(path: &Path) -> bool {
    path.extension().is_none_or(|kind| kind != "json" && kind != "toml")
}

/// Returns the digest of a file's content, in hexadecimal.
pub(super) fn content_digest(bytes: &[u8]) -> String {
    hex::encode(&Sha256::digest(bytes))
}

impl InstallRecord {
    /// Locks the record, after waiting for any other process that has locked it. No other process
    /// can change the record until the lock is dropped.
    pub(super) fn lock(directory: &Path) -> io::Result<FileLock> {
        FileLock::exclusive_on_directory(directory)
    }

    /// Reads the record. If there is none, returns an empty record. A damaged record is an error,
    /// because the record is needed to restore the originals.
    pub(super) fn open(directory: &Path) -> io::Result<InstallRecord> {
        let data = match durable::if_exists(fs::read(directory.join(FILE_NAME)))? {
            Some(bytes) => serde_json::from_slice(&bytes)?,
            None => RecordData::default(),
        };
        Ok(InstallRecord { directory: directory.to_owned(), data })
    }

    /// Returns the entry for a file.
    pub(super) fn file(&self, path: &Path) -> Option<&InstalledFile> {
        self.data.files.get(path)
    }

    /// Returns all files, sorted by path.
    pub(super) fn files(&self) -> impl Iterator<Item = (&PathBuf, &InstalledFile)> {
        self.data.files.iter()
    }

    /// Lists an agent's files in a project, or in the user's configuration if `project` is `None`.
    pub(super) fn files_of_agent(&self, agent: &str, project: Option<&Path>) -> Vec<PathBuf> {
        let is_wanted =
            |file: &InstalledFile| file.agent == agent && file.project.as_deref() == project;
        self.files().filter(|(_, file)| is_wanted(file)).map(|(path, _)| path.clone()).collect()
    }

    /// Reads the copy with this digest and checks that it is intact.
    pub(super) fn read_copy(&self, digest: &str) -> io::Result<Vec<u8>> {
        let bytes = fs::read(self.directory.join(digest))?;
        let is_intact = content_digest(&bytes) == digest;
        is_intact.then_some(bytes).ok_or_else(|| io::Error::other("the copy is damaged"))
    }

    /// Stores a copy of a file's content and returns its digest.
    pub(super) fn keep_copy(&self, bytes: &[u8]) -> io::Result<String> {
        let name = content_digest(bytes);
        if self.read_copy(&name).is_err() {
            self.write_file(&name, bytes)?;
        }
        Ok(name)
    }

    /// Records a file that is about to be written, and the directories that are about to be created
    /// for it. The record is durable when this method returns.
    pub(super) fn add_file(
        &mut self,
        path: &Path,
        file: InstalledFile,
        directories: &[PathBuf],
    ) -> io::Result<()> {
        self.data.files.insert(path.to_owned(), file);
        self.data.directories.extend(directories.iter().cloned());
        self.save()
    }

    /// Removes a file from the record.
    pub(super) fn forget_file(&mut self, path: &Path) -> io::Result<()> {
        match self.data.files.remove(path) {
            Some(_) => self.save(),
            None => Ok(()),
        }
    }

    /// Deletes copies that the record no longer needs. Settings may contain API keys, so no copy is
    /// kept longer than necessary.
    pub(super) fn remove_unused_copies(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            let is_needed = name.to_str().is_some_and(|name| {
                name == FILE_NAME || self.files().any(|(_, file)| file.needs_copy(name))
            });
            if !is_needed {
                fs::remove_file(self.directory.join(name))?;
            }
        }
        Ok(())
    }

    /// Deletes the directories that takeback created and that are now empty.
    pub(super) fn remove_empty_directories(&mut self) -> io::Result<()> {
        // The order is reversed, so that inner directories are deleted first.
        let created = std::mem::take(&mut self.data.directories);
        let remains = |path: &PathBuf| fs::remove_dir(path).is_err() && path.exists();
        let mut remaining: BTreeSet<PathBuf> =
            created.iter().rev().filter(|path| remains(path)).cloned().collect();
        if self.data.files.is_empty() {
            remaining.clear();
        }
        self.data.directories = remaining;
        self.save()
    }

    fn save(&self) -> io::Result<()> {
        self.write_file(FILE_NAME, &serde_json::to_vec_pretty(&self.data)?)
    }

    /// Replaces a file in the directory of the record, durably. Only the user can read the file,
    /// because settings may contain API keys.
    fn write_file(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        durable::replace_file(&self.directory.join(name), bytes, Durability::Synced)
    }
}
