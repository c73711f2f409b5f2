//! The workspace's own repository: where HEAD is, and a copy of its index.
//!
//! It is read without git. Nothing in `.git` is ever written except the index, and only if the user
//! asks for it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};
use takeback_base::hex;

/// The position of HEAD in a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The commit; `None` before the first one, or if it cannot be read.
    pub commit: Option<String>,
    /// The branch; `None` if HEAD is detached.
    pub branch: Option<String>,
}

/// A repository on disk.
pub(crate) struct Repository {
    /// The directory of HEAD and the index.
    directory: PathBuf,
    /// The directory of the refs, which differs only in linked worktrees.
    common: PathBuf,
}

/// An index that cannot be restored.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum IndexError {
    #[error("git is busy: {} exists", .0.display())]
    Busy(PathBuf),
    #[error("cannot write {}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl Repository {
    /// Finds the repository whose work tree has its root in this directory.
    pub(crate) fn find(root: &Path) -> Option<Repository> {
        let git = root.join(".git");
        let kind = fs::symlink_metadata(&git).ok()?.file_type();
        let directory = if kind.is_dir() {
            git
        } else {
            // In a linked worktree or a submodule, a file names the repository.
            let text = read_small_file(&git)?;
            root.join(text.strip_prefix("gitdir:")?.trim())
        };
        let common = match read_small_file(&directory.join("commondir")) {
            Some(text) => directory.join(text.trim()),
            None => directory.clone(),
        };
        Some(Repository { directory, common })
    }

    /// Reads the position of HEAD.
    pub(crate) fn head(&self) -> Head {
        let Some(text) = read_small_file(&self.directory.join("HEAD")) else {
            return Head::default();
        };
        match text.trim().strip_prefix("ref:").map(str::trim) {
            None => Head { commit: parse_commit_id(&text), branch: None },
            Some(name) => Head {
                commit: self.resolve_ref(name),
                branch: Some(name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()),
            },
        }
    }

    fn resolve_ref(&self, name: &str) -> Option<String> {
        // A name must not lead out of the repository.
        if name.split('/').any(|part| part == ".." || part.is_empty()) {
            return None;
        }
        let loose = [&self.directory, &self.common]
            .into_iter()
            .find_map(|directory| parse_commit_id(&read_small_file(&directory.join(name))?));
        loose.or_else(|| {
            let packed = fs::read_to_string(self.common.join("packed-refs")).ok()?;
            let line = packed.lines().find(|line| line.get(41..) == Some(name))?;
            parse_commit_id(line.get(..40)?)
        })
    }

    fn index_path(&self) -> PathBuf {
        self.directory.join("index")
    }

    /// Reads the stamp of the index. A different stamp means that the index may have changed.
    pub(crate) fn index_stamp(&self) -> Option<[i64; 5]> {
        let stat = fs::symlink_metadata(self.index_path()).ok().filter(fs::Metadata::is_file)?;
        let times = [stat.mtime(), stat.mtime_nsec(), stat.ctime() ^ stat.ctime_nsec()];
        Some([stat.size() as i64, times[0], times[1], times[2], stat.ino() as i64])
    }

    /// Copies the index: the staged files, without git's caches. Returns `None` if there
    /// is no index, or if it has a form that cannot be copied (split, or with SHA-256).
    pub(crate) fn copy_index(&self) -> Option<Vec<u8>> {
        normalize_index(&fs::read(self.index_path()).ok()?)
    }

    /// Returns an error if git is writing the index.
    pub(crate) fn check_index(&self) -> Result<(), IndexError> {
        let lock = self.directory.join("index.lock");
        if fs::symlink_metadata(&lock).is_ok() { Err(IndexError::Busy(lock)) } else { Ok(()) }
    }

    /// Puts a copy of the index back, in the same way as git writes it.
    pub(crate) fn restore_index(&self, copy: &[u8]) -> Result<(), IndexError> {
        let lock = self.directory.join("index.lock");
        let mut options = fs::OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(0o666).open(&lock);
        let mut file = opened.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => IndexError::Busy(lock.clone()),
            _ => IndexError::Io { path: lock.clone(), source },
        })?;
        let written = file
            .write_all(copy)
            .and_then(|()| file.write_all(&Sha1::digest(copy)))
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&lock, self.index_path()));
        written.map_err(|source| {
            let _ = fs::remove_file(&lock);
            IndexError::Io { path: self.index_path(), source }
        })
    }
}

/// Reads a file that is expected to be small.
fn read_small_file(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > 64 << 10 {
        return None;
    }
    fs::read_to_string(path).ok()
}

/// Parses the id of a commit.
fn parse_commit_id(text: &str) -> Option<String> {
    let id = text.trim();
    let is_id = matches!(id.len(), 40 | 64) && hex::is_hex(id);
    is_id.then(|| id.to_owned())
}

