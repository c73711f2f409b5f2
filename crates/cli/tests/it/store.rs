//! Verification and repair of the store, as the user sees them.

use std::fs;
use std::path::PathBuf;

use crate::session::Session;

fn packs(session: &Session) -> Vec<PathBuf> {
    let directory = session.base().join(".takeback/checkpoints/store/objects/pack");
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut packs: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|found| found == "pack")).collect();
    packs.sort_by_key(|path| fs::metadata(path).unwrap().len());
    packs
}

#[test]
fn an_intact_store_passes_verification() {
    let mut session = Session::new();
    session.takeback(&["checkpoints", "verify"]);
    session.write("a", "1");
    session.output(&["checkpoint"]);
    session.takeback(&["checkpoints", "verify"]);
    session.takeback(&["checkpoints", "repair"]);
    session.assert(
        "
$ takeback checkpoints verify
No problems found in 0 checkpoints, 0 steps and 0 objects.
$ takeback checkpoints verify
No problems found in 1 checkpoint, 0 steps and 3 objects.
$ takeback checkpoints repair
No problems found in 1 checkpoint, 0 steps and 3 objects.
",
    );
}

#[test]
fn damage_is_found_and_repaired_and_losses_are_named() {
    let mut session = Session::new();
    let large: String =
        (0..20_000u64).map(|n| format!("{}\n", n.wrapping_mul(0x9e37_79b9))).collect();
    session.write("dir/large", &large);
    session.write("small", "1");
    session.output(&["checkpoint"]);
    session.write("small", "2");
    session.write("dir/large", "small now");
    session.output(&["checkpoint"]);
    // The damage is in the middle of the only large object of the first pack.
    let pack = packs(&session).pop().unwrap();
    let mut bytes = fs::read(&pack).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::remove_file(&pack).unwrap();
    fs::write(&pack, bytes).unwrap();

    let report = session.json(&["checkpoints", "verify"]);
    assert_eq!(report["whole"], false);
    assert_eq!(report["checkpoints"][0]["state"], "partly_lost");
    assert_eq!(report["checkpoints"][0]["lost"], serde_json::json!(["dir/large"]));
    assert_eq!(report["checkpoints"][1]["state"], "whole");
    assert_eq!(report["packs"].as_array().unwrap().len(), 1);

    let gc = session.json(&["checkpoints", "gc"]);
    assert_eq!(gc["error"]["hint"], "run `takeback checkpoints repair` first");

    let report = session.json(&["checkpoints", "repair"]);
    assert_eq!(report["set_aside"].as_array().unwrap().len(), 1);
    assert_eq!(report["now"]["checkpoints"][0]["lost"], serde_json::json!(["dir/large"]));
    assert_eq!(report["now"]["packs"], serde_json::json!([]));

    // Lost objects do not keep the rest of the store from being cleaned up.
    assert_eq!(session.json(&["checkpoints", "gc"])["error"], serde_json::Value::Null);
    assert_eq!(session.json(&["checkpoints", "prune"])["error"], serde_json::Value::Null);

    // The intact files can still be restored, and the lost ones are reported.
    session.takeback(&["rollback", "2", "small"]);
    session.takeback(&["rollback", "2", "dir/large"]);
    assert_eq!(
        (session.read("small"), session.read("dir/large")),
        ("1".into(), "small now".into())
    );
    session.assert(
        "
$ takeback rollback 2 small
Restored:
  small
Restored 1 file. `takeback rollback undo` takes this back.
$ takeback rollback 2 dir/large
! error: the checkpoint is damaged
!   because: object <id> is missing from the store
! hint: `takeback checkpoints verify` shows what is affected
[exit Some(1)]
",
    );
}

#[test]
fn many_checkpoints_leave_few_packs() {
    let session = Session::new();
    crate::agent::configure(&session, "[checkpoints]\nmax_snapshots = 500\n");
    for number in 0..120 {
        session.write("file", &number.to_string());
        assert!(session.output(&["checkpoint"]).status.success());
    }
    // Merging happens in the background: wait until it is done.
    let few =
        (0..500).any(|_| session.json(&["rollback"]).is_object() && packs(&session).len() < 60);
    assert!(few, "{} packs", packs(&session).len());
    assert!((0..500).any(|_| session.json(&["checkpoints", "gc"])["packs_after"] == 1));
    assert_eq!(session.json(&["rollback"])["checkpoints"].as_array().unwrap().len(), 120);
    assert_eq!(session.json(&["checkpoints", "verify"])["whole"], true);
}
