//! Garbage collection: frees the objects that no pin needs, and merges many packs into one.
//!
//! The new pack is prepared in a temporary directory while captures continue. Then the store is
//! locked exclusively for a short time: objects that new pins need are added, the new pack is moved
//! into place, a multi-pack index that names no old pack is written, and then the old packs are
//! removed. A process that reads without a lock therefore finds every object at any time. If a gc
//! is killed at any point, the store still has all its objects, at worst some of them twice.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::PathBuf;

use takeback_base::durable::{self, Durability};

use crate::fault;
use crate::git::refs::Ref;
use crate::oid::Oid;
use crate::pack::midx;
use crate::pack::read::{Pack, RecentObjects};
use crate::pack_rewrite::PackRewrite;
use crate::packs::list_pack_names;
use crate::reachability::{AbsentObject, NeededObjects};
use crate::source_packs::SourcePacks;
use crate::store::{Store, StoreError};

/// With more packs than this outside the multi-pack index, lookups become slow.
const MANY_PACKS: usize = 50;

/// The maximum total size in bytes of the objects that are kept in memory.
const RECENT_BYTES: usize = 24 << 20;

/// The result of a gc or a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct GcOutcome {
    /// The total size in bytes of all packs and indexes before the operation.
    pub bytes_before: u64,
    /// The total size in bytes of all packs and indexes after the operation.
    pub bytes_after: u64,
    /// The number of objects that were kept from the rewritten packs.
    pub objects_kept: u64,
    /// The number of objects that were freed.
    pub objects_dropped: u64,
    pub packs_before: usize,
    pub packs_after: usize,
}

