//! Takeback's own files and directories.
//!
//! Only the owner can access them: files have mode 0600, directories 0700. While a file is being
//! replaced, it always has either its old or its new content. With [`Durability::Synced`], this
//! holds even after a power cut. Locks are released when their process ends.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RenameFlags};
use rustix::io::Errno;

use crate::hex;

pub use self::sync::sync_files;

mod sync;

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// The event that a finished write must survive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// The end of the process. A power cut can still destroy the content.
    Cached,
    /// A power cut: the file and its directory are synced.
    Synced,
}

/// Creates a directory and its missing parents. Existing directories keep their modes.
pub fn create_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory)
}

/// Creates a directory, or fails with [`io::ErrorKind::AlreadyExists`].
pub fn create_new_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIRECTORY_MODE).create(directory)
}

/// Opens a file for reading and writing. A missing file is created; an existing one keeps its
/// content.
pub fn open_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE).open(path)
}

/// Opens a file for appending. A missing file is created.
pub fn append_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(FILE_MODE).open(path)
}

/// Creates an empty file. An existing file loses its content but keeps its mode.
pub fn create_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(path)
}

/// Creates an empty file, or fails with [`io::ErrorKind::AlreadyExists`].
pub fn create_new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE).open(path)
}

/// Runs `operation`, which needs the parent directory of `path`. If the operation fails because a
/// file or directory is missing, creates the parent and runs the operation again. The usual case
/// therefore costs no extra system call.
pub fn with_directory<T>(
    path: &Path,
    mut operation: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    match operation() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_directory(directory_of(path))?;
            operation()
        }
        result => result,
    }
}

/// Writes a small file under a temporary name next to `path`, then renames it to `path`. Creates
/// the directory if it is missing.
pub fn replace_file(path: &Path, content: &[u8], durability: Durability) -> io::Result<()> {
    let temporary = with_directory(path, || Temporary::create_beside(path))?;
    fill_and_persist(temporary, path, content, durability)
}

/// Writes a small file under a temporary name in another directory, then renames it to `path`. Both
/// directories must be on the same file system. If the process is killed, the temporary file stays
/// in `temporary_directory`, where [`sweep_directory`] can remove it.
pub fn replace_file_through(
    temporary_directory: &Path,
    path: &Path,
    content: &[u8],
    durability: Durability,
) -> io::Result<()> {
    fill_and_persist(Temporary::create_in(temporary_directory)?, path, content, durability)
}

fn fill_and_persist(
    mut temporary: Temporary,
    path: &Path,
    content: &[u8],
    durability: Durability,
) -> io::Result<()> {
    temporary.write_all(content)?;
    if durability == Durability::Synced {
        temporary.sync_data()?;
    }
    temporary.persist(path)?;
    if durability == Durability::Synced {
        sync_directory(directory_of(path))?;
    }
    Ok(())
}

/// Returns the parent directory of a path, or `.` for a bare name.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A new file that is removed on drop unless it is persisted.
#[derive(Debug)]
pub struct Temporary {
    file: File,
    path: PathBuf,
    is_persisted: bool,
}

impl Temporary {
    /// Creates a file with a random name in this directory.
    pub fn create_in(directory: &Path) -> io::Result<Temporary> {
        Temporary::create_at(directory.join(hex::random_digits(16)))
    }

    /// Creates a hidden file with a random name in the directory of `destination`.
    pub fn create_beside(destination: &Path) -> io::Result<Temporary> {
        let name = format!(".takeback-{}.tmp", hex::random_digits(16));
        Temporary::create_at(directory_of(destination).join(name))
    }

    /// Creates a file at this path. Fails if the path already exists.
    pub fn create_at(path: PathBuf) -> io::Result<Temporary> {
        let file = create_new_file(&path)?;
        Ok(Temporary { file, path, is_persisted: false })
    }

