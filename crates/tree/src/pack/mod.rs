//! Packs: the files that hold objects. The format is git's own (pack version 2, index version 2,
//! multi-pack index version 1), so that git can read and check everything written here.
//!
//! This code uses no library for packs, for three reasons: a capture compresses objects in parallel
//! straight into its pack, a merge must *find* deltas and not only copy them, and a repair must
//! read as much as possible of damaged packs.

pub(crate) mod delta;
pub(crate) mod index;
pub(crate) mod midx;
pub(crate) mod read;
pub(crate) mod write;

use std::cell::RefCell;
use std::io;

use libdeflater::{CompressionLvl, Compressor, Decompressor};

/// The maximum size of an object in bytes. Larger files are uncovered, because each object is held
/// in memory as a whole.
pub const MAX_OBJECT: u64 = 512 << 20;

/// Git's code for a delta that refers to its base by distance.
pub(crate) const OFS_DELTA: u8 = 6;
/// Git's code for a delta that refers to its base by id.
pub(crate) const REF_DELTA: u8 = 7;

thread_local! {
    // On source files, libdeflate's level 1 is as fast as zlib's fastest level, and its output is a
    // fifth smaller.
    static COMPRESSOR: RefCell<Compressor> =
        RefCell::new(Compressor::new(CompressionLvl::new(1).expect("level 1 exists")));
    static DECOMPRESSOR: RefCell<Decompressor> = RefCell::new(Decompressor::new());
}

/// Appends `content` to `out` as a zlib stream.
pub(crate) fn deflate(content: &[u8], out: &mut Vec<u8>) {
    COMPRESSOR.with_borrow_mut(|compressor| {
        let start = out.len();
        out.resize(start + compressor.zlib_compress_bound(content.len()), 0);
        let written = compressor
            .zlib_compress(content, &mut out[start..])
            .expect("the output has the size that the compressor asked for");
        out.truncate(start + written);
    });
}

/// Content of at least this size is stored uncompressed if compression would hardly shrink it.
const MIN_TRIED: usize = 1 << 20;
/// The size of each sample that is compressed to decide whether large content is worth compressing.
const TRIED_PIECE: usize = 32 << 10;

/// True if compression would hardly shrink large content, as is the case for images, archives and
/// models. Only samples of the content are compressed to find out.
pub(crate) fn is_incompressible(content: &[u8]) -> bool {
    if content.len() < MIN_TRIED {
        return false;
    }
    let mut tried = Vec::with_capacity(4 * TRIED_PIECE);
    let last = content.len() - TRIED_PIECE;
    for at in [0, last / 3, last / 3 * 2, last] {
        tried.extend_from_slice(&content[at..at + TRIED_PIECE]);
    }
    let mut compressed = Vec::new();
    deflate(&tried, &mut compressed);
    compressed.len() > tried.len() / 10 * 9
}

/// Writes `content` as an uncompressed zlib stream, piece by piece.
pub(crate) fn store_uncompressed(
    content: &[u8],
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    const MAX_BLOCK: usize = u16::MAX as usize;
    write(&[0x78, 0x01])?;
    let count = content.len().div_ceil(MAX_BLOCK);
    for (number, block) in content.chunks(MAX_BLOCK).enumerate() {
        let length = (block.len() as u16).to_le_bytes();
        let is_last = u8::from(number + 1 == count);
        write(&[is_last, length[0], length[1], !length[0], !length[1]])?;
        write(block)?;
    }
    write(&libdeflater::adler32(content).to_be_bytes())
}

/// Decompresses the zlib stream at the start of `compressed`. Returns `None` unless the result has
/// exactly `size` bytes.
pub(crate) fn inflate(compressed: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut content = vec![0; size];
    let read = DECOMPRESSOR
        .with_borrow_mut(|decompressor| decompressor.zlib_decompress(compressed, &mut content))
        .ok()?;
    (read == size).then_some(content)
}

/// Appends the header of a pack entry: its code and the size of its content.
pub(crate) fn push_entry_head(out: &mut Vec<u8>, code: u8, size: u64) {
    let mut byte = code << 4 | (size & 15) as u8;
    let mut rest = size >> 4;
    while rest != 0 {
        out.push(byte | 0x80);
        byte = (rest & 0x7f) as u8;
        rest >>= 7;
    }
    out.push(byte);
}

/// Parses the header of a pack entry. Returns its code, the size of its content, and the length of
/// the header.
pub(crate) fn parse_entry_head(bytes: &[u8]) -> Option<(u8, u64, usize)> {
    let first = *bytes.first()?;
    let (mut size, mut shift, mut length) = (u64::from(first & 15), 4, 1);
    let mut byte = first;
    while byte & 0x80 != 0 {
        byte = *bytes.get(length)?;
        size |= u64::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        length += 1;
    }
    Some((first >> 4 & 7, size, length))
}

/// Appends the distance from a delta back to its base.
pub(crate) fn push_distance(out: &mut Vec<u8>, mut distance: u64) {
    let mut bytes = vec![(distance & 0x7f) as u8];
    while distance > 0x7f {
        distance = (distance >> 7) - 1;
        bytes.push((distance & 0x7f) as u8 | 0x80);
    }
    out.extend(bytes.iter().rev());
}

/// Parses a distance. Returns the distance and the length of its encoding.
pub(crate) fn parse_distance(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut byte = *bytes.first()?;
    let (mut distance, mut length) = (u64::from(byte & 0x7f), 1);
    while byte & 0x80 != 0 {
        byte = *bytes.get(length)?;
        distance = distance.checked_add(1)?.checked_mul(128)? | u64::from(byte & 0x7f);
        length += 1;
    }
    Some((distance, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_offsets_survive_a_round_trip() {
        for value in [0, 1, 15, 16, 127, 128, 2047, 2048, 16_511, 16_512, u64::from(u32::MAX) + 9] {
            let mut bytes = Vec::new();
            push_entry_head(&mut bytes, 3, value);
            assert_eq!(parse_entry_head(&bytes), Some((3, value, bytes.len())));
            bytes.clear();
            push_distance(&mut bytes, value);
            assert_eq!(parse_distance(&bytes), Some((value, bytes.len())));
        }
    }

    #[test]
    fn numbers_that_do_not_end_are_refused() {
        assert_eq!(parse_distance(&[0xff; 32]), None);
        assert_eq!(parse_entry_head(&[0xff; 8]), None);
    }

    #[test]
    fn content_that_is_stored_uncompressed_is_a_zlib_stream() {
        for size in [1, 65_535, 65_536, 200_000] {
            let content: Vec<u8> = (0..size).map(|at: usize| ((at * at) >> 7) as u8).collect();
            let mut stream = Vec::new();
            let write = |piece: &[u8]| {
                stream.extend_from_slice(piece);
                Ok(())
            };
            store_uncompressed(&content, write).unwrap();
            assert_eq!(inflate(&stream, size), Some(content));
        }
    }

    #[test]
    fn a_stream_of_the_wrong_size_is_refused() {
        let mut stream = Vec::new();
        deflate(b"hello hello hello", &mut stream);
        assert_eq!(inflate(&stream, 17).as_deref(), Some(&b"hello hello hello"[..]));
        assert_eq!(inflate(&stream, 16), None);
        assert_eq!(inflate(&stream, 18), None);
    }
}
