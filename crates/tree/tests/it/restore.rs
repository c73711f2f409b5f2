//! Restores are exact and lose nothing.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use takeback_tree::{BlockedReason, KeptReason, PlanError, RestoreError};

use crate::support::{RestoreFailure, Scratch, git, read_directory, rel};

fn to_strings(paths: &[takeback_tree::RelPath]) -> Vec<String> {
    paths.iter().map(ToString::to_string).collect()
}

/// Creates a project with all kinds of files.
fn project() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("src/main.rs", "fn main() {}\n");
    scratch.write("src/lib/a.rs", "a\n");
    scratch.write("run.sh", "#!/bin/sh\n");
    scratch.chmod("run.sh", 0o755);
    scratch.write("secret", "s");
    scratch.chmod("secret", 0o600);
    scratch.mkdir("empty/inner");
    scratch.chmod("empty", 0o750);
    scratch.link("src/main.rs", "link");
    scratch
}

#[test]
fn everything_comes_back() {
    let scratch = project();
    let before = read_directory(&scratch.root);
    let capture = scratch.capture();
    scratch.remove("src");
    scratch.write("src", "a file where a directory was");
    scratch.remove("empty");
    scratch.remove("link");
    scratch.mkdir("link/now/a/directory");
    scratch.write("link/now/file", "x");
    scratch.chmod("run.sh", 0o644);
    scratch.remove("secret");
    scratch.link("/etc/passwd", "secret");
    scratch.write("new/deep/file", "created since");
    scratch.mkdir("new/empty");
    let wrecked = read_directory(&scratch.root);
    let plan = scratch.restore(&capture, &[]);
    assert_eq!(read_directory(&scratch.root), before);
    assert_eq!(scratch.capture().tree, capture.tree);
    scratch.fsck();
    // The restore can also be undone.
    scratch.restore(&scratch.as_capture(&plan), &[]);
    assert_eq!(read_directory(&scratch.root), wrecked);
}

