//! Replacing packs with others: the steps that gc, merge and repair have in common.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use takeback_base::durable::{self, FileLock};

use crate::fault;
use crate::gc::GcError;
use crate::pack::index::PackIndex;
use crate::pack::read::RecentObjects;
use crate::pack::write::PackWriter;
use crate::reachability::NeededObjects;
use crate::repack::{self, RepackError};
use crate::source_packs::SourcePacks;
use crate::store::{ObjectError, Store, StoreError};

/// The right to replace packs with others. Only one process has it at a time.
pub(crate) struct PackRewrite<'a> {
    store: &'a Store,
    _lock: FileLock,
}

impl<'a> PackRewrite<'a> {
    /// Acquires the right to replace packs, and removes the temporary files of killed processes.
    /// Returns `None` if another process has this right.
    pub(crate) fn begin(store: &'a Store) -> Result<Option<PackRewrite<'a>>, StoreError> {
        let path = store.directory().join("gc.lock");
        let lock = match &store.lock_wait {
            Some(wait) => FileLock::exclusive_within(&path, wait),
            None => FileLock::try_exclusive(&path),
        };
        let lock = lock.map_err(StoreError::io("lock", &path))?;
        let Some(lock) = lock else { return Ok(None) };
        let rewrite = PackRewrite { store, _lock: lock };
        rewrite.sweep_files()?;
        Ok(Some(rewrite))
    }

    fn sweep_files(&self) -> Result<(), StoreError> {
        let temporary = self.store.gc_temporary();
        durable::create_directory(&temporary)
            .and_then(|()| durable::sweep_directory(&temporary))
            .map_err(StoreError::io("clean up", &temporary))
    }

    /// Takes the store's exclusive lock, which prevents all other processes from capturing.
    pub(crate) fn lock_store(&self) -> Result<FileLock, StoreError> {
        self.pass_fault_point("gc lock")?;
        let path = self.store.lock_path();
        FileLock::exclusive(&path).map_err(StoreError::io("lock", &path))
    }

    pub(crate) fn pass_fault_point(&self, name: &str) -> Result<(), StoreError> {
        fault::point(name).map_err(StoreError::io("change", self.store.directory()))
    }

    pub(crate) fn new_pack(&self) -> PackWriter {
        PackWriter::new(&self.store.gc_temporary())
    }

    /// Writes the needed objects, starting with number `first`, into a pack that is durable but not
    /// yet part of the store.
    pub(crate) fn write_pack(
        &self,
        sources: &SourcePacks,
        recent: &mut RecentObjects,
        needed: &NeededObjects,
        first: usize,
    ) -> Result<Option<String>, GcError> {
        let temporary = self.store.gc_temporary();
        let writer = self.new_pack();
        let written = repack::write_objects(sources, recent, needed, first, &writer);
        written.map_err(|error| match error {
            RepackError::Object(ObjectError::Damaged { oid, pack, reason }) => {
                GcError::damaged(pack, format!("object {oid}: {reason}"))
            }
            RepackError::Object(error) => GcError::damaged("a pack", error),
            RepackError::Write(error) => StoreError::io("write", &temporary)(error).into(),
        })?;
        let name = self.seal_pack(writer)?;
        let count = match &name {
            Some(name) => PackIndex::open(&temporary.join(format!("{name}.idx")))
                .map_err(StoreError::io("read", &temporary))?
                .count() as usize,
            None => 0,
        };
        assert_eq!(count, needed.objects.len() - first, "every needed object is in the new pack");
        Ok(name)
    }

    /// Completes a pack in the temporary directory, outside the store's packs.
    pub(crate) fn seal_pack(&self, writer: PackWriter) -> Result<Option<String>, StoreError> {
        let temporary = self.store.gc_temporary();
        writer.seal(&temporary).map_err(StoreError::io("write", &temporary))
    }

    /// Moves completed packs into the store, durably.
    pub(crate) fn install_packs(&self, packs: &[String]) -> Result<(), StoreError> {
        let (from, to) = (self.store.gc_temporary(), self.store.pack_directory());
        for pack in packs {
            // The index is moved last: a pack without an index is invisible.
            for extension in ["pack", "idx"] {
                let file = format!("{pack}.{extension}");
                self.pass_fault_point("gc install")?;
                fs::rename(from.join(&file), to.join(&file))
                    .map_err(StoreError::io("write", &to))?;
            }
        }
        self.pass_fault_point("gc install sync")?;
        durable::sync_directory(&to).map_err(StoreError::io("write", &to))
    }

    /// Replaces old packs with new ones. The caller must hold the store's exclusive lock.
    pub(crate) fn replace_packs(
        &self,
        old: &HashSet<String>,
        new: &[String],
    ) -> Result<(), StoreError> {
        let directory = self.store.pack_directory();
        self.install_packs(new)?;
        // A pack is named after its content, so a new pack may have the name of an old pack.
        let mut gone = old.clone();
        gone.retain(|name| !new.contains(name));
        self.store.index_packs(&gone)?;
        for pack in &gone {
            remove_pack(&directory, pack)?;
        }
        self.pass_fault_point("gc sync")?;
        durable::sync_directory(&directory).map_err(StoreError::io("write", &directory))?;
        self.store.forget_packs();
        Ok(())
    }
}

impl Drop for PackRewrite<'_> {
    fn drop(&mut self) {
        // If a file cannot be removed, the next rewrite removes it.
        let _ = self.sweep_files();
    }
}

/// Removes all files of a pack. The index is removed first: a pack without an index is invisible.
/// The files `rev` and `bitmap` come from git.
fn remove_pack(directory: &Path, name: &str) -> Result<(), StoreError> {
    for extension in ["idx", "rev", "bitmap", "pack"] {
        let path = directory.join(format!("{name}.{extension}"));
        fault::point("gc delete")
            .and_then(|()| durable::ignore_missing(fs::remove_file(&path)))
            .map_err(StoreError::io("remove", &path))?;
    }
    Ok(())
}
