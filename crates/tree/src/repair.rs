//! Repairing a store: saves the intact objects in damaged packs. The damaged packs are not deleted,
//! but set aside.
//!
//! The intact objects from a damaged pack are written to a new pack, which is durable before the
//! damaged one moves to `quarantine/`. If pins still lack objects, the repair searches for them in
//! all packs that have ever been set aside, and in packs without an index. If a repair is killed at
//! any point, no object is lost, and the next repair completes it.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use takeback_base::durable::{self, Durability};

use crate::object::{self, ObjectKind};
use crate::oid::Oid;
use crate::pack::midx;
use crate::pack::read::ObjectContent;
use crate::pack::write::PackWriter;
use crate::pack_rewrite::PackRewrite;
use crate::packs::{is_damage, list_pack_names};
use crate::pins::PinName;
use crate::reachability::{self, CommitLinks};
use crate::salvage::DamagedPack;
use crate::source_packs::SourcePacks;
use crate::store::{Store, StoreError};
use crate::verify::{BrokenPack, Examination, PinReport, PinState, Progress, VerifyReport};

/// The file with the ids of lost objects whose loss was accepted.
const LOST: &str = "lost";

/// The result of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairReport {
    /// The damaged packs that are now in the store's `quarantine/`.
    pub set_aside: Vec<BrokenPack>,
    /// The number of objects that were recovered from damaged packs.
    pub salvaged: u64,
    /// The state of the store after the repair.
    pub now: VerifyReport,
    /// The objects that refs need and that still cannot be read after the repair.
    pub lost: HashSet<Oid>,
}

