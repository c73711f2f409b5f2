//! Held files: copies of, or hard links to, the files that a call names. They are made when the
//! agent stops waiting for a capture. If the call has deleted or changed a file, the late capture
//! reads the earlier content from the held file.
//!
//! Small files are copied. Large files are linked, which costs no space and hardly any time. A link
//! does not help if the call writes into the file itself, or if takeback's home is on another file
//! system.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use takeback_base::{durable, foreign};
use takeback_ledger::Time;
use takeback_tree::{
    AnyPath, Capture, DATABASE_SUFFIXES, EditError, Lock, MAX_OBJECT, Mode, NewContent, NewEntry,
    TreeEdit, can_be_made_again,
};

use super::call::{CallContext, analyze_call, call_key, may_mutate};
use super::protected::{ProtectedPath, find_mentions};
use super::report::{Report, ReportedEvent};
use super::state::{self, CallKey};
use crate::Opened;

/// The maximum number of files that are held for one call, and of paths that are examined to find
/// them.
const MAX_HELD: usize = 20_000;

/// The maximum size of a file that is copied.
const MAX_COPIED: u64 = 1 << 20;

/// The maximum total size of the files that are copied for one call.
const MAX_COPIED_TOTAL: u64 = 16 << 20;

/// Once the contents in memory are larger than this, they are written to the store.
const BATCH_BYTES: u64 = 64 << 20;

/// The name of the file that lists the held files of a call.
const LIST: &str = "list";

/// A file that is held. Its copy or link is named after its position in the list.
#[derive(Serialize, Deserialize)]
struct HeldFile {
    path: AnyPath,
    permissions: u32,
}

/// The age at which a late capture can no longer be under way: its process ends after an hour.
const MAX_LATE: Duration = Duration::from_secs(3600);

/// The files that are held for a call.
#[derive(Debug)]
pub struct HeldFiles {
    directory: PathBuf,
}

impl HeldFiles {
    /// Discards the files, because the capture was completed in time.
    pub fn discard(self) {
        discard(&self.directory);
    }
}

/// Holds the files that a call names. A file that cannot be held is left out. Returns `None` if no
/// file is held.
pub fn hold_files(opened: &Opened, report: &Report) -> Option<HeldFiles> {
    let ReportedEvent::BeforeTool(call) = &report.event else { return None };
    let root = opened.find_root(&report.directory).ok();
    let analysis = analyze_call(opened, call, &report.directory, root.as_deref());
    // If the user does not want secrets captured, they must not be held either.
    if !may_mutate(call, analysis.as_ref()) || opened.rules.skip_private {
        return None;
    }
    let mentions = find_mentions(call, &report.directory, analysis.as_ref());
    let files = find_files(mentions.into_iter().map(|(path, _)| path).collect());
    if files.is_empty() {
        return None;
    }
    let directory = create_held_directory(opened, &report.session_id(), &call_key(call))?;
    let mut held: Vec<HeldFile> = Vec::new();
    let mut left = MAX_COPIED_TOTAL;
    for (path, permissions) in files {
        if hold_file(&path, &directory.join(held.len().to_string()), &mut left).is_ok() {
            held.push(HeldFile { path: AnyPath(path), permissions });
        }
    }
    // Without the list, the held files are useless.
    if state::write(&directory.join(LIST), &held).is_err() {
        discard(&directory);
        return None;
    }
    Some(HeldFiles { directory })
}

/// Copies a small file, and links a large one. If there is no space for the copy of a small file,
/// links the file instead. `left` is the total size of the files that may still be copied.
fn hold_file(path: &Path, held: &Path, left: &mut u64) -> io::Result<()> {
    if let Ok(content) = foreign::read_regular(path, MAX_COPIED.min(*left)) {
        *left -= content.len() as u64;
        let written = durable::create_new_file(held).and_then(|mut copy| copy.write_all(&content));
        if written.is_ok() {
            return Ok(());
        }
        durable::ignore_missing(fs::remove_file(held))?;
    }
    fs::hard_link(path, held)
}

/// Creates a directory for the held files of a call. If an identical call without a name is still
/// being captured, that call keeps its own directory.
fn create_held_directory(opened: &Opened, session: &str, key: &CallKey) -> Option<PathBuf> {
    durable::create_directory(&held_root(opened)).ok()?;
    let oldest = opened.now().minus(MAX_LATE);
    held_directories(opened, session, key).find(|directory| {
        if key.is_name || is_older(directory, oldest) {
            discard(directory);
        }
        durable::create_new_directory(directory).is_ok()
    })
}

/// Finds the regular files at and below some paths, each with its permissions.
fn find_files(mut waiting: Vec<PathBuf>) -> Vec<(PathBuf, u32)> {
    waiting.reverse();
    let mut files = Vec::new();
    let mut looked_at = 0;
    while let Some(path) = waiting.pop() {
        looked_at += 1;
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        if looked_at > MAX_HELD || name == b".git" || can_be_made_again(name, false) {
            continue;
        }
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if found.is_file() {
            files.push((path, found.mode() & 0o777));
        } else if found.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            waiting.extend(entries.take(MAX_HELD).map(|entry| entry.path()));
        }
    }
    files
}

