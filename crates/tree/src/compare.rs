//! Comparing two trees: finds every path at which they differ.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::object::{Mode, OwnedEntry};
use crate::oid::Oid;
use crate::path::RelPath;
use crate::store::{ObjectError, Store};

/// A file, symlink or directory in a tree.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) mode: Mode,
    pub(crate) oid: Oid,
}

/// A path at which two trees differ, found by [`Store::changed_paths`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct PathChange {
    pub path: RelPath,
    /// The entry in the first tree.
    pub from: Option<(Mode, Oid)>,
    /// The entry in the second tree.
    pub to: Option<(Mode, Oid)>,
}

impl Store {
    /// Finds the entry at a path in a tree. The root is treated as a directory without permission
    /// bits.
    pub fn find_entry(
        &self,
        tree: &Oid,
        path: &RelPath,
    ) -> Result<Option<(Mode, Oid)>, ObjectError> {
        Ok(find_node(self, *tree, path)?.map(|node| (node.mode, node.oid)))
    }

    /// Finds all paths at which two trees differ, sorted. A directory differs if only one tree has
    /// it or if its permissions differ. Differences below it are listed separately.
    pub fn changed_paths(&self, from: &Oid, to: &Oid) -> Result<Vec<PathChange>, ObjectError> {
        let known = |node: Option<Node>| node.map(|node| (node.mode, node.oid));
        let changes = compare_trees(self, *from, *to)?.into_iter();
        let change =
            |Difference { path, from, to }| PathChange { path, from: known(from), to: known(to) };
        Ok(changes.map(change).collect())
    }
}

/// A path at which two trees differ. A directory differs if only one tree has it or if its mode
/// differs. Paths below it have differences of their own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Difference {
    pub(crate) path: RelPath,
    pub(crate) from: Option<Node>,
    pub(crate) to: Option<Node>,
}

/// Finds all differences between two trees, each directory before its content.
pub(crate) fn compare_trees(
    store: &Store,
    from: Oid,
    to: Oid,
) -> Result<Vec<Difference>, ObjectError> {
    let mut differences = Vec::new();
    let mut pending = vec![(RelPath::root(), Some(from), Some(to))];
    while let Some((directory, from, to)) = pending.pop() {
        if from == to {
            continue;
        }
        let read = |tree: Option<Oid>| tree.map_or(Ok(Vec::new()), |tree| read_sorted(store, tree));
        for (name, from, to) in pair_by_name(read(from)?, read(to)?) {
            if from == to {
                continue;
            }
            let path = directory.join(&name);
            let below = |node: Option<Node>| node.filter(|node| node.mode.is_directory());
            let (from_below, to_below) = (below(from), below(to));
            if from_below.is_some() || to_below.is_some() {
                let tree = |node: Option<Node>| node.map(|node| node.oid);
                pending.push((path.clone(), tree(from_below), tree(to_below)));
            }
            let only_below =
                from_below.zip(to_below).is_some_and(|(from, to)| from.mode == to.mode);
            if !only_below {
                differences.push(Difference { path, from, to });
            }
        }
    }
    differences.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(differences)
}

/// Reads the entries of a tree, sorted by name alone. Git's own order is different: it sorts
/// directories as if their names ended in a slash.
fn read_sorted(store: &Store, tree: Oid) -> Result<Vec<OwnedEntry>, ObjectError> {
    let mut entries = store.tree(&tree)?;
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// Pairs the entries of two sorted trees by their names.
fn pair_by_name(
    from: Vec<OwnedEntry>,
    to: Vec<OwnedEntry>,
) -> Vec<(Vec<u8>, Option<Node>, Option<Node>)> {
    let node = |entry: &OwnedEntry| Node { mode: entry.mode, oid: entry.oid };
    let mut pairs = Vec::with_capacity(from.len().max(to.len()));
    let (mut from, mut to) = (from.into_iter().peekable(), to.into_iter().peekable());
    loop {
        let order = match (from.peek(), to.peek()) {
            (None, None) => return pairs,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(from), Some(to)) => from.name.cmp(&to.name),
        };
        let one = if order.is_le() { from.next() } else { None };
        let other = if order.is_ge() { to.next() } else { None };
        let nodes = (one.as_ref().map(node), other.as_ref().map(node));
        let name = one.or(other).expect("at least one side has an entry").name;
        pairs.push((name, nodes.0, nodes.1));
    }
}

/// Finds the node at a path in a tree. The root is treated as a directory without permission bits.
pub(crate) fn find_node(
    store: &Store,
    tree: Oid,
    path: &RelPath,
) -> Result<Option<Node>, ObjectError> {
    let mut node = Node { mode: Mode::directory(0), oid: tree };
    for name in path.as_bytes().split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        if !node.mode.is_directory() {
            return Ok(None);
        }
        let entry = store.tree(&node.oid)?.into_iter().find(|entry| entry.name == name);
        match entry {
            Some(entry) => node = Node { mode: entry.mode, oid: entry.oid },
            None => return Ok(None),
        }
    }
    Ok(Some(node))
}
