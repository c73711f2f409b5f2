//! What `install` wrote where, and what was there before: enough to put it back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A file in takeback's own directory, and the originals beside it.
pub(super) struct Book {
    directory: PathBuf,
    record: Record,
}

#[derive(Default, Serialize, Deserialize)]
struct Record {
    files: BTreeMap<PathBuf, Kept>,
    /// Directories that were made for them.
    #[serde(default)]
    directories: BTreeSet<PathBuf>,
}

/// A file of an agent's that was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) agent: String,
    /// The project it was done for; otherwise it was done for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) project: Option<PathBuf>,
    /// What was there before; nothing if the file was made.
    pub(super) original: Option<String>,
    /// What is there since.
    pub(super) written: String,
    /// What of ours it replaced: that is still there if it could not be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) replaced: Option<String>,
}

impl Kept {
    /// Whether this is the file as it was written.
    pub(super) fn is_as_written(&self, bytes: &[u8]) -> bool {
        let digest = digest(bytes);
        self.written == digest || self.replaced.as_ref() == Some(&digest)
    }

    fn needs(&self, copy: &str) -> bool {
        let copies = [self.original.as_ref(), Some(&self.written), self.replaced.as_ref()];
        copies.into_iter().flatten().any(|needed| needed == copy)
    }
}

/// What bytes are called.
pub(super) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Book {
    /// Nobody else changes anything until the file that is given back goes.
    pub(super) fn lock(directory: &Path) -> io::Result<File> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let lock = File::open(directory)?;
        lock.lock()?;
        Ok(lock)
    }

    /// A record that cannot be read is an error: it knows what was there before.
    pub(super) fn open(directory: &Path) -> io::Result<Book> {
        let record = match fs::read(directory.join("record.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(error) if error.kind() == ErrorKind::NotFound => Record::default(),
            Err(error) => return Err(error),
        };
        Ok(Book { directory: directory.to_owned(), record })
    }

    /// What is known of a file.
    pub(super) fn kept(&self, path: &Path) -> Option<&Kept> {
        self.record.files.get(path)
    }

    /// All that is known, by path.
    pub(super) fn all(&self) -> impl Iterator<Item = (&PathBuf, &Kept)> {
        self.record.files.iter()
    }

    /// The files of an agent that are known.
    pub(super) fn of(&self, agent: &str, project: Option<&Path>) -> Vec<PathBuf> {
        let is_theirs = |kept: &Kept| kept.agent == agent && kept.project.as_deref() == project;
        self.all().filter(|(_, kept)| is_theirs(kept)).map(|(path, _)| path.clone()).collect()
    }

    /// What is called so.
    pub(super) fn copy(&self, digest: &str) -> io::Result<Vec<u8>> {
        let bytes = fs::read(self.directory.join(digest))?;
        let is_whole = self::digest(&bytes) == digest;
        is_whole.then_some(bytes).ok_or_else(|| io::Error::other("the copy of it is damaged"))
    }

    /// Keeps it under its name.
    pub(super) fn keep(&self, bytes: &[u8]) -> io::Result<String> {
        let name = digest(bytes);
        if self.copy(&name).is_err() {
            self.write(&name, bytes)?;
        }
        Ok(name)
    }

    /// Remembers what is about to be written, and the directories that are about to be made for it.
    /// That is on disk before it returns.
    pub(super) fn put(
        &mut self,
        path: &Path,
        kept: Kept,
        directories: &[PathBuf],
    ) -> io::Result<()> {
        self.record.files.insert(path.to_owned(), kept);
        self.record.directories.extend(directories.iter().cloned());
        self.save()
    }

    /// Forgets a file that is as it was before.
    pub(super) fn forget(&mut self, path: &Path) -> io::Result<()> {
        match self.record.files.remove(path) {
            Some(_) => self.save(),
            None => Ok(()),
        }
    }

    /// Removes copies that nobody needs: settings have keys in them.
    pub(super) fn tidy(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            let is_needed = name.to_str().is_some_and(|name| {
                name == "record.json" || self.all().any(|(_, kept)| kept.needs(name))
            });
            if !is_needed {
                fs::remove_file(self.directory.join(name))?;
            }
        }
        Ok(())
    }

    /// Removes those directories that were made and are empty again.
    pub(super) fn sweep(&mut self) -> io::Result<()> {
        // What is inside comes later in the order.
        let made = std::mem::take(&mut self.record.directories);
        let is_left = |path: &PathBuf| fs::remove_dir(path).is_err() && path.exists();
        let mut left: BTreeSet<PathBuf> =
            made.iter().rev().filter(|path| is_left(path)).cloned().collect();
        if self.record.files.is_empty() {
            left.clear();
        }
        self.record.directories = left;
        self.save()
    }

    fn save(&self) -> io::Result<()> {
        self.write("record.json", &serde_json::to_vec_pretty(&self.record)?)
    }

    /// Settings have keys in them: nobody else reads them here.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let temporary = self.directory.join(format!("{name}.{}", std::process::id()));
        let mut options = File::options();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        let written = written.and_then(|()| fs::rename(&temporary, self.directory.join(name)));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written.and_then(|()| File::open(&self.directory)?.sync_all())
    }
}
