#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;

use super::*;
use crate::object::{Commit, Mode, ObjectKind};
use crate::testing::{Bench, Files, encode_tree, file, harm, put, text, workspace};

fn ignore_progress(_: u64, _: u64) {}

/// Breaks the entry of an object in one pack.
fn break_object(bench: &Bench, pack: &str, oid: Oid) {
    let origin = SourcePack::open(&bench.packs(), pack).unwrap();
    let object = origin.objects.iter().find(|object| object.oid == oid).unwrap();
    let at = object.offset as usize + 8;
    harm(&bench.packs().join(format!("{pack}.pack")), |bytes| bytes[at] ^= 0xff);
}

fn state_of<'a>(report: &'a VerifyReport, pin: &PinName) -> &'a PinState {
    &report.pins.iter().find(|found| found.pin.as_ref() == Some(pin)).unwrap().state
}

#[test]
fn an_intact_store_is_reported_as_intact() {
    let bench = Bench::new();
    let mut pins = bench.edited(1, 8);
    pins.extend(bench.edited(2, 3));
    for round in 0..3 {
        match round {
            0 => {}
            1 => assert!(bench.store.merge().is_ok()),
            _ => assert!(bench.store.gc().is_ok()),
        }
        let seen = Mutex::new((0, 0));
        let progress = |done: u64, total: u64| {
            let mut seen = seen.lock().unwrap();
            *seen = (seen.0.max(done), seen.1.max(total));
        };
        let report = bench.store.verify(&progress).unwrap();
        assert!(report.is_whole(), "{report:?}");
        bench.assert_reported(&report, &pins);
        let objects = bench.git(&["cat-file", "--batch-all-objects", "--batch-check"]);
        assert_eq!(report.objects, objects.lines().count() as u64);
        assert_eq!(seen.into_inner().unwrap(), (report.objects, report.objects));
    }
}

#[test]
fn a_lost_file_is_reported_for_each_pin_that_contains_it() {
    let bench = Bench::new();
    let mut files = Files::from([
        (b"a/b/one".to_vec(), file(text(1, 500))),
        (b"a/two".to_vec(), file(text(2, 500))),
        (b"copy of one".to_vec(), file(text(1, 500))),
    ]);
    let first = bench.capture(1, &files);
    let pack = list_pack_names(&bench.packs()).pop().unwrap();
    files.insert(b"a/two".to_vec(), file("changed"));
    let second = bench.capture(1, &files);
    files.insert(b"a/b/one".to_vec(), file("changed too"));
    files.remove(&b"copy of one"[..]);
    let third = bench.capture(1, &files);
    break_object(&bench, &pack, Oid::of(ObjectKind::Blob, &text(1, 500)));

    let report = bench.store.verify(&ignore_progress).unwrap();
    let lost = ["a/b/one", "copy of one"].map(|path| RelPath::new(path).unwrap());
    let partly = PinState::Partly { lost: lost.to_vec(), count: 2, attachment: false };
    assert_eq!(state_of(&report, &first), &partly);
    assert_eq!(state_of(&report, &second), &partly);
    assert_eq!(state_of(&report, &third), &PinState::Whole);
    assert_eq!(report.packs.iter().map(|broken| &broken.name).collect::<Vec<_>>(), [&pack]);
}

