//! Reading objects from packs, stored whole or as deltas.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::hash::Hash;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use takeback_base::foreign;

use crate::object::ObjectKind;
use crate::oid::Oid;
use crate::pack::index::{PackIndex, be32, corrupt};
use crate::pack::{
    MAX_OBJECT, OFS_DELTA, REF_DELTA, delta, inflate, parse_distance, parse_entry_head,
};

/// A pack with its index.
pub(crate) struct Pack {
    pub(crate) name: String,
    pub(crate) index: PackIndex,
    pub(crate) file: PackFile,
}

impl Pack {
    /// Opens a pack by the path of its index. Performs only the checks that do not require reading
    /// the whole pack.
    pub(crate) fn open(index_path: &Path) -> io::Result<Pack> {
        let index = PackIndex::open(index_path)?;
        let mut file = PackFile::open(&index_path.with_extension("pack"))?;
        file.end = file.end.saturating_sub(20);
        let name = index_path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let pack = Pack { name, index, file };
        pack.check_ends()?;
        Ok(pack)
    }

    /// Reads the beginning and the end of the pack, and compares them with the index.
    pub(crate) fn check_ends(&self) -> io::Result<()> {
        let mut head = [0; 12];
        let mut checksum = [0; 20];
        self.file.read_at(&mut head, 0)?;
        self.file.read_at(&mut checksum, self.file.end)?;
        if head[..8] != *b"PACK\0\0\0\x02" {
            return Err(corrupt("not a pack of version 2"));
        }
        if be32(&head[8..]) != self.index.count() || checksum != self.index.pack_checksum()? {
            return Err(corrupt("the pack does not match its index"));
        }
        Ok(())
    }

    /// Reads the object at `offset`. The caller must check that the object matches its id, where
    /// that matters.
    pub(crate) fn read_object(&self, offset: u64) -> io::Result<(ObjectKind, Vec<u8>)> {
        Ok(self.read_object_within(offset, MAX_OBJECT)?)
    }

    /// Reads the object at `offset` if no object or delta in its chain is larger than `max_size`.
    /// The caller must check that the object matches its id, where that matters.
    pub(crate) fn read_object_within(
        &self,
        offset: u64,
        max_size: u64,
    ) -> Result<(ObjectKind, Vec<u8>), EntryError> {
        let (kind, content) = self.file.read_object_within(offset, &self.index, max_size)?;
        Ok((kind, Arc::unwrap_or_clone(content)))
    }

    /// Reads the object at `offset`, and keeps it and the objects in its chain. The caller must
    /// check that the object matches its id, where that matters.
    pub(crate) fn read_and_keep(
        &self,
        offset: u64,
        kept: &RefCell<KeptObjects>,
    ) -> io::Result<ObjectContent> {
        self.file.read_object(offset, &KeptBases { pack: self, kept })
    }
}

/// Objects that were read from the packs of a store, keyed by pack and offset.
pub(crate) type KeptObjects = RecentObjects<(*const Pack, u64)>;

/// The bases of deltas in one pack. Some of them are kept in memory.
struct KeptBases<'a> {
    pack: &'a Pack,
    kept: &'a RefCell<KeptObjects>,
}

impl DeltaBases for KeptBases<'_> {
    fn find_offset(&self, oid: &Oid) -> io::Result<Option<u64>> {
        self.pack.index.find(oid)
    }

    fn find_known(&self, offset: u64) -> Option<ObjectContent> {
        self.kept.borrow().get((self.pack, offset))
    }

    fn note_object(&self, offset: u64, object: &ObjectContent) {
        self.kept.borrow_mut().put((self.pack, offset), object);
    }
}

/// The reason why an object cannot be read.
#[derive(Debug)]
pub(crate) enum EntryError {
    /// The object, or an object or delta in its chain, has this size, which is too large.
    TooLarge(u64),
    Io(io::Error),
}

impl From<io::Error> for EntryError {
    fn from(error: io::Error) -> EntryError {
        EntryError::Io(error)
    }
}

impl From<EntryError> for io::Error {
    fn from(error: EntryError) -> io::Error {
        match error {
            EntryError::TooLarge(_) => corrupt("an impossible size"),
            EntryError::Io(error) => error,
        }
    }
}

/// The kind and the content of an object.
pub(crate) type ObjectContent = (ObjectKind, Arc<Vec<u8>>);

/// A source of bases for the deltas of a pack.
pub(crate) trait DeltaBases {
    /// Finds the offset of an object in the same pack.
    fn find_offset(&self, oid: &Oid) -> io::Result<Option<u64>>;

    /// Returns the object at this offset if it has already been read.
    fn find_known(&self, _offset: u64) -> Option<ObjectContent> {
        None
    }

    /// Takes note of an object that was read or rebuilt, perhaps as the base of another object.
    fn note_object(&self, _offset: u64, _object: &ObjectContent) {}

