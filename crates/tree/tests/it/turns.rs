//! Processes that take turns. Each process keeps states and packs in memory, and has to notice the
//! changes that the others make.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use takeback_tree::{Capture, CaptureOptions, CaptureRules, ForbiddenRoots, Store};

use crate::support::Scratch;

const HOUR: Duration = Duration::from_secs(3600);

/// A change that another process makes to the store.
type StoreChange = fn(&Scratch, &Store);

/// Captures the workspace and pins the state.
fn capture(store: &Store, scratch: &Scratch, rules: &CaptureRules) -> Capture {
    let workspace = store.workspace(&scratch.root, &ForbiddenRoots::default()).unwrap();
    let mut lock = workspace.lock().unwrap();
    let now = scratch.now();
    let capture = lock.capture(&CaptureOptions { rules, named: &[], swept: &[], now }).unwrap();
    lock.pin(capture.tree, now, "a test\n").unwrap();
    lock.finish(now).unwrap();
    capture
}

fn list_packs(scratch: &Scratch) -> Vec<PathBuf> {
    let entries = fs::read_dir(scratch.store.directory().join("objects/pack")).unwrap();
    let mut packs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    packs.retain(|path| path.extension().is_some_and(|extension| extension == "pack"));
    packs
}

fn overwrite(path: &Path, content: &[u8]) {
    fs::remove_file(path).unwrap();
    fs::write(path, content).unwrap();
}

/// Another process applies other rules, so its cache has the same files but knows less about them.
/// Entries of the state in memory must not be added to that cache.
#[test]
fn a_kept_state_is_not_mixed_with_the_cache_of_another_process() {
    let mut scratch = Scratch::new();
    // All files are old enough to be trusted. Otherwise, they would be read again.
    scratch.ahead = HOUR;
    let other = Store::open(scratch.store.directory()).unwrap();
    let excluding = CaptureRules { exclude: vec!["precious".to_owned()], ..scratch.rules.clone() };
    scratch.write("d/precious", "1");
    scratch.write("d/x", "1");
    scratch.write("z", "1");
    capture(&scratch.store, &scratch, &scratch.rules);
    for round in 0..3 {
        let without = capture(&other, &scratch, &excluding);
        assert!(!scratch.files(without.tree).contains(&"d/precious".to_owned()));
        scratch.write("z", format!("first {round}"));
        capture(&scratch.store, &scratch, &scratch.rules);
        scratch.write("z", format!("second {round}"));
        let third = Store::open(scratch.store.directory()).unwrap();
        let expected = scratch.fresh();
        assert_eq!(capture(&third, &scratch, &scratch.rules), expected, "round {round}");
        assert_eq!(capture(&scratch.store, &scratch, &scratch.rules), expected, "round {round}");
    }
    scratch.fsck();
}

/// The capturing process still has the objects in a kept state and in open packs, but another
/// process has removed them from the store.
#[test]
fn objects_that_another_process_has_removed_are_stored_again() {
    let changes: [(&str, StoreChange); 5] = [
        ("gc", |_, other| assert_ne!(other.gc().unwrap().objects_dropped, 0)),
        ("repair", |scratch, other| {
            let packs = list_packs(scratch);
            packs.iter().for_each(|pack| overwrite(pack, b"nothing"));
            other.repair(&|_, _| {}).unwrap();
        }),
        ("capture that sets packs aside", |scratch, other| {
            list_packs(scratch).iter().for_each(|pack| overwrite(pack, b"nothing"));
            let elsewhere = scratch.directory.path().join("elsewhere");
            fs::create_dir(&elsewhere).unwrap();
            let workspace = other.workspace(&elsewhere, &ForbiddenRoots::default()).unwrap();
            let mut lock = workspace.lock().unwrap();
            let (rules, now) = (CaptureRules::default(), scratch.now());
            let options = CaptureOptions { rules: &rules, named: &[], swept: &[], now };
            lock.capture(&options).unwrap();
            lock.finish(now).unwrap();
        }),
        ("lost packs", |scratch, _| {
            for pack in list_packs(scratch) {
                fs::remove_file(pack.with_extension("idx")).unwrap();
                fs::remove_file(pack).unwrap();
            }
        }),
        ("lost store", |scratch, _| {
            let pack_directory = scratch.store.directory().join("objects/pack");
            fs::remove_dir_all(&pack_directory).unwrap();
            fs::create_dir(pack_directory).unwrap();
            fs::remove_dir_all(scratch.store.directory().join("workspaces")).unwrap();
            fs::create_dir(scratch.store.directory().join("workspaces")).unwrap();
        }),
    ];
    for (what, change) in changes {
        let mut scratch = Scratch::new();
        scratch.ahead = HOUR;
        let other = Store::open(scratch.store.directory()).unwrap();
        for name in ["a/x", "b/y", "z"] {
            scratch.write(name, name);
        }
        // No pin needs the objects, so a gc frees them.
        assert_eq!(scratch.capture_only(), scratch.capture_only());
        change(&scratch, &other);
        scratch.write("z", "changed");
        let capture = capture(&scratch.store, &scratch, &scratch.rules);
        assert_eq!(capture.tree, scratch.fresh().tree, "{what}");
        let tree = capture.tree.to_string();
        scratch.git(&["archive", "--format=tar", &tree]);
        assert_eq!(scratch.files(capture.tree).len(), 3, "{what}");
    }
}
