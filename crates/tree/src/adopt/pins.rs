//! Pinning adopted states among the existing pins of a workspace.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use takeback_base::durable::{self, Durability, FileLock};

use super::{OlderPin, write_error};
use crate::fault;
use crate::lock::{PinError, read_seq, to_milliseconds, write_seq};
use crate::object::{Commit, ObjectKind};
use crate::oid::Oid;
use crate::path::AnyPath;
use crate::pins::{Pin, PinName, WorkspaceId};
use crate::store::{Store, StoreError};
use crate::workspace::WorkspaceInfo;

/// The maximum number of refs that are written and synced together. Each of them needs an open
/// file.
const REFS_AT_ONCE: usize = 64;

/// A locked workspace in which the adopted states can be pinned.
pub struct AdoptLock<'s> {
    store: &'s Store,
    path: PathBuf,
    workspace: WorkspaceId,
    directory: PathBuf,
    _locks: [FileLock; 2],
}

impl<'s> AdoptLock<'s> {
    pub(crate) fn new(
        store: &'s Store,
        path: &Path,
        workspace: WorkspaceId,
        locks: [FileLock; 2],
    ) -> AdoptLock<'s> {
        let directory = store.workspace_directory(&workspace);
        AdoptLock { store, path: path.to_owned(), workspace, directory, _locks: locks }
    }

    /// Returns the id of the workspace.
    pub fn workspace(&self) -> &WorkspaceId {
        &self.workspace
    }

    pub(crate) fn store_directory(&self) -> &Path {
        self.store.directory()
    }

    /// Reads the pins of the workspace, oldest first. Skips pins that cannot be read.
    pub fn pins(&self) -> Result<Vec<Pin>, StoreError> {
        let names = self.store.pin_names(&self.workspace)?;
        Ok(names.iter().filter_map(|name| self.store.pin(name).ok().flatten()).collect())
    }

    /// Pins the adopted states, each directly after the pin with the number [`OlderPin::after`].
    /// Existing pins get higher numbers where needed to stay in order. `older` must be sorted in
    /// the order in which the new pins are to appear.
    ///
    /// `message` returns the message of a pin, given the pin's index in `older` and the pin's
    /// number.
    pub fn finish(
        self,
        older: &[OlderPin],
        now: SystemTime,
        message: &mut dyn FnMut(usize, u64) -> String,
    ) -> Result<Vec<Pin>, PinError> {
        let existing = self.store.pin_names(&self.workspace)?;
        let existing: Vec<u64> = existing.into_iter().map(|name| name.seq).collect();
        let numbers = PinNumbers::assign(&existing, older);
        let pins: Vec<Pin> = (0..older.len())
            .map(|index| {
                let seq = numbers.older[index];
                self.make_pin(&older[index], seq, message(index, seq))
            })
            .collect::<Result<_, _>>()?;
        if pins.is_empty() {
            return Ok(pins);
        }
        let failed = write_error(self.store);
        self.write_commits(&pins).map_err(&failed)?;
        // The path of the workspace must be recorded before the workspace has pins.
        self.write_info(to_milliseconds(now)).map_err(&failed)?;
        // The numbers must be reserved before any existing pin is renumbered, so that later pins
        // get higher numbers than all of these pins, even if this process is killed in between.
        self.reserve_numbers(numbers.last() + 1).map_err(&failed)?;
        self.store.renumber_pins(&self.workspace, &numbers.moves).map_err(&failed)?;
        self.create_refs(&pins).map_err(&failed)?;
        Ok(pins)
    }

    /// Pins commits under these numbers. The caller must have made the commits durable and must
    /// have made sure that no existing pin has one of the numbers.
    pub(crate) fn pin_copies(self, pins: &[(u64, Oid)], now: SystemTime) -> io::Result<()> {
        self.write_info(to_milliseconds(now))?;
        self.reserve_numbers(pins.iter().map(|(seq, _)| seq + 1).max().unwrap_or(1))?;
        let pins: Vec<Pin> = pins
            .iter()
            .map(|(seq, id)| {
                let name = PinName { workspace: self.workspace.clone(), seq: *seq };
                let message = String::new();
                Pin { name, id: *id, tree: Oid::EMPTY_TREE, attachment: None, time: 0, message }
            })
            .collect();
        self.create_refs(&pins)
    }

    fn make_pin(&self, older: &OlderPin, seq: u64, message: String) -> Result<Pin, PinError> {
        if message.contains('\0') {
            return Err(PinError::Message);
        }
        // Git rejects commits from before 1970.
        let (tree, time) = (older.tree, older.time.max(0));
        let commit = Commit { tree, parent: None, time, message };
        let id = Oid::of(ObjectKind::Commit, &commit.encode());
        let name = PinName { workspace: self.workspace.clone(), seq };
        Ok(Pin { name, id, tree, attachment: None, time, message: commit.message })
    }

    fn write_commits(&self, pins: &[Pin]) -> io::Result<()> {
        let writer = self.store.new_pack();
        for Pin { id, tree, time, message, .. } in pins {
            let commit =
                Commit { tree: *tree, parent: None, time: *time, message: message.clone() };
            writer.add(ObjectKind::Commit, *id, &commit.encode())?;
        }
        writer.seal(&self.store.pack_directory())?;
        self.store.forget_packs();
        Ok(())
    }

    /// Durably records that all numbers below `next` are taken.
    fn reserve_numbers(&self, next: u64) -> io::Result<()> {
        let path = self.directory.join("seq");
        fault::point("seq")?;
        write_seq(&path, next.max(read_seq(&path)))?.sync_data()?;
        durable::sync_directory(&self.directory)
    }

    /// Creates the refs of the pins, durably.
    fn create_refs(&self, pins: &[Pin]) -> io::Result<()> {
        for batch in pins.chunks(REFS_AT_ONCE) {
            let written: Vec<_> =
                batch.iter().map(|pin| self.store.write_ref(pin.id)).collect::<io::Result<_>>()?;
            let all: Vec<&File> = written.iter().map(|file| &**file).collect();
            durable::sync_files(&all)?;
            let mut directory = None;
            for (pin, file) in batch.iter().zip(written) {
                directory = Some(self.store.link_ref(&pin.name, file)?);
            }
            directory.map_or(Ok(()), |directory| durable::sync_directory(&directory))?;
        }
        Ok(())
    }

    /// Writes `workspace.json`, unless it exists.
    fn write_info(&self, now: i64) -> io::Result<()> {
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
        let text = serde_json::to_vec(&info).expect("plain data serializes to JSON");
        durable::replace_file_through(&self.store.temporary(), &path, &text, Durability::Synced)
    }
}

/// The numbers of a workspace's pins after an insertion.
pub(super) struct PinNumbers {
    /// The numbers of the inserted pins, in order.
    pub(super) older: Vec<u64>,
    /// The old and new numbers of the existing pins, in order.
    pub(super) moves: Vec<(u64, u64)>,
}

impl PinNumbers {
    /// Assigns numbers. No number becomes smaller, and no pin moves further than necessary, so
    /// another call completes an interrupted renumbering instead of repeating it.
    pub(super) fn assign(existing: &[u64], older: &[OlderPin]) -> PinNumbers {
        let mut numbers = PinNumbers { older: Vec::new(), moves: Vec::new() };
        let mut next = 1;
        let mut waiting = older.iter().peekable();
        for &old in existing {
            while waiting.next_if(|older| older.after < old).is_some() {
                numbers.older.push(next);
                next += 1;
            }
            let new = next.max(old);
            numbers.moves.push((old, new));
            next = new + 1;
        }
        numbers.older.extend(waiting.zip(next..).map(|(_, seq)| seq));
        numbers
    }

    fn last(&self) -> u64 {
        let moved = self.moves.last().map_or(0, |(_, new)| *new);
        moved.max(self.older.last().copied().unwrap_or(0))
    }
}
