//! A workspace that changes while it is being captured.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use takeback_tree::{Capture, ObjectKind, Oid, UncoveredReason};

use crate::support::{Scratch, rel};

/// Runs `work` while another thread runs `disturb` repeatedly.
fn while_disturbed(disturb: impl Fn(usize) + Sync, work: impl FnOnce()) {
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| {
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) {
                disturb(round);
                round += 1;
            }
        });
        work();
    });
}

/// Reads a file at the top of a tree.
fn read_file_at_top(scratch: &Scratch, tree: Oid, name: &str) -> Option<Vec<u8>> {
    let (kind, entries) = scratch.store.read_object(&tree).unwrap();
    assert_eq!(kind, ObjectKind::Tree);
    let needle = format!(" {name}\0");
    let at = entries.windows(needle.len()).position(|bytes| bytes == needle.as_bytes())?;
    let oid = Oid(entries[at + needle.len()..][..20].try_into().unwrap());
    Some(scratch.store.blob(&oid).unwrap())
}

fn is_changing(capture: &Capture, name: &str) -> bool {
    let mut uncovered = capture.uncovered.iter();
    uncovered.any(|found| found.path == rel(name) && found.reason == UncoveredReason::Changing)
}

/// Creates two workspaces: one on a file system whose times distinguish every write from the
/// previous one, and one on a file system where all writes within a second have the same time.
fn fine_and_coarse() -> impl Iterator<Item = Scratch> {
    [Some(Scratch::in_memory()), Scratch::in_whole_seconds()].into_iter().flatten()
}

/// Each version is one byte, repeated. The kernel writes from front to back, so at any moment the
/// file is a single version, or starts with one version and ends with the previous one. Any other
/// content would be a mixture of several moments.
#[test]
fn a_file_that_is_constantly_rewritten_is_captured_as_of_one_moment() {
    const SIZE: usize = 1_000_000;
    const VERSIONS: usize = 251;
    for scratch in fine_and_coarse() {
        scratch.write("quiet", "q");
        scratch.write("f", vec![0; SIZE]);
        let file = fs::OpenOptions::new().write(true).open(scratch.path("f")).unwrap();
        let rewrite = |round: usize| {
            file.write_all_at(&vec![(round % VERSIONS) as u8; SIZE], 0).unwrap();
            // Sometimes the writer pauses briefly.
            (0..round % 7 * 300).for_each(|_| std::hint::spin_loop());
        };
        while_disturbed(rewrite, || {
            for round in 0..50 {
                let capture = scratch.capture_only();
                let Some(content) = read_file_at_top(&scratch, capture.tree, "f") else {
                    assert!(is_changing(&capture, "f"), "round {round}");
                    continue;
                };
                let mut versions = content;
                assert_eq!(versions.len(), SIZE);
                versions.dedup();
                let of_one_moment = match versions[..] {
                    [_] => true,
                    [new, old] => usize::from(new) == (usize::from(old) + 1) % VERSIONS,
                    _ => false,
                };
                assert!(of_one_moment, "round {round}: {versions:?}");
            }
        });
        assert_eq!(scratch.capture_only(), scratch.fresh());
    }
}

/// Some programs truncate a file to save it; others replace it by renaming a new file. The captured
/// content belongs to a single moment.
#[test]
fn a_file_that_is_constantly_saved_is_captured_as_of_one_moment() {
    for scratch in fine_and_coarse() {
        scratch.write("f", "\x01");
        let save = |round: usize| {
            let content = vec![(round % 251) as u8; 1 + round * 7919 % 100_000];
            match round % 3 {
                0 => scratch.write("f", content),
                _ => {
                    scratch.write("f.new", content);
                    fs::rename(scratch.path("f.new"), scratch.path("f")).unwrap();
                }
            }
        };
        while_disturbed(save, || {
            for round in 0..80 {
                let capture = scratch.capture_only();
                let content = read_file_at_top(&scratch, capture.tree, "f").unwrap_or_default();
                assert!(content.iter().all(|byte| *byte == content[0]), "round {round}");
            }
        });
        assert_eq!(scratch.capture_only(), scratch.fresh());
    }
}

const OUTSIDE: &[u8] = b"this is outside of the workspace";

/// Checks that no object in the store has content from outside the workspace.
fn assert_nothing_from_outside(scratch: &Scratch) {
    let everything = scratch.git(&["cat-file", "--batch-all-objects", "--batch"]);
    assert!(!everything.windows(OUTSIDE.len()).any(|bytes| bytes == OUTSIDE));
}

fn exchange_files(one: &Path, other: &Path) {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
}