#[test]
fn unchanged_files_are_not_touched() {
    let scratch = project();
    let capture = scratch.capture();
    let stat = |path: &str| {
        let metadata = fs::symlink_metadata(scratch.path(path)).unwrap();
        (
            metadata.ino(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec(),
        )
    };
    let before = ["src/lib/a.rs", "run.sh", "link", "src/lib", "empty/inner"].map(stat);
    scratch.write("src/main.rs", "changed");
    scratch.restore(&capture, &[]);
    assert_eq!(["src/lib/a.rs", "run.sh", "link", "src/lib", "empty/inner"].map(stat), before);
    // A restore can set the mode of a file without touching its content.
    let (inode, mtime, ..) = stat("run.sh");
    scratch.chmod("run.sh", 0o700);
    scratch.restore(&capture, &[]);
    assert_eq!((stat("run.sh").0, stat("run.sh").1), (inode, mtime));
}

#[test]
fn only_requested_paths_are_restored() {
    let scratch = project();
    let capture = scratch.capture();
    scratch.write("src/main.rs", "changed");
    scratch.write("src/lib/a.rs", "changed");
    scratch.write("src/lib/new.rs", "new");
    scratch.remove("run.sh");
    scratch.write("*.rs", "a name, not a pattern");
    let plan = scratch.restore(&capture, &["src/lib"]);
    assert_eq!(
        (to_strings(&plan.writes), to_strings(&plan.deletes)),
        (vec!["src/lib/a.rs".into()], vec!["src/lib/new.rs".into()])
    );
    assert_eq!(scratch.read("src/main.rs"), "changed");
    assert!(!scratch.exists("run.sh"));
    let plan = scratch.restore(&capture, &["*.rs", "run.sh"]);
    assert_eq!(
        (to_strings(&plan.writes), to_strings(&plan.deletes)),
        (vec!["run.sh".into()], vec!["*.rs".into()])
    );
    assert_eq!(scratch.read("src/main.rs"), "changed");
    assert!(
        matches!(scratch.try_restore(&capture, &["src/main.rs", "no/such"]), Err(RestoreFailure::Plan(PlanError::NoSuchPath(path))) if path == rel("no/such"))
    );
    assert_eq!(scratch.read("src/main.rs"), "changed");
    // The directories above a path are restored with it.
    scratch.remove("src");
    scratch.restore(&capture, &["src/lib/a.rs"]);
    assert!(scratch.exists("src/lib/a.rs") && !scratch.exists("src/main.rs"));
    // Only requested paths are replaced.
    scratch.remove("src");
    scratch.write("src", "mine");
    let failure = scratch.try_restore(&capture, &["src/lib/a.rs"]);
    assert!(
        matches!(failure, Err(RestoreFailure::Restore(RestoreError::Blocked(_)))),
        "{failure:?}"
    );
    assert_eq!(scratch.read("src"), "mine");
}

#[test]
fn an_empty_tree_can_be_restored() {
    let scratch = Scratch::new();
    let capture = scratch.capture();
    scratch.write("a/b", "1");
    scratch.restore(&capture, &[]);
    assert_eq!(read_directory(&scratch.root).len(), 0);
}

#[test]
fn guarded_files_are_restored_only_if_they_are_named() {
    let scratch = Scratch::new();
    scratch.write(".gitignore", ".env\n*.db\n");
    scratch.write(".env", "KEY=1");
    scratch.write("gone.db", "data");
    scratch.write("same.db", "same");
    let capture = scratch.capture();
    scratch.write(".env", "KEY=2");
    scratch.remove("gone.db");
    scratch.write("later.db", "created since");
    let plan = scratch.restore(&capture, &[]);
    assert_eq!(to_strings(&plan.writes), ["gone.db"]);
    assert_eq!(to_strings(&plan.guarded), [".env", "later.db"]);
    assert_eq!((scratch.read(".env"), scratch.read("gone.db")), ("KEY=2".into(), "data".into()));
    assert!(scratch.exists("later.db"));
    // A guarded file is not restored if only its directory is named.
    scratch.restore(&capture, &[""]);
    assert_eq!(scratch.read(".env"), "KEY=2");
    let plan = scratch.restore(&capture, &[".env", "later.db"]);
    assert_eq!(plan.guarded, []);
    assert_eq!(scratch.read(".env"), "KEY=1");
    assert!(!scratch.exists("later.db"));
    scratch.restore(&scratch.as_capture(&plan), &[".env", "later.db"]);
    assert_eq!(
        (scratch.read(".env"), scratch.read("later.db")),
        ("KEY=2".into(), "created since".into())
    );
}

#[test]
fn a_tracked_ignored_file_is_not_guarded() {
    let scratch = Scratch::new();
    git(&scratch.root, &["init", "-q"]);
    scratch.write(".gitignore", "*.cfg\n");
    scratch.write("tracked.cfg", "1");
    git(&scratch.root, &["add", "-f", "tracked.cfg"]);
    let capture = scratch.capture();
    scratch.write("tracked.cfg", "2");
    scratch.restore(&capture, &[]);
    assert_eq!(scratch.read("tracked.cfg"), "1");
}

#[test]
fn a_gitignore_that_has_changed_since_the_checkpoint_has_no_effect() {
    // The file was ignored at the time of the checkpoint, but is not ignored now. It existed
    // without being captured, so it is kept.
    let scratch = Scratch::new();
    scratch.write(".gitignore", "data/\n");
    scratch.write("data/precious", "never seen by the checkpoint");
    scratch.write("code", "1");
    let capture = scratch.capture();
    scratch.write(".gitignore", "");
    let plan = scratch.restore(&capture, &[]);
    assert_eq!(scratch.read("data/precious"), "never seen by the checkpoint");
    assert_eq!(plan.kept[0].path, rel("data/precious"));
    assert_eq!(plan.kept[0].reason, KeptReason::NotCovered);
    assert_eq!(scratch.read(".gitignore"), "data/\n");

    // The files were not ignored at the time of the checkpoint, but are ignored now. An agent
    // cannot use this to shield a file that it damaged.
    let scratch = Scratch::new();
    scratch.write("src/a", "1");
    scratch.write("b", "1");
    let capture = scratch.capture();
    scratch.write(".gitignore", "*\n");
    scratch.write("src/a", "wrecked");
    scratch.write("b", "wrecked");
    let plan = scratch.restore(&capture, &[]);
    assert_eq!((scratch.read("src/a"), scratch.read("b")), ("1".into(), "1".into()));
    // The ignored file that was overwritten is in the safety checkpoint.
    scratch.restore(&scratch.as_capture(&plan), &["src/a", "b"]);
    assert_eq!((scratch.read("src/a"), scratch.read("b")), ("wrecked".into(), "wrecked".into()));
}

#[test]
fn a_file_that_was_too_large_at_the_checkpoint_and_is_now_small_is_kept() {
    let mut scratch = Scratch::new();
    scratch.rules.max_file_size = 100;
    scratch.write("big", vec![1; 200]);
    let capture = scratch.capture();
    scratch.write("big", "small now");
    let plan = scratch.restore(&capture, &[]);
    assert_eq!(scratch.read("big"), "small now");
    assert_eq!(plan.kept[0].path, rel("big"));
    // The file was small at the time of the checkpoint and is now too large. The old content is
    // restored, and the new content is not lost.
    scratch.write("other", "1");
    let capture = scratch.capture();
    scratch.write("other", vec![b'x'; 500]);
    let plan = scratch.restore(&capture, &[]);
    assert_eq!(scratch.read("other"), "1");
    scratch.restore(&scratch.as_capture(&plan), &["other"]);
    assert_eq!(scratch.read("other"), "x".repeat(500));
}

#[test]
fn paths_that_are_never_captured_are_kept_in_a_directory_created_since_the_checkpoint() {
    let scratch = Scratch::new();
    scratch.write("a", "1");
    let capture = scratch.capture();
    scratch.write("new/node_modules/p/index.js", "x");
    scratch.write("new/file", "x");
    scratch.write("clone/file", "x");
    git(&scratch.path("clone"), &["init", "-q"]);
    let plan = scratch.restore(&capture, &[]);
    assert!(scratch.exists("new/node_modules/p/index.js") && !scratch.exists("new/file"));
    assert!(scratch.exists("clone/.git/HEAD") && !scratch.exists("clone/file"));
    let kept: Vec<_> = plan.kept.iter().map(|kept| (kept.path.to_string(), kept.reason)).collect();
    assert_eq!(
        kept,
        [
            ("clone".into(), KeptReason::NotEmpty),
            ("new".into(), KeptReason::NotEmpty),
            ("new/node_modules".into(), KeptReason::NotSaved),
        ]
    );
}

#[test]
fn a_directory_with_ignored_content_gives_way_to_a_file() {
    let scratch = Scratch::new();
    scratch.write("thing", "a file");
    let capture = scratch.capture();
    scratch.remove("thing");
    scratch.write("thing/node_modules/p/index.js", "ignored");
    scratch.write("thing/.gitignore", "*.db\n");
    scratch.write("thing/large.db", vec![b'd'; 2 << 20]);
    let wrecked = read_directory(&scratch.root);
    let plan = scratch.restore(&capture, &[]);
    assert_eq!(scratch.read("thing"), "a file");
    // The ignored content was captured first, although the rules exclude it.
    scratch.restore(&scratch.as_capture(&plan), &[]);
    assert_eq!(read_directory(&scratch.root), wrecked);
}

#[test]
fn a_path_that_cannot_be_captured_blocks_the_plan() {
    let scratch = Scratch::new();
    scratch.write("thing", "a file");
    scratch.write("other", "1");
    scratch.write("pipe", "1");
    let capture = scratch.capture();
    scratch.write("other", "2");
    scratch.remove("thing");
    scratch.write("thing/file", "x");
    git(&scratch.path("thing"), &["init", "-q"]);
    let before = read_directory(&scratch.root);
    match scratch.try_restore(&capture, &[]) {
        Err(RestoreFailure::Restore(RestoreError::Blocked(blocked))) => {
            assert_eq!(blocked.len(), 1);
            assert_eq!(
                (&blocked[0].path, &blocked[0].reason),
                (&rel("thing/.git"), &BlockedReason::Uncapturable)
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(read_directory(&scratch.root), before);
    // Other paths can be restored nevertheless.
    scratch.restore(&capture, &["other"]);
    assert_eq!(scratch.read("other"), "1");
    scratch.remove("thing");
    scratch.remove("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        scratch.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from(0o644),
        0,
    )
    .unwrap();
    assert!(
        matches!(scratch.try_restore(&capture, &[]), Err(RestoreFailure::Restore(RestoreError::Blocked(blocked))) if blocked[0].path == rel("pipe"))
    );
    assert!(!scratch.exists("thing"));
}

#[test]
fn a_plan_is_not_blocked_by_the_number_of_files_in_the_way() {
    let mut scratch = Scratch::new();
    scratch.rules.max_files = 20;
    scratch.write("thing", "a file");
    let capture = scratch.capture();
    scratch.remove("thing");
    for number in 0..50 {
        scratch.write(format!("thing/node_modules/{number}"), "x");
    }
    let plan = scratch.restore(&capture, &[]);
    assert_eq!(scratch.read("thing"), "a file");
    scratch.restore(&scratch.as_capture(&plan), &[]);
    assert_eq!(scratch.read("thing/node_modules/49"), "x");
}

#[test]
fn nothing_is_restored_through_a_symlink() {
    let scratch = Scratch::new();
    scratch.write("dir/file", "1");
    let capture = scratch.capture();
    let outside = scratch.root.with_file_name("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "outside").unwrap();
    scratch.remove("dir");
    symlink(&outside, scratch.path("dir")).unwrap();
    scratch.restore(&capture, &[]);
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "outside");
    assert_eq!(scratch.read("dir/file"), "1");
    assert!(!fs::symlink_metadata(scratch.path("dir")).unwrap().is_symlink());
}

#[test]
fn replacing_a_directory_with_a_link_after_planning_is_noticed() {
    let scratch = Scratch::new();
    scratch.write("dir/file", "1");
    let capture = scratch.capture();
    scratch.write("dir/file", "2");
    scratch.write("dir/new", "2");
    let outside = scratch.root.with_file_name("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "2").unwrap();
    fs::write(outside.join("new"), "2").unwrap();
    let result = scratch.restore_with(&capture, || {
        fs::rename(scratch.path("dir"), scratch.path("moved")).unwrap();
        symlink(&outside, scratch.path("dir")).unwrap();
    });
    assert!(result.is_err());
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "2");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 2);
    assert_eq!(scratch.read("moved/file"), "2");
}

#[test]
fn a_file_changed_after_the_plan_is_not_lost() {
    let scratch = Scratch::new();
    for path in ["a", "b", "z"] {
        scratch.write(path, "1");
    }
    let capture = scratch.capture();
    for path in ["a", "b", "z"] {
        scratch.write(path, "agent");
    }
    scratch.write("new", "agent");
    for victim in ["a", "z", "new"] {
        let result =
            scratch.restore_with(&capture, || scratch.write(victim, "the user's own edit"));
        assert!(
            matches!(&result, Err(RestoreError::Changed(path)) if *path == rel(victim)),
            "{result:?}"
        );
        for path in ["a", "b", "z", "new"] {
            let expected = if path == victim { "the user's own edit" } else { "agent" };
            assert_eq!(scratch.read(path), expected, "{victim}: {path}");
        }
        scratch.write(victim, "agent");
        assert_eq!(fs::read_dir(&scratch.root).unwrap().count(), 4, "nothing is left behind");
    }
}

#[test]
fn a_safety_checkpoint_of_another_state_or_workspace_is_refused() {
    let scratch = Scratch::new();
    scratch.write("a", "1");
    let capture = scratch.capture();
    scratch.write("a", "2");
    let workspace = scratch.store.workspace(&scratch.root, &Default::default()).unwrap();
    let mut lock = workspace.lock().unwrap();
    let target = takeback_tree::RestoreTarget {
        tree: capture.tree,
        filter: &capture.filter,
        uncovered: &[],
        undoes: None,
        released: &[],
        silent: false,
    };
    let options = takeback_tree::CaptureOptions {
        rules: &scratch.rules,
        named: &[],
        swept: &[],
        now: scratch.now(),
    };
    let plan = lock.plan(&target, &[], &options).unwrap();
    let wrong = lock.pin(capture.tree, scratch.now(), "x").unwrap();
    assert!(matches!(lock.apply(&plan, &wrong), Err(RestoreError::NoSafety)));
    assert_eq!(scratch.read("a"), "2");
}

#[test]
fn read_only_directories_get_their_modes_back() {
    let scratch = Scratch::new();
    scratch.write("locked/file", "1");
    scratch.write("locked/sub/file", "1");
    scratch.chmod("locked/sub", 0o500);
    scratch.chmod("locked", 0o555);
    let before = read_directory(&scratch.root);
    let capture = scratch.capture();
    scratch.chmod("locked", 0o755);
    scratch.chmod("locked/sub", 0o755);
    scratch.write("locked/sub/file", "2");
    scratch.remove("locked/file");
    scratch.chmod("locked", 0o500);
    scratch.restore(&capture, &[]);
    assert_eq!(read_directory(&scratch.root), before);
    scratch.chmod("locked/sub", 0o755);
    scratch.chmod("locked", 0o755);
}

#[test]
fn an_uncovered_file_is_not_deleted_even_if_it_is_named() {
    let mut scratch = Scratch::new();
    scratch.rules.max_file_size = 100;
    scratch.write("big.bin", vec![1; 200]);
    let capture = scratch.capture();
    scratch.write("big.bin", "small now");
    let plan = scratch.restore(&capture, &["big.bin"]);
    assert_eq!(scratch.read("big.bin"), "small now");
    assert_eq!(plan.kept[0].reason, KeptReason::NotCovered);
}

#[test]
fn paths_shielded_by_a_new_gitignore_are_reported() {
    let scratch = Scratch::new();
    scratch.write("src/a", "1");
    let capture = scratch.capture();
    scratch.write("src/evil", "x");
    scratch.write("out/j", "x");
    scratch.write(".gitignore", "src/\nout/\n");
    let plan = scratch.restore(&capture, &[]);
    let kept: Vec<_> = plan.kept.iter().map(|kept| (kept.path.to_string(), kept.reason)).collect();
    assert_eq!(kept, [("out".into(), KeptReason::NotSaved), ("src".into(), KeptReason::NotSaved)]);
}

#[test]
fn a_guarded_file_that_cannot_be_captured_blocks_nothing() {
    let scratch = Scratch::new();
    scratch.write(".gitignore", ".env\n");
    scratch.write(".env", "1");
    scratch.write("a", "1");
    let capture = scratch.capture();
    scratch.remove(".env");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        scratch.path(".env"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from(0o644),
        0,
    )
    .unwrap();
    scratch.write("a", "2");
    let plan = scratch.restore(&capture, &[]);
    assert_eq!(to_strings(&plan.guarded), [".env"]);
    assert_eq!(scratch.read("a"), "1");
}

#[test]
fn a_write_to_the_old_file_while_it_is_being_replaced_is_kept() {
    use std::io::Write;
    let scratch = Scratch::new();
    let others: Vec<String> = (0..300).map(|number| format!("other/{number}")).collect();
    let write = |content: &str| {
        scratch.write("a-log", content);
        others.iter().for_each(|path| scratch.write(path, content));
    };
    write("1\n");
    let capture = scratch.capture();
    write("2\n");
    let mut open = fs::OpenOptions::new().append(true).open(scratch.path("a-log")).unwrap();
    // This file sorts after `a-log`, so it is replaced later.
    let path = scratch.path("other/150");
    let inode = fs::symlink_metadata(&path).unwrap().ino();
    // A program has the old `a-log` open. It writes to the file after the restore has replaced it,
    // but before the restore has replaced all other files. The thread returns true if the old file
    // still had a name at that time.
    let writer = std::thread::spawn(move || {
        while fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.ino() == inode) {}
        open.write_all(b"more\n").unwrap();
        open.metadata().unwrap().nlink() > 0
    });
    let outcome = scratch.try_restore(&capture, &[]).unwrap().1;
    let was_in_time = writer.join().unwrap();
    assert_eq!(scratch.read("a-log"), "1\n");
    assert_eq!(outcome.saved.len(), usize::from(was_in_time));
    for saved in &outcome.saved {
        assert_eq!(scratch.read(saved.as_bytes()), "2\nmore\n");
    }
}
