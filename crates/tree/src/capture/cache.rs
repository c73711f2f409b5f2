//! The stat cache: the state that the last capture saw. With the cache, an unchanged file costs
//! only one `lstat`.
//!
//! The cache is a file of fixed-size records with a checksum. Small changes are appended to a
//! separate log. The cache is disposable: without it, the next capture reads everything.

mod format;

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use takeback_base::durable::{self, Durability};

use crate::beneath::Stat;
use crate::object::Mode;
use crate::oid::Oid;
use format::{
    HEAD, RECORD, decode_entry, decode_head, encode_entry, encode_head, push_checksum,
    split_checksum,
};

/// The maximum number of bytes that are read at a time.
const PIECE: usize = 4096 * RECORD;
/// The maximum size of the log in bytes. For a large cache, the limit is an eighth of the cache's
/// size. Beyond the limit, writing a new cache is cheaper.
const MAX_LOG: usize = 64 << 10;

/// The kind of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum EntryKind {
    Directory = 0,
    File = 1,
    Symlink = 2,
    /// Not captured, for the reason in the entry's `cause`.
    Uncovered = 3,
}

/// The reason why a file is captured. It determines the size limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum FileClass {
    Plain = 0,
    /// A single ignored file in a directory that is captured.
    Guarded = 1,
    /// Captured despite the rules, because git tracks it.
    Tracked = 2,
    /// Captured only because the caller names or sweeps it.
    Named = 3,
}

/// The effect of the rules inside a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Reach {
    /// The rules are applied to each path.
    Normal = 0,
    /// The directory is excluded. In it, only tracked paths, named paths, and paths that the
    /// configuration includes are captured.
    Partial = 1,
    /// The configuration includes the directory and everything in it.
    Included = 2,
    /// The rules exclude the directory, but the caller names or sweeps it: everything in it that
    /// cannot be regenerated is captured.
    Named = 3,
}

/// The reason why an entry is not captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Cause {
    None = 0,
    TooLarge = 1,
    Excluded = 2,
    Ignored = 3,
    Unreadable = 4,
    Special = 5,
    Changing = 6,
    Private = 7,
    OverBudget = 8,
}

/// One file or directory of the workspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CachedEntry {
    pub(crate) kind: EntryKind,
    pub(crate) class: FileClass,
    pub(crate) reach: Reach,
    pub(crate) cause: Cause,
    /// The offset and the length of the name in the table of names.
    pub(crate) name: (u32, u16),
    pub(crate) stat: Stat,
    /// The id of the content, link target or tree. For an unreadable entry, the error number.
    pub(crate) oid: Oid,
    /// The index of a directory's first entry, and the number of its entries.
    pub(crate) children: (u32, u32),
}

impl CachedEntry {
    pub(crate) fn new(kind: EntryKind, stat: Stat) -> CachedEntry {
        CachedEntry {
            kind,
            class: FileClass::Plain,
            reach: Reach::Normal,
            cause: Cause::None,
            name: (0, 0),
            stat,
            oid: Oid::ZERO,
            children: (0, 0),
        }
    }

    /// Returns the mode that the entry has in a tree, or `None` if the entry is not captured.
    pub(crate) fn mode(&self) -> Option<Mode> {
        (self.kind != EntryKind::Uncovered).then(|| self.stat.entry_mode()).flatten()
    }

    /// True if the entry's own `lstat`, not that of its directory, reveals a change to the entry.
    pub(crate) fn needs_stat(&self) -> bool {
        match self.kind {
            EntryKind::File | EntryKind::Symlink => true,
            EntryKind::Directory => false,
            EntryKind::Uncovered => {
                matches!(self.cause, Cause::TooLarge | Cause::Unreadable | Cause::Changing)
            }
        }
    }

    /// True if the entry's name lies within a table of names of this length.
    fn has_name_in(&self, length: usize) -> bool {
        self.name.0 as usize + usize::from(self.name.1) <= length
    }

    /// True if the entry may be out of date even if its `lstat` is unchanged.
    pub(crate) fn is_doubtful(&self) -> bool {
        matches!(self.cause, Cause::Unreadable | Cause::Changing)
    }
}

/// The time after which file times are too recent to be trusted, because another write could leave
/// them unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cutoff {
    /// The time at which the scan began, in nanoseconds since 1970.
    pub(crate) scan: i64,
}

impl Cutoff {
    /// The tick of the kernel's clock for file times, with a margin.
    const TICK: i64 = 20_000_000;
    /// The tick of file systems that store times in units of one or two seconds.
    const COARSE_TICK: i64 = 2_000_000_000;

