//! Files of our own: temporary ones that a crash leaves in a place that is swept, durable ones,
//! and locks that die with their process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// A file that vanishes unless it is persisted.
pub(crate) struct Temporary {
    file: File,
    path: PathBuf,
    persisted: bool,
}

impl Temporary {
    pub(crate) fn new(directory: &Path) -> io::Result<Temporary> {
        let path = directory.join(random_name());
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Temporary { file, path, persisted: false })
    }

    /// Gives the file its place, replacing what is there.
    pub(crate) fn persist(mut self, destination: &Path, mode: u32) -> io::Result<()> {
        if mode != 0o600 {
            self.file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        fs::rename(&self.path, destination)?;
        self.persisted = true;
        Ok(())
    }

    /// Gives the file its place, but only if nothing is there.
    pub(crate) fn persist_new(self, destination: &Path) -> io::Result<()> {
        fs::hard_link(&self.path, destination)
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
        if !self.persisted {
            // If it stays, the next start sweeps it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Sixteen random hexadecimal digits.
pub(crate) fn random_name() -> String {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the kernel has random numbers");
    format!("{:016x}", u64::from_ne_bytes(bytes))
}

/// Makes the contents of several files durable, together: concurrent calls share one commit of
/// the file system's journal.
pub(crate) fn sync_all(files: &[&File]) -> io::Result<()> {
    let sync = |files: &[&File]| files.iter().try_for_each(|file| file.sync_data());
    let share = files.len().div_ceil(SYNC_THREADS).max(1);
    let (own, others) = files.split_at(share.min(files.len()));
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            others.chunks(share).map(|share| scope.spawn(move || sync(share))).collect();
        let own = sync(own);
        threads
            .into_iter()
            .map(|thread| thread.join().expect("fdatasync does not panic"))
            .fold(own, Result::and)
    })
}

const SYNC_THREADS: usize = 16;

/// Makes renames and new names in a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Replaces a small file; whoever reads it sees the old or the new content.
pub(crate) fn replace(
    temporary: &Path,
    destination: &Path,
    content: &[u8],
    durable: bool,
) -> io::Result<()> {
    let mut file = Temporary::new(temporary)?;
    file.write_all(content)?;
    if durable {
        file.sync_data()?;
    }
    file.persist(destination, 0o600)?;
    if durable {
        sync_directory(destination.parent().expect("a file is in a directory"))?;
    }
    Ok(())
}

/// What is not there need not be removed.
pub(crate) fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Renames, but replaces nothing.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let (here, flags) = (rustix::fs::CWD, rustix::fs::RenameFlags::NOREPLACE);
    match rustix::fs::renameat_with(here, from, here, to, flags) {
        // File systems without it: look first. Our own files have one writer at a time.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => match fs::symlink_metadata(to) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::rename(from, to),
            Err(error) => Err(error),
        },
        result => Ok(result?),
    }
}

/// Creates a directory (and those above it) that only its owner may enter.
pub(crate) fn create_directory(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// A lock of the kernel's on a file: it is gone when its holder is, however that ended.
#[derive(Debug)]
pub(crate) struct FileLock {
    file: File,
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing is not enough if another thread is just starting a process, which has the file
        // open for a moment, too.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

impl FileLock {
    fn open(path: &Path) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
    }

    fn lock(path: &Path, operation: FlockOperation) -> io::Result<FileLock> {
        let file = FileLock::open(path)?;
        loop {
            match rustix::fs::flock(&file, operation) {
                Ok(()) => return Ok(FileLock { file }),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether it is a lock of the file that is at this path now.
    pub(crate) fn is_of(&self, path: &Path) -> bool {
        let identity = |found: fs::Metadata| (found.dev(), found.ino());
        let there = fs::symlink_metadata(path).map(identity).ok();
        there.is_some() && there == self.file.metadata().map(identity).ok()
    }

    pub(crate) fn shared(path: &Path) -> io::Result<FileLock> {
        FileLock::lock(path, FlockOperation::LockShared)
    }

    pub(crate) fn exclusive(path: &Path) -> io::Result<FileLock> {
        FileLock::lock(path, FlockOperation::LockExclusive)
    }

    /// `None` if somebody else holds it.
    pub(crate) fn try_exclusive(path: &Path) -> io::Result<Option<FileLock>> {
        match FileLock::lock(path, FlockOperation::NonBlockingLockExclusive) {
            Ok(lock) => Ok(Some(lock)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Removes what is in a directory of temporary files. The caller knows that nobody uses them.
pub(crate) fn sweep(directory: &Path) -> io::Result<()> {
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
