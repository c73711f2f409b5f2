//! Restores the index of the workspace's own repository from a copy.
//!
//! This module changes no other file in `.git`, and it restores the index only if the user asks for
//! it.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use rustix::fs::{AtFlags, Mode, OFlags};
use sha1::{Digest, Sha1};
use takeback_tree::{OpenGitDirectory, Workspace};

/// The reason why an index cannot be restored.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum IndexError {
    #[error("git is busy: {} exists", .0.display())]
    Busy(PathBuf),
    #[error("cannot write {}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

const INDEX: &str = "index";
const LOCK: &str = "index.lock";

/// Opens the directory in which git keeps the index of a workspace, if there is one.
pub(super) fn open_git_directory(
    workspace: &Workspace<'_>,
) -> Result<Option<OpenGitDirectory>, IndexError> {
    let path = workspace.path().join(".git");
    workspace.open_git_directory().map_err(|source| IndexError::Io { path, source })
}

/// Returns an error if git is writing the index.
pub(super) fn check_index(git: &OpenGitDirectory) -> Result<(), IndexError> {
    match rustix::fs::statat(&git.fd, LOCK, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Err(IndexError::Busy(git.path.join(LOCK))),
        Err(_) => Ok(()),
    }
}

/// Restores the index from a copy. Like git, writes `index.lock` first and then renames it.
pub(super) fn restore_index(git: &OpenGitDirectory, copy: &[u8]) -> Result<(), IndexError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(&git.fd, LOCK, flags, Mode::from(0o666));
    let mut file: File = match opened {
        Ok(file) => file.into(),
        Err(rustix::io::Errno::EXIST) => return Err(IndexError::Busy(git.path.join(LOCK))),
        Err(error) => {
            return Err(IndexError::Io { path: git.path.join(LOCK), source: error.into() });
        }
    };
    let written = file
        .write_all(copy)
        .and_then(|()| file.write_all(&Sha1::digest(copy)))
        .and_then(|()| file.sync_all())
        .and_then(|()| Ok(rustix::fs::renameat(&git.fd, LOCK, &git.fd, INDEX)?));
    written.map_err(|source| {
        let _ = rustix::fs::unlinkat(&git.fd, LOCK, AtFlags::empty());
        IndexError::Io { path: git.path.join(INDEX), source }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use takeback_tree::GitDirectory;

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

        fn opened(&self) -> OpenGitDirectory {
            let path = std::fs::canonicalize(self.0.path().join(".git")).unwrap();
            let fd = takeback_base::directory::open_canonical(&path).unwrap();
            OpenGitDirectory { fd, path }
        }
    }

    #[test]
    fn a_restored_index_contains_what_was_staged() {
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
            restore_index(&scratch.opened(), &copy).unwrap();
            assert_eq!(scratch.git(&["ls-files", "--stage"]), staged, "version {version}");
            scratch.git(&["fsck", "--strict"]);
        }
    }

    #[test]
    fn an_index_that_git_is_writing_is_left_alone() {
        let scratch = Scratch::new();
        scratch.write("a", "a");
        scratch.git(&["add", "a"]);
        let copy = scratch.git_directory().copy_index().unwrap();
        let git = scratch.opened();
        scratch.write(".git/index.lock", "");
        assert!(matches!(check_index(&git), Err(IndexError::Busy(_))));
        assert!(matches!(restore_index(&git, &copy), Err(IndexError::Busy(_))));
        assert!(scratch.0.path().join(".git/index.lock").exists());
    }
}
