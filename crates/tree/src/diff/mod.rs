//! What differs between two trees.

mod hunks;
mod renames;
mod text;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use rayon::iter::{IntoParallelRefMutIterator, ParallelIterator};
use serde::{Serialize, Serializer};

use crate::capture::{CaptureError, CaptureOptions};
use crate::object::Mode;
use crate::oid::Oid;
use crate::path::{RelPath, join};
use crate::rules::{Matcher, Rules};
use crate::store::{ObjectError, Store};
use crate::workspace::Lock;

pub use text::Unified;

/// What to compare, and how far to look.
#[derive(Clone, Copy, Debug)]
pub struct DiffOptions<'a> {
    /// Say which files are private.
    pub rules: &'a Rules,
    /// Only these files and directories with all that is in them; everything if there are none.
    pub paths: &'a [RelPath],
    /// Look for files that moved.
    pub renames: bool,
    /// Count lines.
    pub counts: bool,
}

impl<'a> DiffOptions<'a> {
    /// Everything, with renames and counts.
    pub fn new(rules: &'a Rules) -> DiffOptions<'a> {
        DiffOptions { rules, paths: &[], renames: true, counts: true }
    }
}

/// The workspace could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    /// The present could not be captured.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// One of the trees is not whole.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

impl Lock<'_> {
    /// What changed from a tree to the workspace as it is now.
    pub fn diff(
        &mut self,
        from: &Oid,
        capture: &CaptureOptions<'_>,
        options: &DiffOptions<'_>,
    ) -> Result<Diff, DiffError> {
        let present = self.capture_readable(capture)?;
        Ok(diff(self.store(), from, &present.tree, options)?)
    }
}

/// What differs between two trees.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Diff {
    /// The tree before.
    pub from: Oid,
    /// The tree after.
    pub to: Oid,
    /// In the order of their paths; no path is in two of them.
    pub changes: Vec<Change>,
}

/// What happened to one path.
///
/// A directory that only one tree has is a change only if it is empty: otherwise its contents tell.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Change {
    /// Where; of something renamed, where it is now.
    pub path: RelPath,
    /// What happened.
    #[serde(flatten)]
    pub kind: ChangeKind,
    /// What was there before.
    pub from: Option<Side>,
    /// What is there after.
    pub to: Option<Side>,
    /// How many lines differ. `None` if there is nothing to count (a directory, a binary or private
    /// file) or if nobody asked.
    pub lines: Option<LineCounts>,
    /// Whether a side is no text, or too large to be compared by lines.
    pub binary: bool,
    /// Whether the content is never shown.
    pub private: bool,
}

/// What happened to a path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// Its content differs, and perhaps its permission bits.
    Modified,
    /// Only its permission bits differ.
    ModeChanged,
    /// It was a file, a directory or a symlink, and is another of these now.
    KindChanged,
    /// It was elsewhere, with the same content or much of it.
    Renamed {
        /// Where it was.
        #[serde(rename = "renamed_from")]
        from: RelPath,
    },
}

/// One side of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Side {
    /// Kind and permission bits; in JSON as git writes them (`"100644"`).
    #[serde(serialize_with = "octal")]
    pub mode: Mode,
    /// Content, link target or subtree.
    pub oid: Oid,
    /// The bytes of the content or the link target; 0 for a directory.
    pub size: u64,
}

fn octal<S: Serializer>(mode: &Mode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{:o}", mode.0))
}

/// How many lines came and went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LineCounts {
    /// Lines that only the tree after has.
    pub insertions: u64,
    /// Lines that only the tree before has.
    pub deletions: u64,
}

/// Compares two trees.
///
/// Every changed file is read, for its size and to tell text from binary content.
pub fn diff(
    store: &Store,
    from: &Oid,
    to: &Oid,
    options: &DiffOptions<'_>,
) -> Result<Diff, ObjectError> {
    let mut changes = walk(store, from, to, options)?;
    changes.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    if options.renames {
        changes = renames::find(store, changes)?;
        changes.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    }
    changes.par_iter_mut().try_for_each(|change| change.measure(store, options.counts))?;
    Ok(Diff { from: *from, to: *to, changes })
}

/// Compares two files or symlinks that need not be in any tree. `None` if they are the same.
pub fn compare_nodes(
    store: &Store,
    rules: &Rules,
    path: &RelPath,
    from: Option<(Mode, Oid)>,
    to: Option<(Mode, Oid)>,
) -> Result<Option<Change>, ObjectError> {
    let side = |node: Option<(Mode, Oid)>| node.map(|(mode, oid)| Side { mode, oid, size: 0 });
    let (from, to) = (side(from), side(to));
    let Some(kind) = kind_of_change(from, to) else { return Ok(None) };
    let private = Matcher::new(rules).is_private(path.as_bytes());
    let (path, lines, binary) = (path.clone(), None, false);
    let mut change = Change { path, kind, from, to, lines, binary, private };
    change.measure(store, true)?;
    Ok(Some(change))
}

/// A directory to compare. A side that is not there has the empty tree.
struct Pending {
    path: RelPath,
    from: Oid,
    to: Oid,
    /// Whether all that is in it was asked for.
    selected: bool,
}