    /// Reads an object from another pack, because its entry at this offset is damaged.
    fn read_elsewhere(&self, _offset: u64) -> Option<ObjectContent> {
        None
    }
}

impl DeltaBases for PackIndex {
    fn find_offset(&self, oid: &Oid) -> io::Result<Option<u64>> {
        self.find(oid)
    }
}

/// An entry of a pack.
pub(crate) struct PackEntry {
    pub(crate) stored: Stored,
    /// The entry's content: the object itself, or the delta.
    pub(crate) content: Vec<u8>,
}

/// The form in which an entry is stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Stored {
    Whole(ObjectKind),
    /// A delta whose base is the entry at this offset.
    DeltaAt(u64),
    /// A delta whose base is this object in the same pack.
    DeltaFrom(Oid),
}

/// The header of an entry, before its compressed bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryHead {
    pub(crate) stored: Stored,
    /// The size of the entry's content.
    pub(crate) size: u64,
    /// The length of the header itself.
    pub(crate) length: usize,
}

/// The maximum length of a header.
pub(crate) const MAX_HEAD: usize = 40;

/// Parses the header of the entry at `offset`.
pub(crate) fn parse_head(bytes: &[u8], offset: u64) -> io::Result<EntryHead> {
    let truncated = || corrupt("a truncated entry");
    let (code, size, mut length) = parse_entry_head(bytes).ok_or_else(truncated)?;
    let stored = match code {
        OFS_DELTA => {
            let (distance, more) = parse_distance(&bytes[length..]).ok_or_else(truncated)?;
            length += more;
            let base = offset.checked_sub(distance).filter(|base| *base < offset);
            let base = base.ok_or_else(|| corrupt("a delta whose base does not come before it"))?;
            Stored::DeltaAt(base)
        }
        REF_DELTA => {
            let base = Oid::from_slice(&bytes[length..]).ok_or_else(truncated)?;
            length += 20;
            Stored::DeltaFrom(base)
        }
        code => {
            Stored::Whole(ObjectKind::from_code(code).ok_or_else(|| corrupt("an unknown kind"))?)
        }
    };
    Ok(EntryHead { stored, size, length })
}

/// The file of a pack, from which entries can be read.
pub(crate) struct PackFile {
    path: PathBuf,
    /// The open file; `None` if the file is opened for each read.
    kept: Option<OpenFile>,
    /// The offset at which the entries end.
    end: u64,
}

/// The maximum length of a chain of deltas. Takeback never writes a longer chain, so a longer one
/// is a sign of damage.
const MAX_CHAIN: usize = 4096;

/// The maximum total size of the deltas in a chain. All of them are in memory at the same time.
const MAX_CHAIN_DELTAS: u64 = 2 * MAX_OBJECT;

/// The maximum total size of the objects that are rebuilt in order to read the last one in a chain.
/// Takeback, and git by default, write chains of at most 50 deltas.
const MAX_CHAIN_OBJECTS: u64 = 64 * MAX_OBJECT;

impl PackFile {
    /// Opens the file without any checks: every byte of it may belong to an entry.
    pub(crate) fn open(path: &Path) -> io::Result<PackFile> {
        let file = foreign::open_regular(path)?;
        let end = file.metadata()?.len();
        Ok(PackFile { path: path.to_owned(), kept: OpenFile::new(file), end })
    }

