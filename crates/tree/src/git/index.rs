//! The index of a work tree: the paths that git tracks, and a copy from which the index can be
//! restored.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha1::{Digest, Sha1};

use super::{GitDirectory, MAX_LARGE_FILE, read_regular_file};
use crate::oid::Oid;
use crate::path::is_within;

/// The maximum length of a path in an index.
const MAX_PATH_LENGTH: usize = 16 << 10;
/// The maximum total size of all paths in an index, as a multiple of the size of the index.
const MAX_EXPANSION: usize = 8;
/// The length of the SHA-1 checksum at the end of an index.
const CHECKSUM_LENGTH: usize = 20;

impl GitDirectory {
    /// Returns the path of the index, which need not exist.
    pub fn index_path(&self) -> PathBuf {
        self.path.join("index")
    }

    /// Returns numbers that change when the index is written: its size, times and inode.
    pub fn index_stamp(&self) -> Option<[i64; 5]> {
        let stat = fs::symlink_metadata(self.index_path()).ok().filter(fs::Metadata::is_file)?;
        let times = [stat.mtime(), stat.mtime_nsec(), stat.ctime() ^ stat.ctime_nsec()];
        Some([stat.size() as i64, times[0], times[1], times[2], stat.ino() as i64])
    }

    /// Copies the staged state from the index, without the parts that only make git faster. The
    /// copies of equal staged states have the same bytes. Returns `None` if there is no index, or
    /// if it has a form that cannot be copied: a split index, or an index with SHA-256.
    ///
    /// A copy followed by the SHA-1 of its bytes is an index that git accepts.
    pub fn copy_index(&self) -> Option<Vec<u8>> {
        normalize_index(&read_regular_file(&self.index_path(), MAX_LARGE_FILE)?)
    }
}

/// The paths that an index tracks, sorted.
#[derive(Default, Debug)]
pub(crate) struct TrackedPaths {
    paths: Vec<Vec<u8>>,
    /// True if the index is split and its shared part cannot be read. In that case, some paths are
    /// missing.
    pub(crate) is_incomplete: bool,
}

impl TrackedPaths {
    /// Reads an index. If the index cannot be read, no path is treated as tracked, so only the
    /// other rules determine the coverage.
    pub(crate) fn read(index: &Path) -> TrackedPaths {
        let mut tracked = read_paths(index).unwrap_or_default();
        tracked.paths.sort_unstable();
        tracked.paths.dedup();
        tracked
    }

    pub(crate) fn contains(&self, path: &[u8]) -> bool {
        self.paths.binary_search_by(|tracked| tracked.as_slice().cmp(path)).is_ok()
    }

    /// True if a path below this directory is tracked.
    pub(crate) fn has_any_under(&self, directory: &[u8]) -> bool {
        let first = [directory, b"/"].concat();
        let at = self.paths.partition_point(|path| *path < first);
        self.paths.get(at).is_some_and(|path| is_within(path, directory))
    }
}

fn read_paths(index: &Path) -> Option<TrackedPaths> {
    let bytes = read_regular_file(index, MAX_LARGE_FILE)?;
    let entries = parse_entries(&bytes)?;
    let mut tracked = TrackedPaths { paths: entries.paths(&bytes)?, is_incomplete: false };
    // A split index keeps most of its entries in another file. Entries that have been removed since
    // the split are still treated as tracked, so a capture may cover more than necessary. It covers
    // less than necessary only if the other file cannot be read, which is reported.
    let extensions = Extensions::new(&bytes, entries.end).flatten();
    for extension in extensions.filter(|extension| extension.signature == b"link") {
        let shared = Oid::from_slice(extension.content)?;
        if shared != Oid::ZERO {
            let path = index.with_file_name(format!("sharedindex.{shared}"));
            match read_shared_paths(&path) {
                Some(shared) => tracked.paths.extend(shared),
                None => tracked.is_incomplete = true,
            }
        }
    }
    Some(tracked)
}

/// Reads the paths of the shared part of a split index. Git never splits such a part again. If a
/// shared part nevertheless refers to another one, the reference is not followed, because
/// references could form a cycle.
fn read_shared_paths(path: &Path) -> Option<Vec<Vec<u8>>> {
    let bytes = read_regular_file(path, MAX_LARGE_FILE)?;
    parse_entries(&bytes)?.paths(&bytes)
}