    /// Returns the path that the file has until it is persisted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the file to its destination, replacing any existing file.
    pub fn persist(mut self, destination: &Path) -> io::Result<()> {
        fs::rename(&self.path, destination)?;
        self.is_persisted = true;
        Ok(())
    }

    /// Sets the file's mode and renames it to its destination, replacing any existing file.
    pub fn persist_with_mode(self, destination: &Path, mode: u32) -> io::Result<()> {
        self.file.set_permissions(fs::Permissions::from_mode(mode))?;
        self.persist(destination)
    }

    /// Moves the file to its destination, or fails with [`io::ErrorKind::AlreadyExists`]. If
    /// several processes try this at the same time, exactly one succeeds.
    pub fn persist_new(mut self, destination: &Path) -> io::Result<()> {
        match fs::hard_link(&self.path, destination) {
            // Some file systems do not support hard links.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                let flags = RenameFlags::NOREPLACE;
                rustix::fs::renameat_with(CWD, &self.path, CWD, destination, flags)?;
                self.is_persisted = true;
                Ok(())
            }
            linked => linked,
        }
    }
}

impl Deref for Temporary {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl DerefMut for Temporary {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.file
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_persisted {
            // If this fails, the leftover file does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Syncs a directory, so that the creation, renaming and removal of its entries are durable.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Renames a file or directory. Fails with [`io::ErrorKind::AlreadyExists`] if `to` exists.
///
/// Some file systems cannot do this atomically. On those, the function first checks that `to` does
/// not exist, and then renames `from`, so the caller must be the only writer.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => match fs::symlink_metadata(to) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::rename(from, to),
            Err(error) => Err(error),
        },
        result => Ok(result?),
    }
}

/// Treats the error for a missing file as success. Meant for removals.
pub fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Turns the error for a missing file into `None`. Meant for reads.
pub fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Removes everything in a directory of temporary files. The caller must ensure that no process is
/// using these files.
pub fn sweep_directory(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// A `flock` on a file. The kernel releases the lock when the process that holds it ends, even
/// after a crash.
#[derive(Debug)]
pub struct FileLock {
    file: File,
}

impl FileLock {
    /// Waits for a shared lock. Creates the file if it is missing.
    pub fn shared(path: &Path) -> io::Result<FileLock> {
        FileLock::acquire(open_file(path)?, FlockOperation::LockShared)
    }

    /// Waits for an exclusive lock. Creates the file if it is missing.
    pub fn exclusive(path: &Path) -> io::Result<FileLock> {
        FileLock::acquire(open_file(path)?, FlockOperation::LockExclusive)
    }

    /// Takes an exclusive lock, or returns `None` if another process holds a lock. Creates the file
    /// if it is missing.
    pub fn try_exclusive(path: &Path) -> io::Result<Option<FileLock>> {
        match FileLock::acquire(open_file(path)?, FlockOperation::NonBlockingLockExclusive) {
            Ok(lock) => Ok(Some(lock)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for an exclusive lock on the directory itself, so that no lock file is needed. Creates
    /// the directory if it is missing.
    pub fn exclusive_on_directory(directory: &Path) -> io::Result<FileLock> {
        create_directory(directory)?;
        FileLock::acquire(File::open(directory)?, FlockOperation::LockExclusive)
    }

    pub(crate) fn acquire(file: File, operation: FlockOperation) -> io::Result<FileLock> {
        loop {
            match rustix::fs::flock(&file, operation) {
                Ok(()) => return Ok(FileLock { file }),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the locked file. It is open for reading and writing, unless it is a directory.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// True if the locked file is still at this path: it has been neither removed nor replaced.
    pub fn is_at(&self, path: &Path) -> bool {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let at_path = fs::symlink_metadata(path).map(identity).ok();
        at_path.is_some() && at_path == self.file.metadata().map(identity).ok()
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing the file is not enough while another thread starts a process: until the new
        // process calls `exec`, it also has the file open and so keeps the lock.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests;
