//! The multi-pack index (version 1): one table of the objects in many packs.

use std::io;
use std::path::Path;

use sha1::{Digest, Sha1};

use crate::oid::Oid;
use crate::pack::index::{IndexFile, OidTable, be32, corrupt, encode_offset, push_fanout};

/// The name of the file in the pack directory.
pub(crate) const NAME: &str = "multi-pack-index";

/// The maximum total size of the names of all packs.
const MAX_NAMES: u64 = 16 << 20;

/// An opened multi-pack index.
pub(crate) struct Midx {
    source: IndexFile,
    table: OidTable,
    offsets_at: u64,
    large_at: Option<u64>,
    /// The names of the packs that it covers (`pack-<checksum>`), in the order of their numbers.
    pub(crate) packs: Vec<String>,
}

impl Midx {
    pub(crate) fn open(path: &Path) -> io::Result<Midx> {
        let source = IndexFile::open(path)?;
        let head = source.read_at(0, 12)?.into_owned();
        if head[..6] != *b"MIDX\x01\x01" || head[7] != 0 {
            return Err(corrupt("not a multi-pack index of version 1"));
        }
        let chunks: Vec<([u8; 4], u64)> = (0..=u64::from(head[6]))
            .map(|row| {
                let id = source.read_at(12 + row * 12, 4)?[..].try_into().expect("four bytes");
                let at = source.read_u64(12 + row * 12 + 4)?;
                let is_inside = at <= source.len();
                is_inside.then_some((id, at)).ok_or_else(|| corrupt("a chunk outside the file"))
            })
            .collect::<io::Result<_>>()?;
        let chunk = |id: &[u8; 4]| chunks.iter().position(|(listed, _)| listed == id);
        let at =
            |id| chunk(id).map(|row| chunks[row].1).ok_or_else(|| corrupt("a chunk is missing"));
        let names = chunk(b"PNAM").ok_or_else(|| corrupt("a chunk is missing"))?;
        let length = chunks
            .get(names + 1)
            .and_then(|(_, end)| end.checked_sub(chunks[names].1))
            .filter(|length| *length <= MAX_NAMES)
            .ok_or_else(|| corrupt("chunks out of order"))?;
        let packs: Vec<String> = source
            .read_at(chunks[names].1, length as usize)?
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
            .map(|name| String::from_utf8_lossy(name).trim_end_matches(".idx").to_owned())
            .collect();
        if packs.len() != be32(&head[8..]) as usize || packs.iter().any(|name| name.contains('/')) {
            return Err(corrupt("the number of packs is wrong"));
        }
        let table = OidTable::new(&source, at(b"OIDF")?, at(b"OIDL")?)?;
        let (offsets_at, large_at) = (at(b"OOFF")?, at(b"LOFF").ok());
        Ok(Midx { table, offsets_at, large_at, packs, source })
    }

    /// Finds the number of a pack that has the object, and the object's offset in that pack.
    pub(crate) fn find(&self, oid: &Oid) -> io::Result<Option<(usize, u64)>> {
        let Some(position) = self.table.find(&self.source, oid)? else { return Ok(None) };
        let row = self.offsets_at + u64::from(position) * 8;
        let (pack, offset) = (self.source.read_u32(row)? as usize, self.source.read_u32(row + 4)?);
        if pack >= self.packs.len() {
            return Err(corrupt("an object in a pack that is not listed"));
        }
        let offset = match (offset & 0x8000_0000, self.large_at) {
            (0, _) | (_, None) => u64::from(offset),
            (_, Some(large_at)) => {
                self.source.read_u64(large_at + u64::from(offset & 0x7fff_ffff) * 8)?
            }
        };
        Ok(Some((pack, offset)))
    }

    /// True if the file matches the checksum at its end.
    pub(crate) fn is_intact(&self) -> io::Result<bool> {
        let length = self.source.len() - 20;
        let body = self.source.read_at(0, length as usize)?;
        Ok(Sha1::digest(&body)[..] == *self.source.read_at(length, 20)?)
    }
}

/// Encodes an index of several packs. Each pack is given by its name and its objects, in any order.
pub(crate) fn encode_midx(mut packs: Vec<(String, Vec<(Oid, u64)>)>) -> Vec<u8> {
    packs.sort();
    let mut objects: Vec<(Oid, u32, u64)> = (0..)
        .zip(&packs)
        .flat_map(|(pack, (_, objects))| objects.iter().map(move |(oid, at)| (*oid, pack, *at)))
        .collect();
    objects.sort_unstable();
    objects.dedup_by_key(|(oid, ..)| *oid);

    let mut names = Vec::new();
    for (name, _) in &packs {
        names.extend_from_slice(name.as_bytes());
        names.extend_from_slice(b".idx\0");
    }
    names.resize(names.len().next_multiple_of(4), 0);
    let mut fanout = Vec::with_capacity(1024);
    push_fanout(&mut fanout, objects.iter().map(|(oid, ..)| oid));
    let oids: Vec<u8> = objects.iter().flat_map(|(oid, ..)| oid.0).collect();
    let (mut offsets, mut large) = (Vec::with_capacity(objects.len() * 8), Vec::new());
    for (_, pack, at) in &objects {
        offsets.extend_from_slice(&pack.to_be_bytes());
        offsets.extend_from_slice(&encode_offset(*at, &mut large).to_be_bytes());
    }

    let mut chunks = vec![(b"PNAM", names), (b"OIDF", fanout), (b"OIDL", oids), (b"OOFF", offsets)];
    if !large.is_empty() {
        chunks.push((b"LOFF", large));
    }
    let mut out = b"MIDX\x01\x01".to_vec();
    out.extend_from_slice(&[chunks.len() as u8, 0]);
    out.extend_from_slice(&(packs.len() as u32).to_be_bytes());
    let mut at = 12 + (chunks.len() as u64 + 1) * 12;
    for (id, chunk) in &chunks {
        out.extend_from_slice(&id[..]);
        out.extend_from_slice(&at.to_be_bytes());
        at += chunk.len() as u64;
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&at.to_be_bytes());
    chunks.iter().for_each(|(_, chunk)| out.extend_from_slice(chunk));
    let checksum = Sha1::digest(&out);
    out.extend_from_slice(&checksum);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_outside_the_index_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join(NAME);
        let index = encode_midx(vec![("pack-a".into(), vec![(Oid([7; 20]), 12)])]);
        std::fs::write(&path, &index).unwrap();
        assert_eq!(Midx::open(&path).unwrap().find(&Oid([7; 20])).unwrap(), Some((0, 12)));
        for row in 0..4 {
            let mut damaged = index.clone();
            damaged[12 + row * 12 + 4..][..8].fill(0xff);
            std::fs::write(&path, damaged).unwrap();
            assert!(Midx::open(&path).is_err(), "chunk {row}");
        }
    }
}
