//! Deleting objects that this machine's checkpoints no longer need from its part of the bucket.
//!
//! Deletion takes two steps. The first run creates a mark. A later run deletes the object if it is
//! still not needed and the mark is older than the grace period, by the storage's clock. An upload
//! never relies on a pack with a mark. A checkpoint is marked before the packs that only it needs,
//! so it can be pulled until its own grace period ends.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use serde::Serialize;
use takeback_tree::{Oid, Store, WorkspaceId};

use super::Objects;
use super::bucket::Content;
use super::choices::{find_broken_packs, list_local_refs};
use super::error::ObjectsError;
use super::layout::{Inventory, ListedPack, RemoteRef, machine_prefix};

/// The options for deleting.
#[derive(Clone, Copy, Debug)]
pub struct CollectOptions {
    /// The time between a mark and the deletion.
    pub grace: Duration,
    /// True to change nothing, and only count what would be deleted.
    pub dry_run: bool,
    /// True to delete the checkpoints of stores that this home had earlier.
    pub earlier_stores: bool,
}

/// The result of deleting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Collected {
    /// The number of checkpoints that were deleted.
    pub checkpoints: u64,
    /// The number of packs that were deleted.
    pub packs: u64,
    /// The size of everything that was deleted.
    pub bytes: u64,
    /// The number of checkpoints that will be deleted after the grace period.
    pub waiting_checkpoints: u64,
    /// The number of packs that will be deleted after the grace period.
    pub waiting_packs: u64,
    /// The size of these packs.
    pub waiting_bytes: u64,
    /// The number of checkpoints that were kept because they come from stores that this home had
    /// earlier. If there are any, all packs are kept as well.
    pub earlier: u64,
    /// True if the local store is damaged. In that case, no packs are deleted, because the bucket
    /// may have objects that the store has lost.
    pub is_store_damaged: bool,
}

impl Objects {
    /// Deletes the objects that this machine's checkpoints no longer need.
    pub fn collect(
        &self,
        store: &Store,
        options: &CollectOptions,
    ) -> Result<Collected, ObjectsError> {
        let _lock = self.lock()?;
        let bucket = self.check_fleet(false)?;
        let inventory = self.read_inventory()?;
        let mut state = self.read_state(&bucket)?;
        self.check_claim(&inventory, &state)?;
        let local = list_local_refs(store)?;
        let mut foreign = self.find_foreign_workspaces(store, &inventory, &local)?;
        let is_foreign = |it: &&RemoteRef| foreign.contains(&it.workspace);
        let mut collected = Collected::default();
        match options.earlier_stores {
            true => foreign.clear(),
            false => {
                collected.earlier = inventory.refs.keys().filter(is_foreign).count() as u64;
            }
        }
        if !options.dry_run {
            self.claim(&inventory, &mut state)?;
        }
        let grace = options.grace.as_millis() as i64;
        let is_due = |marked: Option<i64>| match marked {
            Some(marked) => inventory.now > 0 && inventory.now - marked >= grace,
            None => grace == 0,
        };
        let mut sweep = Sweep { objects: self, options, collected };

        let kept: BTreeSet<&RemoteRef> = local.iter().collect();
        for found in inventory.refs.keys() {
            let marked = inventory.gone_refs.get(found).copied();
            let is_kept = kept.contains(found) || foreign.contains(&found.workspace);
            sweep.handle_ref(found, marked, is_kept, is_due(marked))?;
        }
        let histories = group_histories(&local);
        let needs = store.find_needs(&histories)?;
        sweep.collected.is_store_damaged = !needs.is_complete;
        if needs.is_complete && foreign.is_empty() {
            let used = self.choose_used(
                &inventory,
                &needs.objects,
                &find_broken_packs(&inventory, &state),
            )?;
            for pack in &inventory.packs {
                let is_kept = used.contains(&pack.name.pack);
                if sweep.handle_pack(pack, is_kept, is_due(pack.gone))? {
                    state.packs.remove(&pack.name.pack);
                }
            }
            sweep.sweep_halves(&inventory, grace)?;
        }
        let collected = sweep.collected;
        if !options.dry_run {
            state.write(&self.files)?;
        }
        Ok(collected)
    }

