//! Ways in which other tools are known to lose data. Each test shows that takeback does not lose
//! data in that way.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use takeback_tree::fault::{self, Fault};
use takeback_tree::{CaptureError, CaptureOptions, PlanError, RestoreTarget, UncoveredReason};

use crate::support::{RestoreFailure, Scratch, git, in_own_process, read_directory, rel};

#[test]
fn a_rollback_whose_safety_checkpoint_fails_changes_nothing() {
    in_own_process("losses::a_rollback_whose_safety_checkpoint_fails_changes_nothing", || {
        let scratch = Scratch::new();
        scratch.write("a", "1");
        let capture = scratch.capture();
        for name in ["a", "b", "c", "d", "e"] {
            scratch.write(name, "precious");
        }
        let before = read_directory(&scratch.root);
        fault::arm(0, Fault::Errno(rustix::io::Errno::NOSPC.raw_os_error()), true);
        let failure = scratch.try_restore(&capture, &[]).unwrap_err();
        fault::disarm();
        assert!(matches!(
            failure,
            RestoreFailure::Plan(PlanError::Capture(CaptureError::Write { .. }))
        ));
        assert_eq!(read_directory(&scratch.root), before);
    });
}

#[test]
fn a_rollback_works_even_with_too_many_files_to_capture() {
    let mut scratch = Scratch::new();
    scratch.rules.max_files = 3;
    scratch.write("a", "1");
    let capture = scratch.capture();
    for name in ["a", "b", "c", "d", "e"] {
        scratch.write(name, "precious");
    }
    let before = read_directory(&scratch.root);
    let plan = scratch.restore(&capture, &[]);
    assert_eq!((scratch.read("a"), scratch.exists("e")), ("1".into(), false));
    scratch.restore(&scratch.as_capture(&plan), &[]);
    assert_eq!(read_directory(&scratch.root), before);
}

#[test]
fn a_nested_repository_without_commits_is_captured_as_files() {
    let scratch = Scratch::new();
    scratch.write("vendor/file", "1");
    git(&scratch.path("vendor"), &["init", "-q"]);
    let capture = scratch.capture();
    scratch.remove("vendor/file");
    scratch.restore(&capture, &[]);
    assert_eq!(scratch.read("vendor/file"), "1");
    assert!(scratch.exists("vendor/.git/HEAD"));
}

#[test]
fn unprotected_paths_are_reported_with_a_reason() {
    let mut scratch = Scratch::new();
    scratch.rules.max_file_size = 10;
    scratch.write(".gitignore", "out/\n");
    scratch.write("out/x", "1");
    scratch.write("build/x", "1");
    scratch.write("x.log", "1");
    scratch.write("large", "more than ten bytes");
    let reasons: Vec<(String, UncoveredReason)> = scratch
        .capture()
        .uncovered
        .into_iter()
        .map(|found| (found.path.to_string(), found.reason))
        .collect();
    assert_eq!(
        reasons,
        [
            ("build".to_owned(), UncoveredReason::Excluded),
            ("large".to_owned(), UncoveredReason::TooLarge { size: 19 }),
            ("out".to_owned(), UncoveredReason::Ignored),
            ("x.log".to_owned(), UncoveredReason::Excluded),
        ]
    );
}

#[test]
fn bytes_are_restored_unchanged_regardless_of_git_attributes() {
    let scratch = Scratch::new();
    git(&scratch.root, &["init", "-q"]);
    scratch.write(
        ".gitattributes",
        "* text=auto eol=crlf ident working-tree-encoding=UTF-16 filter=lfs\n",
    );
    let content = "line\r\nline\n$Id$\n\u{feff}ü\0";
    scratch.write("file", content);
    let capture = scratch.capture();
    scratch.write("file", "overwritten");
    scratch.restore(&capture, &[]);
    assert_eq!(scratch.read("file"), content);
}

#[test]
fn modes_and_empty_directories_come_back() {
    let scratch = Scratch::new();
    scratch.write("key", "secret");
    scratch.chmod("key", 0o600);
    scratch.mkdir("logs/today");
    let capture = scratch.capture();
    scratch.remove("key");
    scratch.remove("logs");
    scratch.restore(&capture, &[]);
    assert_eq!(fs::metadata(scratch.path("key")).unwrap().permissions().mode() & 0o7777, 0o600);
    assert!(scratch.path("logs/today").is_dir());
}

#[test]
fn files_created_since_the_checkpoint_are_deleted_only_if_they_are_saved_first() {
    let scratch = Scratch::new();
    scratch.write("a", "1");
    let capture = scratch.capture();
    scratch.write("junk/created", "x");
    scratch.write("node_modules/never-saved", "x");
    scratch.write("trace.log", "never saved either");
    scratch.restore(&capture, &[]);
    assert!(!scratch.exists("junk"));
    assert!(scratch.exists("node_modules/never-saved") && scratch.exists("trace.log"));
}

