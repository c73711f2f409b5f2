//! Git objects as bytes: trees with raw modes, and the commits of pins and attachments.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::oid::Oid;

/// The kind of an object. The discriminants are the codes that git uses in packs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ObjectKind {
    /// A tree with a message. Pins and attachments are commits.
    Commit = 1,
    /// The content of a directory.
    Tree = 2,
    /// The content of a file, or the target of a symlink.
    Blob = 3,
}

impl ObjectKind {
    pub(crate) fn from_code(code: u8) -> Option<ObjectKind> {
        [ObjectKind::Commit, ObjectKind::Tree, ObjectKind::Blob]
            .into_iter()
            .find(|kind| *kind as u8 == code)
    }

    fn name(self) -> &'static str {
        match self {
            ObjectKind::Commit => "commit",
            ObjectKind::Tree => "tree",
            ObjectKind::Blob => "blob",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<ObjectKind> {
        [ObjectKind::Commit, ObjectKind::Tree, ObjectKind::Blob]
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    /// Returns the header that is hashed before the content.
    pub(crate) fn header(self, size: u64) -> Vec<u8> {
        format!("{} {size}\0", self.name()).into_bytes()
    }
}

/// A git entry mode: the kind of file and all its permission bits (`100600`, `104755`, `40750`).
///
/// ```
/// use takeback_tree::Mode;
///
/// let script = Mode::file(0o755);
/// assert_eq!(script, Mode(0o100755));
/// assert!(script.is_file());
/// assert_eq!(script.permissions(), 0o755);
/// assert!(!script.is_same_kind(Mode::SYMLINK));
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default, Serialize, Deserialize,
)]
pub struct Mode(pub u32);

const KIND_BITS: u32 = 0o170_000;
const FILE: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const SYMLINK: u32 = 0o120_000;

impl Mode {
    /// The mode of every symlink: the permission bits of symlinks are meaningless and not kept.
    pub const SYMLINK: Mode = Mode(SYMLINK);

    /// Returns the mode of a regular file with these permission bits.
    pub fn file(permissions: u32) -> Mode {
        Mode(FILE | permissions & 0o7777)
    }

    /// Returns the mode of a directory with these permission bits.
    pub fn directory(permissions: u32) -> Mode {
        Mode(DIRECTORY | permissions & 0o7777)
    }

    /// True for a regular file.
    pub fn is_file(self) -> bool {
        self.0 & KIND_BITS == FILE
    }

    /// True for a directory.
    pub fn is_directory(self) -> bool {
        self.0 & KIND_BITS == DIRECTORY
    }

    /// True for a symlink.
    pub fn is_symlink(self) -> bool {
        self.0 & KIND_BITS == SYMLINK
    }

    /// Returns the permission bits, including setuid, setgid and sticky.
    pub fn permissions(self) -> u32 {
        self.0 & 0o7777
    }

    /// True if both are files, both directories or both symlinks.
    pub fn is_same_kind(self, other: Mode) -> bool {
        self.0 & KIND_BITS == other.0 & KIND_BITS
    }
}

/// One entry of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TreeEntry<'a> {
    pub(crate) mode: Mode,
    pub(crate) name: &'a [u8],
    /// The content of a file, the target of a symlink, or the tree of a directory.
    pub(crate) oid: Oid,
}

/// One entry of a tree, owned.
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

/// Compares two names in git's order: a directory sorts as if its name ended in `/`. Each name is
/// paired with a flag, which is true for a directory.
pub(crate) fn compare_names(a: (&[u8], bool), b: (&[u8], bool)) -> Ordering {
    let common = a.0.len().min(b.0.len());
    let next = |(name, is_directory): (&[u8], bool)| {
        name.get(common).copied().or(is_directory.then_some(b'/')).map_or(-1, i32::from)
    };
    a.0[..common].cmp(&b.0[..common]).then_with(|| next(a).cmp(&next(b)))
}

/// Appends an entry to a tree under construction. Entries must be added in the order of
/// [`compare_names`].
pub(crate) fn push_entry(tree: &mut Vec<u8>, entry: TreeEntry<'_>) {
    tree.extend_from_slice(format!("{:o} ", entry.mode.0).as_bytes());
    tree.extend_from_slice(entry.name);
    tree.push(0);
    tree.extend_from_slice(&entry.oid.0);
}

