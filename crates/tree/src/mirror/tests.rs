//! Tests of mirrors. Git checks every mirror.

#![allow(clippy::unwrap_used)]

use std::fs;

use super::*;
use crate::testing::{Bench, Ending, Files, child, file, harm, kill_at, text};
use crate::verify::PinState;

fn names(store: &Store) -> Vec<(PinName, Option<Oid>)> {
    let workspaces = store.pinned_workspaces().unwrap();
    let names = workspaces.iter().flat_map(|workspace| store.pin_names(workspace).unwrap());
    names.map(|name| (name.clone(), store.pin_id(&name).unwrap())).collect()
}

#[test]
fn a_mirror_has_all_pins_and_survives_its_store() {
    let bench = Bench::new();
    let mut pins = bench.edited(1, 6);
    pins.extend(bench.edited(2, 3));
    let mirror = bench.mirror();
    let report = bench.store.copy_to_mirror(&mirror.store).unwrap();
    assert_eq!((report.pins, report.damaged.len(), report.busy.len()), (9, 0, 0));
    mirror.fsck();
    mirror.assert_whole(&pins);
    assert_eq!(names(&mirror.store), names(&bench.store));
    assert_eq!(mirror.store.uuid(), bench.store.uuid());
    fs::remove_dir_all(bench.store.directory()).unwrap();
    mirror.fsck();
    mirror.assert_whole(&pins);
}

#[test]
fn a_mirror_has_the_tree_of_an_empty_workspace() {
    let bench = Bench::new();
    let empty = bench.capture(1, &Files::new());
    let mirror = bench.mirror();
    let report = bench.store.copy_to_mirror(&mirror.store).unwrap();
    assert_eq!((report.pins, report.objects), (1, 2));
    mirror.fsck();
    mirror.assert_whole(&[(empty, Files::new())].into());
}

#[test]
fn only_new_objects_are_copied_and_nothing_is_deleted() {
    let bench = Bench::new();
    let mut pins = bench.edited(1, 4);
    let mirror = bench.mirror();
    bench.store.copy_to_mirror(&mirror.store).unwrap();
    assert_eq!(bench.store.copy_to_mirror(&mirror.store).unwrap(), MirrorReport::default());
    // A gc rewrites the packs of both stores. This makes no difference to the next copy.
    bench.store.gc().unwrap();
    mirror.store.gc().unwrap();
    assert_eq!(bench.store.copy_to_mirror(&mirror.store).unwrap(), MirrorReport::default());
    let files = Files::from([(b"new".to_vec(), file("new"))]);
    let new = bench.capture(1, &files);
    bench.store.unpin(pins.keys().next().unwrap()).unwrap();
    let report = bench.store.copy_to_mirror(&mirror.store).unwrap();
    assert_eq!((report.pins, report.objects), (1, 3));
    pins.insert(new, files);
    mirror.fsck();
    mirror.assert_whole(&pins);
}

#[test]
fn a_pin_with_a_new_message_is_replaced() {
    let bench = Bench::new();
    let pins = bench.edited(1, 2);
    let mirror = bench.mirror();
    bench.store.copy_to_mirror(&mirror.store).unwrap();
    let names_of: Vec<&PinName> = pins.keys().collect();
    let other = bench.store.pin_id(names_of[0]).unwrap().unwrap();
    bench.store.replace_ref(names_of[1], other).unwrap();
    let report = bench.store.copy_to_mirror(&mirror.store).unwrap();
    assert_eq!((report.pins, report.objects), (1, 0));
    assert_eq!(mirror.store.pin_id(names_of[1]).unwrap(), Some(other));
}

#[test]
fn a_renumbered_pin_has_only_its_new_name_in_the_mirror() {
    let bench = Bench::new();
    let pins = bench.edited(1, 3);
    let mirror = bench.mirror();
    bench.store.copy_to_mirror(&mirror.store).unwrap();
    let id = pins.keys().next().unwrap().workspace.clone();
    bench.store.renumber_pins(&id, &[(2, 8), (3, 9)]).unwrap();
    bench.store.copy_to_mirror(&mirror.store).unwrap();
    assert_eq!(names(&mirror.store), names(&bench.store));
    mirror.fsck();
}

#[test]
fn the_mirror_of_another_store_is_not_changed() {
    let (bench, other) = (Bench::new(), Bench::new());
    bench.edited(1, 2);
    other.edited(1, 1);
    let mirror = bench.mirror();
    bench.store.copy_to_mirror(&mirror.store).unwrap();
    let before = mirror.listing();
    let refused = other.store.open_mirror(mirror.store.directory());
    assert!(matches!(refused, Err(MirrorError::OtherStore { .. })));
    assert_eq!(mirror.listing(), before);
}

#[test]
fn the_other_pins_are_copied_if_one_is_damaged() {
    let bench = Bench::new();
    let whole = bench.edited(1, 2);
    let before = bench.listing();
    let lost = bench.capture(2, &Files::from([(b"big".to_vec(), file(text(9, 90_000)))]));
    let is_new = |name: &&String| !before.contains_key(*name) && name.ends_with(".pack");
    let pack = bench.listing().keys().find(is_new).unwrap().clone();
    harm(&bench.store.directory().join(pack), |bytes| bytes[20_000] ^= 1);
    let mirror = bench.mirror();
    let report = bench.store.copy_to_mirror(&mirror.store).unwrap();
    assert_eq!((report.pins, report.damaged), (2, vec![lost]));
    mirror.fsck();
    mirror.assert_whole(&whole);
}

#[test]
fn a_copy_that_is_killed_is_completed_by_the_next_one() {
    let mirror_in = |store: &Store| {
        let directory = store.directory().with_file_name("mirror");
        store.open_mirror(directory).unwrap()
    };
    if child(|store| drop(store.copy_to_mirror(&mirror_in(store)).unwrap())) {
        return;
    }
    for nth in 1.. {
        let bench = Bench::new();
        let pins = bench.edited(1, 3);
        let test = "mirror::tests::a_copy_that_is_killed_is_completed_by_the_next_one";
        let ending = kill_at(test, nth, &bench.store);
        let mirror = mirror_in(&bench.store);
        // Every pin that the killed process added to the mirror is intact.
        let report = mirror.verify(&|_, _| {}).unwrap();
        assert!(report.pins.iter().all(|pin| pin.state == PinState::Whole), "{nth}");
        bench.store.copy_to_mirror(&mirror).unwrap();
        assert_eq!(names(&mirror), names(&bench.store), "{nth}");
        let report = mirror.verify(&|_, _| {}).unwrap();
        assert!(report.is_whole() && report.pins.len() == pins.len(), "{nth}");
        if ending == Ending::Completed {
            assert!(nth > 8, "only {nth} points were tried");
            break;
        }
    }
}
