//! Git objects as bytes: trees with raw modes, and the commits behind pins and attachments.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::oid::Oid;

/// What an object is. The discriminants are git's pack codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Kind {
    /// A pin: a tree with a message.
    Commit = 1,
    /// A directory.
    Tree = 2,
    /// The content of a file, or the target of a symlink.
    Blob = 3,
}

impl Kind {
    pub(crate) fn from_code(code: u8) -> Option<Kind> {
        [Kind::Commit, Kind::Tree, Kind::Blob].into_iter().find(|kind| *kind as u8 == code)
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Commit => "commit",
            Kind::Tree => "tree",
            Kind::Blob => "blob",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Kind> {
        [Kind::Commit, Kind::Tree, Kind::Blob].into_iter().find(|kind| kind.name() == name)
    }

    /// What is hashed before the content.
    pub(crate) fn header(self, size: u64) -> Vec<u8> {
        format!("{} {size}\0", self.name()).into_bytes()
    }
}

/// A git entry mode: the kind of file and all its permission bits (`100600`, `104755`, `40750`).
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default, Serialize, Deserialize,
)]
pub struct Mode(pub u32);

const KIND_BITS: u32 = 0o170_000;
const FILE: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const SYMLINK: u32 = 0o120_000;

impl Mode {
    /// Permission bits of symlinks mean nothing and are not kept.
    pub const SYMLINK: Mode = Mode(SYMLINK);

    /// The mode of a regular file with these permission bits.
    pub fn file(permissions: u32) -> Mode {
        Mode(FILE | permissions & 0o7777)
    }

    /// The mode of a directory with these permission bits.
    pub fn directory(permissions: u32) -> Mode {
        Mode(DIRECTORY | permissions & 0o7777)
    }

    /// Whether it is a regular file.
    pub fn is_file(self) -> bool {
        self.0 & KIND_BITS == FILE
    }

    /// Whether it is a directory.
    pub fn is_directory(self) -> bool {
        self.0 & KIND_BITS == DIRECTORY
    }

    /// Whether it is a symlink.
    pub fn is_symlink(self) -> bool {
        self.0 & KIND_BITS == SYMLINK
    }

    /// The permission bits, setuid, setgid and sticky included.
    pub fn permissions(self) -> u32 {
        self.0 & 0o7777
    }

    /// Whether both are files, both directories or both symlinks.
    pub fn same_kind(self, other: Mode) -> bool {
        self.0 & KIND_BITS == other.0 & KIND_BITS
    }
}

/// One entry of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TreeEntry<'a> {
    /// Kind and permission bits.
    pub(crate) mode: Mode,
    /// The file's name.
    pub(crate) name: &'a [u8],
    /// Content, link target or subtree.
    pub(crate) oid: Oid,
}

/// One entry of a tree, standing on its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OwnedEntry {
    pub(crate) mode: Mode,
    pub(crate) name: Vec<u8>,
    pub(crate) oid: Oid,
}

impl From<TreeEntry<'_>> for OwnedEntry {
    fn from(entry: TreeEntry<'_>) -> OwnedEntry {
        OwnedEntry { mode: entry.mode, name: entry.name.to_vec(), oid: entry.oid }
    }
}

/// Git's order of names in a tree: a directory sorts as if its name ended in `/`.
pub(crate) fn tree_order(a: (&[u8], bool), b: (&[u8], bool)) -> Ordering {
    let common = a.0.len().min(b.0.len());
    let next = |(name, is_directory): (&[u8], bool)| {
        name.get(common).copied().or(is_directory.then_some(b'/')).map_or(-1, i32::from)
    };
    a.0[..common].cmp(&b.0[..common]).then_with(|| next(a).cmp(&next(b)))
}

/// Appends an entry to a tree under construction. Entries come in [`tree_order`].
pub(crate) fn push_entry(tree: &mut Vec<u8>, entry: TreeEntry<'_>) {
    tree.extend_from_slice(format!("{:o} ", entry.mode.0).as_bytes());
    tree.extend_from_slice(entry.name);
    tree.push(0);
    tree.extend_from_slice(&entry.oid.0);
}

/// The object is not what git would write.
#[derive(Debug, Clone, thiserror::Error)]
#[error("malformed {0}")]
pub struct Malformed(pub &'static str);

/// The entries of a tree object.
pub(crate) fn entries(tree: &[u8]) -> impl Iterator<Item = Result<TreeEntry<'_>, Malformed>> {
    let mut rest = tree;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let entry = split_entry(rest);
        rest = entry.map_or(&[][..], |(_, rest)| rest);
        Some(entry.map(|(entry, _)| entry).ok_or(Malformed("tree")))
    })
}

fn split_entry(tree: &[u8]) -> Option<(TreeEntry<'_>, &[u8])> {
    split_any(tree).filter(|(entry, _)| is_name(entry.name))
}

