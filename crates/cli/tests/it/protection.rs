//! Calls that are protected wherever they run and however they are reported.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::agent::{Agent, configure, eventually, hook, rows};
use crate::session::Session;

/// Some users start agents in `~`, and the agents then change to another directory.
#[test]
fn a_session_that_began_in_the_home_directory_is_protected_where_it_works() {
    let session = Session::new();
    session.write("a", "mine");
    let mut agent = Agent::new(&session, "s1");
    agent.cwd = session.base();
    agent.report(json!({ "event": "session_start" }));
    agent.report(json!({ "event": "turn_start", "prompt": "hello" }));
    agent.cwd = session.project();
    agent.runs("rm a");
    session.json(&["rollback", "1"]);
    assert_eq!(session.read("a"), "mine");
}

#[test]
fn a_session_in_a_directory_that_is_too_large_is_protected_in_its_projects() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_files = 10\n");
    for number in 0..12 {
        session.write(&number.to_string(), "");
    }
    session.write("inner/Makefile", "");
    session.write("inner/a", "mine");
    let mut agent = Agent::new(&session, "s1");
    agent.report(json!({ "event": "session_start" }));
    agent.report(json!({ "event": "turn_start", "prompt": "hello" }));
    agent.cwd = session.project().join("inner");
    let call = agent.call("Bash", json!({ "command": "rm a" }));
    assert!(agent.report(call.event("before_tool")).contains("more than 10 files"));
    fs::remove_file(session.project().join("inner/a")).unwrap();
    session.json(&["-C", "inner", "rollback", "1"]);
    assert_eq!(session.read("inner/a"), "mine");
}

/// If both the session's workspace and the current directory are too large, takeback must not
/// switch between them forever.
#[test]
fn the_capture_of_a_directory_that_is_too_large_is_tried_only_once() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_files = 10\n");
    for number in 0..12 {
        session.write(&format!("f{number}"), "");
        session.write(&format!("inner/f{number}"), "");
    }
    session.write("Makefile", "");
    session.write("inner/Makefile", "");
    let mut agent = Agent::new(&session, "s1");
    agent.report(json!({ "event": "session_start" }));
    agent.cwd = session.project().join("inner");
    let call = agent.call("Bash", json!({ "command": "rm ../a a" }));
    let said = agent.report(call.event("before_tool"));
    assert_eq!(said.matches("more than 10 files").count(), 2, "{said}");
}

#[test]
fn a_write_through_a_link_protects_its_target() {
    let session = Session::new();
    let notes = session.base().join("notes.txt");
    fs::write(&notes, "mine").unwrap();
    std::os::unix::fs::symlink(&notes, session.project().join("link")).unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.hears("write it down");
    agent.writes("link", "yours");
    assert_eq!(fs::read_to_string(&notes).unwrap(), "yours");
    session.json(&["-C", "../notes.txt", "rollback", "1"]);
    assert_eq!(fs::read_to_string(&notes).unwrap(), "mine");
}

#[test]
fn a_field_of_an_unexpected_type_does_not_prevent_a_checkpoint() {
    for (field, value) in [
        ("model", "5"),
        ("prompt", "{}"),
        ("turn", "1.5"),
        ("turn", "-1"),
        ("turn", "\"\""),
        ("turn", "18446744073709551616"),
        ("tool", "7"),
        ("agent", "3"),
        ("session", "[]"),
        ("call", "{}"),
        ("parent", "[1]"),
        ("input", "\"text\""),
        ("input", "{\"content\": \"half of \\ud83d\"}"),
        ("to_come", "[[]]"),
    ] {
        let session = Session::new();
        session.write("a", "1");
        let event = format!("\u{feff}{{\"event\": \"before_tool\", \"{field}\": {value}}}");
        let output = hook(&session.base(), &["hook", "generic", "--strict"], event.as_bytes());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*said), (Some(0), ""), "{event}");
        assert_eq!(rows(&session).len(), 1, "{event}");
    }
}

