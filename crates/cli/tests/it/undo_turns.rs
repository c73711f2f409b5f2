//! Undo: which turn it takes back, and which files it leaves unchanged.

use std::fs;

use serde_json::{Value, json};

use crate::agent::{Agent, hook};
use crate::session::{Session, said};

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

/// The agent may have to wait several minutes for the user's permission.
#[test]
fn edits_by_the_user_while_a_command_is_waiting_are_kept() {
    let session = Session::new();
    session.write("a.txt", "1");
    session.write("b.txt", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("delete a.txt");
    let call = agent.begins("Bash", json!({ "command": "rm a.txt" }));
    session.write("b.txt", "the user's");
    fs::remove_file(session.project().join("a.txt")).unwrap();
    agent.finishes(&call);
    agent.is_done();
    let undone = String::from_utf8(session.output(&["undo"]).stdout).unwrap();
    assert!(undone.contains("b.txt  (the call names other files)"), "{undone}");
    assert_eq!((session.read("a.txt"), session.read("b.txt")), ("1".into(), "the user's".into()));
}

/// Claude Code reports the end of a call only if the call was made.
#[test]
fn a_file_that_the_user_wrote_after_refusing_the_first_call_is_kept() {
    let session = Session::new();
    let report = |event: &str, more: Value| {
        let mut fields = json!({ "session_id": "s", "cwd": session.project() });
        fields["hook_event_name"] = event.into();
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let output = hook(&session.base(), &["hook", "claude"], fields.to_string().as_bytes());
        assert!(output.status.success());
    };
    report("UserPromptSubmit", json!({ "prompt": "write a poem" }));
    let input = json!({ "file_path": session.project().join("poem"), "content": "a poem\n" });
    report("PreToolUse", json!({ "tool_name": "Write", "tool_use_id": "1", "tool_input": input }));
    session.write("poem", "the user's\n");
    report("Stop", json!({}));
    let undone = session.json(&["undo"]);
    assert_eq!(
        (session.read("poem").as_str(), &undone["uncertain"]),
        ("the user's\n", &json!(["poem"])),
        "{undone}"
    );
}

#[test]
fn edits_right_after_a_turn_stay_even_if_the_ends_of_its_calls_were_not_reported() {
    let session = Session::new();
    session.write("a", "0\nx\ny\n");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("edit");
    agent.begins("Edit", json!({ "path": "a" }));
    session.write("a", "1\nx\ny\n");
    agent.is_done();
    session.write("a", "1\nx\ny\nthe user's\n");
    let undone = session.json(&["undo"]);
    assert_eq!(session.read("a"), "0\nx\ny\nthe user's\n", "{undone}");
}

#[test]
fn a_turn_that_a_rollback_took_back_is_not_undone_again() {
    let session = Session::new();
    session.write("a", "0\n");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("zero", "b", "0\n");
    agent.turn("one", "a", "1\n");
    agent.turn("two", "a", "2\n");
    session.json(&["rollback", "2"]);
    let undone = session.json(&["undo"]);
    assert_eq!((&undone["row"], &undone["deleted"]), (&json!(3), &json!(["b"])), "{undone}");
    // Once the rollback is undone, the turns that it took back can be undone again.
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
fn a_file_that_cannot_be_taken_back_does_not_block_others() {
    let session = Session::new();
    session.write("d/x", "1");
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("away with d");
    agent.runs("rm -r d; echo 1 > a");
    agent.is_done();
    session.write("d", "a file of the user");
    let undone = session.json(&["undo"]);
    assert_eq!((session.read("a"), session.read("d")), ("0".into(), "a file of the user".into()));
    assert_eq!(undone["conflicts"][0]["path"], "d/x", "{undone}");
}

#[test]
fn directories_that_the_turn_created_are_removed_with_it() {
    let session = Session::new();
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("make some");
    agent.runs("mkdir -p d x/y/z mixed; echo 1 > d/f; echo 1 > mixed/f");
    agent.is_done();
    session.write("mixed/mine", "1");
    session.json(&["undo"]);
    assert!(!session.exists("d") && !session.exists("x") && !session.exists("mixed/f"));
    assert_eq!(session.read("mixed/mine"), "1");
}

#[test]
fn a_file_that_the_turn_created_and_the_user_removed_does_not_block_an_undo() {
    let session = Session::new();
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("make some");
    agent.runs("echo 1 > a; echo 1 > new; mkdir d; echo 1 > d/x");
    agent.is_done();
    fs::remove_file(session.project().join("new")).unwrap();
    fs::remove_dir_all(session.project().join("d")).unwrap();
    let undone = session.json(&["undo"]);
    assert_eq!((session.read("a"), &undone["restored"]), ("0".into(), &json!(["a"])), "{undone}");
}

#[test]
fn a_second_undo_takes_back_the_previous_turn() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "s1");
    for name in ["a", "b", "c"] {
        agent.turn(name, name, "1");
    }
    for (left, row) in [(2, 1), (1, 2), (0, 3)] {
        assert_eq!(session.json(&["undo"])["row"], row);
        assert_eq!(fs::read_dir(session.project()).unwrap().count(), left);
    }
    let output = session.output(&["undo"]);
    assert!(said(&output).contains("no turn left to undo"), "{}", said(&output));
}

#[test]
fn a_second_undo_does_not_stop_at_files_that_the_first_one_left_unchanged() {
    let session = Session::new();
    for name in ["a", "b", "c"] {
        session.write(name, "1\n");
    }
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "c", "2\n");
    agent.hears("two");
    let call = agent.begins("Bash", json!({ "command": "echo 2 > a" }));
    session.write("a", "2\n");
    session.write("b", "the user's\n");
    agent.finishes(&call);
    agent.is_done();
    let undo = || session.json(&["undo"]);
    assert_eq!(undo()["row"], 1);
    assert_eq!(undo()["row"], 2);
    assert_eq!((session.read("c"), session.read("b")), ("1\n".into(), "the user's\n".into()));
    session.json(&["rollback", "undo"]);
    session.json(&["rollback", "undo"]);
    assert_eq!(undo()["row"], 1, "the second turn is in force again");
    session.json(&["rollback", "undo"]);
    session.json(&["rollback", "redo"]);
    assert_eq!(undo()["row"], 2, "the undo was made again");
    assert_eq!(session.json(&["undo", "--uncertain"])["row"], 1);
    assert_eq!(session.read("b"), "1\n");
}

#[test]
fn an_undo_keeps_the_swap_and_backup_files_of_an_editor() {
    let session = Session::new();
    session.write("foo", "mine");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("build it");
    let build = agent.begins("Bash", json!({ "command": "make" }));
    session.write("out.o", "the agent's");
    let of_editors = [".foo.swp", "foo~", ".#foo", "#foo#", "4913", ".~lock.foo#"];
    for name in of_editors {
        session.write(name, "unsaved");
    }
    agent.finishes(&build);
    agent.is_done();
    let undone = session.json(&["undo"]);
    assert_eq!(undone["deleted"], json!(["out.o"]));
    for name in of_editors {
        assert_eq!(session.read(name), "unsaved");
        assert!(undone["uncertain"].as_array().unwrap().contains(&json!(name)), "{undone}");
    }
}
