//! Freeing what no pin needs, and putting one pack in the place of many.
//!
//! The new pack is prepared beside the store while captures go on. Only then comes the store's
//! lock, exclusively and briefly: what was pinned in the meantime is looked at, the new pack takes
//! its place, an index over all packs that names no old one follows, and then the old packs go,
//! so that whoever reads without a lock finds every object at every moment. Killed anywhere in
//! between, the store has what it had, and at most some of it twice.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use takeback_base::durable::{self, Durability, FileLock};

use crate::fault;
use crate::git::refs::Ref;
use crate::history::{Absent, Needed};
use crate::oid::Oid;
use crate::origins::Origins;
use crate::pack::index::Index;
use crate::pack::midx;
use crate::pack::read::{Pack, Recent};
use crate::pack::write::PackWriter;
use crate::repack::{self, RepackError};
use crate::store::{ObjectError, Store, StoreError, names};

/// With so many packs outside of the index over all packs, lookups begin to cost.
const MANY: usize = 50;

/// How many bytes of objects are kept in memory.
const RECENT: usize = 24 << 20;

/// What a gc or a merge did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GcOutcome {
    /// The size of all packs and indexes before.
    pub bytes_before: u64,
    /// And after.
    pub bytes_after: u64,
    /// How many objects of the packs it looked at are still there.
    pub objects_kept: u64,
    /// How many are gone.
    pub objects_dropped: u64,
    /// The number of packs before.
    pub packs_before: usize,
    /// And after.
    pub packs_after: usize,
}

/// A gc or a merge ended without having changed what the store holds.
#[derive(Debug, thiserror::Error)]
pub enum GcError {
    /// Another process does the same at this moment.
    #[error("another process is cleaning up this store")]
    Busy,
    /// Something that a ref needs is damaged or missing, so nothing can be told to be superfluous.
    #[error("{what} is damaged; the store must be repaired first, nothing was changed")]
    Damaged {
        /// The ref or the pack.
        what: String,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The system refused something.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl GcError {
    fn damaged(
        what: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> GcError {
        GcError::Damaged { what: what.into(), source: source.into() }
    }
}

impl Store {
    /// Frees everything that no ref needs and packs the rest anew, as deltas where possible.
    pub fn gc(&self) -> Result<GcOutcome, GcError> {
        let work = Work::begin(self)?.ok_or(GcError::Busy)?;
        let before = self.usage()?;
        // Refs before packs: what a ref needs was packed before it.
        let refs = self.all_refs()?;
        let seen = names(&self.pack_directory());
        let mut origins = self.origins(&seen)?;
        let seen: HashSet<String> = seen.into_iter().collect();
        let mut recent = Recent::new(RECENT);
        let mut needed = Needed::new(Absent::Lost);
        add_histories(&mut needed, &origins, &mut recent, &refs.iter().collect::<Vec<_>>())?;

        // One pack with nothing superfluous is what would come out.
        let is_done = origins.packs().len() == 1 && needed.objects.len() == origins.count();
        let replaced = if is_done { HashSet::new() } else { seen.clone() };
        let mut packed = Vec::new();
        if !is_done {
            packed.extend(work.pack(&origins, &mut recent, &needed, 0)?);
        }

        let _lock = work.lock()?;
        for name in names(&self.pack_directory()).iter().filter(|name| !seen.contains(*name)) {
            let added = origins.open(&self.pack_directory(), name, true);
            added.map_err(|error| GcError::damaged(name, error))?;
        }
        let known: HashSet<Oid> = refs.iter().filter_map(|found| found.id.clone().ok()).collect();
        let refs = self.all_refs()?;
        let is_late = |found: &&Ref| !matches!(&found.id, Ok(id) if known.contains(id));
        let first = needed.objects.len();
        let late: Vec<&Ref> = refs.iter().filter(is_late).collect();
        add_histories(&mut needed, &origins, &mut recent, &late)?;
        if needed.objects.len() > first {
            packed.extend(work.pack(&origins, &mut recent, &needed, first)?);
        }

        let is_dropped =
            |oid: &Oid, place| !is_done && !origins.stays(place) && needed.number(oid).is_none();
        let dropped = origins.each().filter(|(oid, place)| is_dropped(oid, *place)).count();
        if dropped > 0 {
            work.step("gc generation")?;
            self.bump_generation()?;
        }
        work.replace(&replaced, &packed)?;
        self.remove_halves()?;
        self.sweep_temporary()?;
        let after = self.usage()?;
        Ok(outcome(before, after, needed.objects.len(), dropped))
    }

    /// Whether [`Store::merge`] is worth its while.
    pub fn needs_merge(&self) -> bool {
        // Mostly there are few packs at all, which is quickly seen.
        names(&self.pack_directory()).len() > MANY && self.packs().loose.len() > MANY
    }

    /// Merges small packs, whatever they hold, and indexes all packs together. Cheap: a pack is
    /// only touched again when the smaller ones have grown to its size.
    pub fn merge(&self) -> Result<GcOutcome, GcError> {
        let work = Work::begin(self)?.ok_or(GcError::Busy)?;
        let before = self.usage()?;
        let mut origins = Origins::default();
        let mut merged = self.small_packs()?;
        // A broken pack is left to those who repair.
        merged.retain(|name| origins.open(&self.pack_directory(), name, false).is_ok());
        let mut needed = Needed::new(Absent::Elsewhere);
        let mut packed = Vec::new();
        if merged.len() > 1 {
            let mut recent = Recent::new(RECENT);
            let refs = self.all_refs()?;
            let sound: Vec<&Ref> = refs.iter().filter(|found| found.id.is_ok()).collect();
            add_histories(&mut needed, &origins, &mut recent, &sound)?;
            needed.add_rest(&origins);
            packed.extend(work.pack(&origins, &mut recent, &needed, 0)?);
        } else {
            merged.clear();
        }

        let _lock = work.lock()?;
        work.replace(&merged.into_iter().collect(), &packed)?;
        let after = self.usage()?;
        Ok(outcome(before, after, needed.objects.len(), 0))
    }

    /// The packs that are together no smaller than the largest of them. Those that are left are
    /// each larger than all smaller ones together, so there are few.
    fn small_packs(&self) -> Result<Vec<String>, StoreError> {
        let directory = self.pack_directory();
        let mut packs = Vec::new();
        for name in names(&directory) {
            if let Ok(found) = fs::metadata(directory.join(format!("{name}.pack"))) {
                packs.push((found.len(), name));
            }
        }
        packs.sort();
        let (mut sum, mut merged) = (0, 0);
        for (place, (bytes, _)) in packs.iter().enumerate() {
            if *bytes <= sum {
                merged = place + 1;
            }
            sum += bytes;
        }
        Ok(packs.into_iter().take(merged).map(|(_, name)| name).collect())
    }

    /// Opens packs to take objects from.
    fn origins(&self, names: &[String]) -> Result<Origins, GcError> {
        let mut origins = Origins::default();
        for name in names {
            let pack = self.pack_directory().join(format!("{name}.pack"));
            match origins.open(&self.pack_directory(), name, false) {
                // An index alone has nothing to take; if something is missing, it will show.
                Err(_) if !pack.exists() => {}
                added => added.map_err(|error| GcError::damaged(name, error))?,
            }
        }
        Ok(origins)
    }

    /// The size of everything in the directory of packs, and the number of packs.
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
        Ok((bytes, names(&directory).len()))
    }

    /// Writes the index over all packs but some. The caller holds the store's lock exclusively.
    pub(crate) fn index_packs(&self, without: &HashSet<String>) -> Result<(), StoreError> {
        let directory = self.pack_directory();
        let path = directory.join(midx::NAME);
        let mut packs = Vec::new();
        for name in names(&directory).into_iter().filter(|name| !without.contains(name)) {
            // One that cannot be opened is passed over here as it is everywhere.
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
                    &midx::encode(packs),
                    Durability::Synced,
                ),
            })
            .map_err(StoreError::io("write", &path))
    }

