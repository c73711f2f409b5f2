#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::fault::{self, Fault};
use crate::pins::PinName;
use crate::source_packs::SourcePack;
use crate::testing::{
    Bench, Ending, Files, alone, capture, child, file, harm, kill_at, text, workspace,
};
use crate::verify::PinState;

fn ignore_progress(_: u64, _: u64) {}

#[test]
fn an_intact_store_needs_no_repair() {
    let bench = Bench::new();
    let pins = bench.edited(1, 4);
    bench.store.gc().unwrap();
    let listing = bench.listing();
    let report = bench.store.repair(&ignore_progress).unwrap();
    assert_eq!((report.salvaged, report.set_aside.len()), (0, 0));
    bench.assert_reported(&report.now, &pins);
    assert_eq!(bench.listing(), listing);
}

/// Creates a store in which the first half of the history is in one pack with deltas, and the
/// second half is in many packs.
fn half_packed_store() -> (Bench, BTreeMap<PinName, Files>) {
    let bench = Bench::new();
    let mut pins = bench.edited(1, 12);
    bench.store.gc().unwrap();
    pins.extend(bench.edited(2, 4));
    (bench, pins)
}

#[test]
fn no_object_is_lost_if_an_index_is_lost() {
    let (whole, pins) = half_packed_store();
    let packs = list_pack_names(&whole.packs());
    let harms: [&dyn Fn(&Path); 4] = [
        &|index| fs::remove_file(index).unwrap(),
        &|index| harm(index, |bytes| bytes.truncate(300)),
        &|index| harm(index, |bytes| bytes[3] ^= 1),
        &|index| harm(index, |bytes| bytes.fill(0)),
    ];
    for broken in harms {
        let mut bench = whole.copy();
        for pack in &packs {
            broken(&bench.packs().join(format!("{pack}.idx")));
        }
        bench.reopen();
        let report = bench.store.repair(&ignore_progress).unwrap();
        assert!(report.now.is_whole(), "{report:?}");
        assert!(report.salvaged > 50);
        bench.assert_whole(&pins);
        bench.fsck();
        bench.store.gc().unwrap();
        bench.assert_whole(&pins);
        bench.fsck();
    }
}

#[test]
fn objects_in_packs_that_a_capture_set_aside_are_recovered() {
    let (mut bench, pins) = half_packed_store();
    let packs = list_pack_names(&bench.packs());
    for pack in &packs {
        harm(&bench.packs().join(format!("{pack}.idx")), |bytes| bytes[0] = 0);
    }
    fs::remove_file(bench.packs().join(midx::NAME)).unwrap();
    bench.reopen();
    let generation = bench.store.generation();
    let lock = bench.store.lock_shared().unwrap();
    assert_eq!(bench.store.set_aside_broken().unwrap(), packs);
    assert!(bench.store.set_aside_broken().unwrap().is_empty());
    drop(lock);
    assert!(bench.store.generation() > generation);
    assert!(list_pack_names(&bench.packs()).is_empty());

    let report = bench.store.repair(&ignore_progress).unwrap();
    assert!(report.now.is_whole(), "{:?}", report.now);
    bench.assert_whole(&pins);
    bench.fsck();
    // The pack that was set aside stays in quarantine, and its objects are not salvaged twice.
    let listing = bench.listing();
    assert_eq!(listing.keys().filter(|name| name.starts_with("quarantine/")).count(), 10);
    assert_eq!(bench.store.repair(&ignore_progress).unwrap().salvaged, 0);
    assert_eq!(bench.listing(), listing);
}

#[test]
fn objects_that_only_a_lost_object_refers_to_are_also_recovered() {
    let mut bench = Bench::new();
    let mut files = Files::from([(b"d/old".to_vec(), file(text(1, 800)))]);
    let first = bench.capture(1, &files);
    let old = list_pack_names(&bench.packs());
    files.insert(b"d/new".to_vec(), file(text(2, 800)));
    let second = bench.capture(1, &files);
    bench.store.unpin(&first).unwrap();
    bench.store.quarantine_pack(&old[0]).unwrap();
    let index = format!("{}.idx", list_pack_names(&bench.packs())[0]);
    harm(&bench.packs().join(index), |bytes| bytes.fill(7));
    bench.reopen();
    assert!(bench.store.repair(&ignore_progress).unwrap().now.is_whole());
    bench.assert_whole(&BTreeMap::from([(second, files)]));
}

