//! Reading packs and their indexes from the bucket.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use takeback_base::durable;
use takeback_base::hex;
use takeback_tree::{Oid, read_pack_index};

use super::error::ObjectsError;
use super::layout::{Inventory, PackName, machine_prefix};
use super::{Objects, stream};

/// The purpose of an encrypted file. A file that was encrypted for one purpose cannot be decrypted
/// for another.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    Pack,
    Index,
    Workspace,
}

impl Purpose {
    pub(super) fn to_bytes(self, machine: &str) -> Vec<u8> {
        let kind = match self {
            Purpose::Pack => "pack",
            Purpose::Index => "index",
            Purpose::Workspace => "workspace",
        };
        format!("takeback {kind}\n{machine}").into_bytes()
    }
}

/// A writer that computes the SHA-256 of the bytes that pass through it.
struct HashingWriter<W> {
    inner: W,
    hasher: Sha256,
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Computes the SHA-256 of a file, and its length.
pub(super) fn hash_file(path: &Path) -> Result<(String, u64), ObjectsError> {
    let mut writer = HashingWriter { inner: io::sink(), hasher: Sha256::new() };
    let length = File::open(path)
        .and_then(|mut file| io::copy(&mut file, &mut writer))
        .map_err(ObjectsError::file(path))?;
    Ok((hex::encode(&writer.hasher.finalize()), length))
}

impl Objects {
    /// Returns the directory for copies of the indexes in the bucket, which never change.
    pub(super) fn index_cache(&self) -> PathBuf {
        self.files.path("indexes")
    }

    /// Reads the ids of the objects in a pack, from this machine's copy of the index if there is
    /// one.
    pub(super) fn read_index(
        &self,
        machine: &str,
        name: &PackName,
    ) -> Result<Vec<Oid>, ObjectsError> {
        let path = self.cached_index(name);
        if let Ok(ids) = read_pack_index(&path) {
            return Ok(ids);
        }
        let directory = self.index_cache();
        durable::create_directory(&directory).map_err(ObjectsError::file(&directory))?;
        self.fetch_index(machine, name, &path)?;
        read_pack_index(&path).map_err(|error| ObjectsError::Damaged {
            key: name.index_file(),
            reason: error.to_string(),
        })
    }

    pub(super) fn cached_index(&self, name: &PackName) -> PathBuf {
        self.index_cache().join(format!("{}.idx", name.pack))
    }

    /// Removes the copies of indexes that this machine's part of the bucket no longer has.
    pub(super) fn sweep_index_cache(&self, inventory: &Inventory) {
        let known: HashSet<String> =
            inventory.packs.iter().map(|pack| format!("{}.idx", pack.name.pack)).collect();
        for entry in fs::read_dir(self.index_cache()).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(|name| !known.contains(name)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    pub(super) fn fetch_index(
        &self,
        machine: &str,
        name: &PackName,
        to: &Path,
    ) -> Result<(), ObjectsError> {
        let key = format!("{}packs/{}", machine_prefix(machine), name.index_file());
        let sealed = name.is_sealed.then_some(Purpose::Index);
        self.fetch_file(machine, &key, &name.index, sealed, to)
    }

    pub(super) fn fetch_pack(
        &self,
        machine: &str,
        name: &PackName,
        to: &Path,
    ) -> Result<(), ObjectsError> {
        let key = format!("{}packs/{}", machine_prefix(machine), name.pack_file());
        let sealed = name.is_sealed.then_some(Purpose::Pack);
        self.fetch_file(machine, &key, &name.pack, sealed, to)
    }

    /// Downloads an object into a file, compares it with its digest, and decrypts it. The file
    /// appears only if all of this succeeds.
    fn fetch_file(
        &self,
        machine: &str,
        key: &str,
        digest: &str,
        sealed: Option<Purpose>,
        to: &Path,
    ) -> Result<(), ObjectsError> {
        let damaged = |reason: String| ObjectsError::Damaged { key: key.to_owned(), reason };
        let arriving = to.with_extension("arriving");
        let file = durable::create_file(&arriving).map_err(ObjectsError::file(&arriving))?;
        let mut writer = HashingWriter { inner: file, hasher: Sha256::new() };
        if !self.bucket.download(key, &mut writer)? {
            return Err(ObjectsError::Missing { key: key.to_owned() });
        }
        if hex::encode(&writer.hasher.finalize()) != digest {
            return Err(damaged("its content does not match its name".to_owned()));
        }
        if let Some(purpose) = sealed {
            let opened = to.with_extension("opened");
            let mut from = File::open(&arriving).map_err(ObjectsError::file(&arriving))?;
            let mut out = durable::create_file(&opened).map_err(ObjectsError::file(&opened))?;
            let purpose = purpose.to_bytes(machine);
            stream::decrypt(self.key()?, &purpose, &mut from, &mut out)
                .map_err(|error| damaged(error.to_string()))?;
            fs::rename(&opened, &arriving).map_err(ObjectsError::file(to))?;
        }
        fs::rename(&arriving, to).map_err(ObjectsError::file(to))
    }
}
