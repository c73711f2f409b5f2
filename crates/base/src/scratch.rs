//! A directory for large temporary files that are removed even if their process is killed.
//!
//! Every process that uses the directory holds a shared lock on it. The first process that sweeps
//! the directory while no process is using it removes everything that is left in it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::durable::{self, FileLock, if_exists};

/// A directory for temporary files, in use by this process.
#[derive(Debug)]
pub struct Scratch {
    directory: PathBuf,
    lock: Option<FileLock>,
}

impl Scratch {
    /// Creates the directory if it is missing, and keeps other processes from sweeping it.
    pub fn open(directory: &Path) -> io::Result<Scratch> {
        loop {
            durable::create_directory(directory)?;
            // Until the directory is locked, another process may remove it.
            let Some(opened) = if_exists(File::open(directory))? else { continue };
            let lock = FileLock::acquire(opened, FlockOperation::LockShared)?;
            if lock.is_at(directory) {
                return Ok(Scratch { directory: directory.to_owned(), lock: Some(lock) });
            }
        }
    }

    /// Returns the path of the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.lock = None;
        // The next process that sweeps the directory removes whatever is left.
        let _ = sweep(&self.directory);
    }
}

/// Removes the directory and everything in it, unless a process is using it. If the directory is
/// missing, this costs one system call.
pub fn sweep(directory: &Path) -> io::Result<()> {
    let Some(opened) = if_exists(File::open(directory))? else { return Ok(()) };
    match FileLock::acquire(opened, FlockOperation::NonBlockingLockExclusive) {
        Ok(lock) if lock.is_at(directory) => {
            durable::sweep_directory(directory)?;
            fs::remove_dir(directory)
        }
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_directory_that_no_process_uses_is_swept() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("tmp");
        sweep(&directory).unwrap();
        let (one, two) = (Scratch::open(&directory).unwrap(), Scratch::open(&directory).unwrap());
        fs::create_dir(one.directory().join("copy")).unwrap();
        fs::write(directory.join("copy/file"), "private").unwrap();
        sweep(&directory).unwrap();
        drop(one);
        assert!(directory.join("copy/file").exists());
        drop(two);
        assert!(!directory.exists());
    }
}
