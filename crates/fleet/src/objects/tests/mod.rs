//! Uploads to a directory, and reading them back.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod faults;
mod machine;
mod placing;
mod secrets;

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use takeback_tree::PinName;

use self::machine::{Machine, WatchedBucket, all_files, find_workspace, pull_all, upload};
use super::directory::DirectoryBucket;
use super::{CollectOptions, Collected};

/// Options for deleting without a grace period.
const AT_ONCE: CollectOptions =
    CollectOptions { grace: Duration::ZERO, dry_run: false, earlier_stores: false };

/// Fails unless the pulled workspace has exactly the pins of the machine, and git finds no fault in
/// them.
fn assert_pulled(machine: &Machine, bucket: &std::path::Path) {
    let reader = Machine::new("reader");
    let objects = reader.in_directory(bucket);
    let pull = pull_all(&objects, &machine.name, &reader.store).expect("nothing is missing");
    let id = machine.store.workspace_id(&machine.project);
    let expected: Vec<_> = machine
        .store
        .pin_names(&id)
        .unwrap()
        .iter()
        .map(|name| (name.seq, machine.store.pin_id(name).unwrap().unwrap()))
        .collect();
    let pulled: Vec<_> = pull.pins().iter().map(|pin| (pin.seq, pin.commit)).collect();
    assert_eq!(pulled, expected);
    let report = pull.store().verify(&|_, _| {}).unwrap();
    assert!(report.is_whole(), "{report:?}");
    let git = std::process::Command::new("git")
        .args(["fsck", "--strict", "--full"])
        .current_dir(pull.store().directory())
        .output()
        .unwrap();
    assert!(git.status.success(), "{}", String::from_utf8_lossy(&git.stderr));
}

#[test]
fn an_uploaded_history_can_be_pulled_whole() {
    let bucket = tempfile::tempdir().unwrap();
    let mut machine = Machine::new("first");
    for round in 0..5 {
        machine.write("src/lib.rs", format!("fn main() {{}}\n{round}\n").repeat(100));
        machine.write(&format!("notes/{round}.md"), format!("note {round}"));
        machine.write(".env", format!("TOKEN={round}"));
        machine.pin();
    }
    let report = machine.upload(bucket.path()).unwrap();
    assert_eq!((report.checkpoints, report.packs, report.damaged), (5, 2, 0));
    assert_pulled(&machine, bucket.path());

    assert_eq!(machine.upload(bucket.path()).unwrap().checkpoints, 0, "nothing is left");
    machine.write("src/lib.rs", "changed\n");
    machine.pin();
    let report = machine.upload(bucket.path()).unwrap();
    assert_eq!(report.checkpoints, 1);
    assert!(report.bytes < 20_000, "only what is new is uploaded: {}", report.bytes);
    assert_pulled(&machine, bucket.path());
    let verified = machine.in_directory(bucket.path()).verify(&|_| {}).unwrap();
    assert!(verified.is_whole() && verified.checkpoints == 6, "{verified:?}");
    assert!(verified.strangers.is_empty(), "{verified:?}");
}

#[test]
fn uploading_changes_nothing_in_the_local_store() {
    let bucket = tempfile::tempdir().unwrap();
    let mut machine = Machine::new("first");
    machine.write("a.txt", "one");
    machine.pin();
    let before = all_files(machine.store.directory());
    machine.upload(bucket.path()).unwrap();
    assert!(all_files(machine.store.directory()) == before);
}

#[test]
fn many_small_packs_are_merged_and_the_old_ones_go_later() {
    let bucket = tempfile::tempdir().unwrap();
    let mut machine = Machine::new("first");
    for round in 0..40 {
        machine.write("a.txt", format!("{round}\n").repeat(50));
        machine.pin();
        machine.upload(bucket.path()).unwrap();
    }
    let objects = machine.in_directory(bucket.path());
    let inventory = objects.read_inventory().unwrap();
    let used = inventory.packs.iter().filter(|pack| pack.gone.is_none()).count();
    assert!(used <= 26, "{used}");
    assert!(inventory.packs.len() >= 40, "nothing is deleted yet");
    assert_pulled(&machine, bucket.path());

    let kept = CollectOptions { grace: Duration::from_secs(3600), ..AT_ONCE };
    assert_eq!(objects.collect(&machine.store, &kept).unwrap().packs, 0, "the grace period");
    let collected = objects.collect(&machine.store, &AT_ONCE).unwrap();
    assert!(collected.packs >= 14 && collected.checkpoints == 0, "{collected:?}");
    assert_pulled(&machine, bucket.path());
    let again = objects.collect(&machine.store, &AT_ONCE).unwrap();
    assert_eq!(again, Collected::default(), "nothing is left to delete");
    machine.write("a.txt", "the end");
    machine.pin();
    machine.upload(bucket.path()).unwrap();
    assert_pulled(&machine, bucket.path());
}

