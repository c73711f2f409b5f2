//! Files that a user is not allowed to read or write. Permissions do not restrict root, so if root
//! runs these tests, they are rerun as another user.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use takeback_base::errors::error_chain;
use takeback_tree::{
    Capture, CaptureOptions, CaptureRules, ForbiddenRoots, Store, UncoveredReason, WorkspaceError,
};

use crate::support::{
    Scratch, child_variable, read_directory, rel, rerun_test, succeed, tell_skipped,
};

/// Runs the body as a user to whom permissions apply.
fn as_bound_user(test: &str, body: impl FnOnce()) {
    if rustix::process::geteuid().is_root() {
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        succeed(rerun_test(&format!("permissions::{test}"), "setpriv", &nobody));
    } else {
        body();
    }
}

fn denied_reason() -> UncoveredReason {
    UncoveredReason::Unreadable { error: "Permission denied (os error 13)".into() }
}

fn reason_of<'c>(capture: &'c Capture, path: &str) -> Option<&'c UncoveredReason> {
    let mut uncovered = capture.uncovered.iter();
    uncovered.find(|uncovered| uncovered.path == rel(path)).map(|found| &found.reason)
}

fn chmod(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_that_cannot_be_read_is_reported() {
    as_bound_user("a_file_that_cannot_be_read_is_reported", || {
        let scratch = Scratch::new();
        for path in ["a", "d/b", "d/c", "e"] {
            scratch.write(path, path);
        }
        for _ in 0..2 {
            scratch.chmod("d/b", 0);
            for _ in 0..2 {
                let capture = scratch.capture();
                assert_eq!(scratch.files(capture.tree), ["a", "d/c", "e"]);
                assert_eq!(capture.uncovered.len(), 1);
                assert_eq!(reason_of(&capture, "d/b"), Some(&denied_reason()));
            }
            scratch.chmod("d/b", 0o600);
            let capture = scratch.capture();
            assert_eq!(scratch.files(capture.tree), ["a", "d/b", "d/c", "e"]);
            assert_eq!(capture, scratch.fresh());
        }
    });
}

/// The file itself does not change, but two users capture it, and only one of them can read it.
#[test]
fn a_file_of_another_user_is_reread_once_that_is_possible() {
    let capture = |directory: &Path| {
        let store = Store::open(directory.join("store")).unwrap();
        let workspace =
            store.workspace(&directory.join("work"), &ForbiddenRoots::default()).unwrap();
        let mut lock = workspace.lock().unwrap();
        let rules = CaptureRules::default();
        // The clock is so far ahead that no file is considered new, so no file is reread for that
        // reason.
        let now = SystemTime::now() + Duration::from_secs(3600);
        let options = CaptureOptions { rules: &rules, named: &[], swept: &[], now };
        let capture = lock.capture(&options).unwrap();
        lock.finish(now).unwrap();
        capture
    };
    if let Some(directory) = child_variable("DIRECTORY") {
        let capture = capture(Path::new(&directory));
        assert_eq!((capture.files, reason_of(&capture, "theirs")), (1, Some(&denied_reason())));
    } else if rustix::process::geteuid().is_root() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("work");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("ours"), "1").unwrap();
        fs::write(root.join("theirs"), "2").unwrap();
        chmod(&root.join("theirs"), 0o600);
        for path in [directory.path(), &root] {
            chmod(path, 0o777);
        }
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let mut command = rerun_test(
            "permissions::a_file_of_another_user_is_reread_once_that_is_possible",
            "setpriv",
            &nobody,
        );
        command.env("DIRECTORY", directory.path());
        succeed(command);
        let capture = capture(directory.path());
        assert_eq!((capture.files, reason_of(&capture, "theirs")), (2, None));
    } else {
        tell_skipped("only root can run part of this test as another user");
    }
}

