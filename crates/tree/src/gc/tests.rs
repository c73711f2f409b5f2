//! Tests of gc. Git checks the result of every gc.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::fault::Fault;
use crate::object::{Commit, Mode, ObjectKind};
use crate::pins::PinName;
use crate::testing::{
    Bench, Ending, Files, Random, alone, capture, child, encode_tree, file, harm, kill_at, put,
    text, workspace,
};

/// Lists the objects that are reachable according to git, and all objects that git finds.
fn reachable_and_all(bench: &Bench) -> (Vec<String>, Vec<String>) {
    let sorted = |text: String| {
        let ids = text.lines().map(|line| line.split(' ').next().unwrap_or("").to_owned());
        let mut ids: Vec<String> = ids.collect();
        ids.sort();
        ids.dedup();
        ids
    };
    let all = bench.git(&["cat-file", "--batch-all-objects", "--batch-check"]);
    (sorted(bench.git(&["rev-list", "--objects", "--all"])), sorted(all))
}

#[test]
fn gc_keeps_what_pins_need_and_frees_the_rest() {
    let bench = Bench::new();
    let mut pins = bench.edited(1, 12);
    pins.extend(bench.edited(2, 5));
    bench.fsck();
    let (before, generation) = (bench.bytes(), bench.store.generation());

    let outcome = bench.store.gc().unwrap();
    bench.fsck();
    bench.assert_whole(&pins);
    assert_eq!((outcome.packs_before, outcome.packs_after), (17, 1));
    assert_eq!((outcome.bytes_before, outcome.bytes_after), (before, bench.bytes()));
    assert_eq!(outcome.objects_dropped, 0);
    assert_eq!(bench.store.generation(), generation, "no object was deleted");
    assert!(bench.bytes() < before / 4 * 3, "{} of {before}", bench.bytes());

    let big = Files::from([(b"big".to_vec(), file(text(99, 300_000)))]);
    let dropped = bench.capture(1, &big);
    bench.store.unpin(&dropped).unwrap();
    let before = bench.bytes();
    let outcome = bench.store.gc().unwrap();
    assert_eq!(outcome.objects_dropped, 3);
    assert!(bench.store.generation() > generation);
    assert!(bench.bytes() + 50_000 < before);
    bench.fsck();
    bench.assert_whole(&pins);
    let (reachable, all) = reachable_and_all(&bench);
    assert_eq!(reachable, all);
}

#[test]
fn a_second_gc_changes_nothing() {
    let bench = Bench::new();
    bench.edited(1, 8);
    bench.store.gc().unwrap();
    let listing = bench.listing();
    let outcome = bench.store.gc().unwrap();
    assert_eq!(bench.listing(), listing);
    assert_eq!(outcome.bytes_before, outcome.bytes_after);
    assert_eq!(outcome.objects_dropped, 0);
}

#[test]
fn a_store_without_pins_becomes_empty() {
    let bench = Bench::new();
    bench.store.gc().unwrap();
    bench.store.merge().unwrap();
    let pins = bench.edited(1, 3);
    bench.store.gc().unwrap();
    pins.keys().for_each(|pin| bench.store.unpin(pin).unwrap());
    let outcome = bench.store.gc().unwrap();
    assert_eq!(outcome.packs_after, 0);
    assert_eq!(bench.listing(), BTreeMap::new());
    bench.fsck();
}

#[test]
fn older_states_are_stored_as_deltas_of_limited_depth() {
    let bench = Bench::new();
    let mut files = Files::from([(b"other".to_vec(), file("o"))]);
    let mut pins = BTreeMap::new();
    for round in 0..130 {
        let mut content = text(7, 6000);
        content.splice(100 * (round % 50)..100 * (round % 50), format!("<{round}>").into_bytes());
        files.insert(b"edited".to_vec(), file(content));
        pins.insert(bench.capture(1, &files), files.clone());
    }
    for round in 0..2 {
        bench.store.gc().unwrap();
        bench.assert_whole(&pins);
        let packs = list_pack_names(&bench.packs());
        let index = format!("objects/pack/{}.idx", packs[0]);
        let depths = bench.git(&["verify-pack", "-v", &index]);
        let depth = |line: &str| line.split_whitespace().nth(5)?.parse::<u32>().ok();
        let deltas: Vec<u32> = depths.lines().filter_map(depth).collect();
        assert!(deltas.len() > 350, "{}", deltas.len());
        assert!(deltas.iter().all(|depth| *depth <= MAX_DEPTH));
        // The newest state is read most often, so its tree is stored whole.
        let newest = Commit::parse(
            &bench
                .store
                .read_object(&bench.store.pin_id(pins.keys().last().unwrap()).unwrap().unwrap())
                .unwrap()
                .1,
        );
        let tree = newest.unwrap().tree.to_string();
        let line = depths.lines().find(|line| line.starts_with(&tree)).unwrap();
        assert_eq!(depth(line), None, "{line}");
        bench.fsck();
        if round == 0 {
            // The chains of deltas shift when newer states are added.
            for round in 0..40 {
                files.insert(b"edited".to_vec(), file(text(round, 6000)));
                pins.insert(bench.capture(1, &files), files.clone());
            }
        }
    }
}

