//! Reading damaged packs as far as they go.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use flate2::{Decompress, FlushDecompress, Status};
use rayon::prelude::*;

use crate::oid::Oid;
use crate::origins::Origins;
use crate::pack::MAX_OBJECT;
use crate::pack::index::Index;
use crate::pack::read::{Bases, Content, MAX_HEAD, PackFile, Recent, head};

/// How many bytes of objects each thread keeps in memory.
const RECENT: usize = 8 << 20;

/// Entries begin after the pack's own head.
const FIRST: u64 = 12;

/// A pack of which anything may be damaged. An object in it is intact if it can be read: its
/// compressed bytes have a checksum, and its id is computed anew.
pub(crate) struct Wreck {
    file: PackFile,
    /// What is there by the index, if that is intact.
    indexed: HashMap<u64, Oid>,
    /// Where the intact objects begin, in order.
    offsets: Vec<u64>,
    places: HashMap<Oid, u64>,
}

impl Wreck {
    /// Looks at everything in a pack. `None` if there is nothing to read.
    pub(crate) fn open(path: &Path, sound: &Origins) -> Option<Wreck> {
        let file = PackFile::open(path).ok()?;
        let index = Index::open(&path.with_extension("idx"));
        let index = index.ok().filter(|index| matches!(index.is_intact(), Ok(true)));
        let entries = index.and_then(|index| index.entries().ok());
        let mut offsets: Vec<u64> = match &entries {
            Some(entries) => entries.iter().map(|(_, offset)| *offset).collect(),
            None => scan(&file),
        };
        offsets.sort_unstable();
        let indexed = entries.into_iter().flatten().map(|(oid, offset)| (offset, oid)).collect();
        let mut wreck = Wreck { file, indexed, offsets: Vec::new(), places: HashMap::new() };
        let objects = wreck.read_all(&offsets, sound, |offset, oid, _| Ok((oid, offset)));
        let objects = objects.ok()?;
        wreck.offsets = objects.iter().map(|(_, offset)| *offset).collect();
        wreck.places = objects.into_iter().collect();
        Some(wreck)
    }

    /// Calls `take` with every intact object, from many threads.
    pub(crate) fn each(
        &self,
        sound: &Origins,
        take: &(dyn Fn(Oid, &Content) -> io::Result<()> + Sync),
    ) -> io::Result<()> {
        self.read_all(&self.offsets, sound, |_, oid, content| take(oid, content)).map(drop)
    }

    /// An object, if it is here and intact.
    pub(crate) fn read(&self, oid: &Oid, sound: &Origins) -> Option<Content> {
        let recent = Recent::new(0);
        let bases = WreckBases { wreck: self, sound, recent: &recent };
        self.file.read(*self.places.get(oid)?, &bases).ok()
    }

    /// Reads what can be read of some entries, in order.
    fn read_all<T: Send>(
        &self,
        offsets: &[u64],
        sound: &Origins,
        take: impl Fn(u64, Oid, &Content) -> io::Result<T> + Sync,
    ) -> io::Result<Vec<T>> {
        let shares = offsets.par_chunks(512).map(|share| {
            let mut recent = Recent::new(RECENT);
            let mut taken = Vec::new();
            for &offset in share {
                let bases = WreckBases { wreck: self, sound, recent: &recent };
                let Ok(content) = self.file.read(offset, &bases) else { continue };
                recent.put((0, offset), &content);
                taken.push(take(offset, Oid::of(content.0, &content.1), &content)?);
            }
            Ok(taken)
        });
        Ok(shares.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect())
    }
}

/// Bases are in the damaged pack, or somewhere else if they are damaged.
struct WreckBases<'a> {
    wreck: &'a Wreck,
    sound: &'a Origins,
    recent: &'a Recent,
}

impl Bases for WreckBases<'_> {
    fn offset(&self, oid: &Oid) -> io::Result<Option<u64>> {
        Ok(self.wreck.indexed.iter().find(|(_, found)| *found == oid).map(|(offset, _)| *offset))
    }

    fn known(&self, offset: u64) -> Option<Content> {
        self.recent.get((0, offset))
    }

    fn elsewhere(&self, offset: u64) -> Option<Content> {
        let place = self.sound.find(self.wreck.indexed.get(&offset)?)?;
        self.sound.read(place, &mut Recent::new(0)).ok()
    }
}

/// Finds the entries of a pack without its index. Where something is damaged, whatever inflates
/// to the size that is written before it is the next entry.
fn scan(file: &PackFile) -> Vec<u64> {
    let mut window = Window { file, start: 0, bytes: Vec::new() };
    let mut inflater = Decompress::new(true);
    let mut offsets = Vec::new();
    let mut at = FIRST;
    while at < file.end() {
        at = match window.entry_length(at, &mut inflater) {
            Ok(Some(length)) => {
                offsets.push(at);
                at + length
            }
            Ok(None) => at + 1,
            // The disk does not give it out.
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

    /// Some bytes at an offset: at least `least`, unless the pack ends before.
    fn at(&mut self, offset: u64, least: u64) -> io::Result<&[u8]> {
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

    /// The length of the entry at an offset, if there is one.
    fn entry_length(&mut self, offset: u64, inflater: &mut Decompress) -> io::Result<Option<u64>> {
        let bytes = self.at(offset, MAX_HEAD as u64 + 2)?;
        let Ok(head) = head(bytes, offset) else { return Ok(None) };
        // Deflate with a window that exists, and the check bits of the stream's own head.
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
            let input = self.at(at, 1)?;
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