/// The positions of all entries in an index.
struct IndexEntries {
    entries: Vec<IndexEntry>,
    /// The offset after the last entry.
    end: usize,
}

/// The position of an entry in an index.
struct IndexEntry {
    /// The offset at which the entry begins. The first fields of the entry are the times of the
    /// file.
    start: usize,
    /// The number of bytes to remove from the end of the previous path before `name` is appended.
    /// `None` in versions that write paths in full.
    strip: Option<u64>,
    /// The range of bytes that holds the entry's path, or the part of the path that differs from
    /// the previous entry's path.
    name: Range<usize>,
}

fn parse_entries(bytes: &[u8]) -> Option<IndexEntries> {
    let (version, count) = (read_u32(bytes, 4)?, read_u32(bytes, 8)?);
    if bytes.get(..4)? != b"DIRC" || !(2..=4).contains(&version) {
        return None;
    }
    let mut entries = Vec::new();
    let mut at = 12;
    for _ in 0..count {
        let start = at;
        let flags = u16::from_be_bytes(bytes.get(at + 60..at + 62)?.try_into().ok()?);
        let is_extended = version >= 3 && flags & 0x4000 != 0;
        at += if is_extended { 64 } else { 62 };
        let mut strip = None;
        if version == 4 {
            let (stripped, length) = crate::pack::parse_distance(bytes.get(at..)?)?;
            strip = Some(stripped);
            at += length;
        }
        let name = at..at + bytes.get(at..)?.iter().position(|byte| *byte == 0)?;
        // Before version 4, entries are padded to a multiple of eight bytes, with at least one NUL.
        let length = name.end - start;
        at = if version == 4 { name.end + 1 } else { start + (length + 8) / 8 * 8 };
        entries.push(IndexEntry { start, strip, name });
    }
    Some(IndexEntries { entries, end: at })
}

impl IndexEntries {
    /// Assembles the paths of all entries. Returns `None` if they are far larger than the index: an
    /// entry can repeat the previous path, so an index of megabytes could expand to paths of
    /// gigabytes.
    fn paths(&self, bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut room = MAX_EXPANSION * bytes.len();
        let mut paths = Vec::new();
        let mut previous: Vec<u8> = Vec::new();
        for entry in &self.entries {
            let shared = match entry.strip {
                Some(strip) => previous.len().checked_sub(usize::try_from(strip).ok()?)?,
                None => 0,
            };
            let mut path = previous[..shared].to_vec();
            path.extend_from_slice(&bytes[entry.name.clone()]);
            if path.len() > MAX_PATH_LENGTH {
                return None;
            }
            room = room.checked_sub(path.len())?;
            previous.clone_from(&path);
            // A sparse index names whole directories; in a split index, the names of replaced
            // entries are empty.
            while path.last() == Some(&b'/') {
                path.pop();
            }
            if !path.is_empty() {
                paths.push(path);
            }
        }
        Some(paths)
    }
}

/// An extension: one of the parts of an index that follow its entries.
struct Extension<'a> {
    signature: &'a [u8],
    content: &'a [u8],
    /// The signature, the length and the content.
    whole: &'a [u8],
}

/// The extensions of an index. Yields `None` once if they are damaged, and then ends.
struct Extensions<'a> {
    rest: &'a [u8],
}

