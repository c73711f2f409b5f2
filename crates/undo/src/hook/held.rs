//! Held files: hard links to the files that a call names, made when the agent stops waiting for a
//! capture. A link costs no space and hardly any time, and keeps the content of a file that the
//! call deletes or replaces. The late capture reads the content from the link.
//!
//! A link does not help if the call writes into the file itself, or if takeback's home is on
//! another file system.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use takeback_base::durable;
use takeback_ledger::Time;
use takeback_tree::{
    AnyPath, Capture, EditError, Lock, MAX_OBJECT, Mode, NewContent, NewEntry, TreeEdit,
    can_be_made_again,
};

use super::call::{CallContext, analyze_call, call_key, may_mutate};
use super::protected::{ProtectedPath, find_mentions};
use super::report::{Report, ReportedEvent};
use super::state;
use crate::Opened;

/// The maximum number of files that are held for one call, and of paths that are examined to find
/// them.
const MAX_HELD: usize = 20_000;

/// Once the contents in memory are larger than this, they are written to the store.
const BATCH_BYTES: u64 = 64 << 20;

/// The name of the file that lists the held files of a call.
const LIST: &str = "list";

/// A file that is held. Its link is named after its position in the list.
#[derive(Serialize, Deserialize)]
struct HeldFile {
    path: AnyPath,
    permissions: u32,
}

/// Holds the files that a call names. A file that cannot be held is left out.
pub fn hold_files(opened: &Opened, report: &Report) {
    let ReportedEvent::BeforeTool(call) = &report.event else { return };
    let root = opened.find_root(&report.directory).ok();
    let analysis = analyze_call(opened, call, &report.directory, root.as_deref());
    // If the user does not want secrets captured, links must not keep them either.
    if !may_mutate(call, analysis.as_ref()) || opened.rules.skip_private {
        return;
    }
    let mentions = find_mentions(call, &report.directory, analysis.as_ref());
    let files = find_files(mentions.into_iter().map(|(path, _)| path).collect());
    if files.is_empty() {
        return;
    }
    let directory = held_directory(opened, &report.session_id(), &call_key(call).text);
    discard(&directory);
    if durable::create_directory(&directory).is_err() {
        return;
    }
    let mut held: Vec<HeldFile> = Vec::new();
    for (path, permissions) in files {
        if fs::hard_link(&path, directory.join(held.len().to_string())).is_ok() {
            held.push(HeldFile { path: AnyPath(path), permissions });
        }
    }
    // Without the list, the links are useless.
    if state::write(&directory.join(LIST), &held).is_err() {
        discard(&directory);
    }
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

/// Adds to a late capture those held files of a call that no longer exist at their paths. If this
/// fails, the capture stays as it is.
pub(super) fn add_held_files(
    opened: &Opened,
    call: &CallContext<'_>,
    path: &ProtectedPath,
    lock: &mut Lock<'_>,
    capture: &mut Capture,
) -> Result<(), EditError> {
    let directory = held_directory(opened, &call.reporter, &call.key.text);
    let held: Vec<HeldFile> = state::read(&directory.join(LIST)).unwrap_or_default();
    let mut budget = path.rules.max_named_size.min(MAX_OBJECT);
    let (mut tree, mut added, mut edits) = (capture.tree, Vec::new(), Vec::new());
    let mut batch = 0;
    for (number, file) in held.iter().enumerate() {
        let link = directory.join(number.to_string());
        let Some(inner) = path.relative(&file.path.0) else { continue };
        let size = fs::symlink_metadata(&link).map_or(u64::MAX, |found| found.len());
        if file.path.0.symlink_metadata().is_ok() || size > budget {
            continue;
        }
        let Ok(content) = fs::read(&link) else { continue };
        (budget, batch) = (budget - size, batch + size);
        let entry =
            NewEntry { mode: Mode::file(file.permissions), content: NewContent::Bytes(content) };
        edits.push(TreeEdit { path: inner.clone(), to: Some(entry) });
        added.push(inner);
        if batch > BATCH_BYTES {
            tree = lock.edit_tree(tree, &std::mem::take(&mut edits))?;
            batch = 0;
        }
    }
    if added.is_empty() {
        return Ok(());
    }
    capture.tree = lock.edit_tree(tree, &edits)?;
    capture.files += added.len() as u64;
    capture.uncovered.retain(|uncovered| !added.contains(&uncovered.path));
    Ok(())
}

/// Discards the held files of a call whose late capture is complete.
pub(super) fn discard_held_files(opened: &Opened, call: &CallContext<'_>) {
    discard(&held_directory(opened, &call.reporter, &call.key.text));
}

/// Discards held files of calls whose late capture was cut off long ago.
pub(crate) fn discard_old_held_files(opened: &Opened, oldest: Time) {
    for entry in fs::read_dir(held_root(opened)).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        if modified.is_ok_and(|modified| Time::from(modified) < oldest) {
            discard(&entry.path());
        }
    }
}

fn discard(directory: &Path) {
    let _ = fs::remove_dir_all(directory);
}

fn held_root(opened: &Opened) -> PathBuf {
    opened.checkpoints_directory().join("held")
}

fn held_directory(opened: &Opened, session: &str, call: &str) -> PathBuf {
    held_root(opened).join(state::file_name(&[session, call]))
}
