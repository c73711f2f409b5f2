//! Opening directories without following symbolic links, so that another user cannot redirect a
//! path.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::paths;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK);

/// Opens a directory by its canonical path. Fails if any part of the path has become a link: the
/// owner of a parent directory can replace its entries at any time.
pub fn open_canonical(path: &Path) -> io::Result<OwnedFd> {
    debug_assert!(path.is_absolute(), "a canonical path is absolute: {}", path.display());
    let opened = open_in_stages(CWD, paths::as_bytes(path), Reach::Anywhere);
    opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP | Errno::NOTDIR) => {
            io::Error::other("a link or a file has taken the place of a directory in its path")
        }
        _ => error,
    })
}

/// Opens a directory below `from` by its relative path. A link anywhere in the path is an error.
pub fn open_beneath(from: BorrowedFd<'_>, path: &[u8]) -> io::Result<OwnedFd> {
    open_in_stages(from, path, Reach::Beneath)
}

/// Opens a directory by its path relative to `from`; `..` can lead out of `from`. A link anywhere
/// in the path is an error.
pub fn open_from(from: BorrowedFd<'_>, path: &[u8]) -> io::Result<OwnedFd> {
    open_in_stages(from, path, Reach::Anywhere)
}

/// The directories that a path may lead to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Beneath,
    Anywhere,
}

/// Opens a directory by a path of any length, in stages, because one system call accepts at most
/// 4,095 bytes.
fn open_in_stages(from: BorrowedFd<'_>, path: &[u8], reach: Reach) -> io::Result<OwnedFd> {
    let (stage, mut rest) = split_stage(path);
    let mut fd = open_stage(from, stage, reach)?;
    while !rest.is_empty() {
        let (stage, after) = split_stage(rest);
        fd = open_stage(fd.as_fd(), stage, reach)?;
        rest = after;
    }
    Ok(fd)
}

/// Splits a path at a slash into the longest prefix that one system call accepts, and the rest.
fn split_stage(path: &[u8]) -> (&[u8], &[u8]) {
    const LONGEST: usize = 4000;
    if path.len() <= LONGEST {
        return (path, b"");
    }
    let slash = path[..LONGEST].iter().rposition(|byte| *byte == b'/');
    let slash = slash.expect("a name has at most 255 bytes");
    (&path[..slash], &path[slash + 1..])
}

#[cfg(target_os = "linux")]
fn open_stage(from: BorrowedFd<'_>, path: &[u8], reach: Reach) -> io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    let beneath = match reach {
        Reach::Beneath => ResolveFlags::BENEATH,
        Reach::Anywhere => ResolveFlags::empty(),
    };
    let resolve = beneath | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        return match openat2(from, paths::from_bytes(path), DIRECTORY, Mode::empty(), resolve) {
            Ok(fd) => Ok(fd),
            Err(Errno::AGAIN | Errno::INTR) => continue,
            // Old kernels do not have this system call, and a sandbox can forbid it.
            Err(Errno::NOSYS | Errno::PERM) => open_stepwise(from, path),
            Err(error) => Err(error.into()),
        };
    }
}

#[cfg(not(target_os = "linux"))]
fn open_stage(from: BorrowedFd<'_>, path: &[u8], _: Reach) -> io::Result<OwnedFd> {
    open_stepwise(from, path)
}

/// Opens the directories of a path one after the other, without following links.
fn open_stepwise(from: BorrowedFd<'_>, path: &[u8]) -> io::Result<OwnedFd> {
    let open = |from: BorrowedFd<'_>, name: &[u8]| {
        rustix::fs::openat(from, paths::from_bytes(name), DIRECTORY, Mode::empty())
    };
    let mut fd = path.starts_with(b"/").then(|| open(CWD, b"/")).transpose()?;
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        let from = fd.as_ref().map_or(from, AsFd::as_fd);
        fd = Some(open(from, name)?);
    }
    fd.ok_or_else(|| Errno::NOENT.into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_directory_is_opened_through_a_link() {
        let scratch = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(scratch.path()).unwrap();
        fs::create_dir_all(base.join("outside/deep")).unwrap();
        fs::create_dir_all(base.join("inside/a/b")).unwrap();
        symlink("../outside", base.join("inside/link")).unwrap();
        symlink("a", base.join("inside/loop")).unwrap();
        fs::write(base.join("inside/file"), "").unwrap();
        let root = open_canonical(&base.join("inside")).unwrap();
        let root = root.as_fd();
        assert!(open_beneath(root, b"a/b").is_ok());
        assert!(open_stepwise(root, b"a/b").is_ok());
        for bad in ["link", "link/deep", "loop", "loop/b", "file"] {
            assert!(open_beneath(root, bad.as_bytes()).is_err(), "{bad}");
            assert!(open_stepwise(root, bad.as_bytes()).is_err(), "{bad}");
            let whole = base.join("inside").join(bad);
            let error = open_canonical(&whole).unwrap_err().to_string();
            assert!(error.contains("has taken the place of a directory"), "{bad}: {error}");
            assert!(open_stepwise(CWD, paths::as_bytes(&whole)).is_err(), "{bad}");
        }
        assert!(open_stepwise(CWD, paths::as_bytes(&base)).is_ok());
        assert!(open_canonical(Path::new("/")).is_ok());
    }

    #[test]
    fn paths_longer_than_the_kernel_accepts_are_opened() {
        let scratch = tempfile::tempdir().unwrap();
        let mut path = fs::canonicalize(scratch.path()).unwrap();
        let name = "d".repeat(255);
        for _ in 0..40 {
            let parent = open_canonical(&path).unwrap();
            rustix::fs::mkdirat(&parent, &name, Mode::RWXU).unwrap();
            path = path.join(&name);
        }
        assert!(path.as_os_str().len() > 10_000);
        assert!(open_canonical(&path).is_ok());
    }
}