/// Files and directories are replaced by links to the outside and then put back. The files outside
/// have the same names, so a capture that followed a link would read the wrong content.
#[test]
fn links_that_lead_outside_are_never_followed() {
    let scratch = Scratch::in_memory();
    let outside = scratch.directory.path().join("outside");
    let names: Vec<String> = (0..20).map(|number| format!("f{number}")).collect();
    fs::create_dir_all(outside.join("sub")).unwrap();
    for name in names.iter().map(String::as_str).chain([".gitignore", "swapped"]) {
        for directory in [&outside, &outside.join("sub")] {
            fs::write(directory.join(name), OUTSIDE).unwrap();
        }
    }
    for name in &names {
        scratch.write(format!("d/sub/{name}"), name);
        scratch.write(format!("d/{name}"), name);
    }
    scratch.write("d/swapped", "inside");
    scratch.write("d/.gitignore", "nothing\n");
    // In each exchange, one of the two paths is outside the workspace.
    let aside = scratch.directory.path().join("aside");
    fs::create_dir(&aside).unwrap();
    symlink(&outside, aside.join("d")).unwrap();
    symlink(outside.join("sub"), aside.join("sub")).unwrap();
    symlink(outside.join("swapped"), aside.join("swapped")).unwrap();
    symlink(outside.join(".gitignore"), aside.join(".gitignore")).unwrap();
    let swap = |round: usize| {
        let d = scratch.path("d");
        // Each pair is exchanged twice, so that everything is in its original place for the next
        // pair.
        for _ in 0..2 {
            match round % 4 {
                0 => exchange_files(&d, &aside.join("d")),
                1 => exchange_files(&d.join("sub"), &aside.join("sub")),
                2 => exchange_files(&d.join("swapped"), &aside.join("swapped")),
                _ => exchange_files(&d.join(".gitignore"), &aside.join(".gitignore")),
            }
            (0..round * 31 % 5000).for_each(|_| std::hint::spin_loop());
        }
    };
    while_disturbed(swap, || {
        for round in 0..150 {
            // This ensures that there is always a file to read.
            scratch.write("d-changes", round.to_string());
            scratch.capture_only();
        }
    });
    assert_nothing_from_outside(&scratch);
    assert_eq!(scratch.capture_only(), scratch.fresh());
    scratch.fsck();
}

/// While directories come and go, each capture succeeds. Later captures do not trust anything that
/// was seen during that time.
#[test]
fn directories_that_appear_and_disappear_are_listed_again() {
    for scratch in fine_and_coarse() {
        scratch.write("quiet/q", "q");
        let disturb = |round: usize| {
            let place = format!("d{}", round % 3);
            match round / 3 % 5 {
                0 => (0..10).for_each(|number| {
                    let sub = scratch.path(format!("{place}/sub"));
                    let _ = fs::create_dir_all(&sub);
                    let _ = fs::write(sub.join(format!("f{number}")), round.to_string());
                }),
                1 => drop(fs::remove_dir_all(scratch.path(format!("{place}/sub")))),
                2 => drop(fs::write(scratch.path(format!("{place}/sub")), "a file")),
                3 => drop(fs::remove_file(scratch.path(format!("{place}/sub")))),
                _ => drop(fs::remove_dir_all(scratch.path(&place))),
            }
        };
        for _ in 0..8 {
            while_disturbed(disturb, || {
                for _ in 0..15 {
                    let capture = scratch.capture_only();
                    assert!(capture.files >= 1);
                }
            });
            assert_eq!(scratch.capture_only(), scratch.fresh());
        }
        scratch.fsck();
    }
}

/// If a `.gitignore` changes during a capture, the capture may apply the old rules but store the
/// new file. The next capture must not assume that the rules match the stored file.
#[test]
fn a_gitignore_that_changes_during_a_capture_is_applied_by_the_next_one() {
    let scratch = Scratch::in_memory();
    for number in 0..40 {
        scratch.write(format!("a/{number}/x"), "1");
        scratch.write(format!("b/{number}/y"), "1");
    }
    let texts = ["a/\n", "b/\n", "x\n", "0/\n", ""];
    for start in 0..50 {
        let disturb = |round: usize| {
            let text = texts[(start + round) % texts.len()];
            scratch.write("new", text);
            fs::rename(scratch.path("new"), scratch.path(".gitignore")).unwrap();
        };
        while_disturbed(disturb, || {
            scratch.capture_only();
            scratch.capture_only();
        });
        assert_eq!(scratch.capture_only(), scratch.fresh(), "{start}");
    }
}

/// The workspace itself is deleted or replaced while it is locked.
#[test]
fn a_workspace_that_vanishes_is_an_error() {
    let scratch = Scratch::new();
    scratch.write("d/a", "1");
    let first = scratch.capture();
    let places = takeback_tree::ForbiddenRoots::default();
    let workspace = scratch.store.workspace(&scratch.root, &places).unwrap();
    let mut lock = workspace.lock().unwrap();
    let rules = &scratch.rules;
    let options =
        || takeback_tree::CaptureOptions { rules, named: &[], swept: &[], now: scratch.now() };
    // A directory that is moved elsewhere is still the workspace that was locked.
    let moved = scratch.directory.path().join("moved");
    fs::rename(&scratch.root, &moved).unwrap();
    fs::create_dir(&scratch.root).unwrap();
    scratch.write("another", "1");
    assert_eq!(lock.capture(&options()).unwrap(), first);
    fs::remove_dir_all(&moved).unwrap();
    // The capture must fail instead of returning an empty state.
    let error = lock.capture(&options()).unwrap_err();
    assert!(matches!(error, takeback_tree::CaptureError::Workspace(_)), "{error}");
    lock.finish(scratch.now()).unwrap();
    assert_eq!(scratch.capture(), scratch.fresh());
    scratch.fsck();
}
