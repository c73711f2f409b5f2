//! Git repositories that belong to other programs, read without git: HEAD, refs, the index and
//! objects.
//!
//! This module never writes to these repositories, and copies them only into new directories. A
//! [`GitDirectory`] is the `.git` of a workspace. It may be damaged, hostile or in use, so anything
//! in it that cannot be read is treated as absent. A [`ForeignRepository`] is a repository whose
//! history is imported, so anything in it that cannot be read is an error.

mod config;
mod copy;
mod head;
pub(crate) mod index;
mod objects;
pub(crate) mod refs;
mod written;

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use takeback_base::{directory, foreign, paths};

use crate::beneath::{self, Root};
use crate::workspace::Workspace;

pub use copy::{CopiedRepository, RepositoryCopyError, RepositoryState};
pub use head::Head;
pub use objects::{ForeignCommit, ForeignError, ForeignObjectError, ForeignRef, ForeignRepository};
pub use written::GitObjects;

/// The maximum size of a small file, such as HEAD or a ref.
const MAX_SMALL_FILE: u64 = 64 << 10;
/// The maximum size of an index or of packed refs.
pub(crate) const MAX_LARGE_FILE: u64 = 1 << 30;

/// The directory in which git keeps its data about one work tree: `.git`, or the directory that a
/// `.git` file in a linked work tree or a submodule refers to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GitDirectory {
    path: PathBuf,
}

impl GitDirectory {
    /// Finds the git directory of the work tree whose root is `root`.
    pub fn find(root: &Path) -> Option<GitDirectory> {
        let git = root.join(".git");
        let kind = fs::symlink_metadata(&git).ok()?.file_type();
        if kind.is_dir() {
            return Some(GitDirectory { path: git });
        }
        let text = kind.is_file().then(|| read_text(&git))??;
        let target = text.strip_prefix("gitdir:")?.trim();
        Some(GitDirectory { path: root.join(target) })
    }

    /// Returns the path of the directory, which holds HEAD and the index.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory that holds the refs. It differs from the git directory only for a
    /// linked work tree.
    fn common_path(&self) -> PathBuf {
        match read_text(&self.path.join("commondir")) {
            Some(text) => self.path.join(text.trim()),
            None => self.path.clone(),
        }
    }
}

/// The git directory of a workspace, open for writing its index.
#[derive(Debug)]
pub struct OpenGitDirectory {
    /// The directory, held open, so that replacing its path with a link has no effect.
    pub fd: OwnedFd,
    /// The path, for messages.
    pub path: PathBuf,
}

impl Workspace<'_> {
    /// Opens the git directory of this workspace. Follows no link inside the workspace. Returns
    /// `None` if there is no git directory.
    pub fn open_git_directory(&self) -> io::Result<Option<OpenGitDirectory>> {
        open_git_directory_at(self.root(), self.path())
    }
}

