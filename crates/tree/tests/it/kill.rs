//! `kill -9` during a restore, at every step and at random moments: the next command finishes or
//! reverts the restore.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use takeback_tree::fault::{self, Fault};
use takeback_tree::{Capture, Recovery};

use crate::support::{Scratch, read_directory};

type Looks = BTreeMap<Vec<u8>, (u32, Vec<u8>)>;

/// The environment variable that passes the scratch directory to a child process.
const DIRECTORY: &str = "TAKEBACK_KILL_DIRECTORY";
/// The environment variable with the number of the fault point at which a child is killed. It is
/// unset if the child is killed from outside.
const POINT: &str = "TAKEBACK_KILL_POINT";

/// Creates a workspace in one state and a capture of another state. Returns both states.
fn wrecked_workspace() -> (Scratch, Looks, Looks) {
    let scratch = Scratch::new();
    scratch.write("keep", "same");
    scratch.write("edit", "1");
    scratch.write("dir/a", "1");
    scratch.write("dir/b", "1");
    scratch.write("swap", "a file");
    scratch.write("becomes/file", "1");
    scratch.mkdir("empty");
    scratch.chmod("empty", 0o711);
    scratch.link("keep", "link");
    let before = read_directory(&scratch.root);
    let capture = scratch.capture();
    scratch.write("edit", "2");
    scratch.chmod("keep", 0o600);
    scratch.remove("dir");
    scratch.remove("swap");
    scratch.write("swap/inner/file", "x");
    scratch.remove("becomes");
    scratch.write("becomes", "x");
    scratch.chmod("empty", 0o500);
    scratch.remove("link");
    scratch.link("edit", "link");
    scratch.write("new/file", "x");
    let after = read_directory(&scratch.root);
    write_target(&scratch, &capture);
    (scratch, before, after)
}

/// Writes the target to a file that the child reads.
fn write_target(scratch: &Scratch, capture: &Capture) {
    let target = serde_json::json!({
        "tree": capture.tree, "filter": capture.filter, "uncovered": capture.uncovered,
    });
    fs::write(scratch.directory.path().join("target.json"), target.to_string()).unwrap();
}

/// Runs a restore in a process that is killed at this point, if it reaches the point.
pub fn killed_restore(scratch: &Scratch, capture: &Capture, point: usize) {
    write_target(scratch, capture);
    let _ =
        spawn_child("kill::a_restore_killed_at_every_step_is_settled", scratch, Some(point)).wait();
}

fn read_target(directory: &Path) -> Capture {
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(directory.join("target.json")).unwrap()).unwrap();
    let part = |name: &str| json[name].clone();
    Capture {
        tree: serde_json::from_value(part("tree")).unwrap(),
        files: 0,
        uncovered: serde_json::from_value(part("uncovered")).unwrap(),
        unsettled: Vec::new(),
        unprivileged: Vec::new(),
        unapplied: Vec::new(),
        incomplete_index: false,
        damaged: Vec::new(),
        filter: serde_json::from_value(part("filter")).unwrap(),
    }
}

fn spawn_child(test: &str, scratch: &Scratch, point: Option<usize>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(DIRECTORY, scratch.directory.path());
    if let Some(point) = point {
        command.env(POINT, point.to_string());
    }
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// True if the child was killed, false if it exited normally.
fn was_killed(mut child: Child) -> bool {
    let status = child.wait().unwrap();
    assert!(status.success() || status.signal() == Some(9), "{status:?}");
    status.signal() == Some(9)
}

/// Opens the scratch directory if this process is a child that is to be killed.
fn as_child() -> Option<Scratch> {
    let directory = std::env::var_os(DIRECTORY)?;
    let scratch = Scratch::at(Path::new(&directory));
    if let Ok(point) = std::env::var(POINT) {
        fault::arm(point.parse().unwrap(), Fault::Kill, false);
    }
    Some(scratch)
}

/// Checks that the next command brings the workspace to one of the two states and leaves nothing
/// behind.
fn assert_settled(scratch: &Scratch, before: &Looks, after: &Looks, point: usize) {
    let workspace = scratch.store.workspace(&scratch.root, &Default::default()).unwrap();
    let lock = workspace.lock().unwrap();
    if let Some(Recovery::Failed(error)) = lock.recovery() {
        panic!("point {point}: {error}");
    }
    drop(lock);
    let now = read_directory(&scratch.root);
    assert!(now == *before || now == *after, "point {point}: {now:#?}");
    scratch.fsck();
    let capture = read_target(scratch.directory.path());
    scratch.restore(&capture, &[]);
    assert_eq!(read_directory(&scratch.root), *before, "point {point}");
}

#[test]
fn a_restore_killed_at_every_step_is_settled() {
    const TEST: &str = "kill::a_restore_killed_at_every_step_is_settled";
    if let Some(scratch) = as_child() {
        scratch.restore(&read_target(scratch.directory.path()), &[]);
        return;
    }
    let mut point = 0;
    loop {
        let (scratch, before, after) = wrecked_workspace();
        let killed = was_killed(spawn_child(TEST, &scratch, Some(point)));
        assert_settled(&scratch, &before, &after, point);
        if !killed {
            break;
        }
        point += 1;
    }
    assert!(point > 30, "only {point} points were passed");
}

#[test]
fn a_recovery_killed_at_every_step_is_settled() {
    const TEST: &str = "kill::a_recovery_killed_at_every_step_is_settled";
    if let Some(scratch) = as_child() {
        if !scratch.journal() {
            scratch.restore(&read_target(scratch.directory.path()), &[]);
        }
        let workspace = scratch.store.workspace(&scratch.root, &Default::default()).unwrap();
        drop(workspace.lock().unwrap());
        return;
    }
    for first in (0..60).step_by(5) {
        let (scratch, before, after) = wrecked_workspace();
        if !was_killed(spawn_child(TEST, &scratch, Some(first))) {
            break;
        }
        let mut second = 0;
        while scratch.journal() && was_killed(spawn_child(TEST, &scratch, Some(second))) {
            second += 3;
        }
        assert_settled(&scratch, &before, &after, first);
    }
}

#[test]
fn a_restore_killed_at_random_moments_is_settled() {
    const TEST: &str = "kill::a_restore_killed_at_random_moments_is_settled";
    if let Some(scratch) = as_child() {
        let capture = read_target(scratch.directory.path());
        loop {
            let plan = scratch.restore(&capture, &[]);
            scratch.restore(&scratch.as_capture(&plan), &[]);
        }
    }
    let (scratch, before, after) = wrecked_workspace();
    for round in 0..20u64 {
        let mut child = spawn_child(TEST, &scratch, None);
        // The pause only chooses a random moment for the kill. The test is not waiting for
        // anything.
        std::thread::sleep(Duration::from_micros(3_000 + round * 2_711 % 40_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let workspace = scratch.store.workspace(&scratch.root, &Default::default()).unwrap();
        drop(workspace.lock().unwrap());
        let now = read_directory(&scratch.root);
        assert!(now == before || now == after, "round {round}: {now:#?}");
    }
    scratch.fsck();
    let workspace = scratch.store.workspace(&scratch.root, &Default::default()).unwrap();
    for name in scratch.store.pin_names(workspace.id()).unwrap() {
        scratch.store.pin(&name).unwrap().unwrap();
    }
}
