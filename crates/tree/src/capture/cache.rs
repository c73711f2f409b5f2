//! The stat cache: what the last capture saw, so that an unchanged file costs one `lstat`.
//!
//! A flat file of fixed records, checksummed and disposable. Small changes are appended to a log
//! beside it instead of writing it anew.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use takeback_base::durable::{self, Durability};

use crate::beneath::Stat;
use crate::object::Mode;
use crate::oid::Oid;

const MAGIC: &[u8; 8] = b"TBSTAT01";
const HEAD: usize = 72;
const RECORD: usize = 64;
/// How much is read at a time.
const PIECE: usize = 4096 * RECORD;
/// A log up to this size (or an eighth of the cache) is cheaper than a new cache.
const MAX_LOG: usize = 64 << 10;

/// What an entry of the workspace is to us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    Directory = 0,
    File = 1,
    Symlink = 2,
    /// Not captured, for the entry's reason.
    Uncovered = 3,
}

/// Under which rule a file is captured: it decides which limit holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Class {
    Plain = 0,
    /// A single ignored file beside captured ones.
    Guarded = 1,
    /// Captured against the rules because git tracks it.
    Tracked = 2,
    /// Captured against the rules because the caller named it.
    Named = 3,
}

/// How the rules apply inside a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Reach {
    /// Rule by rule.
    Normal = 0,
    /// Excluded; only what is tracked, named or included by path is captured.
    Partial = 1,
    /// Included by configuration with all that is in it.
    Included = 2,
    /// Named by the caller with all that is in it.
    Named = 3,
}

/// Why an entry is not captured.
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
}

/// One file or directory of the workspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) class: Class,
    pub(crate) reach: Reach,
    pub(crate) cause: Cause,
    /// Where its name is in the table of names.
    pub(crate) name: (u32, u16),
    pub(crate) stat: Stat,
    /// Its content, link target or tree. For what is unreadable: the error number.
    pub(crate) oid: Oid,
    /// For directories: where its entries begin, and how many there are.
    pub(crate) children: (u32, u32),
}

impl Entry {
    pub(crate) fn new(kind: Kind, stat: Stat) -> Entry {
        Entry {
            kind,
            class: Class::Plain,
            reach: Reach::Normal,
            cause: Cause::None,
            name: (0, 0),
            stat,
            oid: Oid::ZERO,
            children: (0, 0),
        }
    }

    /// Its mode in a tree, if it is in one.
    pub(crate) fn mode(&self) -> Option<Mode> {
        (self.kind != Kind::Uncovered).then(|| self.stat.entry_mode()).flatten()
    }

    /// Whether a change to it shows in its own `lstat` (rather than in its directory's).
    pub(crate) fn wants_stat(&self) -> bool {
        match self.kind {
            Kind::File | Kind::Symlink => true,
            Kind::Directory => false,
            Kind::Uncovered => {
                matches!(self.cause, Cause::TooLarge | Cause::Unreadable | Cause::Changing)
            }
        }
    }

    /// Whether what was seen may be out of date although `lstat` agrees.
    pub(crate) fn is_doubtful(&self) -> bool {
        matches!(self.cause, Cause::Unreadable | Cause::Changing)
    }
}

/// Times at or after this are too new to be trusted: another write could have the same ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cutoff {
    /// When the scan began, in nanoseconds since 1970.
    pub(crate) scan: i64,
}

impl Cutoff {
    /// The kernel's clock for files ticks every few milliseconds.
    const TICK: i64 = 20_000_000;
    /// File systems that keep whole seconds only, or every other one.
    const COARSE_TICK: i64 = 2_000_000_000;

    /// Whether a file that looked like this may have changed since without looking different.
    pub(crate) fn is_racy(self, stat: &Stat) -> bool {
        let recent = |time: i64| {
            let coarse = time % 1_000_000_000 == 0;
            time >= self.scan - if coarse { Self::COARSE_TICK } else { Self::TICK }
        };
        // A modification time may be set to anything, so one from the future tells nothing.
        recent(stat.ctime) || (recent(stat.mtime) && stat.mtime <= self.scan + Self::COARSE_TICK)
    }
}