    /// Removes packs without index and indexes without pack: a process was killed between the
    /// two. The caller holds the store's lock exclusively and knows that nothing is missing.
    fn remove_halves(&self) -> Result<(), StoreError> {
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
            files.iter().any(|path| path.extension().is_some_and(|found| found == extension))
        };
        let halves = files.values().filter(|files| !has(files, "idx") || !has(files, "pack"));
        for path in halves.flatten() {
            fault::point("gc remove half")
                .and_then(|()| fs::remove_file(path))
                .map_err(StoreError::io("remove", path))?;
        }
        Ok(())
    }

    /// Temporary files of whoever holds the lock of gc.
    pub(crate) fn gc_temporary(&self) -> PathBuf {
        self.directory().join("tmp-gc")
    }

    fn sweep_temporary(&self) -> Result<(), StoreError> {
        let temporary = self.temporary();
        durable::sweep_directory(&temporary).map_err(StoreError::io("clean up", &temporary))
    }
}

fn outcome(
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

/// Adds what the refs need, which come history by history, oldest first.
fn add_histories(
    needed: &mut Needed,
    origins: &Origins,
    recent: &mut Recent,
    refs: &[&Ref],
) -> Result<(), GcError> {
    for history in refs.chunk_by(|a, b| a.directory() == b.directory()) {
        let ids: Result<Vec<Oid>, GcError> = history
            .iter()
            .rev()
            .map(|found| found.id.clone().map_err(|reason| GcError::damaged(&found.name, reason)))
            .collect();
        needed.add_history(origins, recent, &ids?).map_err(|(tip, error)| {
            let name = history.iter().find(|found| found.id.as_ref() == Ok(&tip));
            GcError::damaged(name.map_or("a ref", |found| &found.name), error)
        })?;
    }
    Ok(())
}

/// The right to put packs in the place of others, one process at a time.
pub(crate) struct Work<'a> {
    store: &'a Store,
    _lock: FileLock,
}

