//! Reading objects out of packs, deltas included.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::object::Kind;
use crate::oid::Oid;
use crate::pack::index::{Index, be32, corrupt};
use crate::pack::{MAX_OBJECT, OFS_DELTA, REF_DELTA, delta, entry_head, inflate, ofs};

/// A pack with its index.
pub(crate) struct Pack {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) index: Index,
    file: File,
    length: u64,
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
    Whole(Kind),
    /// As a difference from the entry at this offset.
    From(u64),
    /// As a difference from an object of the same pack.
    FromOid(Oid),
}

/// No pack of ours has longer chains; a longer one is damage.
const MAX_CHAIN: usize = 4096;

impl Pack {
    /// Opens a pack by the path of its index, checking what can be checked without reading it all.
    pub(crate) fn open(index_path: &Path) -> io::Result<Pack> {
        let index = Index::open(index_path)?;
        let path = index_path.with_extension("pack");
        let file = File::open(&path)?;
        let length = file.metadata()?.len();
        let mut head = [0; 12];
        let mut checksum = [0; 20];
        file.read_exact_at(&mut head, 0)?;
        file.read_exact_at(&mut checksum, length.saturating_sub(20))?;
        if head[..8] != *b"PACK\0\0\0\x02" {
            return Err(corrupt("not a pack of version 2"));
        }
        if be32(&head[8..]) != index.count() || checksum != index.pack_checksum()? {
            return Err(corrupt("pack and index do not belong together"));
        }
        let name = index_path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Pack { name, path, index, file, length })
    }

    /// The size of the pack file.
    pub(crate) fn bytes(&self) -> u64 {
        self.length
    }

    /// Whole objects come back with their kind; the caller checks the id where it matters.
    pub(crate) fn read(&self, offset: u64) -> io::Result<(Kind, Vec<u8>)> {
        let mut deltas = Vec::new();
        let mut entry = self.entry(offset)?;
        let mut at = offset;
        let kind = loop {
            at = match entry.stored {
                Stored::Whole(kind) => break kind,
                Stored::From(base) if base < at => base,
                Stored::From(_) => {
                    return Err(corrupt("a delta whose base does not come before it"));
                }
                Stored::FromOid(base) => {
                    self.index.find(&base)?.ok_or_else(|| corrupt("a delta without its base"))?
                }
            };
            deltas.push(entry.content);
            if deltas.len() > MAX_CHAIN {
                return Err(corrupt("an endless chain of deltas"));
            }
            entry = self.entry(at)?;
        };
        let base = entry.content;
        let content = deltas.iter().rev().try_fold(base, |base, delta| {
            delta::apply(&base, delta).ok_or_else(|| corrupt("a delta that does not fit its base"))
        })?;
        Ok((kind, content))
    }

    /// The entry at `offset`, without resolving deltas.
    pub(crate) fn entry(&self, offset: u64) -> io::Result<Entry> {
        let end = self.length.saturating_sub(20);
        let room =
            end.checked_sub(offset).ok_or_else(|| corrupt("an offset outside of the pack"))?;
        let mut head = vec![0; room.min(512) as usize];
        self.file.read_exact_at(&mut head, offset)?;
        let truncated = || corrupt("a truncated entry");
        let (code, size, mut at) = entry_head(&head).ok_or_else(truncated)?;
        let stored = match code {
            OFS_DELTA => {
                let (distance, length) = ofs(&head[at..]).ok_or_else(truncated)?;
                at += length;
                Stored::From(offset.checked_sub(distance).ok_or_else(truncated)?)
            }
            REF_DELTA => {
                let base = Oid::from_slice(&head[at..]).ok_or_else(truncated)?;
                at += 20;
                Stored::FromOid(base)
            }
            code => Stored::Whole(Kind::from_code(code).ok_or_else(|| corrupt("an unknown kind"))?),
        };
        // Deflate never makes content more than 1,032 times smaller: a larger size is damage.
        if size > MAX_OBJECT.min(room.saturating_mul(1032)) {
            return Err(corrupt("an impossible size"));
        }
        let bound = (size + size / 256 + 64).min(room - at as u64) as usize;
        let mut compressed = head.split_off(at);
        if compressed.len() < bound {
            let have = compressed.len();
            compressed.resize(bound, 0);
            self.file.read_exact_at(&mut compressed[have..], offset + (at + have) as u64)?;
        }
        let content =
            inflate(&compressed, size as usize).ok_or_else(|| corrupt("broken compressed data"))?;
        Ok(Entry { stored, content })
    }

    /// The compressed bytes of the entry that ends where `end` begins.
    pub(crate) fn raw(&self, offset: u64, end: u64) -> io::Result<Vec<u8>> {
        let length = end.checked_sub(offset).filter(|_| end <= self.length - 20);
        let mut bytes = vec![0; length.ok_or_else(|| corrupt("offsets out of order"))? as usize];
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }
}
