//! Taking over states of a foreign repository, as the older history of a workspace.
//!
//! 1. [`Store::adopt`] begins: from here on nothing that is written is collected.
//! 2. [`Adoption::take`] copies what a tree needs into a pack, and makes its trees anew: ours
//!    have modes and names of their own.
//! 3. [`Adoption::lock`] makes the pack durable and waits for the workspace, which need not exist.
//! 4. [`AdoptLock::finish`] makes room among the workspace's pins and pins what was taken.
//!
//! If that is cut off anywhere, the store is consistent: what is pinned so far is in its place
//! among the workspace's pins, and doing it all again adds what is missing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rayon::prelude::*;
use takeback_base::durable::{self, Durability, FileLock};

use crate::capture::{Uncovered, UncoveredReason};
use crate::fault;
use crate::git::{ForeignObjectError, ForeignRepository};
use crate::object::{
    Commit, Mode, ObjectKind, OwnedEntry, TreeEntry, compare_names, is_valid_name, push_entry,
};
use crate::oid::Oid;
use crate::pack::write::PackWriter;
use crate::path::{AnyPath, RelPath};
use crate::pins::{Pin, PinName, WorkspaceId};
use crate::store::{Packs, Store, StoreError};
use crate::workspace::{PinError, WorkspaceInfo, milliseconds, read_seq, write_seq};

/// Longer names are in no file system.
const MAX_NAME: usize = 255;

/// The mode of a link to a commit of another repository.
const NESTED: u32 = 0o160_000;

/// So many refs are written and synced together; each is an open file meanwhile.
const REFS: usize = 64;

/// A state that was taken over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adopted {
    /// The state's identity here.
    pub tree: Oid,
    /// How many files and symlinks are in it.
    pub files: u64,
    /// What is not in it, by topmost paths, sorted.
    pub uncovered: Vec<Uncovered>,
}

/// A state was not taken over.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// Something that it needs cannot be had. Other states are not affected.
    #[error(transparent)]
    Foreign(#[from] ForeignObjectError),
    /// The objects cannot be written.
    #[error("cannot write to the store {}", path.display())]
    Write {
        /// The store.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// A pin that comes late: it is older than others that the workspace has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Late {
    /// The number of the pin that it comes after; 0 for the oldest of all.
    pub after: u64,
    /// An adopted state.
    pub tree: Oid,
    /// When it was made, in seconds since 1970.
    pub time: i64,
}

/// States on their way into the store.
pub struct Adoption<'s> {
    store: &'s Store,
    packs: Arc<Packs>,
    writer: PackWriter,
    /// Foreign trees and what became of them.
    trees: HashMap<Oid, Subtree>,
    /// Files that the store does not take, with their sizes.
    too_large: HashMap<Oid, u64>,
    store_lock: FileLock,
}

/// A foreign tree that was made anew. Paths are relative to it.
#[derive(Clone, Default)]
struct Subtree {
    oid: Oid,
    files: u64,
    uncovered: Vec<Uncovered>,
}

/// What is to be written of a state.
#[derive(Default)]
struct Pending {
    blobs: HashSet<Oid>,
    /// Foreign id, our id, content.
    trees: Vec<(Oid, Oid, Vec<u8>)>,
}

impl Store {
    /// Begins to take over states.
    pub fn adopt(&self) -> Result<Adoption<'_>, StoreError> {
        let store_lock = self.share()?;
        Ok(Adoption {
            store: self,
            packs: self.packs(),
            writer: self.writer(),
            trees: HashMap::new(),
            too_large: HashMap::new(),
            store_lock,
        })
    }
}