const MAX_DEPTH: u32 = 50;

#[test]
fn refs_that_git_created_keep_their_objects_alive() {
    let bench = Bench::new();
    let pins = bench.edited(1, 3);
    let ids: Vec<String> =
        pins.keys().map(|pin| bench.store.pin_id(pin).unwrap().unwrap().to_string()).collect();
    bench.git(&["update-ref", "refs/heads/kept", &ids[0]]);
    bench.git(&["update-ref", "refs/tags/packed", &ids[1]]);
    bench.git(&["pack-refs", "--all"]);
    bench.git(&["symbolic-ref", "refs/heads/symbolic", "refs/heads/kept"]);
    bench.store.gc().unwrap();
    bench.fsck();
    for id in &ids {
        bench.git(&["rev-list", "--objects", id]);
    }
}

#[test]
fn a_pack_that_git_created_is_rewritten() {
    let bench = Bench::new();
    let mut pins = bench.edited(1, 20);
    bench.git(&["repack", "-a", "-d", "-f", "--depth=4000", "--window=50"]);
    bench.assert_whole(&pins);
    pins.extend(bench.edited(2, 2));
    bench.store.gc().unwrap();
    bench.fsck();
    bench.assert_whole(&pins);
    assert_eq!(bench.listing().len(), 3, "{:?}", bench.listing());
}

#[test]
fn trees_of_any_depth_are_kept() {
    let bench = Bench::new();
    let mut pins = Vec::new();
    for round in 0..3 {
        let writer = bench.store.new_pack();
        let blob = put(&bench.store, &writer, ObjectKind::Blob, format!("leaf {round}").as_bytes());
        let mut tree = put(
            &bench.store,
            &writer,
            ObjectKind::Tree,
            &encode_tree(&mut [(Mode::file(0o600), b"leaf".to_vec(), blob)]),
        );
        for _ in 0..3000 {
            let entry = (Mode::directory(0o700), b"d".to_vec(), tree);
            tree = put(&bench.store, &writer, ObjectKind::Tree, &encode_tree(&mut [entry]));
        }
        let commit = Commit { tree, parent: None, time: round, message: String::new() }.encode();
        let commit = put(&bench.store, &writer, ObjectKind::Commit, &commit);
        writer.seal(&bench.packs()).unwrap();
        let name = PinName { workspace: workspace(1), seq: round as u64 };
        bench.store.place_ref(&name, bench.store.write_ref(commit).unwrap()).unwrap();
        pins.push((tree, blob));
    }
    bench.store.gc().unwrap();
    for (mut tree, blob) in pins {
        while let [entry] = &bench.store.tree(&tree).unwrap()[..] {
            tree = entry.oid;
            if !entry.mode.is_directory() {
                assert_eq!(tree, blob);
                break;
            }
        }
        bench.store.blob(&blob).unwrap();
    }
}

#[test]
fn only_one_gc_runs_at_a_time() {
    let bench = Bench::new();
    bench.edited(1, 2);
    let _work = PackRewrite::begin(&bench.store).unwrap().unwrap();
    assert!(matches!(bench.store.gc(), Err(GcError::Busy)));
    assert!(matches!(bench.store.merge(), Err(GcError::Busy)));
}

#[test]
fn merging_leaves_few_packs() {
    let bench = Bench::new();
    let mut pins = BTreeMap::new();
    let mut files = Files::new();
    for round in 0..230u64 {
        files.insert(format!("d{}/f", round % 7).into_bytes(), file(text(round % 5, 700)));
        pins.insert(bench.capture(1, &files), files.clone());
        bench.store.forget_packs();
        if bench.store.needs_merge() {
            let outcome = bench.store.merge().unwrap();
            assert_eq!(outcome.objects_dropped, 0);
            assert!(!bench.store.needs_merge());
        }
    }
    let packs = list_pack_names(&bench.packs()).len();
    assert!(packs < 60, "{packs}");
    bench.fsck();
    bench.assert_whole(&pins);
    bench.store.merge().unwrap();
    bench.fsck();
    assert!(list_pack_names(&bench.packs()).len() < 10);
    bench.assert_whole(&pins);
    assert_eq!(bench.store.generation(), 0);
}

