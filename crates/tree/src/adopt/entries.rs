//! The entries of foreign trees and of the rewritten trees.

use std::collections::BTreeMap;

use super::{MAX_DIRECTORY_BYTES, PendingObjects};
use crate::capture::Uncovered;
use crate::git::{ForeignObjectError, ForeignRepository};
use crate::object::{
    Malformed, Mode, OwnedEntry, TreeEntry, compare_names, push_entry, split_foreign_entry,
};
use crate::oid::Oid;
use crate::path::RelPath;

/// Reads the entries of a tree. They may have names and modes that are invalid in the store's own
/// trees.
pub(super) fn read_entries(
    foreign: &ForeignRepository,
    root: Oid,
    oid: Oid,
    pending: &mut PendingObjects,
) -> Result<Vec<OwnedEntry>, ForeignObjectError> {
    let left = MAX_DIRECTORY_BYTES - pending.directory_bytes;
    let content = foreign.tree(&oid, left).map_err(|error| match error {
        ForeignObjectError::TooLarge { .. } => ForeignObjectError::TooMany {
            tree: root,
            things: "MB of directories",
            limit: MAX_DIRECTORY_BYTES >> 20,
        },
        error => error,
    })?;
    pending.directory_bytes += content.len() as u64;
    let mut entries = Vec::new();
    let mut rest = &content[..];
    while !rest.is_empty() {
        let (entry, after) = split_foreign_entry(rest)
            .ok_or(ForeignObjectError::Malformed(oid, Malformed("tree")))?;
        entries.push(entry.into());
        rest = after;
    }
    Ok(entries)
}

/// Returns the approximate amount of memory that an uncovered path takes.
pub(super) fn uncovered_size(uncovered: &Uncovered) -> u64 {
    uncovered.path.as_bytes().len() as u64 + 64
}

/// Returns the path of an entry that is left out, relative to its directory. If the name cannot be
/// part of a path, returns the empty path of the directory itself.
pub(super) fn path_of_name(name: &[u8]) -> RelPath {
    match RelPath::new(name) {
        Ok(path) if !name.contains(&b'/') => path,
        _ => RelPath::root(),
    }
}

pub(super) fn move_below(directory: &[u8], uncovered: &Uncovered) -> Uncovered {
    let path = match uncovered.path.is_root() {
        true => RelPath::root().join(directory),
        false => RelPath::root().join(directory).join(uncovered.path.as_bytes()),
    };
    Uncovered { path, reason: uncovered.reason.clone() }
}

/// Reduces the mode of a file or symlink to the parts that git keeps: the kind and, for a file, the
/// executable bit.
pub(super) fn normalize_mode(mode: Mode) -> Mode {
    match mode {
        mode if mode.is_symlink() => Mode::SYMLINK,
        mode if mode.permissions() & 0o100 != 0 => Mode::file(0o755),
        _ => Mode::file(0o644),
    }
}

pub(super) fn encode_tree(entries: BTreeMap<Vec<u8>, (Mode, Oid)>) -> Vec<u8> {
    let mut entries: Vec<_> = entries.into_iter().collect();
    let key = |(name, (mode, _)): &'_ (Vec<u8>, (Mode, Oid))| (name.clone(), mode.is_directory());
    entries.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        compare_names((&a.0, a.1), (&b.0, b.1))
    });
    let mut tree = Vec::new();
    for (name, (mode, oid)) in &entries {
        push_entry(&mut tree, TreeEntry { mode: *mode, name, oid: *oid });
    }
    tree
}
