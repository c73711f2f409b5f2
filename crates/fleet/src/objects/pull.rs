//! Reading the checkpoints of a workspace that belongs to this machine or to another one.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;
use std::time::SystemTime;

use serde::Serialize;
use takeback_base::hex;
use takeback_tree::{AnyPath, Checkout, NewDirectory, Oid, PinName, RelPath, Store, WorkspaceId};

use super::error::ObjectsError;
use super::facts::{SEALED_FACTS, WorkspaceFacts};
use super::fetch::{Fetcher, ScratchStore};
use super::layout::{Inventory, RemoteRef, WORKSPACES, machine_prefix, workspaces_prefix};
use super::packs::Purpose;
use super::{Objects, stream};

/// A workspace that has checkpoints in the bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct RemoteWorkspace {
    /// The name of the machine.
    pub machine: String,
    /// The id of the machine.
    pub machine_id: String,
    /// The id of the workspace.
    pub workspace: String,
    /// The path of the workspace on its machine.
    pub path: AnyPath,
    /// True if the workspace is a single file.
    pub single_file: bool,
}

/// A checkpoint in the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct PullPin {
    pub seq: u64,
    pub commit: Oid,
}

/// A workspace that was placed on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// The number of files and symlinks.
    pub files: u64,
    /// The number of checkpoints, of all kinds.
    pub checkpoints: u64,
    /// The numbers of the checkpoints that were left out, because something that they need is
    /// damaged or missing.
    pub damaged: Vec<u64>,
    /// The files that were written without their setuid or setgid bit.
    pub unprivileged: Vec<RelPath>,
}

/// A workspace that is being read. Its packs are kept in a temporary store until this value is
/// dropped.
pub struct Pull<'o> {
    fetcher: Fetcher<'o>,
    scratch: ScratchStore,
    workspace: WorkspaceId,
    pins: Vec<PullPin>,
}

impl Objects {
    /// Lists the workspaces of all machines.
    pub fn workspaces(&self) -> Result<Vec<RemoteWorkspace>, ObjectsError> {
        self.check_fleet(false)?;
        let mut newest: BTreeMap<(String, String), (i64, String)> = BTreeMap::new();
        for object in self.bucket.list(WORKSPACES)?.objects {
            let name = object.key.strip_prefix(WORKSPACES).unwrap_or_default();
            let Some((machine, file)) = name.split_once('/') else { continue };
            let Some((workspace, _)) = file.split_once('.') else { continue };
            let place = newest.entry((machine.to_owned(), workspace.to_owned())).or_default();
            if place.0 <= object.created {
                *place = (object.created, object.key);
            }
        }
        let mut workspaces = Vec::new();
        for ((machine_id, workspace), (_, key)) in newest {
            let Some(facts) = self.read_facts_at(&machine_id, &key)? else { continue };
            let WorkspaceFacts { machine, path, single_file, .. } = facts;
            workspaces.push(RemoteWorkspace { machine, machine_id, workspace, path, single_file });
        }
        workspaces.sort_by(|a, b| (&a.machine, &a.path.0).cmp(&(&b.machine, &b.path.0)));
        Ok(workspaces)
    }

    /// Reads the facts about a workspace. Returns `None` if there are none.
    pub(super) fn read_facts(
        &self,
        machine: &str,
        workspace: &WorkspaceId,
    ) -> Result<Option<WorkspaceFacts>, ObjectsError> {
        let prefix = format!("{}{workspace}.", workspaces_prefix(machine));
        let listing = self.bucket.list(&prefix)?;
        let newest = listing.objects.into_iter().max_by_key(|object| object.created);
        newest.map_or(Ok(None), |object| self.read_facts_at(machine, &object.key))
    }

    pub(super) fn read_facts_at(
        &self,
        machine: &str,
        key: &str,
    ) -> Result<Option<WorkspaceFacts>, ObjectsError> {
        let damaged = |reason: String| ObjectsError::Damaged { key: key.to_owned(), reason };
        let Some(content) = self.bucket.read(key)? else { return Ok(None) };
        let json = match content.split_first() {
            Some((&SEALED_FACTS, sealed)) => {
                let mut opened = Vec::new();
                let purpose = Purpose::Workspace.to_bytes(machine);
                stream::decrypt(self.key()?, &purpose, &mut Cursor::new(sealed), &mut opened)
                    .map_err(|error| damaged(error.to_string()))?;
                opened
            }
            _ => content,
        };
        serde_json::from_slice(&json).map(Some).map_err(|error| damaged(error.to_string()))
    }

    /// Begins to read a workspace: downloads the packs with the records of its checkpoints.
    pub fn pull(&self, from: &RemoteWorkspace) -> Result<Pull<'_>, ObjectsError> {
        let machine = &from.machine_id;
        let listing = self.bucket.list(&machine_prefix(machine))?;
        let inventory = Inventory::read(machine, listing);
        let workspace: WorkspaceId = from.workspace.parse().map_err(|()| {
            ObjectsError::BadAddress(format!("{:?} is not a workspace", from.workspace))
        })?;
        let refs = current_refs(&inventory);
        let refs: Vec<&RemoteRef> = refs.iter().filter(|it| it.workspace == workspace).collect();
        let scratch = ScratchStore::create(self)?;
        scratch.place_refs(refs.iter().copied())?;
        let pins: Vec<PullPin> =
            refs.iter().map(|it| PullPin { seq: it.seq, commit: it.commit }).collect();
        let fetcher = Fetcher::new(self, machine, &inventory)?;
        let mut pull = Pull { fetcher, scratch, workspace, pins };
        let commits: Vec<Oid> = pull.pins.iter().map(|pin| pin.commit).collect();
        pull.fetch_while(|store| store.find_absent(&commits, store, true))?;
        Ok(pull)
    }
}

