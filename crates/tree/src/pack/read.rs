//! Reading objects out of packs, deltas included.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::object::ObjectKind;
use crate::oid::Oid;
use crate::pack::index::{Index, be32, corrupt};
use crate::pack::{MAX_OBJECT, OFS_DELTA, REF_DELTA, delta, entry_head, inflate, ofs};

/// A pack with its index.
pub(crate) struct Pack {
    pub(crate) name: String,
    pub(crate) index: Index,
    pub(crate) file: PackFile,
}

impl Pack {
    /// Opens a pack by the path of its index, checking what can be checked without reading it all.
    pub(crate) fn open(index_path: &Path) -> io::Result<Pack> {
        let index = Index::open(index_path)?;
        let mut file = PackFile::open(&index_path.with_extension("pack"))?;
        let mut head = [0; 12];
        let mut checksum = [0; 20];
        file.read_at(&mut head, 0)?;
        file.end = file.end.saturating_sub(20);
        file.read_at(&mut checksum, file.end)?;
        if head[..8] != *b"PACK\0\0\0\x02" {
            return Err(corrupt("not a pack of version 2"));
        }
        if be32(&head[8..]) != index.count() || checksum != index.pack_checksum()? {
            return Err(corrupt("pack and index do not belong together"));
        }
        let name = index_path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Pack { name, index, file })
    }

    /// Whole objects come back with their kind; the caller checks the id where it matters.
    pub(crate) fn read(&self, offset: u64) -> io::Result<(ObjectKind, Vec<u8>)> {
        let (kind, content) = self.file.read(offset, &self.index)?;
        Ok((kind, Arc::unwrap_or_clone(content)))
    }
}

/// An object's kind and content.
pub(crate) type Content = (ObjectKind, Arc<Vec<u8>>);

/// Where the bases of deltas are, for a reader of a pack.
pub(crate) trait Bases {
    /// Where in the same pack this object begins.
    fn offset(&self, oid: &Oid) -> io::Result<Option<u64>>;

    /// The object at this offset, if it was read before.
    fn known(&self, _offset: u64) -> Option<Content> {
        None
    }

    /// The object at this offset from somewhere else: its entry here cannot be read.
    fn elsewhere(&self, _offset: u64) -> Option<Content> {
        None
    }
}

impl Bases for Index {
    fn offset(&self, oid: &Oid) -> io::Result<Option<u64>> {
        self.find(oid)
    }
}

/// An entry as it is stored.
pub(crate) struct Entry {
    pub(crate) stored: Stored,
    /// The entry's content: the object itself, or the delta.
    pub(crate) content: Vec<u8>,
}

/// How an entry is stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Stored {
    Whole(ObjectKind),
    /// As a difference from the entry at this offset.
    From(u64),
    /// As a difference from an object of the same pack.
    FromOid(Oid),
}

/// What stands before an entry's compressed bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) stored: Stored,
    /// The size of the entry's content.
    pub(crate) size: u64,
    /// How many bytes the head itself takes.
    pub(crate) length: usize,
}

/// No head is longer.
pub(crate) const MAX_HEAD: usize = 40;

/// The head of the entry at `offset`, from its first bytes.
pub(crate) fn head(bytes: &[u8], offset: u64) -> io::Result<Head> {
    let truncated = || corrupt("a truncated entry");
    let (code, size, mut length) = entry_head(bytes).ok_or_else(truncated)?;
    let stored = match code {
        OFS_DELTA => {
            let (distance, more) = ofs(&bytes[length..]).ok_or_else(truncated)?;
            length += more;
            let base = offset.checked_sub(distance).filter(|base| *base < offset);
            Stored::From(base.ok_or_else(|| corrupt("a delta whose base does not come before it"))?)
        }
        REF_DELTA => {
            let base = Oid::from_slice(&bytes[length..]).ok_or_else(truncated)?;
            length += 20;
            Stored::FromOid(base)
        }
        code => {
            Stored::Whole(ObjectKind::from_code(code).ok_or_else(|| corrupt("an unknown kind"))?)
        }
    };
    Ok(Head { stored, size, length })
}

/// The file of a pack.
pub(crate) struct PackFile {
    path: PathBuf,
    /// `None`: opened for each read.
    kept: Option<Kept>,
    /// Where the entries end.
    end: u64,
}

/// No pack of ours has longer chains; a longer one is damage.
const MAX_CHAIN: usize = 4096;

