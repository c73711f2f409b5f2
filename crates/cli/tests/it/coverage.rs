//! Changes in coverage: a file that becomes covered is not treated as created, and a file that
//! becomes uncovered is not treated as deleted.

use std::fs;

use serde_json::{Value, json};

use crate::agent::{Agent, configure, noise};
use crate::session::Session;

fn kept_paths(view: &Value) -> Vec<&str> {
    view["kept"].as_array().unwrap().iter().map(|kept| kept["path"].as_str().unwrap()).collect()
}

#[test]
fn a_file_that_becomes_covered_does_not_count_as_created_by_the_turn() {
    let session = Session::new();
    session.write("data/x", "mine");
    session.write(".gitignore", "data/\n");
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("clean up");
    agent.runs(": > .gitignore; echo 1 > a");
    agent.is_done();
    let undone = session.json(&["undo"]);
    assert_eq!((session.read("a"), session.read(".gitignore")), ("0".into(), "data/\n".into()));
    assert_eq!((session.read("data/x"), &undone["deleted"]), ("mine".into(), &json!([])));
    assert!(kept_paths(&undone).contains(&"data/x"), "{undone}");
}

#[test]
fn a_file_that_becomes_uncovered_does_not_count_as_deleted_by_the_turn() {
    let session = Session::new();
    session.write("notes/x", "first");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("ignore my notes");
    agent.runs("echo notes/ > .gitignore");
    agent.is_done();
    session.write("notes/x", "second");
    session.json(&["undo"]);
    assert_eq!((session.read("notes/x"), session.exists(".gitignore")), ("second".into(), false));
}

#[test]
fn a_change_of_limits_during_a_call_does_not_make_files_count_as_created_or_deleted() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_file_size_mb = 1\n");
    fs::write(session.project().join("large"), noise(1, 2_000_000)).unwrap();
    session.write("a", "0");
    for limit in ["", "[checkpoints]\nmax_file_size_mb = 1\n"] {
        let mut agent = Agent::new(&session, "s1");
        agent.hears("change a");
        let call = agent.begins("Write", json!({ "path": "a" }));
        session.write("a", "1");
        configure(&session, limit);
        agent.finishes(&call);
        agent.is_done();
        let undone = session.json(&["undo"]);
        assert_eq!((&undone["restored"], &undone["deleted"]), (&json!(["a"]), &json!([])));
        assert_eq!(fs::read(session.project().join("large")).unwrap(), noise(1, 2_000_000));
    }
}

#[test]
fn a_file_that_was_too_large_before_the_turn_is_not_deleted() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_file_size_mb = 1\n");
    fs::write(session.project().join("large"), noise(1, 2_000_000)).unwrap();
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("shorten it");
    // The command does not name the file, because a named file would be captured.
    let call = agent.begins("Bash", serde_json::json!({ "command": "some-program" }));
    session.write("large", "short\n");
    session.write("a", "1\n");
    agent.finishes(&call);
    agent.is_done();
    let undone = session.json(&["undo"]);
    assert_eq!((session.read("large"), session.read("a")), ("short\n".into(), "0".into()));
    assert!(kept_paths(&undone).contains(&"large"), "{undone}");
}

#[test]
fn an_excluded_file_that_a_call_names_is_restored() {
    let session = Session::new();
    session.write("build/x", "old");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("write it", "build/x", "new");
    let undone = session.json(&["undo"]);
    assert_eq!((session.read("build/x"), &undone["restored"]), ("old".into(), &json!(["build/x"])));
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
