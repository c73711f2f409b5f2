//! Writing the files of a tree into a new directory.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use takeback_tree::fault::{self, Fault};
use takeback_tree::{Capture, Checkout, CheckoutError, NewDirectory, Oid, remove_temporary};

use crate::support::{Scratch, read_directory};

const NAME: &str = ".takeback-fork-0";

fn destination(scratch: &Scratch) -> PathBuf {
    scratch.root.with_file_name("fork")
}

/// Checks a tree out into a new directory beside the workspace.
fn check_out(scratch: &Scratch, tree: &Oid) -> Checkout {
    try_check_out(scratch, tree, &destination(scratch)).unwrap()
}

fn try_check_out(scratch: &Scratch, tree: &Oid, to: &Path) -> Result<Checkout, CheckoutError> {
    let failed = |source| CheckoutError::Io { path: takeback_tree::RelPath::root(), source };
    let into = NewDirectory::create(to, NAME).map_err(failed)?;
    let done = scratch.store.check_out(tree, &into, Some(&scratch.root))?;
    into.place(0o755).map_err(failed)?;
    Ok(done)
}

/// Creates a workspace with files of all kinds, and captures it.
fn varied_workspace() -> (Scratch, Capture) {
    let scratch = Scratch::new();
    scratch.write("plain", "1");
    scratch.write("dir/deep/file", "2");
    scratch.write("dir/run", "#!/bin/sh\n");
    scratch.chmod("dir/run", 0o750);
    scratch.write("secret", "3");
    scratch.chmod("secret", 0o400);
    scratch.write([b"odd \xff\n name".as_slice()].concat(), "4");
    scratch.write("empty-file", "");
    scratch.mkdir("empty/inner");
    scratch.link("dir/deep", "link");
    scratch.link("/nowhere", "dir/broken");
    scratch.write("sealed/inside", "5");
    scratch.chmod("sealed", 0o555);
    scratch.write(".gitignore", ".env\n");
    scratch.write(".env", "guarded");
    let capture = scratch.capture();
    (scratch, capture)
}

#[test]
fn a_checked_out_directory_is_exactly_like_the_captured_one() {
    let (scratch, capture) = varied_workspace();
    let before = read_directory(&scratch.root);
    scratch.write("plain", "changed since");
    scratch.remove("dir");
    let done = check_out(&scratch, &capture.tree);
    assert_eq!(read_directory(&destination(&scratch)), before);
    assert_eq!((done.files, done.unprivileged.len()), (capture.files, 0));
    let mode = fs::metadata(destination(&scratch)).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
    scratch.chmod("sealed", 0o755);
}

#[test]
fn the_new_directory_and_the_workspace_are_independent() {
    for scratch in [Some(Scratch::new()), Scratch::on_cloning_disk()].into_iter().flatten() {
        scratch.write("a", "1".repeat(100_000));
        let capture = scratch.capture();
        check_out(&scratch, &capture.tree);
        fs::write(destination(&scratch).join("a"), "changed").unwrap();
        assert_eq!(scratch.read("a"), "1".repeat(100_000));
        scratch.write("a", "2");
        assert_eq!(fs::read(destination(&scratch).join("a")).unwrap(), b"changed");
    }
}

#[test]
fn files_that_the_workspace_still_has_are_cloned() {
    let Some(mut scratch) = Scratch::on_cloning_disk() else { return };
    scratch.ahead = Duration::from_secs(3600);
    for name in ["same", "edited", "touched", "gone", "swapped"] {
        scratch.write(name, name.repeat(10_000));
    }
    scratch.chmod("same", 0o640);
    let capture = scratch.capture();
    let before = read_directory(&scratch.root);
    scratch.write("edited", "edited".repeat(9_999));
    scratch.write("touched", "touched".repeat(10_000));
    scratch.remove("gone");
    scratch.remove("swapped");
    scratch.link("same", "swapped");
    let done = check_out(&scratch, &capture.tree);
    // A file that was rewritten may have the same content, but its stat no longer proves this.
    assert_eq!((done.files, done.cloned), (5, 1));
    assert_eq!(read_directory(&destination(&scratch)), before);
}

#[test]
fn a_racy_file_is_not_cloned() {
    let Some(scratch) = Scratch::on_cloning_disk() else { return };
    scratch.write("a", "1".repeat(100_000));
    let capture = scratch.capture();
    assert_eq!(check_out(&scratch, &capture.tree).cloned, 0);
}

