//! Tests of the stat cache.

use super::*;

const SECOND: i64 = 1_000_000_000;

fn stat() -> Stat {
    let time = 1_700_000_000 * SECOND + 123_456_789;
    Stat { mode: 0o100_644, size: 10, mtime: time, ctime: time + 1, inode: 42 }
}

/// Returns the cutoff of a scan that began `after` nanoseconds after the file's last change.
fn cutoff_after(after: i64) -> Cutoff {
    Cutoff { scan: stat().ctime + after }
}

#[test]
fn a_file_as_new_as_the_scan_is_racy() {
    assert!(cutoff_after(0).is_racy(&stat()));
    assert!(cutoff_after(-5 * SECOND).is_racy(&stat()));
    assert!(cutoff_after(Cutoff::TICK).is_racy(&stat()));
    assert!(!cutoff_after(Cutoff::TICK + 1).is_racy(&stat()));
}

#[test]
fn a_file_is_racy_if_either_time_is_new() {
    let later = cutoff_after(SECOND);
    assert!(!later.is_racy(&stat()));
    assert!(later.is_racy(&Stat { mtime: later.scan, ..stat() }));
    assert!(later.is_racy(&Stat { ctime: later.scan, ..stat() }));
}

#[test]
fn a_file_with_a_future_modification_time_is_not_racy_forever() {
    assert!(!cutoff_after(SECOND).is_racy(&Stat { mtime: i64::MAX, ..stat() }));
}

#[test]
fn times_in_whole_seconds_are_trusted_later() {
    let coarse = Stat { mtime: 1_700_000_000 * SECOND, ctime: 1_700_000_000 * SECOND, ..stat() };
    let after = |time: i64| Cutoff { scan: coarse.ctime + time };
    assert!(after(SECOND).is_racy(&coarse));
    assert!(after(2 * SECOND).is_racy(&coarse));
    assert!(!after(2 * SECOND + 1).is_racy(&coarse));
}

fn sample_cache() -> StatCache {
    let mut root =
        CachedEntry::new(EntryKind::Directory, Stat { mode: 0o040_755, size: 0, ..stat() });
    root.children = (1, 2);
    let file = CachedEntry {
        name: (0, 1),
        oid: Oid([7; 20]),
        ..CachedEntry::new(EntryKind::File, stat())
    };
    let mut other = CachedEntry { name: (1, 3), cause: Cause::Ignored, ..file };
    other.kind = EntryKind::Uncovered;
    other.class = FileClass::Guarded;
    let head = CacheHead {
        rules: 1,
        generation: 2,
        cutoff: cutoff_after(9),
        index: Stat { mode: 0, ..stat() },
        named: true,
    };
    StatCache { head, entries: vec![root, file, other], names: b"aenv".to_vec() }
}

#[test]
fn saved_and_appended_entries_are_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut cache = sample_cache();
    assert_eq!(cache.directories().unwrap().len(), 1);
    cache.save(path, path).unwrap();
    let loaded = StatCache::load(path).unwrap();
    assert_eq!((loaded.head, &loaded.entries), (cache.head, &cache.entries));

    cache.entries[1].oid = Oid([9; 20]);
    cache.head.cutoff.scan += 1;
    assert!(cache.append_to_log(path, &[1]).unwrap());
    let loaded = StatCache::load(path).unwrap();
    assert_eq!((loaded.head, &loaded.entries), (cache.head, &cache.entries));

    // An append that was cut off is ignored.
    let log = path.join("state.log");
    let whole = fs::read(&log).unwrap();
    fs::write(&log, &whole[..whole.len() - 1]).unwrap();
    assert_eq!(StatCache::load(path).unwrap().entries[1].oid, Oid([7; 20]));

    // The log of another cache is not applied.
    fs::write(&log, &whole).unwrap();
    let other = StatCache { names: b"benv".to_vec(), ..sample_cache() };
    other.save(path, path).unwrap();
    fs::write(&log, &whole).unwrap();
    assert_eq!(StatCache::load(path).unwrap().entries[1].oid, Oid([7; 20]));
}

/// Most file systems limit names to 255 bytes. Some limit the number of characters instead, so
/// their names can have more bytes.
#[test]
fn long_names_survive_encoding() {
    for length in [0, 1, 255, 256, 765, 1020, 16_383] {
        let entry = CachedEntry { name: (7, length), ..sample_cache().entries[2] };
        let mut record = Vec::new();
        encode_entry(&mut record, &entry);
        assert_eq!(decode_entry(&record), Some(entry), "{length}");
    }
}

#[test]
fn a_log_with_a_name_outside_the_table_is_not_applied() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut cache = sample_cache();
    cache.save(path, path).unwrap();
    cache.entries[1].name = (u32::MAX, 3);
    assert!(cache.append_to_log(path, &[1]).unwrap());
    let loaded = StatCache::load(path).unwrap();
    assert_eq!(loaded.entries, sample_cache().entries);
}

#[test]
fn children_outside_the_entries_make_a_cache_inconsistent() {
    for children in [(1, u32::MAX), (u32::MAX, 0), (1, 3), (0, 2)] {
        let mut cache = sample_cache();
        cache.entries[0].children = children;
        assert!(cache.directories().is_none(), "{children:?}");
    }
}

#[test]
fn every_flipped_byte_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    sample_cache().save(path, path).unwrap();
    let whole = fs::read(path.join("state")).unwrap();
    for at in 0..whole.len() {
        let mut broken = whole.clone();
        broken[at] ^= 0x10;
        fs::write(path.join("state"), broken).unwrap();
        assert!(StatCache::load(path).is_none(), "byte {at}");
    }
}