/// What the cache as a whole depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    /// Of the rules and of whatever else coverage depends on.
    pub(crate) rules: u64,
    /// Of the store: in a later one, objects may be gone.
    pub(crate) generation: u64,
    pub(crate) cutoff: Cutoff,
    /// Of the workspace's git index; zeros if there is none.
    pub(crate) index: Stat,
    /// Whether paths were named.
    pub(crate) named: bool,
}

/// The state of a workspace as the last capture saw it.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    pub(crate) head: Head,
    /// The root first; the entries of a directory stand together, sorted by name.
    pub(crate) entries: Vec<Entry>,
    pub(crate) names: Vec<u8>,
}

/// A directory in a cache.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    pub(crate) entry: u32,
    pub(crate) parent: u32,
    pub(crate) path: Vec<u8>,
}

impl Cache {
    pub(crate) fn name(&self, entry: &Entry) -> &[u8] {
        &self.names[entry.name.0 as usize..][..usize::from(entry.name.1)]
    }

    pub(crate) fn children(&self, directory: &Entry) -> &[Entry] {
        let (start, count) = directory.children;
        &self.entries[start as usize..][..count as usize]
    }

    /// What is known of a path.
    pub(crate) fn find(&self, path: &[u8]) -> Option<&Entry> {
        let mut entry = self.entries.first()?;
        for name in path.split(|byte| *byte == b'/') {
            let children = self.children(entry);
            let found = children.binary_search_by(|child| self.name(child).cmp(name)).ok()?;
            entry = &children[found];
        }
        Some(entry)
    }

    /// All directories, each after the one it is in. `None` if the records contradict each other.
    pub(crate) fn directories(&self) -> Option<Vec<Directory>> {
        let mut directories = vec![Directory { entry: 0, parent: 0, path: Vec::new() }];
        let mut next = 1;
        let mut at = 0;
        while at < directories.len() {
            let directory = &directories[at];
            let (start, count) = self.entries.get(directory.entry as usize)?.children;
            // Each directory's entries follow those of the directory before it.
            if start != next && count != 0 {
                return None;
            }
            next += count;
            let path = directory.path.clone();
            for index in start..start + count {
                let entry = self.entries.get(index as usize)?;
                if entry.kind == Kind::Directory {
                    let path = crate::path::join(&path, self.name(entry));
                    directories.push(Directory { entry: index, parent: at as u32, path });
                }
            }
            at += 1;
        }
        (next as usize == self.entries.len()).then_some(directories)
    }