    /// Returns the offset at which the entries end.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        match &self.kept {
            Some(kept) => kept.0.read_exact_at(bytes, offset),
            None => foreign::open_regular(&self.path)?.read_exact_at(bytes, offset),
        }
    }

    /// Reads the object whose entry begins at `offset`.
    pub(crate) fn read_object(
        &self,
        offset: u64,
        bases: &dyn DeltaBases,
    ) -> io::Result<ObjectContent> {
        Ok(self.read_object_within(offset, bases, MAX_OBJECT)?)
    }

    /// Reads the object whose entry begins at `offset` if no object or delta in its chain is larger
    /// than `max_size`.
    fn read_object_within(
        &self,
        offset: u64,
        bases: &dyn DeltaBases,
        max_size: u64,
    ) -> Result<ObjectContent, EntryError> {
        let mut deltas = Vec::new();
        let (mut delta_bytes, mut made_bytes) = (0, 0);
        let mut at = offset;
        let (kind, base) = loop {
            if let Some(known) = bases.find_known(at) {
                break known;
            }
            let place = at;
            let entry = match self.read_entry(at, max_size) {
                Ok(entry) => entry,
                Err(error) => match bases.read_elsewhere(at) {
                    Some(base) if at != offset => break base,
                    _ => return Err(error),
                },
            };
            at = match entry.stored {
                Stored::Whole(kind) => {
                    let whole = (kind, Arc::new(entry.content));
                    bases.note_object(place, &whole);
                    break whole;
                }
                Stored::DeltaAt(base) => base,
                Stored::DeltaFrom(base) => {
                    bases.find_offset(&base)?.ok_or_else(|| corrupt("a delta without its base"))?
                }
            };
            delta_bytes += entry.content.len() as u64;
            let made = delta::result_size(&entry.content)
                .ok_or_else(|| corrupt("a delta without the size of its object"))?;
            if made > max_size {
                return Err(EntryError::TooLarge(made));
            }
            made_bytes += made;
            deltas.push((place, entry.content));
            let is_too_long = deltas.len() > MAX_CHAIN
                || delta_bytes > MAX_CHAIN_DELTAS
                || made_bytes > MAX_CHAIN_OBJECTS;
            if is_too_long {
                return Err(corrupt("a chain of deltas that is too long").into());
            }
        };
        let mut object = (kind, base);
        for (place, delta) in deltas.iter().rev() {
            let made = delta::apply_delta(&object.1, delta);
            let made = made.ok_or_else(|| corrupt("a delta that does not match its base"))?;
            object = (kind, Arc::new(made));
            bases.note_object(*place, &object);
        }
        Ok(object)
    }

    /// Reads the header of the entry at `offset`.
    pub(crate) fn read_head(&self, offset: u64) -> io::Result<EntryHead> {
        parse_head(&self.read_start(offset, MAX_HEAD)?, offset)
    }

    /// Reads the first `most` bytes of the entry at `offset`, or fewer if the pack ends before
    /// that.
    fn read_start(&self, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let room = self.end.checked_sub(offset);
        let room = room.ok_or_else(|| corrupt("an offset outside the pack"))?;
        let mut bytes = vec![0; room.min(most as u64) as usize];
        self.read_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Reads the entry at `offset` if its content is not larger than `max_size`, without resolving
    /// deltas.
    fn read_entry(&self, offset: u64, max_size: u64) -> Result<PackEntry, EntryError> {
        let mut bytes = self.read_start(offset, 512)?;
        let head = parse_head(&bytes, offset)?;
        let room = self.end - offset;
        if head.size > max_size {
            return Err(EntryError::TooLarge(head.size));
        }
        // Deflate never shrinks content to less than 1/1032 of its size, so a header that declares
        // a larger size is a sign of damage.
        if head.size > room.saturating_mul(1032) {
            return Err(corrupt("an impossible size").into());
        }
        let bound = (head.size + head.size / 256 + 64).min(room.saturating_sub(head.length as u64))
            as usize;
        let mut compressed = bytes.split_off(head.length);
        if compressed.len() < bound {
            let have = compressed.len();
            compressed.resize(bound, 0);
            self.read_at(&mut compressed[have..], offset + (head.length + have) as u64)?;
        }
        let content = inflate(&compressed, head.size as usize)
            .ok_or_else(|| corrupt("broken compressed data"))?;
        Ok(PackEntry { stored: head.stored, content })
    }
}

/// An open file. Only some packs keep their files open, because a store can have more packs than a
/// process may have open files.
struct OpenFile(File);

static OPEN_FILES: AtomicUsize = AtomicUsize::new(0);
const MAX_OPEN_FILES: usize = 100;

impl OpenFile {
    fn new(file: File) -> Option<OpenFile> {
        let kept = OpenFile(file);
        (OPEN_FILES.fetch_add(1, Ordering::Relaxed) < MAX_OPEN_FILES).then_some(kept)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        OPEN_FILES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Objects that were read recently, keyed by place: a pack or its number, and an offset. Thanks to
/// these objects, a chain of deltas need not be resolved from its start each time.
pub(crate) struct RecentObjects<P = (u32, u64)> {
    objects: HashMap<P, ObjectContent>,
    order: VecDeque<P>,
    bytes: usize,
    max_bytes: usize,
}

impl<P: Copy + Eq + Hash> RecentObjects<P> {
    /// Returns an empty collection that keeps at most `max_bytes`.
    pub(crate) fn new(max_bytes: usize) -> RecentObjects<P> {
        RecentObjects { objects: HashMap::new(), order: VecDeque::new(), bytes: 0, max_bytes }
    }

    pub(crate) fn get(&self, place: P) -> Option<ObjectContent> {
        self.objects.get(&place).cloned()
    }

    pub(crate) fn put(&mut self, place: P, content: &ObjectContent) {
        if content.1.len() > self.max_bytes / 4 || self.objects.contains_key(&place) {
            return;
        }
        // An entry of the table takes about 128 bytes in addition to its content.
        let cost = |content: &ObjectContent| content.1.len() + 128;
        self.bytes += cost(content);
        self.objects.insert(place, content.clone());
        self.order.push_back(place);
        while self.bytes > self.max_bytes {
            let oldest = self.order.pop_front().expect("every object is in the queue");
            let removed = self.objects.remove(&oldest).expect("the queue names only kept objects");
            self.bytes -= cost(&removed);
        }
    }
}