/// Removes the checksum, the extensions, and the times and inode numbers of files from an index, so
/// that the same staged state is always the same bytes. Git recreates all of this.
fn normalize_index(index: &[u8]) -> Option<Vec<u8>> {
    const CHECKSUM: usize = 20;
    let end = index.len().checked_sub(CHECKSUM)?;
    let checksum = &index[end..];
    // `index.skipHash` leaves zeros.
    if checksum != Sha1::digest(&index[..end]).as_slice() && checksum != [0; CHECKSUM] {
        return None;
    }
    let mut copy = index[..end].to_vec();
    let number =
        |bytes: &[u8], at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (version, count) = (number(&copy, 4)?, number(&copy, 8)?);
    if copy.get(..4)? != b"DIRC" || !(2..=4).contains(&version) {
        return None;
    }
    let mut at = 12;
    for _ in 0..count {
        let start = at;
        let flags = u16::from_be_bytes(copy.get(at + 60..at + 62)?.try_into().ok()?);
        // Clears times, device and inode; then owner, group and size. The mode is in between.
        copy.get_mut(at..at + 24)?.fill(0);
        copy.get_mut(at + 28..at + 40)?.fill(0);
        at += if version >= 3 && flags & 0x4000 != 0 { 64 } else { 62 };
        if version == 4 {
            at += 1 + copy.get(at..)?.iter().position(|byte| byte & 0x80 == 0)?;
        }
        let name = copy.get(at..)?.iter().position(|byte| *byte == 0)?;
        at = if version == 4 { at + name + 1 } else { start + (at + name - start + 8) / 8 * 8 };
    }
    let mut kept = Vec::new();
    let mut extension = at;
    while extension < end {
        let length = 8 + number(&copy, extension + 4)? as usize;
        let content = copy.get(extension..extension + length)?;
        match &content[..4] {
            // A split index has most of its entries in another file.
            b"link" => return None,
            // Extensions that git must understand begin with a small letter.
            [b'a'..=b'z', ..] => kept.extend_from_slice(content),
            _ => {}
        }
        extension += length;
    }
    copy.truncate(at);
    copy.extend_from_slice(&kept);
    Some(copy)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    struct Scratch(tempfile::TempDir);

    impl Scratch {
        fn new() -> Scratch {
            let scratch = Scratch(tempfile::tempdir().unwrap());
            scratch.git(&["init", "-q", "-b", "main"]);
            scratch
        }

        fn git(&self, arguments: &[&str]) -> String {
            let output = Command::new("git")
                .args(["-c", "user.name=a", "-c", "user.email=a@b"])
                .args(arguments)
                .current_dir(self.0.path())
                .env_clear()
                .env("PATH", std::env::var_os("PATH").unwrap())
                .env("HOME", "/nonexistent")
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        }

        fn write(&self, path: &str, content: &str) {
            fs::write(self.0.path().join(path), content).unwrap();
        }

        fn repository(&self) -> Repository {
            Repository::find(self.0.path()).unwrap()
        }
    }

    #[test]
    fn head_is_where_git_says_it_is() {
        let scratch = Scratch::new();
        assert_eq!(scratch.repository().head(), Head { commit: None, branch: Some("main".into()) });
        scratch.write("a", "a");
        scratch.git(&["add", "a"]);
        scratch.git(&["commit", "-qm", "a"]);
        let commit = Some(scratch.git(&["rev-parse", "HEAD"]).trim().to_owned());
        let main = Head { commit: commit.clone(), branch: Some("main".into()) };
        assert_eq!(scratch.repository().head(), main);
        scratch.git(&["pack-refs", "--all"]);
        assert_eq!(scratch.repository().head(), main);
        scratch.git(&["worktree", "add", "-q", "-b", "side/x", "linked"]);
        let linked = Repository::find(&scratch.0.path().join("linked")).unwrap();
        assert_eq!(linked.head(), Head { commit: commit.clone(), branch: Some("side/x".into()) });
        scratch.git(&["checkout", "-q", "--detach"]);
        assert_eq!(scratch.repository().head(), Head { commit, branch: None });
    }

    #[test]
    fn the_same_staged_state_gives_the_same_copy() {
        let scratch = Scratch::new();
        scratch.write("a", "a");
        scratch.git(&["add", "a"]);
        let copy = scratch.repository().copy_index().unwrap();
        scratch.write("a", "a");
        scratch.git(&["update-index", "--refresh"]);
        assert_eq!(scratch.repository().copy_index().unwrap(), copy);
        scratch.write("a", "b");
        scratch.git(&["add", "a"]);
        assert_ne!(scratch.repository().copy_index().unwrap(), copy);
    }

    #[test]
    fn a_restored_index_has_what_was_staged() {
        for version in ["2", "3", "4"] {
            let scratch = Scratch::new();
            scratch.git(&["update-index", "--index-version", version]);
            for name in ["a", "directory-b", "c with spaces", "ö"] {
                scratch.write(name, name);
            }
            scratch.git(&["add", "."]);
            scratch.git(&["commit", "-qm", "a"]);
            scratch.write("a", "staged");
            scratch.write("new", "new");
            scratch.git(&["add", "a", "new"]);
            scratch.git(&["add", "-N", "directory-b"]);
            let staged = scratch.git(&["ls-files", "--stage"]);
            let copy = scratch.repository().copy_index().unwrap();
            scratch.git(&["reset", "-q", "--hard"]);
            assert_ne!(scratch.git(&["ls-files", "--stage"]), staged);
            scratch.repository().restore_index(&copy).unwrap();
            assert_eq!(scratch.git(&["ls-files", "--stage"]), staged, "version {version}");
            scratch.git(&["fsck", "--strict"]);
        }
    }

    #[test]
    fn an_index_that_git_is_writing_is_left_alone() {
        let scratch = Scratch::new();
        scratch.write("a", "a");
        scratch.git(&["add", "a"]);
        let repository = scratch.repository();
        let copy = repository.copy_index().unwrap();
        scratch.write(".git/index.lock", "");
        assert!(matches!(repository.check_index(), Err(IndexError::Busy(_))));
        assert!(matches!(repository.restore_index(&copy), Err(IndexError::Busy(_))));
        assert!(scratch.0.path().join(".git/index.lock").exists());
    }

    #[test]
    fn a_damaged_index_is_not_copied() {
        assert_eq!(normalize_index(b""), None);
        assert_eq!(normalize_index(&[0; 64]), None);
        let mut damaged = b"DIRC\0\0\0\x02\0\0\0\x09".to_vec();
        damaged.extend_from_slice(&Sha1::digest(&damaged));
        assert_eq!(normalize_index(&damaged), None);
    }
}
