//! Uploads that are cut off, buckets that are damaged, and homes that share an identity.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::machine::{DyingBucket, Machine, all_files, pull_all, upload};
use super::{AT_ONCE, assert_pulled};
use crate::objects::directory::DirectoryBucket;
use crate::objects::state::UploadState;
use crate::objects::{Objects, ObjectsError};

/// Opens the bucket so that it stops answering after `left` requests.
fn dying(
    machine: &Machine,
    bucket: &Path,
    left: i64,
    dies_after: bool,
) -> (Objects, Arc<AtomicI64>) {
    let left = Arc::new(AtomicI64::new(left));
    let inner = DirectoryBucket::open(bucket, None).unwrap();
    let dying = DyingBucket { inner, left: left.clone(), dies_after };
    (machine.objects(Box::new(dying)), left)
}

#[test]
fn an_upload_that_is_killed_at_any_request_is_completed_by_the_next_one() {
    for dies_after in [false, true] {
        for requests in 0.. {
            let bucket = tempfile::tempdir().unwrap();
            let mut machine = Machine::new("first");
            for round in 0..3 {
                machine.write("a.txt", format!("{round}"));
                machine.write(".env", format!("TOKEN={round}"));
                machine.pin();
            }
            let (objects, left) = dying(&machine, bucket.path(), requests, dies_after);
            let first = upload(&objects, &machine.store);
            if let Ok(pulled) = machine.in_directory(bucket.path()).workspaces() {
                assert!(pulled.len() <= 1);
            }
            // Every checkpoint that the bucket lists is complete.
            let verified = machine.in_directory(bucket.path()).verify(&|_| {});
            assert!(verified.is_err() || verified.unwrap().affected.is_empty(), "{requests}");
            machine.write("a.txt", "later");
            machine.pin();
            machine.upload(bucket.path()).unwrap();
            assert_pulled(&machine, bucket.path());
            machine.in_directory(bucket.path()).collect(&machine.store, &AT_ONCE).unwrap();
            assert_pulled(&machine, bucket.path());
            if first.is_ok() {
                assert!(left.load(Ordering::SeqCst) >= 0 && requests > 12, "{requests}");
                break;
            }
        }
    }
}

#[test]
fn an_upload_that_is_killed_again_and_again_ends() {
    let bucket = tempfile::tempdir().unwrap();
    let mut machine = Machine::new("first");
    machine.write("a.txt", "one");
    machine.write(".env", "TOKEN=one");
    machine.pin();
    // Each attempt gets a little further, because staged packs are not built again.
    let mut attempts = 0;
    loop {
        attempts += 1;
        assert!(attempts < 20, "the upload never ends");
        let (objects, _) = dying(&machine, bucket.path(), 9, true);
        if upload(&objects, &machine.store).is_ok() {
            break;
        }
    }
    assert!(attempts > 1);
    assert_pulled(&machine, bucket.path());
    let packs = all_files(bucket.path())
        .iter()
        .filter(|(name, _)| name.ends_with(".pack") || name.ends_with(".sealed"))
        .count();
    assert_eq!(packs, 2, "no pack was built twice");
}

#[test]
fn staged_packs_that_a_power_cut_has_damaged_are_built_again() {
    let harms: [fn(&Path); 3] = [
        |path| fs::write(path, "").unwrap(),
        |path| fs::write(path, vec![0; fs::metadata(path).unwrap().len() as usize]).unwrap(),
        |path| fs::write(path, &fs::read(path).unwrap()[..20]).unwrap(),
    ];
    for harm in harms {
        let bucket = tempfile::tempdir().unwrap();
        let mut machine = Machine::new("first");
        machine.write("a.txt", "one");
        machine.write(".env", "TOKEN=one");
        machine.pin();
        // The upload is interrupted when it is about to send the first pack.
        let mut requests = 0;
        let home = machine.home.path().to_owned();
        while all_files(&home).iter().all(|(name, _)| !name.starts_with("fleet/upload/")) {
            let (objects, _) = dying(&machine, bucket.path(), requests, false);
            upload(&objects, &machine.store).unwrap_err();
            requests += 1;
        }
        for (name, _) in all_files(&home) {
            if name.starts_with("fleet/upload/") || name.starts_with("fleet/indexes/") {
                let path = home.join(name);
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
                harm(&path);
            }
        }
        machine.upload(bucket.path()).unwrap();
        assert_pulled(&machine, bucket.path());
        machine.write("a.txt", "two");
        machine.pin();
        machine.upload(bucket.path()).unwrap();
        assert_pulled(&machine, bucket.path());
    }
}