/// The reason why a repair ended early. No object was lost.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum RepairError {
    /// Another process is running a gc, merge or repair.
    #[error("another process is cleaning up this store")]
    Busy,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// Saves the intact objects in damaged packs and sets those packs aside. Verifies the store
    /// before and after the repair.
    pub fn repair(&self, progress: Progress<'_>) -> Result<RepairReport, RepairError> {
        let rewrite = PackRewrite::begin(self)?.ok_or(RepairError::Busy)?;
        let examination = self.examine(progress)?;
        if examination.broken.is_empty() && examination.lost.is_empty() {
            let (now, lost) = (examination.report, HashSet::new());
            return Ok(RepairReport { set_aside: Vec::new(), salvaged: 0, now, lost });
        }
        let mut damaged: HashSet<String> = examination
            .broken
            .iter()
            .filter(|(name, error)| *name != midx::NAME && is_damage(error))
            .map(|(name, _)| name.clone())
            .collect();
        let writer = rewrite.new_pack();
        self.salvage_objects(&examination, &damaged, &writer)?;
        let salvaged = writer.count() as u64;
        let packed = rewrite.seal_pack(writer)?;

        let lock = rewrite.lock_store()?;
        rewrite.install_packs(packed.as_slice())?;
        // A pack is named after its content. If a damaged pack was salvaged completely, the new
        // pack may have the same name. In that case, it has already replaced the damaged pack.
        damaged.retain(|name| packed.as_ref() != Some(name));
        for name in &damaged {
            self.quarantine_pack(name)?;
        }
        // Captures must not rely on lost objects. In a new generation, captures notice the loss and
        // store a new copy of each file that still exists.
        if !examination.lost.is_empty() {
            self.bump_generation()?;
        }
        self.index_packs(&HashSet::new())?;
        self.forget_packs();
        drop(lock);

        let is_set_aside = |pack: &BrokenPack| damaged.contains(&pack.name);
        let set_aside = examination.report.packs.into_iter().filter(is_set_aside).collect();
        let Examination { report: now, lost, .. } = self.examine(progress)?;
        Ok(RepairReport { set_aside, salvaged, now, lost })
    }

    /// Accepts the losses that a repair could not prevent, so that a gc no longer fails because of
    /// them. Removes the pins that have lost everything, and writes their names and ids to
    /// `quarantine/refs`. Returns the number of these pins.
    pub fn accept_losses(&self, report: &RepairReport) -> Result<usize, StoreError> {
        let quarantine = self.directory().join("quarantine");
        durable::create_directory(&quarantine).map_err(StoreError::io("create", &quarantine))?;
        let is_lost = |pin: &&PinReport| matches!(pin.state, PinState::Lost { .. });
        let pins = report.now.pins.iter().filter(is_lost).filter_map(|pin| pin.pin.as_ref());
        let pins: Vec<&PinName> = pins.collect();
        let mut lines = String::new();
        for name in &pins {
            let content = fs::read(self.directory().join(name.to_string())).unwrap_or_default();
            lines += &format!("{} {name}\n", String::from_utf8_lossy(&content).trim());
        }
        append_lines(&quarantine.join("refs"), &lines)?;
        let mut lost = self.accepted_losses();
        lost.extend(&report.lost);
        let mut lost: Vec<String> = lost.iter().map(|oid| format!("{oid}\n")).collect();
        lost.sort();
        let path = self.directory().join(LOST);
        durable::replace_file(&path, lost.concat().as_bytes(), Durability::Synced)
            .map_err(StoreError::io("write", &path))?;
        pins.iter().try_for_each(|name| self.unpin(name))?;
        Ok(pins.len())
    }

    /// Reads the ids of the lost objects whose loss was accepted.
    pub(crate) fn accepted_losses(&self) -> HashSet<Oid> {
        // If the file cannot be read, no loss is treated as accepted, so a gc fails again.
        let text = fs::read_to_string(self.directory().join(LOST)).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Writes the intact objects from damaged packs. Also writes the objects that pins lack, if
    /// they are in packs that were set aside or have no index.
    fn salvage_objects(
        &self,
        examination: &Examination,
        damaged: &HashSet<String>,
        writer: &PackWriter,
    ) -> Result<(), StoreError> {
        let directory = self.pack_directory();
        let failed = || StoreError::io("write", &directory);
        let mut intact = SourcePacks::default();
        for name in list_pack_names(&directory).iter().filter(|name| !damaged.contains(*name)) {
            // If a pack cannot be opened for a reason other than damage, it is skipped.
            let _ = intact.open(&directory, name, false);
        }
        let mut packs = Vec::new();
        for name in damaged {
            let path = directory.join(format!("{name}.pack"));
            packs.extend(DamagedPack::open(&path, &intact));
        }
        for pack in &packs {
            let add = |oid: Oid, (kind, content): &ObjectContent| match intact.find(&oid) {
                Some(_) => Ok(()),
                None => writer.add(*kind, oid, content),
            };
            pack.for_each_object(&intact, &add).map_err(failed())?;
        }
        if !examination.lost.is_empty() {
            let unused = self.list_unused_packs();
            packs.extend(unused.iter().filter_map(|path| DamagedPack::open(path, &intact)));
        }

        // A lost object may refer to other lost objects.
        let mut lost: Vec<Oid> = examination.lost.iter().copied().collect();
        let mut met: HashSet<Oid> = examination.lost.clone();
        while let Some(oid) = lost.pop() {
            let content = packs.iter().find_map(|pack| pack.read_object(&oid, &intact));
            let Some(content) = content else { continue };
            writer.add(content.0, oid, &content.1).map_err(failed())?;
            let parts = parse_parts(&content).into_iter();
            lost.extend(parts.filter(|part| intact.find(part).is_none() && met.insert(*part)));
        }
        Ok(())
    }

    /// Lists the packs that were set aside and the packs without an index.
    fn list_unused_packs(&self) -> Vec<PathBuf> {
        let directory = self.pack_directory();
        let mut without_index = list_packs_in(&directory);
        without_index.retain(|path| !path.with_extension("idx").exists());
        [list_packs_in(&self.directory().join("quarantine")), without_index].concat()
    }
}

/// Adds lines to a file, durably.
fn append_lines(path: &Path, lines: &str) -> Result<(), StoreError> {
    let known = durable::if_exists(fs::read(path)).map_err(StoreError::io("read", path))?;
    let content = [&known.unwrap_or_default(), lines.as_bytes()].concat();
    durable::replace_file(path, &content, Durability::Synced).map_err(StoreError::io("write", path))
}

fn list_packs_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_pack = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "pack");
    entries.map(|entry| entry.path()).filter(is_pack).collect()
}

/// Parses the ids of the objects that an object needs, up to the first malformed part.
fn parse_parts((kind, content): &ObjectContent) -> Vec<Oid> {
    match kind {
        ObjectKind::Blob => Vec::new(),
        ObjectKind::Tree => object::parse_entries(content)
            .map_while(Result::ok)
            .filter(|entry| reachability::kind_of_entry(entry).is_some())
            .map(|entry| entry.oid)
            .collect(),
        ObjectKind::Commit => CommitLinks::parse(content).map_or(Vec::new(), |mut links| {
            links.parents.push(links.tree);
            links.parents
        }),
    }
}

#[cfg(test)]
mod tests;