impl<'s> Adoption<'s> {
    /// Copies a tree of a foreign repository, with everything in it that is not here.
    ///
    /// Directories become 40755, files 100755 or 100644 by whether their owner may execute them.
    /// Left out and named in [`Adopted::uncovered`]: links to nested repositories, names that no
    /// tree of ours has, and files that are too large.
    pub fn take(&mut self, foreign: &ForeignRepository, tree: Oid) -> Result<Adopted, AdoptError> {
        loop {
            let mut pending = Pending::default();
            let taken = self
                .convert(foreign, tree, &mut pending)
                .map_err(AdoptError::from)
                .and_then(|()| self.write(foreign, &pending));
            match taken {
                Ok(()) => break,
                Err(error) => {
                    // A tree counts as taken only with all that is in it.
                    pending.trees.iter().for_each(|(oid, ..)| drop(self.trees.remove(oid)));
                    let AdoptError::Foreign(ForeignObjectError::TooLarge { oid, size }) = error
                    else {
                        return Err(error);
                    };
                    if !pending.blobs.contains(&oid) || self.too_large.insert(oid, size).is_some() {
                        return Err(ForeignObjectError::TooLarge { oid, size }.into());
                    }
                }
            }
        }
        let Subtree { oid, files, mut uncovered } = self.trees[&tree].clone();
        uncovered.sort_by(|a, b| a.path.cmp(&b.path));
        uncovered.dedup_by(|a, b| a.path == b.path);
        Ok(Adopted { tree: oid, files, uncovered })
    }

    /// Makes a tree and all in it anew, from the bottom up; notes what has to be written for it.
    fn convert(
        &mut self,
        foreign: &ForeignRepository,
        root: Oid,
        pending: &mut Pending,
    ) -> Result<(), ForeignObjectError> {
        // Not by recursion: how deep foreign trees are is not ours to say.
        let mut waiting: Vec<(Oid, Option<Vec<OwnedEntry>>)> = vec![(root, None)];
        while let Some((oid, entries)) = waiting.pop() {
            match entries {
                _ if self.trees.contains_key(&oid) => {}
                Some(entries) => self.assemble(oid, entries, pending),
                None => {
                    let entries = foreign.tree(&oid)?;
                    let is_entered = |entry: &&OwnedEntry| {
                        entry.mode.is_directory()
                            && self.refusal(entry.mode, &entry.name, entry.oid).is_none()
                    };
                    let inside = entries.iter().filter(is_entered);
                    let inside: Vec<Oid> = inside.map(|entry| entry.oid).collect();
                    waiting.push((oid, Some(entries)));
                    waiting.extend(inside.into_iter().map(|oid| (oid, None)));
                }
            }
        }
        Ok(())
    }

    /// Makes one tree anew. Those in it are there already.
    fn assemble(&mut self, foreign: Oid, entries: Vec<OwnedEntry>, pending: &mut Pending) {
        let mut tree = Subtree::default();
        let mut kept: BTreeMap<Vec<u8>, (Mode, Oid)> = BTreeMap::new();
        for OwnedEntry { mode, name, oid } in entries {
            let refused = self.refusal(mode, &name, oid);
            let refused = refused.or(kept.contains_key(&name).then_some(UncoveredReason::Special));
            if let Some(reason) = refused {
                tree.uncovered.push(Uncovered { path: named(&name), reason });
            } else if mode.is_directory() {
                let inside = &self.trees[&oid];
                tree.files += inside.files;
                tree.uncovered.extend(inside.uncovered.iter().map(|found| below(&name, found)));
                kept.insert(name, (Mode::directory(0o755), inside.oid));
            } else {
                tree.files += 1;
                pending.blobs.insert(oid);
                kept.insert(name, (plain_mode(mode), oid));
            }
        }
        let content = encode(kept);
        tree.oid = Oid::of(ObjectKind::Tree, &content);
        pending.trees.push((foreign, tree.oid, content));
        self.trees.insert(foreign, tree);
    }

    /// Why an entry of a tree is left out.
    fn refusal(&self, mode: Mode, name: &[u8], oid: Oid) -> Option<UncoveredReason> {
        if !is_valid_name(name) || name.len() > MAX_NAME {
            Some(UncoveredReason::Excluded)
        } else if let Some(size) = self.too_large.get(&oid) {
            Some(UncoveredReason::TooLarge { size: *size })
        } else if mode.0 == NESTED {
            Some(UncoveredReason::Nested)
        } else {
            let known = mode.is_directory() || mode.is_file() || mode.is_symlink();
            (!known).then_some(UncoveredReason::Special)
        }
    }

