//! The turn that an undo takes back, the messages about it, and automatic pruning.

use std::fs;

use serde_json::json;

use crate::agent::{Agent, configure, eventually, rows};
use crate::session::Session;

#[test]
fn an_undo_says_what_it_cannot_reverse() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "s1");
    agent.hears("clean up");
    agent.writes("a", "1");
    agent.pretends("psql -c 'drop table users'");
    let undone = session.json(&["undo"]);
    let effect = json!({ "kind": "database", "command": "psql -c 'drop table users'" });
    assert_eq!((&undone["deleted"], &undone["effects"]), (&json!(["a"]), &json!([effect])));
}

#[test]
fn what_a_rollback_has_taken_back_is_not_undone_again() {
    let session = Session::new();
    session.write("a", "0\n");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("zero", "b", "0\n");
    agent.turn("one", "a", "1\n");
    agent.turn("two", "a", "2\n");
    session.json(&["rollback", "2"]);
    let undone = session.json(&["undo"]);
    assert_eq!((&undone["row"], &undone["deleted"]), (&json!(3), &json!(["b"])), "{undone}");
    // Once the rollback is undone, its turns can be undone again.
    session.json(&["rollback", "undo"]);
    session.json(&["rollback", "undo"]);
    assert_eq!(session.read("a"), "2\n");
    assert_eq!(session.json(&["undo"])["row"], 1);
    assert_eq!(session.read("a"), "1\n");
}

#[test]
fn repeated_undos_go_further_back() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "s1");
    for (name, content) in [("a", "1"), ("b", "2"), ("c", "3")] {
        agent.turn(name, name, content);
    }
    let deleted: Vec<_> = (0..3).map(|_| session.json(&["undo"])["deleted"].clone()).collect();
    assert_eq!(deleted, [json!(["c"]), json!(["b"]), json!(["a"])]);
    assert!(!session.output(&["undo"]).status.success());
}

#[test]
fn private_files_can_be_left_out() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nprivate = \"skip\"\n");
    session.write(".gitignore", ".env\n");
    session.write(".env", "KEY=1\n");
    let taken = session.json(&["checkpoint"]);
    assert_eq!(taken["uncovered"], json!([{ "path": ".env", "reason": "private" }]));
}

#[test]
fn old_checkpoints_go_by_themselves() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_snapshots = 2\n");
    let mut agent = Agent::new(&session, "s1");
    for turn in ["1", "2", "3", "4"] {
        agent.turn(turn, "a", turn);
    }
    assert_eq!(rows(&session).len(), 4, "not before it is due");
    fs::write(session.base().join(".takeback/checkpoints/.last_prune"), "0").unwrap();
    agent.turn("5", "a", "5");
    // The last checkpoint may be taken after the prune.
    eventually("old rows are gone", || rows(&session).len() <= 3);
}

#[test]
fn wrong_usage_is_json_if_that_is_asked_for() {
    let session = Session::new();
    let output = session.output(&["--json", "nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    let seen: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(seen["error"]["message"], "unknown command 'nonsense'");
}
