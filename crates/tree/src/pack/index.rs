//! Pack indexes (version 2): the offset of each object in its pack.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use sha1::{Digest, Sha1};
use takeback_base::foreign;

use crate::oid::Oid;

const MAGIC: [u8; 8] = [0xff, b't', b'O', b'c', 0, 0, 0, 2];
const FANOUT_AT: u64 = 8;
const OIDS_AT: u64 = FANOUT_AT + 1024;

/// The maximum size of an index that is read as a whole. For a larger index, only the needed parts
/// are read: a capture usually looks up few objects, and touching new memory is expensive.
const MAX_READ_AT_ONCE: u64 = 64 << 10;

/// The maximum number of ids that a lookup reads at a time.
const MAX_SEARCHED_AT_ONCE: u32 = (MAX_READ_AT_ONCE / 20) as u32;

/// An index file, in memory or read in parts.
pub(crate) enum IndexFile {
    Memory(Vec<u8>),
    File(File, u64),
}

impl IndexFile {
    pub(crate) fn open(path: &Path) -> io::Result<IndexFile> {
        let file = foreign::open_regular(path)?;
        let length = file.metadata()?.len();
        if length > MAX_READ_AT_ONCE {
            return Ok(IndexFile::File(file, length));
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(IndexFile::Memory(bytes))
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            IndexFile::Memory(bytes) => bytes.len() as u64,
            IndexFile::File(_, length) => *length,
        }
    }

    /// Reads `length` bytes at `offset`. Fails if the file ends before that.
    pub(crate) fn read_at(&self, offset: u64, length: usize) -> io::Result<Cow<'_, [u8]>> {
        let end = offset.checked_add(length as u64).filter(|end| *end <= self.len());
        if end.is_none() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match self {
            IndexFile::Memory(bytes) => Ok(Cow::Borrowed(&bytes[offset as usize..][..length])),
            IndexFile::File(file, _) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, offset)?;
                Ok(Cow::Owned(bytes))
            }
        }
    }

    pub(crate) fn read_u32(&self, offset: u64) -> io::Result<u32> {
        Ok(be32(&self.read_at(offset, 4)?))
    }

    pub(crate) fn read_u64(&self, offset: u64) -> io::Result<u64> {
        let bytes = self.read_at(offset, 8)?;
        Ok(u64::from(be32(&bytes)) << 32 | u64::from(be32(&bytes[4..])))
    }
}

pub(crate) fn be32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().expect("four bytes"))
}

/// A sorted table of object ids with its fan-out table. A pack index and a multi-pack index each
/// have such a table.
pub(crate) struct OidTable {
    fanout: Vec<u32>,
    oids_at: u64,
}

impl OidTable {
    pub(crate) fn new(source: &IndexFile, fanout_at: u64, oids_at: u64) -> io::Result<OidTable> {
        let fanout: Vec<u32> = source.read_at(fanout_at, 1024)?.chunks_exact(4).map(be32).collect();
        if !fanout.is_sorted() {
            return Err(corrupt("the fan-out table is not sorted"));
        }
        if oids_at > source.len() {
            return Err(corrupt("the table of ids is outside the index"));
        }
        Ok(OidTable { fanout, oids_at })
    }

    pub(crate) fn count(&self) -> u32 {
        self.fanout[255]
    }

    /// Finds the position of an object in the table.
    pub(crate) fn find(&self, source: &IndexFile, oid: &Oid) -> io::Result<Option<u32>> {
        let bucket = usize::from(oid.0[0]);
        let mut start = if bucket == 0 { 0 } else { self.fanout[bucket - 1] };
        let mut end = self.fanout[bucket];
        // A large bucket is narrowed down before it is read: a sparse file can claim any number of
        // objects, all of them in one bucket.
        while end - start > MAX_SEARCHED_AT_ONCE {
            let middle = start + (end - start) / 2;
            match source.read_at(self.oids_at + u64::from(middle) * 20, 20)?[..].cmp(&oid.0) {
                Ordering::Less => start = middle + 1,
                Ordering::Greater => end = middle,
                Ordering::Equal => return Ok(Some(middle)),
            }
        }
        let count = (end - start) as usize;
        let oids = source.read_at(self.oids_at + u64::from(start) * 20, count * 20)?;
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = (low + high) / 2;
            match oids[middle * 20..][..20].cmp(&oid.0) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(Some(start + middle as u32)),
            }
        }
        Ok(None)
    }

    pub(crate) fn oids(&self, source: &IndexFile) -> io::Result<Vec<Oid>> {
        let bytes = source.read_at(self.oids_at, self.count() as usize * 20)?;
        Ok(bytes.chunks_exact(20).filter_map(Oid::from_slice).collect())
    }
}

