//! The repositories that a call may delete. `.git` is never part of the tree of its workspace, so
//! each `.git` is captured as a workspace of its own.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use takeback_base::foreign;
use takeback_tree::RelPath;

use super::protected::{PathKind, ProtectedPath};
use super::unprotected::Unprotected;
use crate::Opened;
use crate::open::is_in_repository_data;

/// The maximum number of directories that are searched for repositories.
const MAX_DIRECTORIES: usize = 5_000;

/// The maximum number of repositories that are captured for one call.
const MAX_REPOSITORIES: usize = 16;

/// Names of programs, options and functions that delete or move whole directories.
const DELETING_WORDS: [&str; 14] = [
    "rm", "rmdir", "rmtree", "rimraf", "remove", "unlink", "del", "delete", "mv", "find", "rsync",
    "trash", "shred", "clean",
];

/// The repositories that a call may delete.
#[derive(Default)]
pub(super) struct Repositories {
    pub(super) protected: Vec<ProtectedPath>,
    pub(super) unprotected: Vec<Unprotected>,
    /// The total size of the protected repositories, in bytes.
    size: u64,
}

/// Returns true if the text of a script mentions the deletion of directories. The analysis of the
/// script finds other deletions, such as those in a script file. A script that only writes into a
/// directory does not endanger the repository in it, and repositories are expensive to capture.
pub(super) fn may_delete_directories(script: Option<&str>) -> bool {
    let is_word = |word: &str| DELETING_WORDS.contains(&word);
    let is_inner = |letter: char| letter.is_alphanumeric() || letter == '_';
    script.is_none_or(|script| script.split(|letter| !is_inner(letter)).any(is_word))
}

impl Repositories {
    /// Adds the repositories inside a swept directory, except the directory's own.
    pub(super) fn add_inner(&mut self, opened: &Opened, directory: &Path) {
        let own = directory.join(".git");
        self.add_found(opened, directory, |data| *data != own);
    }

    /// Adds the repositories at or below a path. Adds the path itself if it is in a repository's
    /// data.
    pub(super) fn add(&mut self, opened: &Opened, path: &Path) {
        if is_in_repository_data(path) {
            self.add_data(opened, path);
            return;
        }
        self.add_found(opened, path, |_| true);
    }

    fn add_found(&mut self, opened: &Opened, path: &Path, is_meant: impl Fn(&PathBuf) -> bool) {
        let (found, is_complete) = find_repository_data(path);
        found.iter().filter(|data| is_meant(data)).for_each(|data| self.add_data(opened, data));
        if !is_complete {
            let reason = "it has too many directories to search for repositories";
            self.unprotected.push(Unprotected::replaceable(path, reason));
        }
    }

    fn add_data(&mut self, opened: &Opened, path: &Path) {
        let Ok(metadata) = fs::symlink_metadata(path) else { return };
        let is_link_file = !metadata.is_dir() && path.file_name() == Some(OsStr::new(".git"));
        if is_link_file {
            // `git submodule update` would also recreate this file, but would overwrite changed
            // files.
            let content = foreign::read_beginning(path, 4096).unwrap_or_default();
            let content = String::from_utf8_lossy(&content);
            let line = content.lines().next().unwrap_or_default();
            let reason = format!(
                "this file only points to the repository; to recreate the file, write `{line}` to it"
            );
            self.unprotected.push(Unprotected::replaceable(path, reason));
            return;
        }
        if self.protected.len() >= MAX_REPOSITORIES {
            let reason = format!("the call deletes more than {MAX_REPOSITORIES} repositories");
            self.unprotected.push(Unprotected::new(path, reason));
            return;
        }
        let limit = opened.rules.max_named_size;
        let size = measure(path, u64::MAX, limit.saturating_sub(self.size));
        let Some(size) = size else {
            let limit = limit >> 20;
            let reason = format!("this repository does not fit into max_named_mb ({limit} MiB)");
            self.unprotected.push(Unprotected::new(path, reason));
            return;
        };
        self.size += size;
        let kind = match metadata.is_dir() {
            true => PathKind::Directory(path.into()),
            false => PathKind::File(path.into()),
        };
        self.protected.push(ProtectedPath::new(opened, kind));
    }
}

/// Finds the `.git` of each repository at or below a directory, nearest first. The second value is
/// true if all directories were searched.
fn find_repository_data(directory: &Path) -> (Vec<PathBuf>, bool) {
    let mut found = Vec::new();
    let mut waiting = VecDeque::from([directory.to_owned()]);
    let mut seen = 0;
    while let Some(directory) = waiting.pop_front() {
        seen += 1;
        if seen > MAX_DIRECTORIES {
            return (found, false);
        }
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_name() == OsStr::new(".git") {
                found.push(entry.path());
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push_back(entry.path());
            }
        }
    }
    (found, true)
}

/// Finds the repositories nested in a workspace. The workspace's checkpoints do not contain their
/// history.
pub(super) fn find_nested_repositories(root: &Path) -> Vec<RelPath> {
    let own = root.join(".git");
    let (found, _) = find_repository_data(root);
    // The `.git` of a submodule is a file, and its repository is elsewhere.
    let nested = found.iter().filter(|data| **data != own && data.is_dir());
    let inner = nested.filter_map(|data| data.parent()?.strip_prefix(root).ok());
    inner.filter_map(|inner| RelPath::from_path(inner).ok()).collect()
}

/// Adds up the sizes of all files at or below a path. Returns `None` if there are more files or
/// bytes than the limits allow.
pub(super) fn measure(path: &Path, max_files: u64, max_size: u64) -> Option<u64> {
    let (mut files, mut size) = (0, 0);
    let mut waiting: Vec<PathBuf> = vec![path.to_owned()];
    while let Some(path) = waiting.pop() {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        files += 1;
        if metadata.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            waiting.extend(entries.map(|entry| entry.path()));
        } else {
            size += metadata.len();
        }
        if files > max_files || size > max_size {
            return None;
        }
    }
    Some(size)
}
