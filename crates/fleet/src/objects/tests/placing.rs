//! Workspaces that are placed on another machine.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use takeback_tree::{Oid, PinCopyError};

use super::machine::{Machine, all_files, find_workspace};
use crate::objects::{ObjectsError, Placed, PullPin};

const NOW: SystemTime = SystemTime::UNIX_EPOCH;

/// Pulls the workspace of the machine `first` into a directory, with all checkpoints. The directory
/// gets the files of `commit`.
fn place(
    reader: &Machine,
    bucket: &Path,
    commit: Oid,
    destination: &Path,
) -> Result<Placed, ObjectsError> {
    let objects = reader.in_directory(bucket);
    let mut pull = objects.pull(&find_workspace(&objects, "first"))?;
    let pins: Vec<PullPin> = pull.pins().to_vec();
    let commits: Vec<Oid> = pins.iter().map(|pin| pin.commit).collect();
    assert!(pull.fetch(&commits, &reader.store)?);
    let name = pins.iter().find(|pin| pin.commit == commit).unwrap();
    let name = takeback_tree::PinName { workspace: pull.workspace().clone(), seq: name.seq };
    let tree = pull.store().pin(&name)?.unwrap().tree;
    let now = NOW + Duration::from_secs(1_700_000_000);
    pull.place(&reader.store, &tree, &pins, destination, now)
}

fn machine_with_all_kinds() -> (Machine, Oid) {
    let mut machine = Machine::new("first");
    machine.write("a.txt", "first");
    machine.pin();
    machine.write("a.txt", "second");
    machine.write("bin/run.sh", "#!/bin/sh\n");
    machine.write("empty/.keep", "");
    machine.write(".env", "TOKEN=private");
    machine.write("name with ü and\nnewline", "odd");
    fs::remove_file(machine.project.join("empty/.keep")).unwrap();
    let script = machine.project.join("bin/run.sh");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o750)).unwrap();
    symlink("bin/run.sh", machine.project.join("link")).unwrap();
    symlink("/nowhere/at/all", machine.project.join("dangling")).unwrap();
    let commit = machine.pin();
    (machine, commit)
}

#[test]
fn a_workspace_arrives_byte_for_byte_with_its_history() {
    let bucket = tempfile::tempdir().unwrap();
    let (machine, commit) = machine_with_all_kinds();
    machine.upload(bucket.path()).unwrap();
    let reader = Machine::new("reader");
    let destination = reader.home.path().canonicalize().unwrap().join("work/shop");
    let placed = place(&reader, bucket.path(), commit, &destination).unwrap();
    assert_eq!((placed.checkpoints, placed.damaged.len()), (2, 0));
    // Compare the files with another program.
    let diff = std::process::Command::new("diff")
        .args(["--recursive", "--no-dereference"])
        .args([&machine.project, &destination])
        .output()
        .unwrap();
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
    assert!(destination.join("empty").is_dir());
    let mode = fs::metadata(destination.join("bin/run.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);

    let id = reader.store.workspace_id(&destination);
    let names = reader.store.pin_names(&id).unwrap();
    assert_eq!(names.iter().map(|name| name.seq).collect::<Vec<_>>(), [1, 2]);
    assert!(reader.store.verify(&|_, _| {}).unwrap().is_whole());
    // The history is pinned: a gc keeps it.
    reader.store.gc().unwrap();
    assert!(reader.store.verify(&|_, _| {}).unwrap().is_whole());
    let git = std::process::Command::new("git")
        .args(["cat-file", "-p", &format!("{commit}:a.txt")])
        .current_dir(reader.store.directory())
        .output()
        .unwrap();
    assert_eq!(git.stdout, b"second");
}

#[test]
fn a_pull_never_touches_existing_files() {
    let bucket = tempfile::tempdir().unwrap();
    let (machine, commit) = machine_with_all_kinds();
    machine.upload(bucket.path()).unwrap();
    let reader = Machine::new("reader");
    let destination = reader.home.path().canonicalize().unwrap().join("occupied");
    fs::create_dir(&destination).unwrap();
    fs::write(destination.join("a.txt"), "mine").unwrap();
    assert!(place(&reader, bucket.path(), commit, &destination).is_err());
    let files = all_files(&destination);
    assert_eq!(files, [("a.txt".to_owned(), b"mine".to_vec())]);
    let left: Vec<_> = fs::read_dir(destination.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_string_lossy().starts_with(".takeback"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    // The directory has not received the history of the pulled workspace.
    let id = reader.store.workspace_id(&destination);
    assert!(reader.store.pin_names(&id).unwrap().is_empty());
}

#[test]
fn a_pull_that_was_cut_off_before_the_directory_appeared_can_be_repeated() {
    let bucket = tempfile::tempdir().unwrap();
    let (machine, commit) = machine_with_all_kinds();
    machine.upload(bucket.path()).unwrap();
    let reader = Machine::new("reader");
    let destination = reader.home.path().canonicalize().unwrap().join("shop-2");
    place(&reader, bucket.path(), commit, &destination).unwrap();
    // Simulate a process that was killed after it had created the pins.
    fs::remove_dir_all(&destination).unwrap();
    let placed = place(&reader, bucket.path(), commit, &destination).unwrap();
    assert_eq!(placed.checkpoints, 0, "they are there already");
    assert!(destination.join("a.txt").exists());
}

#[test]
fn the_history_of_another_directory_is_not_mixed_with_the_pulled_one() {
    let bucket = tempfile::tempdir().unwrap();
    let (machine, commit) = machine_with_all_kinds();
    machine.upload(bucket.path()).unwrap();
    let mut reader = Machine::new("reader");
    reader.write("own.txt", "own");
    reader.pin();
    fs::remove_dir_all(&reader.project).unwrap();
    let destination = reader.project.clone();
    let refused = place(&reader, bucket.path(), commit, &destination);
    assert!(matches!(refused, Err(ObjectsError::Copy(PinCopyError::Occupied(_)))), "{refused:?}");
    assert!(!destination.exists());
    let id = reader.store.workspace_id(&destination);
    assert_eq!(reader.store.pin_names(&id).unwrap().len(), 1);
}