#[test]
fn an_ignored_file_created_since_the_checkpoint_is_not_deleted() {
    let scratch = Scratch::new();
    scratch.write("a", "1");
    let capture = scratch.capture();
    scratch.write(".gitignore", ".env\n");
    scratch.write(".env", "KEY=typed in by hand");
    let plan = scratch.restore(&capture, &[]);
    assert_eq!(plan.guarded, [rel(".env")]);
    assert_eq!(scratch.read(".env"), "KEY=typed in by hand");
    assert!(!scratch.exists(".gitignore"));
}

#[test]
fn an_empty_directory_below_a_path_that_was_uncovered_is_kept() {
    let scratch = Scratch::new();
    scratch.write(".gitignore", "data/\n");
    scratch.mkdir("data/inner");
    let capture = scratch.capture();
    scratch.remove(".gitignore");
    scratch.restore(&capture, &[]);
    assert!(scratch.path("data/inner").is_dir());
}

#[test]
fn objects_that_a_running_restore_needs_are_not_collected() {
    let scratch = Scratch::new();
    scratch.write("a", "the oldest state");
    let capture = scratch.capture();
    let workspace = scratch.store.workspace(&scratch.root, &Default::default()).unwrap();
    let oldest = scratch.store.pin_names(workspace.id()).unwrap().remove(0);
    scratch.write("a", "2");
    let mut lock = workspace.lock().unwrap();
    let target = RestoreTarget {
        tree: capture.tree,
        filter: &capture.filter,
        uncovered: &capture.uncovered,
        undoes: None,
        released: &[],
        silent: false,
    };
    let options =
        CaptureOptions { rules: &scratch.rules, named: &[], swept: &[], now: scratch.now() };
    let plan = lock.plan(&target, &[], &options).unwrap();
    let safety = lock.pin(plan.from, scratch.now(), "before\n").unwrap();
    scratch.store.unpin(&oldest).unwrap();
    std::thread::scope(|scope| {
        let cleaner = takeback_tree::Store::open(scratch.store.directory()).unwrap();
        scope.spawn(move || cleaner.gc().unwrap());
        lock.apply(&plan, &safety).unwrap();
        assert_eq!(scratch.read("a"), "the oldest state");
        drop(lock);
    });
    scratch.fsck();
}

#[test]
fn ids_are_valid_as_long_as_their_checkpoints_exist() {
    let scratch = Scratch::new();
    for content in ["1", "2", "3"] {
        scratch.write("a", content);
        scratch.capture();
    }
    let workspace = scratch.store.workspace(&scratch.root, &Default::default()).unwrap();
    let names = scratch.store.pin_names(workspace.id()).unwrap();
    let ids = |names: &[takeback_tree::PinName]| -> Vec<_> {
        names.iter().map(|name| scratch.store.pin(name).unwrap().unwrap()).collect()
    };
    let before = ids(&names[1..]);
    scratch.store.unpin(&names[0]).unwrap();
    scratch.store.gc().unwrap();
    assert_eq!(ids(&names[1..]), before);
    assert!(scratch.store.pin(&names[0]).unwrap().is_none());
    // The number of a deleted checkpoint is not reused.
    scratch.store.unpin(&names[2]).unwrap();
    scratch.capture();
    assert_eq!(
        scratch.store.pin_names(workspace.id()).unwrap().last().unwrap().seq,
        names[2].seq + 1
    );
}

#[test]
fn git_finds_the_tree_of_an_empty_workspace_after_a_gc() {
    let mut scratch = Scratch::new();
    scratch.ahead = Duration::from_secs(3600);
    scratch.write("file", "1");
    scratch.capture();
    scratch.remove("file");
    // Nothing pins the empty workspace yet, so gc deletes its tree.
    scratch.capture_only();
    scratch.store.gc().unwrap();
    let capture = scratch.capture();
    scratch.fsck();
    scratch.write("file", "2");
    scratch.restore(&capture, &[]);
    assert!(!scratch.exists("file"));
}

#[test]
fn a_path_with_wildcards_is_a_name_and_not_a_pattern() {
    let scratch = Scratch::new();
    scratch.write("*.py", "star");
    scratch.write("a.py", "1");
    let capture = scratch.capture();
    scratch.write("*.py", "changed");
    scratch.write("a.py", "changed");
    scratch.restore(&capture, &["*.py"]);
    assert_eq!((scratch.read("*.py"), scratch.read("a.py")), ("star".into(), "changed".into()));
}
