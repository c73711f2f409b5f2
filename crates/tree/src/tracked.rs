//! A read-only look at a repository's index: which paths does git track here?
//!
//! Only the paths are read, and only those of the workspace's own repository. An index that
//! cannot be read tracks nothing: coverage then follows the other rules.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::path::is_within;

/// The tracked paths, sorted.
#[derive(Default, Debug)]
pub(crate) struct Tracked {
    paths: Vec<Vec<u8>>,
}

impl Tracked {
    pub(crate) fn read(index: &Path) -> Tracked {
        let mut paths = read(index).and_then(|bytes| parse(&bytes, index)).unwrap_or_default();
        paths.sort_unstable();
        paths.dedup();
        Tracked { paths }
    }

    pub(crate) fn contains(&self, path: &[u8]) -> bool {
        self.paths.binary_search_by(|found| found.as_slice().cmp(path)).is_ok()
    }

    /// Whether anything below this directory is tracked.
    pub(crate) fn any_under(&self, directory: &[u8]) -> bool {
        let first = [directory, b"/"].concat();
        let at = self.paths.partition_point(|path| *path < first);
        self.paths.get(at).is_some_and(|path| is_within(path, directory))
    }
}

/// Where the index of the repository in this directory is, if there is a repository.
pub(crate) fn index_path(root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    let kind = fs::symlink_metadata(&git).ok()?.file_type();
    if kind.is_dir() {
        return Some(git.join("index"));
    }
    // A linked worktree or a submodule: the file says where the repository is.
    let text = kind.is_file().then(|| String::from_utf8(read(&git)?).ok())??;
    let target = text.strip_prefix("gitdir:")?.trim();
    Some(root.join(target).join("index"))
}

/// The content of a regular file. Whatever else a workspace may have in its place, such as a pipe
/// or a link to an endless device, is neither waited for nor read.
fn read(path: &Path) -> Option<Vec<u8>> {
    const MAX_SIZE: u64 = 1 << 30;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file: fs::File = rustix::fs::open(path, flags, Mode::empty()).ok()?.into();
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > MAX_SIZE {
        return None;
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    file.take(MAX_SIZE).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn parse(bytes: &[u8], index: &Path) -> Option<Vec<Vec<u8>>> {
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (version, count) = (number(4)?, number(8)?);
    if bytes.get(..4)? != b"DIRC" || !(2..=4).contains(&version) {
        return None;
    }
    let mut paths: Vec<Vec<u8>> = Vec::new();
    let mut at = 12;
    let mut previous: Vec<u8> = Vec::new();
    for _ in 0..count {
        let start = at;
        let flags = u16::from_be_bytes(bytes.get(at + 60..at + 62)?.try_into().ok()?);
        let extended = version >= 3 && flags & 0x4000 != 0;
        at += if extended { 64 } else { 62 };
        let mut path = Vec::new();
        if version == 4 {
            let (strip, length) = crate::pack::ofs(bytes.get(at..)?)?;
            at += length;
            path.extend_from_slice(previous.get(..previous.len().checked_sub(strip as usize)?)?);
        }
        let end = at + bytes.get(at..)?.iter().position(|byte| *byte == 0)?;
        path.extend_from_slice(&bytes[at..end]);
        // Before version 4 entries are padded to multiples of eight bytes, with one NUL at least.
        at = if version == 4 { end + 1 } else { start + (end - start + 8) / 8 * 8 };
        previous.clone_from(&path);
        // A sparse index names whole directories; a split one leaves replaced names empty.
        while path.last() == Some(&b'/') {
            path.pop();
        }
        if !path.is_empty() {
            paths.push(path);
        }
    }
    // Extensions: a split index shares most of its entries with another file. Those that were
    // removed since are still counted as tracked, which captures more and never less.
    while let Some(head) = bytes.get(at..at + 8) {
        let length = number(at + 4)? as usize;
        let content = bytes.get(at + 8..at + 8 + length);
        if let (b"link", Some(content)) = (&head[..4], content) {
            let shared = crate::oid::Oid::from_slice(content)?;
            let path = index.with_file_name(format!("sharedindex.{shared}"));
            if shared != crate::oid::Oid::ZERO && path != index {
                let base = read(&path).and_then(|bytes| parse(&bytes, &path));
                paths.extend(base.unwrap_or_default());
            }
        }
        at += 8 + length;
    }
    Some(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn git(directory: &Path, arguments: &[&str]) {
        let output = Command::new("git")
            .args(["-c", "core.quotePath=false"])
            .args(arguments)
            .current_dir(directory)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", directory)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    #[test]
    fn every_index_version_and_a_split_index() {
        for setup in [
            &["update-index", "--index-version", "2"][..],
            &["update-index", "--index-version", "4"],
            &["update-index", "--split-index"],
        ] {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path();
            git(root, &["init", "-q"]);
            for (path, content) in
                [("a", "1"), ("dir/file one", "2"), ("dir/file two", "3"), ("dir/sub/x", "4")]
            {
                fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
                fs::write(root.join(path), content).unwrap();
            }
            git(root, &["add", "a", "dir"]);
            git(root, setup);
            fs::write(root.join("later"), "5").unwrap();
            git(root, &["add", "-N", "later"]);
            let tracked = Tracked::read(&index_path(root).unwrap());
            for path in [&b"a"[..], b"dir/file one", b"dir/file two", b"dir/sub/x", b"later"] {
                assert!(tracked.contains(path), "{setup:?} {}", String::from_utf8_lossy(path));
            }
            assert_eq!(tracked.paths.len(), 5, "{setup:?} {tracked:?}");
            assert!(tracked.any_under(b"dir") && tracked.any_under(b"dir/sub"));
            assert!(
                !tracked.any_under(b"di") && !tracked.any_under(b"a") && !tracked.contains(b"dir")
            );
        }
    }

    #[test]
    fn a_linked_worktree_has_its_own_index() {
        let directory = tempfile::tempdir().unwrap();
        let main = directory.path().join("main");
        fs::create_dir(&main).unwrap();
        git(&main, &["init", "-q"]);
        git(
            &main,
            &[
                "-c",
                "user.name=t",
                "-c",
                "user.email=t@t",
                "commit",
                "-q",
                "--allow-empty",
                "-m",
                "x",
            ],
        );
        git(&main, &["worktree", "add", "-q", "../linked"]);
        let linked = directory.path().join("linked");
        fs::write(linked.join("there"), "").unwrap();
        git(&linked, &["add", "there"]);
        assert!(Tracked::read(&index_path(&linked).unwrap()).contains(b"there"));
        assert!(!Tracked::read(&index_path(&main).unwrap()).contains(b"there"));
    }

    #[test]
    fn damage_tracks_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let index = directory.path().join("index");
        for bytes in
            [&b""[..], b"DIRC", b"DIRC\0\0\0\x02\xff\xff\xff\xff", b"garbage of some length"]
        {
            fs::write(&index, bytes).unwrap();
            assert_eq!(Tracked::read(&index).paths.len(), 0);
        }
        assert_eq!(index_path(directory.path()), None);
    }
}
