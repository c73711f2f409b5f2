#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::path::RelPath;
use crate::source_packs::SourcePack;
use crate::testing::{Bench, Files, file, harm, text, workspace};

use super::*;

/// Weighs pins with git: lists the reachable objects and their sizes on disk.
fn weigh_by_git(bench: &Bench, pins: &[PinName]) -> Vec<u64> {
    let format = "--batch-check=%(objectname) %(objectsize:disk)";
    let sizes: HashMap<String, u64> = bench
        .git(&["cat-file", "--batch-all-objects", format])
        .lines()
        .map(|line| {
            let (id, size) = line.split_once(' ').unwrap();
            (id.to_owned(), size.parse().unwrap())
        })
        .collect();
    let mut met = HashSet::new();
    let mut weigh = |pin: &PinName| {
        let reachable = bench.git(&["rev-list", "--objects", &pin.to_string()]);
        let ids = reachable.lines().map(|line| line.split(' ').next().unwrap().to_owned());
        ids.filter(|id| met.insert(id.clone())).map(|id| sizes[&id]).sum()
    };
    pins.iter().map(&mut weigh).collect()
}

fn newest_first(pins: &BTreeMap<PinName, Files>) -> Vec<PinName> {
    pins.keys().rev().cloned().collect()
}

#[test]
fn weights_agree_with_git() {
    let bench = Bench::new();
    let mut pins = bench.edited(1, 12);
    pins.extend(bench.edited(2, 5));
    for round in 0..3 {
        match round {
            0 => {}
            1 => drop(bench.store.merge().unwrap()),
            _ => drop(bench.store.gc().unwrap()),
        }
        let mut names = newest_first(&pins);
        let weights = bench.store.weigh_pins(&names).unwrap();
        assert_eq!(weights, weigh_by_git(&bench, &names));
        assert!(weights.iter().all(|weight| *weight > 0));
        // The pins can be listed in any order. A pin that is listed again weighs nothing.
        names.sort_by_key(|name| name.seq * 7 % 5);
        names.push(names[0].clone());
        assert_eq!(bench.store.weigh_pins(&names).unwrap(), weigh_by_git(&bench, &names));
        assert_eq!(bench.store.weigh_pins(&names).unwrap().last(), Some(&0));
    }
    let packs: u64 = bench
        .listing()
        .iter()
        .filter(|(name, _)| name.ends_with(".pack"))
        .map(|(_, bytes)| bytes)
        .sum();
    let all: u64 = bench.store.weigh_pins(&newest_first(&pins)).unwrap().iter().sum();
    // The header and the checksum of the pack belong to no object.
    assert_eq!(all, packs - 32);
    assert!(bench.store.measure_size().unwrap() > packs);
}

#[test]
fn a_damaged_pin_weighs_nothing_and_does_not_make_others_lighter() {
    let bench = Bench::new();
    let mut files = Files::from([
        (b"a/same".to_vec(), file(text(1, 5000))),
        (b"b/same".to_vec(), file(text(2, 5000))),
        (b"lost/lost".to_vec(), file("another")),
    ]);
    let oldest = bench.capture(1, &files);
    let packs = list_pack_names(&bench.packs());
    files.insert(b"lost/lost".to_vec(), file(text(3, 500)));
    let damaged = bench.capture(1, &files);
    let mut pack = list_pack_names(&bench.packs());
    pack.retain(|name| !packs.contains(name));
    files = Files::from([(b"other".to_vec(), file("other"))]);
    let newest = bench.capture(1, &files);
    let gone = PinName { workspace: workspace(1), seq: 77 };

    let order = [newest.clone(), damaged.clone(), gone, oldest.clone()];
    let expected = weigh_by_git(&bench, &[newest, oldest.clone()]);
    let whole = bench.store.weigh_pins(&order).unwrap();
    assert!(whole[1] > 5 * whole[3], "{whole:?}");

    let harmed = bench.copy();
    harm(&harmed.packs().join(format!("{}.idx", pack[0])), |bytes| bytes[1100] ^= 1);
    let weights = harmed.store.weigh_pins(&order).unwrap();
    assert_eq!(weights, [expected[0], 0, 0, expected[1]]);

    // Only one directory in the pin is lost. The traversal reaches everything above that directory
    // first.
    let harmed = bench.copy();
    let tree = bench.store.pin(&damaged).unwrap().unwrap().tree;
    let (_, lost) = bench.store.find_entry(&tree, &RelPath::new("lost").unwrap()).unwrap().unwrap();
    let origin = SourcePack::open(&harmed.packs(), &pack[0]).unwrap();
    let at = origin.objects.iter().find(|object| object.oid == lost).unwrap().offset as usize + 8;
    harm(&harmed.packs().join(format!("{}.pack", pack[0])), |bytes| bytes[at] ^= 0xff);
    let weights = harmed.store.weigh_pins(&order).unwrap();
    assert_eq!(weights, [expected[0], 0, 0, expected[1]]);

    harm(&bench.store.directory().join(damaged.to_string()), |bytes| bytes.truncate(7));
    let weights = bench.store.weigh_pins(&order).unwrap();
    assert_eq!(weights, [expected[0], 0, 0, expected[1]]);
}

#[test]
fn without_pins_there_are_no_weights() {
    let bench = Bench::new();
    assert_eq!(bench.store.weigh_pins(&[]).unwrap(), [0; 0]);
    assert!(bench.store.measure_size().unwrap() > 0);
}
