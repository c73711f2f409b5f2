//! Attachments: bytes that live as long as the pin that they belong to.

use std::fs;
use std::time::SystemTime;

use takeback_tree::{
    CaptureOptions, ForbiddenRoots, ObjectError, ObjectKind, Oid, Pin, PinError, PinState,
    StoreError,
};

use crate::support::{Scratch, git};

/// Captures the workspace and pins the state with an attachment.
fn capture(scratch: &Scratch, content: &[u8]) -> Pin {
    let workspace = scratch.store.workspace(&scratch.root, &ForbiddenRoots::default()).unwrap();
    let mut lock = workspace.lock().unwrap();
    let now = SystemTime::now();
    let options = CaptureOptions { rules: &scratch.rules, named: &[], swept: &[], now };
    let tree = lock.capture(&options).unwrap().tree;
    let attachment = lock.add_attachment(content).unwrap();
    let pin =
        lock.pin_with_attachment(tree, now, "with an attachment\n", Some(attachment)).unwrap();
    lock.finish(now).unwrap();
    assert_eq!(scratch.store.pin(&pin.name).unwrap().as_ref(), Some(&pin));
    assert_eq!(pin.attachment, Some(attachment));
    pin
}

fn objects(scratch: &Scratch) -> usize {
    let all = scratch.git(&["cat-file", "--batch-all-objects", "--batch-check"]);
    String::from_utf8(all).unwrap().lines().count()
}