#[test]
fn captures_restore_lost_objects_that_are_still_in_the_workspace() {
    let bench = Bench::new();
    let files = Files::from([(b"f".to_vec(), file(text(1, 3000)))]);
    let pin = bench.capture(1, &files);
    let pack = list_pack_names(&bench.packs()).pop().unwrap();
    fs::remove_file(bench.packs().join(format!("{pack}.pack"))).unwrap();
    let report = bench.store.repair(&ignore_progress).unwrap();
    assert!(matches!(report.now.pins[0].state, PinState::Lost { .. }));
    assert!(bench.store.gc().is_err());
    // The same state is captured again, and the pin has the same commit.
    let ref_path = bench.store.directory().join(pin.to_string());
    let id = fs::read(&ref_path).unwrap();
    fs::remove_file(&ref_path).unwrap();
    assert_eq!(bench.capture(1, &files), pin);
    assert_eq!(fs::read(&ref_path).unwrap(), id);
    assert!(bench.store.verify(&ignore_progress).unwrap().is_whole());
    bench.store.gc().unwrap();
}

#[test]
fn a_gc_succeeds_once_the_losses_are_accepted() {
    for extension in ["pack", "idx"] {
        let mut bench = Bench::new();
        let mut files = Files::from([(b"d/old".to_vec(), file(text(1, 800)))]);
        let first = bench.capture(1, &files);
        let pack = list_pack_names(&bench.packs()).pop().unwrap();
        files.insert(b"new".to_vec(), file(text(2, 800)));
        let second = bench.capture(1, &files);
        for extension in ["pack", extension] {
            let _ = fs::remove_file(bench.packs().join(format!("{pack}.{extension}")));
        }
        bench.reopen();
        let report = bench.store.repair(&ignore_progress).unwrap();
        assert!(bench.store.gc().is_err());
        assert_eq!(bench.store.accept_losses(&report).unwrap(), 1);
        bench.store.gc().unwrap();
        let left = bench.store.verify(&ignore_progress).unwrap().pins;
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].pin.as_ref(), Some(&second));
        assert!(matches!(&left[0].state, PinState::Partly { lost, .. } if lost.len() == 1));
        let aside = fs::read_to_string(bench.store.directory().join("quarantine/refs")).unwrap();
        assert!(aside.ends_with(&format!(" {first}\n")), "{aside}");
        // Another capture of the same state stores the lost objects again.
        let again = bench.capture(1, &files);
        bench.reopen();
        assert_eq!(bench.state(&again), PinState::Whole);
    }
}

#[test]
fn a_delta_is_resolved_from_a_base_in_another_pack() {
    let (bench, pins) = half_packed_store();
    let pack = bench.store.packs();
    let packed = pack.iter().max_by_key(|pack| pack.index.count()).unwrap().name.clone();
    let origin = SourcePack::open(&bench.packs(), &packed).unwrap();
    // The newest root tree is the base of older root trees.
    let newest = pins.keys().rfind(|pin| pin.workspace == workspace(1)).unwrap();
    let base = bench.store.pin(newest).unwrap().unwrap().tree;
    let (kind, content) = bench.store.read_object(&base).unwrap();
    let writer = bench.store.new_pack();
    writer.add(kind, base, &content).unwrap();
    writer.seal(&bench.packs()).unwrap();
    let at = origin.objects.iter().find(|object| object.oid == base).unwrap().offset as usize;
    harm(&bench.packs().join(format!("{packed}.pack")), |bytes| bytes[at + 6] ^= 0xff);

    let report = bench.store.repair(&ignore_progress).unwrap();
    assert_eq!(report.set_aside.len(), 1);
    assert!(report.now.is_whole(), "{:?}", report.now);
    bench.assert_whole(&pins);
    bench.fsck();
}

#[test]
fn a_damaged_ref_is_kept_and_reported() {
    let (bench, pins) = half_packed_store();
    let pin = pins.keys().next().unwrap();
    let path = bench.store.directory().join(pin.to_string());
    fs::write(&path, "damaged").unwrap();
    let report = bench.store.repair(&ignore_progress).unwrap();
    assert!(matches!(report.now.pins[0].state, PinState::Lost { .. }));
    assert_eq!(fs::read(&path).unwrap(), b"damaged");
}

