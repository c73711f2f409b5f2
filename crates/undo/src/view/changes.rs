//! The changes that a turn or rollback made itself, and those that others made in the meantime.

use std::collections::{HashMap, HashSet};

use takeback_tree::{DiffOptions, Oid, RelPath, Store, StoreError, TreeChange, diff_trees};

use crate::Opened;
use crate::history::record::Checkpoint;
use crate::history::{History, WorkspaceRef, end_of_row, list_changes};

/// Lists the paths in a plan that a user would count as files: all except the directories that
/// contain other paths in the list.
///
/// ```
/// use takeback_tree::RelPath;
/// use takeback_undo::view::list_files;
///
/// # fn main() -> Result<(), takeback_tree::InvalidPath> {
/// let paths = [RelPath::new("docs")?, RelPath::new("docs/index.md")?, RelPath::new("empty")?];
/// assert_eq!(list_files(&paths), [&paths[1], &paths[2]]);
/// # Ok(())
/// # }
/// ```
pub fn list_files(paths: &[RelPath]) -> Vec<&RelPath> {
    let above: HashSet<RelPath> = paths.iter().filter_map(RelPath::parent).collect();
    paths.iter().filter(|path| !above.contains(*path)).collect()
}

/// Lists the changes that the turn of a checkpoint made. For a safety checkpoint, lists the changes
/// that its rollback made. If `paths` is not empty, lists only changes to these paths.
pub fn list_own_changes(
    opened: &Opened,
    workspace: &WorkspaceRef<'_>,
    history: &History,
    checkpoint: &Checkpoint,
    paths: &[RelPath],
) -> Result<Vec<TreeChange>, StoreError> {
    if let Some(done) = &checkpoint.record.rollback {
        let options = DiffOptions { paths, ..DiffOptions::new(opened.rules()) };
        let compared = diff_trees(workspace.store(), &checkpoint.pin.tree, &done.tree, &options);
        return Ok(compared?.changes);
    }
    let mut rows = history.rows();
    let Some(row) = rows.find(|row| row.steps().any(|step| step.pin.id == checkpoint.pin.id))
    else {
        return Ok(Vec::new());
    };
    let mut changes = list_changes(opened, workspace, &row)?;
    changes.retain(|change| {
        paths.is_empty() || paths.iter().any(|path| change.path.starts_with(path))
    });
    Ok(changes)
}

/// Lists the changes that others made while a turn was running: the differences between the turn's
/// beginning and its end, in files that the turn itself did not change. A row without a turn has no
/// such changes.
pub fn list_others_changes(
    opened: &Opened,
    workspace: &WorkspaceRef<'_>,
    history: &History,
    checkpoint: &Checkpoint,
) -> Result<Vec<TreeChange>, StoreError> {
    let mut rows = history.rows().filter(|row| row.turn().is_some());
    let Some(row) = rows.find(|row| row.steps().any(|step| step.pin.id == checkpoint.pin.id))
    else {
        return Ok(Vec::new());
    };
    let own: HashSet<RelPath> =
        list_changes(opened, workspace, &row)?.into_iter().map(|change| change.path).collect();
    let (from, to) = (row.first().pin.tree, end_of_row(history, &row));
    let compared = diff_trees(workspace.store(), &from, &to, &DiffOptions::new(opened.rules()))?;
    let is_others = |change: &TreeChange| !own.contains(&change.path);
    Ok(compared.changes.into_iter().filter(is_others).collect())
}

/// Maps the id of each row's first checkpoint to the paths that changed in the row. The result is
/// used to find rows, so it also contains the paths that others changed during a turn. Rows whose
/// trees cannot be read are left out. Stops early if `is_over` returns true.
pub fn list_changed_paths(
    store: &Store,
    history: &History,
    is_over: &dyn Fn() -> bool,
) -> HashMap<Oid, Vec<RelPath>> {
    let mut found = HashMap::new();
    for row in history.rows().take_while(|_| !is_over()) {
        let first = row.first();
        if let Ok(changes) = store.changed_paths(&first.pin.tree, &end_of_row(history, &row)) {
            found.insert(first.pin.id, changes.into_iter().map(|change| change.path).collect());
        }
    }
    found
}