    /// Chooses packs that together have all needed objects. Prefers newer packs, because a merged
    /// pack is newer than the packs that it replaces.
    fn choose_used(
        &self,
        inventory: &Inventory,
        needed: &HashSet<Oid>,
        broken: &BTreeSet<String>,
    ) -> Result<HashSet<String>, ObjectsError> {
        let mut packs: Vec<&ListedPack> =
            inventory.packs.iter().filter(|pack| !broken.contains(&pack.name.pack)).collect();
        // Packs without a mark come first: uploads rely only on these.
        packs.sort_by_key(|pack| (pack.gone.is_some(), std::cmp::Reverse(pack.created)));
        let (mut used, mut covered) = (HashSet::new(), HashSet::new());
        for pack in packs {
            let objects = self.read_index(&self.identity.machine, &pack.name)?;
            let mut is_used = false;
            for oid in objects.into_iter().filter(|oid| needed.contains(oid)) {
                is_used |= covered.insert(oid);
            }
            if is_used {
                used.insert(pack.name.pack.clone());
            }
        }
        Ok(used)
    }

    /// Finds the workspaces whose checkpoints come from a store that this home had earlier. A
    /// workspace about which the bucket has no facts is assumed to be one of them.
    pub(super) fn find_foreign_workspaces(
        &self,
        store: &Store,
        inventory: &Inventory,
        local: &[RemoteRef],
    ) -> Result<BTreeSet<WorkspaceId>, ObjectsError> {
        let own: BTreeSet<&WorkspaceId> = local.iter().map(|it| &it.workspace).collect();
        let mut unknown: BTreeSet<&WorkspaceId> =
            inventory.refs.keys().map(|it| &it.workspace).collect();
        unknown.retain(|workspace| !own.contains(workspace));
        let mut foreign = BTreeSet::new();
        for workspace in unknown {
            let facts = self.read_facts(&self.identity.machine, workspace)?;
            if facts.is_none_or(|facts| facts.store != store.uuid()) {
                foreign.insert(workspace.clone());
            }
        }
        Ok(foreign)
    }

    /// Marks the checkpoints in the bucket that the store no longer has.
    pub(super) fn mark_deleted_refs(
        &self,
        inventory: &Inventory,
        local: &[RemoteRef],
    ) -> Result<(), ObjectsError> {
        let kept: BTreeSet<&RemoteRef> = local.iter().collect();
        for found in inventory.refs.keys().filter(|it| !kept.contains(it)) {
            if !inventory.gone_refs.contains_key(found) {
                self.bucket.create(&self.gone_ref_key(found), &Content::Bytes(b""))?;
            }
        }
        Ok(())
    }

    /// Marks packs that are no longer needed.
    pub(super) fn mark_packs<'a>(
        &self,
        inventory: &Inventory,
        digests: impl Iterator<Item = &'a String>,
    ) -> Result<(), ObjectsError> {
        for digest in digests {
            if inventory.find_pack(digest).is_some_and(|pack| pack.gone.is_none()) {
                self.bucket.create(&self.gone_pack_key(digest), &Content::Bytes(b""))?;
            }
        }
        Ok(())
    }

    /// Removes the mark of a pack that is needed again.
    pub(super) fn unmark_pack(&self, digest: &str) -> Result<(), ObjectsError> {
        self.bucket.remove(&self.gone_pack_key(digest))
    }

    fn gone_ref_key(&self, found: &RemoteRef) -> String {
        format!("{}gone/refs/{}", machine_prefix(&self.identity.machine), found.name())
    }

    fn gone_pack_key(&self, digest: &str) -> String {
        format!("{}gone/packs/{digest}", machine_prefix(&self.identity.machine))
    }
}

/// A deletion in progress.
struct Sweep<'a> {
    objects: &'a Objects,
    options: &'a CollectOptions,
    collected: Collected,
}

