//! The budget for files that are captured only because a call names or sweeps them.

use std::sync::PoisonError;

use rayon::prelude::*;

use super::cache::{CachedEntry, Cause, EntryKind, FileClass};
use super::coverage::Request;
use super::scan::{ContentSource, MIN_FILES_FOR_THREADS, Scanner};
use crate::beneath;
use crate::path::split;
use crate::threads::prepare_threads;

/// The maximum size of a file that is read in parallel with other files. Larger files are read one
/// at a time, because each is held in memory as a whole.
const MAX_PARALLEL: u64 = 32 << 20;

/// A file that is captured if it fits within the budget.
pub(super) struct BudgetedFile {
    /// The listing that contains the file; `position` is the index of the file in it.
    directory: ContentSource,
    position: usize,
    path: Vec<u8>,
    size: u64,
    is_swept: bool,
    is_unread: bool,
}

impl Scanner<'_> {
    /// Defers the reading of a file to [`Scanner::read_budgeted_files`].
    pub(super) fn defer_file(
        &self,
        directory: ContentSource,
        position: usize,
        path: Vec<u8>,
        entry: &CachedEntry,
        is_unread: bool,
    ) {
        let is_swept = self.coverage.request(&path) == Some(Request::Swept);
        let size = entry.stat.size;
        let file = BudgetedFile { directory, position, path, size, is_swept, is_unread };
        self.budgeted.lock().unwrap_or_else(PoisonError::into_inner).push(file);
    }

    /// Reads the files that fit within the budget. Named files come before swept ones, and small
    /// files come before large ones. A file that does not fit is left out, and does not prevent
    /// later files from being read.
    pub(crate) fn read_budgeted_files(&self) {
        let mut files =
            std::mem::take(&mut *self.budgeted.lock().unwrap_or_else(PoisonError::into_inner));
        if files.is_empty() {
            return;
        }
        let live = self.find_live_directories();
        files.retain(|file| live.contains(&file.directory));
        files.sort_by(|a, b| {
            (a.is_swept, a.size, &a.path[..]).cmp(&(b.is_swept, b.size, &b.path[..]))
        });
        let (mut bytes, mut count) = (0u64, 0u64);
        let (fitting, rest): (Vec<BudgetedFile>, Vec<_>) = files.into_iter().partition(|file| {
            let with_file = bytes.saturating_add(file.size);
            let fits =
                with_file <= self.coverage.rules.max_named_size && count < self.coverage.max_files;
            if fits {
                (bytes, count) = (with_file, count + 1);
            }
            fits
        });
        for file in &rest {
            self.settle_file(file, |entry| CachedEntry {
                cause: Cause::OverBudget,
                class: FileClass::Named,
                ..CachedEntry::new(EntryKind::Uncovered, entry.stat)
            });
        }
        let unread: Vec<&BudgetedFile> = fitting.iter().filter(|file| file.is_unread).collect();
        let read = |file: &&BudgetedFile| {
            let entry = self.read_budgeted_file(file);
            self.settle_file(file, |_| entry);
        };
        if unread.len() < MIN_FILES_FOR_THREADS {
            return unread.iter().for_each(read);
        }
        prepare_threads();
        unread.par_iter().filter(|file| file.size <= MAX_PARALLEL).for_each(read);
        unread.iter().filter(|file| file.size > MAX_PARALLEL).for_each(read);
    }

    fn read_budgeted_file(&self, file: &BudgetedFile) -> CachedEntry {
        let (parent, name) = split(&file.path);
        let found = self.root.open_directory(parent).and_then(|fd| {
            let stat = beneath::stat_at(&fd, name)?;
            Ok((fd, stat))
        });
        match found {
            Ok((fd, stat)) => {
                use std::os::fd::AsFd;
                self.read_entry(fd.as_fd(), &file.path, name, stat, FileClass::Named)
            }
            // The file disappeared after its directory was listed. The next capture looks for it
            // again.
            Err(error) => super::scan::unknown_entry(&error),
        }
    }

    fn settle_file(&self, file: &BudgetedFile, settle: impl FnOnce(&CachedEntry) -> CachedEntry) {
        let mut results = self.lock_results();
        if let Some(child) = results.child_mut(file.directory, file.position) {
            child.entry = settle(&child.entry);
        }
    }
}