#[test]
fn a_gc_that_is_killed_at_any_request_loses_nothing() {
    for requests in 0.. {
        let bucket = tempfile::tempdir().unwrap();
        let mut machine = Machine::new("first");
        for round in 0..28 {
            machine.write("a.txt", format!("{round}"));
            machine.pin();
            machine.upload(bucket.path()).unwrap();
        }
        let (objects, _) = dying(&machine, bucket.path(), requests * 19, true);
        let collected = objects.collect(&machine.store, &AT_ONCE);
        assert_pulled(&machine, bucket.path());
        let objects = machine.in_directory(bucket.path());
        objects.collect(&machine.store, &AT_ONCE).unwrap();
        assert_pulled(&machine, bucket.path());
        assert!(objects.read_inventory().unwrap().halves.is_empty());
        if collected.is_ok() {
            break;
        }
    }
}

#[test]
fn damage_is_found_named_and_repaired_by_the_next_upload() {
    type Harm = fn(&Path);
    let harms: [Harm; 4] = [
        |path| fs::write(path, &fs::read(path).unwrap()[..20]).unwrap(),
        |path| {
            let mut content = fs::read(path).unwrap();
            let middle = content.len() / 2;
            content[middle] ^= 1;
            fs::write(path, content).unwrap();
        },
        |path| fs::remove_file(path).unwrap(),
        |path| fs::write(path, "").unwrap(),
    ];
    for harm in harms {
        for extension in ["pack", "sealed", "idx", "idxs"] {
            let bucket = tempfile::tempdir().unwrap();
            let mut machine = Machine::new("first");
            machine.write("a.txt", "one");
            machine.write(".env", "TOKEN=one");
            machine.pin();
            machine.upload(bucket.path()).unwrap();
            let files = all_files(bucket.path());
            let (name, _) =
                files.iter().find(|(name, _)| name.ends_with(&format!(".{extension}"))).unwrap();
            harm(&bucket.path().join(name));

            let objects = machine.in_directory(bucket.path());
            let verified = objects.verify(&|_| {}).unwrap();
            assert!(!verified.damaged.is_empty(), "{name}");
            assert_eq!(verified.affected.len(), 1, "{name}: {verified:?}");
            let affected = &verified.affected[0];
            assert_eq!((affected.seq, affected.machine.as_str()), (1, "first"));
            // Another machine gets none of the damaged objects.
            let reader = Machine::new("reader");
            let reading = reader.in_directory(bucket.path());
            assert!(pull_all(&reading, "first", &reader.store).is_none(), "{name}");

            machine.upload(bucket.path()).unwrap();
            assert_pulled(&machine, bucket.path());
            objects.collect(&machine.store, &AT_ONCE).unwrap();
            assert_pulled(&machine, bucket.path());
            let verified = objects.verify(&|_| {}).unwrap();
            assert!(verified.is_whole(), "{name}: {verified:?}");
        }
    }
}

#[test]
fn a_bucket_of_another_fleet_is_refused_and_left_alone() {
    let bucket = tempfile::tempdir().unwrap();
    let mut first = Machine::new("first");
    first.write("a.txt", "one");
    first.pin();
    first.upload(bucket.path()).unwrap();
    let mut other = Machine::new("other");
    other.join_fleet(&"0".repeat(32));
    other.write("b.txt", "two");
    other.pin();
    let before = all_files(bucket.path());
    let objects = other.in_directory(bucket.path());
    assert!(matches!(other.upload(bucket.path()), Err(ObjectsError::OtherFleet { .. })));
    assert!(matches!(objects.workspaces(), Err(ObjectsError::OtherFleet { .. })));
    assert!(matches!(objects.verify(&|_| {}), Err(ObjectsError::OtherFleet { .. })));
    let collected = objects.collect(&other.store, &AT_ONCE);
    assert!(matches!(collected, Err(ObjectsError::OtherFleet { .. })));
    assert!(all_files(bucket.path()) == before);
}