    /// True if the file is so new that another write might not change this stat.
    pub(crate) fn is_racy(self, stat: &Stat) -> bool {
        let is_recent = |time: i64| {
            let is_coarse = time % 1_000_000_000 == 0;
            time >= self.scan - if is_coarse { Self::COARSE_TICK } else { Self::TICK }
        };
        // Programs can set any modification time, so a time in the future says nothing about the
        // last write.
        let is_mtime_credible = stat.mtime <= self.scan + Self::COARSE_TICK;
        is_recent(stat.ctime) || (is_recent(stat.mtime) && is_mtime_credible)
    }
}

/// The facts on which the validity of the whole cache depends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CacheHead {
    /// The fingerprint of the rules.
    pub(crate) rules: u64,
    /// The generation of the store. In a later generation, objects may be missing.
    pub(crate) generation: u64,
    pub(crate) cutoff: Cutoff,
    /// The stat of the workspace's git index; all zeros if there is no index.
    pub(crate) index: Stat,
    /// True if the caller asked for some paths to be captured regardless of the rules.
    pub(crate) named: bool,
}

/// The state of a workspace as the last capture saw it.
#[derive(Clone, Debug)]
pub(crate) struct StatCache {
    pub(crate) head: CacheHead,
    /// The root, followed by the entries of each directory, sorted by name.
    pub(crate) entries: Vec<CachedEntry>,
    pub(crate) names: Vec<u8>,
}

/// A directory in a cache.
#[derive(Clone, Debug)]
pub(crate) struct CachedDirectory {
    pub(crate) entry: u32,
    pub(crate) parent: u32,
    pub(crate) path: Vec<u8>,
}

impl StatCache {
    pub(crate) fn name(&self, entry: &CachedEntry) -> &[u8] {
        &self.names[entry.name.0 as usize..][..usize::from(entry.name.1)]
    }

    pub(crate) fn children(&self, directory: &CachedEntry) -> &[CachedEntry] {
        let (start, count) = directory.children;
        &self.entries[start as usize..][..count as usize]
    }

    /// Finds the entry at a path.
    pub(crate) fn find_entry(&self, path: &[u8]) -> Option<&CachedEntry> {
        let mut entry = self.entries.first()?;
        for name in path.split(|byte| *byte == b'/') {
            let children = self.children(entry);
            let found = children.binary_search_by(|child| self.name(child).cmp(name)).ok()?;
            entry = &children[found];
        }
        Some(entry)
    }

    /// Lists all directories, each after its parent. Returns `None` if the records are
    /// inconsistent.
    pub(crate) fn directories(&self) -> Option<Vec<CachedDirectory>> {
        let mut directories = vec![CachedDirectory { entry: 0, parent: 0, path: Vec::new() }];
        let mut next = 1;
        let mut at = 0;
        while at < directories.len() {
            let directory = &directories[at];
            let (start, count) = self.entries.get(directory.entry as usize)?.children;
            // The entries of each directory directly follow those of the previous directory.
            if start != next && count != 0 {
                return None;
            }
            next = next.checked_add(count)?;
            let path = directory.path.clone();
            let end = start.checked_add(count)?;
            let children = self.entries.get(start as usize..end as usize)?;
            for (index, entry) in (start..end).zip(children) {
                if entry.kind == EntryKind::Directory {
                    let path = crate::path::join(&path, self.name(entry));
                    directories.push(CachedDirectory { entry: index, parent: at as u32, path });
                }
            }
            at += 1;
        }
        (next as usize == self.entries.len()).then_some(directories)
    }

