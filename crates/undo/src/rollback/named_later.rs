//! Paths that a checkpoint does not cover, but that a later call named.
//!
//! An ignored directory or a large file is captured only when a call names it, and that call may
//! be, say, the fifth of a turn. A rollback to before the turn must restore such a path as well.
//! For this, takeback uses the state of the path in the first later capture that covers it: no
//! reported call had changed the path before that capture.

use std::collections::{BTreeMap, HashSet};
use std::iter::successors;

use takeback_tree::{NewContent, NewEntry, ObjectError, RelPath, Store, TreeEdit, Uncovered};

use super::planned::TargetState;
use crate::history::History;
use crate::history::record::Checkpoint;

/// For each path that a checkpoint does not cover, looks for the first later checkpoint that covers
/// the path. Returns the entries found there as edits of the checkpoint's tree, and removes their
/// paths from `state.uncovered`.
pub(super) fn find_named_later(
    store: &Store,
    history: &History,
    checkpoint: &Checkpoint,
    state: &mut TargetState,
) -> Result<Vec<TreeEdit>, ObjectError> {
    let uncovered: HashSet<&RelPath> = paths_of(&checkpoint.record.uncovered).collect();
    if uncovered.is_empty() {
        return Ok(Vec::new());
    }
    let mut found: BTreeMap<RelPath, NewEntry> = BTreeMap::new();
    // Paths whose state is known because a capture covered them, whether or not they existed. The
    // paths that the checkpoint's own call named are among them.
    let mut settled: Vec<RelPath> = Vec::new();
    settled.extend(completely_captured(checkpoint, &uncovered));
    let later = history.all.iter().filter(|known| known.pin.name.seq > checkpoint.pin.name.seq);
    for known in later.filter(|known| known.record.may_cover_more_than(&checkpoint.record)) {
        let left_out: HashSet<&RelPath> = paths_of(&known.record.uncovered).collect();
        for change in store.changed_paths(&checkpoint.pin.tree, &known.pin.tree)? {
            let (path, None, Some((mode, oid))) = (change.path, change.from, change.to) else {
                continue;
            };
            let is_settled = settled.iter().any(|settled| path.starts_with(settled));
            if !mode.is_directory() && is_below(&path, &uncovered) && !is_settled {
                let entry = NewEntry { mode, content: NewContent::Object(oid) };
                found.entry(path).or_insert(entry);
            }
        }
        settled.extend(completely_captured(known, &left_out));
        let is_covered = |path: &&&RelPath| !is_below(path, &left_out);
        settled.extend(uncovered.iter().filter(is_covered).map(|path| (*path).clone()));
    }
    state.uncovered.retain(|uncovered| !found.contains_key(&uncovered.path));
    Ok(found.into_iter().map(|(path, entry)| TreeEdit { path, to: Some(entry) }).collect())
}

/// Returns the paths that a checkpoint's call named, except those that were only partly captured,
/// for example because of the budget.
fn completely_captured(
    checkpoint: &Checkpoint,
    left_out: &HashSet<&RelPath>,
) -> impl Iterator<Item = RelPath> {
    let is_complete = |path: &&RelPath| !left_out.iter().any(|left| left.starts_with(path));
    checkpoint.record.named_paths().filter(is_complete).cloned()
}

/// Returns true if a path is one of the roots or below one.
fn is_below(path: &RelPath, roots: &HashSet<&RelPath>) -> bool {
    successors(Some(path.clone()), RelPath::parent).any(|above| roots.contains(&above))
}

fn paths_of(uncovered: &[Uncovered]) -> impl Iterator<Item = &RelPath> {
    uncovered.iter().map(|uncovered| &uncovered.path)
}