#[test]
fn merging_keeps_unpinned_objects() {
    let bench = Bench::new();
    let pins = bench.edited(1, 12);
    let first = pins.keys().next().unwrap();
    let id = bench.store.pin_id(first).unwrap().unwrap();
    bench.store.merge().unwrap();
    bench.store.unpin(first).unwrap();
    bench.capture(2, &Files::from([(b"x".to_vec(), file(text(3, 9000)))]));
    bench.store.merge().unwrap();
    bench.store.read_object(&id).unwrap();
    bench.fsck();
}

#[test]
fn damage_stops_gc_before_it_changes_anything() {
    let bench = Bench::new();
    let pins = bench.edited(1, 6);
    let pack = |bench: &Bench, place: usize, extension: &str| {
        let name = format!("{}.{extension}", list_pack_names(&bench.packs())[place]);
        bench.packs().join(name)
    };
    let flip = |path: &Path, from_end: bool| {
        let mut bytes = fs::read(path).unwrap();
        let place = if from_end { bytes.len() - 30 } else { bytes.len() / 2 };
        bytes[place] ^= 0x55;
        fs::remove_file(path).unwrap();
        fs::write(path, bytes).unwrap();
    };
    let pin = pins.keys().next().unwrap().to_string();
    let harms: [&dyn Fn(&Bench); 8] = [
        &|bench| flip(&pack(bench, 0, "pack"), false),
        &|bench| flip(&pack(bench, 1, "idx"), false),
        &|bench| flip(&pack(bench, 2, "pack"), true),
        &|bench| fs::remove_file(pack(bench, 0, "pack")).unwrap(),
        &|bench| fs::remove_file(pack(bench, 0, "idx")).unwrap(),
        &|bench| fs::write(bench.store.directory().join(&pin), "no id\n").unwrap(),
        &|bench| fs::write(bench.store.directory().join(&pin), format!("{}\n", Oid::ZERO)).unwrap(),
        &|bench| bench.store.quarantine_pack(&list_pack_names(&bench.packs())[0]).unwrap(),
    ];
    for (number, harm) in harms.iter().enumerate() {
        let bench = bench.copy();
        harm(&bench);
        let listing = bench.listing();
        let error = bench.store.gc().unwrap_err();
        assert!(matches!(error, GcError::Damaged { .. }), "{number}: {error}");
        assert!(error.to_string().contains("repair"), "{error}");
        assert_eq!(bench.listing(), listing, "{number}");
    }
}

#[test]
fn no_damaged_object_is_carried_over() {
    let whole = Bench::new();
    whole.edited(1, 4);
    whole.store.gc().unwrap();
    whole.edited(2, 1);
    for pack in list_pack_names(&whole.packs()) {
        let origin = crate::source_packs::SourcePack::open(&whole.packs(), &pack).unwrap();
        for object in &origin.objects {
            let bench = whole.copy();
            let path = bench.packs().join(format!("{pack}.pack"));
            harm(&path, |bytes| bytes[object.offset as usize + 9] ^= 0x10);
            let listing = bench.listing();
            let error = bench.store.gc().unwrap_err();
            assert!(matches!(error, GcError::Damaged { .. }), "{error}");
            assert_eq!(bench.listing(), listing);
        }
    }
}

#[test]
fn incomplete_packs_are_removed_if_nothing_is_missing() {
    let bench = Bench::new();
    let pins = bench.edited(1, 3);
    bench.store.gc().unwrap();
    let listing = bench.listing();
    for name in ["pack-0000.pack", "pack-1111.idx"] {
        fs::write(bench.packs().join(name), "half").unwrap();
    }
    fs::write(bench.store.temporary().join("left"), "by a killed capture").unwrap();
    fs::write(bench.store.gc_temporary().join("left"), "by a killed gc").unwrap();
    bench.store.gc().unwrap();
    assert_eq!(bench.listing(), listing);
    bench.assert_whole(&pins);
}