impl PackFile {
    /// Opens the file for what it is: every byte of it may belong to an entry.
    pub(crate) fn open(path: &Path) -> io::Result<PackFile> {
        let file = File::open(path)?;
        let end = file.metadata()?.len();
        Ok(PackFile { path: path.to_owned(), kept: Kept::new(file), end })
    }

    /// Where the entries end.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        match &self.kept {
            Some(kept) => kept.0.read_exact_at(bytes, offset),
            None => File::open(&self.path)?.read_exact_at(bytes, offset),
        }
    }

    /// The object whose entry begins at `offset`.
    pub(crate) fn read(&self, offset: u64, bases: &dyn Bases) -> io::Result<Content> {
        let mut deltas = Vec::new();
        let mut at = offset;
        let (kind, base) = loop {
            if let Some(known) = bases.known(at) {
                break known;
            }
            let entry = match self.entry(at) {
                Ok(entry) => entry,
                Err(error) => match bases.elsewhere(at) {
                    Some(base) if at != offset => break base,
                    _ => return Err(error),
                },
            };
            at = match entry.stored {
                Stored::Whole(kind) => break (kind, Arc::new(entry.content)),
                Stored::From(base) => base,
                Stored::FromOid(base) => {
                    bases.offset(&base)?.ok_or_else(|| corrupt("a delta without its base"))?
                }
            };
            deltas.push(entry.content);
            if deltas.len() > MAX_CHAIN {
                return Err(corrupt("an endless chain of deltas"));
            }
        };
        let content = deltas.iter().rev().try_fold(base, |base, delta| {
            delta::apply(&base, delta)
                .map(Arc::new)
                .ok_or_else(|| corrupt("a delta that does not fit its base"))
        })?;
        Ok((kind, content))
    }

    /// The head of the entry at `offset`.
    pub(crate) fn head(&self, offset: u64) -> io::Result<Head> {
        head(&self.start(offset, MAX_HEAD)?, offset)
    }

    /// The first bytes of the entry at `offset`: as many as asked for, fewer at the end.
    fn start(&self, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let room = self.end.checked_sub(offset);
        let room = room.ok_or_else(|| corrupt("an offset outside of the pack"))?;
        let mut bytes = vec![0; room.min(most as u64) as usize];
        self.read_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// The entry at `offset`, without resolving deltas.
    pub(crate) fn entry(&self, offset: u64) -> io::Result<Entry> {
        let mut bytes = self.start(offset, 512)?;
        let head = head(&bytes, offset)?;
        let room = self.end - offset;
        // Deflate never makes content more than 1,032 times smaller: a larger size is damage.
        if head.size > MAX_OBJECT.min(room.saturating_mul(1032)) {
            return Err(corrupt("an impossible size"));
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
        Ok(Entry { stored: head.stored, content })
    }
}

/// An open file that counts among those that packs keep open. There may be more packs than a
/// process may have files.
struct Kept(File);

static KEPT: AtomicUsize = AtomicUsize::new(0);
const MAX_KEPT: usize = 100;

impl Kept {
    fn new(file: File) -> Option<Kept> {
        let kept = Kept(file);
        (KEPT.fetch_add(1, Ordering::Relaxed) < MAX_KEPT).then_some(kept)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Objects read lately, by (number of their pack, offset): chains of deltas are resolved step by
/// step and not from their start each time.
pub(crate) struct Recent {
    objects: HashMap<(u32, u64), Content>,
    order: VecDeque<(u32, u64)>,
    bytes: usize,
    most: usize,
}

impl Recent {
    /// Keeps so many bytes.
    pub(crate) fn new(most: usize) -> Recent {
        Recent { objects: HashMap::new(), order: VecDeque::new(), bytes: 0, most }
    }

    pub(crate) fn get(&self, place: (u32, u64)) -> Option<Content> {
        self.objects.get(&place).cloned()
    }

    pub(crate) fn put(&mut self, place: (u32, u64), content: &Content) {
        if content.1.len() > self.most / 4 || self.objects.contains_key(&place) {
            return;
        }
        // What an entry of the table costs besides its content.
        let cost = |content: &Content| content.1.len() + 128;
        self.bytes += cost(content);
        self.objects.insert(place, content.clone());
        self.order.push_back(place);
        while self.bytes > self.most {
            let oldest = self.order.pop_front().expect("what has a size is in the queue");
            let gone = self.objects.remove(&oldest).expect("what is in the queue is there");
            self.bytes -= cost(&gone);
        }
    }
}