#[test]
fn a_deleted_checkpoint_can_be_pulled_until_its_grace_period_ends() {
    let bucket = tempfile::tempdir().unwrap();
    let mut machine = Machine::new("first");
    machine.write("a.txt", "first content, which only the first checkpoint has");
    machine.pin();
    machine.upload(bucket.path()).unwrap();
    machine.write("a.txt", "second");
    machine.pin();
    machine.upload(bucket.path()).unwrap();
    let id = machine.store.workspace_id(&machine.project);
    machine.store.unpin(&PinName { workspace: id, seq: 1 }).unwrap();
    machine.store.gc().unwrap();

    let objects = machine.in_directory(bucket.path());
    let dry = CollectOptions { dry_run: true, ..AT_ONCE };
    let before = all_files(bucket.path());
    assert_eq!(objects.collect(&machine.store, &dry).unwrap().checkpoints, 1);
    assert!(all_files(bucket.path()) == before, "a dry run changes nothing");

    let kept = CollectOptions { grace: Duration::from_secs(3600), ..AT_ONCE };
    let collected = objects.collect(&machine.store, &kept).unwrap();
    assert_eq!((collected.checkpoints, collected.waiting_checkpoints), (0, 1));
    let inventory = objects.read_inventory().unwrap();
    assert_eq!((inventory.refs.len(), inventory.gone_refs.len()), (2, 1));
    assert_eq!(inventory.packs.len(), 2, "the packs of both are there");

    let collected = objects.collect(&machine.store, &AT_ONCE).unwrap();
    assert_eq!((collected.checkpoints, collected.packs), (1, 1), "{collected:?}");
    assert_pulled(&machine, bucket.path());
}

#[test]
fn a_pack_with_a_mark_is_not_relied_on_by_later_uploads() {
    let bucket = tempfile::tempdir().unwrap();
    let mut machine = Machine::new("first");
    machine.write("a.txt", "content that comes back");
    machine.pin();
    machine.upload(bucket.path()).unwrap();
    let id = machine.store.workspace_id(&machine.project);
    machine.store.unpin(&PinName { workspace: id, seq: 1 }).unwrap();
    let objects = machine.in_directory(bucket.path());
    let kept = CollectOptions { grace: Duration::from_secs(3600), ..AT_ONCE };
    assert_eq!(objects.collect(&machine.store, &kept).unwrap().waiting_packs, 1);
    // Capture the same content again while its pack waits to be deleted.
    machine.pin();
    machine.upload(bucket.path()).unwrap();
    objects.collect(&machine.store, &AT_ONCE).unwrap();
    assert_pulled(&machine, bucket.path());
}

#[test]
fn the_bucket_is_hardly_larger_than_the_store() {
    let bucket = tempfile::tempdir().unwrap();
    let mut machine = Machine::new("first");
    for number in 0..60 {
        machine.write(&format!("src/{number}.rs"), source_text(number, 0).repeat(6));
    }
    machine.write("image.bin", noise(300_000));
    for round in 0..30 {
        machine.write(&format!("src/{}.rs", round % 60), source_text(round, round).repeat(6));
        machine.write(".env", format!("TOKEN={round}"));
        machine.pin();
        if round % 10 == 9 {
            machine.upload(bucket.path()).unwrap();
        }
    }
    machine.store.gc().unwrap();
    machine.upload(bucket.path()).unwrap();
    let objects = machine.in_directory(bucket.path());
    objects.collect(&machine.store, &AT_ONCE).unwrap();
    let size = |files: Vec<(String, Vec<u8>)>| -> usize { files.iter().map(|it| it.1.len()).sum() };
    let local = size(all_files(&machine.store.directory().join("objects/pack")));
    let remote = size(all_files(bucket.path()));
    assert_pulled(&machine, bucket.path());
    let allowed = local + local / 10 + (128 << 10);
    assert!(remote <= allowed, "{remote} bytes in the bucket, {local} in the store");
}

