//! Flipped bytes in the store: checkpoints whose files are still on disk become complete again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use takeback_tree::ForbiddenRoots;
use takeback_undo::history::{CheckpointOptions, take_checkpoint};
use takeback_undo::{OpenOptions, Opened, Settings, hook};

use crate::support::Scratch;

fn store(scratch: &Scratch) -> PathBuf {
    scratch.base().join("home/checkpoints/store")
}

fn git(scratch: &Scratch, arguments: &[&str]) -> String {
    let store = store(scratch);
    let output = Command::new("git").arg("--git-dir").arg(&store).args(arguments).output().unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (said(&output.stdout), said(&output.stderr));
    assert!(output.status.success(), "git {arguments:?}: {stdout}{stderr}");
    stdout
}

fn list_packs(scratch: &Scratch) -> Vec<PathBuf> {
    let entries = fs::read_dir(store(scratch).join("objects/pack")).unwrap();
    let mut packs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    packs.retain(|path| path.extension().is_some_and(|extension| extension == "pack"));
    packs.sort();
    packs
}

/// Flips a bit of a file, which may be read-only.
fn flip(path: &Path, offset: usize) {
    let mut content = fs::read(path).unwrap();
    content[offset] ^= 4;
    fs::remove_file(path).unwrap();
    fs::write(path, content).unwrap();
}

/// Lists the ids of the objects in the newest state.
fn list_present_objects(scratch: &Scratch) -> Vec<String> {
    let refs = git(scratch, &["for-each-ref", "--sort=refname", "--format=%(objectname)"]);
    let newest = format!("{}^{{tree}}", refs.lines().last().unwrap());
    let listed = git(scratch, &["ls-tree", "-r", "-t", "--format=%(objectname)", &newest]);
    let root = git(scratch, &["rev-parse", &newest]);
    listed.lines().chain(root.lines()).map(str::to_owned).collect()
}

/// Finds an object's pack, and an offset within the object's compressed data.
fn find_object(scratch: &Scratch, oid: &str) -> (PathBuf, usize) {
    for pack in list_packs(scratch) {
        let listed = git(scratch, &["verify-pack", "-v", pack.to_str().unwrap()]);
        for line in listed.lines().filter(|line| line.starts_with(oid)) {
            let numbers =
                line.split_whitespace().skip(3).map(|word| word.parse::<usize>().unwrap());
            if let [length, offset] = numbers.take(2).collect::<Vec<_>>()[..] {
                return (pack, offset + length / 2);
            }
        }
    }
    panic!("no pack has {oid}");
}

/// Flips a bit in the stored copy of an object.
fn damage(scratch: &Scratch, oid: &str) {
    let (pack, offset) = find_object(scratch, oid);
    flip(&pack, offset);
}

/// Checks with git that the store is intact and that every checkpoint has all its files.
fn assert_whole(scratch: &Scratch, what: &str) {
    git(scratch, &["fsck", "--strict", "--full"]);
    let refs = git(scratch, &["for-each-ref", "--format=%(objectname)"]);
    assert!(refs.lines().count() >= 3, "{what}");
    for id in refs.lines() {
        git(scratch, &["archive", "--format=tar", "-o", "/dev/null", id]);
    }
    let report = scratch.opened.store().unwrap().verify(&|_, _| {}).unwrap();
    assert!(report.packs.is_empty(), "{what}: {:?}", report.packs);
}

/// Creates a workspace in which a turn changed one of several files.
fn with_files(count: usize) -> Scratch {
    let scratch = Scratch::new();
    fs::create_dir(scratch.project().join("src")).unwrap();
    for number in 0..count {
        scratch.write(&format!("src/f{number}"), &format!("precious {number}\n").repeat(9));
    }
    scratch.begin_turn("s", "one");
    let call = scratch.begin_script("s", "c1", "make");
    scratch.write("changed", "1\n");
    scratch.end_call("s", call);
    scratch.end_turn("s");
    scratch
}

fn take_manual_checkpoint(scratch: &Scratch) {
    let options = CheckpointOptions { reason: Some("by hand".into()), ..Default::default() };
    let store = scratch.opened.store().unwrap();
    let workspace = store.workspace(&scratch.project(), &ForbiddenRoots::default()).unwrap();
    take_checkpoint(&scratch.opened, &workspace, &options).unwrap();
}

/// Opens the home again, as another process would.
fn reopen(scratch: &mut Scratch) {
    scratch.opened = Scratch::open(scratch.base());
}

fn play_turn(scratch: &mut Scratch, prompt: &str) {
    reopen(scratch);
    scratch.begin_turn("s", prompt);
    let call = scratch.begin_script("s", prompt, "make");
    scratch.write("changed", prompt);
    scratch.end_call("s", call);
    reopen(scratch);
    scratch.end_turn("s");
    reopen(scratch);
}

