//! Copying the files of a repository. They are cloned where the file system supports that.
//! Otherwise, objects become hard links, as in a local clone by git: git never changes an object's
//! file.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, Mode as Permissions, OFlags};
use rustix::io::Errno;
use takeback_base::{directory, paths};

use crate::beneath::{self, list_names};
use crate::checkout::{clone_content, cloning_is_impossible};
use crate::fault;

/// The maximum depth of directories in a repository.
const MAX_DEPTH: usize = 128;

/// True if git deleted a file while it was being copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Vanished(pub(super) bool);

/// A copier of files and directories. It follows no links.
#[derive(Default)]
pub(super) struct Copier {
    /// True if a file may become a hard link to the original, because git never changes it.
    shares: bool,
    /// True if symbolic links are copied. In directories that are written to later, symbolic links
    /// are left out, because they could lead anywhere.
    keeps_links: bool,
    /// True once the file system has refused to clone a file.
    cannot_clone: AtomicBool,
}

impl Copier {
    /// Returns a copier for objects.
    pub(super) fn for_objects() -> Copier {
        Copier { shares: true, ..Copier::default() }
    }

    /// Returns a copier that copies symbolic links as links.
    pub(super) fn with_links() -> Copier {
        Copier { keeps_links: true, ..Copier::default() }
    }

    /// Copies an entry of a directory, with everything in it, except lock files and the names for
    /// which `is_left` returns true. An entry that does not exist is reported as vanished.
    pub(super) fn copy_entry(
        &self,
        from: BorrowedFd<'_>,
        name: &[u8],
        to: BorrowedFd<'_>,
        is_left: &dyn Fn(&[u8]) -> bool,
    ) -> io::Result<Vanished> {
        self.copy_at(from, name, to, is_left, 0)
    }

    fn copy_at(
        &self,
        from: BorrowedFd<'_>,
        name: &[u8],
        to: BorrowedFd<'_>,
        is_left: &dyn Fn(&[u8]) -> bool,
        depth: usize,
    ) -> io::Result<Vanished> {
        if depth > MAX_DEPTH {
            return Err(io::Error::other("its directories are nested too deeply"));
        }
        let copied = (|| {
            let stat = beneath::stat_at(from, name)?;
            if stat.is_directory() {
                return self.copy_directory(from, name, to, is_left, depth);
            }
            let is_lock = name.ends_with(b".lock");
            if stat.is_file() && !is_lock {
                self.copy_file(from, name, to, stat.mode)?;
            } else if stat.is_symlink() && !is_lock && self.keeps_links {
                let target = beneath::read_link(from, name)?;
                let name = paths::from_bytes(name);
                rustix::fs::symlinkat(paths::from_bytes(&target), to, name)?;
            }
            Ok(Vanished(false))
        })();
        match copied {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vanished(true)),
            copied => copied,
        }
    }

    fn copy_directory(
        &self,
        from: BorrowedFd<'_>,
        name: &[u8],
        to: BorrowedFd<'_>,
        is_left: &dyn Fn(&[u8]) -> bool,
        depth: usize,
    ) -> io::Result<Vanished> {
        let source = directory::open_beneath(from, name)?;
        rustix::fs::mkdirat(to, paths::from_bytes(name), Permissions::RWXU)?;
        let copy = directory::open_beneath(to, name)?;
        let mut vanished = Vanished(false);
        for name in list_names(&source)?.iter().filter(|name| !is_left(name)) {
            let found = self.copy_at(source.as_fd(), name, copy.as_fd(), is_left, depth + 1)?;
            vanished.0 |= found.0;
        }
        self.set_permissions(copy.as_fd(), beneath::stat_fd(&source)?.mode)?;
        Ok(vanished)
    }

    fn copy_file(
        &self,
        from: BorrowedFd<'_>,
        name: &[u8],
        to: BorrowedFd<'_>,
        mode: u32,
    ) -> io::Result<()> {
        fault::point("copy a file of a repository")?;
        let path = paths::from_bytes(name);
        let can_clone = !self.cannot_clone.load(Ordering::Relaxed);
        if self.shares && !can_clone && link_file(from, name, to)? {
            return Ok(());
        }
        let source = beneath::open_file(from, name)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(to, path, flags, Permissions::from(0o600))?;
        let mut file = File::from(opened);
        let cloned = match can_clone {
            true => clone_content(&source, &file),
            false => Err(Errno::NOTSUP.into()),
        };
        if let Err(error) = cloned {
            if can_clone && cloning_is_impossible(&error) {
                self.cannot_clone.store(true, Ordering::Relaxed);
                rustix::fs::unlinkat(to, path, AtFlags::empty())?;
                return self.copy_file(from, name, to, mode);
            }
            file.set_len(0)?;
            io::copy(&mut &source, &mut file)?;
        }
        self.set_permissions(file.as_fd(), mode)
    }

    /// Sets the permission bits of a copy. The owner may differ, so special bits are left out.
    pub(super) fn set_permissions(&self, file: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
        let bits = (mode & 0o777) as rustix::fs::RawMode;
        Ok(rustix::fs::fchmod(file, Permissions::from(bits))?)
    }
}

/// Creates a hard link to a file. Returns false if the system does not allow it.
fn link_file(from: BorrowedFd<'_>, name: &[u8], to: BorrowedFd<'_>) -> io::Result<bool> {
    let name = paths::from_bytes(name);
    match rustix::fs::linkat(from, name, to, name, AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Err(Errno::NOENT.into()),
        Err(_) => Ok(false),
    }
}
