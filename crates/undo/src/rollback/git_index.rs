//! Putting a copy of the index back into the workspace's own repository.
//!
//! Nothing in `.git` is ever written except the index, and only if the user asks for it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use sha1::{Digest, Sha1};
use takeback_tree::GitDirectory;

/// An index that cannot be restored.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum IndexError {
    #[error("git is busy: {} exists", .0.display())]
    Busy(PathBuf),
    #[error("cannot write {}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Returns an error if git is writing the index.
pub(super) fn check_index(git: &GitDirectory) -> Result<(), IndexError> {
    let lock = git.path().join("index.lock");
    if fs::symlink_metadata(&lock).is_ok() { Err(IndexError::Busy(lock)) } else { Ok(()) }
}

/// Puts a copy of the index back, in the same way as git writes it.
pub(super) fn restore_index(git: &GitDirectory, copy: &[u8]) -> Result<(), IndexError> {
    let lock = git.path().join("index.lock");
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
        .and_then(|()| fs::rename(&lock, git.index_path()));
    written.map_err(|source| {
        let _ = fs::remove_file(&lock);
        IndexError::Io { path: git.index_path(), source }
    })
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

        fn git_directory(&self) -> GitDirectory {
            GitDirectory::find(self.0.path()).unwrap()
        }
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
            let copy = scratch.git_directory().copy_index().unwrap();
            scratch.git(&["reset", "-q", "--hard"]);
            assert_ne!(scratch.git(&["ls-files", "--stage"]), staged);
            restore_index(&scratch.git_directory(), &copy).unwrap();
            assert_eq!(scratch.git(&["ls-files", "--stage"]), staged, "version {version}");
            scratch.git(&["fsck", "--strict"]);
        }
    }

    #[test]
    fn an_index_that_git_is_writing_is_left_alone() {
        let scratch = Scratch::new();
        scratch.write("a", "a");
        scratch.git(&["add", "a"]);
        let git = scratch.git_directory();
        let copy = git.copy_index().unwrap();
        scratch.write(".git/index.lock", "");
        assert!(matches!(check_index(&git), Err(IndexError::Busy(_))));
        assert!(matches!(restore_index(&git, &copy), Err(IndexError::Busy(_))));
        assert!(scratch.0.path().join(".git/index.lock").exists());
    }
}