#[test]
fn directories_that_cannot_be_read_are_reported() {
    as_bound_user("directories_that_cannot_be_read_are_reported", || {
        // The directories cannot be listed; some of them can be entered.
        for mode in [0, 0o100, 0o300] {
            let scratch = Scratch::new();
            for path in ["a", "d/b", "d/deep/er/c", "e/f"] {
                scratch.write(path, path);
            }
            for _ in 0..2 {
                scratch.chmod("d", mode);
                for _ in 0..2 {
                    let capture = scratch.capture();
                    assert_eq!(scratch.files(capture.tree), ["a", "e/f"]);
                    assert_eq!(capture.uncovered.len(), 1);
                    assert_eq!(reason_of(&capture, "d"), Some(&denied_reason()));
                }
                scratch.write("a", "changed meanwhile");
                assert_eq!(scratch.capture(), scratch.fresh());
                scratch.chmod("d", 0o755);
                let capture = scratch.capture();
                assert_eq!(scratch.files(capture.tree), ["a", "d/b", "d/deep/er/c", "e/f"]);
                assert_eq!(capture, scratch.fresh());
            }
            scratch.fsck();
        }
    });
}

/// The names can be listed, but `lstat` fails for each of them. No name is left out silently.
#[test]
fn every_name_in_a_directory_that_cannot_be_entered_is_reported() {
    as_bound_user("every_name_in_a_directory_that_cannot_be_entered_is_reported", || {
        let scratch = Scratch::new();
        for path in ["a", "d/.gitignore", "d/b", "d/deep/er/c", "e/f"] {
            scratch.write(path, path);
        }
        scratch.link("a", "d/link");
        for _ in 0..2 {
            scratch.chmod("d", 0o444);
            for _ in 0..2 {
                let capture = scratch.capture();
                assert_eq!(scratch.files(capture.tree), ["a", "e/f"]);
                // Either the path itself or the whole directory is reported.
                for path in ["d/.gitignore", "d/b", "d/deep", "d/link"] {
                    let found = reason_of(&capture, path).or_else(|| reason_of(&capture, "d"));
                    assert_eq!(found, Some(&denied_reason()), "{path}");
                }
                assert_eq!(capture, scratch.fresh());
            }
            scratch.chmod("d", 0o755);
            let capture = scratch.capture();
            assert_eq!(capture.files, 6);
            assert_eq!(capture, scratch.fresh());
        }
    });
}

#[test]
fn a_gitignore_that_cannot_be_read_ignores_nothing() {
    as_bound_user("a_gitignore_that_cannot_be_read_ignores_nothing", || {
        let scratch = Scratch::new();
        scratch.write("d/.gitignore", "e/\n");
        scratch.write("d/e/f", "1");
        assert_eq!(scratch.capture().files, 1);
        scratch.chmod("d/.gitignore", 0);
        for _ in 0..2 {
            let capture = scratch.capture();
            assert_eq!(scratch.files(capture.tree), ["d/e/f"]);
            assert_eq!(reason_of(&capture, "d/.gitignore"), Some(&denied_reason()));
        }
        scratch.chmod("d/.gitignore", 0o644);
        assert_eq!(scratch.capture(), scratch.fresh());
    });
}

#[test]
fn a_read_only_workspace_is_captured() {
    as_bound_user("a_read_only_workspace_is_captured", || {
        let scratch = Scratch::new();
        scratch.write("d/a", "1");
        scratch.chmod("d/a", 0o444);
        scratch.chmod("d", 0o555);
        scratch.chmod("", 0o555);
        let before = read_directory(&scratch.root);
        let capture = scratch.capture();
        assert_eq!((capture.files, &capture.uncovered[..]), (1, &[][..]));
        assert_eq!(read_directory(&scratch.root), before);
        scratch.chmod("d", 0o755);
        scratch.chmod("", 0o755);
    });
}

#[test]
fn a_workspace_that_cannot_be_opened_is_an_error() {
    as_bound_user("a_workspace_that_cannot_be_opened_is_an_error", || {
        let scratch = Scratch::new();
        scratch.write("a", "1");
        let first = scratch.capture();
        for mode in [0, 0o111] {
            scratch.chmod("", mode);
            let error = match scratch.store.workspace(&scratch.root, &ForbiddenRoots::default()) {
                Err(error @ WorkspaceError::Open { .. }) => error_chain(&error),
                _ => panic!("opened"),
            };
            assert!(error.contains("work") && error.contains("Permission denied"), "{error}");
        }
        scratch.chmod("", 0o755);
        assert_eq!(scratch.capture(), first);
    });
}

