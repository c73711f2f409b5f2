//! Finding and downloading the packs that have certain objects.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use takeback_base::durable::{self, FileLock};
use takeback_base::hex;
use takeback_tree::{Oid, PinName, Store};

use super::Objects;
use super::error::ObjectsError;
use super::layout::{Inventory, ListedPack, RemoteRef};

/// The packs of one machine, some of which have been downloaded.
pub(super) struct Fetcher<'o> {
    objects: &'o Objects,
    machine: String,
    /// The packs without a mark, followed by those with one. In each group, newer packs come first.
    packs: Vec<ListedPack>,
    /// For each object, the numbers of the packs that contain it.
    places: HashMap<Oid, Vec<u32>>,
    fetched: HashSet<u32>,
    /// The packs and indexes that are damaged or missing, with the reasons.
    pub(super) damaged: Vec<ObjectsError>,
    broken: HashSet<u32>,
    /// The number of bytes that were downloaded.
    pub(super) bytes: u64,
}

impl<'o> Fetcher<'o> {
    /// Reads the indexes of all packs.
    pub(super) fn new(
        objects: &'o Objects,
        machine: &str,
        inventory: &Inventory,
    ) -> Result<Fetcher<'o>, ObjectsError> {
        let mut packs = inventory.packs.clone();
        packs.sort_by_key(|pack| (pack.gone.is_some(), std::cmp::Reverse(pack.created)));
        let mut fetcher = Fetcher {
            objects,
            machine: machine.to_owned(),
            places: HashMap::new(),
            fetched: HashSet::new(),
            damaged: Vec::new(),
            broken: HashSet::new(),
            bytes: 0,
            packs,
        };
        for number in 0..fetcher.packs.len() {
            let name = &fetcher.packs[number].name;
            match objects.read_index(machine, name) {
                Ok(ids) => {
                    for oid in ids {
                        fetcher.places.entry(oid).or_default().push(number as u32);
                    }
                }
                Err(error) => fetcher.note_damage(number as u32, error)?,
            }
        }
        Ok(fetcher)
    }

    /// Remembers that a pack is damaged or missing. Returns an error for any other problem.
    fn note_damage(&mut self, number: u32, error: ObjectsError) -> Result<(), ObjectsError> {
        match error {
            ObjectsError::Damaged { .. } | ObjectsError::Missing { .. } => {
                self.broken.insert(number);
                self.damaged.push(error);
                Ok(())
            }
            error => Err(error),
        }
    }

    /// Downloads packs that have these objects. Returns false if no such pack is left to download.
    pub(super) fn fetch(
        &mut self,
        wanted: &BTreeSet<Oid>,
        directory: &Path,
    ) -> Result<bool, ObjectsError> {
        let mut chosen: Vec<u32> = Vec::new();
        for oid in wanted {
            let places = self.places.get(oid).map_or(&[][..], Vec::as_slice);
            let is_usable =
                |number: &&u32| !self.fetched.contains(number) && !self.broken.contains(number);
            let mut usable = places.iter().filter(is_usable);
            if !places.iter().any(|number| chosen.contains(number)) {
                chosen.extend(usable.next());
            }
        }
        for number in &chosen {
            self.fetch_pack(*number, directory)?;
        }
        Ok(!chosen.is_empty())
    }

    fn fetch_pack(&mut self, number: u32, directory: &Path) -> Result<(), ObjectsError> {
        let pack = &self.packs[number as usize];
        let [to, index] = pack_files(directory, pack);
        let fetched = self.objects.fetch_pack(&self.machine, &pack.name, &to);
        let fetched = fetched.and_then(|()| {
            let kept = self.objects.cached_index(&pack.name);
            match std::fs::copy(&kept, &index) {
                Ok(_) => Ok(()),
                // Another process may have removed the cached index.
                Err(_) => self.objects.fetch_index(&self.machine, &pack.name, &index),
            }
        });
        self.bytes += pack.size;
        match fetched {
            Ok(()) => {
                self.fetched.insert(number);
                Ok(())
            }
            Err(error) => self.note_damage(number, error),
        }
    }
}

/// Returns the paths of a pack and its index in a store.
pub(super) fn pack_files(directory: &Path, pack: &ListedPack) -> [PathBuf; 2] {
    let name = format!("pack-{}", &pack.name.pack[..40]);
    ["pack", "idx"].map(|extension| directory.join(format!("{name}.{extension}")))
}

/// A temporary store in takeback's home. It is removed on drop.
pub(super) struct ScratchStore {
    directory: PathBuf,
    pub(super) store: Store,
    _lock: FileLock,
}

impl ScratchStore {
    /// Creates an empty store. Removes the stores that killed processes left behind.
    pub(super) fn create(objects: &Objects) -> Result<ScratchStore, ObjectsError> {
        let parent = objects.files.path_in_new("scratch")?;
        for entry in std::fs::read_dir(&parent).into_iter().flatten().flatten() {
            let path = entry.path();
            if let Ok(Some(_lock)) = FileLock::try_exclusive(&path.join("lock")) {
                let _ = std::fs::remove_dir_all(&path);
            }
        }
        let directory = parent.join(hex::random_digits(16));
        let failed = || ObjectsError::file(&directory);
        durable::create_directory(&directory).map_err(failed())?;
        let path = directory.join("lock");
        let lock = FileLock::exclusive(&path).map_err(failed())?;
        let store = Store::open(directory.join("store"))?;
        Ok(ScratchStore { directory, store, _lock: lock })
    }

    pub(super) fn pack_directory(&self) -> PathBuf {
        self.directory.join("store/objects/pack")
    }

    /// Creates the refs of a machine in the store.
    pub(super) fn place_refs<'a>(
        &self,
        refs: impl Iterator<Item = &'a RemoteRef>,
    ) -> Result<(), ObjectsError> {
        for found in refs {
            let name = PinName { workspace: found.workspace.clone(), seq: found.seq };
            self.store.place_pin(&name, found.commit)?;
        }
        Ok(())
    }
}

impl Drop for ScratchStore {
    fn drop(&mut self) {
        // If this fails, the next pull removes the rest.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
