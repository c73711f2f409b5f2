//! Paths: normalized, canonical, and as bytes.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Removes `.` and resolves `..` by name, without accessing the file system.
///
/// `link/../x` becomes `x` even if `link` points to another directory. A `..` at the root of the
/// file system, or at the start of a relative path, is dropped.
pub fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

/// Resolves all links in a path. On Linux, this costs one system call if the path contains no
/// links.
pub fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    if leads_through_no_link(path) {
        Ok(path.components().collect())
    } else {
        fs::canonicalize(path)
    }
}

/// True if an absolute path is known to exist and to contain neither links nor `..`.
#[cfg(target_os = "linux")]
fn leads_through_no_link(path: &Path) -> bool {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    let is_plain =
        path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    is_plain && openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn leads_through_no_link(_: &Path) -> bool {
    false
}

/// Resolves all links in the longest existing prefix of a path, and appends the rest unchanged.
/// Returns the path unchanged if no part of it can be resolved.
pub fn canonicalize_existing(path: &Path) -> PathBuf {
    let resolved = path.ancestors().find_map(|ancestor| {
        let canonical = canonicalize(ancestor).ok()?;
        let rest = path.strip_prefix(ancestor).ok()?;
        // Joining an empty path would add a slash at the end.
        Some(if rest.as_os_str().is_empty() { canonical } else { canonical.join(rest) })
    });
    resolved.unwrap_or_else(|| path.to_owned())
}

/// Normalizes a path and resolves the existing part of its parent directory. If the path itself is
/// a link, the link is not followed.
pub fn canonicalize_parent(path: &Path) -> PathBuf {
    let normal = normalize(path);
    match (normal.parent(), normal.file_name()) {
        (Some(parent), Some(name)) => canonicalize_existing(parent).join(name),
        _ => normal,
    }
}

/// Resolves all links in a path, or returns it unchanged if it does not exist.
pub fn canonicalize_or_keep(path: &Path) -> PathBuf {
    canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns the bytes of a path.
pub fn as_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Returns the path that consists of these bytes.
pub fn from_bytes(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn canonical_paths_match_the_standard_library() {
        let scratch = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(scratch.path()).unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a", root.join("link")).unwrap();
        std::os::unix::fs::symlink("gone", root.join("broken")).unwrap();
        for path in ["a/b", "a/./b", "a/b/", "a//b", "link", "link/b", "a/../link/b", "broken", "c"]
        {
            let path = root.join(path);
            let (ours, systems) = (canonicalize(&path), fs::canonicalize(&path));
            assert_eq!(ours.ok(), systems.ok(), "{path:?}");
        }
        assert_eq!(canonicalize(Path::new(".")).unwrap(), fs::canonicalize(".").unwrap());
    }

    #[test]
    fn dots_are_resolved_by_name() {
        for (path, normal) in [
            ("/a/./b/../c", "/a/c"),
            ("/../a", "/a"),
            ("a/../../b", "b"),
            ("./a//b/", "a/b"),
            ("/", "/"),
            ("", ""),
        ] {
            assert_eq!(normalize(Path::new(path)), Path::new(normal), "{path}");
        }
    }

    #[test]
    fn links_are_resolved_as_far_as_the_path_exists() {
        let scratch = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(scratch.path()).unwrap();
        fs::create_dir(root.join("real")).unwrap();
        symlink("real", root.join("link")).unwrap();
        symlink("real/file", root.join("to-file")).unwrap();
        fs::write(root.join("real/file"), "").unwrap();
        let at = |path: &str| root.join(path);

        assert_eq!(canonicalize_existing(&at("link/file")), at("real/file"));
        assert_eq!(canonicalize_existing(&at("link/new/deep")), at("real/new/deep"));
        assert_eq!(canonicalize_existing(&at("to-file")), at("real/file"));
        assert_eq!(canonicalize_existing(Path::new("no/such")), Path::new("no/such"));

        assert_eq!(canonicalize_parent(&at("link/./new")), at("real/new"));
        assert_eq!(canonicalize_parent(&at("link/new/../file")), at("real/file"));
        assert_eq!(canonicalize_parent(&at("to-file")), at("to-file"));
        assert_eq!(canonicalize_parent(Path::new("/")), Path::new("/"));

        assert_eq!(canonicalize_or_keep(&at("to-file")), at("real/file"));
        assert_eq!(canonicalize_or_keep(&at("link/new")), at("link/new"));
    }

    #[test]
    fn paths_can_contain_any_bytes() {
        let bytes = b"/a/\xff\n";
        assert_eq!(as_bytes(from_bytes(bytes)), bytes);
    }
}
