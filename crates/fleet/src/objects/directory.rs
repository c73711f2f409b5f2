//! A bucket in a directory.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use takeback_base::durable::{self, Temporary};

use super::bucket::{Bucket, Content, LimitedReader, ListedObject, Listing};
use super::error::ObjectsError;

/// The directory for files that are being written. Its content is never listed.
const TEMPORARY: &str = "tmp";

/// A bucket in an existing directory.
pub(crate) struct DirectoryBucket {
    root: PathBuf,
    target: String,
    bytes_per_second: Option<u64>,
}

impl DirectoryBucket {
    /// Opens a directory. Fails if the directory does not exist. A missing directory is not
    /// created: if the intended file system is not mounted, the files would end up on another one.
    pub(crate) fn open(
        root: &Path,
        bytes_per_second: Option<u64>,
    ) -> Result<DirectoryBucket, ObjectsError> {
        let target = format!("the directory {}", root.display());
        match fs::metadata(root) {
            Ok(found) if found.is_dir() => {
                Ok(DirectoryBucket { root: root.to_owned(), target, bytes_per_second })
            }
            Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
                Err(ObjectsError::Permission { target, reason: source.to_string() })
            }
            _ => Err(ObjectsError::NoBucket { target }),
        }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.root.join(key)
    }

    fn failed(&self) -> impl Fn(io::Error) -> ObjectsError + use<> {
        let target = self.target.clone();
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => {
                ObjectsError::Permission { target: target.clone(), reason: source.to_string() }
            }
            _ => ObjectsError::Directory { target: target.clone(), source },
        }
    }

    fn list_into(&self, directory: &Path, prefix: &str, out: &mut Listing) -> io::Result<()> {
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            let Some(key) = path.strip_prefix(&self.root).ok().and_then(Path::to_str) else {
                continue;
            };
            // Another process may have removed the file.
            let Some(found) = durable::if_exists(fs::symlink_metadata(&path))? else { continue };
            if found.is_dir() {
                let is_inside = key.starts_with(prefix) || prefix.starts_with(&format!("{key}/"));
                if key != TEMPORARY && is_inside {
                    self.list_into(&path, prefix, out)?;
                }
            } else if key.starts_with(prefix) {
                let (key, size) = (key.to_owned(), found.len());
                out.objects.push(ListedObject { key, size, created: milliseconds(&found)? });
            }
        }
        Ok(())
    }
}

fn milliseconds(metadata: &fs::Metadata) -> io::Result<i64> {
    let time = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(time.as_millis() as i64)
}

impl Bucket for DirectoryBucket {
    fn target(&self) -> &str {
        &self.target
    }

    fn download(&self, key: &str, out: &mut dyn Write) -> Result<bool, ObjectsError> {
        let opened = durable::if_exists(File::open(self.path(key))).map_err(self.failed())?;
        let Some(mut file) = opened else { return Ok(false) };
        io::copy(&mut file, out).map_err(self.failed())?;
        Ok(true)
    }

    fn create(&self, key: &str, content: &Content<'_>) -> Result<bool, ObjectsError> {
        let path = self.path(key);
        if path.exists() {
            return Ok(false);
        }
        let mut from = LimitedReader::new(content.open()?, self.bytes_per_second);
        let mut write = || {
            let temporary = self.root.join(TEMPORARY);
            fs::create_dir_all(&temporary)?;
            let parent = path.parent().expect("a file is in a directory");
            fs::create_dir_all(parent)?;
            let mut file = Temporary::create_in(&temporary)?;
            io::copy(&mut from, &mut *file)?;
            file.sync_data()?;
            match file.persist_new(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
                result => result?,
            }
            durable::sync_directory(parent).map(|()| true)
        };
        write().map_err(self.failed())
    }

    fn remove(&self, key: &str) -> Result<(), ObjectsError> {
        durable::ignore_missing(fs::remove_file(self.path(key))).map_err(self.failed())
    }

    fn list(&self, prefix: &str) -> Result<Listing, ObjectsError> {
        let list = || {
            let mut listing = Listing::default();
            self.list_into(&self.root, prefix, &mut listing)?;
            listing.objects.sort_by(|a, b| a.key.cmp(&b.key));
            // The timestamp of a new file shows the time on the file system's clock.
            let temporary = self.root.join(TEMPORARY);
            let probed = fs::create_dir_all(&temporary)
                .and_then(|()| Temporary::create_in(&temporary))
                .and_then(|file| milliseconds(&file.metadata()?));
            // Without write permission, nothing can be deleted, so the time does not matter.
            listing.now = probed.unwrap_or(0);
            Ok(listing)
        };
        list().map_err(self.failed())
    }
}
