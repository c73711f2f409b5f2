//! Repairing a store: saves the intact objects of damaged packs. Damaged packs are not deleted but
//! set aside.
//!
//! The intact objects of a damaged pack are written to a new pack, which is durable before the
//! damaged one moves to `quarantine/`. Objects that pins still lack are looked for in all packs
//! that were ever set aside. If a repair is killed at any point, no object is lost, and the next
//! repair completes it.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::object::{self, ObjectKind};
use crate::oid::Oid;
use crate::pack::midx;
use crate::pack::read::ObjectContent;
use crate::pack::write::PackWriter;
use crate::pack_rewrite::PackRewrite;
use crate::packs::{is_damage, list_pack_names};
use crate::reachability::{self, CommitLinks};
use crate::salvage::DamagedPack;
use crate::source_packs::SourcePacks;
use crate::store::{Store, StoreError};
use crate::verify::{BrokenPack, Examination, Progress, VerifyReport};

/// The result of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairReport {
    /// The damaged packs that are now in the store's `quarantine/`.
    pub set_aside: Vec<BrokenPack>,
    /// The number of objects that were taken from damaged packs.
    pub salvaged: u64,
    /// The state of the store after the repair.
    pub now: VerifyReport,
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
    /// Saves the intact objects of damaged packs and sets those packs aside. Verifies the store
    /// before and after.
    pub fn repair(&self, progress: Progress<'_>) -> Result<RepairReport, RepairError> {
        let rewrite = PackRewrite::begin(self)?.ok_or(RepairError::Busy)?;
        let examination = self.examine(progress)?;
        if examination.broken.is_empty() && examination.lost.is_empty() {
            let now = examination.report;
            return Ok(RepairReport { set_aside: Vec::new(), salvaged: 0, now });
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
        // A pack is named after its content, so the new pack has replaced a damaged one that was
        // salvaged completely.
        damaged.retain(|name| packed.as_ref() != Some(name));
        for name in &damaged {
            self.quarantine_pack(name)?;
        }
        // Captures must not rely on lost objects: in a new generation, they store the files that
        // still exist again.
        if !examination.lost.is_empty() {
            self.bump_generation()?;
        }
        self.index_packs(&HashSet::new())?;
        self.forget_packs();
        drop(lock);

        let is_set_aside = |pack: &BrokenPack| damaged.contains(&pack.name);
        let set_aside = examination.report.packs.into_iter().filter(is_set_aside).collect();
        Ok(RepairReport { set_aside, salvaged, now: self.examine(progress)?.report })
    }

    /// Writes the intact objects of damaged packs, and objects that pins lack if packs that were
    /// set aside have them.
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
            // A pack that cannot be opened for another reason is skipped.
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

        // A lost object may need other lost objects.
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
