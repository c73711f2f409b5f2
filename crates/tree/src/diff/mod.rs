//! The differences between two trees, as shown to users: changed paths, renames, lines.

mod hunks;
mod renames;
mod text;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use rayon::iter::{IntoParallelRefMutIterator, ParallelIterator};
use serde::{Serialize, Serializer};

use crate::capture::{CaptureError, CaptureOptions};
use crate::lock::Lock;
use crate::object::Mode;
use crate::oid::Oid;
use crate::path::{RelPath, join};
use crate::rules::{CaptureRules, Matcher};
use crate::store::{ObjectError, Store};
use crate::threads::prepare_threads;

pub use hunks::{Hunk, find_hunks, split_lines};
pub use text::UnifiedDiff;

/// The options for a comparison.
#[derive(Clone, Copy, Debug)]
pub struct DiffOptions<'a> {
    /// The rules that determine which files are private.
    pub rules: &'a CaptureRules,
    /// The files and directories to compare, with everything below them. If empty, everything is
    /// compared.
    pub paths: &'a [RelPath],
    /// True if renamed files are to be detected.
    pub renames: bool,
    /// True if lines are to be counted.
    pub counts: bool,
}

impl<'a> DiffOptions<'a> {
    /// Returns options that compare everything, detect renames and count lines.
    pub fn new(rules: &'a CaptureRules) -> DiffOptions<'a> {
        DiffOptions { rules, paths: &[], renames: true, counts: true }
    }
}

/// The reason why a workspace could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    /// The current state could not be captured.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// One of the trees is damaged.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

impl Lock<'_> {
    /// Captures the workspace and returns the differences between a tree and the current state.
    pub fn diff_to_present(
        &mut self,
        from: &Oid,
        capture: &CaptureOptions<'_>,
        options: &DiffOptions<'_>,
    ) -> Result<Diff, DiffError> {
        let present = self.capture_readable(capture)?;
        Ok(diff_trees(self.store(), from, &present.tree, options)?)
    }
}

/// The differences between two trees.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Diff {
    /// The old tree.
    pub from: Oid,
    /// The new tree.
    pub to: Oid,
    /// The changes, sorted by path. Each path has at most one change.
    pub changes: Vec<TreeChange>,
}

/// The change to one path.
///
/// A directory that exists in only one tree is listed as a change only if it is empty. Otherwise,
/// the changes to the paths in the directory are listed instead.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct TreeChange {
    /// The path. For a renamed file, this is the new path.
    pub path: RelPath,
    #[serde(flatten)]
    pub kind: ChangeKind,
    /// The file, symlink or directory in the old tree.
    pub from: Option<ChangeSide>,
    /// The file, symlink or directory in the new tree.
    pub to: Option<ChangeSide>,
    /// The numbers of inserted and deleted lines. `None` if there are no lines to count (a
    /// directory, a binary or private file) or if [`DiffOptions::counts`] is false.
    pub lines: Option<LineCounts>,
    /// True if either side is not text, or is too large to be compared line by line.
    pub binary: bool,
    /// True if the file is private, which means that its content is never shown.
    pub private: bool,
}

/// The kind of a change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum ChangeKind {
    Added,
    Deleted,
    /// The content differs; the permission bits may also differ.
    Modified,
    /// Only the permission bits differ.
    ModeChanged,
    /// A file, directory or symlink was replaced by something of another kind.
    KindChanged,
    /// The file moved to another path with the same or similar content.
    Renamed {
        #[serde(rename = "renamed_from")]
        from: RelPath,
    },
}

/// One side of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct ChangeSide {
    /// The kind and permission bits. In JSON, they are written as in git (`"100644"`).
    #[serde(serialize_with = "serialize_octal")]
    pub mode: Mode,
    /// The id of the content, the link target or the tree.
    pub oid: Oid,
    /// The size in bytes of the content or the link target; 0 for a directory.
    pub size: u64,
}

fn serialize_octal<S: Serializer>(mode: &Mode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{:o}", mode.0))
}

/// The numbers of inserted and deleted lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LineCounts {
    /// The number of lines that only the new tree has.
    pub insertions: u64,
    /// The number of lines that only the old tree has.
    pub deletions: u64,
}