/// Creates a store in which gc and merge have all kinds of work to do.
fn untidy_store() -> (Bench, BTreeMap<PinName, Files>) {
    let bench = Bench::new();
    let mut pins = bench.edited(1, 4);
    bench.store.gc().unwrap();
    pins.extend(bench.edited(2, 4));
    let first = pins.keys().next().unwrap().clone();
    bench.store.unpin(&first).unwrap();
    pins.remove(&first);
    (bench, pins)
}

fn kill_everywhere(test: &str, work: fn(&Store)) {
    if child(work) {
        return;
    }
    let (whole, pins) = untidy_store();
    let clean = whole.copy();
    clean.store.gc().unwrap();
    for nth in 0.. {
        let mut bench = whole.copy();
        let ending = kill_at(test, nth, &bench.store);
        assert!(nth > 8 || ending == Ending::Killed, "{nth}");
        bench.reopen();
        bench.fsck();
        bench.assert_whole(&pins);
        // If objects were deleted, the generation must have changed, because captures must not rely
        // on the deleted objects.
        let all = |bench: &Bench| bench.git(&["cat-file", "--batch-all-objects", "--batch-check"]);
        if all(&bench) != all(&whole) {
            assert_ne!(bench.store.generation(), whole.store.generation(), "{nth}");
        }
        bench.store.gc().unwrap();
        let list_files = |bench: &Bench| bench.listing().into_keys().collect::<Vec<_>>();
        assert_eq!(list_files(&bench).len(), list_files(&clean).len(), "{:?}", list_files(&bench));
        bench.assert_whole(&pins);
        bench.fsck();
        if ending == Ending::Completed {
            return;
        }
    }
}

#[test]
fn gc_killed_at_any_point_loses_nothing() {
    kill_everywhere("gc::tests::gc_killed_at_any_point_loses_nothing", |store| {
        store.gc().unwrap();
    });
}

#[test]
fn merge_killed_at_any_point_loses_nothing() {
    kill_everywhere("gc::tests::merge_killed_at_any_point_loses_nothing", |store| {
        store.merge().unwrap();
    });
}

#[test]
fn gc_and_merge_failing_at_any_point_lose_nothing() {
    alone("gc::tests::gc_and_merge_failing_at_any_point_lose_nothing", || {
        let (whole, pins) = untidy_store();
        for (is_gc, errno) in [(true, 28), (false, 5)] {
            for nth in 0.. {
                let bench = whole.copy();
                fault::arm(nth, Fault::Errno(errno), nth % 2 == 0);
                let result = if is_gc { bench.store.gc() } else { bench.store.merge() };
                let passed = fault::disarm();
                assert_eq!(result.is_err(), passed > nth, "{nth}: {result:?}");
                bench.fsck();
                bench.assert_whole(&pins);
                bench.store.gc().unwrap();
                assert_eq!(bench.listing().len(), 3, "{:?}", bench.listing());
                bench.assert_whole(&pins);
                if result.is_ok() {
                    break;
                }
            }
        }
    });
}

#[test]
fn a_capture_between_preparation_and_lock_loses_nothing() {
    let bench = Bench::new();
    bench.edited(9, 3);
    let mut files: Files = (0..5)
        .map(|number| (format!("d/{number}").into_bytes(), file(text(40 + number, 2000))))
        .collect();
    let unpinned = bench.capture(1, &files);
    bench.store.unpin(&unpinned).unwrap();

    // A capture has begun and relies on objects that no pin needs.
    let lock = bench.store.lock_shared().unwrap();
    let pins = std::thread::scope(|scope| {
        let directory = bench.store.directory();
        let gc = scope.spawn(move || Store::open(directory).unwrap().gc().unwrap());
        let is_prepared = || bench.listing().keys().any(|name| name.starts_with("tmp-gc/pack-"));
        while !is_prepared() && !gc.is_finished() {
            std::thread::yield_now();
        }
        let mut pins = BTreeMap::new();
        for round in 0..3 {
            pins.insert(bench.capture(1, &files), files.clone());
            files.insert(b"d/0".to_vec(), file(text(50 + round, 2000)));
        }
        drop(lock);
        let outcome = gc.join().unwrap();
        assert_eq!(outcome.objects_dropped, 0, "everything is pinned again");
        pins
    });
    bench.assert_whole(&pins);
    bench.fsck();
    bench.store.gc().unwrap();
    bench.assert_whole(&pins);
    bench.fsck();
}