impl Pull<'_> {
    /// Returns the temporary store. It has the records of the checkpoints, and everything that
    /// [`Pull::fetch`] has downloaded.
    pub fn store(&self) -> &Store {
        &self.scratch.store
    }

    /// Returns the id that the workspace has in the temporary store.
    pub fn workspace(&self) -> &WorkspaceId {
        &self.workspace
    }

    /// Returns the checkpoints, oldest first.
    pub fn pins(&self) -> &[PullPin] {
        &self.pins
    }

    /// Downloads the packs with the objects that these commits need and `local` lacks. Returns true
    /// if nothing is missing.
    pub fn fetch(&mut self, commits: &[Oid], local: &Store) -> Result<bool, ObjectsError> {
        local.reload_packs();
        self.fetch_while(|store| store.find_absent(commits, local, false))
    }

    /// Writes the files of a tree into a new directory, and copies the checkpoints in `pins` into
    /// the history of this directory. Changes no existing file: the destination, an absolute path
    /// without links, must be empty or not exist yet. The directory gets its name only once it is
    /// complete.
    pub fn place(
        &self,
        local: &Store,
        tree: &Oid,
        pins: &[PullPin],
        destination: &Path,
        now: SystemTime,
    ) -> Result<Placed, ObjectsError> {
        let numbered: Vec<(u64, Oid)> = pins.iter().map(|pin| (pin.seq, pin.commit)).collect();
        let copy = local.copy_pins(&self.scratch.store, destination, &numbered)?;
        let name = format!(".takeback-pull-{}", hex::random_digits(16));
        let failed = || ObjectsError::file(destination);
        let into = NewDirectory::create(destination, &name).map_err(failed())?;
        let written = self.scratch_or(local, tree).check_out(tree, &into, None)?;
        let damaged = copy.damaged.clone();
        // The directory gets its name only after its history is complete, so that an interrupted
        // pull can be repeated.
        let checkpoints = copy.finish(now)?;
        if let Err(error) = into.place(0o700) {
            // Another process has created the directory, so it must not get the history of this
            // workspace.
            let workspace = local.workspace_id(destination);
            for pin in pins {
                let _ = local.unpin(&PinName { workspace: workspace.clone(), seq: pin.seq });
            }
            let _ = local.forget_workspace(&workspace);
            return Err(failed()(error));
        }
        let Checkout { files, unprivileged, .. } = written;
        Ok(Placed { files, checkpoints, damaged, unprivileged })
    }

    /// Returns the store to read a tree from: the local store if it has the tree, otherwise the
    /// temporary store.
    fn scratch_or<'s>(&'s self, local: &'s Store, tree: &Oid) -> &'s Store {
        match local.read_object(tree) {
            Ok(_) => local,
            Err(_) => &self.scratch.store,
        }
    }

    /// True if this machine has a tree in its own store or has downloaded it.
    pub fn has_tree(&self, local: &Store, tree: &Oid) -> bool {
        self.scratch_or(local, tree).read_object(tree).is_ok()
    }

    /// Returns the number of bytes that were downloaded.
    pub fn bytes(&self) -> u64 {
        self.fetcher.bytes
    }

    /// Returns errors for the packs and indexes that have turned out to be damaged or missing so
    /// far.
    pub fn damage(&self) -> &[ObjectsError] {
        &self.fetcher.damaged
    }

    fn fetch_while(
        &mut self,
        find_absent: impl Fn(&Store) -> std::collections::BTreeSet<Oid>,
    ) -> Result<bool, ObjectsError> {
        loop {
            let absent = find_absent(&self.scratch.store);
            if absent.is_empty() {
                return Ok(true);
            }
            if !self.fetcher.fetch(&absent, &self.scratch.pack_directory())? {
                return Ok(false);
            }
            self.scratch.store.reload_packs();
        }
    }
}

/// Returns the refs that are valid now. If pins were renumbered, the earlier refs still exist for a
/// while: of two refs with the same number or the same commit, only the later one is valid.
pub(super) fn current_refs(inventory: &Inventory) -> Vec<RemoteRef> {
    let mut refs: Vec<(&RemoteRef, i64)> = inventory
        .refs
        .iter()
        .filter(|(found, _)| !inventory.gone_refs.contains_key(found))
        .map(|(found, created)| (found, *created))
        .collect();
    refs.sort_by_key(|(_, created)| *created);
    let mut by_number: BTreeMap<(&WorkspaceId, u64), &RemoteRef> = BTreeMap::new();
    let mut numbers: BTreeMap<(&WorkspaceId, Oid), u64> = BTreeMap::new();
    for (found, _) in refs {
        if let Some(seq) = numbers.insert((&found.workspace, found.commit), found.seq) {
            by_number.remove(&(&found.workspace, seq));
        }
        by_number.insert((&found.workspace, found.seq), found);
    }
    by_number.into_values().cloned().collect()
}