/// Opens the git directory of the work tree with this root. `path` is the path of the root.
fn open_git_directory_at(root: &Root, path: &Path) -> io::Result<Option<OpenGitDirectory>> {
    match root.open_directory(b".git") {
        Ok(fd) => Ok(Some(OpenGitDirectory { fd, path: path.join(".git") })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => open_linked(root, path),
        Err(error) => Err(error),
    }
}

/// Opens the git directory that the `.git` file of a linked work tree or a submodule refers to.
fn open_linked(root: &Root, path: &Path) -> io::Result<Option<OpenGitDirectory>> {
    let file = beneath::open_file(root, b".git")?;
    if !beneath::stat_fd(&file)?.is_file() {
        return Ok(None);
    }
    let mut text = String::new();
    file.take(MAX_SMALL_FILE).read_to_string(&mut text)?;
    let Some(target) = text.strip_prefix("gitdir:").map(str::trim) else { return Ok(None) };
    let fd = match target.starts_with('/') {
        true => directory::open_canonical(&paths::canonicalize(Path::new(target))?)?,
        false => directory::open_from(root.as_fd(), target.as_bytes())?,
    };
    Ok(Some(OpenGitDirectory { fd, path: path.join(target) }))
}

/// Reads a regular file of at most `max_size` bytes. Returns `None` for anything else.
fn read_regular_file(path: &Path, max_size: u64) -> Option<Vec<u8>> {
    foreign::read_regular(path, max_size).ok()
}

fn read_text(path: &Path) -> Option<String> {
    String::from_utf8(read_regular_file(path, MAX_SMALL_FILE)?).ok()
}

#[cfg(test)]
pub(crate) mod testing {
    use std::ffi::OsStr;
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::GitDirectory;

    /// A repository created by git itself.
    pub(crate) struct GitScratch(pub(crate) tempfile::TempDir);

    impl GitScratch {
        pub(crate) fn new() -> GitScratch {
            let scratch = GitScratch(tempfile::tempdir().unwrap());
            scratch.git(&["init", "-q", "-b", "main"]);
            scratch
        }

        pub(crate) fn root(&self) -> &Path {
            self.0.path()
        }

        pub(crate) fn git(&self, arguments: &[&str]) -> String {
            run_git(self.root(), arguments)
        }

        pub(crate) fn write(&self, path: &str, content: &str) {
            let path = self.root().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }

        pub(crate) fn directory(&self) -> GitDirectory {
            GitDirectory::find(self.root()).unwrap()
        }
    }

    pub(crate) fn run_git(directory: &Path, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.quotePath=false"])
            .args(arguments.iter().map(OsStr::new))
            .current_dir(directory)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", "/nonexistent")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::GitScratch;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_directory_without_a_repository_has_no_git_directory() {
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(GitDirectory::find(scratch.path()), None);
        fs::write(scratch.path().join(".git"), "no reference").unwrap();
        assert_eq!(GitDirectory::find(scratch.path()), None);
    }

    #[test]
    fn the_git_directory_is_opened_even_if_it_is_elsewhere() {
        let scratch = GitScratch::new();
        scratch.git(&["commit", "-q", "--allow-empty", "-m", "x"]);
        scratch.git(&["worktree", "add", "-q", "linked"]);
        scratch.write("relative/.git", "gitdir: ../.git/worktrees/linked\n");
        scratch.write("none/a", "");
        let home = tempfile::tempdir().unwrap();
        let store = crate::Store::open(home.path().join("store")).unwrap();
        let open = |name: &str| {
            let workspace =
                store.workspace(&scratch.root().join(name), &Default::default()).unwrap();
            workspace.open_git_directory().map(|opened| {
                opened
                    .map(|opened| fs::read_link(format!("/proc/self/fd/{}", opened.fd.as_raw_fd())))
            })
        };
        let root = fs::canonicalize(scratch.root()).unwrap();
        for (name, found) in [
            ("", ".git"),
            ("linked", ".git/worktrees/linked"),
            ("relative", ".git/worktrees/linked"),
        ] {
            assert_eq!(open(name).unwrap().unwrap().unwrap(), root.join(found), "{name}");
        }
        assert!(open("none").unwrap().is_none());
        scratch.write("bad/a", "");
        std::os::unix::fs::symlink("../.git", scratch.root().join("bad/.git")).unwrap();
        assert!(open("bad").is_err());
    }

    #[test]
    fn a_linked_work_tree_refers_to_its_directory() {
        let scratch = GitScratch::new();
        scratch.git(&["commit", "-q", "--allow-empty", "-m", "x"]);
        scratch.git(&["worktree", "add", "-q", "linked"]);
        let linked = GitDirectory::find(&scratch.root().join("linked")).unwrap();
        assert!(linked.path().ends_with(".git/worktrees/linked"), "{linked:?}");
        let common = fs::canonicalize(linked.common_path()).unwrap();
        assert_eq!(common, fs::canonicalize(scratch.directory().path()).unwrap());
    }
}
