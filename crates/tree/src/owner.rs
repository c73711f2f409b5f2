//! Owners of files. The store does not record owners, so a restored file usually belongs to the
//! user who restores it. A program that ran as the owner of its file must not run as a different
//! user after a restore.

use std::sync::OnceLock;

use rustix::process::{Gid, getegid, geteuid, getgroups};

/// The bits that make a program run as the owner or as the group of its file.
const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;

/// Bits that mark the mode in a [`crate::beneath::Stat`] if the file is setuid or setgid and
/// belongs to another user, or to another group. The kernel uses only the lower half of a mode.
const OTHER_USER: u32 = 1 << 31;
const OTHER_GROUP: u32 = 1 << 30;

/// The user and the groups of this process.
struct Identity {
    user: u32,
    groups: Vec<u32>,
}

fn identity() -> &'static Identity {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        let mut groups: Vec<u32> =
            getgroups().unwrap_or_default().into_iter().map(Gid::as_raw).collect();
        groups.push(getegid().as_raw());
        Identity { user: geteuid().as_raw(), groups }
    })
}

/// True if this process can give files to other users.
pub(crate) fn is_root() -> bool {
    identity().user == 0
}

/// True if a file with this mode runs as its owner or its group.
pub(crate) fn is_privileged(mode: u32) -> bool {
    mode & (SETUID | SETGID) != 0
}

/// Marks the mode of a file that is setuid or setgid for another user or group.
pub(crate) fn mark_others(mode: u32, user: u32, group: u32) -> u32 {
    const FILE: u32 = 0o100_000;
    if mode & 0o170_000 != FILE || !is_privileged(mode) {
        return mode;
    }
    let own = identity();
    let mut marked = mode;
    if user != own.user {
        marked |= OTHER_USER;
    }
    if !own.groups.contains(&group) {
        marked |= OTHER_GROUP;
    }
    marked
}

/// Returns a mode without its marks, and without the setuid and setgid bits that are marked as
/// belonging to another user or group.
pub(crate) fn drop_others(mode: u32) -> u32 {
    let dropped = match (mode & OTHER_USER != 0, mode & OTHER_GROUP != 0) {
        (true, _) => SETUID | SETGID,
        (false, true) => SETGID,
        (false, false) => 0,
    };
    mode & !(OTHER_USER | OTHER_GROUP | dropped)
}

/// True if [`drop_others`] drops setuid or setgid from a mode.
pub(crate) fn has_dropped(mode: u32) -> bool {
    is_privileged(mode ^ drop_others(mode))
}