    /// Reads the cache of a workspace. Returns `None` if the cache is missing or invalid.
    pub(crate) fn load(directory: &Path) -> Option<StatCache> {
        let mut file = fs::File::open(directory.join("state")).ok()?;
        let length = file.metadata().ok()?.len();
        let mut checksum = crc32fast::Hasher::new();
        let mut read = |bytes: &mut [u8]| {
            io::Read::read_exact(&mut file, bytes).ok()?;
            checksum.update(bytes);
            Some(())
        };
        let mut head = [0; HEAD];
        read(&mut head)?;
        let (head, count, names) = decode_head(&head)?;
        if length != (HEAD + count as usize * RECORD + names as usize + 4) as u64 {
            return None;
        }
        // All pieces are read into one small buffer, because touching new memory would cost more
        // than the read itself.
        let mut entries = Vec::with_capacity(count as usize);
        let mut piece = vec![0; PIECE.min(count as usize * RECORD)];
        while entries.len() < count as usize {
            let records = (count as usize - entries.len()).min(PIECE / RECORD);
            let piece = &mut piece[..records * RECORD];
            read(piece)?;
            for record in piece.chunks_exact(RECORD) {
                let entry = decode_entry(record)?;
                if !entry.has_name_in(names as usize) {
                    return None;
                }
                entries.push(entry);
            }
        }
        let mut text = vec![0; names as usize];
        read(&mut text)?;
        let (expected, mut found) = (checksum.finalize(), [0; 4]);
        io::Read::read_exact(&mut file, &mut found).ok()?;
        if u32::from_le_bytes(found) != expected {
            return None;
        }
        let mut cache = StatCache { head, entries, names: text };
        let log = fs::read(directory.join("state.log")).unwrap_or_default();
        cache.replay_log(&log, expected);
        Some(cache)
    }

    /// Applies the part of the log that is intact and belongs to this cache.
    fn replay_log(&mut self, mut log: &[u8], base: u32) {
        while let Some((head, count, belongs_to)) = decode_head(log) {
            let length = HEAD + count as usize * (4 + RECORD);
            let Some((body, _)) = log.get(..length + 4).and_then(split_checksum) else { return };
            if belongs_to != base {
                return;
            }
            for patch in body[HEAD..].chunks_exact(4 + RECORD) {
                let index = u32::from_le_bytes(patch[..4].try_into().expect("four bytes")) as usize;
                let patched = decode_entry(&patch[4..]);
                let patched = patched.filter(|entry| entry.has_name_in(self.names.len()));
                match (self.entries.get_mut(index), patched) {
                    (Some(entry), Some(patched)) => *entry = patched,
                    _ => return,
                }
            }
            self.head = head;
            log = &log[length + 4..];
        }
    }

    /// Writes the whole cache. It is disposable, so it need not survive a power cut.
    pub(crate) fn save(&self, directory: &Path, temporary: &Path) -> io::Result<()> {
        let length = HEAD + self.entries.len() * RECORD + self.names.len() + 4;
        let mut bytes = Vec::with_capacity(length);
        encode_head(&mut bytes, &self.head, self.entries.len() as u32, self.names.len() as u32);
        self.entries.iter().for_each(|entry| encode_entry(&mut bytes, entry));
        bytes.extend_from_slice(&self.names);
        push_checksum(&mut bytes);
        // Some file systems flush a file that replaces another one. Removing the old file first
        // avoids the flush.
        let path = directory.join("state");
        durable::ignore_missing(fs::remove_file(&path))?;
        durable::replace_file_through(temporary, &path, &bytes, Durability::Cached)?;
        // The log belongs to the previous cache. If this process is killed before it removes the
        // log, the checksum in the log does not match the new cache, so the log is ignored.
        durable::ignore_missing(fs::remove_file(directory.join("state.log")))
    }

    /// Appends to the log the entries that have changed since the cache was written. Returns false
    /// if the log is full.
    pub(crate) fn append_to_log(&self, directory: &Path, changed: &[u32]) -> io::Result<bool> {
        let log = directory.join("state.log");
        let limit = MAX_LOG.max(self.entries.len() * RECORD / 8);
        let length = fs::metadata(&log).map_or(0, |metadata| metadata.len() as usize);
        if length + changed.len() * (4 + RECORD) > limit {
            return Ok(false);
        }
        let base = read_checksum(&directory.join("state"))?;
        let mut batch = Vec::with_capacity(HEAD + changed.len() * (4 + RECORD) + 4);
        encode_head(&mut batch, &self.head, changed.len() as u32, base);
        for index in changed {
            batch.extend_from_slice(&index.to_le_bytes());
            encode_entry(&mut batch, &self.entries[*index as usize]);
        }
        push_checksum(&mut batch);
        durable::append_file(&log)?.write_all(&batch)?;
        Ok(true)
    }
}

/// Reads the checksum at the end of a cache file. The log of the cache refers to it.
pub(super) fn read_checksum(path: &Path) -> io::Result<u32> {
    use std::os::unix::fs::FileExt;
    let file = fs::File::open(path)?;
    let mut bytes = [0; 4];
    let end = file.metadata()?.len().checked_sub(4).ok_or(io::ErrorKind::InvalidData)?;
    file.read_exact_at(&mut bytes, end)?;
    Ok(u32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests;
