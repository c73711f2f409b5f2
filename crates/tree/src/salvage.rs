//! Reading the intact objects in damaged packs.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use flate2::{Decompress, FlushDecompress, Status};
use rayon::prelude::*;

use crate::oid::Oid;
use crate::pack::MAX_OBJECT;
use crate::pack::index::PackIndex;
use crate::pack::read::{DeltaBases, MAX_HEAD, ObjectContent, PackFile, RecentObjects, parse_head};
use crate::source_packs::SourcePacks;

/// The maximum total size in bytes of the objects that each thread keeps in memory.
const RECENT_BYTES: usize = 8 << 20;

/// The offset of the first entry, after the header of the pack.
const FIRST_ENTRY: u64 = 12;

/// A pack in which any part may be damaged. An object in it is intact if it can be read: its
/// compressed bytes have a checksum, and its id is computed from its content.
pub(crate) struct DamagedPack {
    file: PackFile,
    /// The objects by offset. Empty if the index is damaged.
    indexed: HashMap<u64, Oid>,
    /// The offsets of the intact objects, sorted.
    offsets: Vec<u64>,
    /// The offsets of the intact objects by id.
    pub(crate) places: HashMap<Oid, u64>,
}

impl DamagedPack {
    /// Opens a pack and reads all its objects. If the base of a delta is damaged in this pack, it
    /// is read from the intact packs. Returns `None` if the pack cannot be read at all.
    pub(crate) fn open(path: &Path, intact: &SourcePacks) -> Option<DamagedPack> {
        let file = PackFile::open(path).ok()?;
        let index = PackIndex::open(&path.with_extension("idx"));
        let index = index.ok().filter(|index| matches!(index.is_intact(), Ok(true)));
        let entries = index.and_then(|index| index.entries().ok());
        let mut offsets: Vec<u64> = match &entries {
            Some(entries) => entries.iter().map(|(_, offset)| *offset).collect(),
            None => find_entries(&file),
        };
        offsets.sort_unstable();
        let indexed = entries.into_iter().flatten().map(|(oid, offset)| (offset, oid)).collect();
        let mut pack = DamagedPack { file, indexed, offsets: Vec::new(), places: HashMap::new() };
        let objects = pack.read_intact(&offsets, intact, |offset, oid, _| Ok((oid, offset)));
        let objects = objects.ok()?;
        pack.offsets = objects.iter().map(|(_, offset)| *offset).collect();
        pack.places = objects.into_iter().collect();
        Some(pack)
    }

    /// Calls `take` with every intact object, from many threads.
    pub(crate) fn for_each_object(
        &self,
        intact: &SourcePacks,
        take: &(dyn Fn(Oid, &ObjectContent) -> io::Result<()> + Sync),
    ) -> io::Result<()> {
        self.read_intact(&self.offsets, intact, |_, oid, content| take(oid, content)).map(drop)
    }

    /// Reads an object. Returns `None` if the pack has no intact copy of it.
    pub(crate) fn read_object(&self, oid: &Oid, intact: &SourcePacks) -> Option<ObjectContent> {
        let recent = RecentObjects::new(0);
        let bases = DamagedPackBases { pack: self, intact, recent: &recent };
        self.file.read_object(*self.places.get(oid)?, &bases).ok()
    }

    /// Reads the intact objects at the given offsets. Returns the results of `take` in the same
    /// order.
    fn read_intact<T: Send>(
        &self,
        offsets: &[u64],
        intact: &SourcePacks,
        take: impl Fn(u64, Oid, &ObjectContent) -> io::Result<T> + Sync,
    ) -> io::Result<Vec<T>> {
        let shares = offsets.par_chunks(512).map(|share| {
            let mut recent = RecentObjects::new(RECENT_BYTES);
            let mut taken = Vec::new();
            for &offset in share {
                let bases = DamagedPackBases { pack: self, intact, recent: &recent };
                let Ok(content) = self.file.read_object(offset, &bases) else { continue };
                recent.put((0, offset), &content);
                taken.push(take(offset, Oid::of(content.0, &content.1), &content)?);
            }
            Ok(taken)
        });
        Ok(shares.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect())
    }
}

