//! The directory in which all measurements are made.
//!
//! Nothing is deleted before the end of a run: for a few minutes after a deletion, ext4 avoids the
//! freed inodes, and creating files becomes up to three times slower.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::Failure;

/// The time during which deleted files slow down the creation of new files.
const AFTERMATH: Duration = Duration::from_secs(300);

pub(crate) struct Scratch {
    directory: PathBuf,
    /// A file whose modification time is the time of the last deletion.
    deleted: PathBuf,
    keep: bool,
    next: Cell<u32>,
}

impl Scratch {
    pub(crate) fn new(base: &Path, keep: bool) -> Result<Scratch, Failure> {
        let directory = base.join(format!("run-{}", std::process::id()));
        fs::create_dir_all(&directory).map_err(io_failure("create", &directory))?;
        eprintln!("scratch files: {}", directory.display());
        let deleted = base.join("deleted");
        let age = fs::metadata(&deleted).and_then(|metadata| metadata.modified());
        if let Some(age) = age.ok().and_then(|then| SystemTime::now().duration_since(then).ok())
            && age < AFTERMATH
        {
            eprintln!(
                "note: the files of another run were deleted {} s ago. For another {} s, programs \
                 that create files look slower on ext4 than they are.",
                age.as_secs(),
                (AFTERMATH - age).as_secs()
            );
        }
        Ok(Scratch { directory, deleted, keep, next: Cell::new(0) })
    }

    /// Returns a path that has not been used before.
    pub(crate) fn fresh_path(&self, name: &str) -> PathBuf {
        self.next.set(self.next.get() + 1);
        self.directory.join(format!("{:04}-{name}", self.next.get()))
    }

    pub(crate) fn announce(&self, what: &str) {
        eprintln!("{what} …");
    }

    /// Deletes everything, unless `--keep` was given.
    pub(crate) fn delete_all(&self) {
        if self.keep {
            eprintln!("\nkept: {}", self.directory.display());
            return;
        }
        let done = fs::remove_dir_all(&self.directory).and_then(|()| fs::write(&self.deleted, ""));
        if let Err(error) = done {
            eprintln!("\ncannot delete {}: {error}", self.directory.display());
        }
    }
}

pub(crate) fn io_failure(action: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    move |error| format!("cannot {action} {}: {error}", path.display())
}

/// The size of a directory, including the directory itself.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct DirectorySize {
    /// The number of bytes on disk.
    pub(crate) blocks: u64,
    /// The sum of all file lengths.
    pub(crate) apparent: u64,
}

pub(crate) fn measure_size(directory: &Path) -> Result<DirectorySize, Failure> {
    use std::os::unix::fs::MetadataExt;
    let mut size = DirectorySize::default();
    let mut pending = vec![directory.to_owned()];
    while let Some(path) = pending.pop() {
        let metadata = fs::symlink_metadata(&path).map_err(io_failure("look at", &path))?;
        size.blocks += metadata.blocks() * 512;
        if metadata.is_dir() {
            for entry in fs::read_dir(&path).map_err(io_failure("list", &path))? {
                pending.push(entry.map_err(io_failure("list", &path))?.path());
            }
        } else {
            size.apparent += metadata.len();
        }
    }
    Ok(size)
}