/// Generates the content of an index, which changes little from one round to the next.
fn index(round: usize) -> Vec<u8> {
    let line = |number: usize| {
        let version = if number == round { "changed" } else { "same" };
        format!("{:016x} file-{number} {version}\n", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    };
    (0..500).map(line).collect::<String>().into_bytes()
}

#[test]
fn attachments_can_be_read_back_and_are_shared() {
    let scratch = Scratch::new();
    scratch.write("a", "1");
    let first = capture(&scratch, b"attached\0\xff");
    let id = first.attachment.unwrap();
    assert_eq!(scratch.store.attachment(&id).unwrap(), b"attached\0\xff");
    // These are the commit, tree and file of the pin, and the commit, tree and blob of the
    // attachment.
    assert_eq!(objects(&scratch), 6);
    let blob = Oid::of(ObjectKind::Blob, b"attached\0\xff").to_string();
    let entries: Vec<_> = scratch.raw_tree(id).into_iter().collect();
    assert_eq!(entries, [(b"attachment".to_vec(), ("100600".to_owned(), blob))]);

    scratch.write("a", "2");
    let second = capture(&scratch, b"attached\0\xff");
    assert_eq!(second.attachment, first.attachment);
    assert_eq!(objects(&scratch), 9, "pin, tree and file are new");
    let third = capture(&scratch, b"");
    assert_eq!(scratch.store.attachment(&third.attachment.unwrap()).unwrap(), b"");
    scratch.fsck();
    assert!(scratch.store.verify(&|_, _| {}).unwrap().is_whole());
}

#[test]
fn a_known_attachment_is_not_written_again() {
    let scratch = Scratch::new();
    scratch.write("a", "1");
    let id = capture(&scratch, b"known").attachment.unwrap();
    let packs = || fs::read_dir(scratch.store.directory().join("objects/pack")).unwrap().count();
    let before = packs();
    let workspace = scratch.store.workspace(&scratch.root, &ForbiddenRoots::default()).unwrap();
    let mut lock = workspace.lock().unwrap();
    assert_eq!(lock.add_attachment(b"known").unwrap(), id);
    lock.finish(SystemTime::now()).unwrap();
    assert_eq!(packs(), before);
}

#[test]
fn attachments_live_as_long_as_their_pins() {
    let scratch = Scratch::in_memory();
    let mut pins = Vec::new();
    for round in 0..30 {
        scratch.write("a", format!("{round}"));
        pins.push(capture(&scratch, &index(round)));
    }
    let check = |pins: &[Pin]| {
        for pin in pins {
            let round: usize = pin.name.seq as usize - 1;
            let found = scratch.store.attachment(&pin.attachment.unwrap()).unwrap();
            assert_eq!(found, index(round));
        }
        assert!(scratch.store.verify(&|_, _| {}).unwrap().is_whole());
        scratch.fsck();
    };
    let before = scratch.store.gc().unwrap();
    check(&pins);
    // Each attachment is stored as a delta from the next one.
    assert!(before.bytes_after < before.bytes_before / 4, "{before:?}");

    for pin in pins.drain(..10) {
        scratch.store.unpin(&pin.name).unwrap();
    }
    scratch.store.merge().unwrap();
    check(&pins);
    let outcome = scratch.store.gc().unwrap();
    // These are the commit, tree and file of each pin, and the commit, tree and blob of its
    // attachment.
    assert_eq!(outcome.objects_dropped, 60);
    check(&pins);
    let gone = scratch.store.attachment(&Oid::of(ObjectKind::Blob, &index(0)));
    assert!(matches!(gone, Err(ObjectError::Missing(_))), "{gone:?}");
}

#[test]
fn git_also_clones_attachments() {
    let scratch = Scratch::new();
    scratch.write("a", "1");
    let id = capture(&scratch, b"attached").attachment.unwrap();
    let clone = scratch.directory.path().join("clone");
    let from = scratch.store.directory().to_str().unwrap().to_owned();
    git(scratch.directory.path(), &["clone", "-q", "--mirror", &from, clone.to_str().unwrap()]);
    let content = git(&clone, &["cat-file", "blob", &format!("{id}:attachment")]);
    assert_eq!(content, b"attached");
}

#[test]
fn an_unknown_attachment_is_refused() {
    let scratch = Scratch::new();
    let tree = scratch.capture().tree;
    let workspace = scratch.store.workspace(&scratch.root, &ForbiddenRoots::default()).unwrap();
    let mut lock = workspace.lock().unwrap();
    let unknown = Oid::of(ObjectKind::Blob, b"nowhere");
    let refused = lock.pin_with_attachment(tree, SystemTime::now(), "x\n", Some(unknown));
    assert!(
        matches!(
            &refused,
            Err(PinError::Store(StoreError::Object(ObjectError::Missing(oid)))) if *oid == unknown
        ),
        "{refused:?}"
    );
}

#[test]
fn a_lost_attachment_is_reported_and_stops_gc() {
    let scratch = Scratch::new();
    scratch.write("a", "1");
    let whole = scratch.capture();
    let pack = |scratch: &Scratch| -> Vec<_> {
        let packs = fs::read_dir(scratch.store.directory().join("objects/pack")).unwrap();
        packs.map(|entry| entry.unwrap().path()).collect()
    };
    let before = pack(&scratch);
    let workspace = scratch.store.workspace(&scratch.root, &ForbiddenRoots::default()).unwrap();
    let mut lock = workspace.lock().unwrap();
    let attachment = lock.add_attachment(b"to be lost").unwrap();
    lock.finish(SystemTime::now()).unwrap();
    let lost: Vec<_> = pack(&scratch).into_iter().filter(|path| !before.contains(path)).collect();
    let mut lock = workspace.lock().unwrap();
    let now = SystemTime::now();
    let pin = lock.pin_with_attachment(whole.tree, now, "x\n", Some(attachment)).unwrap();
    lock.finish(now).unwrap();
    drop(workspace);
    for path in lost {
        fs::remove_file(path).unwrap();
    }
    let scratch = Scratch::at(scratch.directory.path());
    let state = |scratch: &Scratch| {
        let report = scratch.store.verify(&|_, _| {}).unwrap();
        assert!(!report.is_whole());
        let found = report.pins.into_iter().find(|found| found.pin.as_ref() == Some(&pin.name));
        found.unwrap().state
    };
    let lost = PinState::Partly { lost: Vec::new(), count: 0, attachment: true };
    assert_eq!(state(&scratch), lost);
    assert!(scratch.store.gc().is_err());
    scratch.store.repair(&|_, _| {}).unwrap();
    assert_eq!(state(&scratch), lost, "there is nothing to repair it from");
    // The tree is still intact, and attaching the same bytes makes the pin intact again.
    assert_eq!(scratch.files(pin.tree), ["a"]);
    capture(&scratch, b"to be lost");
    assert!(scratch.store.verify(&|_, _| {}).unwrap().is_whole());
}