/// Returns the error for damaged content.
pub(crate) fn corrupt(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// An opened pack index.
pub(crate) struct PackIndex {
    source: IndexFile,
    table: OidTable,
}

impl PackIndex {
    pub(crate) fn open(path: &Path) -> io::Result<PackIndex> {
        let source = IndexFile::open(path)?;
        if *source.read_at(0, 8)? != MAGIC {
            return Err(corrupt("not a pack index of version 2"));
        }
        let table = OidTable::new(&source, FANOUT_AT, OIDS_AT)?;
        let least = OIDS_AT + u64::from(table.count()) * 28 + 40;
        if source.len() < least || !(source.len() - least).is_multiple_of(8) {
            return Err(corrupt("the pack index has the wrong size"));
        }
        Ok(PackIndex { source, table })
    }

    pub(crate) fn count(&self) -> u32 {
        self.table.count()
    }

    /// Finds the offset of an object in the pack.
    pub(crate) fn find(&self, oid: &Oid) -> io::Result<Option<u64>> {
        self.table.find(&self.source, oid)?.map(|position| self.offset(position)).transpose()
    }

    fn offset(&self, position: u32) -> io::Result<u64> {
        let count = u64::from(self.count());
        let offset = self.source.read_u32(OIDS_AT + count * 24 + u64::from(position) * 4)?;
        if offset & 0x8000_0000 == 0 {
            return Ok(u64::from(offset));
        }
        self.source.read_u64(OIDS_AT + count * 28 + u64::from(offset & 0x7fff_ffff) * 8)
    }

    /// Lists all objects with their offsets, sorted by id.
    pub(crate) fn entries(&self) -> io::Result<Vec<(Oid, u64)>> {
        let oids = self.table.oids(&self.source)?;
        oids.into_iter().zip(0..).map(|(oid, at)| Ok((oid, self.offset(at)?))).collect()
    }

    /// Lists all objects with their offsets and checksums, sorted by id.
    pub(crate) fn objects(&self) -> io::Result<Vec<IndexedObject>> {
        let crcs_at = OIDS_AT + u64::from(self.count()) * 20;
        let crcs = self.source.read_at(crcs_at, self.count() as usize * 4)?;
        let crcs = crcs.chunks_exact(4).map(be32);
        let with_crc = |((oid, offset), crc)| IndexedObject { oid, crc, offset };
        Ok(self.entries()?.into_iter().zip(crcs).map(with_crc).collect())
    }

    /// Reads the checksum of the pack that this index belongs to.
    pub(crate) fn pack_checksum(&self) -> io::Result<[u8; 20]> {
        let bytes = self.source.read_at(self.source.len() - 40, 20)?;
        Ok(bytes[..].try_into().expect("twenty bytes"))
    }

    /// True if the index matches the checksum at its end.
    pub(crate) fn is_intact(&self) -> io::Result<bool> {
        let length = self.source.len() - 20;
        let body = self.source.read_at(0, length as usize)?;
        Ok(Sha1::digest(&body)[..] == *self.source.read_at(length, 20)?)
    }
}

/// An object as an index lists it.
#[derive(Clone, Copy)]
pub(crate) struct IndexedObject {
    pub(crate) oid: Oid,
    pub(crate) crc: u32,
    pub(crate) offset: u64,
}

/// Encodes the index of a pack. Sorts `objects` by id.
pub(crate) fn encode_index(objects: &mut [IndexedObject], pack_checksum: &[u8; 20]) -> Vec<u8> {
    objects.sort_unstable_by_key(|object| object.oid);
    let mut out = Vec::with_capacity(OIDS_AT as usize + objects.len() * 28 + 40);
    out.extend_from_slice(&MAGIC);
    push_fanout(&mut out, objects.iter().map(|object| &object.oid));
    objects.iter().for_each(|object| out.extend_from_slice(&object.oid.0));
    objects.iter().for_each(|object| out.extend_from_slice(&object.crc.to_be_bytes()));
    let mut large = Vec::new();
    for object in objects.iter() {
        let offset = encode_offset(object.offset, &mut large);
        out.extend_from_slice(&offset.to_be_bytes());
    }
    out.extend(large);
    out.extend_from_slice(pack_checksum);
    let checksum = Sha1::digest(&out);
    out.extend_from_slice(&checksum);
    out
}

/// Encodes an offset as 31 bits, or as a position in the table of `large` offsets.
pub(crate) fn encode_offset(offset: u64, large: &mut Vec<u8>) -> u32 {
    match u32::try_from(offset) {
        Ok(offset) if offset & 0x8000_0000 == 0 => offset,
        _ => {
            let position = (large.len() / 8) as u32;
            large.extend_from_slice(&offset.to_be_bytes());
            position | 0x8000_0000
        }
    }
}

/// Appends, for each byte value, the number of `oids` whose first byte is at most that value.
pub(crate) fn push_fanout<'a>(out: &mut Vec<u8>, oids: impl Iterator<Item = &'a Oid>) {
    let mut counts = [0u32; 256];
    oids.for_each(|oid| counts[usize::from(oid.0[0])] += 1);
    let mut total = 0;
    for count in counts {
        total += count;
        out.extend_from_slice(&total.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_whose_ids_begin_with_the_same_byte_are_all_found() {
        // These are more objects than a lookup reads at a time.
        let object = |number: u32| {
            let mut oid = Oid([7; 20]);
            oid.0[4..8].copy_from_slice(&number.to_be_bytes());
            IndexedObject { oid, crc: 0, offset: u64::from(number) }
        };
        let mut objects: Vec<_> = (0..20_000).step_by(2).map(object).collect();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pack.idx");
        std::fs::write(&path, encode_index(&mut objects, &[0; 20])).unwrap();
        let index = PackIndex::open(&path).unwrap();
        for number in 0..20_000 {
            let found = index.find(&object(number).oid).unwrap();
            assert_eq!(found, (number % 2 == 0).then_some(u64::from(number)));
        }
    }
}
