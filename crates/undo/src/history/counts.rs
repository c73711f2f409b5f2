//! The numbers of changes that the list shows. They are computed once, in the background if
//! possible, and then cached.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use takeback_tree::{
    CaptureRules, DiffOptions, Mode, ObjectError, Oid, RelPath, Store, StoreError, TreeChange,
    compare_nodes, diff_trees,
};

use super::authorship::Timeline;
use super::record::Kind;
use super::{History, Row, WorkspaceRef};
use crate::Opened;
use crate::hook::state;

/// The numbers of changed files and lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ChangeCounts {
    pub files: u64,
    pub insertions: u64,
    pub deletions: u64,
}

/// The counts of a row, and the number of the last checkpoint that they include.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct KeptCounts {
    until: u64,
    #[serde(flatten)]
    counts: ChangeCounts,
}

/// Counts the changes in each of the newest `limit` rows. These are the changes that the calls of a
/// turn made, or the changes between a manual checkpoint and the next row. Returns the counts in
/// the order of the rows, with `None` for a row whose changes are not known yet.
pub(crate) fn count_changes(
    opened: &Opened,
    workspace: &WorkspaceRef<'_>,
    history: &History,
    limit: usize,
) -> Vec<Option<ChangeCounts>> {
    let store = workspace.store;
    let path = workspace.hook_state().counts_path();
    let known: BTreeMap<u64, KeptCounts> = state::read(&path).unwrap_or_default();
    let mut counted = BTreeMap::new();
    let mut timeline = None;
    let mut all = Vec::new();
    for row in history.rows().take(limit) {
        let seq = row.first().pin.name.seq;
        let Some(until) = last_counted(history, &row) else {
            all.push(None);
            continue;
        };
        let entry = match known.get(&seq).filter(|known| known.until == until) {
            Some(known) => Some(*known),
            None => {
                let timeline = timeline.get_or_insert_with(|| Timeline::of(history, None));
                // A row whose trees cannot be read has no counts. `checkpoints verify` reports the
                // damage.
                let counts = count_row(store, history, timeline, &row, &opened.rules).ok();
                counts.map(|counts| KeptCounts { until, counts })
            }
        };
        if let Some(entry) = entry {
            counted.insert(seq, entry);
        }
        all.push(entry.map(|entry| entry.counts));
    }
    // The counts of only some rows must not replace the cached counts of all rows.
    if timeline.is_some() && limit >= history.rows().count() {
        // If this fails, the changes are counted again for the next list.
        let _ = state::write(&path, &counted);
    }
    all
}

/// Returns the number of the last checkpoint that a row's counts include, or `None` if its changes
/// are not known yet.
fn last_counted(history: &History, row: &Row<'_>) -> Option<u64> {
    let successor = row.successor().map(|next| next.first().pin.name.seq);
    match row.turn() {
        None => successor,
        Some(_) => {
            let newest = history.all.last()?.pin.name.seq;
            // A call without a known end is assumed to run until the next known state.
            let last = row.last().pin.name.seq;
            let is_known = last > row.first().pin.name.seq || newest > last;
            is_known.then_some(last.max(successor.unwrap_or(0)))
        }
    }
}

/// Lists a row's changed files, sorted by path: the files that a turn's calls changed, or the files
/// that changed between a manual checkpoint and the next row.
pub fn list_changes(
    opened: &Opened,
    workspace: &WorkspaceRef<'_>,
    row: &Row<'_>,
) -> Result<Vec<TreeChange>, StoreError> {
    let timeline = Timeline::of(row.history(), None);
    Ok(collect_row(workspace.store, row.history(), &timeline, row, &opened.rules)?)
}

/// Finds the rows in which a file or directory changed. Returns the ids of their first checkpoints.
pub fn find_rows_with_path(
    store: &Store,
    history: &History,
    path: &RelPath,
) -> Result<HashSet<Oid>, StoreError> {
    let mut known: HashMap<Oid, Option<(Mode, Oid)>> = HashMap::new();
    let mut find = |tree: Oid| match known.get(&tree) {
        Some(found) => Ok(*found),
        None => {
            let found = store.find_entry(&tree, path)?;
            known.insert(tree, found);
            Ok::<_, ObjectError>(found)
        }
    };
    let mut rows = HashSet::new();
    for row in history.rows() {
        let first = row.first();
        if find(first.pin.tree)? != find(end_of_row(history, &row))? {
            rows.insert(first.pin.id);
        }
    }
    Ok(rows)
}

/// Returns the tree at the end of a row: after the turn, or at the next row.
pub(crate) fn end_of_row(history: &History, row: &Row<'_>) -> Oid {
    if row.turn().is_none() {
        return row.successor().unwrap_or(*row).first().pin.tree;
    }
    let last = row.last();
    // If the end of the last call is not known, the next state is used instead.
    let next = history.all.partition_point(|known| known.pin.name.seq <= last.pin.name.seq);
    let next = history.all.get(next).filter(|_| last.record.kind == Kind::Call);
    next.unwrap_or(last).pin.tree
}

/// Counts the changes in one row.
fn count_row(
    store: &Store,
    history: &History,
    timeline: &Timeline<'_>,
    row: &Row<'_>,
    rules: &CaptureRules,
) -> Result<ChangeCounts, ObjectError> {
    let changes = collect_row(store, history, timeline, row, rules)?;
    let mut counts = ChangeCounts { files: changes.len() as u64, ..ChangeCounts::default() };
    for lines in changes.iter().filter_map(|change| change.lines) {
        counts.insertions += lines.insertions;
        counts.deletions += lines.deletions;
    }
    Ok(counts)
}

/// Collects one row's changes to files and symlinks, sorted by path.
fn collect_row(
    store: &Store,
    history: &History,
    timeline: &Timeline<'_>,
    row: &Row<'_>,
    rules: &CaptureRules,
) -> Result<Vec<TreeChange>, ObjectError> {
    let from = row.first().pin.tree;
    let to = end_of_row(history, row);
    if row.turn().is_none() {
        return diff_files(store, rules, from, to, &[]);
    }
    let mut changes = Vec::new();
    let mut paths = Vec::new();
    for (path, segments) in timeline.collect_changes(store, |_, of| of == Some(row.number))?.paths {
        let before = segments.first().and_then(|segment| segment.before);
        let after = segments.last().and_then(|segment| segment.after);
        // A file that was captured only because a call named it can be missing from one of the
        // trees.
        if store.find_entry(&from, &path)? == before && store.find_entry(&to, &path)? == after {
            paths.push(path);
        } else {
            let change = compare_nodes(store, rules, &path, before, after)?;
            changes.extend(change.filter(is_file_change));
        }
    }
    if !paths.is_empty() {
        changes.extend(diff_files(store, rules, from, to, &paths)?);
        changes.sort_by(|a, b| a.path.cmp(&b.path));
    }
    Ok(changes)
}

/// Lists the changes to files and symlinks between two trees.
fn diff_files(
    store: &Store,
    rules: &CaptureRules,
    from: Oid,
    to: Oid,
    paths: &[RelPath],
) -> Result<Vec<TreeChange>, ObjectError> {
    let options = DiffOptions { paths, ..DiffOptions::new(rules) };
    let mut changes = diff_trees(store, &from, &to, &options)?.changes;
    changes.retain(is_file_change);
    Ok(changes)
}

fn is_file_change(change: &TreeChange) -> bool {
    change.from.iter().chain(&change.to).any(|side| !side.mode.is_directory())
}
