//! Verifying the bucket: downloading everything, comparing each object with its name, and reading
//! every checkpoint.

use std::collections::BTreeMap;

use serde::Serialize;
use takeback_base::errors::error_messages;
use takeback_tree::{AnyPath, PinReport, PinState};

use super::Objects;
use super::bucket::Listing;
use super::error::ObjectsError;
use super::fetch::{ScratchStore, pack_files};
use super::layout::{Inventory, WORKSPACES, machine_prefix};
use super::pull::current_refs;

/// The result of verifying the bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifiedObjects {
    /// The number of machines.
    pub machines: u64,
    /// The number of checkpoints.
    pub checkpoints: u64,
    /// The number of objects that are intact.
    pub objects: u64,
    /// The size of everything that was read, in bytes.
    pub bytes: u64,
    /// The objects that are damaged or missing, each with the reason.
    pub damaged: Vec<String>,
    /// The checkpoints that cannot be restored completely from the bucket.
    pub affected: Vec<Affected>,
    /// The keys of objects that takeback did not create.
    pub strangers: Vec<String>,
}

/// A checkpoint that cannot be restored completely from the bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Affected {
    /// The name of the machine, or its id.
    pub machine: String,
    /// The path of the workspace on its machine, if it is known.
    pub workspace: Option<AnyPath>,
    /// The number of the checkpoint.
    pub seq: u64,
    /// The number of files and directories that are lost; `None` if all of them are lost.
    pub lost: Option<u64>,
}

impl VerifiedObjects {
    /// True if everything is intact.
    pub fn is_whole(&self) -> bool {
        self.damaged.is_empty() && self.affected.is_empty()
    }
}

impl Objects {
    /// Downloads and checks everything in the bucket. Deletes nothing. The next upload replaces
    /// this machine's own packs if they are damaged. `progress` is called with the number of bytes
    /// that have been read.
    pub fn verify(&self, progress: &dyn Fn(u64)) -> Result<VerifiedObjects, ObjectsError> {
        let bucket = self.check_fleet(false)?;
        let mut result = VerifiedObjects::default();
        let listing = self.bucket.list("")?;
        let mut machines: BTreeMap<String, Listing> = BTreeMap::new();
        let mut facts: BTreeMap<(String, String), (String, AnyPath)> = BTreeMap::new();
        for object in listing.objects {
            let mut parts = object.key.split('/');
            match (parts.next(), parts.next()) {
                (Some("machines"), Some(machine)) => {
                    let place = machines.entry(machine.to_owned()).or_default();
                    place.objects.push(object);
                }
                (Some("workspaces"), Some(machine)) => {
                    let machine = machine.to_owned();
                    self.verify_facts(&machine, &object.key, &mut facts, &mut result)?;
                }
                (Some("fleet.json"), None) => result.objects += 1,
                _ => result.strangers.push(object.key),
            }
        }
        for (machine, listing) in machines {
            result.machines += 1;
            let inventory = Inventory::read(&machine, listing);
            let broken =
                self.verify_machine(&machine, &inventory, &facts, &mut result, progress)?;
            if machine == self.identity.machine {
                self.remember_damage(&bucket, &inventory, broken, &mut result)?;
            }
        }
        Ok(result)
    }

    fn verify_facts(
        &self,
        machine: &str,
        key: &str,
        facts: &mut BTreeMap<(String, String), (String, AnyPath)>,
        result: &mut VerifiedObjects,
    ) -> Result<(), ObjectsError> {
        let file = key.strip_prefix(WORKSPACES).and_then(|name| name.split_once('/'));
        let workspace = file.and_then(|(_, file)| file.split_once('.')).map(|(id, _)| id);
        match (workspace, self.read_facts_at(machine, key)) {
            (None, _) => result.strangers.push(key.to_owned()),
            (Some(_), Err(error @ ObjectsError::Damaged { .. })) => result.note(&error),
            (Some(_), Err(error)) => return Err(error),
            (Some(workspace), Ok(Some(found))) => {
                facts.insert(
                    (machine.to_owned(), workspace.to_owned()),
                    (found.machine, found.path),
                );
                result.objects += 1;
            }
            (Some(_), Ok(None)) => {}
        }
        Ok(())
    }

