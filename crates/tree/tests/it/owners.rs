//! Files that belong to other users: their owners and setuid bits after a restore. Only root can
//! create such files.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

use crate::support::{Scratch, child_variable, rel, rerun_test, succeed, tell_skipped};

const NOBODY: u32 = 65534;
const ALICE: u32 = 64321;

/// Runs `prepare` as root, and `body` as another user, who owns the directory.
fn as_root_and_as_nobody(test: &str, prepare: impl FnOnce(&Scratch), body: impl FnOnce(&Scratch)) {
    if let Some(directory) = child_variable("DIRECTORY") {
        body(&Scratch::at(Path::new(&directory)));
    } else if rustix::process::geteuid().is_root() {
        let directory = tempfile::tempdir().unwrap();
        give(directory.path(), NOBODY);
        let scratch = Scratch::at(directory.path());
        fs::remove_dir_all(directory.path().join("store")).unwrap();
        give(&scratch.root, NOBODY);
        prepare(&scratch);
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let mut command = rerun_test(&format!("owners::{test}"), "setpriv", &nobody);
        command.env("DIRECTORY", directory.path());
        succeed(command);
    } else {
        tell_skipped("only root can make files of other users");
    }
}

/// Creates a workspace that belongs to another user and that root works in.
fn scratch_of_alice() -> Option<Scratch> {
    if !rustix::process::geteuid().is_root() {
        tell_skipped("only root can make files of other users");
        return None;
    }
    let scratch = Scratch::new();
    give(&scratch.root, ALICE);
    Some(scratch)
}

fn give(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).unwrap();
}

fn owner_and_mode(scratch: &Scratch, path: &str) -> (u32, u32) {
    let metadata = fs::symlink_metadata(scratch.path(path)).unwrap();
    (metadata.uid(), metadata.mode() & 0o7777)
}

#[test]
fn a_setuid_file_of_another_user_comes_back_without_setuid() {
    let prepare = |scratch: &Scratch| {
        for name in ["tool", "group-tool"] {
            scratch.write(name, "of alice");
        }
        give(&scratch.path("tool"), ALICE);
        chown(scratch.path("group-tool"), Some(NOBODY), Some(ALICE)).unwrap();
        scratch.chmod("tool", 0o6755);
        scratch.chmod("group-tool", 0o6755);
    };
    let test = "a_setuid_file_of_another_user_comes_back_without_setuid";
    as_root_and_as_nobody(test, prepare, |scratch| {
        let capture = scratch.capture();
        assert_eq!(capture.unprivileged, [rel("group-tool"), rel("tool")]);
        // The restore does not touch `tool`, so `tool` keeps its owner and mode.
        scratch.write("other", "");
        scratch.restore(&capture, &[]);
        assert_eq!(owner_and_mode(scratch, "tool"), (ALICE, 0o6755));
        for _ in 0..2 {
            scratch.remove("tool");
            scratch.remove("group-tool");
            let plan = scratch.restore(&capture, &[]);
            assert_eq!(owner_and_mode(scratch, "tool"), (NOBODY, 0o755));
            assert_eq!(owner_and_mode(scratch, "group-tool"), (NOBODY, 0o4755));
            assert_eq!(plan.privileged, [rel("group-tool")]);
        }
    });
}

#[test]
fn a_setuid_file_of_this_user_comes_back_exactly() {
    let scratch = Scratch::new();
    scratch.write("tool", "mine");
    scratch.chmod("tool", 0o6755);
    let before = owner_and_mode(&scratch, "tool");
    let capture = scratch.capture();
    assert!(capture.unprivileged.is_empty());
    scratch.remove("tool");
    let plan = scratch.restore(&capture, &[]);
    assert_eq!(owner_and_mode(&scratch, "tool"), before);
    assert_eq!((plan.privileged, plan.unprivileged), (vec![rel("tool")], vec![]));
}

/// The checkpoint has a setuid file that this user owned. Another user has since put a file in its
/// place.
#[test]
fn a_file_that_now_belongs_to_another_user_is_not_made_setuid() {
    let Some(scratch) = scratch_of_alice() else { return };
    for name in ["same", "changed", "gone"] {
        scratch.write(name, "mine");
        scratch.chmod(name, 0o4755);
    }
    let capture = scratch.capture();
    scratch.write("changed", "of alice");
    for name in ["same", "changed"] {
        give(&scratch.path(name), ALICE);
        scratch.chmod(name, 0o755);
    }
    scratch.remove("gone");
    let plan = scratch.restore(&capture, &[]);
    assert_eq!(plan.unprivileged, [rel("changed"), rel("gone")]);
    for name in ["same", "changed", "gone"] {
        assert_eq!(owner_and_mode(&scratch, name), (ALICE, 0o755), "{name}");
        assert_eq!(scratch.read(name), "mine");
    }
}

#[test]
fn root_gives_restored_files_to_the_owner_of_the_directory() {
    let Some(scratch) = scratch_of_alice() else { return };
    for (name, mode) in [("a", 0o644), ("sub/deep/b", 0o755), ("changed", 0o644)] {
        scratch.write(name, "1");
        scratch.chmod(name, mode);
    }
    scratch.link("a", "link");
    for name in ["a", "sub", "sub/deep", "sub/deep/b", "changed", "link"] {
        rustix::fs::chownat(
            rustix::fs::CWD,
            scratch.path(name),
            Some(rustix::fs::Uid::from_raw(ALICE)),
            Some(rustix::fs::Gid::from_raw(ALICE)),
            rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        )
        .unwrap();
    }
    // Alice cannot read this file. She may delete it, but does not become its owner.
    scratch.write("secret", "of root");
    scratch.chmod("secret", 0o600);
    let capture = scratch.capture();
    for name in ["a", "sub", "link", "secret"] {
        scratch.remove(name);
    }
    scratch.write("changed", "2");
    let plan = scratch.restore(&capture, &[]);
    for (name, mode) in [("a", 0o644), ("sub/deep/b", 0o755), ("changed", 0o644)] {
        assert_eq!(owner_and_mode(&scratch, name), (ALICE, mode), "{name}");
    }
    for name in ["sub", "sub/deep", "link"] {
        assert_eq!(owner_and_mode(&scratch, name).0, ALICE, "{name}");
    }
    assert_eq!(owner_and_mode(&scratch, "secret"), (0, 0o600));
    assert_eq!(plan.disowned, [rel("secret")]);
}
