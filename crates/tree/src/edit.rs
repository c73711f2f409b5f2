//! Editing a tree: builds a new tree from another one, with different content at some paths.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::lock::Lock;
use crate::object::{self, Mode, ObjectKind, TreeEntry, is_git_name};
use crate::oid::Oid;
use crate::pack::MAX_OBJECT;
use crate::path::{self, RelPath};
use crate::store::{ObjectError, Store};

/// An edit of one path in a tree.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct TreeEdit {
    pub path: RelPath,
    /// The new entry, or `None` to remove the existing one. A directory is replaced or removed with
    /// everything in it. The path need not exist.
    pub to: Option<NewEntry>,
}

/// A file, symlink or directory that an edit puts into a tree.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct NewEntry {
    pub mode: Mode,
    pub content: NewContent,
}

/// The content of a file, symlink or directory that an edit puts into a tree.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum NewContent {
    /// The bytes of a file, or the target of a symlink.
    Bytes(Vec<u8>),
    /// An object of the store: a blob, or the tree of a directory.
    Object(Oid),
}

/// The reason why a tree was not edited.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum EditError {
    /// A tree cannot contain this path: the path is the root itself, or part of the path is `.git`.
    #[error("{0} cannot be edited in a tree")]
    Path(RelPath),
    /// The mode is not that of a file, symlink or directory, or it does not match the content.
    #[error("{path} cannot have mode {:o} with this content", mode.0)]
    Mode { path: RelPath, mode: Mode },
    /// The content exceeds the maximum size of an object.
    #[error("{path} is too large ({size} bytes)")]
    TooLarge { path: RelPath, size: u64 },
    /// A parent of the path is not a directory in the tree.
    #[error("{path} cannot be in {parent}, which is not a directory")]
    InTheWay { path: RelPath, parent: RelPath },
    /// The tree, or an object that should be in the store, cannot be read.
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error("cannot write to the store {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl Lock<'_> {
    /// Builds a new tree by applying these edits to `tree` in order. The new tree can be read
    /// immediately. Unless it is pinned with [`Lock::pin`], it is guaranteed to exist only as long
    /// as this lock is held.
    ///
    /// Missing directories above a path are created with mode 40755. Directories that become empty
    /// are removed; those that were already empty are kept.
    ///
    /// ```
    /// use takeback_tree::{
    ///     CaptureOptions, CaptureRules, Mode, NewContent, NewEntry, RelPath, Store, TreeEdit,
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
    /// let tree = lock.capture(&options)?.tree;
    /// let path = RelPath::new("notes/todo.txt")?;
    /// let entry =
    ///     NewEntry { mode: Mode::file(0o644), content: NewContent::Bytes(b"pay\n".to_vec()) };
    /// let edited = lock.edit_tree(tree, &[TreeEdit { path: path.clone(), to: Some(entry) }])?;
    /// // The workspace stays as it is.
    /// assert!(!project.join("notes").exists());
    /// let (_, id) = store.find_entry(&edited, &path)?.unwrap();
    /// assert_eq!(store.blob(&id)?, b"pay\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn edit_tree(&mut self, tree: Oid, edits: &[TreeEdit]) -> Result<Oid, EditError> {
        // If the tree was captured under this lock, it can be read only once its pack is sealed.
        self.seal_for_edit()?;
        let mut opened = OpenedTree::new(self.store(), tree)?;
        for edit in edits {
            check_path(&edit.path)?;
            match &edit.to {
                Some(entry) => {
                    let node = self.put_entry(&edit.path, entry)?;
                    opened.insert(&edit.path, node)?;
                }
                None => opened.remove(&edit.path)?,
            }
        }
        let tree = opened.write_trees(|content| self.put_for_edit(ObjectKind::Tree, content))?;
        self.seal_for_edit()?;
        Ok(tree)
    }

    fn put_for_edit(&mut self, kind: ObjectKind, content: &[u8]) -> Result<Oid, EditError> {
        let path = self.store().directory().to_owned();
        self.put_object(kind, content).map_err(|source| EditError::Write { path, source })
    }

    fn seal_for_edit(&mut self) -> Result<(), EditError> {
        let path = self.store().directory().to_owned();
        self.seal().map_err(|source| EditError::Write { path, source })
    }

    /// Adds the content of an entry to the store, or checks that the store has it.
    fn put_entry(&mut self, path: &RelPath, entry: &NewEntry) -> Result<(Mode, Oid), EditError> {
        let mode = entry.mode;
        let is_directory = mode == Mode::directory(mode.permissions());
        let is_file = mode == Mode::file(mode.permissions()) || mode == Mode::SYMLINK;
        let oid = match &entry.content {
            NewContent::Bytes(bytes) if is_file => {
                let size = bytes.len() as u64;
                if size > MAX_OBJECT {
                    return Err(EditError::TooLarge { path: path.clone(), size });
                }
                self.put_for_edit(ObjectKind::Blob, bytes)?
            }
            // Takeback can read the empty tree without storing it. Git cannot.
            NewContent::Object(Oid::EMPTY_TREE) if is_directory => {
                self.put_for_edit(ObjectKind::Tree, b"")?
            }
            NewContent::Object(oid) if is_file => self.store().blob(oid).map(|_| *oid)?,
            NewContent::Object(oid) if is_directory => self.store().tree(oid).map(|_| *oid)?,
            _ => return Err(EditError::Mode { path: path.clone(), mode }),
        };
        Ok((mode, oid))
    }
}

