//! The result of a capture, as its caller sees it.

use std::io;

use super::cache::{CachedEntry, Cause, EntryKind, FileClass, Reach};
use super::known::KnownState;
use super::{Capture, Uncovered, UncoveredReason};
use crate::path::RelPath;
use crate::rules::{CaptureRules, Filter};

/// Summarises a state for the caller.
pub(super) fn summarize(known: &KnownState, rules: &CaptureRules) -> Capture {
    let cache = &known.cache;
    let mut capture = Capture {
        tree: cache.entries[0].oid,
        files: 0,
        uncovered: Vec::new(),
        filter: Filter { rules: rules.clone(), tracked: Vec::new() },
    };
    for directory in &known.directories {
        let entry = &cache.entries[directory.entry as usize];
        for child in cache.children(entry) {
            let path = || {
                let path = crate::path::join(&directory.path, cache.name(child));
                RelPath::new(path).expect("names from the kernel make a path")
            };
            match child.kind {
                EntryKind::File | EntryKind::Symlink => {
                    capture.files += 1;
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
    capture.uncovered.sort_by(|a, b| a.path.cmp(&b.path));
    capture
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
        Cause::Private => UncoveredReason::Private,
    }
}
