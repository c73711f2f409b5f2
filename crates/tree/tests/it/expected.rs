//! Captures for which the caller knows the paths that may have changed.

use takeback_tree::{Capture, CaptureOptions, ForbiddenRoots, Oid, RelPath};

use crate::support::{Scratch, rel};

/// Captures the workspace. Only these paths may have changed since a state.
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
fn a_change_in_the_instant_of_the_last_capture_is_found_later() {
    let mut scratch = Scratch::new();
    for round in 0..20 {
        scratch.write("a/x", "1");
        scratch.write("b/y", "1");
        let first = scratch.capture();
        // These writes change neither the size nor, usually, the time of the file.
        scratch.write("b/y", "2");
        scratch.write("a/x", "second");
        scratch.ahead += std::time::Duration::from_secs(3600);
        capture_expecting(&scratch, first.tree, &[rel("a/x")]);
        assert_eq!(scratch.capture().tree, scratch.fresh().tree, "round {round}");
        scratch.ahead = std::time::Duration::ZERO;
    }
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
