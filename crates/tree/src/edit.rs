//! Making a tree out of another one by giving some paths another content.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::object::{self, Kind, Mode, TreeEntry};
use crate::oid::Oid;
use crate::pack::MAX_OBJECT;
use crate::path::{self, RelPath};
use crate::store::{ObjectError, Store};
use crate::workspace::Lock;

/// What a path is to become.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Edit {
    /// The path.
    pub path: RelPath,
    /// What takes the place of whatever is there, a directory and all that is in it included;
    /// `None` if nothing does. It is no error if nothing was there.
    pub to: Option<Entry>,
}

/// A file, symlink or directory that a tree is to have.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// What it is, and its permissions.
    pub mode: Mode,
    /// What is in it.
    pub content: Content,
}

/// What is in a file, symlink or directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Content {
    /// These bytes: of a file, or the target of a symlink.
    Bytes(Vec<u8>),
    /// An object that the store has: a blob, or the tree of a directory.
    Known(Oid),
}

/// A tree was not edited.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// No tree has such a path: it is the root itself, or something is named `.git`.
    #[error("{0} cannot be edited in a tree")]
    Path(RelPath),
    /// The mode is that of no file, symlink or directory, or the content is none for it.
    #[error("{path} cannot have mode {:o} with this content", mode.0)]
    Mode {
        /// The path.
        path: RelPath,
        /// Its mode.
        mode: Mode,
    },
    /// The content is larger than an object may be.
    #[error("{path} is too large ({size} bytes)")]
    TooLarge {
        /// The path.
        path: RelPath,
        /// How many bytes.
        size: u64,
    },
    /// A directory above the path is something else in the tree.
    #[error("{path} cannot be in {parent}, which is not a directory")]
    InTheWay {
        /// The path.
        path: RelPath,
        /// What is in the way.
        parent: RelPath,
    },
    /// The tree, or an object that should be in the store, cannot be read.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// It cannot be written.
    #[error("cannot write to the store {}", path.display())]
    Write {
        /// The store.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl Lock<'_> {
    /// The tree with these edits, one after the other. It can be read at once and stays as long
    /// as this lock; [`Lock::pin`] keeps it.
    ///
    /// Directories that are missing above a path are made with mode 40755. Directories in which
    /// nothing is left in the end go; those that were empty before stay.
    pub fn edit(&mut self, tree: Oid, edits: &[Edit]) -> Result<Oid, EditError> {
        // The tree may have been captured just now.
        self.sealed()?;
        let mut opened = Opened::new(self.store(), tree)?;
        for edit in edits {
            check_path(&edit.path)?;
            match &edit.to {
                Some(entry) => {
                    let node = self.content(&edit.path, entry)?;
                    opened.place(&edit.path, node)?;
                }
                None => opened.remove(&edit.path)?,
            }
        }
        let tree = opened.write(|content| self.put_for_edit(Kind::Tree, content))?;
        self.sealed()?;
        Ok(tree)
    }

    fn put_for_edit(&mut self, kind: Kind, content: &[u8]) -> Result<Oid, EditError> {
        let path = self.store().directory().to_owned();
        self.put(kind, content).map_err(|source| EditError::Write { path, source })
    }

    fn sealed(&mut self) -> Result<(), EditError> {
        let path = self.store().directory().to_owned();
        self.seal().map_err(|source| EditError::Write { path, source })
    }

    /// Puts the content of an entry into the store, or looks whether it is there.
    fn content(&mut self, path: &RelPath, entry: &Entry) -> Result<(Mode, Oid), EditError> {
        let mode = entry.mode;
        let is_directory = mode == Mode::directory(mode.permissions());
        let is_file = mode == Mode::file(mode.permissions()) || mode == Mode::SYMLINK;
        let oid = match &entry.content {
            Content::Bytes(bytes) if is_file => {
                let size = bytes.len() as u64;
                if size > MAX_OBJECT {
                    return Err(EditError::TooLarge { path: path.clone(), size });
                }
                self.put_for_edit(Kind::Blob, bytes)?
            }
            // We know it without having it, but git does not.
            Content::Known(Oid::EMPTY_TREE) if is_directory => {
                self.put_for_edit(Kind::Tree, b"")?
            }
            Content::Known(oid) if is_file => self.store().blob(oid).map(|_| *oid)?,
            Content::Known(oid) if is_directory => self.store().tree(oid).map(|_| *oid)?,
            _ => return Err(EditError::Mode { path: path.clone(), mode }),
        };
        Ok((mode, oid))
    }
}

fn check_path(path: &RelPath) -> Result<(), EditError> {
    let is_git = |name: &[u8]| name == b".git";
    match path.is_root() || path.as_bytes().split(|byte| *byte == b'/').any(is_git) {
        true => Err(EditError::Path(path.clone())),
        false => Ok(()),
    }
}

/// The directories of a tree that edits have to do with, by their paths.
struct Opened<'a> {
    store: &'a Store,
    directories: BTreeMap<Vec<u8>, Directory>,
}

