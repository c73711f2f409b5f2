//! Packs that wait to be uploaded, in takeback's home. They remain when the process ends: the next
//! process uploads exactly these files, so even an upload that is interrupted again and again is
//! completed in the end.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use takeback_base::durable;
use takeback_tree::ExportedPack;

use super::error::ObjectsError;
use super::layout::PackName;
use super::packs::{Purpose, hash_file};
use super::{Objects, stream};

/// A pack that waits to be uploaded, with its index.
#[derive(Clone, Debug)]
pub(super) struct StagedPack {
    pub(super) name: PackName,
    pub(super) size: u64,
    pub(super) index_size: u64,
}

impl StagedPack {
    /// Returns the size of the pack and its index.
    pub(super) fn bytes(&self) -> u64 {
        self.size + self.index_size
    }
}

impl Objects {
    fn staging(&self) -> PathBuf {
        self.files.path("upload")
    }

    pub(super) fn staged_file(&self, file: &str) -> PathBuf {
        self.staging().join(file)
    }

    /// Creates an empty directory for packs that are being built.
    pub(super) fn prepare_building(&self) -> Result<PathBuf, ObjectsError> {
        let directory = self.staging().join("building");
        let prepare = || {
            durable::ignore_missing(fs::remove_dir_all(&directory))?;
            durable::create_directory(&directory)
        };
        prepare().map_err(ObjectsError::file(&directory))?;
        Ok(directory)
    }

    /// Makes a pack ready to be uploaded: encrypts it if it is private, and names it after its
    /// content.
    pub(super) fn stage(
        &self,
        exported: &ExportedPack,
        building: &Path,
    ) -> Result<StagedPack, ObjectsError> {
        let [pack, index] = ["pack", "idx"]
            .map(|extension| building.join(format!("{}.{extension}", exported.name)));
        // The index is copied, so that it need not be downloaded later.
        let kept = self.staging().join("index");
        fs::copy(&index, &kept).map_err(ObjectsError::file(&kept))?;
        if exported.is_private {
            self.encrypt_file(&pack, Purpose::Pack)?;
            self.encrypt_file(&index, Purpose::Index)?;
        }
        let (pack_digest, size) = hash_file(&pack)?;
        let (index_digest, index_size) = hash_file(&index)?;
        let name =
            PackName { pack: pack_digest, index: index_digest, is_sealed: exported.is_private };
        let cache = self.index_cache();
        let place = || {
            durable::create_directory(&cache)?;
            fs::rename(&kept, self.cached_index(&name))?;
            fs::rename(&pack, self.staged_file(&name.pack_file()))?;
            fs::rename(&index, self.staged_file(&name.index_file()))
        };
        place().map_err(ObjectsError::file(building))?;
        Ok(StagedPack { name, size, index_size })
    }

    fn encrypt_file(&self, path: &Path, purpose: Purpose) -> Result<(), ObjectsError> {
        let sealed = path.with_extension("sealing");
        let purpose = purpose.to_bytes(&self.identity.machine);
        let key = self.key()?;
        let encrypt = || {
            let mut to = durable::create_file(&sealed)?;
            stream::encrypt(key, &purpose, &mut File::open(path)?, &mut to)?;
            fs::rename(&sealed, path)
        };
        encrypt().map_err(ObjectsError::file(path))
    }

    /// Lists the packs that an earlier process has staged. Removes files that are incomplete or
    /// damaged.
    pub(super) fn read_staged(&self) -> Result<Vec<StagedPack>, ObjectsError> {
        let mut staged = Vec::new();
        let files: Vec<String> = self.list_staged();
        for file in &files {
            let Some(name) = PackName::parse_index_file(file) else { continue };
            let [pack, index] =
                [name.pack_file(), name.index_file()].map(|file| self.staged_file(&file));
            if !pack.exists() {
                continue;
            }
            let ((pack_digest, size), (index_digest, index_size)) =
                (hash_file(&pack)?, hash_file(&index)?);
            if pack_digest == name.pack && index_digest == name.index {
                staged.push(StagedPack { name, size, index_size });
            }
        }
        for file in files {
            let is_staged =
                |pack: &StagedPack| file == pack.name.pack_file() || file == pack.name.index_file();
            if !staged.iter().any(is_staged) {
                let _ = fs::remove_file(self.staged_file(&file));
            }
        }
        Ok(staged)
    }

    fn list_staged(&self) -> Vec<String> {
        let entries = fs::read_dir(self.staging()).into_iter().flatten().flatten();
        let files = entries.filter(|entry| entry.path().is_file());
        files.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// Removes a pack that has been uploaded.
    pub(super) fn unstage(&self, staged: &StagedPack) {
        for file in [staged.name.index_file(), staged.name.pack_file()] {
            let _ = fs::remove_file(self.staged_file(&file));
        }
    }
}
