//! If the system does not allow a restore, the restore fails with a clear error and leaves the
//! workspace unchanged.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use takeback_tree::{Capture, RestoreError};

use crate::support::{RestoreFailure, Scratch, read_directory, rel, tell_skipped};

const DIRECTORY: &str = "TAKEBACK_LIMITS_DIRECTORY";

/// Reruns a test in this file as another user.
fn run_as_nobody(test: &str, directory: &Path) {
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(DIRECTORY, directory)
        .output()
        .expect("setpriv (util-linux) is needed for this test");
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
}

fn change_owner(path: &Path, uid: u32) {
    std::os::unix::fs::lchown(path, Some(uid), Some(uid)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        fs::read_dir(path).unwrap().for_each(|entry| change_owner(&entry.unwrap().path(), uid));
    }
}

#[test]
fn a_directory_of_another_user_stays_unchanged() {
    const TEST: &str = "limits::a_directory_of_another_user_stays_unchanged";
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let scratch = Scratch::at(Path::new(&directory));
        let text = fs::read_to_string(scratch.directory.path().join("target.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let part = |name: &str| json[name].clone();
        let capture = Capture {
            tree: serde_json::from_value(part("tree")).unwrap(),
            files: 0,
            uncovered: Vec::new(),
            unsettled: Vec::new(),
            unprivileged: Vec::new(),
            unapplied: Vec::new(),
            incomplete_index: false,
            damaged: Vec::new(),
            filter: serde_json::from_value(part("filter")).unwrap(),
        };
        let before = read_directory(&scratch.root);
        let failure = match scratch.try_restore(&capture, &[]) {
            Err(RestoreFailure::Restore(failure @ RestoreError::Io { .. })) => failure,
            other => panic!("{other:?}"),
        };
        assert_eq!(read_directory(&scratch.root), before);
        assert!(!scratch.journal());
        assert_eq!(failure.blocked_paths()[0].path, rel("theirs/y"));
        // All other paths can be restored.
        let skipped = scratch.restore_what_is_possible(&capture);
        assert_eq!(skipped, [rel("theirs/y"), rel("theirs")]);
        for path in ["a", "mine/x", "z"] {
            assert_eq!(scratch.read(path), "1", "{path}");
        }
        assert_eq!(scratch.read("theirs/y"), "2");
        return;
    }
    if !rustix::process::geteuid().is_root() {
        tell_skipped("only root can give files to another user");
        return;
    }
    let scratch = Scratch::new();
    for path in ["a", "mine/x", "theirs/y", "z"] {
        scratch.write(path, "1");
    }
    let capture = scratch.capture();
    for path in ["a", "mine/x", "theirs/y", "z"] {
        scratch.write(path, "2");
    }
    let target = serde_json::json!({ "tree": capture.tree, "filter": capture.filter });
    fs::write(scratch.directory.path().join("target.json"), target.to_string()).unwrap();
    change_owner(scratch.directory.path(), 65534);
    std::os::unix::fs::chown(scratch.path("theirs"), Some(0), Some(0)).unwrap();
    // Even the owner of this directory could not write to it without changing its mode.
    scratch.chmod("theirs", 0o555);
    scratch.chmod("mine", 0o555);
    fs::set_permissions(scratch.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    run_as_nobody(TEST, scratch.directory.path());
}

/// A small file system in memory, unmounted at the end.
struct Tmpfs(std::path::PathBuf);

impl Tmpfs {
    /// Mounts a file system. Returns `None` if the machine does not allow this. In that case, full
    /// disks are only simulated, by the random test.
    fn mount(path: &Path, size: &str) -> Option<Tmpfs> {
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(path)
            .status()
            .unwrap();
        status.success().then(|| Tmpfs(path.to_owned()))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_leaves_the_workspace_unchanged() {
    let scratch = Scratch::new();
    let Some(_tmpfs) = Tmpfs::mount(&scratch.root, "1m") else {
        tell_skipped("cannot mount: that needs root");
        return;
    };
    let text = |seed: u32, length: u32| -> String {
        (0..length).map(|n| format!("{}\n", n.wrapping_mul(seed))).collect()
    };
    scratch.write("large", text(3, 60_000));
    scratch.write("small", "1");
    let capture = scratch.capture();
    scratch.write("large", "gone");
    scratch.write("small", "2");
    scratch.write("filler", vec![7; 800 << 10]);
    let before = read_directory(&scratch.root);
    match scratch.try_restore(&capture, &["large", "small"]) {
        Err(RestoreFailure::Restore(RestoreError::Io { path, source })) => {
            assert_eq!(path, rel("large"));
            assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(read_directory(&scratch.root), before);
    scratch.remove("filler");
    scratch.restore(&capture, &[]);
    assert_eq!(scratch.read("small"), "1");
    assert_eq!(scratch.read("large"), text(3, 60_000));
}

#[test]
fn if_one_file_does_not_fit_on_the_disk_the_others_can_be_restored() {
    let scratch = Scratch::new();
    let Some(_tmpfs) = Tmpfs::mount(&scratch.root, "1m") else {
        tell_skipped("cannot mount: that needs root");
        return;
    };
    scratch.write("large", vec![b'1'; 600 << 10]);
    scratch.write("small", "1");
    let capture = scratch.capture();
    scratch.write("large", "gone");
    scratch.write("small", "2");
    scratch.write(".gitignore", "filler\n");
    scratch.write("filler", vec![7; 800 << 10]);
    assert_eq!(scratch.restore_what_is_possible(&capture), [rel("large")]);
    assert_eq!((scratch.read("small"), scratch.read("large")), ("1".into(), "gone".into()));
}

#[test]
fn a_later_mount_blocks_only_its_own_path() {
    let scratch = Scratch::new();
    scratch.write("a", "1");
    let capture = scratch.capture();
    scratch.write("a", "2");
    scratch.mkdir("mounted");
    let Some(_tmpfs) = Tmpfs::mount(&scratch.path("mounted"), "1m") else {
        tell_skipped("cannot mount: that needs root");
        return;
    };
    assert_eq!(scratch.restore_what_is_possible(&capture), [rel("mounted")]);
    assert_eq!(scratch.read("a"), "1");
}