impl Sweep<'_> {
    fn create(&self, key: &str) -> Result<(), ObjectsError> {
        match self.options.dry_run {
            true => Ok(()),
            false => self.objects.bucket.create(key, &Content::Bytes(b"")).map(drop),
        }
    }

    fn remove(&self, key: &str) -> Result<(), ObjectsError> {
        match self.options.dry_run {
            true => Ok(()),
            false => self.objects.bucket.remove(key),
        }
    }

    fn handle_ref(
        &mut self,
        found: &RemoteRef,
        marked: Option<i64>,
        is_kept: bool,
        is_due: bool,
    ) -> Result<(), ObjectsError> {
        let mark = self.objects.gone_ref_key(found);
        match (is_kept, marked) {
            (true, None) => Ok(()),
            (true, Some(_)) => self.remove(&mark),
            (false, _) if is_due => {
                let prefix = machine_prefix(&self.objects.identity.machine);
                self.remove(&format!("{prefix}refs/{}", found.name()))?;
                self.collected.checkpoints += 1;
                self.remove(&mark)
            }
            (false, marked) => {
                self.collected.waiting_checkpoints += 1;
                if marked.is_none() { self.create(&mark) } else { Ok(()) }
            }
        }
    }

    /// Deletes a pack, or updates its mark. Returns true if the pack was deleted.
    fn handle_pack(
        &mut self,
        pack: &ListedPack,
        is_kept: bool,
        is_due: bool,
    ) -> Result<bool, ObjectsError> {
        let mark = self.objects.gone_pack_key(&pack.name.pack);
        let bytes = pack.size + pack.index_size;
        match (is_kept, pack.gone) {
            (true, None) => {}
            (true, Some(_)) => self.remove(&mark)?,
            (false, _) if is_due => {
                // The index is removed first: without it, the pack is ignored.
                let prefix = machine_prefix(&self.objects.identity.machine);
                self.remove(&format!("{prefix}packs/{}", pack.name.index_file()))?;
                self.remove(&format!("{prefix}packs/{}", pack.name.pack_file()))?;
                self.remove(&mark)?;
                self.collected.packs += 1;
                self.collected.bytes += bytes;
                return Ok(!self.options.dry_run);
            }
            (false, marked) => {
                self.collected.waiting_packs += 1;
                self.collected.waiting_bytes += bytes;
                if marked.is_none() {
                    self.create(&mark)?;
                }
            }
        }
        Ok(false)
    }

    /// Deletes files of packs that will never be complete. Also deletes marks of packs and
    /// checkpoints that no longer exist. Keeps files that are still staged on this machine, because
    /// the next upload completes their packs.
    fn sweep_halves(&mut self, inventory: &Inventory, grace: i64) -> Result<(), ObjectsError> {
        for half in &inventory.halves {
            let file = half.key.rsplit('/').next().unwrap_or_default();
            let is_due = inventory.now > 0 && inventory.now - half.created >= grace;
            if is_due && !self.objects.staged_file(file).exists() {
                self.remove(&half.key)?;
                self.collected.bytes += half.size;
            }
        }
        let is_unused = |digest: &&String| inventory.find_pack(digest).is_none();
        for digest in inventory.gone_packs.keys().filter(is_unused) {
            self.remove(&self.objects.gone_pack_key(digest))?;
        }
        let is_unused = |found: &&RemoteRef| !inventory.refs.contains_key(*found);
        for found in inventory.gone_refs.keys().filter(is_unused) {
            self.remove(&self.objects.gone_ref_key(found))?;
        }
        Ok(())
    }
}

/// Groups commits by workspace. In each group, the newest commit comes first.
fn group_histories(local: &[RemoteRef]) -> Vec<Vec<Oid>> {
    let mut histories: BTreeMap<&WorkspaceId, Vec<Oid>> = BTreeMap::new();
    for found in local.iter().rev() {
        histories.entry(&found.workspace).or_default().push(found.commit);
    }
    histories.into_values().collect()
}
