//! Changes that file times alone do not reveal.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{AtFlags, Timespec, Timestamps};

use crate::support::Scratch;

const HOUR: Duration = Duration::from_secs(3600);

/// Creates a workspace on an ordinary file system, one in memory, and one on a file system that
/// stores times only in whole seconds.
fn all_file_systems() -> impl Iterator<Item = Scratch> {
    [Some(Scratch::new()), Some(Scratch::in_memory()), Scratch::in_whole_seconds()]
        .into_iter()
        .flatten()
}

/// Returns everything that `lstat` reports, except the time of the last read.
fn stat(path: &Path) -> (u32, u64, i64, i64, i64, i64, u64) {
    let stat = fs::symlink_metadata(path).unwrap();
    (
        stat.mode(),
        stat.size(),
        stat.mtime(),
        stat.mtime_nsec(),
        stat.ctime(),
        stat.ctime_nsec(),
        stat.ino(),
    )
}

/// Sets the modification time of a file.
fn set_mtime(path: &Path, (seconds, nanoseconds): (i64, i64)) {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, AtFlags::empty()).unwrap();
}

fn mtime(path: &Path) -> (i64, i64) {
    let stat = fs::symlink_metadata(path).unwrap();
    (stat.mtime(), stat.mtime_nsec())
}

/// Captures the workspace, changes a file, and captures again. Repeats this until a change does not
/// affect the result of `lstat`.
fn hidden_change(
    scratch: &Scratch,
    watched: &str,
    mut change: impl FnMut(u32),
) -> (takeback_tree::Capture, takeback_tree::Capture) {
    for round in 1..100 {
        let before = scratch.capture_only();
        let then = stat(&scratch.path(watched));
        change(round);
        let hidden = stat(&scratch.path(watched)) == then;
        let after = scratch.capture_only();
        if hidden {
            return (before, after);
        }
    }
    panic!("none of a hundred changes was in the same second as the capture before it");
}

#[test]
fn a_rewrite_right_after_a_capture_is_noticed() {
    for scratch in all_file_systems() {
        scratch.write("f", "0000");
        for round in 1..20 {
            let before = scratch.capture_only();
            scratch.write("f", format!("{round:04}"));
            let after = scratch.capture_only();
            assert_ne!(before.tree, after.tree);
            assert_eq!(after, scratch.fresh());
        }
    }
}

#[test]
fn a_rewrite_that_changes_no_file_time_is_noticed() {
    let Some(scratch) = Scratch::in_whole_seconds() else { return };
    scratch.write("f", "0000");
    let (before, after) =
        hidden_change(&scratch, "f", |round| scratch.write("f", format!("{round:04}")));
    assert_ne!(before.tree, after.tree);
    assert_eq!(after, scratch.fresh());
}

/// If the clock is so far ahead that the file is considered old, a rewrite that does not change the
/// result of `lstat` goes unnoticed. This proves that such a file is not reread.
#[test]
fn an_old_file_is_not_read_again() {
    let Some(mut scratch) = Scratch::in_whole_seconds() else { return };
    scratch.ahead = HOUR;
    scratch.write("f", "0000");
    let (before, after) =
        hidden_change(&scratch, "f", |round| scratch.write("f", format!("{round:04}")));
    assert_eq!(before, after);
    assert_ne!(after, scratch.fresh());
}

#[test]
fn a_change_with_an_old_modification_time_is_noticed() {
    for mut scratch in all_file_systems() {
        // If times are stored in whole seconds, only the age of the file shows that it must be
        // reread.
        scratch.ahead = if fs::metadata(&scratch.root).unwrap().mtime_nsec() == 0 {
            Duration::ZERO
        } else {
            HOUR
        };
        scratch.write("f", "one");
        set_mtime(&scratch.path("f"), (1_000_000_000, 0));
        let before = scratch.capture_only();
        scratch.write("f", "two");
        set_mtime(&scratch.path("f"), (1_000_000_000, 0));
        let after = scratch.capture_only();
        assert_ne!(before.tree, after.tree);
        assert_eq!(after, scratch.fresh());
    }
}