/// The changes by path, without a look at contents. A stack instead of recursion: trees may be
/// thousands of levels deep.
fn walk(
    store: &Store,
    from: &Oid,
    to: &Oid,
    options: &DiffOptions<'_>,
) -> Result<Vec<Change>, ObjectError> {
    let matcher = Matcher::new(options.rules);
    let selection: BTreeSet<&[u8]> = options.paths.iter().map(RelPath::as_bytes).collect();
    let selected = selection.is_empty() || selection.contains(&b""[..]);
    let mut changes = Vec::new();
    let mut pending = vec![Pending { path: RelPath::root(), from: *from, to: *to, selected }];
    while let Some(directory) = pending.pop() {
        for (name, (from, to)) in differing_entries(store, &directory.from, &directory.to)? {
            let path = directory.path.join(&name);
            let selected = directory.selected || selection.contains(path.as_bytes());
            if !selected && !leads_to(&selection, &path) {
                continue;
            }
            if let Some(kind) = kind_of_change(from, to).filter(|_| selected) {
                let (path, lines, binary) = (path.clone(), None, false);
                let mut change = Change { path, kind, from, to, lines, binary, private: false };
                change.private = change.has_content() && matcher.is_private(change.path.as_bytes());
                changes.push(change);
            }
            let (from, to) = (subtree(from), subtree(to));
            if from != to {
                pending.push(Pending { path, from, to, selected });
            }
        }
    }
    Ok(changes)
}

/// What is before and after.
type Sides = (Option<Side>, Option<Side>);

/// What two trees have under each name, where that is not the same.
fn differing_entries(
    store: &Store,
    from: &Oid,
    to: &Oid,
) -> Result<BTreeMap<Vec<u8>, Sides>, ObjectError> {
    // By name and not in the order of the trees, where a directory sorts unlike a file.
    let mut entries: BTreeMap<Vec<u8>, Sides> = BTreeMap::new();
    let side = |mode, oid| Some(Side { mode, oid, size: 0 });
    for entry in store.tree(from)? {
        entries.entry(entry.name).or_default().0 = side(entry.mode, entry.oid);
    }
    for entry in store.tree(to)? {
        entries.entry(entry.name).or_default().1 = side(entry.mode, entry.oid);
    }
    entries.retain(|_, (from, to)| from != to);
    Ok(entries)
}

/// Whether something that was asked for is below this directory.
fn leads_to(selection: &BTreeSet<&[u8]>, directory: &RelPath) -> bool {
    let first = join(directory.as_bytes(), b"");
    selection.range(&first[..]..).next().is_some_and(|path| path.starts_with(&first))
}

fn subtree(side: Option<Side>) -> Oid {
    side.filter(|side| side.mode.is_directory()).map_or(Oid::EMPTY_TREE, |side| side.oid)
}

fn kind_of_change(from: Option<Side>, to: Option<Side>) -> Option<ChangeKind> {
    let tells = |side: Side| !side.mode.is_directory() || side.oid == Oid::EMPTY_TREE;
    match (from, to) {
        (None, None) => None,
        (None, Some(to)) => tells(to).then_some(ChangeKind::Added),
        (Some(from), None) => tells(from).then_some(ChangeKind::Deleted),
        (Some(from), Some(to)) if !from.mode.same_kind(to.mode) => Some(ChangeKind::KindChanged),
        (Some(from), Some(to)) if from.oid != to.oid && !to.mode.is_directory() => {
            Some(ChangeKind::Modified)
        }
        (Some(from), Some(to)) => (from.mode != to.mode).then_some(ChangeKind::ModeChanged),
    }
}

impl Change {
    /// Where it was before.
    fn old_path(&self) -> &RelPath {
        match &self.kind {
            ChangeKind::Renamed { from } => from,
            _ => &self.path,
        }
    }

    /// Whether a side is a file or a symlink.
    fn has_content(&self) -> bool {
        self.from.iter().chain(&self.to).any(|side| !side.mode.is_directory())
    }

    /// Fills in what only the contents tell.
    fn measure(&mut self, store: &Store, counts: bool) -> Result<(), ObjectError> {
        let old = content(store, self.from.as_ref())?;
        let new = content(store, self.to.as_ref())?;
        for (side, content) in [(&mut self.from, &old), (&mut self.to, &new)] {
            if let Some(side) = side {
                side.size = content.len() as u64;
            }
        }
        self.binary = text::is_binary(&old) || text::is_binary(&new);
        if counts && self.has_content() && !self.binary && !self.private {
            self.lines = Some(match self.kind {
                // Something went and something else came: they have no lines in common.
                ChangeKind::KindChanged => LineCounts {
                    insertions: hunks::count(b"", &new).insertions,
                    deletions: hunks::count(&old, b"").deletions,
                },
                _ => hunks::count(&old, &new),
            });
        }
        Ok(())
    }
}

/// The content of a file or the target of a symlink; nothing for what has neither.
fn content(store: &Store, side: Option<&Side>) -> Result<Vec<u8>, ObjectError> {
    match side {
        Some(side) if !side.mode.is_directory() => store.blob(&side.oid),
        _ => Ok(Vec::new()),
    }
}