#[test]
fn a_ref_with_an_unusual_number_is_not_mistaken_for_a_pin() {
    let bench = Bench::new();
    let pins = bench.edited(1, 8);
    let pin = PinName { workspace: workspace(1), seq: 7 };
    let odd: Vec<String> = ["007", "+7", "07"]
        .iter()
        .map(|seq| {
            let name = format!("refs/takeback/{}/{seq}", workspace(1));
            fs::write(bench.store.directory().join(&name), "damaged").unwrap();
            assert!(name.parse::<PinName>().is_err(), "{name}");
            name
        })
        .collect();
    let report = bench.store.repair(&ignore_progress).unwrap();
    let lost = report.now.pins.iter().filter(|pin| matches!(pin.state, PinState::Lost { .. }));
    assert!(lost.clone().all(|lost| lost.pin.is_none() && odd.contains(&lost.name)));
    assert_eq!(lost.count(), 3);
    assert_eq!(bench.store.accept_losses(&report).unwrap(), 0);
    assert!(bench.store.pin(&pin).unwrap().is_some(), "the intact pin stays");
    assert_eq!(bench.store.pin_names(&workspace(1)).unwrap().len(), pins.len());
}

/// A kind of damage to one of a pack's files.
#[derive(Clone, Debug)]
enum Harm {
    Flip(prop::sample::Index),
    Zero(prop::sample::Index, usize),
    Cut(prop::sample::Index),
    Remove,
}

fn any_harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        any::<prop::sample::Index>().prop_map(Harm::Flip),
        (any::<prop::sample::Index>(), 1usize..3000).prop_map(|(at, size)| Harm::Zero(at, size)),
        any::<prop::sample::Index>().prop_map(Harm::Cut),
        Just(Harm::Remove),
    ]
}

impl Harm {
    /// Damages the file. Returns the range of bytes that are lost.
    fn apply(&self, path: &Path) -> std::ops::Range<u64> {
        let mut gone = 0..0;
        match self {
            Harm::Remove => {
                fs::remove_file(path).unwrap();
                return 0..u64::MAX;
            }
            Harm::Flip(at) => harm(path, |bytes| {
                let at = at.index(bytes.len());
                bytes[at] ^= 0x41;
                gone = at as u64..at as u64 + 1;
            }),
            Harm::Zero(at, size) => harm(path, |bytes| {
                let at = at.index(bytes.len());
                let end = (at + size).min(bytes.len());
                bytes[at..end].fill(0);
                gone = at as u64..end as u64;
            }),
            Harm::Cut(at) => harm(path, |bytes| {
                let at = at.index(bytes.len());
                bytes.truncate(at);
                gone = at as u64..u64::MAX;
            }),
        }
        gone
    }
}

/// Finds the objects that may be lost: those whose entries were damaged, and those whose deltas
/// depend on them. No other object may be lost.
fn find_hit_objects(origin: &SourcePack, gone: &std::ops::Range<u64>) -> HashSet<Oid> {
    let ends = origin.objects.iter().skip(1).map(|next| next.offset).chain([origin.file.end()]);
    let mut hit = HashSet::new();
    for (object, end) in origin.objects.iter().zip(ends) {
        let base = match origin.file.read_head(object.offset).unwrap().stored {
            crate::pack::read::Stored::DeltaAt(base) => origin.object_at(base).map(|base| base.oid),
            _ => None,
        };
        let is_hit = object.offset < gone.end && end > gone.start;
        if is_hit || base.is_some_and(|base| hit.contains(&base)) {
            hit.insert(object.oid);
        }
    }
    hit
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn damage_is_reported_and_only_damaged_objects_are_lost(
        harms in prop::collection::vec((any::<prop::sample::Index>(), prop::bool::weighted(0.3), any_harm()), 1..4)
    ) {
        let (mut bench, pins) = half_packed_store();
        let packs = list_pack_names(&bench.packs());
        let mut hits = HashSet::new();
        let mut harmed = HashSet::new();
        for (pack, on_index, harm) in harms {
            let pack = pack.get(&packs);
            if !harmed.insert(pack) {
                continue;
            }
            let origin = SourcePack::open(&bench.packs(), pack).unwrap();
            let gone = harm.apply(&bench.packs().join(format!("{pack}.{}", if on_index { "idx" } else { "pack" })));
            if !on_index {
                hits.extend(find_hit_objects(&origin, &gone));
            }
        }
        bench.reopen();
        let before = bench.store.verify(&ignore_progress).unwrap();
        bench.assert_reported(&before, &pins);

        let report = bench.store.repair(&ignore_progress).unwrap();
        bench.reopen();
        bench.assert_reported(&report.now, &pins);
        prop_assert!(report.now.packs.is_empty(), "{:?}", report.now.packs);
        let lost = bench.store.examine(&ignore_progress).unwrap().lost;
        prop_assert!(lost.is_subset(&hits), "{lost:?} {hits:?}");
        for (pin, files) in &pins {
            if bench.state(pin) == PinState::Whole {
                prop_assert_eq!(&bench.files(pin), files);
            }
        }
        if lost.is_empty() {
            bench.assert_whole(&pins);
            bench.fsck();
            bench.store.gc().unwrap();
            bench.assert_whole(&pins);
        } else {
            prop_assert!(bench.store.gc().is_err());
        }
        let listing = bench.listing();
        prop_assert_eq!(bench.store.repair(&ignore_progress).unwrap().salvaged, 0);
        prop_assert_eq!(bench.listing(), listing);
    }
}

