#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{Export, ExportOptions, ExportPrivacy, ExportedPack, read_pack_index};
use crate::capture::CaptureOptions;
use crate::forbidden::ForbiddenRoots;
use crate::oid::Oid;
use crate::rules::CaptureRules;
use crate::store::Store;

/// A store with two states of a workspace, and their commits, the newest first.
fn store_with_states() -> (tempfile::TempDir, Store, Vec<Oid>) {
    let scratch = tempfile::tempdir().unwrap();
    let project = scratch.path().canonicalize().unwrap().join("shop");
    fs::create_dir(&project).unwrap();
    let store = Store::open(scratch.path().join("store")).unwrap();
    let mut commits = Vec::new();
    for round in 0..2_u64 {
        let lines: String = (0..200).map(|line| format!("line {line}\n")).collect();
        fs::write(project.join("text"), format!("{lines}{round}")).unwrap();
        fs::write(project.join(".env"), format!("{lines}SECRET={round}")).unwrap();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + round);
        let workspace = store.workspace(&project, &ForbiddenRoots::default()).unwrap();
        let mut lock = workspace.lock().unwrap();
        let rules = CaptureRules::default();
        let options = CaptureOptions { rules: &rules, named: &[], swept: &[], now };
        let capture = lock.capture(&options).unwrap();
        commits.insert(0, lock.pin(capture.tree, now, "state\n").unwrap().id);
        lock.finish(now).unwrap();
    }
    (scratch, store, commits)
}

fn write_all(export: &mut Export, directory: &Path) -> Vec<ExportedPack> {
    let mut packs = Vec::new();
    while let Some(pack) = export.write_next(directory).unwrap() {
        packs.push(pack);
    }
    packs
}

#[test]
fn every_object_is_in_exactly_one_pack_and_private_ones_have_their_own_packs() {
    let (scratch, store, commits) = store_with_states();
    // A gc stores objects as deltas. In export packs, no delta may refer to another pack.
    store.gc().unwrap();
    let needs = store.find_needs(std::slice::from_ref(&commits)).unwrap();
    assert!(needs.is_complete);
    let rules = CaptureRules::default();
    for (max_pack, least) in [(u64::MAX, 2), (1, needs.objects.len())] {
        let directory = scratch.path().join(format!("export-{least}"));
        fs::create_dir(&directory).unwrap();
        let mut export = store
            .export(&ExportOptions {
                histories: std::slice::from_ref(&commits),
                privacy: ExportPrivacy::Private(&rules),
                has: &|_| false,
                max_pack,
            })
            .unwrap();
        let packs = write_all(&mut export, &directory);
        assert_eq!(packs.len(), least);
        let (mut private, mut open) = (HashSet::new(), HashSet::new());
        for pack in &packs {
            let ids = read_pack_index(&directory.join(format!("{}.idx", pack.name))).unwrap();
            let all = if pack.is_private { &mut private } else { &mut open };
            assert!(ids.into_iter().all(|id| all.insert(id)), "an object is in two packs");
        }
        assert!(private.is_disjoint(&open));
        // Two versions of the private file, and of the directory that lists it.
        assert_eq!(private.len(), 4);
        let all: HashSet<Oid> = private.union(&open).copied().collect();
        assert_eq!(all, needs.objects);
        let git = std::process::Command::new("git")
            .args(["verify-pack"])
            .args(packs.iter().map(|pack| directory.join(format!("{}.idx", pack.name))))
            .output()
            .unwrap();
        assert!(git.status.success(), "{}", String::from_utf8_lossy(&git.stderr));
    }
}

#[test]
fn objects_that_the_destination_has_are_left_out() {
    let (scratch, store, commits) = store_with_states();
    let older = store.find_needs(&[vec![commits[1]]]).unwrap().objects;
    let directory = scratch.path().join("export");
    fs::create_dir(&directory).unwrap();
    let mut export = store
        .export(&ExportOptions {
            histories: &[commits],
            privacy: ExportPrivacy::Off,
            has: &|oid| older.contains(oid),
            max_pack: u64::MAX,
        })
        .unwrap();
    let packs = write_all(&mut export, &directory);
    let [pack] = &packs[..] else { panic!("{packs:?}") };
    let ids = read_pack_index(&directory.join(format!("{}.idx", pack.name))).unwrap();
    // The newer commit, its tree, and the two files.
    assert_eq!(ids.len(), 4);
    assert!(ids.iter().all(|id| !older.contains(id)));
}

#[test]
fn a_damaged_commit_does_not_affect_the_others() {
    let (scratch, store, commits) = store_with_states();
    let directory = scratch.path().join("export");
    fs::create_dir(&directory).unwrap();
    let missing: Oid = "1".repeat(40).parse().unwrap();
    let mut export = store
        .export(&ExportOptions {
            histories: &[vec![missing, commits[0]]],
            privacy: ExportPrivacy::All,
            has: &|_| false,
            max_pack: u64::MAX,
        })
        .unwrap();
    assert_eq!(export.damaged, [missing]);
    assert!(!export.is_whole());
    let packs = write_all(&mut export, &directory);
    assert_eq!(packs.len(), 1);
    assert!(packs[0].is_private);
    assert!(!store.find_needs(&[vec![missing]]).unwrap().is_complete);
}
