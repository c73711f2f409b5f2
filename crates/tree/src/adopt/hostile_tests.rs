//! Repositories that are designed to exhaust memory or time. Their objects are written byte by
//! byte, because git would not write them.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::Command;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use sha1::{Digest, Sha1};

use super::*;
use crate::git::ForeignError;
use crate::pack::index::{IndexedObject, encode_index};
use crate::pack::{OFS_DELTA, REF_DELTA, deflate, push_distance, push_entry_head};
use crate::path::RelPath;
use crate::testing::Bench;

/// A hostile repository, and a store into which it is adopted.
struct Hostile {
    bench: Bench,
    directory: PathBuf,
}

/// The id of an object according to the pack index, and the object's entry in the pack.
type Entry = (Oid, Vec<u8>);

impl Hostile {
    fn new() -> Hostile {
        let bench = Bench::new();
        let directory = bench.store.directory().parent().unwrap().join("foreign");
        for name in ["objects/pack", "objects/info", "refs/heads"] {
            fs::create_dir_all(directory.join(name)).unwrap();
        }
        fs::write(directory.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        Hostile { bench, directory }
    }

    /// Writes a loose object. `object` holds its header and content, which need not be valid.
    fn write_loose(&self, oid: Oid, object: &[u8]) {
        let name = oid.to_string();
        let path = self.directory.join("objects").join(&name[..2]);
        fs::create_dir_all(&path).unwrap();
        let mut file =
            ZlibEncoder::new(fs::File::create(path.join(&name[2..])).unwrap(), Compression::fast());
        file.write_all(object).unwrap();
        file.finish().unwrap();
    }

    fn write_object(&self, kind: ObjectKind, content: &[u8]) -> Oid {
        let oid = Oid::of(kind, content);
        let head = kind.header(content.len() as u64);
        self.write_loose(oid, &[&head, content].concat());
        oid
    }

    fn write_tree(&self, entries: &[(&str, String, Oid)]) -> Oid {
        let mut tree = Vec::new();
        for (mode, name, oid) in entries {
            tree.extend([mode.as_bytes(), b" ", name.as_bytes(), b"\0", &oid.0].concat());
        }
        self.write_object(ObjectKind::Tree, &tree)
    }

    /// Writes a tree that contains the given tree ten times, then a tree that contains the new one
    /// ten times, and so on.
    fn multiply_tree(&self, tree: Oid, levels: usize) -> Oid {
        (0..levels).fold(tree, |inside, _| {
            let entries = (0..10).map(|number| ("40000", format!("d{number}"), inside));
            self.write_tree(&entries.collect::<Vec<_>>())
        })
    }

    fn write_pack(&self, entries: &[Entry]) {
        let mut pack = b"PACK\0\0\0\x02".to_vec();
        pack.extend((entries.len() as u32).to_be_bytes());
        let mut objects = Vec::new();
        for (oid, entry) in entries {
            objects.push(IndexedObject { oid: *oid, crc: 0, offset: pack.len() as u64 });
            pack.extend(entry);
        }
        let checksum: [u8; 20] = Sha1::digest(&pack).into();
        pack.extend(checksum);
        let directory = self.directory.join("objects/pack");
        fs::write(directory.join("pack-1.idx"), encode_index(&mut objects, &checksum)).unwrap();
        fs::write(directory.join("pack-1.pack"), pack).unwrap();
    }

    fn open(&self) -> Result<ForeignRepository, ForeignError> {
        ForeignRepository::open(&self.directory)
    }

    /// Tries to adopt a tree and abandons the adoption. Checks that nothing of it is left in the
    /// store.
    fn take(&self, tree: Oid) -> Result<Adopted, String> {
        let foreign = self.open().unwrap();
        let mut adoption = self.bench.store.adopt().unwrap();
        let taken = adoption.take_tree(&foreign, tree).map_err(|error| error.to_string());
        drop(adoption);
        for name in ["tmp", "objects/pack"] {
            let left = fs::read_dir(self.bench.store.directory().join(name)).unwrap();
            assert_eq!(left.count(), 0, "{name}");
        }
        taken
    }

    /// Adopts a tree that is within the limits.
    fn take_within(&self, tree: Oid) -> Adopted {
        let foreign = self.open().unwrap();
        self.bench.store.adopt().unwrap().take_tree(&foreign, tree).unwrap()
    }

    /// Tries to adopt a tree with one file.
    fn take_file(&self, file: Oid) -> Result<Adopted, String> {
        self.take(self.write_tree(&[("100644", "a".to_owned(), file)]))
    }
}

/// Builds a pack entry with a delta: a header, a reference to the base, the declared sizes, and the
/// instructions.
fn delta_entry(base: &[u8], code: u8, sizes: [u64; 2], instructions: &[u8]) -> Vec<u8> {
    let mut delta = Vec::new();
    for mut size in sizes {
        while size > 0x7f {
            delta.push(size as u8 | 0x80);
            size >>= 7;
        }
        delta.push(size as u8);
    }
    delta.extend(instructions);
    let mut entry = Vec::new();
    push_entry_head(&mut entry, code, delta.len() as u64);
    entry.extend(base);
    deflate(&delta, &mut entry);
    entry
}

fn whole_entry(content: &[u8]) -> Entry {
    let mut entry = Vec::new();
    push_entry_head(&mut entry, ObjectKind::Blob as u8, content.len() as u64);
    deflate(content, &mut entry);
    (Oid::of(ObjectKind::Blob, content), entry)
}

#[test]
fn a_delta_that_expands_to_a_huge_file_is_left_out() {
    let hostile = Hostile::new();
    let base = whole_entry(&[7; 1 << 16]);
    let file = Oid([9; 20]);
    // The instructions copy the base again and again, until the result reaches the declared size of
    // 64 GB.
    let delta = delta_entry(&base.0.0, REF_DELTA, [1 << 16, 1 << 36], &vec![0x80; 1 << 20]);
    hostile.write_pack(&[base, (file, delta)]);
    let adopted = hostile.take_file(file).unwrap();
    let reason = UncoveredReason::TooLarge { size: 1 << 36 };
    let path = RelPath::new(b"a").unwrap();
    assert_eq!((adopted.files, adopted.uncovered), (0, vec![Uncovered { path, reason }]));
}

#[test]
fn a_delta_that_expands_to_more_than_it_declares_is_refused() {
    let hostile = Hostile::new();
    let base = whole_entry(&[7; 1 << 16]);
    let file = Oid([9; 20]);
    let delta = delta_entry(&base.0.0, REF_DELTA, [1 << 16, 9], &vec![0x80; 1 << 20]);
    hostile.write_pack(&[base, (file, delta)]);
    let error = hostile.take_file(file).unwrap_err();
    assert!(error.ends_with("a delta that does not match its base"), "{error}");
}

#[test]
fn a_chain_of_deltas_that_expands_too_much_is_refused() {
    let hostile = Hostile::new();
    let base = whole_entry(b"x");
    let mut distance = base.1.len() as u64;
    let mut entries = vec![base];
    for number in 1..=100 {
        // Each object in the chain has the maximum size.
        let mut back = Vec::new();
        push_distance(&mut back, distance);
        let entry = delta_entry(&back, OFS_DELTA, [MAX_OBJECT, MAX_OBJECT], &[0x80; 64]);
        distance = entry.len() as u64;
        entries.push((Oid([number; 20]), entry));
    }
    hostile.write_pack(&entries);
    let error = hostile.take_file(Oid([100; 20])).unwrap_err();
    assert!(error.ends_with("a chain of deltas that is too long"), "{error}");
}

#[test]
fn a_chain_of_huge_deltas_is_refused() {
    let hostile = Hostile::new();
    let base = whole_entry(b"x");
    let huge = delta_entry(&Oid::ZERO.0, REF_DELTA, [1, 1], &vec![0; 250 << 20]);
    let base_at = huge.windows(20).position(|bytes| *bytes == Oid::ZERO.0).unwrap();
    let mut previous = base.0;
    let mut entries = vec![base];
    for number in 1..=5 {
        let mut entry = huge.clone();
        entry[base_at..base_at + 20].copy_from_slice(&previous.0);
        previous = Oid([number; 20]);
        entries.push((previous, entry));
    }
    hostile.write_pack(&entries);
    let error = hostile.take_file(previous).unwrap_err();
    assert!(error.ends_with("a chain of deltas that is too long"), "{error}");
}

#[test]
fn deltas_that_are_bases_of_each_other_are_refused() {
    let hostile = Hostile::new();
    let (one, two) = (Oid([1; 20]), Oid([2; 20]));
    let entry = |base: Oid| delta_entry(&base.0, REF_DELTA, [1, 1], b"\x01x");
    hostile.write_pack(&[(one, entry(two)), (two, entry(one))]);
    let error = hostile.take_file(one).unwrap_err();
    assert!(error.ends_with("a chain of deltas that is too long"), "{error}");
}

#[test]
fn a_few_directories_that_stand_for_millions_of_files_are_refused() {
    let hostile = Hostile::new();
    let file = hostile.write_object(ObjectKind::Blob, b"x");
    let entries = |count| {
        let names = (0..count).map(|number| ("100644", format!("f{number:02}"), file));
        hostile.write_tree(&names.collect::<Vec<_>>())
    };
    // Without a limit, the number of files would overflow.
    let error = hostile.take(hostile.multiply_tree(entries(10), 30)).unwrap_err();
    assert!(error.ends_with("has more than 1000000 files"), "{error}");
    let adopted = hostile.take_within(hostile.multiply_tree(entries(10), 5));
    assert_eq!(adopted.files, 1_000_000);
}

#[test]
fn a_few_directories_that_stand_for_millions_of_uncovered_paths_are_refused() {
    let hostile = Hostile::new();
    let nested = (0..10).map(|number| ("160000", format!("n{number}"), Oid([1; 20])));
    let tree = hostile.write_tree(&nested.collect::<Vec<_>>());
    let error = hostile.take(hostile.multiply_tree(tree, 8)).unwrap_err();
    assert!(error.ends_with("has more than 16 MB of paths that cannot be imported"), "{error}");
    let adopted = hostile.take_within(hostile.multiply_tree(tree, 3));
    assert_eq!(adopted.uncovered.len(), 10_000);
}

#[test]
fn uncovered_paths_count_again_for_each_state_that_has_them() {
    let hostile = Hostile::new();
    let nested = (0..10).map(|number| ("160000", format!("n{number}"), Oid([1; 20])));
    let tree = hostile.write_tree(&nested.collect::<Vec<_>>());
    let tree = hostile.multiply_tree(tree, 4);
    let foreign = hostile.open().unwrap();
    let mut adoption = hostile.bench.store.adopt().unwrap();
    let taken = (0..1_000).take_while(|_| adoption.take_tree(&foreign, tree).is_ok());
    assert!((1..100).contains(&taken.count()));
}

#[test]
fn directories_that_are_too_deep_or_too_large_are_refused() {
    let hostile = Hostile::new();
    let file = hostile.write_object(ObjectKind::Blob, b"x");
    let bottom = hostile.write_tree(&[("100644", "a".to_owned(), file)]);
    let deep = (0..10_001)
        .fold(bottom, |inside, _| hostile.write_tree(&[("40000", "d".to_owned(), inside)]));
    let error = hostile.take(deep).unwrap_err();
    assert!(error.ends_with("has more than 10000 levels of directories"), "{error}");
    // The header alone is enough to show that the tree is too large.
    let large = Oid([3; 20]);
    hostile.write_loose(large, b"tree 140000000\0");
    let error = hostile.take(large).unwrap_err();
    assert!(error.ends_with("has more than 128 MB of directories"), "{error}");
}

#[test]
fn many_files_that_are_too_large_are_left_out_together() {
    let hostile = Hostile::new();
    let entries: Vec<_> = (0..500u32)
        .map(|number| {
            let oid = Oid::of(ObjectKind::Blob, &number.to_be_bytes());
            hostile.write_loose(oid, b"blob 900000000\0");
            ("100644", format!("f{number}"), oid)
        })
        .collect();
    let adopted = hostile.take(hostile.write_tree(&entries)).unwrap();
    assert_eq!((adopted.files, adopted.uncovered.len()), (0, 500));
}

#[test]
fn a_file_that_inflates_beyond_its_size_is_refused() {
    let hostile = Hostile::new();
    let file = Oid([5; 20]);
    let mut object = b"blob 10\0".to_vec();
    object.resize(64 << 20, 0);
    hostile.write_loose(file, &object);
    let error = hostile.take_file(file).unwrap_err();
    assert!(error.ends_with("the size of the object does not match its header"), "{error}");
}

#[test]
fn an_index_that_claims_billions_of_objects_is_searched_in_parts() {
    let hostile = Hostile::new();
    let count = u32::MAX;
    let index = hostile.directory.join("objects/pack/pack-1.idx");
    let mut head = vec![0xff, b't', b'O', b'c', 0, 0, 0, 2];
    head.extend(count.to_be_bytes().repeat(256));
    fs::write(&index, head).unwrap();
    let file = fs::File::options().write(true).open(&index).unwrap();
    // The file is sparse, so it takes no space.
    file.set_len(8 + 1024 + u64::from(count) * 28 + 40).unwrap();
    let mut pack = b"PACK\0\0\0\x02".to_vec();
    pack.extend(count.to_be_bytes());
    pack.extend([0; 20]);
    fs::write(index.with_extension("pack"), pack).unwrap();
    // According to the fan-out table of the index, the ids of all objects begin with the byte 0.
    let mut tree = Oid([1; 20]);
    tree.0[0] = 0;
    let error = hostile.take(tree).unwrap_err();
    assert!(error.contains("is missing from the repository"), "{error}");
}

#[test]
fn pipes_in_place_of_packs_are_not_opened() {
    for name in ["multi-pack-index", "pack-1.idx", "pack-1.pack"] {
        let hostile = Hostile::new();
        hostile.write_pack(&[whole_entry(b"x")]);
        let path = hostile.directory.join("objects/pack").join(name);
        let _ = fs::remove_file(&path);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (file, _) = whole_entry(b"x");
        assert_eq!(hostile.take_file(file).is_ok(), name == "multi-pack-index", "{name}");
    }
}

#[test]
fn too_many_refs_or_packs_or_alternates_are_refused() {
    let hostile = Hostile::new();
    fs::write(hostile.directory.join("packed-refs"), "a\n".repeat(10_001)).unwrap();
    let error = hostile.open().unwrap().refs().unwrap_err();
    let error = takeback_base::errors::error_chain(&error);
    assert!(error.ends_with("it has more than 10000 refs"), "{error}");

    let lines: String = (0..20)
        .map(|number| {
            let alternate = hostile.directory.join(format!("other{number}"));
            fs::create_dir(&alternate).unwrap();
            format!("{}\n", alternate.display())
        })
        .collect();
    fs::write(hostile.directory.join("objects/info/alternates"), lines).unwrap();
    let error = hostile.open().err().unwrap().to_string();
    assert!(error.ends_with("has more than 15 alternates"), "{error}");

    let hostile = Hostile::new();
    for number in 0..=2_000 {
        let name = format!("objects/pack/pack-{number}.idx");
        symlink("pack.idx", hostile.directory.join(name)).unwrap();
    }
    let error = hostile.open().err().unwrap().to_string();
    assert!(error.ends_with("has more than 2000 packs"), "{error}");
}