fn check_path(path: &RelPath) -> Result<(), EditError> {
    match path.is_root() || path.as_bytes().split(|byte| *byte == b'/').any(is_git_name) {
        true => Err(EditError::Path(path.clone())),
        false => Ok(()),
    }
}

/// A tree that is being edited. Only directories that edits touch are opened.
struct OpenedTree<'a> {
    store: &'a Store,
    /// The opened directories by path.
    directories: BTreeMap<Vec<u8>, OpenedDirectory>,
}

#[derive(Default)]
struct OpenedDirectory {
    /// The entries by name. The entry of a directory that is itself opened still has its old id.
    entries: BTreeMap<Vec<u8>, (Mode, Oid)>,
    /// True if the directory had no entries before the edits.
    was_empty: bool,
}

impl<'a> OpenedTree<'a> {
    fn new(store: &'a Store, tree: Oid) -> Result<OpenedTree<'a>, ObjectError> {
        let root = OpenedDirectory::read(store, &tree)?;
        Ok(OpenedTree { store, directories: BTreeMap::from([(Vec::new(), root)]) })
    }

    fn insert(&mut self, path: &RelPath, node: (Mode, Oid)) -> Result<(), EditError> {
        let (parent, name) = path::split(path.as_bytes());
        match self.open_directory(parent)? {
            Opening::Opened => {}
            Opening::Missing(first) => self.make_directories(parent, first),
            Opening::NotADirectory(end) => {
                let parent = RelPath::new(&parent[..end]).expect("a part of a path");
                return Err(EditError::InTheWay { path: path.clone(), parent });
            }
        }
        self.close_below(path.as_bytes());
        self.directory(parent).entries.insert(name.to_vec(), node);
        Ok(())
    }

    fn remove(&mut self, path: &RelPath) -> Result<(), EditError> {
        let (parent, name) = path::split(path.as_bytes());
        if let Opening::Opened = self.open_directory(parent)? {
            self.close_below(path.as_bytes());
            self.directory(parent).entries.remove(name);
        }
        Ok(())
    }

    /// Opens a directory and the directories above it.
    fn open_directory(&mut self, path: &[u8]) -> Result<Opening, ObjectError> {
        for end in name_ends(path) {
            if self.directories.contains_key(&path[..end]) {
                continue;
            }
            let (parent, name) = path::split(&path[..end]);
            match self.directory(parent).entries.get(name) {
                None => return Ok(Opening::Missing(end)),
                Some((mode, _)) if !mode.is_directory() => return Ok(Opening::NotADirectory(end)),
                Some((_, tree)) => {
                    let tree = *tree;
                    let directory = OpenedDirectory::read(self.store, &tree)?;
                    self.directories.insert(path[..end].to_vec(), directory);
                }
            }
        }
        Ok(Opening::Opened)
    }

    /// Creates the missing directories of a path, starting with the one whose name ends at offset
    /// `first`.
    fn make_directories(&mut self, path: &[u8], first: usize) {
        for end in name_ends(path).filter(|end| *end >= first) {
            let (parent, name) = path::split(&path[..end]);
            let made = (Mode::directory(0o755), Oid::EMPTY_TREE);
            self.directory(parent).entries.insert(name.to_vec(), made);
            self.directories.insert(path[..end].to_vec(), OpenedDirectory::default());
        }
    }

    /// Forgets the opened directories at or below a path that is being replaced.
    fn close_below(&mut self, path: &[u8]) {
        self.directories.remove(path);
        let below = [path, b"/"].concat();
        let after = [path, &[b'/' + 1]].concat();
        let gone: Vec<Vec<u8>> =
            self.directories.range(below..after).map(|(path, _)| path.clone()).collect();
        gone.iter().for_each(|path| drop(self.directories.remove(path)));
    }

    fn directory(&mut self, path: &[u8]) -> &mut OpenedDirectory {
        self.directories.get_mut(path).expect("the callers open a directory before they use it")
    }

    /// Builds the trees of all opened directories. Returns the tree of the root.
    fn write_trees<E>(mut self, mut put: impl FnMut(&[u8]) -> Result<Oid, E>) -> Result<Oid, E> {
        // A directory sorts before everything in it, so the last opened directory contains no other
        // opened directory.
        while let Some((path, directory)) = self.directories.pop_last() {
            if path.is_empty() {
                return put(&directory.encode());
            }
            let (parent, name) = path::split(&path);
            if directory.entries.is_empty() && !directory.was_empty {
                self.directory(parent).entries.remove(name);
                continue;
            }
            let tree = put(&directory.encode())?;
            let entry = self.directory(parent).entries.get_mut(name);
            entry.expect("an opened directory is an entry of its parent").1 = tree;
        }
        unreachable!("the root is always open")
    }
}

/// The result of opening a directory.
enum Opening {
    Opened,
    /// The part of the path up to this offset does not exist.
    Missing(usize),
    /// The part of the path up to this offset is not a directory.
    NotADirectory(usize),
}

/// Lists the offsets at which the names of a path end.
fn name_ends(path: &[u8]) -> impl Iterator<Item = usize> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let last = (!path.is_empty()).then_some(path.len());
    slashes.map(|(at, _)| at).chain(last)
}

impl OpenedDirectory {
    fn read(store: &Store, tree: &Oid) -> Result<OpenedDirectory, ObjectError> {
        let entries = store.tree(tree)?;
        let was_empty = entries.is_empty();
        let entries = entries.into_iter().map(|entry| (entry.name, (entry.mode, entry.oid)));
        Ok(OpenedDirectory { entries: entries.collect(), was_empty })
    }

    fn encode(&self) -> Vec<u8> {
        let mut entries: Vec<TreeEntry<'_>> = self
            .entries
            .iter()
            .map(|(name, (mode, oid))| TreeEntry { mode: *mode, name, oid: *oid })
            .collect();
        let key = |entry: &TreeEntry<'_>| entry.mode.is_directory();
        entries.sort_by(|a, b| object::compare_names((a.name, key(a)), (b.name, key(b))));
        let mut tree = Vec::new();
        entries.into_iter().for_each(|entry| object::push_entry(&mut tree, entry));
        tree
    }
}