/// Creates a store with a pack in quarantine, a pack without an index, and two damaged packs.
fn damaged_store() -> (Bench, BTreeMap<PinName, Files>) {
    let (mut bench, pins) = half_packed_store();
    let packs = list_pack_names(&bench.packs());
    bench.store.quarantine_pack(&packs[0]).unwrap();
    fs::remove_file(bench.packs().join(format!("{}.idx", packs[1]))).unwrap();
    harm(&bench.packs().join(format!("{}.idx", packs[2])), |bytes| bytes[100] ^= 1);
    // In this pack, only the checksum at the end is damaged.
    let pack = bench.packs().join(format!("{}.pack", packs[3]));
    harm(&pack, |bytes| *bytes.last_mut().unwrap() ^= 1);
    bench.reopen();
    (bench, pins)
}

#[test]
fn a_repair_killed_at_any_point_loses_nothing() {
    if child(|store| drop(store.repair(&ignore_progress).unwrap())) {
        return;
    }
    let (whole, pins) = damaged_store();
    for nth in 0.. {
        let mut bench = whole.copy();
        let ending =
            kill_at("repair::tests::a_repair_killed_at_any_point_loses_nothing", nth, &bench.store);
        assert!(nth > 8 || ending == Ending::Killed, "{nth}");
        bench.reopen();
        let report = bench.store.repair(&ignore_progress).unwrap();
        assert!(report.now.is_whole(), "{nth}: {report:?}");
        bench.assert_whole(&pins);
        bench.store.gc().unwrap();
        bench.fsck();
        bench.assert_whole(&pins);
        let listing = bench.listing();
        let left: Vec<_> = listing.keys().filter(|name| !name.starts_with("quarantine")).collect();
        assert_eq!(left.len(), 3, "{left:?}");
        if ending == Ending::Completed {
            return;
        }
    }
}

#[test]
fn a_repair_that_fails_at_any_point_loses_nothing() {
    alone("repair::tests::a_repair_that_fails_at_any_point_loses_nothing", || {
        let (whole, pins) = damaged_store();
        for nth in 0.. {
            let bench = whole.copy();
            fault::arm(nth, Fault::Errno(28), nth % 2 == 0);
            let result = bench.store.repair(&ignore_progress);
            let passed = fault::disarm();
            assert_eq!(result.is_err(), passed > nth, "{nth}: {result:?}");
            let report = bench.store.repair(&ignore_progress).unwrap();
            assert!(report.now.is_whole(), "{nth}: {report:?}");
            bench.assert_whole(&pins);
            if result.is_ok() {
                break;
            }
        }
    });
}

#[test]
fn captures_during_repair_lose_nothing() {
    let (bench, mut pins) = damaged_store();
    let directory = bench.store.directory().to_owned();
    std::thread::scope(|scope| {
        let captures = scope.spawn(|| {
            let store = Store::open(&directory).unwrap();
            let states = (0..20u64).map(|round| {
                let files = Files::from([
                    (b"same".to_vec(), file(text(round % 3, 900))),
                    (b"new".to_vec(), file(text(round, 100))),
                ]);
                (capture(&store, 7, &files), files)
            });
            states.collect::<Vec<_>>()
        });
        while !captures.is_finished() {
            bench.store.repair(&ignore_progress).unwrap();
            // Damage the store again, so that the next repair has something to do.
            if let Some(pack) = list_pack_names(&bench.packs()).first() {
                let _lock = bench.store.lock_shared().unwrap();
                let _ = fs::remove_file(bench.packs().join(format!("{pack}.idx")));
            }
        }
        pins.extend(captures.join().unwrap());
    });
    assert!(bench.store.repair(&ignore_progress).unwrap().now.is_whole());
    bench.assert_whole(&pins);
    bench.fsck();
}
