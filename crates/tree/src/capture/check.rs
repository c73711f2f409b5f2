//! The first pass of a capture: finds the known directories and files that have changed, at the
//! cost of one `lstat` each.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rayon::prelude::*;

use super::cache::{CachedEntry, Cutoff, EntryKind, FileClass};
use super::gitignore::has_other_gitignore;
use super::known::KnownState;
use crate::beneath::{self, Root, Stat};
use crate::path::RelPath;
use crate::threads::prepare_threads;

/// With fewer known entries than this, checking them in several threads is not worthwhile.
const MIN_ENTRIES_FOR_THREADS: usize = 2_000;

/// The work that a scan must do in a known directory.
pub(crate) struct DirectoryTask {
    /// The number of the directory.
    pub(crate) number: u32,
    /// True if the directory has to be listed.
    pub(crate) list: bool,
    /// True if the `.gitignore` of the directory has changed.
    pub(crate) rules_changed: bool,
    /// The positions of the changed children. Used only if the directory need not be listed.
    pub(crate) changed: Vec<u32>,
}

impl DirectoryTask {
    /// Returns a task that lists a directory.
    pub(crate) fn list(number: u32, rules_changed: bool) -> DirectoryTask {
        DirectoryTask { number, list: true, rules_changed, changed: Vec::new() }
    }
}

/// Checks all known entries and returns tasks for the directories that must be scanned. If `paths`
/// are given, checks only the directories that contain one of these paths or are inside one of
/// them.
pub(crate) fn find_changes(
    root: &Root,
    known: &KnownState,
    cutoff: Cutoff,
    paths: Option<&[RelPath]>,
) -> Vec<DirectoryTask> {
    let check = |number: usize| check_directory(root, known, cutoff, number as u32);
    let all = 0..known.directories.len();
    if let Some(paths) = paths {
        let is_meant = |number: &usize| {
            let directory = &known.directories[*number].path;
            paths.iter().any(|path| {
                is_within(path.as_bytes(), directory) || is_within(directory, path.as_bytes())
            })
        };
        return all.filter(is_meant).filter_map(check).collect();
    }
    if known.cache.entries.len() < MIN_ENTRIES_FOR_THREADS {
        all.filter_map(check).collect()
    } else {
        prepare_threads();
        all.into_par_iter().with_min_len(8).filter_map(check).collect()
    }
}

/// True if a path is this directory or is inside it. The path of the root is empty.
fn is_within(path: &[u8], directory: &[u8]) -> bool {
    match path.strip_prefix(directory) {
        Some(rest) => directory.is_empty() || rest.is_empty() || rest.starts_with(b"/"),
        None => false,
    }
}

fn check_directory(
    root: &Root,
    known: &KnownState,
    cutoff: Cutoff,
    number: u32,
) -> Option<DirectoryTask> {
    let entry = known.directory_entry(number);
    let Ok(fd) = root.open_directory(&known.directories[number as usize].path) else {
        return Some(DirectoryTask::list(number, false));
    };
    let fd = fd.as_fd();
    let is_unchanged = |stat: &Stat, entry: &CachedEntry| {
        *stat == entry.stat && !entry.is_doubtful() && !cutoff.is_racy(stat)
    };
    let mut is_listing_valid = stat_directory(fd).is_ok_and(|stat| is_unchanged(&stat, entry));
    let mut changed = Vec::new();
    let mut rules_changed = false;
    for (position, child) in (0..).zip(known.cache.children(entry)) {
        if !is_listing_valid {
            break;
        }
        let name = known.cache.name(child);
        // A `.gitignore` applies even if it is not captured itself.
        let is_gitignore = name == b".gitignore" && child.kind != EntryKind::Directory;
        if !child.needs_stat() && !is_gitignore {
            continue;
        }
        match beneath::stat_at(fd, name) {
            Ok(stat) if is_unchanged(&stat, child) => {}
            Ok(stat) if can_be_refreshed(child, &stat) => {
                changed.push(position);
                rules_changed |= is_gitignore && has_other_gitignore(fd, Some(child));
            }
            _ => is_listing_valid = false,
        }
    }
    if !is_listing_valid {
        let gitignore = known.find_child(entry, b".gitignore");
        let gitignore = gitignore.map(|at| &known.cache.entries[at as usize]);
        return Some(DirectoryTask::list(number, has_other_gitignore(fd, gitignore)));
    }
    if rules_changed {
        return Some(DirectoryTask::list(number, true));
    }
    let task = DirectoryTask { number, list: false, rules_changed: false, changed };
    (!task.changed.is_empty()).then_some(task)
}

/// True if a changed file can be reread without listing its directory. A path that has become
/// another kind of file requires a listing. A file that was captured because git tracks it or the
/// caller named it also requires a listing: that decision may depend on the file's size.
fn can_be_refreshed(known: &CachedEntry, stat: &Stat) -> bool {
    stat.mode >> 12 == known.stat.mode >> 12
        && !stat.is_directory()
        && !matches!(known.class, FileClass::Tracked | FileClass::Named)
}

/// Stats a directory. Sets the size to zero, because the size of a directory is meaningless.
pub(super) fn stat_directory(fd: BorrowedFd<'_>) -> io::Result<Stat> {
    Ok(Stat { size: 0, ..beneath::stat_fd(fd)? })
}
