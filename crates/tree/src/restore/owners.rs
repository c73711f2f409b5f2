//! Owners of restored files. Files that an ordinary user restores belong to that user. If root
//! restores a file that all users may read, it gives the file to the owner of the file that it
//! replaces, or else to the owner of the directory. Root remains the owner of all other files.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Gid, Stat, Uid};
use rustix::process::geteuid;
use takeback_base::paths;

use crate::beneath::Root;
use crate::object::Mode;
use crate::owner;
use crate::path::{RelPath, split};

/// The user and the group that own a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Owner {
    user: u32,
    group: u32,
}

impl Owner {
    #[allow(clippy::unnecessary_cast, reason = "the kernel's types differ between platforms")]
    fn new(stat: &Stat) -> Owner {
        Owner { user: stat.st_uid as u32, group: stat.st_gid as u32 }
    }

    fn is_this_user(self) -> bool {
        self.user == geteuid().as_raw()
    }

    /// Finds the owner of a file or directory. Returns `None` if it does not exist.
    fn of(root: &Root, path: &RelPath) -> Option<Owner> {
        if path.is_root() {
            return rustix::fs::fstat(root).ok().map(|stat| Owner::new(&stat));
        }
        let (parent, name) = split(path.as_bytes());
        let parent = root.open_directory(parent).ok()?;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let stat = rustix::fs::statat(parent, paths::from_bytes(name), flags).ok()?;
        Some(Owner::new(&stat))
    }
}

/// Finds the user to whom root gives a file: the owner of the current file, or else of `directory`.
/// Returns `None` if the file is not given to another user.
pub(super) fn find_heir(root: &Root, path: &RelPath, directory: &RelPath) -> Option<Owner> {
    if !owner::is_root() {
        return None;
    }
    let owner = Owner::of(root, path).or_else(|| Owner::of(root, directory));
    owner.filter(|owner| !owner.is_this_user())
}

/// True if all users are allowed to read a file, so giving it to another user discloses nothing.
/// The store does not know who owned the file when it was captured.
pub(super) fn is_public(mode: Mode) -> bool {
    !mode.is_file() || mode.permissions() & 0o004 != 0
}

/// Drops setuid and setgid from the mode of a file that another user owns or will own. Returns true
/// if it dropped a bit.
pub(super) fn drop_privileges(
    root: &Root,
    path: &RelPath,
    directory: &RelPath,
    mode: &mut Mode,
) -> bool {
    if !mode.is_file() || !owner::is_privileged(mode.permissions()) {
        return false;
    }
    let is_others = Owner::of(root, path).is_some_and(|owner| !owner.is_this_user());
    let is_dropped = is_others || find_heir(root, path, directory).is_some();
    if is_dropped {
        *mode = Mode::file(mode.permissions() & 0o1777);
    }
    is_dropped
}

/// Gives a new file or directory to another user. The caller must set its mode afterwards, because
/// the system may drop bits of the mode.
pub(super) fn give(directory: BorrowedFd<'_>, name: &[u8], owner: Owner) -> io::Result<()> {
    let (user, group) = (Uid::from_raw(owner.user), Gid::from_raw(owner.group));
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let given =
        rustix::fs::chownat(directory, paths::from_bytes(name), Some(user), Some(group), flags);
    given.map_err(|error| {
        let message = format!("cannot change its owner to user {}: {error}", owner.user);
        io::Error::new(io::ErrorKind::PermissionDenied, message)
    })
}