#[test]
fn two_homes_with_one_identity_overwrite_and_delete_nothing() {
    let bucket = tempfile::tempdir().unwrap();
    let mut original = Machine::new("first");
    original.write("a.txt", "original");
    original.pin();
    original.upload(bucket.path()).unwrap();
    let mut copy = Machine::new("first");
    copy.copy_identity(&original);
    copy.write("a.txt", "copy");
    copy.pin();
    let before = all_files(bucket.path());
    assert!(matches!(copy.upload(bucket.path()), Err(ObjectsError::Diverged)));
    let collected = copy.in_directory(bucket.path()).collect(&copy.store, &AT_ONCE);
    assert!(matches!(collected, Err(ObjectsError::Diverged)));
    assert!(all_files(bucket.path()) == before);
    assert_pulled(&original, bucket.path());

    // The user confirms that the uploads come from this home, which was restored from a backup. Its
    // store is a new one, so the checkpoints of the earlier store are kept.
    let objects = copy.in_directory(bucket.path());
    UploadState::reset(&objects.files).unwrap();
    copy.upload(bucket.path()).unwrap();
    let collected = objects.collect(&copy.store, &AT_ONCE).unwrap();
    assert_eq!((collected.earlier, collected.packs, collected.checkpoints), (1, 0, 0));
    assert!(matches!(original.upload(bucket.path()), Ok(_) | Err(ObjectsError::Diverged)));
    assert!(objects.verify(&|_| {}).unwrap().is_whole());
}

#[test]
fn checkpoints_that_the_local_store_has_lost_stay_in_the_bucket() {
    let bucket = tempfile::tempdir().unwrap();
    let mut machine = Machine::new("first");
    machine.write("a.txt", "lost later");
    machine.pin();
    machine.upload(bucket.path()).unwrap();
    let packs = machine.store.directory().join("objects/pack");
    for entry in fs::read_dir(packs).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    machine.store.reload_packs();
    machine.write("b.txt", "new");
    let objects = machine.in_directory(bucket.path());
    let collected = objects.collect(&machine.store, &AT_ONCE).unwrap();
    assert!(collected.is_store_damaged && collected.packs == 0, "{collected:?}");
    let reader = Machine::new("reader");
    let reading = reader.in_directory(bucket.path());
    assert!(pull_all(&reading, "first", &reader.store).is_some());
}

#[test]
fn a_missing_or_unusable_directory_is_an_error_that_says_so() {
    let mut machine = Machine::new("first");
    machine.write("a.txt", "one");
    machine.pin();
    let missing = DirectoryBucket::open(Path::new("/nonexistent/bucket"), None);
    assert!(matches!(missing, Err(ObjectsError::NoBucket { .. })));
    let bucket = tempfile::tempdir().unwrap();
    fs::write(bucket.path().join("machines"), "a file in the way").unwrap();
    assert!(machine.upload(bucket.path()).is_err());
    assert!(machine.fleet_files().is_ok());
    let last = machine.in_directory(bucket.path()).last_upload();
    assert!(last.error.is_some() && last.succeeded_at.is_none());
}

#[test]
fn a_bucket_whose_address_changes_is_recognized() {
    let parent = tempfile::tempdir().unwrap();
    let (old, new) = (parent.path().join("old"), parent.path().join("new"));
    fs::create_dir(&old).unwrap();
    let mut machine = Machine::new("first");
    machine.write("a.txt", "one");
    machine.pin();
    machine.upload(&old).unwrap();
    fs::rename(&old, &new).unwrap();
    machine.write("a.txt", "two");
    machine.pin();
    assert_eq!(machine.upload(&new).unwrap().checkpoints, 1);
    assert_pulled(&machine, &new);
    // An empty bucket at the old address gets everything.
    fs::create_dir(&old).unwrap();
    assert_eq!(machine.in_directory(&old).count_waiting(&machine.store).unwrap(), 2);
    assert_eq!(machine.upload(&old).unwrap().checkpoints, 2);
    assert_pulled(&machine, &old);
}