/// The reason why a gc or a merge failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum GcError {
    /// Another process is running a gc, merge or repair.
    #[error("another process is cleaning up this store")]
    Busy,
    /// An object that a ref needs is damaged or missing, so it is unknown which objects are needed.
    /// Nothing was changed.
    #[error("{what} is damaged; nothing was changed, and the store must be repaired first")]
    Damaged { what: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl GcError {
    pub(crate) fn damaged(
        what: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> GcError {
        GcError::Damaged { what: what.into(), source: source.into() }
    }
}

impl Store {
    /// Frees all objects that no ref needs, and rewrites all other objects, as deltas where
    /// possible.
    ///
    /// ```
    /// use takeback_tree::{CaptureOptions, CaptureRules, Store};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # let project = scratch.path().join("shop");
    /// # std::fs::create_dir(&project)?;
    /// # std::fs::write(project.join("cart.rs"), "struct Cart;\n")?;
    /// # let store = Store::open(scratch.path().join("store"))?;
    /// # let workspace = store.workspace(&project, &Default::default())?;
    /// # let mut lock = workspace.lock()?;
    /// # let now = std::time::SystemTime::now();
    /// # let rules = CaptureRules::default();
    /// # let options = CaptureOptions { rules: &rules, named: &[], swept: &[], now };
    /// let tree = lock.capture(&options)?.tree;
    /// let pin = lock.pin(tree, now, "before the call\n")?;
    /// assert_eq!(store.pin_names(workspace.id())?, [pin.name.clone()]);
    /// lock.finish(now)?;
    ///
    /// store.unpin(&pin.name)?;
    /// assert_ne!(store.gc()?.objects_dropped, 0);
    /// assert!(store.pin_names(workspace.id())?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn gc(&self) -> Result<GcOutcome, GcError> {
        let rewrite = PackRewrite::begin(self)?.ok_or(GcError::Busy)?;
        let before = self.usage()?;
        // Refs are read before packs, because objects are packed before the ref that needs them is
        // created.
        let refs = self.all_refs()?;
        let seen = list_pack_names(&self.pack_directory());
        let mut sources = self.open_sources(&seen)?;
        let seen: HashSet<String> = seen.into_iter().collect();
        let mut recent = RecentObjects::new(RECENT_BYTES);
        let accepted = self.accepted_losses();
        let mut needed = NeededObjects::new(AbsentObject::Lost).without(accepted);
        add_histories(&mut needed, &sources, &mut recent, &refs.iter().collect::<Vec<_>>())?;

        // If there is only one pack and all its objects are needed, rewriting it would change
        // nothing.
        let is_done = sources.packs().len() == 1 && needed.objects.len() == sources.count_objects();
        let replaced = if is_done { HashSet::new() } else { seen.clone() };
        let mut packed = Vec::new();
        if !is_done {
            packed.extend(rewrite.write_pack(&sources, &mut recent, &needed, 0)?);
        }

        let _lock = rewrite.lock_store()?;
        for name in
            list_pack_names(&self.pack_directory()).iter().filter(|name| !seen.contains(*name))
        {
            let added = sources.open(&self.pack_directory(), name, true);
            added.map_err(|error| GcError::damaged(name, error))?;
        }
        let first = needed.objects.len();
        let late_refs = self.find_late_refs(&refs)?;
        let late_refs: Vec<&Ref> = late_refs.iter().collect();
        add_histories(&mut needed, &sources, &mut recent, &late_refs)?;
        if needed.objects.len() > first {
            packed.extend(rewrite.write_pack(&sources, &mut recent, &needed, first)?);
        }

        let is_dropped =
            |oid: &Oid, place| !is_done && !sources.stays(place) && needed.number(oid).is_none();
        let dropped = sources.objects().filter(|(oid, place)| is_dropped(oid, *place)).count();
        if dropped > 0 {
            rewrite.pass_fault_point("gc generation")?;
            self.bump_generation()?;
        }
        rewrite.replace_packs(&replaced, &packed)?;
        self.remove_half_packs()?;
        self.sweep_temporary()?;
        let after = self.usage()?;
        Ok(make_outcome(before, after, needed.objects.len(), dropped))
    }

    /// Finds the refs that have been created or changed since `refs` were read.
    fn find_late_refs(&self, refs: &[Ref]) -> Result<Vec<Ref>, StoreError> {
        let known: HashSet<&Oid> =
            refs.iter().filter_map(|reference| reference.id.as_ref().ok()).collect();
        let is_late = |reference: &Ref| !matches!(&reference.id, Ok(id) if known.contains(id));
        Ok(self.all_refs()?.into_iter().filter(is_late).collect())
    }

    /// True if there are so many packs that [`Store::merge`] is worthwhile.
    pub fn needs_merge(&self) -> bool {
        // Usually a quick listing shows that there are few packs. In that case, no pack has to be
        // opened.
        list_pack_names(&self.pack_directory()).len() > MANY_PACKS
            && self.packs().loose().len() > MANY_PACKS
    }

    /// Merges small packs, keeping all their objects, and writes a multi-pack index over all packs.
    /// This is cheap, because a pack is rewritten only when the smaller packs together have grown
    /// to its size.
    pub fn merge(&self) -> Result<GcOutcome, GcError> {
        let rewrite = PackRewrite::begin(self)?.ok_or(GcError::Busy)?;
        let before = self.usage()?;
        let mut sources = SourcePacks::default();
        let mut merged = self.find_small_packs()?;
        // Broken packs are left for a repair.
        merged.retain(|name| sources.open(&self.pack_directory(), name, false).is_ok());
        let mut needed = NeededObjects::new(AbsentObject::Elsewhere);
        let mut packed = Vec::new();
        if merged.len() > 1 {
            let mut recent = RecentObjects::new(RECENT_BYTES);
            let refs = self.all_refs()?;
            let intact: Vec<&Ref> = refs.iter().filter(|reference| reference.id.is_ok()).collect();
            add_histories(&mut needed, &sources, &mut recent, &intact)?;
            needed.add_rest(&sources);
            packed.extend(rewrite.write_pack(&sources, &mut recent, &needed, 0)?);
        } else {
            merged.clear();
        }

        let _lock = rewrite.lock_store()?;
        rewrite.replace_packs(&merged.into_iter().collect(), &packed)?;
        let after = self.usage()?;
        Ok(make_outcome(before, after, needed.objects.len(), 0))
    }

    /// Finds the packs to merge. Each of the other packs is larger than all smaller packs together,
    /// so few packs remain.
    fn find_small_packs(&self) -> Result<Vec<String>, StoreError> {
        let directory = self.pack_directory();
        let mut packs = Vec::new();
        for name in list_pack_names(&directory) {
            if let Ok(found) = fs::metadata(directory.join(format!("{name}.pack"))) {
                packs.push((found.len(), name));
            }
        }
        packs.sort();
        let (mut sum, mut merged) = (0, 0);
        for (index, (bytes, _)) in packs.iter().enumerate() {
            if *bytes <= sum {
                merged = index + 1;
            }
            sum += bytes;
        }
        Ok(packs.into_iter().take(merged).map(|(_, name)| name).collect())
    }

    /// Opens the packs that objects are taken from.
    fn open_sources(&self, names: &[String]) -> Result<SourcePacks, GcError> {
        let mut sources = SourcePacks::default();
        for name in names {
            let pack = self.pack_directory().join(format!("{name}.pack"));
            match sources.open(&self.pack_directory(), name, false) {
                // If an index exists without its pack, the objects in the index are missing. If one
                // of them is needed, the traversal fails.
                Err(_) if !pack.exists() => {}
                added => added.map_err(|error| GcError::damaged(name, error))?,
            }
        }
        Ok(sources)
    }

    /// Measures the size of all files in the pack directory, and counts the packs.
    fn usage(&self) -> Result<(u64, usize), StoreError> {
        let directory = self.pack_directory();
        let bytes = fs::read_dir(&directory).and_then(|entries| {
            entries
                .map(|entry| match entry?.metadata() {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
                    found => Ok(found?.len()),
                })
                .sum::<io::Result<u64>>()
        });
        let bytes = bytes.map_err(StoreError::io("list", &directory))?;
        Ok((bytes, list_pack_names(&directory).len()))
    }

    /// Writes the multi-pack index over all packs except those in `without`. The caller must hold
    /// the store's exclusive lock.
    pub(crate) fn index_packs(&self, without: &HashSet<String>) -> Result<(), StoreError> {
        let directory = self.pack_directory();
        let path = directory.join(midx::NAME);
        let mut packs = Vec::new();
        for name in list_pack_names(&directory).into_iter().filter(|name| !without.contains(name)) {
            // A pack that cannot be opened is skipped.
            let Ok(pack) = Pack::open(&directory.join(format!("{name}.idx"))) else { continue };
            let objects = pack.index.entries().map_err(StoreError::io("read", &directory))?;
            packs.push((name, objects));
        }
        fault::point("midx write")
            .and_then(|()| match packs.is_empty() {
                true => durable::ignore_missing(fs::remove_file(&path)),
                false => durable::replace_file_through(
                    &self.gc_temporary(),
                    &path,
                    &midx::encode_midx(packs),
                    Durability::Synced,
                ),
            })
            .map_err(StoreError::io("write", &path))
    }

    /// Removes packs without an index and indexes without a pack, which a killed process leaves
    /// behind. The caller must hold the store's exclusive lock, and must have made sure that no
    /// object is missing.
    fn remove_half_packs(&self) -> Result<(), StoreError> {
        let directory = self.pack_directory();
        let failed = || StoreError::io("clean up", &directory);
        let mut files: HashMap<String, Vec<PathBuf>> = HashMap::new();
        for entry in fs::read_dir(&directory).map_err(failed())? {
            let path = entry.map_err(failed())?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            if let Some(stem) = stem.filter(|stem| stem.starts_with("pack-")) {
                files.entry(stem.to_owned()).or_default().push(path);
            }
        }
        let has = |files: &[PathBuf], extension: &str| {
            files.iter().any(|path| path.extension().is_some_and(|actual| actual == extension))
        };
        let halves = files.values().filter(|files| !has(files, "idx") || !has(files, "pack"));
        for path in halves.flatten() {
            fault::point("gc remove half")
                .and_then(|()| fs::remove_file(path))
                .map_err(StoreError::io("remove", path))?;
        }
        Ok(())
    }

    /// Returns the directory for the temporary files of the process that holds `gc.lock`.
    pub(crate) fn gc_temporary(&self) -> PathBuf {
        self.directory().join("tmp-gc")
    }

    fn sweep_temporary(&self) -> Result<(), StoreError> {
        let temporary = self.temporary();
        durable::sweep_directory(&temporary).map_err(StoreError::io("clean up", &temporary))
    }
}

fn make_outcome(
    (bytes_before, packs_before): (u64, usize),
    (bytes_after, packs_after): (u64, usize),
    kept: usize,
    dropped: usize,
) -> GcOutcome {
    GcOutcome {
        bytes_before,
        bytes_after,
        objects_kept: kept as u64,
        objects_dropped: dropped as u64,
        packs_before,
        packs_after,
    }
}

/// Adds the objects that refs need. The refs must be grouped by directory, oldest first.
fn add_histories(
    needed: &mut NeededObjects,
    sources: &SourcePacks,
    recent: &mut RecentObjects,
    refs: &[&Ref],
) -> Result<(), GcError> {
    for history in refs.chunk_by(|a, b| a.directory() == b.directory()) {
        let ids: Result<Vec<Oid>, GcError> = history
            .iter()
            .rev()
            .map(|reference| {
                let id = reference.id.clone();
                id.map_err(|reason| GcError::damaged(&reference.name, reason))
            })
            .collect();
        needed.add_history(sources, recent, &ids?).map_err(|(tip, error)| {
            let mut refs = history.iter();
            let reference = refs.find(|reference| reference.id.as_ref() == Ok(&tip));
            GcError::damaged(reference.map_or("a ref", |reference| &reference.name), error)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