/// Compares two trees.
///
/// Every changed file is read, to determine its size and to tell text from binary content.
///
/// ```
/// use takeback_tree::{
///     CaptureOptions, CaptureRules, ChangeKind, DiffOptions, LineCounts, Store, diff_trees,
/// };
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let project = scratch.path().join("shop");
/// # std::fs::create_dir(&project)?;
/// # std::fs::write(project.join("cart.rs"), "struct Cart;\n")?;
/// # let store = Store::open(scratch.path().join("store"))?;
/// # let workspace = store.workspace(&project, &Default::default())?;
/// # let mut lock = workspace.lock()?;
/// # let now = std::time::SystemTime::now();
/// # let rules = CaptureRules::default();
/// # let options = CaptureOptions { rules: &rules, named: &[], swept: &[], now };
/// let before = lock.capture(&options)?.tree;
/// lock.pin(before, now, "")?;
/// std::fs::write(project.join("cart.rs"), "pub struct Cart;\n")?;
/// let after = lock.capture(&options)?.tree;
/// lock.pin(after, now, "")?;
///
/// let diff = diff_trees(&store, &before, &after, &DiffOptions::new(&rules))?;
/// assert_eq!(diff.changes[0].path.to_string(), "cart.rs");
/// assert_eq!(diff.changes[0].kind, ChangeKind::Modified);
/// assert_eq!(diff.changes[0].lines, Some(LineCounts { insertions: 1, deletions: 1 }));
/// # Ok(())
/// # }
/// ```
pub fn diff_trees(
    store: &Store,
    from: &Oid,
    to: &Oid,
    options: &DiffOptions<'_>,
) -> Result<Diff, ObjectError> {
    let mut changes = find_changes(store, from, to, options)?;
    changes.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    if options.renames {
        changes = renames::join_renames(store, changes)?;
        changes.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    }
    prepare_threads();
    changes.par_iter_mut().try_for_each(|change| change.measure(store, options.counts))?;
    Ok(Diff { from: *from, to: *to, changes })
}

/// Compares two files or symlinks, which need not be in any tree. Returns `None` if they are equal.
pub fn compare_nodes(
    store: &Store,
    rules: &CaptureRules,
    path: &RelPath,
    from: Option<(Mode, Oid)>,
    to: Option<(Mode, Oid)>,
) -> Result<Option<TreeChange>, ObjectError> {
    let side =
        |node: Option<(Mode, Oid)>| node.map(|(mode, oid)| ChangeSide { mode, oid, size: 0 });
    let (from, to) = (side(from), side(to));
    let Some(kind) = kind_of_change(from, to) else { return Ok(None) };
    let private = Matcher::new(rules).is_private(path.as_bytes());
    let (path, lines, binary) = (path.clone(), None, false);
    let mut change = TreeChange { path, kind, from, to, lines, binary, private };
    change.measure(store, true)?;
    Ok(Some(change))
}

/// A directory that still has to be compared. A missing side is represented by the empty tree.
struct PendingDirectory {
    path: RelPath,
    from: Oid,
    to: Oid,
    /// True if the caller asked for everything in the directory.
    selected: bool,
}

/// Finds the changed paths without reading contents. Uses a stack instead of recursion, because
/// trees may be thousands of levels deep.
fn find_changes(
    store: &Store,
    from: &Oid,
    to: &Oid,
    options: &DiffOptions<'_>,
) -> Result<Vec<TreeChange>, ObjectError> {
    let matcher = Matcher::new(options.rules);
    let selection: BTreeSet<&[u8]> = options.paths.iter().map(RelPath::as_bytes).collect();
    let selected = selection.is_empty() || selection.contains(&b""[..]);
    let mut changes = Vec::new();
    let root = RelPath::root();
    let mut pending = vec![PendingDirectory { path: root, from: *from, to: *to, selected }];
    while let Some(directory) = pending.pop() {
        for (name, (from, to)) in differing_entries(store, &directory.from, &directory.to)? {
            let path = directory.path.join(&name);
            let selected = directory.selected || selection.contains(path.as_bytes());
            if !selected && !leads_to(&selection, &path) {
                continue;
            }
            if let Some(kind) = kind_of_change(from, to).filter(|_| selected) {
                let (path, lines, binary) = (path.clone(), None, false);
                let mut change = TreeChange { path, kind, from, to, lines, binary, private: false };
                change.private = change.has_content() && matcher.is_private(change.path.as_bytes());
                changes.push(change);
            }
            let (from, to) = (tree_of(from), tree_of(to));
            if from != to {
                pending.push(PendingDirectory { path, from, to, selected });
            }
        }
    }
    Ok(changes)
}

