//! The differences between a checkpoint and the current state, and between two checkpoints.

use std::path::Path;

use takeback_tree::{
    Diff, DiffError, DiffOptions, Oid, RelPath, Store, StoreError, Workspace, diff_trees,
};

use super::History;
use super::record::Checkpoint;
use super::take::TakeError;
use super::workspace::open_workspace;
use crate::Opened;
use crate::rollback::ChosenPaths;

/// The reason why a comparison failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum CompareError {
    #[error("{0} is neither in the checkpoint nor in the workspace")]
    NoSuchPath(RelPath),
    #[error("{0} is in neither of the two checkpoints")]
    InNeither(RelPath),
    #[error(transparent)]
    Open(#[from] TakeError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Diff(#[from] DiffError),
}

/// Compares the chosen paths in a checkpoint with their current state.
pub fn compare_with_present(
    opened: &Opened,
    workspace: &Workspace<'_>,
    history: &History,
    checkpoint: &Checkpoint,
    chosen: &ChosenPaths,
) -> Result<Diff, CompareError> {
    let diff = compare_tree(opened, workspace, history, &checkpoint.pin.tree, chosen)?;
    match find_missing(workspace.store(), &diff.from, &diff.to, chosen)? {
        Some(missing) => Err(CompareError::NoSuchPath(missing)),
        None => Ok(diff),
    }
}

/// Compares an earlier tree of a workspace with the current state. The workspace is the one that
/// `directory` belongs to.
pub fn compare_tree_with_present(
    opened: &Opened,
    directory: &Path,
    tree: &Oid,
) -> Result<Diff, CompareError> {
    let workspace = open_workspace(opened, directory)?;
    let history = History::read(workspace.store(), workspace.id())?;
    compare_tree(opened, &workspace, &history, tree, &ChosenPaths::default())
}

/// Compares the current states of two directories. Returns the changes that turn the first into the
/// second.
///
/// ```
/// use takeback_undo::history::compare_directories;
/// use takeback_undo::{OpenOptions, Opened};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let project = scratch.path().join("shop");
/// # std::fs::create_dir(&project)?;
/// # std::fs::write(project.join("cart.rs"), "struct Cart;\n")?;
/// # let opened = Opened::new(OpenOptions::new(scratch.path().join("home")));
/// let attempt = scratch.path().join("attempt");
/// std::fs::create_dir(&attempt)?;
/// std::fs::write(attempt.join("cart.rs"), "pub struct Cart;\n")?;
/// let diff = compare_directories(&opened, &project, &attempt)?;
/// assert_eq!(diff.changes[0].path.to_string(), "cart.rs");
/// # Ok(())
/// # }
/// ```
pub fn compare_directories(
    opened: &Opened,
    first: &Path,
    second: &Path,
) -> Result<Diff, CompareError> {
    let workspace = open_workspace(opened, first)?;
    let history = History::read(workspace.store(), workspace.id())?;
    let named = history.named_paths();
    let mut lock = opened.lock(&workspace)?;
    let capture = lock.capture(&opened.capture_options(workspace.path(), &named));
    let tree = capture.map_err(TakeError::from)?.tree;
    let _ = lock.finish(opened.system_time());
    compare_tree_with_present(opened, second, &tree)
}

fn compare_tree(
    opened: &Opened,
    workspace: &Workspace<'_>,
    history: &History,
    tree: &Oid,
    chosen: &ChosenPaths,
) -> Result<Diff, CompareError> {
    let mut lock = opened.lock(workspace)?;
    let options = DiffOptions { paths: find_plain(chosen), ..DiffOptions::new(&opened.rules) };
    let named = history.named_paths();
    let capture = opened.capture_options(workspace.path(), &named);
    let mut diff = lock.diff_to_present(tree, &capture, &options)?;
    keep_chosen(&mut diff, chosen);
    // Nothing is pinned: this only stores the stat cache for the next capture.
    let _ = lock.finish(opened.system_time());
    Ok(diff)
}

/// Compares the chosen paths in two checkpoints.
pub fn compare_checkpoints(
    opened: &Opened,
    store: &Store,
    from: &Checkpoint,
    to: &Checkpoint,
    chosen: &ChosenPaths,
) -> Result<Diff, CompareError> {
    let (from, to) = (from.pin.tree, to.pin.tree);
    let options = DiffOptions { paths: find_plain(chosen), ..DiffOptions::new(&opened.rules) };
    let mut found = diff_trees(store, &from, &to, &options).map_err(DiffError::Object)?;
    keep_chosen(&mut found, chosen);
    match find_missing(store, &from, &to, chosen)? {
        Some(missing) => Err(CompareError::InNeither(missing)),
        None => Ok(found),
    }
}

/// Returns the paths to compare. If the chosen paths include a pattern or an exclusion, the result
/// is empty, which means that all paths are compared.
fn find_plain(chosen: &ChosenPaths) -> &[RelPath] {
    if chosen.is_plain() { &chosen.included } else { &[] }
}

/// Removes the changes to paths that are not chosen.
fn keep_chosen(diff: &mut Diff, chosen: &ChosenPaths) {
    if !chosen.is_plain() {
        diff.changes.retain(|change| chosen.contains(&change.path));
    }
}

/// Finds the first of the chosen paths that neither tree contains.
fn find_missing(
    store: &Store,
    from: &Oid,
    to: &Oid,
    chosen: &ChosenPaths,
) -> Result<Option<RelPath>, DiffError> {
    for path in chosen.included.iter().filter(|path| !path.is_pattern()) {
        let is_in = |tree| Ok(store.find_entry(tree, path)?.is_some());
        let is_known = is_in(from).and_then(|is_known| Ok(is_known || is_in(to)?));
        if !is_known.map_err(DiffError::Object)? {
            return Ok(Some(path.clone()));
        }
    }
    Ok(None)
}