/// The bases of deltas, from a damaged pack or, if a base is damaged there, from the intact packs.
struct DamagedPackBases<'a> {
    pack: &'a DamagedPack,
    intact: &'a SourcePacks,
    recent: &'a RecentObjects,
}

impl DeltaBases for DamagedPackBases<'_> {
    fn find_offset(&self, oid: &Oid) -> io::Result<Option<u64>> {
        let mut indexed = self.pack.indexed.iter();
        Ok(indexed.find(|(_, indexed)| *indexed == oid).map(|(offset, _)| *offset))
    }

    fn find_known(&self, offset: u64) -> Option<ObjectContent> {
        self.recent.get((0, offset))
    }

    fn read_elsewhere(&self, offset: u64) -> Option<ObjectContent> {
        let place = self.intact.find(self.pack.indexed.get(&offset)?)?;
        self.intact.read(place, &mut RecentObjects::new(0)).ok()
    }
}

/// Finds the entries of a pack without its index. After a damaged entry, the next entry is assumed
/// to begin at the first header whose data inflates to the size that the header gives.
fn find_entries(file: &PackFile) -> Vec<u64> {
    let mut window = Window { file, start: 0, bytes: Vec::new() };
    let mut inflater = Decompress::new(true);
    let mut offsets = Vec::new();
    let mut at = FIRST_ENTRY;
    while at < file.end() {
        at = match window.entry_length(at, &mut inflater) {
            Ok(Some(length)) => {
                offsets.push(at);
                at + length
            }
            Ok(None) => at + 1,
            // The disk cannot read this block.
            Err(_) => (at / 4096 + 1) * 4096,
        };
    }
    offsets
}

/// A part of a pack in memory.
struct Window<'a> {
    file: &'a PackFile,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    const SIZE: u64 = 1 << 18;

    /// Reads at least `least` bytes at an offset, unless the pack ends before that.
    fn read_at(&mut self, offset: u64, least: u64) -> io::Result<&[u8]> {
        let end = (offset + least).min(self.file.end());
        if offset < self.start || end > self.start + self.bytes.len() as u64 {
            let length = Window::SIZE.min(self.file.end() - offset);
            self.bytes.resize(length as usize, 0);
            self.start = offset;
            if let Err(error) = self.file.read_at(&mut self.bytes, offset) {
                self.bytes.clear();
                return Err(error);
            }
        }
        Ok(&self.bytes[(offset - self.start) as usize..])
    }

    /// Measures the length of the entry at an offset. Returns `None` if there is no intact entry.
    fn entry_length(&mut self, offset: u64, inflater: &mut Decompress) -> io::Result<Option<u64>> {
        let bytes = self.read_at(offset, MAX_HEAD as u64 + 2)?;
        let Ok(head) = parse_head(bytes, offset) else { return Ok(None) };
        // A zlib stream begins with a valid method and window size, followed by check bits for
        // these.
        let is_zlib = |bytes: &[u8]| match bytes {
            [method, flags, ..] => {
                method & 0x8f == 8 && u16::from_be_bytes([*method, *flags]).is_multiple_of(31)
            }
            _ => false,
        };
        if head.size > MAX_OBJECT || !is_zlib(&bytes[head.length..]) {
            return Ok(None);
        }
        inflater.reset(true);
        let mut content = [0; 1 << 14];
        loop {
            let at = offset + head.length as u64 + inflater.total_in();
            if at >= self.file.end() {
                return Ok(None);
            }
            let before = (inflater.total_in(), inflater.total_out());
            let input = self.read_at(at, 1)?;
            let status = inflater.decompress(input, &mut content, FlushDecompress::None);
            let total = inflater.total_out();
            match status {
                Ok(Status::StreamEnd) if total == head.size => {
                    return Ok(Some(head.length as u64 + inflater.total_in()));
                }
                Ok(Status::Ok | Status::BufError)
                    if total <= head.size && (inflater.total_in(), total) != before => {}
                _ => return Ok(None),
            }
        }
    }
}