/// The error for an object whose content is invalid for its kind.
#[derive(Debug, Clone, thiserror::Error)]
#[error("malformed {0}")]
pub struct Malformed(pub &'static str);

/// Parses the entries of a tree object.
pub(crate) fn parse_entries(tree: &[u8]) -> impl Iterator<Item = Result<TreeEntry<'_>, Malformed>> {
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
    split_foreign_entry(tree).filter(|(entry, _)| is_valid_name(entry.name))
}

/// True if a tree of the store can have an entry with this name. A name that could lead out of the
/// workspace must never become part of a path.
pub(crate) fn is_valid_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !is_git_name(name) && !name.contains(&b'/')
}

/// True if the file system may treat this name as `.git`.
pub(crate) fn is_git_name(name: &[u8]) -> bool {
    if cfg!(target_os = "macos") { name.eq_ignore_ascii_case(b".git") } else { name == b".git" }
}

/// Splits the first entry off a tree that another program may have written. The entry may have any
/// name.
pub(crate) fn split_foreign_entry(tree: &[u8]) -> Option<(TreeEntry<'_>, &[u8])> {
    let space = tree.iter().take(8).position(|byte| *byte == b' ')?;
    let mode = u32::from_str_radix(std::str::from_utf8(&tree[..space]).ok()?, 8).ok()?;
    let rest = &tree[space + 1..];
    let nul = rest.iter().position(|byte| *byte == 0)?;
    let (name, rest) = (&rest[..nul], &rest[nul + 1..]);
    Some((TreeEntry { mode: Mode(mode), name, oid: Oid::from_slice(rest)? }, &rest[20..]))
}

/// The commit of a pin or of an attachment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Commit {
    pub(crate) tree: Oid,
    /// The attachment of a pin.
    pub(crate) parent: Option<Oid>,
    /// The time in seconds since 1970.
    pub(crate) time: i64,
    pub(crate) message: String,
}

const IDENTITY: &str = "takeback <takeback@localhost>";

/// The message of an attachment's commit.
const ATTACHMENT: &str = "attachment\n";

impl Commit {
    /// Returns the commit of an attachment with this tree. Its time is always 0, so that equal
    /// bytes have the same commit.
    pub(crate) fn new_attachment(tree: Oid) -> Commit {
        Commit { tree, parent: None, time: 0, message: ATTACHMENT.to_owned() }
    }

    pub(crate) fn is_attachment(&self) -> bool {
        *self == Commit::new_attachment(self.tree)
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
        let order = |a, b| compare_names(a, b);
        assert_eq!(order((b"a", true), (b"a.b", false)), Ordering::Greater);
        assert_eq!(order((b"a", false), (b"a.b", false)), Ordering::Less);
        assert_eq!(order((b"a", true), (b"a0", false)), Ordering::Less);
        assert_eq!(order((b"a", true), (b"a", true)), Ordering::Equal);
    }

    #[test]
    fn a_tree_with_an_invalid_name_is_malformed() {
        for name in [&b".."[..], b".", b"", b"a/b", b".git"] {
            let mut tree = Vec::new();
            push_entry(&mut tree, TreeEntry { mode: Mode::file(0o644), name, oid: Oid::ZERO });
            assert!(parse_entries(&tree).any(|entry| entry.is_err()), "{name:?}");
        }
    }

    #[test]
    fn a_truncated_tree_is_malformed_and_not_just_shorter() {
        let mut tree = Vec::new();
        for name in [&b"a"[..], b"b"] {
            push_entry(&mut tree, TreeEntry { mode: Mode::file(0o600), name, oid: Oid::ZERO });
        }
        assert!(parse_entries(&tree[..tree.len() - 1]).any(|entry| entry.is_err()));
    }

    #[test]
    fn commits_survive_a_round_trip() {
        for parent in [None, Some(Oid([7; 20]))] {
            let message = "a\n\nparent b\n".into();
            let commit = Commit { tree: Oid::EMPTY_TREE, parent, time: -5, message };
            assert_eq!(Commit::parse(&commit.encode()).unwrap(), commit);
            assert!(!commit.is_attachment());
        }
        let attachment = Commit::new_attachment(Oid::EMPTY_TREE);
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