#[test]
fn lost_directories_and_pins_and_refs_are_reported() {
    let whole = Bench::new();
    let files = Files::from([(b"d/e/f".to_vec(), file("f")), (b"d/g".to_vec(), file("g"))]);
    let pin = whole.capture(1, &files);
    let pack = list_pack_names(&whole.packs()).pop().unwrap();
    let root = whole.store.pin(&pin).unwrap().unwrap();
    let subtree = |tree: &Oid, name: &[u8]| {
        whole.store.tree(tree).unwrap().into_iter().find(|entry| entry.name == name).unwrap().oid
    };
    let d = subtree(&root.tree, b"d");
    let e = subtree(&d, b"e");
    for (object, lost) in [(d, Some("d")), (e, Some("d/e")), (root.tree, None), (root.id, None)] {
        let bench = whole.copy();
        break_object(&bench, &pack, object);
        let report = bench.store.verify(&ignore_progress).unwrap();
        match (state_of(&report, &pin), lost) {
            (PinState::Partly { lost, count: 1, .. }, Some(path)) => {
                assert_eq!(lost, &[RelPath::new(path).unwrap()]);
            }
            (PinState::Lost { reason }, None) => assert!(reason.contains("damaged"), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
    for content in ["", "deadbeef\n", &format!("{}\n", Oid::ZERO)] {
        let bench = whole.copy();
        fs::write(bench.store.directory().join(pin.to_string()), content).unwrap();
        let report = bench.store.verify(&ignore_progress).unwrap();
        assert!(matches!(state_of(&report, &pin), PinState::Lost { .. }), "{content:?}");
        assert!(report.packs.is_empty());
    }
}

#[test]
fn an_intact_copy_makes_up_for_a_damaged_one() {
    let bench = Bench::new();
    let files = Files::from([(b"f".to_vec(), file(text(1, 5000)))]);
    let pin = bench.capture(1, &files);
    let first = list_pack_names(&bench.packs());
    let writer = bench.store.new_pack();
    let oid = Oid::of(ObjectKind::Blob, &text(1, 5000));
    writer.add(ObjectKind::Blob, oid, &text(1, 5000)).unwrap();
    writer.add(ObjectKind::Blob, Oid::of(ObjectKind::Blob, b"other"), b"other").unwrap();
    let second = writer.seal(&bench.packs()).unwrap().unwrap();
    for pack in [&first[0], &second] {
        for indexed in [false, true] {
            let bench = bench.copy();
            if indexed {
                bench.store.index_packs(&HashSet::new()).unwrap();
            }
            break_object(&bench, pack, oid);
            let report = bench.store.verify(&ignore_progress).unwrap();
            assert_eq!(state_of(&report, &pin), &PinState::Whole);
            assert_eq!(report.packs.len(), 1);
            assert_eq!(&report.packs[0].name, pack);
            bench.assert_whole(&BTreeMap::from([(pin.clone(), files.clone())]));
        }
    }
}

#[test]
fn broken_indexes_are_found() {
    let whole = Bench::new();
    let pins = whole.edited(1, 4);
    whole.store.merge().unwrap();
    whole.edited(2, 1);
    let pins_and_more = {
        let mut all = pins.clone();
        all.extend(whole.store.pin_names(&workspace(2)).unwrap().into_iter().map(|pin| {
            let files = whole.files(&pin);
            (pin, files)
        }));
        all
    };
    for name in whole.listing().into_keys().filter(|name| !name.ends_with(".pack")) {
        let length = whole.listing()[&name] as usize;
        for at in (0..length).step_by(length / 23) {
            let bench = whole.copy();
            harm(&bench.store.directory().join(&name), |bytes| bytes[at] ^= 0x20);
            let report = bench.store.verify(&ignore_progress).unwrap();
            assert_eq!(report.packs.len(), 1, "{name} at {at}: {report:?}");
            assert!(name.contains(&report.packs[0].name));
            bench.assert_reported(&report, &pins_and_more);
            if name.contains("multi") {
                bench.assert_whole(&pins_and_more);
            }
        }
    }
}

#[test]
fn lost_paths_beyond_the_limit_are_only_counted() {
    let bench = Bench::new();
    let files: Files = (0..1500)
        .map(|number| (format!("d{}/{number:04}", number % 2).into_bytes(), file("the same")))
        .collect();
    let pin = bench.capture(1, &files);
    let pack = list_pack_names(&bench.packs()).pop().unwrap();
    break_object(&bench, &pack, Oid::of(ObjectKind::Blob, b"the same"));
    let report = bench.store.verify(&ignore_progress).unwrap();
    let PinState::Partly { lost, count, .. } = state_of(&report, &pin) else {
        panic!("{report:?}")
    };
    assert_eq!((lost.len(), *count), (MAX_NAMED, 1500));
    assert!(lost.is_sorted());
}

#[test]
fn trees_of_any_depth_are_verified() {
    let bench = Bench::new();
    let writer = bench.store.new_pack();
    let blob = put(&bench.store, &writer, ObjectKind::Blob, b"leaf");
    let leaf = (Mode::file(0o600), b"leaf".to_vec(), blob);
    let mut tree = put(&bench.store, &writer, ObjectKind::Tree, &encode_tree(&mut [leaf]));
    for _ in 0..3000 {
        let entry = (Mode::directory(0o700), b"d".to_vec(), tree);
        tree = put(&bench.store, &writer, ObjectKind::Tree, &encode_tree(&mut [entry]));
    }
    let commit = Commit { tree, parent: None, time: 0, message: String::new() }.encode();
    let commit = put(&bench.store, &writer, ObjectKind::Commit, &commit);
    let pack = writer.seal(&bench.packs()).unwrap().unwrap();
    let pin = PinName { workspace: workspace(1), seq: 1 };
    bench.store.place_ref(&pin, bench.store.write_ref(commit).unwrap()).unwrap();
    assert!(bench.store.verify(&ignore_progress).unwrap().is_whole());
    break_object(&bench, &pack, blob);
    let report = bench.store.verify(&ignore_progress).unwrap();
    let PinState::Partly { lost, count: 1, .. } = state_of(&report, &pin) else {
        panic!("{report:?}")
    };
    assert_eq!(lost[0].as_bytes().len(), 3000 * 2 + 4);
}

#[test]
fn a_lost_attachment_is_reported_in_addition_to_lost_paths() {
    let bench = Bench::new();
    let writer = bench.store.new_pack();
    let put = |kind, content: &[u8]| put(&bench.store, &writer, kind, content);
    let [file, attached] =
        ["a file", "attached"].map(|text| put(ObjectKind::Blob, text.as_bytes()));
    let tree = |name: &str, oid| encode_tree(&mut [(Mode::file(0o600), name.into(), oid)]);
    let attached_tree = put(ObjectKind::Tree, &tree("attachment", attached));
    let parent = put(ObjectKind::Commit, &Commit::new_attachment(attached_tree).encode());
    let tree = put(ObjectKind::Tree, &tree("file", file));
    let commit = Commit { tree, parent: Some(parent), time: 1, message: String::new() };
    let commit = put(ObjectKind::Commit, &commit.encode());
    let pack = writer.seal(&bench.packs()).unwrap().unwrap();
    let pin = PinName { workspace: workspace(1), seq: 1 };
    bench.store.place_ref(&pin, bench.store.write_ref(commit).unwrap()).unwrap();
    let pins = BTreeMap::from([(pin, Files::new())]);
    for lost in [vec![attached], vec![attached_tree], vec![parent], vec![attached, file]] {
        let bench = bench.copy();
        lost.iter().for_each(|oid| break_object(&bench, &pack, *oid));
        let report = bench.store.verify(&ignore_progress).unwrap();
        let count = lost.len() as u64 - 1;
        let PinState::Partly { count: told, attachment: true, .. } = report.pins[0].state else {
            panic!("{report:?}")
        };
        assert_eq!(told, count);
        bench.assert_reported(&report, &pins);
        // Nothing can be salvaged, but nothing more is lost.
        assert!(!bench.store.repair(&ignore_progress).unwrap().now.is_whole());
        bench.assert_reported(&bench.store.verify(&ignore_progress).unwrap(), &pins);
    }
}