    /// Verifies the objects of one machine. Returns the digests of damaged packs.
    fn verify_machine(
        &self,
        machine: &str,
        inventory: &Inventory,
        facts: &BTreeMap<(String, String), (String, AnyPath)>,
        result: &mut VerifiedObjects,
        progress: &dyn Fn(u64),
    ) -> Result<Vec<String>, ObjectsError> {
        let scratch = ScratchStore::create(self)?;
        let mut broken = Vec::new();
        for pack in &inventory.packs {
            let [to, index] = pack_files(&scratch.pack_directory(), pack);
            let fetched = self.fetch_pack(machine, &pack.name, &to);
            let fetched = fetched.and_then(|()| self.fetch_index(machine, &pack.name, &index));
            result.bytes += pack.size + pack.index_size;
            progress(result.bytes);
            match fetched {
                Ok(()) => result.objects += 2,
                Err(error @ (ObjectsError::Damaged { .. } | ObjectsError::Missing { .. })) => {
                    result.note(&error);
                    broken.push(pack.name.pack.clone());
                }
                Err(error) => return Err(error),
            }
        }
        let refs = current_refs(inventory);
        for found in &refs {
            let key = format!("{}refs/{}", machine_prefix(machine), found.name());
            match self.bucket.read(&key)? {
                Some(content) if content == found.content().as_bytes() => result.objects += 1,
                Some(_) => result.note(&ObjectsError::Damaged {
                    key,
                    reason: "its content does not match its name".to_owned(),
                }),
                // The machine has deleted the checkpoint in the meantime.
                None => {}
            }
        }
        scratch.place_refs(refs.iter())?;
        scratch.store.reload_packs();
        let report = scratch.store.verify(&|_, _| {})?;
        result.checkpoints += refs.len() as u64;
        for pin in &report.pins {
            result.affected.extend(describe_damage(machine, pin, facts));
        }
        Ok(broken)
    }

    /// Makes the next upload replace this machine's damaged packs.
    fn remember_damage(
        &self,
        bucket: &str,
        inventory: &Inventory,
        broken: Vec<String>,
        result: &mut VerifiedObjects,
    ) -> Result<(), ObjectsError> {
        let Ok(_lock) = self.lock() else { return Ok(()) };
        let mut state = self.read_state(bucket)?;
        for digest in state.packs.keys() {
            if inventory.find_pack(digest).is_none() {
                result.note(&ObjectsError::Missing { key: format!("pack {digest}") });
            }
        }
        let is_used =
            |digest: &String| inventory.find_pack(digest).is_some_and(|pack| pack.gone.is_none());
        state.broken.extend(broken.into_iter().filter(is_used));
        state.write(&self.files)
    }
}

impl VerifiedObjects {
    fn note(&mut self, error: &ObjectsError) {
        self.damaged.push(error_messages(error).join(": "));
    }
}

/// Describes a checkpoint that is damaged.
fn describe_damage(
    machine: &str,
    pin: &PinReport,
    facts: &BTreeMap<(String, String), (String, AnyPath)>,
) -> Option<Affected> {
    let lost = match &pin.state {
        PinState::Whole => return None,
        PinState::Partly { count, .. } => Some(*count),
        PinState::Lost { .. } => None,
    };
    let name = pin.pin.as_ref()?;
    let known = facts.get(&(machine.to_owned(), name.workspace.to_string()));
    Some(Affected {
        machine: known.map_or(machine, |(name, _)| name).to_owned(),
        workspace: known.map(|(_, path)| path.clone()),
        seq: name.seq,
        lost,
    })
}