impl<'a> Extensions<'a> {
    fn new(index: &'a [u8], entries_end: usize) -> Extensions<'a> {
        let end = index.len().saturating_sub(CHECKSUM_LENGTH);
        Extensions { rest: index.get(entries_end..end).unwrap_or_default() }
    }

    fn parse_next(&mut self) -> Option<Extension<'a>> {
        let length = 8 + read_u32(self.rest, 4)? as usize;
        let whole = self.rest.get(..length)?;
        self.rest = &self.rest[length..];
        Some(Extension { signature: &whole[..4], content: &whole[8..], whole })
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Option<Extension<'a>>;

    fn next(&mut self) -> Option<Option<Extension<'a>>> {
        if self.rest.is_empty() {
            return None;
        }
        let extension = self.parse_next();
        if extension.is_none() {
            self.rest = &[];
        }
        Some(extension)
    }
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Removes the checksum, the optional extensions and the file stats from an index. Git fills all of
/// them in again.
pub(crate) fn normalize_index(index: &[u8]) -> Option<Vec<u8>> {
    let end = index.len().checked_sub(CHECKSUM_LENGTH)?;
    let (content, checksum) = index.split_at(end);
    // With `index.skipHash`, git writes zeros instead of a checksum.
    if checksum != Sha1::digest(content).as_slice() && checksum != [0; CHECKSUM_LENGTH] {
        return None;
    }
    let entries = parse_entries(content)?;
    let mut copy = content.get(..entries.end)?.to_vec();
    for entry in &entries.entries {
        // The first range has the times, device and inode; the second one has the owner, group and
        // size. The mode is in between.
        copy[entry.start..entry.start + 24].fill(0);
        copy[entry.start + 28..entry.start + 40].fill(0);
    }
    for extension in Extensions::new(index, entries.end) {
        let extension = extension?;
        match extension.signature {
            // A split index has most of its entries in another file.
            b"link" => return None,
            // Extensions that git must understand begin with a lowercase letter.
            [b'a'..=b'z', ..] => copy.extend_from_slice(extension.whole),
            _ => {}
        }
    }
    Some(copy)
}

#[cfg(test)]
mod tests {
    use super::super::testing::GitScratch;
    use super::*;

    #[test]
    fn every_index_version_and_a_split_index_are_read() {
        for setup in [
            &["update-index", "--index-version", "2"][..],
            &["update-index", "--index-version", "4"],
            &["update-index", "--split-index"],
        ] {
            let scratch = GitScratch::new();
            for (path, content) in
                [("a", "1"), ("dir/file one", "2"), ("dir/file two", "3"), ("dir/sub/x", "4")]
            {
                scratch.write(path, content);
            }
            scratch.git(&["add", "a", "dir"]);
            scratch.git(setup);
            scratch.write("later", "5");
            scratch.git(&["add", "-N", "later"]);
            let tracked = TrackedPaths::read(&scratch.directory().index_path());
            for path in [&b"a"[..], b"dir/file one", b"dir/file two", b"dir/sub/x", b"later"] {
                assert!(tracked.contains(path), "{setup:?} {}", String::from_utf8_lossy(path));
            }
            assert_eq!(tracked.paths.len(), 5, "{setup:?} {tracked:?}");
            assert!(tracked.has_any_under(b"dir") && tracked.has_any_under(b"dir/sub"));
            assert!(!tracked.has_any_under(b"di") && !tracked.has_any_under(b"a"));
            assert!(!tracked.contains(b"dir"));
        }
    }

    #[test]
    fn shared_indexes_that_refer_to_each_other_are_read_once() {
        let scratch = GitScratch::new();
        let index = |shared: u8| {
            let mut bytes = b"DIRC\0\0\0\x02\0\0\0\x01".to_vec();
            bytes.extend_from_slice(&[0; 62]);
            bytes.extend_from_slice(&[b'a' + shared, 0]);
            bytes.resize(bytes.len().next_multiple_of(8) + 4, 0);
            bytes.extend_from_slice(b"link\0\0\0\x14");
            bytes.extend_from_slice(&[shared; 20]);
            bytes.extend_from_slice(&[0; CHECKSUM_LENGTH]);
            bytes
        };
        let path = scratch.directory().index_path();
        let shared = |shared: u8| path.with_file_name(format!("sharedindex.{}", Oid([shared; 20])));
        fs::write(&path, index(1)).unwrap();
        fs::write(shared(1), index(2)).unwrap();
        fs::write(shared(2), index(1)).unwrap();
        assert_eq!(TrackedPaths::read(&path).paths, [b"b".to_vec(), b"c".to_vec()]);
    }

    /// Each entry repeats the previous path and adds a byte.
    #[test]
    fn an_index_whose_paths_are_much_larger_than_the_index_tracks_nothing() {
        let scratch = GitScratch::new();
        let index = |count: u32, first: &[u8]| {
            let mut bytes = b"DIRC\0\0\0\x04".to_vec();
            bytes.extend_from_slice(&count.to_be_bytes());
            for number in 0..count {
                bytes.extend_from_slice(&[0; 63]);
                bytes.extend_from_slice(if number == 0 { first } else { b"a" });
                bytes.push(0);
            }
            bytes.extend_from_slice(&[0; CHECKSUM_LENGTH]);
            bytes
        };
        let path = scratch.directory().index_path();
        let tracked = |count, first: &[u8]| {
            fs::write(&path, index(count, first)).unwrap();
            TrackedPaths::read(&path).paths.len()
        };
        assert_eq!(tracked(500, b"a"), 500);
        assert_eq!(tracked(10_000, b"a"), 0);
        assert_eq!(tracked(1, &[b'a'; 20_000]), 0);
    }