#[test]
fn captures_during_gc_lose_nothing() {
    let bench = Bench::new();
    bench.edited(9, 3);
    let directory = bench.store.directory().to_owned();
    let pins: BTreeMap<PinName, Files> = std::thread::scope(|scope| {
        let captures: Vec<_> = (1..=3)
            .map(|number| {
                let directory = &directory;
                scope.spawn(move || {
                    let store = Store::open(directory).unwrap();
                    let mut random = Random(u64::from(number));
                    let mut pins = BTreeMap::new();
                    for round in 0..25 {
                        // States recur, so captures rely on objects that no pin needs.
                        let files: Files = (0..4)
                            .map(|index| {
                                let seed = random.below(6);
                                (format!("d/{index}").into_bytes(), file(text(seed, 400)))
                            })
                            .collect();
                        let pin = capture(&store, number, &files);
                        if round % 3 == 0 {
                            store.unpin(&pin).unwrap();
                        } else {
                            pins.insert(pin, files);
                        }
                    }
                    pins
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            // This thread reads without a lock, from packs that were opened long ago.
            let store = Store::open(&directory).unwrap();
            let pin = PinName { workspace: workspace(9), seq: 1 };
            for _ in 0..300 {
                let tree = store.pin(&pin).unwrap().unwrap().tree;
                let mut trees = vec![tree];
                while let Some(tree) = trees.pop() {
                    for entry in store.tree(&tree).unwrap() {
                        match entry.mode.is_directory() {
                            true => trees.push(entry.oid),
                            false => drop(store.blob(&entry.oid).unwrap()),
                        }
                    }
                }
            }
        });
        let store = Store::open(&directory).unwrap();
        let mut round = 0;
        while captures.iter().any(|thread| !thread.is_finished()) || !reader.is_finished() {
            let outcome = if round % 4 == 3 { store.merge() } else { store.gc() };
            outcome.unwrap();
            round += 1;
        }
        reader.join().unwrap();
        captures.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    bench.store.forget_packs();
    bench.assert_whole(&pins);
    bench.store.gc().unwrap();
    bench.fsck();
    bench.assert_whole(&pins);
}

#[derive(Clone, Debug)]
enum Action {
    Capture { workspace: u8, edits: Vec<(u8, u16, Option<u16>)> },
    Unpin(prop::sample::Index),
    Gc,
    Merge,
}

fn any_action() -> impl Strategy<Value = Action> {
    let edit = (0u8..12, any::<u16>(), prop::option::weighted(0.8, 0u16..3000));
    prop_oneof![
        6 => (0u8..3, prop::collection::vec(edit, 1..4))
            .prop_map(|(workspace, edits)| Action::Capture { workspace, edits }),
        2 => any::<prop::sample::Index>().prop_map(Action::Unpin),
        1 => Just(Action::Gc),
        1 => Just(Action::Merge),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn random_histories_can_be_read_back(actions in prop::collection::vec(any_action(), 1..40)) {
        let bench = Bench::new();
        let mut states: [Files; 3] = Default::default();
        let mut pins: BTreeMap<PinName, Files> = BTreeMap::new();
        for action in actions {
            match action {
                Action::Capture { workspace: number, edits } => {
                    let files = &mut states[usize::from(number)];
                    for (slot, at, size) in edits {
                        let path = format!("d{}/f{slot}", slot % 3).into_bytes();
                        match size {
                            None => drop(files.remove(&path)),
                            Some(size) => {
                                let (_, content) = files
                                    .entry(path)
                                    .or_insert_with(|| file(text(u64::from(slot), size.into())));
                                let at = usize::from(at) % (content.len() + 1);
                                content.splice(at..at, size.to_string().into_bytes());
                            }
                        }
                    }
                    pins.insert(bench.capture(number, files), files.clone());
                }
                Action::Unpin(index) if !pins.is_empty() => {
                    let pin = index.get(&pins.keys().cloned().collect::<Vec<_>>()).clone();
                    bench.store.unpin(&pin).unwrap();
                    pins.remove(&pin);
                }
                Action::Unpin(_) => {}
                Action::Gc => {
                    bench.store.gc().unwrap();
                    bench.fsck();
                    let (reachable, all) = reachable_and_all(&bench);
                    prop_assert_eq!(reachable, all);
                    for (pin, files) in &pins {
                        prop_assert_eq!(&bench.files(pin), files);
                    }
                }
                Action::Merge => {
                    bench.store.merge().unwrap();
                    bench.fsck();
                    for (pin, files) in &pins {
                        prop_assert_eq!(&bench.files(pin), files);
                    }
                }
            }
        }
        bench.store.gc().unwrap();
        bench.fsck();
        for (pin, files) in &pins {
            prop_assert_eq!(&bench.files(pin), files);
        }
    }
}
