//! The packs from which objects are rewritten, verified or salvaged.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::path::Path;

use sha1::{Digest, Sha1};

use crate::oid::Oid;
use crate::pack::index::{IndexedObject, corrupt};
use crate::pack::read::{DeltaBases, ObjectContent, Pack, PackFile, RecentObjects};
use crate::store::ObjectError;

/// Packs with their complete indexes in memory.
#[derive(Default)]
pub(crate) struct SourcePacks {
    packs: Vec<SourcePack>,
    places: HashMap<Oid, ObjectPlace>,
    /// The other locations of objects that are in several packs.
    copies: HashMap<Oid, Vec<ObjectPlace>>,
}

/// A pack with its complete index in memory.
pub(crate) struct SourcePack {
    pub(crate) name: String,
    pub(crate) file: PackFile,
    /// The objects, sorted by offset.
    pub(crate) objects: Vec<IndexedObject>,
    index_is_intact: bool,
    /// True if the pack is not rewritten. In that case, its objects need not be copied.
    stays: bool,
}

/// The location of an object: the number of its pack, and its number in that pack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectPlace {
    pack: u32,
    object: u32,
}

impl SourcePack {
    /// Opens a pack, even if the index does not match its own checksum.
    pub(crate) fn open(directory: &Path, name: &str) -> io::Result<SourcePack> {
        let pack = Pack::open(&directory.join(format!("{name}.idx")))?;
        let index_is_intact = pack.index.is_intact()?;
        let mut objects = pack.index.objects()?;
        objects.sort_unstable_by_key(|object| object.offset);
        Ok(SourcePack { name: pack.name, file: pack.file, objects, index_is_intact, stays: false })
    }

    /// Fails if the index does not match the checksum at its end.
    pub(crate) fn check_index(&self) -> io::Result<()> {
        match self.index_is_intact {
            true => Ok(()),
            false => Err(corrupt("the index does not match its checksum")),
        }
    }

    /// Reads the whole pack, and fails if it does not match the checksum at its end.
    pub(crate) fn check_pack(&self) -> io::Result<()> {
        let mut hasher = Sha1::new();
        let mut piece = vec![0; 1 << 20];
        let mut offset = 0;
        while offset < self.file.end() {
            let piece = &mut piece[..(self.file.end() - offset).min(1 << 20) as usize];
            self.file.read_at(piece, offset)?;
            hasher.update(&*piece);
            offset += piece.len() as u64;
        }
        let mut checksum = [0; 20];
        self.file.read_at(&mut checksum, self.file.end())?;
        match hasher.finalize()[..] == checksum {
            true => Ok(()),
            false => Err(corrupt("the pack does not match its checksum")),
        }
    }

    /// Finds the object that begins at `offset`.
    pub(crate) fn object_at(&self, offset: u64) -> Option<&IndexedObject> {
        let number = self.objects.binary_search_by_key(&offset, |object| object.offset).ok()?;
        Some(&self.objects[number])
    }
}

impl SourcePacks {
    /// Opens a pack and adds it. Fails if the index of the pack is damaged. If `stays` is true, the
    /// pack becomes the preferred location of its objects.
    pub(crate) fn open(&mut self, directory: &Path, name: &str, stays: bool) -> io::Result<()> {
        let source = SourcePack::open(directory, name)?;
        source.check_index()?;
        self.add_pack(source, stays);
        Ok(())
    }

    pub(crate) fn add_pack(&mut self, mut source: SourcePack, stays: bool) {
        source.stays = stays;
        let pack = self.packs.len() as u32;
        for (number, object) in (0..).zip(&source.objects) {
            let mut place = ObjectPlace { pack, object: number };
            match self.places.entry(object.oid) {
                Entry::Vacant(vacant) => drop(vacant.insert(place)),
                Entry::Occupied(mut known) => {
                    if stays {
                        std::mem::swap(known.get_mut(), &mut place);
                    }
                    self.copies.entry(object.oid).or_default().push(place);
                }
            }
        }
        self.packs.push(source);
    }

    /// Returns the number of distinct objects.
    pub(crate) fn count_objects(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn packs(&self) -> &[SourcePack] {
        &self.packs
    }

    pub(crate) fn find(&self, oid: &Oid) -> Option<ObjectPlace> {
        self.places.get(oid).copied()
    }

    /// Finds all locations of an object, the preferred one first.
    pub(crate) fn find_all(&self, oid: &Oid) -> impl Iterator<Item = ObjectPlace> {
        self.find(oid).into_iter().chain(self.copies.get(oid).into_iter().flatten().copied())
    }

    /// Lists every object once, pack by pack, in the order of the offsets.
    pub(crate) fn objects(&self) -> impl Iterator<Item = (Oid, ObjectPlace)> {
        let all = (0..).zip(&self.packs).flat_map(|(pack, source)| {
            let objects = (0..).zip(&source.objects);
            objects.map(move |(object, indexed)| (indexed.oid, ObjectPlace { pack, object }))
        });
        all.filter(|(oid, place)| {
            let preferred = self.places[oid];
            (preferred.pack, preferred.object) == (place.pack, place.object)
        })
    }

    /// Returns a sort key. Reading objects in the order of their keys is fastest.
    pub(crate) fn read_order(&self, place: ObjectPlace) -> (u32, u32) {
        (place.pack, place.object)
    }

    pub(crate) fn stays(&self, place: ObjectPlace) -> bool {
        self.packs[place.pack as usize].stays
    }

    pub(crate) fn pack(&self, place: ObjectPlace) -> &SourcePack {
        &self.packs[place.pack as usize]
    }

    pub(crate) fn object(&self, place: ObjectPlace) -> &IndexedObject {
        &self.pack(place).objects[place.object as usize]
    }

    /// Returns the length in bytes of an object's entry.
    pub(crate) fn entry_length(&self, place: ObjectPlace) -> u64 {
        let source = self.pack(place);
        let next = source.objects.get(place.object as usize + 1);
        let end = next.map_or(source.file.end(), |next| next.offset);
        end.saturating_sub(self.object(place).offset)
    }

    /// Reads an object and checks that it matches its id.
    pub(crate) fn read(
        &self,
        place: ObjectPlace,
        recent: &mut RecentObjects,
    ) -> Result<ObjectContent, ObjectError> {
        let (source, object) = (self.pack(place), self.object(place));
        let damaged = |reason: String| ObjectError::Damaged {
            oid: object.oid,
            pack: source.name.clone(),
            reason,
        };
        if let Some(known) = recent.get((place.pack, object.offset)) {
            return Ok(known);
        }
        let bases = SourceBases { source, pack: place.pack, recent };
        let content = source
            .file
            .read_object(object.offset, &bases)
            .map_err(|error| damaged(error.to_string()))?;
        if Oid::of(content.0, &content.1) != object.oid {
            return Err(damaged("its content does not match its id".into()));
        }
        recent.put((place.pack, object.offset), &content);
        Ok(content)
    }
}

/// The bases of deltas, found in the same pack or among the objects that were read recently.
struct SourceBases<'a> {
    source: &'a SourcePack,
    pack: u32,
    recent: &'a RecentObjects,
}

impl DeltaBases for SourceBases<'_> {
    fn find_offset(&self, oid: &Oid) -> io::Result<Option<u64>> {
        // Only packs that git created for transfer refer to bases by id, so a linear search is good
        // enough.
        let object = self.source.objects.iter().find(|object| object.oid == *oid);
        Ok(object.map(|object| object.offset))
    }

    fn find_known(&self, offset: u64) -> Option<ObjectContent> {
        self.recent.get((self.pack, offset))
    }
}