#[derive(Default)]
struct Directory {
    /// The ids of opened directories are those from before.
    entries: BTreeMap<Vec<u8>, (Mode, Oid)>,
    /// Whether it had no entries before anything was done to it.
    was_empty: bool,
}

impl<'a> Opened<'a> {
    fn new(store: &'a Store, tree: Oid) -> Result<Opened<'a>, ObjectError> {
        let root = Directory::read(store, &tree)?;
        Ok(Opened { store, directories: BTreeMap::from([(Vec::new(), root)]) })
    }

    fn place(&mut self, path: &RelPath, node: (Mode, Oid)) -> Result<(), EditError> {
        let (parent, name) = path::split(path.as_bytes());
        match self.open(parent)? {
            Found::Directory => {}
            Found::Nothing(missing) => self.make(parent, missing),
            Found::Other(end) => {
                let parent = RelPath::new(&parent[..end]).expect("a part of a path");
                return Err(EditError::InTheWay { path: path.clone(), parent });
            }
        }
        self.close(path.as_bytes());
        self.directory(parent).entries.insert(name.to_vec(), node);
        Ok(())
    }

    fn remove(&mut self, path: &RelPath) -> Result<(), EditError> {
        let (parent, name) = path::split(path.as_bytes());
        if let Found::Directory = self.open(parent)? {
            self.close(path.as_bytes());
            self.directory(parent).entries.remove(name);
        }
        Ok(())
    }

    /// Opens a directory and all above it.
    fn open(&mut self, path: &[u8]) -> Result<Found, ObjectError> {
        for end in ends(path) {
            if self.directories.contains_key(&path[..end]) {
                continue;
            }
            let (parent, name) = path::split(&path[..end]);
            match self.directory(parent).entries.get(name) {
                None => return Ok(Found::Nothing(end)),
                Some((mode, _)) if !mode.is_directory() => return Ok(Found::Other(end)),
                Some((_, tree)) => {
                    let tree = *tree;
                    let directory = Directory::read(self.store, &tree)?;
                    self.directories.insert(path[..end].to_vec(), directory);
                }
            }
        }
        Ok(Found::Directory)
    }

    /// Makes the directories of a path that are missing, from the one that ends at `first` on.
    fn make(&mut self, path: &[u8], first: usize) {
        for end in ends(path).filter(|end| *end >= first) {
            let (parent, name) = path::split(&path[..end]);
            let made = (Mode::directory(0o755), Oid::EMPTY_TREE);
            self.directory(parent).entries.insert(name.to_vec(), made);
            self.directories.insert(path[..end].to_vec(), Directory::default());
        }
    }

    /// Forgets what was opened at a path and below: something else takes its place.
    fn close(&mut self, path: &[u8]) {
        self.directories.remove(path);
        let below = [path, b"/"].concat();
        let after = [path, &[b'/' + 1]].concat();
        let gone: Vec<Vec<u8>> =
            self.directories.range(below..after).map(|(path, _)| path.clone()).collect();
        gone.iter().for_each(|path| drop(self.directories.remove(path)));
    }

    fn directory(&mut self, path: &[u8]) -> &mut Directory {
        self.directories.get_mut(path).expect("it was opened before")
    }

    /// Makes trees of all that was opened; says which is that of the root.
    fn write<E>(mut self, mut put: impl FnMut(&[u8]) -> Result<Oid, E>) -> Result<Oid, E> {
        // What is in a directory comes after it, so the last one has nothing opened in it.
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
            entry.expect("an opened directory is in the one above").1 = tree;
        }
        unreachable!("the root is always open")
    }
}

/// What there is at the path of a directory; with the end of the path that there is.
enum Found {
    Directory,
    /// Nothing from here on.
    Nothing(usize),
    /// Something that is no directory.
    Other(usize),
}

/// Where each name of a path ends.
fn ends(path: &[u8]) -> impl Iterator<Item = usize> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let last = (!path.is_empty()).then_some(path.len());
    slashes.map(|(at, _)| at).chain(last)
}

impl Directory {
    fn read(store: &Store, tree: &Oid) -> Result<Directory, ObjectError> {
        let entries = store.tree(tree)?;
        let was_empty = entries.is_empty();
        let entries = entries.into_iter().map(|entry| (entry.name, (entry.mode, entry.oid)));
        Ok(Directory { entries: entries.collect(), was_empty })
    }

    fn encode(&self) -> Vec<u8> {
        let mut entries: Vec<TreeEntry<'_>> = self
            .entries
            .iter()
            .map(|(name, (mode, oid))| TreeEntry { mode: *mode, name, oid: *oid })
            .collect();
        let key = |entry: &TreeEntry<'_>| entry.mode.is_directory();
        entries.sort_by(|a, b| object::tree_order((a.name, key(a)), (b.name, key(b))));
        let mut tree = Vec::new();
        entries.into_iter().for_each(|entry| object::push_entry(&mut tree, entry));
        tree
    }
}