    /// Writes what is not here: files first, so that a tree is never without what is in it.
    fn write(&self, foreign: &ForeignRepository, pending: &Pending) -> Result<(), AdoptError> {
        let blobs: Vec<&Oid> = pending.blobs.iter().filter(|oid| !self.has(oid)).collect();
        blobs.into_par_iter().try_for_each(|oid| {
            let content = foreign.blob(oid)?;
            self.add(ObjectKind::Blob, *oid, &content)
        })?;
        let trees = pending.trees.iter().filter(|(_, oid, _)| !self.has(oid));
        trees
            .into_iter()
            .try_for_each(|(_, oid, content)| self.add(ObjectKind::Tree, *oid, content))
    }

    fn has(&self, oid: &Oid) -> bool {
        self.writer.contains(oid) || self.packs.contains(oid)
    }

    fn add(&self, kind: ObjectKind, oid: Oid, content: &[u8]) -> Result<(), AdoptError> {
        let path = || self.store.directory().to_owned();
        self.writer
            .add(kind, oid, content)
            .map_err(|source| AdoptError::Write { path: path(), source })
    }

    /// Makes what was taken durable, and waits until nobody else works on the workspace at this
    /// canonical path.
    pub fn lock(self, path: &Path) -> Result<AdoptLock<'s>, PinError> {
        let store = self.store;
        self.writer.seal(&store.pack_directory()).map_err(unwritten(store))?;
        store.forget_packs();
        let workspace = store.workspace_id(path);
        let workspace_lock = store.lock_directory(&workspace)?;
        let directory = store.workspace_directory(&workspace);
        Ok(AdoptLock {
            store,
            path: path.to_owned(),
            workspace,
            directory,
            _store_lock: self.store_lock,
            _workspace_lock: workspace_lock,
        })
    }
}

fn unwritten(store: &Store) -> impl Fn(io::Error) -> PinError + use<> {
    let path = store.directory().to_owned();
    move |source| PinError::Write { path: path.clone(), source }
}

/// The path of an entry that is left out. One whose name cannot be in a path is told by its
/// directory.
fn named(name: &[u8]) -> RelPath {
    match RelPath::new(name) {
        Ok(path) if !name.contains(&b'/') => path,
        _ => RelPath::root(),
    }
}

fn below(directory: &[u8], found: &Uncovered) -> Uncovered {
    let path = match found.path.is_root() {
        true => RelPath::root().join(directory),
        false => RelPath::root().join(directory).join(found.path.as_bytes()),
    };
    Uncovered { path, reason: found.reason.clone() }
}

/// The mode of a file or symlink as git takes it: of a file's permissions, it knows only whether
/// it can be executed.
fn plain_mode(mode: Mode) -> Mode {
    match mode {
        mode if mode.is_symlink() => Mode::SYMLINK,
        mode if mode.permissions() & 0o100 != 0 => Mode::file(0o755),
        _ => Mode::file(0o644),
    }
}

fn encode(entries: BTreeMap<Vec<u8>, (Mode, Oid)>) -> Vec<u8> {
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

/// The right to pin what was taken over.
pub struct AdoptLock<'s> {
    store: &'s Store,
    path: PathBuf,
    workspace: WorkspaceId,
    directory: PathBuf,
    _store_lock: FileLock,
    _workspace_lock: FileLock,
}