#[test]
fn a_replacement_of_the_same_size_and_time_is_noticed() {
    for mut scratch in all_file_systems() {
        scratch.ahead = HOUR;
        scratch.write("d/f", "one");
        let before = scratch.capture_only();
        scratch.write("d/f.new", "two");
        set_mtime(&scratch.path("d/f.new"), mtime(&scratch.path("d/f")));
        fs::rename(scratch.path("d/f.new"), scratch.path("d/f")).unwrap();
        let after = scratch.capture_only();
        assert_ne!(before.tree, after.tree);
        assert_eq!(after, scratch.fresh());
    }
}

#[test]
fn changed_permissions_are_noticed() {
    for mut scratch in all_file_systems() {
        scratch.ahead = HOUR;
        for path in ["f", "d/g", "d/e/h"] {
            scratch.write(path, "x");
        }
        for (path, mode) in [("f", 0o600), ("d/g", 0o755), ("d", 0o700), ("d/e", 0o2755)] {
            let before = scratch.capture_only();
            scratch.chmod(path, mode);
            let after = scratch.capture_only();
            assert_ne!(before.tree, after.tree, "{path}");
            assert_eq!(after, scratch.fresh(), "{path}");
        }
    }
}

#[test]
fn a_changed_symlink_target_is_noticed() {
    for mut scratch in all_file_systems() {
        scratch.ahead = HOUR;
        scratch.link("one", "l");
        let before = scratch.capture_only();
        scratch.link("two", "l.new");
        fs::rename(scratch.path("l.new"), scratch.path("l")).unwrap();
        let after = scratch.capture_only();
        assert_ne!(before.tree, after.tree);
        assert_eq!(after, scratch.fresh());
    }
}

#[test]
fn names_that_appear_or_disappear_right_after_a_capture_are_noticed() {
    for scratch in all_file_systems() {
        scratch.mkdir("d");
        for round in 0..20 {
            let before = scratch.capture_only();
            scratch.write(format!("d/{round}"), "x");
            let after = scratch.capture_only();
            assert_eq!(before.files + 1, after.files);
            scratch.mkdir(format!("d/e{round}/e"));
            assert_ne!(after.tree, scratch.capture_only().tree);
            scratch.remove(format!("d/{round}"));
            scratch.remove(format!("d/e{round}"));
            assert_eq!(before, scratch.capture_only());
        }
    }
}

#[test]
fn a_new_name_that_changes_no_directory_time_is_noticed() {
    let Some(scratch) = Scratch::in_whole_seconds() else { return };
    scratch.mkdir("d");
    let change = |round| scratch.write(format!("d/{round}"), "x");
    let (before, after) = hidden_change(&scratch, "d", change);
    assert_eq!(before.files + 1, after.files);
    assert_eq!(after, scratch.fresh());
}

#[test]
fn many_quick_changes_are_noticed() {
    for (scratch, rounds) in all_file_systems().zip([100, 100, 300]) {
        let mut seed = 1u32;
        let mut random = |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % below
        };
        for name in ["a", "b", "d/a", "d/b", "d/e/a"] {
            scratch.write(name, "0000");
        }
        for round in 0..rounds {
            let name = ["a", "b", "d/a", "d/b", "d/e/a"][random(5) as usize];
            let path = scratch.path(name);
            match random(8) {
                0 if path.exists() => fs::remove_file(&path).unwrap(),
                1 if path.exists() => scratch.chmod(name, 0o600 + random(64)),
                2 => {
                    scratch.write("d/new", format!("{round:04}"));
                    fs::rename(scratch.path("d/new"), path).unwrap();
                }
                3 if path.exists() => {
                    let time = mtime(&path);
                    scratch.write(name, format!("{round:04}"));
                    set_mtime(&path, time);
                }
                4 => scratch.write(".gitignore", ["a\n", "b\n", "e/", "\n"][random(4) as usize]),
                _ => scratch.write(name, format!("{round:04}")),
            }
            assert_eq!(scratch.capture_only(), scratch.fresh(), "round {round}");
        }
    }
}
