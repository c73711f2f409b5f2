//! The result of a capture, as its caller sees it.

use std::io;

use super::cache::{CachedEntry, Cause, EntryKind, FileClass, Reach};
use super::known::KnownState;
use super::{Capture, Uncovered, UncoveredReason};
use crate::owner;
use crate::path::RelPath;
use crate::rules::{CaptureRules, Filter};

/// Summarizes a state for the caller. Also returns the number of files that are captured only
/// because the caller asked for them.
pub(super) fn summarize(known: &KnownState, rules: &CaptureRules) -> (Capture, u64) {
    let mut extra = 0;
    let cache = &known.cache;
    let mut capture = Capture {
        tree: cache.entries[0].oid,
        files: 0,
        uncovered: Vec::new(),
        unsettled: Vec::new(),
        unprivileged: Vec::new(),
        unapplied: Vec::new(),
        incomplete_index: false,
        damaged: Vec::new(),
        filter: Filter { rules: rules.clone(), tracked: Vec::new() },
    };
    for directory in &known.directories {
        let entry = &cache.entries[directory.entry as usize];
        for child in cache.children(entry) {
            let path = || {
                let path = crate::path::join(&directory.path, cache.name(child));
                RelPath::new(path).expect("names from the kernel form a valid path")
            };
            match child.kind {
                EntryKind::File | EntryKind::Symlink => {
                    capture.files += 1;
                    if owner::has_dropped(child.stat.mode) {
                        capture.unprivileged.push(path());
                    }
                    extra += u64::from(child.class == FileClass::Named);
                    if child.class == FileClass::Tracked && entry.reach == Reach::Normal {
                        capture.filter.tracked.push(path());
                    }
                }
                EntryKind::Directory
                    if child.reach == Reach::Partial && entry.reach != Reach::Partial =>
                {
                    capture.uncovered.push(Uncovered { path: path(), reason: reason_of(child) });
                }
                EntryKind::Directory => {}
                EntryKind::Uncovered => {
                    capture.uncovered.push(Uncovered { path: path(), reason: reason_of(child) });
                }
            }
        }
    }
    collapse_over_budget(known, &mut capture.uncovered);
    capture.uncovered.sort_by(|a, b| a.path.cmp(&b.path));
    capture.unprivileged.sort();
    (capture, extra)
}

/// The maximum number of over-budget paths that are reported. If there are more, only the topmost
/// directories that contain them are reported.
const MAX_REPORTED: usize = 1000;

/// Replaces the over-budget paths in a directory with the directory itself if nothing in the
/// directory is captured. If too many paths remain, does the same for directories in which some
/// files are captured.
fn collapse_over_budget(known: &KnownState, uncovered: &mut Vec<Uncovered>) {
    let is_over = |found: &Uncovered| matches!(found.reason, UncoveredReason::OverBudget { .. });
    if !uncovered.iter().any(is_over) {
        return;
    }
    let mut collapse = |is_collapsed: &dyn Fn(&Content) -> bool| {
        for directory in find_over_budget(known, is_collapsed) {
            uncovered.retain(|found| !found.path.starts_with(&directory.path));
            uncovered.push(directory);
        }
        uncovered.iter().filter(|found| is_over(found)).count()
    };
    if collapse(&|content| content.captured == 0) > MAX_REPORTED {
        collapse(&|_| true);
    }
}

/// The content of a directory, including all directories below it.
#[derive(Clone, Copy, Default)]
struct Content {
    /// The number of captured files.
    captured: u64,
    /// The total size of the files over the budget, in bytes.
    over_budget: u64,
}

/// Finds the topmost directories that have files over the budget and satisfy `is_collapsed`.
/// Considers only directories that were entered because the caller asked for them.
fn find_over_budget(known: &KnownState, is_collapsed: &dyn Fn(&Content) -> bool) -> Vec<Uncovered> {
    let cache = &known.cache;
    let mut contents = vec![Content::default(); known.directories.len()];
    // Each directory comes after its parent, so the reverse order visits children first.
    for (number, directory) in known.directories.iter().enumerate().rev() {
        for child in cache.children(&cache.entries[directory.entry as usize]) {
            match child.kind {
                EntryKind::File | EntryKind::Symlink => contents[number].captured += 1,
                EntryKind::Uncovered if child.cause == Cause::OverBudget => {
                    contents[number].over_budget += child.stat.size;
                }
                _ => {}
            }
        }
        if number != 0 {
            let Content { captured, over_budget } = contents[number];
            let parent = &mut contents[directory.parent as usize];
            parent.captured += captured;
            parent.over_budget += over_budget;
        }
    }
    let is_reported = |number: usize| {
        let content = &contents[number];
        known.directory_entry(number as u32).reach == Reach::Named
            && content.over_budget > 0
            && is_collapsed(content)
    };
    let topmost = (1..contents.len())
        .filter(|number| is_reported(*number))
        .filter(|number| !is_reported(known.directories[*number].parent as usize));
    let report = |number: usize| Uncovered {
        path: RelPath::new(known.directories[number].path.clone()).expect("not the root"),
        reason: UncoveredReason::OverBudget { size: contents[number].over_budget },
    };
    topmost.map(report).collect()
}

fn reason_of(entry: &CachedEntry) -> UncoveredReason {
    match entry.cause {
        Cause::TooLarge => UncoveredReason::TooLarge { size: entry.stat.size },
        Cause::None | Cause::Excluded => UncoveredReason::Excluded,
        Cause::Ignored => UncoveredReason::Ignored,
        Cause::Unreadable => {
            let number = i32::from_le_bytes(entry.oid.0[..4].try_into().expect("four bytes"));
            UncoveredReason::Unreadable { error: io::Error::from_raw_os_error(number).to_string() }
        }
        Cause::Special => UncoveredReason::Special,
        Cause::Changing => UncoveredReason::Changing,
        Cause::OverBudget => UncoveredReason::OverBudget { size: entry.stat.size },
        Cause::Private => UncoveredReason::Private,
    }
}