impl AdoptLock<'_> {
    /// The workspace.
    pub fn workspace(&self) -> &WorkspaceId {
        &self.workspace
    }

    /// The pins that the workspace has, oldest first, without those that cannot be read.
    pub fn pins(&self) -> Result<Vec<Pin>, StoreError> {
        let names = self.store.pin_names(&self.workspace)?;
        Ok(names.iter().filter_map(|name| self.store.pin(name).ok().flatten()).collect())
    }

    /// Pins what was taken: each after the pin that it names, and before those that come after
    /// that one. Pins that stand in the way get higher numbers, in their order; no other is
    /// touched. Those that come late are in their order, too.
    ///
    /// `message` is asked for the text of each, given its place in `late` and its number.
    pub fn finish(
        self,
        late: &[Late],
        now: SystemTime,
        message: &mut dyn FnMut(usize, u64) -> String,
    ) -> Result<Vec<Pin>, PinError> {
        let existing = self.store.pin_names(&self.workspace)?;
        let existing: Vec<u64> = existing.into_iter().map(|name| name.seq).collect();
        let numbers = Numbers::assign(&existing, late);
        let pins: Vec<Pin> = (0..late.len())
            .map(|index| {
                self.pin(&late[index], numbers.late[index], message(index, numbers.late[index]))
            })
            .collect::<Result<_, _>>()?;
        if pins.is_empty() {
            return Ok(pins);
        }
        let failed = unwritten(self.store);
        self.write_commits(&pins).map_err(&failed)?;
        // What this workspace is must be known before it has pins.
        self.note(milliseconds(now)).map_err(&failed)?;
        // Before any number changes: whoever pins next must come after all of these, even if
        // this process ends half way.
        self.reserve(numbers.last() + 1).map_err(&failed)?;
        self.store.renumber(&self.workspace, &numbers.moves).map_err(&failed)?;
        self.place(&pins).map_err(&failed)?;
        Ok(pins)
    }

    fn pin(&self, late: &Late, seq: u64, message: String) -> Result<Pin, PinError> {
        if message.contains('\0') {
            return Err(PinError::Message);
        }
        // Git takes no commit from before its time.
        let (tree, time) = (late.tree, late.time.max(0));
        let commit = Commit { tree, parent: None, time, message };
        let id = Oid::of(ObjectKind::Commit, &commit.encode());
        let name = PinName { workspace: self.workspace.clone(), seq };
        Ok(Pin { name, id, tree, attachment: None, time, message: commit.message })
    }

    fn write_commits(&self, pins: &[Pin]) -> io::Result<()> {
        let writer = self.store.writer();
        for Pin { id, tree, time, message, .. } in pins {
            let commit =
                Commit { tree: *tree, parent: None, time: *time, message: message.clone() };
            writer.add(ObjectKind::Commit, *id, &commit.encode())?;
        }
        writer.seal(&self.store.pack_directory())?;
        self.store.forget_packs();
        Ok(())
    }

    /// Notes that numbers below this one are given out.
    fn reserve(&self, next: u64) -> io::Result<()> {
        let path = self.directory.join("seq");
        fault::point("seq")?;
        write_seq(&path, next.max(read_seq(&path)))?.sync_data()?;
        durable::sync_directory(&self.directory)
    }

    /// Creates the refs.
    fn place(&self, pins: &[Pin]) -> io::Result<()> {
        for share in pins.chunks(REFS) {
            let written: Vec<_> =
                share.iter().map(|pin| self.store.write_ref(pin.id)).collect::<io::Result<_>>()?;
            let all: Vec<&std::fs::File> = written.iter().map(|file| &**file).collect();
            durable::sync_files(&all)?;
            let mut directory = None;
            for (pin, file) in share.iter().zip(written) {
                directory = Some(self.store.link_ref(&pin.name, file)?);
            }
            directory.map_or(Ok(()), |directory| durable::sync_directory(&directory))?;
        }
        Ok(())
    }

    /// Writes `workspace.json`, unless there is one.
    fn note(&self, now: i64) -> io::Result<()> {
        let path = self.directory.join("workspace.json");
        if path.exists() {
            return Ok(());
        }
        let info = WorkspaceInfo {
            path: AnyPath(self.path.clone()),
            created_at: now,
            last_seen: now,
            single_file: false,
        };
        let text = serde_json::to_vec(&info).expect("plain data becomes JSON");
        durable::replace_file_through(&self.store.temporary(), &path, &text, Durability::Synced)
    }
}

/// Which numbers pins get when others come before them.
struct Numbers {
    /// Of those that come late, in order.
    late: Vec<u64>,
    /// Of those that are there, in order: (old, new).
    moves: Vec<(u64, u64)>,
}

impl Numbers {
    /// Numbers grow, and no pin moves further than it must: an interrupted renumbering is
    /// completed by the next, not repeated.
    fn assign(existing: &[u64], late: &[Late]) -> Numbers {
        let mut numbers = Numbers { late: Vec::new(), moves: Vec::new() };
        let mut next = 1;
        let mut waiting = late.iter().peekable();
        for &old in existing {
            while waiting.next_if(|late| late.after < old).is_some() {
                numbers.late.push(next);
                next += 1;
            }
            let new = next.max(old);
            numbers.moves.push((old, new));
            next = new + 1;
        }
        numbers.late.extend(waiting.zip(next..).map(|(_, seq)| seq));
        numbers
    }

    fn last(&self) -> u64 {
        let moved = self.moves.last().map_or(0, |(_, new)| *new);
        moved.max(self.late.last().copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests;