impl<'a> Work<'a> {
    /// `None` if another process is at it. Removes what a killed one left.
    pub(crate) fn begin(store: &'a Store) -> Result<Option<Work<'a>>, StoreError> {
        let path = store.directory().join("gc.lock");
        let lock = match &store.lock_wait {
            Some(wait) => FileLock::exclusive_within(&path, wait),
            None => FileLock::try_exclusive(&path),
        };
        let lock = lock.map_err(StoreError::io("lock", &path))?;
        let Some(lock) = lock else { return Ok(None) };
        let work = Work { store, _lock: lock };
        work.sweep()?;
        Ok(Some(work))
    }

    fn sweep(&self) -> Result<(), StoreError> {
        let temporary = self.store.gc_temporary();
        durable::create_directory(&temporary)
            .and_then(|()| durable::sweep_directory(&temporary))
            .map_err(StoreError::io("clean up", &temporary))
    }

    /// Keeps everybody from capturing.
    pub(crate) fn lock(&self) -> Result<FileLock, StoreError> {
        self.step("gc lock")?;
        let path = self.store.lock_path();
        FileLock::exclusive(&path).map_err(StoreError::io("lock", &path))
    }

    /// A place where tests interfere.
    pub(crate) fn step(&self, name: &str) -> Result<(), StoreError> {
        fault::point(name).map_err(StoreError::io("change", self.store.directory()))
    }

    pub(crate) fn writer(&self) -> PackWriter {
        PackWriter::new(&self.store.gc_temporary())
    }

    /// Writes the needed objects from number `first` on into a pack that is durable but not yet
    /// part of the store.
    fn pack(
        &self,
        origins: &Origins,
        recent: &mut Recent,
        needed: &Needed,
        first: usize,
    ) -> Result<Option<String>, GcError> {
        let temporary = self.store.gc_temporary();
        let writer = self.writer();
        repack::write(origins, recent, needed, first, &writer).map_err(|error| match error {
            RepackError::Object(ObjectError::Damaged { oid, pack, reason }) => {
                GcError::damaged(pack, format!("object {oid}: {reason}"))
            }
            RepackError::Object(error) => GcError::damaged("a pack", error),
            RepackError::Write(error) => StoreError::io("write", &temporary)(error).into(),
        })?;
        let name = self.seal(writer)?;
        let found = match &name {
            Some(name) => Index::open(&temporary.join(format!("{name}.idx")))
                .map_err(StoreError::io("read", &temporary))?
                .count() as usize,
            None => 0,
        };
        assert_eq!(found, needed.objects.len() - first, "every needed object is in the new pack");
        Ok(name)
    }

    /// Completes a pack beside the store.
    pub(crate) fn seal(&self, writer: PackWriter) -> Result<Option<String>, StoreError> {
        let temporary = self.store.gc_temporary();
        writer.seal(&temporary).map_err(StoreError::io("write", &temporary))
    }

    /// Moves packs that were completed beside the store into it, durably.
    pub(crate) fn install(&self, packs: &[String]) -> Result<(), StoreError> {
        let (from, to) = (self.store.gc_temporary(), self.store.pack_directory());
        for pack in packs {
            // The index goes last: a pack without one is invisible.
            for extension in ["pack", "idx"] {
                let file = format!("{pack}.{extension}");
                self.step("gc install")?;
                fs::rename(from.join(&file), to.join(&file))
                    .map_err(StoreError::io("write", &to))?;
            }
        }
        self.step("gc install sync")?;
        durable::sync_directory(&to).map_err(StoreError::io("write", &to))
    }

    /// Puts new packs in the place of old ones. The caller holds the store's lock exclusively.
    fn replace(&self, old: &HashSet<String>, new: &[String]) -> Result<(), StoreError> {
        let directory = self.store.pack_directory();
        self.install(new)?;
        // A pack is named after its content: what came out may be what went in.
        let mut gone = old.clone();
        gone.retain(|name| !new.contains(name));
        self.store.index_packs(&gone)?;
        for pack in &gone {
            remove_pack(&directory, pack)?;
        }
        self.step("gc sync")?;
        durable::sync_directory(&directory).map_err(StoreError::io("write", &directory))?;
        self.store.forget_packs();
        Ok(())
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        // If something stays, the next one sweeps it.
        let _ = self.sweep();
    }
}

/// The index goes first: a pack without one is invisible. `rev` and `bitmap` are git's.
fn remove_pack(directory: &Path, name: &str) -> Result<(), StoreError> {
    for extension in ["idx", "rev", "bitmap", "pack"] {
        let path = directory.join(format!("{name}.{extension}"));
        fault::point("gc delete")
            .and_then(|()| durable::ignore_missing(fs::remove_file(&path)))
            .map_err(StoreError::io("remove", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
