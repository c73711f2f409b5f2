//! The individual file operations of a restore. They use names in open directories and never follow
//! links.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode as Permissions, OFlags, RenameFlags};
use rustix::io::Errno;
use takeback_base::paths;

use crate::beneath::{self, Stat};
use crate::object::Mode;

pub(super) fn permissions(mode: Mode) -> Permissions {
    Permissions::from_bits_retain(mode.permissions() as rustix::fs::RawMode)
}

/// A name in an open directory.
pub(super) type FilePlace<'a> = (BorrowedFd<'a>, &'a [u8]);

/// True if the stat of a file is unchanged, apart from the change time, which a rename sets.
pub(super) fn looks_same(stat: io::Result<Stat>, seen: Option<Stat>) -> io::Result<bool> {
    let stat = stat?;
    Ok(seen.is_some_and(|seen| Stat { ctime: seen.ctime, ..stat } == seen))
}

pub(super) fn make_directory((directory, name): FilePlace<'_>) -> io::Result<bool> {
    match rustix::fs::mkdirat(directory, paths::from_bytes(name), Permissions::RWXU) {
        Ok(()) => Ok(true),
        // Another process may have created the directory in the meantime.
        Err(Errno::EXIST) => Ok(beneath::stat_at(directory, name)?.is_directory()),
        Err(error) => Err(error.into()),
    }
}

/// Removes a directory. Returns false if it is not empty.
pub(super) fn remove_directory((directory, name): FilePlace<'_>) -> io::Result<bool> {
    match rustix::fs::unlinkat(directory, paths::from_bytes(name), AtFlags::REMOVEDIR) {
        Ok(()) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Exchanges a file with its staged replacement. Returns false and changes nothing if the file is
/// not the expected one.
pub(super) fn exchange(
    place: FilePlace<'_>,
    aside: FilePlace<'_>,
    old: &[u8],
    seen: Option<Stat>,
) -> io::Result<bool> {
    let swap = || {
        let names = (paths::from_bytes(place.1), paths::from_bytes(aside.1));
        rustix::fs::renameat_with(place.0, names.0, aside.0, names.1, RenameFlags::EXCHANGE)
    };
    match swap() {
        Ok(()) => {
            // The check comes after the exchange, so that no change can go unnoticed between the
            // two.
            let is_same = looks_same(beneath::stat_at(aside.0, aside.1), seen)?;
            if !is_same {
                swap()?;
            }
            Ok(is_same)
        }
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            let old = (aside.0, old);
            if !move_aside(place, old, seen)? {
                return Ok(false);
            }
            rename_new(aside.0, aside.1, place.0, place.1)?;
            rename_new(old.0, old.1, aside.0, aside.1)?;
            Ok(true)
        }
        Err(error) => Err(error.into()),
    }
}

/// Moves a file out of the way. Returns false and changes nothing if the file is not the expected
/// one.
pub(super) fn move_aside(
    place: FilePlace<'_>,
    aside: FilePlace<'_>,
    seen: Option<Stat>,
) -> io::Result<bool> {
    rename_new(place.0, place.1, aside.0, aside.1)?;
    let is_same = looks_same(beneath::stat_at(aside.0, aside.1), seen)?;
    if !is_same {
        rename_new(aside.0, aside.1, place.0, place.1)?;
    }
    Ok(is_same)
}

/// Renames a file. Fails if the new name exists.
pub(crate) fn rename_new(
    from: BorrowedFd<'_>,
    name: &[u8],
    to: BorrowedFd<'_>,
    new: &[u8],
) -> io::Result<()> {
    let (name, new) = (paths::from_bytes(name), paths::from_bytes(new));
    match rustix::fs::renameat_with(from, name, to, new, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            // The file system cannot check and rename in one step.
            match rustix::fs::statat(to, new, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                Err(Errno::NOENT) => Ok(rustix::fs::renameat(from, name, to, new)?),
                Err(error) => Err(error.into()),
            }
        }
        result => Ok(result?),
    }
}

/// Sets the mode of a file or directory. Never follows a link.
pub(super) fn change_mode(directory: BorrowedFd<'_>, name: &[u8], mode: Mode) -> io::Result<()> {
    match open_any(directory, name) {
        Ok(file) => set_mode(file, mode),
        Err(Errno::ACCESS) => change_mode_of_unreadable(directory, name, mode),
        Err(error) => Err(error.into()),
    }
}

/// Sets a mode and checks that it took effect: the system silently drops some bits.
pub(crate) fn set_mode(file: impl AsFd, mode: Mode) -> io::Result<()> {
    rustix::fs::fchmod(&file, permissions(mode))?;
    if beneath::stat_fd(&file)?.mode & 0o7777 == mode.permissions() {
        return Ok(());
    }
    let reason = format!("the system does not accept mode {:o}", mode.permissions());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

fn open_any(directory: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(directory, paths::from_bytes(name), flags, Permissions::empty())
}

/// Uses an `O_PATH` handle to set the mode of a file that this user is not allowed to read.
#[cfg(target_os = "linux")]
fn change_mode_of_unreadable(directory: BorrowedFd<'_>, name: &[u8], mode: Mode) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle =
        rustix::fs::openat(directory, paths::from_bytes(name), flags, Permissions::empty())?;
    if beneath::stat_fd(&handle)?.is_symlink() {
        return Err(Errno::LOOP.into());
    }
    Ok(rustix::fs::chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), permissions(mode))?)
}

#[cfg(not(target_os = "linux"))]
fn change_mode_of_unreadable(directory: BorrowedFd<'_>, name: &[u8], mode: Mode) -> io::Result<()> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    Ok(rustix::fs::chmodat(directory, paths::from_bytes(name), permissions(mode), flags)?)
}

/// Reads a file, even if its mode prevents its owner from reading it.
pub(super) fn read_file(directory: BorrowedFd<'_>, name: &[u8], mode: u32) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let file = match beneath::open_file(directory, name) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            change_mode(directory, name, Mode::file(mode | 0o400))?;
            let file = beneath::open_file(directory, name);
            change_mode(directory, name, Mode::file(mode))?;
            file?
        }
        file => file?,
    };
    io::Read::read_to_end(&mut &file, &mut content)?;
    Ok(content)
}
