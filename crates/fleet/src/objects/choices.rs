//! The decisions that an upload makes: which checkpoints it uploads, which packs it no longer
//! relies on, and which packs it merges.

use std::collections::{BTreeMap, BTreeSet};

use takeback_tree::{Oid, Store, WorkspaceId};

use super::error::ObjectsError;
use super::layout::{Inventory, RemoteRef};
use super::state::UploadState;

/// The number of packs above which small packs are merged into one.
const MANY_PACKS: usize = 24;

/// The number of bytes by which the packs in the bucket may exceed those in the store, in addition
/// to 5 percent, before the bucket's packs are rewritten.
const SLACK: u64 = 128 << 10;

/// Lists the pins of the local store, workspace by workspace, oldest first.
pub(super) fn list_local_refs(store: &Store) -> Result<Vec<RemoteRef>, ObjectsError> {
    let mut refs = Vec::new();
    for workspace in store.pinned_workspaces()? {
        for name in store.pin_names(&workspace)? {
            // A damaged ref is reported by `takeback doctor`.
            if let Ok(Some(commit)) = store.pin_id(&name) {
                refs.push(RemoteRef { workspace: workspace.clone(), seq: name.seq, commit });
            }
        }
    }
    Ok(refs)
}

/// Finds the packs in the bucket that the upload must not rely on: those that a verification found
/// damaged, those whose size has changed, and those that are missing.
pub(super) fn find_broken_packs(inventory: &Inventory, state: &UploadState) -> BTreeSet<String> {
    let is_broken = |(digest, size): &(&String, &u64)| {
        inventory.find_pack(digest).is_none_or(|pack| pack.size != **size)
    };
    let changed = state.packs.iter().filter(is_broken).map(|(digest, _)| digest);
    changed.chain(&state.broken).cloned().collect()
}

pub(super) fn count_used(inventory: &Inventory) -> usize {
    inventory.packs.iter().filter(|pack| pack.gone.is_none()).count()
}

/// Chooses the packs to merge. If there are many packs, chooses enough of the smallest ones that
/// each remaining pack is larger than all smaller packs together. If the packs in the bucket are
/// much larger than those in the store, chooses all packs in the bucket, because the store may have
/// found better deltas.
pub(super) fn choose_replaced(
    store: &Store,
    inventory: &Inventory,
    broken: &BTreeSet<String>,
    state: &UploadState,
) -> Result<BTreeSet<String>, ObjectsError> {
    let mut packs: Vec<(u64, &String)> = inventory
        .packs
        .iter()
        .filter(|pack| pack.gone.is_none() && !broken.contains(&pack.name.pack))
        .map(|pack| (pack.size, &pack.name.pack))
        .collect();
    packs.sort_unstable();
    let total: u64 = packs.iter().map(|(size, _)| size).sum();
    let local = store.pack_bytes()?.max(state.full_bytes);
    let mut merged = 0;
    if total > local + local / 20 + SLACK {
        merged = packs.len();
    } else if packs.len() > MANY_PACKS {
        let mut sum = 0;
        for (index, (size, _)) in packs.iter().enumerate() {
            if *size <= sum {
                merged = index + 1;
            }
            sum += size;
        }
    }
    Ok(packs.into_iter().take(merged).map(|(_, digest)| digest.clone()).collect())
}

/// Chooses the commits to traverse: for each workspace, the newest first. If no pack in the bucket
/// has to be rewritten, the new commits and the newest uploaded commit are enough, because an
/// uploaded checkpoint is complete.
pub(super) fn choose_histories(
    local: &[RemoteRef],
    inventory: &Inventory,
    rewrites: bool,
) -> Vec<Vec<Oid>> {
    let mut by_workspace: BTreeMap<&WorkspaceId, Vec<&RemoteRef>> = BTreeMap::new();
    for found in local {
        by_workspace.entry(&found.workspace).or_default().push(found);
    }
    let mut histories = Vec::new();
    for refs in by_workspace.values() {
        let is_new = |it: &RemoteRef| !inventory.refs.contains_key(it);
        let newest_uploaded = refs.iter().rev().find(|it| !is_new(it)).map(|it| it.commit);
        let chosen: Vec<Oid> = refs
            .iter()
            .rev()
            .filter(|it| rewrites || is_new(it) || Some(it.commit) == newest_uploaded)
            .map(|it| it.commit)
            .collect();
        if rewrites || refs.iter().any(|it| is_new(it)) {
            histories.push(chosen);
        }
    }
    histories
}
