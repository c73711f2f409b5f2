//! Saving what can be saved of damaged packs. Nothing is deleted: they are kept aside.
//!
//! Everything intact in a damaged pack goes into a new one, which is durable before the damaged
//! one moves to `quarantine/`. What pins still lack is then looked for in all that was ever set
//! aside. Killed anywhere in between, the store has what it had, and the next repair goes on.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::gc::Work;
use crate::history::{self, Links};
use crate::object::{self, ObjectKind};
use crate::oid::Oid;
use crate::origins::Origins;
use crate::pack::midx;
use crate::pack::read::Content;
use crate::pack::write::PackWriter;
use crate::salvage::Wreck;
use crate::store::{Store, StoreError, is_damage, names};
use crate::verify::{BrokenPack, Examination, Progress, VerifyReport};

/// What a repair did, and how things are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairReport {
    /// Damaged packs that are now in the store's `quarantine/`.
    pub set_aside: Vec<BrokenPack>,
    /// How many objects were taken out of damaged packs.
    pub salvaged: u64,
    /// What is whole and what is lost now.
    pub now: VerifyReport,
}

/// A repair ended early. What the store holds is what it held.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// Another process rearranges packs at this moment.
    #[error("another process is cleaning up this store")]
    Busy,
    /// The system refused something.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// Takes everything intact out of damaged packs, sets those aside, and looks at everything
    /// before and after.
    pub fn repair(&self, progress: Progress<'_>) -> Result<RepairReport, RepairError> {
        let work = Work::begin(self)?.ok_or(RepairError::Busy)?;
        let found = self.examine(progress)?;
        if found.broken.is_empty() && found.lost.is_empty() {
            return Ok(RepairReport { set_aside: Vec::new(), salvaged: 0, now: found.report });
        }
        let mut damaged: HashSet<String> = found
            .broken
            .iter()
            .filter(|(name, error)| *name != midx::NAME && is_damage(error))
            .map(|(name, _)| name.clone())
            .collect();
        let writer = work.writer();
        self.salvage(&found, &damaged, &writer)?;
        let salvaged = writer.count() as u64;
        let packed = work.seal(writer)?;

        let lock = work.lock()?;
        work.install(packed.as_slice())?;
        // A pack is named after its content: if all of it was there, it is whole again.
        damaged.retain(|name| packed.as_ref() != Some(name));
        for name in &damaged {
            self.quarantine(name)?;
        }
        self.index_packs(&HashSet::new())?;
        self.forget_packs();
        drop(lock);

        let is_set_aside = |pack: &BrokenPack| damaged.contains(&pack.name);
        let set_aside = found.report.packs.into_iter().filter(is_set_aside).collect();
        Ok(RepairReport { set_aside, salvaged, now: self.examine(progress)?.report })
    }

    /// Writes what can be had from damaged packs, and what pins lack from what has no place among
    /// the packs.
    fn salvage(
        &self,
        found: &Examination,
        damaged: &HashSet<String>,
        writer: &PackWriter,
    ) -> Result<(), StoreError> {
        let directory = self.pack_directory();
        let failed = || StoreError::io("write", &directory);
        let mut sound = Origins::default();
        for name in names(&directory).iter().filter(|name| !damaged.contains(*name)) {
            // One that cannot be opened for some other reason keeps its objects to itself.
            let _ = sound.open(&directory, name, false);
        }
        let mut wrecks = Vec::new();
        for name in damaged {
            let path = directory.join(format!("{name}.pack"));
            wrecks.extend(Wreck::open(&path, &sound));
        }
        for wreck in &wrecks {
            let add = |oid: Oid, (kind, content): &Content| match sound.find(&oid) {
                Some(_) => Ok(()),
                None => writer.add(*kind, oid, content),
            };
            wreck.each(&sound, &add).map_err(failed())?;
        }
        if !found.lost.is_empty() {
            wrecks.extend(self.old_wrecks().iter().filter_map(|path| Wreck::open(path, &sound)));
        }

        // What was lost may consist of more that is lost.
        let mut lost: Vec<Oid> = found.lost.iter().copied().collect();
        let mut met: HashSet<Oid> = found.lost.clone();
        while let Some(oid) = lost.pop() {
            let content = wrecks.iter().find_map(|wreck| wreck.read(&oid, &sound));
            let Some(content) = content else { continue };
            writer.add(content.0, oid, &content.1).map_err(failed())?;
            let parts = parts(&content).into_iter();
            lost.extend(parts.filter(|part| sound.find(part).is_none() && met.insert(*part)));
        }
        Ok(())
    }

    /// Packs that were set aside, and packs that have lost their index.
    fn old_wrecks(&self) -> Vec<PathBuf> {
        let directory = self.pack_directory();
        let mut halves = packs_in(&directory);
        halves.retain(|path| !path.with_extension("idx").exists());
        [packs_in(&self.directory().join("quarantine")), halves].concat()
    }
}

fn packs_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_pack = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "pack");
    entries.map(|entry| entry.path()).filter(is_pack).collect()
}

/// What an object consists of, as far as it says.
fn parts((kind, content): &Content) -> Vec<Oid> {
    match kind {
        ObjectKind::Blob => Vec::new(),
        ObjectKind::Tree => object::parse_entries(content)
            .map_while(Result::ok)
            .filter(|entry| history::kind(entry).is_some())
            .map(|entry| entry.oid)
            .collect(),
        ObjectKind::Commit => Links::parse(content).map_or(Vec::new(), |mut links| {
            links.parents.push(links.tree);
            links.parents
        }),
    }
}

#[cfg(test)]
mod tests;
