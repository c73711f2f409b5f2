//! The packs that objects are taken from when they are packed anew, verified or salvaged.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::path::Path;

use sha1::{Digest, Sha1};

use crate::oid::Oid;
use crate::pack::index::{Indexed, corrupt};
use crate::pack::read::{Bases, Content, Pack, PackFile, Recent};
use crate::store::ObjectError;

/// Packs, with everything that their indexes say.
#[derive(Default)]
pub(crate) struct Origins {
    packs: Vec<Origin>,
    places: HashMap<Oid, Place>,
    /// Further places of objects that several packs have.
    copies: HashMap<Oid, Vec<Place>>,
}

/// One of the packs.
pub(crate) struct Origin {
    pub(crate) name: String,
    pub(crate) file: PackFile,
    /// Sorted by offset.
    pub(crate) objects: Vec<Indexed>,
    index_is_intact: bool,
    /// It stays: what it has needs no other place.
    stays: bool,
}

/// Which object of which pack, by number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pack: u32,
    object: u32,
}

impl Origin {
    /// Opens a pack as far as it can be opened.
    pub(crate) fn open(directory: &Path, name: &str) -> io::Result<Origin> {
        let pack = Pack::open(&directory.join(format!("{name}.idx")))?;
        let index_is_intact = pack.index.is_intact()?;
        let mut objects = pack.index.objects()?;
        objects.sort_unstable_by_key(|object| object.offset);
        Ok(Origin { name: pack.name, file: pack.file, objects, index_is_intact, stays: false })
    }

    /// Whether the index matches the checksum at its end.
    pub(crate) fn check_index(&self) -> io::Result<()> {
        match self.index_is_intact {
            true => Ok(()),
            false => Err(corrupt("the index does not match its checksum")),
        }
    }

    /// Reads the whole pack to see whether it matches the checksum at its end.
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

    /// The object that begins at `offset`.
    pub(crate) fn at(&self, offset: u64) -> Option<&Indexed> {
        let found = self.objects.binary_search_by_key(&offset, |object| object.offset).ok()?;
        Some(&self.objects[found])
    }
}

impl Origins {
    /// Opens and adds a pack whose index can be trusted. If it `stays`, it is where its objects
    /// are looked for from now on.
    pub(crate) fn open(&mut self, directory: &Path, name: &str, stays: bool) -> io::Result<()> {
        let origin = Origin::open(directory, name)?;
        origin.check_index()?;
        self.add(origin, stays);
        Ok(())
    }

    /// Adds a pack.
    pub(crate) fn add(&mut self, mut origin: Origin, stays: bool) {
        origin.stays = stays;
        let pack = self.packs.len() as u32;
        for (number, object) in (0..).zip(&origin.objects) {
            let mut place = Place { pack, object: number };
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
        self.packs.push(origin);
    }

    /// How many different objects there are.
    pub(crate) fn count(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn packs(&self) -> &[Origin] {
        &self.packs
    }

    pub(crate) fn find(&self, oid: &Oid) -> Option<Place> {
        self.places.get(oid).copied()
    }

    /// Every place of an object, the preferred one first.
    pub(crate) fn everywhere(&self, oid: &Oid) -> impl Iterator<Item = Place> {
        self.find(oid).into_iter().chain(self.copies.get(oid).into_iter().flatten().copied())
    }

    /// Every object once, pack by pack, in the order in which it lies there.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Oid, Place)> {
        let all = (0..).zip(&self.packs).flat_map(|(pack, origin)| {
            let objects = (0..).zip(&origin.objects);
            objects.map(move |(object, indexed)| (indexed.oid, Place { pack, object }))
        });
        all.filter(|(oid, place)| {
            let preferred = self.places[oid];
            (preferred.pack, preferred.object) == (place.pack, place.object)
        })
    }

    /// In which order objects are read quickest.
    pub(crate) fn order(&self, place: Place) -> (u32, u32) {
        (place.pack, place.object)
    }

    pub(crate) fn stays(&self, place: Place) -> bool {
        self.packs[place.pack as usize].stays
    }

    pub(crate) fn pack(&self, place: Place) -> &Origin {
        &self.packs[place.pack as usize]
    }

    pub(crate) fn object(&self, place: Place) -> &Indexed {
        &self.pack(place).objects[place.object as usize]
    }

    /// How many bytes the object's entry takes.
    pub(crate) fn length(&self, place: Place) -> u64 {
        let origin = self.pack(place);
        let next = origin.objects.get(place.object as usize + 1);
        let end = next.map_or(origin.file.end(), |next| next.offset);
        end.saturating_sub(self.object(place).offset)
    }

    /// Reads the object there and checks that it is what its id says.
    pub(crate) fn read(&self, place: Place, recent: &mut Recent) -> Result<Content, ObjectError> {
        let (origin, object) = (self.pack(place), self.object(place));
        let damaged = |reason: String| ObjectError::Damaged {
            oid: object.oid,
            pack: origin.name.clone(),
            reason,
        };
        if let Some(known) = recent.get((place.pack, object.offset)) {
            return Ok(known);
        }
        let bases = KnownBases { origin, pack: place.pack, recent };
        let content =
            origin.file.read(object.offset, &bases).map_err(|error| damaged(error.to_string()))?;
        if Oid::of(content.0, &content.1) != object.oid {
            return Err(damaged("its content does not match its id".into()));
        }
        recent.put((place.pack, object.offset), &content);
        Ok(content)
    }
}

/// Bases are in the same pack, some of them read already.
struct KnownBases<'a> {
    origin: &'a Origin,
    pack: u32,
    recent: &'a Recent,
}

impl Bases for KnownBases<'_> {
    fn offset(&self, oid: &Oid) -> io::Result<Option<u64>> {
        // Only packs that git made for sending have such deltas: a search through all is enough.
        Ok(self.origin.objects.iter().find(|object| object.oid == *oid).map(|found| found.offset))
    }

    fn known(&self, offset: u64) -> Option<Content> {
        self.recent.get((self.pack, offset))
    }
}
