//! Accessing the files of a workspace without following symlinks and without leaving the workspace.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode as Permissions, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use takeback_base::{directory, paths};

use crate::fault;
use crate::object::Mode;
use crate::owner;

/// The part of a file's `stat` that takeback uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Stat {
    /// The kind and permission bits of the file, and the marks that [`owner::mark_others`] sets.
    pub(crate) mode: u32,
    pub(crate) size: u64,
    /// The time of the last modification, in nanoseconds since 1970.
    pub(crate) mtime: i64,
    /// The time of the last status change, in nanoseconds since 1970.
    pub(crate) ctime: i64,
    pub(crate) inode: u64,
}

impl Stat {
    // The kernel's field types differ between platforms.
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
    fn new(stat: &rustix::fs::Stat) -> Stat {
        let nanoseconds =
            |seconds: i64, part: i64| seconds.wrapping_mul(1_000_000_000).wrapping_add(part);
        Stat {
            mode: owner::mark_others(
                u32::from(stat.st_mode),
                stat.st_uid as u32,
                stat.st_gid as u32,
            ),
            size: stat.st_size as u64,
            mtime: nanoseconds(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            ctime: nanoseconds(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
            inode: stat.st_ino as u64,
        }
    }

    /// Converts metadata from the standard library.
    pub(crate) fn of(metadata: &std::fs::Metadata) -> Stat {
        let nanoseconds =
            |seconds: i64, part: i64| seconds.wrapping_mul(1_000_000_000).wrapping_add(part);
        Stat {
            mode: metadata.mode(),
            size: metadata.len(),
            mtime: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            ctime: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
        }
    }

    fn kind(&self) -> u32 {
        self.mode & 0o170_000
    }

    pub(crate) fn is_file(&self) -> bool {
        self.kind() == 0o100_000
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind() == 0o040_000
    }

    pub(crate) fn is_symlink(&self) -> bool {
        self.kind() == 0o120_000
    }

    /// Returns the mode that the file has in a tree, or `None` if a tree cannot contain such a
    /// file.
    pub(crate) fn entry_mode(&self) -> Option<Mode> {
        match self.kind() {
            0o100_000 => Some(Mode::file(owner::drop_others(self.mode))),
            0o040_000 => Some(Mode::directory(self.mode)),
            0o120_000 => Some(Mode::SYMLINK),
            _ => None,
        }
    }
}

pub(crate) fn stat_at(directory: impl AsFd, name: &[u8]) -> io::Result<Stat> {
    let stat = rustix::fs::statat(directory, paths::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(Stat::new(&stat))
}

pub(crate) fn stat_fd(file: impl AsFd) -> io::Result<Stat> {
    Ok(Stat::new(&rustix::fs::fstat(file)?))
}

/// Lists the names in a directory, sorted, without `.` and `..`.
pub(crate) fn list_names(directory: impl AsFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    let mut listed = Dir::read_from(directory)?;
    for entry in listed.by_ref() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    // A directory that is deleted while it is open appears to be empty.
    if names.is_empty() && listed.stat()?.st_nlink == 0 {
        return Err(Errno::NOENT.into());
    }
    names.sort_unstable();
    Ok(names)
}

/// Opens a file for reading. Fails for a symlink. If the file is a pipe, does not wait until
/// another process opens the other end.
pub(crate) fn open_file(directory: impl AsFd, name: &[u8]) -> io::Result<std::fs::File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = rustix::fs::openat(directory, paths::from_bytes(name), flags, Permissions::empty())?;
    Ok(fd.into())
}

/// Reads the target of a symlink.
pub(crate) fn read_link(directory: impl AsFd, name: &[u8]) -> io::Result<Vec<u8>> {
    let target = rustix::fs::readlinkat(directory, paths::from_bytes(name), Vec::new())?;
    Ok(target.into_bytes())
}

/// The root of a workspace, held open. It stays the same directory even if its path later leads
/// elsewhere.
#[derive(Debug)]
pub(crate) struct Root {
    fd: OwnedFd,
}

impl Root {
    /// Opens a directory by its canonical path. Fails if any part of the path has become a link.
    pub(crate) fn open(path: &Path) -> io::Result<Root> {
        Ok(Root { fd: directory::open_canonical(path)? })
    }

    /// Returns the device and inode, which identify the directory regardless of its path.
    #[allow(clippy::unnecessary_cast, reason = "the kernel's types differ between platforms")]
    pub(crate) fn identity(&self) -> io::Result<(u64, u64)> {
        let stat = rustix::fs::fstat(&self.fd)?;
        Ok((stat.st_dev as u64, stat.st_ino as u64))
    }

    /// Opens a directory below the root by its path. A symlink anywhere in the path is an error.
    pub(crate) fn open_directory(&self, path: &[u8]) -> io::Result<OwnedFd> {
        fault::count_opened_directory();
        match path.is_empty() {
            true => self.fd.try_clone(),
            false => directory::open_beneath(self.fd.as_fd(), path),
        }
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