/// The permissions of the workspace are removed between two captures under one lock.
#[test]
fn a_workspace_that_becomes_unreadable_is_never_captured_as_empty() {
    as_bound_user("a_workspace_that_becomes_unreadable_is_never_captured_as_empty", || {
        let scratch = Scratch::new();
        scratch.write("a", "1");
        scratch.write("d/b", "1");
        let workspace = scratch.store.workspace(&scratch.root, &ForbiddenRoots::default()).unwrap();
        let mut lock = workspace.lock().unwrap();
        let rules = &scratch.rules;
        let options = || CaptureOptions { rules, named: &[], swept: &[], now: scratch.now() };
        let first = lock.capture(&options()).unwrap();
        scratch.chmod("", 0);
        // The capture either fails or reports every path. It never returns an empty state without
        // reporting anything.
        if let Ok(capture) = lock.capture(&options()) {
            assert_eq!(capture.files, 0);
            assert_eq!(reason_of(&capture, "a"), Some(&denied_reason()));
            assert_eq!(reason_of(&capture, "d"), Some(&denied_reason()));
        }
        scratch.chmod("", 0o755);
        assert_eq!(lock.capture(&options()).unwrap(), first);
        lock.finish(scratch.now()).unwrap();
        assert_eq!(scratch.capture(), first);
    });
}

#[test]
fn a_store_that_cannot_be_written_to_is_an_error() {
    as_bound_user("a_store_that_cannot_be_written_to_is_an_error", || {
        for closed in ["", "objects/pack", "tmp", "workspaces", "refs/takeback", "lock"] {
            // The workspace is either new to the store or already known.
            for known in [false, true] {
                let scratch = Scratch::new();
                scratch.write("a", "1");
                // The lock file must exist, because one iteration makes it read-only.
                fs::write(scratch.store.directory().join("lock"), "").unwrap();
                if known {
                    scratch.capture();
                    scratch.write("a", "2");
                }
                let store = scratch.store.directory().to_owned();
                let path = store.join(closed);
                chmod(&path, if path.is_dir() { 0o555 } else { 0o444 });
                let before = read_directory(&store.join("refs"));
                match scratch.try_capture_and_pin() {
                    Err(error) => {
                        assert!(error.contains(&store.display().to_string()), "{closed}: {error}");
                        assert!(error.contains("Permission denied"), "{closed}: {error}");
                        assert_eq!(read_directory(&store.join("refs")), before, "{closed}");
                    }
                    // Nothing had to be created in this directory.
                    Ok(_) if closed.is_empty() => {}
                    Ok(_) => assert!(known && closed != "tmp" && closed != "lock", "{closed}"),
                }
                chmod(&path, if path.is_dir() { 0o755 } else { 0o644 });
                scratch.fsck();
                assert_eq!(scratch.capture(), scratch.fresh(), "{closed}");
                scratch.fsck();
            }
        }
    });
}

#[test]
fn a_store_that_cannot_be_created_is_an_error() {
    as_bound_user("a_store_that_cannot_be_created_is_an_error", || {
        let directory = tempfile::tempdir().unwrap();
        chmod(directory.path(), 0o555);
        let path = directory.path().join("takeback/store");
        let Err(error) = Store::open(&path) else { panic!("made") };
        let error = error_chain(&error);
        assert!(error.contains(&path.display().to_string()), "{error}");
        assert!(error.contains("Permission denied"), "{error}");
    });
}

/// Forbidden roots whose paths cannot be resolved are ignored.
#[test]
fn a_home_directory_that_cannot_be_read_does_no_harm() {
    as_bound_user("a_home_directory_that_cannot_be_read_does_no_harm", || {
        let scratch = Scratch::new();
        scratch.write("a", "1");
        scratch.write("closed/own/config", "1");
        scratch.chmod("closed", 0);
        let places = ForbiddenRoots::new(
            Some(scratch.path("closed/home")),
            vec![scratch.path("closed/tmp")],
            Some(scratch.path("closed/own")),
        );
        let workspace = scratch.store.workspace(&scratch.root, &places).unwrap();
        let mut lock = workspace.lock().unwrap();
        let options =
            CaptureOptions { rules: &scratch.rules, named: &[], swept: &[], now: scratch.now() };
        let capture = lock.capture(&options).unwrap();
        assert_eq!((capture.files, reason_of(&capture, "closed")), (1, Some(&denied_reason())));
        scratch.chmod("closed", 0o755);
    });
}