/// A file, symlink or directory in the old and in the new tree.
type Sides = (Option<ChangeSide>, Option<ChangeSide>);

/// Finds the names whose entries differ between two trees.
fn differing_entries(
    store: &Store,
    from: &Oid,
    to: &Oid,
) -> Result<BTreeMap<Vec<u8>, Sides>, ObjectError> {
    // Entries are matched by name, because a directory and a file with the same name have different
    // positions in git's order.
    let mut entries: BTreeMap<Vec<u8>, Sides> = BTreeMap::new();
    let side = |mode, oid| Some(ChangeSide { mode, oid, size: 0 });
    for entry in store.tree(from)? {
        entries.entry(entry.name).or_default().0 = side(entry.mode, entry.oid);
    }
    for entry in store.tree(to)? {
        entries.entry(entry.name).or_default().1 = side(entry.mode, entry.oid);
    }
    entries.retain(|_, (from, to)| from != to);
    Ok(entries)
}

/// True if a requested path is below this directory.
fn leads_to(selection: &BTreeSet<&[u8]>, directory: &RelPath) -> bool {
    let first = join(directory.as_bytes(), b"");
    selection.range(&first[..]..).next().is_some_and(|path| path.starts_with(&first))
}

/// Returns the tree of a directory, or the empty tree for anything else.
fn tree_of(side: Option<ChangeSide>) -> Oid {
    side.filter(|side| side.mode.is_directory()).map_or(Oid::EMPTY_TREE, |side| side.oid)
}

fn kind_of_change(from: Option<ChangeSide>, to: Option<ChangeSide>) -> Option<ChangeKind> {
    let is_shown = |side: ChangeSide| !side.mode.is_directory() || side.oid == Oid::EMPTY_TREE;
    match (from, to) {
        (None, None) => None,
        (None, Some(to)) => is_shown(to).then_some(ChangeKind::Added),
        (Some(from), None) => is_shown(from).then_some(ChangeKind::Deleted),
        (Some(from), Some(to)) if !from.mode.is_same_kind(to.mode) => Some(ChangeKind::KindChanged),
        (Some(from), Some(to)) if from.oid != to.oid && !to.mode.is_directory() => {
            Some(ChangeKind::Modified)
        }
        (Some(from), Some(to)) => (from.mode != to.mode).then_some(ChangeKind::ModeChanged),
    }
}

impl TreeChange {
    /// Returns the path before the change.
    pub fn old_path(&self) -> &RelPath {
        match &self.kind {
            ChangeKind::Renamed { from } => from,
            _ => &self.path,
        }
    }

    /// True if at least one side is a file or a symlink.
    fn has_content(&self) -> bool {
        self.from.iter().chain(&self.to).any(|side| !side.mode.is_directory())
    }

    /// Fills in the fields that depend on the contents.
    fn measure(&mut self, store: &Store, counts: bool) -> Result<(), ObjectError> {
        let old = read_content(store, self.from.as_ref())?;
        let new = read_content(store, self.to.as_ref())?;
        for (side, content) in [(&mut self.from, &old), (&mut self.to, &new)] {
            if let Some(side) = side {
                side.size = content.len() as u64;
            }
        }
        self.binary = text::is_binary(&old) || text::is_binary(&new);
        if counts && self.has_content() && !self.binary && !self.private {
            self.lines = Some(match self.kind {
                // A file and a symlink that replaces it have no lines in common.
                ChangeKind::KindChanged => LineCounts {
                    insertions: hunks::count_lines(b"", &new).insertions,
                    deletions: hunks::count_lines(&old, b"").deletions,
                },
                _ => hunks::count_lines(&old, &new),
            });
        }
        Ok(())
    }
}

/// Reads the content of a file or the target of a symlink. Anything else has no content.
fn read_content(store: &Store, side: Option<&ChangeSide>) -> Result<Vec<u8>, ObjectError> {
    match side {
        Some(side) if !side.mode.is_directory() => store.blob(&side.oid),
        _ => Ok(Vec::new()),
    }
}
