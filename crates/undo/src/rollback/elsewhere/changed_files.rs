//! The files outside the workspace that calls and rollbacks changed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use takeback_base::foreign;
use takeback_tree::{Mode, ObjectError, Oid, RelPath, Store};

use super::events::TakenBack;
use crate::history::History;
use crate::history::authorship::{Segment, Timeline};
use crate::history::claim::Doubt;
use crate::history::record::{CallRef, Checkpoint};

/// The files that calls and rollbacks changed in one directory outside the workspace. Here, an
/// event is one of these calls or rollbacks.
pub(super) struct ChangedFiles {
    certain: BTreeSet<RelPath>,
    /// The files that others may have changed.
    doubtful: BTreeSet<RelPath>,
    /// True if any file may have changed, because a call without a known end names no files. Such a
    /// call may even have deleted the whole directory.
    pub(super) is_everything: bool,
    /// True if the end of at least one call is unknown.
    pub(super) is_open: bool,
    /// The state after the last event whose end is known.
    pub(super) last: Option<Oid>,
}

impl ChangedFiles {
    pub(super) fn of(
        store: &Store,
        history: &History,
        taken_back: &TakenBack,
        events: &[&Checkpoint],
    ) -> Result<ChangedFiles, ObjectError> {
        let timeline = Timeline::of(history, None);
        let changes = timeline.collect_changes(store, |call, _| taken_back.contains(call))?;
        let is_doubtful = |segments: &[Segment]| {
            let mut doubts = segments.iter().filter_map(|segment| segment.doubt);
            doubts.any(|doubt| !matches!(doubt, Doubt::Late | Doubt::UnknownEnd))
        };
        let (doubtful, certain): (Vec<_>, Vec<_>) =
            changes.paths.into_iter().partition(|(_, segments)| is_doubtful(segments));
        let paths = |changes: Vec<(RelPath, _)>| changes.into_iter().map(|(path, _)| path);
        let mut certain: BTreeSet<RelPath> = paths(certain).collect();
        let mut doubtful: BTreeSet<RelPath> = paths(doubtful).collect();
        let (mut last, mut open): (_, Vec<&CallRef>) = (None, Vec::new());
        for Checkpoint { pin, record } in events {
            if let Some(done) = &record.rollback {
                match store.changed_paths(&pin.tree, &done.tree) {
                    Ok(changes) => {
                        let changes = changes.into_iter().map(|change| change.path);
                        certain.extend(changes.filter(|path| done.is_about(path)));
                    }
                    // The tree that the rollback produced was pruned, but the rollback's paths are
                    // known.
                    Err(_) if !done.paths.is_empty() => certain.extend(done.paths.iter().cloned()),
                    Err(error) => return Err(error),
                }
                last = Some(done.tree);
            } else if let Some(call) = &record.call {
                match call.began {
                    Some(_) => {
                        open.retain(|known| known.id != call.id);
                        last = Some(pin.tree);
                    }
                    None => open.push(call),
                }
            }
        }
        certain.extend(open.iter().flat_map(|call| call.named.iter().cloned()));
        let is_everything = open.iter().any(|call| call.named.is_empty());
        doubtful.retain(|path| !is_everything && !certain.contains(path));
        Ok(ChangedFiles { certain, doubtful, is_everything, is_open: !open.is_empty(), last })
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.certain.is_empty() && self.doubtful.is_empty() && !self.is_everything
    }

    /// Returns the paths that a plan is limited to. The list is empty if the plan is not limited.
    pub(super) fn paths(&self) -> Vec<RelPath> {
        let all = self.certain.union(&self.doubtful);
        all.filter(|_| !self.is_everything).cloned().collect()
    }

    /// Returns true if a change to a path is attributed to these events alone.
    pub(super) fn is_certain(&self, path: &RelPath) -> bool {
        self.is_everything || self.certain.contains(path)
    }

    /// Returns true if at least one file is still as the events left it, but was different before
    /// the events. If the end of a call is unknown, considers only files that the events deleted
    /// and that are still missing.
    pub(super) fn is_left_as_changed(&self, store: &Store, before: &Oid, place: &Path) -> bool {
        if self.is_open {
            let is_missing = |path: &Path| path.symlink_metadata().is_err();
            let was_there = |path: &RelPath| matches!(store.find_entry(before, path), Ok(Some(_)));
            return (self.is_everything && is_missing(place))
                || self
                    .certain
                    .iter()
                    .any(|path| was_there(path) && is_missing(&place.join(path.as_path())));
        }
        let Some(last) = &self.last else { return false };
        self.certain.iter().any(|path| {
            let then = store.find_entry(before, path).ok();
            let after = store.find_entry(last, path).ok();
            then.zip(after).is_some_and(|(then, after)| {
                then != after && is_on_disk(store, after, &place.join(path.as_path()))
            })
        })
    }
}

/// The maximum size of a file that is compared with the store.
const MAX_COMPARED: u64 = 512 << 20;

/// Returns true if the file or link at a path has the content of a tree's entry. Ignores the mode.
fn is_on_disk(store: &Store, entry: Option<(Mode, Oid)>, path: &Path) -> bool {
    let Some((mode, oid)) = entry else { return path.symlink_metadata().is_err() };
    let content = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => return mode.is_directory(),
        Ok(found) if found.is_symlink() => {
            fs::read_link(path).map(|target| target.into_os_string().into_vec())
        }
        _ => foreign::read_regular(path, MAX_COMPARED),
    };
    !mode.is_directory()
        && content.is_ok_and(|content| store.blob(&oid).is_ok_and(|known| known == content))
}