#[test]
fn a_checkpoint_that_relied_on_flipped_bytes_is_whole_after_the_next_turn() {
    let count = list_present_objects(&with_files(16)).len();
    assert_eq!(count, 16 + 3);
    // Object 0 is left out: it is the file that the turn changes.
    for number in 1..count {
        let mut scratch = with_files(16);
        damage(&scratch, &list_present_objects(&scratch)[number]);
        reopen(&mut scratch);
        take_manual_checkpoint(&scratch);
        play_turn(&mut scratch, "two");
        assert_whole(&scratch, &format!("object {number}"));
    }
}

#[test]
fn the_next_capture_of_a_small_workspace_notices_flipped_bytes() {
    for number in 0..list_present_objects(&with_files(3)).len() {
        let mut scratch = with_files(3);
        damage(&scratch, &list_present_objects(&scratch)[number]);
        reopen(&mut scratch);
        take_manual_checkpoint(&scratch);
        let failures = scratch.opened.failures();
        assert!(failures.iter().any(|failure| failure.message.contains("damaged")), "{failures:?}");
        // The file is complete in the new checkpoint, even if it is deleted before the next turn.
        fs::remove_dir_all(scratch.project().join("src")).unwrap();
        scratch.roll_back("1");
        assert_eq!(scratch.read("src/f2"), "precious 2\n".repeat(9), "object {number}");
    }
}

#[test]
fn flipped_bytes_are_noticed_when_a_session_begins() {
    for number in 0..list_present_objects(&with_files(12)).len() {
        let mut scratch = with_files(12);
        damage(&scratch, &list_present_objects(&scratch)[number]);
        reopen(&mut scratch);
        hook::warm_workspace(&scratch.opened, &scratch.project()).unwrap();
        reopen(&mut scratch);
        let call = scratch.begin_script("s", "c2", "make");
        fs::remove_dir_all(scratch.project().join("src")).unwrap();
        scratch.end_call("s", call);
        scratch.roll_back("1");
        let content = |number: usize| format!("precious {number}\n").repeat(9);
        (0..12).for_each(|number| {
            assert_eq!(scratch.read(&format!("src/f{number}")), content(number));
        });
    }
}

/// Another workspace in the same store has also lost a file, and is not used afterwards.
#[test]
fn a_repair_heals_all_workspaces() {
    let mut scratch = with_files(3);
    let other = scratch.base().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("Makefile"), "precious\n".repeat(9)).unwrap();
    let store = scratch.opened.store().unwrap();
    let workspace = store.workspace(&other, &ForbiddenRoots::default()).unwrap();
    take_checkpoint(&scratch.opened, &workspace, &CheckpointOptions::default()).unwrap();
    drop(workspace);
    let file = other.join("Makefile");
    damage(&scratch, git(&scratch, &["hash-object", file.to_str().unwrap()]).trim());
    play_turn(&mut scratch, "two");
    fs::remove_file(other.join("Makefile")).unwrap();
    assert_whole(&scratch, "the other workspace");
}

/// The capture that heals another workspace has the same limit as any other capture.
#[test]
fn a_repair_does_not_capture_more_than_the_limit() {
    let mut scratch = with_files(3);
    let other = scratch.base().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("Makefile"), "precious\n".repeat(9)).unwrap();
    let store = scratch.opened.store().unwrap();
    let workspace = store.workspace(&other, &ForbiddenRoots::default()).unwrap();
    take_checkpoint(&scratch.opened, &workspace, &CheckpointOptions::default()).unwrap();
    drop(workspace);
    // The files that are added after the checkpoint exceed the size cap of the store.
    let mut state = 1u64;
    for number in 0..3 {
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        });
        fs::write(other.join(format!("{number}")), noise.take(1 << 20).collect::<Vec<u8>>())
            .unwrap();
    }
    let options = Scratch::options(scratch.base());
    let settings = Settings { max_total_size_mb: 1, ..Settings::default() };
    scratch.opened = Opened::new(OpenOptions { settings, ..options });
    damage(&scratch, &list_present_objects(&scratch)[0]);
    hook::warm_workspace(&scratch.opened, &scratch.project()).unwrap();
    let sizes = list_packs(&scratch).into_iter().map(|pack| fs::metadata(pack).unwrap().len());
    assert!(sizes.sum::<u64>() < 1 << 20);
}

/// A file outside all projects is a workspace of its own.
#[test]
fn a_repair_heals_single_files() {
    let mut scratch = with_files(3);
    let file = scratch.base().canonicalize().unwrap().join("profile");
    fs::write(&file, "precious\n".repeat(9)).unwrap();
    let store = scratch.opened.store().unwrap();
    let workspace = store.single_file(&file, &ForbiddenRoots::default()).unwrap();
    take_checkpoint(&scratch.opened, &workspace, &CheckpointOptions::default()).unwrap();
    drop(workspace);
    damage(&scratch, git(&scratch, &["hash-object", file.to_str().unwrap()]).trim());
    play_turn(&mut scratch, "two");
    fs::remove_file(&file).unwrap();
    assert_whole(&scratch, "the single file");
}