/// For each held file whose original has since been deleted, replaced or changed, adds the held
/// content to the call's late capture. If this fails, the capture is not changed.
pub(super) fn add_held_files(
    opened: &Opened,
    call: &CallContext<'_>,
    path: &ProtectedPath,
    lock: &mut Lock<'_>,
    capture: &mut Capture,
) -> Result<(), EditError> {
    let held = list_held_files(opened, call);
    let mut budget = path.rules.max_named_size.min(MAX_OBJECT);
    let (mut tree, mut added, mut edits) = (capture.tree, HashSet::new(), Vec::new());
    let (mut batch, mut new) = (0, 0);
    for (link, file) in held {
        let Some(inner) = path.relative(&file.path.0) else { continue };
        let Ok(found) = fs::symlink_metadata(&link) else { continue };
        let id = |found: &fs::Metadata| (found.dev(), found.ino());
        let present = file.path.0.symlink_metadata();
        let is_linked = present.as_ref().is_ok_and(|present| id(present) == id(&found));
        let size = found.len();
        if is_linked || added.contains(&inner) || size > budget {
            continue;
        }
        let Ok(content) = fs::read(&link) else { continue };
        let is_unchanged =
            || foreign::read_regular(&file.path.0, size).is_ok_and(|present| present == content);
        if present.is_ok() && (belongs_to_database(&file.path.0, &content) || is_unchanged()) {
            continue;
        }
        new += u64::from(present.is_err());
        (budget, batch) = (budget - size, batch + size);
        let entry =
            NewEntry { mode: Mode::file(file.permissions), content: NewContent::Bytes(content) };
        edits.push(TreeEdit { path: inner.clone(), to: Some(entry) });
        added.insert(inner);
        if batch > BATCH_BYTES {
            tree = lock.edit_tree(tree, &std::mem::take(&mut edits))?;
            batch = 0;
        }
    }
    if added.is_empty() {
        return Ok(());
    }
    capture.tree = lock.edit_tree(tree, &edits)?;
    capture.files += new;
    capture.uncovered.retain(|uncovered| !added.contains(&uncovered.path));
    Ok(())
}

/// Returns true if a file is a SQLite database or is next to one. Such a file must not be combined
/// with files from another moment.
fn belongs_to_database(path: &Path, content: &[u8]) -> bool {
    let name = path.as_os_str().as_encoded_bytes();
    content.starts_with(b"SQLite format 3\0")
        || DATABASE_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// Lists the held files of a call, each with its link. Identical calls without a name cannot be
/// told apart, so the files of all these calls are listed, beginning with those of the first call.
/// An extra file in a checkpoint does less harm than a missing file.
fn list_held_files(opened: &Opened, call: &CallContext<'_>) -> Vec<(PathBuf, HeldFile)> {
    let mut files = Vec::new();
    for directory in held_directories(opened, &call.reporter, &call.key) {
        let held: Vec<HeldFile> = state::read(&directory.join(LIST)).unwrap_or_default();
        let links = (0..).map(|number: usize| directory.join(number.to_string()));
        files.extend(links.zip(held));
    }
    files
}

/// Discards the held files of a call whose late capture is complete. If there are several identical
/// calls, the files of the last one are discarded first, because the files of the first call may
/// also be needed for the other calls.
pub(super) fn discard_held_files(opened: &Opened, call: &CallContext<'_>) {
    let directories = held_directories(opened, &call.reporter, &call.key);
    if let Some(last) = directories.filter(|directory| directory.exists()).last() {
        discard(&last);
    }
}

/// Discards held files of calls whose late capture was cut off long ago.
pub(crate) fn discard_old_held_files(opened: &Opened, oldest: Time) {
    for entry in fs::read_dir(held_root(opened)).into_iter().flatten().flatten() {
        if is_older(&entry.path(), oldest) {
            discard(&entry.path());
        }
    }
}

/// Returns true if a directory exists and was last changed before the given time.
fn is_older(directory: &Path, oldest: Time) -> bool {
    let modified = fs::metadata(directory).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|modified| Time::from(modified) < oldest)
}

fn discard(directory: &Path) {
    let _ = fs::remove_dir_all(directory);
}

fn held_root(opened: &Opened) -> PathBuf {
    opened.checkpoints_directory().join("held")
}

/// Returns the directories that the held files of a call may be in: one if the call has a name, and
/// several if there may be identical calls.
fn held_directories<'a>(
    opened: &Opened,
    session: &'a str,
    key: &'a CallKey,
) -> impl Iterator<Item = PathBuf> + 'a {
    let root = held_root(opened);
    key.file_names().map(move |name| root.join(state::file_name(&[session, &name])))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_file_is_linked_if_there_is_no_space_for_a_copy() {
        let scratch = tempfile::tempdir().unwrap();
        let disk = scratch.path();
        let mount = ["-t", "tmpfs", "-o", "size=64k", "none"];
        if !Command::new("mount").args(mount).arg(disk).status().unwrap().success() {
            let _ = writeln!(io::stderr(), "skipped: this user cannot mount a file system");
            return;
        }
        let (path, held) = (disk.join("file"), disk.join("held"));
        fs::write(&path, [1; 8192]).unwrap();
        let mut balloon = fs::File::create(disk.join("balloon")).unwrap();
        while balloon.write_all(&[0; 512]).is_ok() {}
        let outcome = hold_file(&path, &held, &mut MAX_COPIED_TOTAL.clone());
        let content = fs::read(&held);
        drop(balloon);
        assert!(Command::new("umount").arg("-l").arg(disk).status().unwrap().success());
        outcome.unwrap();
        assert_eq!(content.unwrap(), [1; 8192]);
    }
}