#[test]
fn an_empty_directory_is_replaced_and_its_mode_is_kept() {
    let (scratch, capture) = varied_workspace();
    let to = destination(&scratch);
    fs::create_dir(&to).unwrap();
    fs::set_permissions(&to, fs::Permissions::from_mode(0o750)).unwrap();
    check_out(&scratch, &capture.tree);
    assert!(to.join("plain").exists());
    assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o750);
}

#[test]
fn nothing_that_exists_is_ever_replaced() {
    let (scratch, capture) = varied_workspace();
    let to = destination(&scratch);
    fs::create_dir(&to).unwrap();
    fs::write(to.join("mine"), "1").unwrap();
    assert!(try_check_out(&scratch, &capture.tree, &to).is_err());
    assert_eq!(fs::read(to.join("mine")).unwrap(), b"1");
    assert_eq!(fs::read_dir(&to).unwrap().count(), 1);
    let file = scratch.root.with_file_name("file");
    fs::write(&file, "mine").unwrap();
    assert!(try_check_out(&scratch, &capture.tree, &file).is_err());
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    assert!(!scratch.root.with_file_name(NAME).exists());
}

#[test]
fn a_checkout_that_fails_leaves_nothing_behind() {
    let (scratch, capture) = varied_workspace();
    let to = scratch.root.with_file_name("a").join("b/fork");
    for point in 0.. {
        fault::arm(point, Fault::Errno(28), false);
        let result = try_check_out(&scratch, &capture.tree, &to);
        if fault::disarm() <= point {
            break;
        }
        // After the last fault point, the directory has its final name.
        if result.is_err() {
            assert!(!scratch.root.with_file_name("a").exists(), "point {point}");
        } else {
            remove_temporary(&scratch.root.with_file_name("a")).unwrap();
        }
    }
    assert_eq!(read_directory(&to), read_directory(&scratch.root));
}

#[test]
fn a_checkout_killed_at_any_step_is_complete_or_has_only_its_temporary_name() {
    const TEST: &str =
        "checkout::a_checkout_killed_at_any_step_is_complete_or_has_only_its_temporary_name";
    const DIRECTORY: &str = "TAKEBACK_CHECKOUT_DIRECTORY";
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let scratch = Scratch::at(Path::new(&directory));
        let variable = |name| std::env::var(name).unwrap();
        let tree = variable("TREE").parse().unwrap();
        fault::arm(variable("POINT").parse().unwrap(), Fault::Kill, false);
        try_check_out(&scratch, &tree, &destination(&scratch)).unwrap();
        return;
    }
    let (scratch, capture) = varied_workspace();
    let temporary = scratch.root.with_file_name(NAME);
    let mut unfinished = 0;
    for point in 0.. {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .env(DIRECTORY, scratch.directory.path())
            .env("TREE", capture.tree.to_string())
            .env("POINT", point.to_string())
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success() || status.signal() == Some(9), "{status:?}");
        let to = destination(&scratch);
        if to.exists() {
            assert_eq!(read_directory(&to), read_directory(&scratch.root), "point {point}");
        } else {
            unfinished += 1;
        }
        remove_temporary(&temporary).unwrap();
        remove_temporary(&to).unwrap();
        if status.success() {
            break;
        }
    }
    assert!(unfinished > 10, "only {unfinished} checkouts were cut off");
}

#[test]
fn a_checkout_by_root_writes_no_setuid_files() {
    let scratch = Scratch::new();
    scratch.write("tool", "1");
    scratch.chmod("tool", 0o4755);
    let capture = scratch.capture();
    let done = check_out(&scratch, &capture.tree);
    let mode = fs::metadata(destination(&scratch).join("tool")).unwrap().mode() & 0o7777;
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!((mode, done.unprivileged.len()), if is_root { (0o755, 1) } else { (0o4755, 0) });
}

#[test]
fn a_damaged_tree_is_an_error_and_leaves_nothing_behind() {
    let (scratch, capture) = varied_workspace();
    for pack in fs::read_dir(scratch.store.directory().join("objects/pack")).unwrap() {
        fs::remove_file(pack.unwrap().path()).unwrap();
    }
    let result = try_check_out(&scratch, &capture.tree, &destination(&scratch));
    assert!(matches!(result, Err(CheckoutError::Object(_))), "{result:?}");
    assert!(!destination(&scratch).exists() && !scratch.root.with_file_name(NAME).exists());
    scratch.chmod("sealed", 0o755);
}