/// Whether a tree of ours may have an entry of this name: one that could lead out of the
/// workspace never becomes a path.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b".." | b".git") && !name.contains(&b'/')
}

/// The first entry of a tree that somebody else may have made, whatever its name.
pub(crate) fn split_any(tree: &[u8]) -> Option<(TreeEntry<'_>, &[u8])> {
    let space = tree.iter().take(8).position(|byte| *byte == b' ')?;
    let mode = u32::from_str_radix(std::str::from_utf8(&tree[..space]).ok()?, 8).ok()?;
    let rest = &tree[space + 1..];
    let nul = rest.iter().position(|byte| *byte == 0)?;
    let (name, rest) = (&rest[..nul], &rest[nul + 1..]);
    Some((TreeEntry { mode: Mode(mode), name, oid: Oid::from_slice(rest)? }, &rest[20..]))
}

/// What a pin points at, or an attachment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Commit {
    pub(crate) tree: Oid,
    /// A pin's attachment.
    pub(crate) parent: Option<Oid>,
    /// Seconds since 1970.
    pub(crate) time: i64,
    pub(crate) message: String,
}

const IDENTITY: &str = "takeback <takeback@localhost>";

/// The message of an attachment's commit.
const ATTACHMENT: &str = "attachment\n";

impl Commit {
    /// The commit of an attachment, given its tree: the same for the same bytes.
    pub(crate) fn attachment(tree: Oid) -> Commit {
        Commit { tree, parent: None, time: 0, message: ATTACHMENT.to_owned() }
    }

    /// Whether this is the commit of an attachment.
    pub(crate) fn is_attachment(&self) -> bool {
        *self == Commit::attachment(self.tree)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let Commit { tree, parent, time, message } = self;
        let parent = parent.map_or(String::new(), |parent| format!("parent {parent}\n"));
        format!(
            "tree {tree}\n{parent}author {IDENTITY} {time} +0000\ncommitter {IDENTITY} {time} +0000\n\n{message}"
        )
        .into_bytes()
    }

    pub(crate) fn parse(commit: &[u8]) -> Result<Commit, Malformed> {
        let malformed = Malformed("commit");
        let text = std::str::from_utf8(commit).map_err(|_| malformed.clone())?;
        let (head, message) = text.split_once("\n\n").ok_or(malformed.clone())?;
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        let id = |text: &str| text.parse::<Oid>().map_err(|_| malformed.clone());
        let tree = id(field("tree ").ok_or(malformed.clone())?)?;
        let parent = field("parent ").map(id).transpose()?;
        let time = field("committer ")
            .and_then(|line| line.rsplit(' ').nth(1)?.parse().ok())
            .ok_or(malformed.clone())?;
        Ok(Commit { tree, parent, time, message: message.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_sort_as_if_they_ended_in_a_slash() {
        let order = |a, b| tree_order(a, b);
        assert_eq!(order((b"a", true), (b"a.b", false)), Ordering::Greater);
        assert_eq!(order((b"a", false), (b"a.b", false)), Ordering::Less);
        assert_eq!(order((b"a", true), (b"a0", false)), Ordering::Less);
        assert_eq!(order((b"a", true), (b"a", true)), Ordering::Equal);
    }

    #[test]
    fn a_tree_that_names_a_way_out_is_malformed() {
        for name in [&b".."[..], b".", b"", b"a/b", b".git"] {
            let mut tree = Vec::new();
            push_entry(&mut tree, TreeEntry { mode: Mode::file(0o644), name, oid: Oid::ZERO });
            assert!(entries(&tree).any(|entry| entry.is_err()), "{name:?}");
        }
    }

    #[test]
    fn a_truncated_tree_is_malformed_not_shorter() {
        let mut tree = Vec::new();
        for name in [&b"a"[..], b"b"] {
            push_entry(&mut tree, TreeEntry { mode: Mode::file(0o600), name, oid: Oid::ZERO });
        }
        assert!(entries(&tree[..tree.len() - 1]).any(|entry| entry.is_err()));
    }

    #[test]
    fn commits_survive_a_round_trip() {
        for parent in [None, Some(Oid([7; 20]))] {
            let message = "a\n\nparent b\n".into();
            let commit = Commit { tree: Oid::EMPTY_TREE, parent, time: -5, message };
            assert_eq!(Commit::parse(&commit.encode()).unwrap(), commit);
            assert!(!commit.is_attachment());
        }
        let attachment = Commit::attachment(Oid::EMPTY_TREE);
        assert!(Commit::parse(&attachment.encode()).unwrap().is_attachment());
    }

    #[test]
    fn a_commit_with_a_broken_parent_is_malformed() {
        let commit =
            Commit { tree: Oid::ZERO, parent: Some(Oid::ZERO), time: 0, message: String::new() };
        let text = String::from_utf8(commit.encode()).unwrap().replace("parent 0", "parent x");
        assert!(Commit::parse(text.as_bytes()).is_err());
    }
}
