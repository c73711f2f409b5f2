//! The `.gitignore` files that apply during a scan. Each is read only once.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::cache::{CachedEntry, EntryKind};
use super::known::KnownState;
use crate::beneath::{self, Root};
use crate::object;
use crate::oid::Oid;
use crate::path::RelPath;
use crate::rules::Scope;

const MAX_GITIGNORE: u64 = 16 << 20;

/// The patterns that apply in a directory, and the id of its own `.gitignore`.
pub(super) type AppliedRules = (Arc<Scope>, Option<Oid>);

/// The `.gitignore` files that a scan has applied, by directory path.
#[derive(Default)]
pub(super) struct AppliedGitignores {
    applied: Mutex<HashMap<Vec<u8>, AppliedRules>>,
    has_unsettled: AtomicBool,
    /// The `.gitignore` files that are not applied because they have too many patterns.
    over_limit: Mutex<Vec<RelPath>>,
}

impl AppliedGitignores {
    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, AppliedRules>> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if a `.gitignore` changed after it was applied and before it was captured.
    pub(super) fn has_unsettled(&self) -> bool {
        self.has_unsettled.load(Ordering::Relaxed)
    }

    pub(super) fn note_unsettled(&self) {
        self.has_unsettled.store(true, Ordering::Relaxed);
    }

    fn note_over_limit(&self, directory: &[u8]) {
        let path = RelPath::new(crate::path::join(directory, b".gitignore"));
        let mut over_limit = self.over_limit.lock().unwrap_or_else(PoisonError::into_inner);
        over_limit.push(path.expect("a directory that was opened has a path"));
    }

    /// Takes the list of `.gitignore` files that were not applied because they have too many
    /// patterns.
    pub(super) fn take_over_limit(&self) -> Vec<RelPath> {
        std::mem::take(&mut *self.over_limit.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the patterns that apply in a directory. Reads its `.gitignore`, unless this scan has
    /// already read it.
    pub(super) fn apply(
        &self,
        above: Option<&Arc<Scope>>,
        path: &[u8],
        fd: Option<BorrowedFd<'_>>,
    ) -> AppliedRules {
        let known = self.lock().get(path).cloned();
        known.unwrap_or_else(|| {
            let text = fd.and_then(read_gitignore);
            let id = text.as_ref().map(|text| Oid::of(object::ObjectKind::Blob, text));
            let scope = Scope::enter(above, path, text.as_deref());
            if text.is_some() && scope.is_over_limit {
                self.note_over_limit(path);
            }
            let entered = (scope, id);
            self.lock().entry(path.to_vec()).or_insert(entered).clone()
        })
    }

    /// Applies the `.gitignore` files of a known directory and of all directories above it.
    /// `new_rules` lists the directories in which the scan makes a new decision about every path.
    pub(super) fn apply_up_to(
        &self,
        root: &Root,
        known: &KnownState,
        number: u32,
        new_rules: &HashSet<u32>,
    ) {
        let path = |number: u32| &known.directories[number as usize].path;
        let mut missing = Vec::new();
        let mut at = Some(number);
        let mut patterns = None;
        while let Some(number) = at.filter(|_| patterns.is_none()) {
            patterns = self.lock().get(path(number)).map(|(patterns, _)| patterns.clone());
            if patterns.is_none() {
                missing.push(number);
            }
            at = (number != 0).then(|| known.directories[number as usize].parent);
        }
        for number in missing.into_iter().rev() {
            let fd = root.open_directory(path(number)).ok();
            let fd = fd.as_ref().map(AsFd::as_fd);
            let (entered, applied) = self.apply(patterns.as_ref(), path(number), fd);
            // In any other directory, the decisions of an earlier capture still apply. They follow
            // from the known `.gitignore`, so the `.gitignore` that was just read must be the same.
            if !new_rules.contains(&number) {
                let gitignore = known.find_child(known.directory_entry(number), b".gitignore");
                let gitignore = gitignore.map(|at| &known.cache.entries[at as usize]);
                self.check_captured(gitignore, applied);
            }
            patterns = Some(entered);
        }
    }

    /// Marks a `.gitignore` as unsettled if the captured content differs from the applied content.
    pub(super) fn check_captured(&self, captured: Option<&CachedEntry>, applied: Option<Oid>) {
        if captured_id(captured).is_some_and(|id| id != applied) {
            self.note_unsettled();
        }
    }
}

/// Returns the id of the `.gitignore` that was captured in a directory. Returns `Some(None)` if
/// there was no `.gitignore` to apply, and `None` if its content is unknown.
fn captured_id(gitignore: Option<&CachedEntry>) -> Option<Option<Oid>> {
    match gitignore {
        Some(entry) if entry.kind == EntryKind::Uncovered => None,
        Some(entry) => Some((entry.kind == EntryKind::File).then_some(entry.oid)),
        None => Some(None),
    }
}

/// True if the `.gitignore` of a directory differs from the known one.
pub(super) fn has_other_gitignore(fd: BorrowedFd<'_>, known: Option<&CachedEntry>) -> bool {
    let present = read_gitignore(fd).map(|text| Oid::of(object::ObjectKind::Blob, &text));
    let captured = known.filter(|entry| entry.kind == EntryKind::File).map(|entry| entry.oid);
    // A `.gitignore` that was not captured may still have been applied, with unknown content.
    present != captured || known.is_some_and(|entry| entry.kind == EntryKind::Uncovered)
}

/// Reads the `.gitignore` of a directory. As in git, symlinks are not followed, and a file that
/// cannot be read ignores nothing.
fn read_gitignore(fd: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let file = beneath::open_file(fd, b".gitignore").ok()?;
    let stat = beneath::stat_fd(&file).ok()?;
    if !stat.is_file() || stat.size > MAX_GITIGNORE {
        return None;
    }
    let mut text = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, MAX_GITIGNORE), &mut text).ok()?;
    Some(text)
}
