//! The bytes of a stat cache: a header, records, names and a checksum.

use super::{CacheHead, CachedEntry, Cause, Cutoff, EntryKind, FileClass, Reach};
use crate::beneath::Stat;
use crate::oid::Oid;

const MAGIC: &[u8; 8] = b"TBSTAT01";
/// The length of the header.
pub(super) const HEAD: usize = 72;
/// The length of a record.
pub(super) const RECORD: usize = 64;

/// Appends a checksum of all bytes.
pub(super) fn push_checksum(bytes: &mut Vec<u8>) {
    let checksum = crc32fast::hash(bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
}

/// Splits off the checksum, if it matches.
pub(super) fn split_checksum(bytes: &[u8]) -> Option<(&[u8], u32)> {
    let (body, checksum) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    let checksum = u32::from_le_bytes(checksum.try_into().ok()?);
    (crc32fast::hash(body) == checksum).then_some((body, checksum))
}

pub(super) fn encode_head(out: &mut Vec<u8>, head: &CacheHead, count: u32, extra: u32) {
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&head.rules.to_le_bytes());
    out.extend_from_slice(&head.generation.to_le_bytes());
    out.extend_from_slice(&head.cutoff.scan.to_le_bytes());
    out.extend_from_slice(&head.index.size.to_le_bytes());
    out.extend_from_slice(&head.index.mtime.to_le_bytes());
    out.extend_from_slice(&head.index.ctime.to_le_bytes());
    out.extend_from_slice(&(head.index.inode << 1 | u64::from(head.named)).to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&extra.to_le_bytes());
}

pub(super) fn decode_head(bytes: &[u8]) -> Option<(CacheHead, u32, u32)> {
    let bytes = bytes.get(..HEAD)?;
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let (inode, counts) = (word(56), word(64));
    let head = CacheHead {
        rules: word(8),
        generation: word(16),
        cutoff: Cutoff { scan: word(24) as i64 },
        index: Stat {
            mode: 0,
            size: word(32),
            mtime: word(40) as i64,
            ctime: word(48) as i64,
            inode: inode >> 1,
        },
        named: inode & 1 != 0,
    };
    (bytes[..8] == *MAGIC).then_some((head, counts as u32, (counts >> 32) as u32))
}

/// Appends the record of an entry. Its fields, with their lengths in bytes: oid 20, mode 4, size or
/// children 8, mtime 8, ctime 8, inode 8, name offset 4, name length 1. Three bytes follow: one for
/// the kind (with the upper bits of the name length), one for the class and the reach, and one for
/// the cause.
pub(super) fn encode_entry(out: &mut Vec<u8>, entry: &CachedEntry) {
    let size = match entry.kind {
        EntryKind::Directory => u64::from(entry.children.0) << 32 | u64::from(entry.children.1),
        _ => entry.stat.size,
    };
    out.extend_from_slice(&entry.oid.0);
    out.extend_from_slice(&entry.stat.mode.to_le_bytes());
    out.extend_from_slice(&size.to_le_bytes());
    out.extend_from_slice(&entry.stat.mtime.to_le_bytes());
    out.extend_from_slice(&entry.stat.ctime.to_le_bytes());
    out.extend_from_slice(&entry.stat.inode.to_le_bytes());
    out.extend_from_slice(&entry.name.0.to_le_bytes());
    let [length, more] = entry.name.1.to_le_bytes();
    let rule = (entry.class as u8) << 4 | entry.reach as u8;
    out.extend_from_slice(&[length, more << 2 | entry.kind as u8, rule, entry.cause as u8]);
}

pub(super) fn decode_entry(record: &[u8]) -> Option<CachedEntry> {
    let record: &[u8; RECORD] = record.try_into().ok()?;
    let word = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"));
    let half = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"));
    let kind = [EntryKind::Directory, EntryKind::File, EntryKind::Symlink, EntryKind::Uncovered];
    let class = [FileClass::Plain, FileClass::Guarded, FileClass::Tracked, FileClass::Named];
    let reach = [Reach::Normal, Reach::Partial, Reach::Included, Reach::Named];
    let cause = [
        Cause::None,
        Cause::TooLarge,
        Cause::Excluded,
        Cause::Ignored,
        Cause::Unreadable,
        Cause::Special,
        Cause::Changing,
        Cause::Private,
        Cause::OverBudget,
    ];
    let kind = *kind.get(usize::from(record[61] & 3))?;
    let size = word(24);
    let is_directory = kind == EntryKind::Directory;
    Some(CachedEntry {
        kind,
        class: *class.get(usize::from(record[62] >> 4))?,
        reach: *reach.get(usize::from(record[62] & 15))?,
        cause: *cause.get(usize::from(record[63]))?,
        name: (half(56), u16::from_le_bytes([record[60], record[61] >> 2])),
        stat: Stat {
            mode: half(20),
            size: if is_directory { 0 } else { size },
            mtime: word(32) as i64,
            ctime: word(40) as i64,
            inode: word(48),
        },
        oid: Oid::from_slice(record)?,
        children: if is_directory { ((size >> 32) as u32, size as u32) } else { (0, 0) },
    })
}