/// After `cd ../other && …` in a shell that stays open, the end of the call is reported from
/// another directory.
#[test]
fn a_call_ends_in_the_workspace_where_it_began() {
    let session = Session::new();
    let other = session.base().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("Makefile"), "").unwrap();
    session.write("a", "0");
    fs::write(other.join("a"), "0").unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.hears("both");
    let call = agent.begins("Bash", json!({ "command": "echo 1 > a; cd ../other && echo 1 > a" }));
    session.write("a", "1");
    fs::write(other.join("a"), "1").unwrap();
    agent.cwd = other.clone();
    agent.finishes(&call);
    agent.is_done();
    let undone = session.json(&["undo"]);
    assert_eq!((session.read("a"), &undone["uncertain"]), ("0".into(), &json!(null)), "{undone}");
    session.json(&["-C", "../other", "undo"]);
    assert_eq!(fs::read_to_string(other.join("a")).unwrap(), "0");
}

#[test]
fn two_identical_calls_at_the_same_time_both_end() {
    let session = Session::new();
    session.write("a", "0");
    session.write("b", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.names_calls = false;
    agent.hears("twice");
    let one = agent.begins("Bash", json!({ "command": "make" }));
    let two = agent.begins("Bash", json!({ "command": "make" }));
    session.write("a", "1");
    agent.finishes(&one);
    session.write("b", "1");
    agent.finishes(&two);
    let undone = session.json(&["undo"]);
    assert_eq!((session.read("a"), session.read("b")), ("0".into(), "0".into()), "{undone}");
}

/// The first capture of a large workspace takes longer than an agent waits.
#[test]
fn named_paths_are_safe_during_the_first_capture_of_a_large_workspace() {
    let session = Session::new();
    configure(&session, "[checkpoints]\ntimeout_ms = 2000\n");
    fs::create_dir(session.project().join("many")).unwrap();
    for number in 0..5_000 {
        fs::write(session.project().join(format!("many/{number}")), "").unwrap();
    }
    session.write(".gitignore", "uploads/\n");
    session.write("uploads/photo", "mine");
    session.write("notes", "mine");
    let mut agent = Agent::new(&session, "s1");
    agent.tell(json!({ "event": "session_start" }));
    let store = session.base().join(".takeback/checkpoints/store/workspaces");
    let count = |path: &Path| fs::read_dir(path).map_or(0, Iterator::count);
    eventually("the workspace is known", || count(&store) == 1);
    let state = session.workspace_directory().join("state");
    eventually("the workspace is warm", || state.exists());
    // Pretend that the first capture is still running.
    let lock = session.lock_workspace();
    fs::remove_file(state).unwrap();
    agent.hears("tidy up");
    let call = agent.call("Bash", json!({ "command": "rm -rf uploads notes" }));
    assert!(agent.report(call.event("before_tool")).contains("not done within 2000 ms"));
    fs::remove_dir_all(session.project().join("uploads")).unwrap();
    fs::remove_file(session.project().join("notes")).unwrap();
    drop(lock);
    eventually("the late checkpoint is taken", || rows(&session).len() == 1);
    agent.finishes(&call);
    agent.is_done();
    let done = session.json(&["rollback", "1"]);
    assert_eq!(session.read("uploads/photo"), "mine", "{done:#}");
    assert_eq!(session.read("notes"), "mine");
    assert_eq!(done["warnings"], json!([]));
    session.json(&["rollback", "undo"]);
    assert!(!session.exists("notes") && !session.exists("uploads/photo"));
}

#[test]
fn named_paths_of_a_large_workspace_are_captured_only_once_if_there_is_time() {
    let session = Session::new();
    configure(&session, "[checkpoints]\ntimeout_ms = 60000\n");
    fs::create_dir(session.project().join("many")).unwrap();
    for number in 0..5_000 {
        fs::write(session.project().join(format!("many/{number}")), "").unwrap();
    }
    session.write("notes/one", "mine");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("tidy up");
    agent.runs("rm -rf notes");
    agent.is_done();
    let status = session.json(&["checkpoints"]);
    assert_eq!(status["workspaces"].as_array().unwrap().len(), 1, "{status:#}");
    session.json(&["rollback", "1"]);
    assert_eq!(session.read("notes/one"), "mine");
}