    /// Reads a workspace's cache. Anything wrong with it means that there is none.
    pub(crate) fn load(directory: &Path) -> Option<Cache> {
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
        // Piece by piece: memory that is touched for the first time costs more than the reading.
        let mut entries = Vec::with_capacity(count as usize);
        let mut piece = vec![0; PIECE.min(count as usize * RECORD)];
        while entries.len() < count as usize {
            let records = (count as usize - entries.len()).min(PIECE / RECORD);
            let piece = &mut piece[..records * RECORD];
            read(piece)?;
            for record in piece.chunks_exact(RECORD) {
                let entry = decode(record)?;
                if entry.name.0 as usize + usize::from(entry.name.1) > names as usize {
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
        let mut cache = Cache { head, entries, names: text };
        let log = fs::read(directory.join("state.log")).unwrap_or_default();
        cache.replay(&log, expected);
        Some(cache)
    }

    /// Applies the log, as far as it is whole and belongs to this cache.
    fn replay(&mut self, mut log: &[u8], base: u32) {
        while let Some((head, count, belongs_to)) = decode_head(log) {
            let length = HEAD + count as usize * (4 + RECORD);
            let Some((body, _)) = log.get(..length + 4).and_then(split_checksum) else { return };
            if belongs_to != base {
                return;
            }
            for patch in body[HEAD..].chunks_exact(4 + RECORD) {
                let index = u32::from_le_bytes(patch[..4].try_into().expect("four bytes")) as usize;
                match (self.entries.get_mut(index), decode(&patch[4..])) {
                    (Some(entry), Some(patched)) => *entry = patched,
                    _ => return,
                }
            }
            self.head = head;
            log = &log[length + 4..];
        }
    }

    /// Writes the cache anew. It is disposable, so it need not survive a power cut.
    pub(crate) fn save(&self, directory: &Path, temporary: &Path) -> io::Result<()> {
        let length = HEAD + self.entries.len() * RECORD + self.names.len() + 4;
        let mut bytes = Vec::with_capacity(length);
        encode_head(&mut bytes, &self.head, self.entries.len() as u32, self.names.len() as u32);
        self.entries.iter().for_each(|entry| encode(&mut bytes, entry));
        bytes.extend_from_slice(&self.names);
        push_checksum(&mut bytes, 0);
        // Some file systems flush a file that replaces another; nothing depends on this one.
        let path = directory.join("state");
        durable::ignore_missing(fs::remove_file(&path))?;
        durable::replace_file_through(temporary, &path, &bytes, Durability::Cached)?;
        // The log belongs to the cache before; its checksum says so if this does not happen.
        match fs::remove_file(directory.join("state.log")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Appends the entries that changed since the cache was written; false if the log is full.
    pub(crate) fn append(&self, directory: &Path, changed: &[u32]) -> io::Result<bool> {
        let log = directory.join("state.log");
        let room = MAX_LOG.max(self.entries.len() * RECORD / 8);
        let have = fs::metadata(&log).map_or(0, |metadata| metadata.len() as usize);
        if have + changed.len() * (4 + RECORD) > room {
            return Ok(false);
        }
        let base = state_checksum(&directory.join("state"))?;
        let mut batch = Vec::with_capacity(HEAD + changed.len() * (4 + RECORD) + 4);
        encode_head(&mut batch, &self.head, changed.len() as u32, base);
        for index in changed {
            batch.extend_from_slice(&index.to_le_bytes());
            encode(&mut batch, &self.entries[*index as usize]);
        }
        push_checksum(&mut batch, 0);
        durable::append_file(&log)?.write_all(&batch)?;
        Ok(true)
    }
}

/// The checksum at the end of the cache file, which its log refers to.
fn state_checksum(path: &Path) -> io::Result<u32> {
    use std::os::unix::fs::FileExt;
    let file = fs::File::open(path)?;
    let mut bytes = [0; 4];
    let end = file.metadata()?.len().checked_sub(4).ok_or(io::ErrorKind::InvalidData)?;
    file.read_exact_at(&mut bytes, end)?;
    Ok(u32::from_le_bytes(bytes))
}

fn push_checksum(bytes: &mut Vec<u8>, start: usize) {
    let checksum = crc32fast::hash(&bytes[start..]);
    bytes.extend_from_slice(&checksum.to_le_bytes());
}

/// The body and its checksum, if they match.
fn split_checksum(bytes: &[u8]) -> Option<(&[u8], u32)> {
    let (body, checksum) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    let checksum = u32::from_le_bytes(checksum.try_into().ok()?);
    (crc32fast::hash(body) == checksum).then_some((body, checksum))
}

fn encode_head(out: &mut Vec<u8>, head: &Head, count: u32, extra: u32) {
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

fn decode_head(bytes: &[u8]) -> Option<(Head, u32, u32)> {
    let bytes = bytes.get(..HEAD)?;
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let (inode, counts) = (word(56), word(64));
    let head = Head {
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

/// A record: oid 20, mode 4, size or children 8, mtime 8, ctime 8, inode 8, name 4 + 1, and three
/// bytes for kind (and the rest of a name's length), class with reach, and cause.
fn encode(out: &mut Vec<u8>, entry: &Entry) {
    let size = match entry.kind {
        Kind::Directory => u64::from(entry.children.0) << 32 | u64::from(entry.children.1),
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

fn decode(record: &[u8]) -> Option<Entry> {
    let record: &[u8; RECORD] = record.try_into().ok()?;
    let word = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"));
    let half = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"));
    let kind = [Kind::Directory, Kind::File, Kind::Symlink, Kind::Uncovered];
    let class = [Class::Plain, Class::Guarded, Class::Tracked, Class::Named];
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
    ];
    let kind = *kind.get(usize::from(record[61] & 3))?;
    let size = word(24);
    let is_directory = kind == Kind::Directory;
    Some(Entry {
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn stat() -> Stat {
        let time = 1_700_000_000 * SECOND + 123_456_789;
        Stat { mode: 0o100_644, size: 10, mtime: time, ctime: time + 1, inode: 42 }
    }

    /// A scan that began this long after the file's last change.
    fn cutoff(after: i64) -> Cutoff {
        Cutoff { scan: stat().ctime + after }
    }

    #[test]
    fn as_new_as_the_scan_is_racy() {
        assert!(cutoff(0).is_racy(&stat()));
        assert!(cutoff(-5 * SECOND).is_racy(&stat()));
        assert!(cutoff(Cutoff::TICK).is_racy(&stat()));
        assert!(!cutoff(Cutoff::TICK + 1).is_racy(&stat()));
    }

    #[test]
    fn both_times_count() {
        let later = cutoff(SECOND);
        assert!(!later.is_racy(&stat()));
        assert!(later.is_racy(&Stat { mtime: later.scan, ..stat() }));
        assert!(later.is_racy(&Stat { ctime: later.scan, ..stat() }));
    }

    #[test]
    fn a_modification_time_from_the_future_is_not_racy_for_ever() {
        assert!(!cutoff(SECOND).is_racy(&Stat { mtime: i64::MAX, ..stat() }));
    }

    #[test]
    fn whole_seconds_are_trusted_later() {
        let coarse =
            Stat { mtime: 1_700_000_000 * SECOND, ctime: 1_700_000_000 * SECOND, ..stat() };
        let after = |time: i64| Cutoff { scan: coarse.ctime + time };
        assert!(after(SECOND).is_racy(&coarse));
        assert!(after(2 * SECOND).is_racy(&coarse));
        assert!(!after(2 * SECOND + 1).is_racy(&coarse));
    }

    fn sample() -> Cache {
        let mut root = Entry::new(Kind::Directory, Stat { mode: 0o040_755, size: 0, ..stat() });
        root.children = (1, 2);
        let file = Entry { name: (0, 1), oid: Oid([7; 20]), ..Entry::new(Kind::File, stat()) };
        let mut other = Entry { name: (1, 3), cause: Cause::Ignored, ..file };
        other.kind = Kind::Uncovered;
        other.class = Class::Guarded;
        let head = Head {
            rules: 1,
            generation: 2,
            cutoff: cutoff(9),
            index: Stat { mode: 0, ..stat() },
            named: true,
        };
        Cache { head, entries: vec![root, file, other], names: b"aenv".to_vec() }
    }

    #[test]
    fn save_load_and_append() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let mut cache = sample();
        assert_eq!(cache.directories().unwrap().len(), 1);
        cache.save(path, path).unwrap();
        let loaded = Cache::load(path).unwrap();
        assert_eq!((loaded.head, &loaded.entries), (cache.head, &cache.entries));

        cache.entries[1].oid = Oid([9; 20]);
        cache.head.cutoff.scan += 1;
        assert!(cache.append(path, &[1]).unwrap());
        let loaded = Cache::load(path).unwrap();
        assert_eq!((loaded.head, &loaded.entries), (cache.head, &cache.entries));

        // A torn append is not there.
        let log = path.join("state.log");
        let whole = fs::read(&log).unwrap();
        fs::write(&log, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(Cache::load(path).unwrap().entries[1].oid, Oid([7; 20]));

        // The log of another cache is not applied.
        fs::write(&log, &whole).unwrap();
        let other = Cache { names: b"benv".to_vec(), ..sample() };
        durable::replace_file_through(path, &path.join("unrelated"), b"", Durability::Cached)
            .unwrap();
        other.save(path, path).unwrap();
        fs::write(&log, &whole).unwrap();
        assert_eq!(Cache::load(path).unwrap().entries[1].oid, Oid([7; 20]));
    }

    /// Most file systems end at 255 bytes, but some count characters.
    #[test]
    fn long_names() {
        for length in [0, 1, 255, 256, 765, 1020, 16_383] {
            let entry = Entry { name: (7, length), ..sample().entries[2] };
            let mut record = Vec::new();
            encode(&mut record, &entry);
            assert_eq!(decode(&record), Some(entry), "{length}");
        }
    }

    #[test]
    fn every_flipped_byte_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        sample().save(path, path).unwrap();
        let whole = fs::read(path.join("state")).unwrap();
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] ^= 0x10;
            fs::write(path.join("state"), broken).unwrap();
            assert!(Cache::load(path).is_none(), "byte {at}");
        }
    }
}