#[test]
fn packs_are_uploaded_while_others_are_built_so_few_need_room_at_a_time() {
    let bucket = tempfile::tempdir().unwrap();
    let mut machine = Machine::new("first");
    let content = noise(10 * 700_000);
    for (number, part) in content.chunks(700_000).enumerate() {
        machine.write(&format!("{number}.bin"), part);
    }
    machine.write(".env", "TOKEN=one");
    machine.pin();
    let staging = machine.home.path().join("fleet/upload");
    let most = Arc::new(AtomicUsize::new(0));
    let watched = WatchedBucket {
        inner: DirectoryBucket::open(bucket.path(), None).unwrap(),
        on_create: {
            let most = most.clone();
            Box::new(move || {
                let names = fs::read_dir(&staging).into_iter().flatten().flatten();
                let packs = names.filter(|it| it.path().extension().is_some_and(|it| it == "pack"));
                most.fetch_max(packs.count(), Ordering::Relaxed);
            })
        },
    };
    let report = upload(&machine.objects(Box::new(watched)), &machine.store).unwrap();
    assert_eq!(report.packs, 11);
    // One pack is being sent, two are ready, and one waits until there is room for another ready
    // pack.
    assert!(most.load(Ordering::Relaxed) <= 4, "{most:?}");
    assert_pulled(&machine, bucket.path());
}

fn source_text(number: u64, round: u64) -> String {
    let mut text = String::new();
    for line in 0..40 {
        text.push_str(&format!(
            "    let value_{line} = compute({number}, {}, {line});\n",
            line * 7
        ));
    }
    text.push_str(&format!("// {round}\n"));
    text
}

/// Bytes that do not compress.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x1234_5678_u64;
    let next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn a_pull_downloads_only_the_packs_that_are_needed() {
    let bucket = tempfile::tempdir().unwrap();
    let mut machine = Machine::new("first");
    machine.write("small.txt", "small");
    let first = machine.pin();
    machine.upload(bucket.path()).unwrap();
    machine.write("large.bin", noise(2_000_000));
    machine.pin();
    machine.upload(bucket.path()).unwrap();
    let reader = Machine::new("reader");
    let objects = reader.in_directory(bucket.path());
    let mut pull = objects.pull(&find_workspace(&objects, "first")).unwrap();
    let for_records = pull.bytes();
    assert!(pull.fetch(&[first], &reader.store).unwrap());
    assert_eq!(pull.bytes(), for_records, "the first checkpoint needs no further pack");

    // Objects that the reader's own store has are not downloaded.
    let mut own = objects.pull(&find_workspace(&objects, "first")).unwrap();
    let before = own.bytes();
    let commits: Vec<_> = own.pins().iter().map(|pin| pin.commit).collect();
    assert!(own.fetch(&commits, &machine.store).unwrap());
    assert_eq!(own.bytes(), before);
}

#[test]
fn workspaces_of_all_machines_are_listed() {
    let bucket = tempfile::tempdir().unwrap();
    for name in ["first", "second"] {
        let mut machine = Machine::new(name);
        machine.write("a.txt", name);
        machine.pin();
        machine.upload(bucket.path()).unwrap();
        assert_pulled(&machine, bucket.path());
    }
    let reader = Machine::new("reader");
    let found = reader.in_directory(bucket.path()).workspaces().unwrap();
    let names: BTreeSet<&str> = found.iter().map(|it| it.machine.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["first", "second"]));
    assert!(found.iter().all(|it| it.path.0.ends_with("shop")));
    fs::remove_dir_all(bucket.path().join("workspaces")).unwrap();
    assert!(reader.in_directory(bucket.path()).workspaces().unwrap().is_empty());
}

#[test]
fn waiting_checkpoints_are_counted_without_a_request() {
    let bucket = tempfile::tempdir().unwrap();
    let mut machine = Machine::new("first");
    machine.write("a.txt", "one");
    machine.pin();
    machine.pin();
    let objects = machine.in_directory(bucket.path());
    assert_eq!(objects.count_waiting(&machine.store).unwrap(), 2);
    machine.upload(bucket.path()).unwrap();
    assert_eq!(objects.count_waiting(&machine.store).unwrap(), 0);
    // The new checkpoint is counted as waiting even though another one has been deleted.
    let id = machine.store.workspace_id(&machine.project);
    machine.store.unpin(&PinName { workspace: id, seq: 1 }).unwrap();
    machine.pin();
    assert_eq!(objects.count_waiting(&machine.store).unwrap(), 1);
    let last = objects.last_upload();
    assert_eq!((last.checkpoints, last.damaged, last.progress), (2, 0, None));
    assert!(last.bytes > 0 && last.error.is_none());
}

#[test]
fn the_rate_of_an_upload_is_limited() {
    use std::io::Read;
    use std::time::Instant;

    use crate::objects::bucket::LimitedReader;

    let content = vec![7; 60_000];
    let started = Instant::now();
    let mut read = Vec::new();
    LimitedReader::new(content.as_slice(), Some(200_000)).read_to_end(&mut read).unwrap();
    assert!(read == content);
    // At this rate, the content takes 0.3 seconds: three pieces of 0.1 seconds each, with no wait
    // after the last one.
    assert!(started.elapsed() >= std::time::Duration::from_millis(150));
}
