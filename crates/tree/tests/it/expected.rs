//! Captures for which the caller knows the paths that may have changed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use takeback_tree::{Capture, CaptureOptions, ForbiddenRoots, Oid, RelPath};

use crate::support::{Scratch, rel};

/// Announces that only these paths may have changed since the state `since`, and captures the
/// workspace.
fn capture_expecting(scratch: &Scratch, since: Oid, paths: &[RelPath]) -> Capture {
    let workspace = scratch.store.workspace(&scratch.root, &ForbiddenRoots::default()).unwrap();
    let mut lock = workspace.lock().unwrap();
    let now = scratch.now();
    lock.expect_changes(since, paths);
    let options = CaptureOptions { rules: &scratch.rules, named: &[], swept: &[], now };
    let capture = lock.capture(&options).unwrap();
    lock.pin(capture.tree, now, "a test\n").unwrap();
    lock.finish(now).unwrap();
    capture
}

/// Returns the properties of a file by which a capture notices changes.
fn stat(path: &Path) -> (u64, u64, (i64, i64), (i64, i64)) {
    let stat = fs::symlink_metadata(path).unwrap();
    let (mtime, ctime) = ((stat.mtime(), stat.mtime_nsec()), (stat.ctime(), stat.ctime_nsec()));
    (stat.ino(), stat.size(), mtime, ctime)
}

#[test]
fn other_paths_are_left_to_the_next_capture() {
    let scratch = Scratch::new();
    scratch.write("a/x", "1");
    scratch.write("b/y", "1");
    let first = scratch.capture();
    scratch.write("a/x", "second");
    scratch.write("a/new/deep", "second");
    scratch.write("b/y", "second");
    let part = capture_expecting(&scratch, first.tree, &[rel("a/x"), rel("a/new/deep")]);
    let next = scratch.capture();
    assert_eq!(next.tree, scratch.fresh().tree);

    scratch.write("b/y", "1");
    assert_eq!(part.tree, scratch.fresh().tree);
    scratch.fsck();
}

#[test]
fn a_hidden_change_of_another_path_is_found_by_the_next_capture() {
    // On other file systems, once the times of a file have been read, the next change to the file
    // gives it new times.
    let Some(mut scratch) = Scratch::in_whole_seconds() else { return };
    scratch.write("a/x", "1");
    for round in 100..200 {
        scratch.write("b/y", format!("{round}"));
        let first = scratch.capture_only();
        let then = stat(&scratch.path("b/y"));
        // This write does not change the size of the file. If it happens in the same second, it
        // does not change the times either.
        fs::write(scratch.path("b/y"), format!("{}", round + 500)).unwrap();
        if stat(&scratch.path("b/y")) != then {
            continue;
        }
        scratch.write("a/x", "second");
        // Only the time of the first capture shows that the file may have changed unnoticed.
        scratch.ahead = Duration::from_secs(3600);
        let part = capture_expecting(&scratch, first.tree, &[rel("a/x")]);
        assert_ne!(part.tree, first.tree);
        assert_eq!(scratch.capture().tree, scratch.fresh().tree);
        return;
    }
    panic!("no change was in the same second as the write before it");
}

#[test]
fn an_expectation_about_another_state_is_ignored() {
    let scratch = Scratch::new();
    scratch.write("a/x", "1");
    scratch.write("b/y", "1");
    let first = scratch.capture();
    scratch.write("b/y", "second");
    scratch.capture();
    scratch.write("a/x", "third");
    scratch.write("b/y", "third");
    let capture = capture_expecting(&scratch, first.tree, &[rel("a/x")]);
    assert_eq!(capture.tree, scratch.fresh().tree);
}

/// A capture reads back some of the objects that it relies on. If an object is damaged, its file is
/// stored again even if no call is expected to change the file.
#[test]
fn a_damaged_object_outside_the_expected_paths_is_stored_again() {
    let mut scratch = Scratch::new();
    scratch.ahead = Duration::from_secs(3600);
    scratch.write("b/y", "precious");
    scratch.capture();
    let packs = fs::read_dir(scratch.store.directory().join("objects/pack")).unwrap();
    let mut packs = packs.map(|entry| entry.unwrap().path());
    let pack = packs.find(|path| path.extension().is_some_and(|it| it == "pack")).unwrap();
    scratch.write("a/x", "1");
    let first = scratch.capture();
    let mut content = fs::read(&pack).unwrap();
    // The beginning and the end stay intact, so the pack can be opened.
    let end = content.len() - 20;
    content[12..end].fill(0xff);
    fs::remove_file(&pack).unwrap();
    fs::write(&pack, content).unwrap();
    scratch.write("a/x", "second");
    let part = capture_expecting(&scratch, first.tree, &[rel("a/x")]);
    assert!(!part.damaged.is_empty());
    // The call, or the user, now replaces the file.
    scratch.write("b/y", "replaced");
    scratch.capture();
    scratch.restore(&part, &["b/y"]);
    assert_eq!(scratch.read("b/y"), "precious");
}