    #[test]
    fn a_linked_work_tree_has_its_own_index() {
        let scratch = GitScratch::new();
        scratch.git(&["commit", "-q", "--allow-empty", "-m", "x"]);
        scratch.git(&["worktree", "add", "-q", "linked"]);
        scratch.write("linked/there", "");
        super::super::testing::run_git(&scratch.root().join("linked"), &["add", "there"]);
        let linked = GitDirectory::find(&scratch.root().join("linked")).unwrap();
        assert!(TrackedPaths::read(&linked.index_path()).contains(b"there"));
        assert!(!TrackedPaths::read(&scratch.directory().index_path()).contains(b"there"));
    }

    #[test]
    fn a_damaged_index_tracks_nothing_and_cannot_be_copied() {
        let scratch = GitScratch::new();
        let mut signed = b"DIRC\0\0\0\x02\0\0\0\x09".to_vec();
        signed.extend_from_slice(&Sha1::digest(&signed));
        for bytes in [
            &b""[..],
            b"DIRC",
            b"DIRC\0\0\0\x02\xff\xff\xff\xff",
            b"garbage of some length",
            &[0; 64],
            &signed,
        ] {
            fs::write(scratch.directory().index_path(), bytes).unwrap();
            let tracked = TrackedPaths::read(&scratch.directory().index_path());
            assert_eq!(tracked.paths.len(), 0, "{bytes:?}");
            assert_eq!(scratch.directory().copy_index(), None, "{bytes:?}");
        }
    }

    #[test]
    fn equal_staged_states_have_equal_copies() {
        for version in ["2", "3", "4"] {
            let scratch = GitScratch::new();
            scratch.write("a", "a");
            scratch.write("directory/b", "b");
            scratch.git(&["add", "a", "directory"]);
            scratch.git(&["update-index", "--index-version", version]);
            let stamp = scratch.directory().index_stamp().unwrap();
            let copy = scratch.directory().copy_index().unwrap();
            scratch.write("a", "a");
            scratch.git(&["update-index", "--refresh"]);
            assert_eq!(scratch.directory().copy_index().unwrap(), copy, "version {version}");
            scratch.write("a", "b");
            scratch.git(&["add", "a"]);
            assert_ne!(scratch.directory().copy_index().unwrap(), copy, "version {version}");
            assert_ne!(scratch.directory().index_stamp().unwrap(), stamp, "version {version}");
        }
    }

    #[test]
    fn git_accepts_a_copy_with_a_checksum() {
        for version in ["2", "3", "4"] {
            let scratch = GitScratch::new();
            scratch.git(&["update-index", "--index-version", version]);
            for name in ["a", "directory/b", "c with spaces", "ö"] {
                scratch.write(name, name);
            }
            scratch.git(&["add", "."]);
            scratch.git(&["commit", "-qm", "a"]);
            scratch.write("a", "staged");
            scratch.git(&["add", "a"]);
            scratch.git(&["rm", "-q", "--cached", "c with spaces"]);
            let staged = scratch.git(&["ls-files", "--stage"]);
            let mut copy = scratch.directory().copy_index().unwrap();
            scratch.git(&["reset", "-q", "--hard"]);
            assert_ne!(scratch.git(&["ls-files", "--stage"]), staged);
            copy.extend_from_slice(&Sha1::digest(&copy));
            fs::write(scratch.directory().index_path(), copy).unwrap();
            assert_eq!(scratch.git(&["ls-files", "--stage"]), staged, "version {version}");
        }
    }

    #[test]
    fn a_split_index_cannot_be_copied() {
        let scratch = GitScratch::new();
        scratch.write("a", "a");
        scratch.git(&["add", "a"]);
        scratch.git(&["update-index", "--split-index"]);
        assert_eq!(scratch.directory().copy_index(), None);
    }
}
