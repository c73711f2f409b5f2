//! After a rollback, the conversation matches the files.

use serde_json::json;

use crate::agent::{Agent, configure, conversation, ledger, rows};
use crate::session::{Session, said};

#[test]
fn rollbacks_of_files_and_of_the_conversation_alone_are_undone_one_by_one() {
    let session = Session::new();
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    for number in ["1", "2", "3"] {
        agent.turn(number, "a", number);
    }
    session.json(&["rollback", "1"]);
    session.json(&["rollback", "2", "--chat-only"]);
    assert_eq!((session.read("a"), conversation(&session).len()), ("2".into(), 1));
    session.json(&["rollback", "undo"]);
    assert_eq!((session.read("a"), conversation(&session).len()), ("2".into(), 2));
    session.json(&["rollback", "undo"]);
    assert_eq!((session.read("a"), conversation(&session).len()), ("3".into(), 3));
    session.json(&["rollback", "redo"]);
    session.json(&["rollback", "redo"]);
    assert_eq!((session.read("a"), conversation(&session).len()), ("2".into(), 1));
}

/// An event that cannot be written into the ledger in time waits in the spool.
#[test]
fn a_turn_that_reaches_the_ledger_late_is_rolled_back() {
    let session = Session::new();
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "1");
    let connection = ledger(&session);
    connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
    agent.turn("two", "a", "2");
    connection.execute_batch("COMMIT").unwrap();
    let done = session.json(&["rollback", "1"]);
    assert_eq!((session.read("a"), &done["undone_messages"]), ("1".into(), &json!(1)), "{done}");
    assert_eq!(conversation(&session), ["one"]);
}

#[test]
fn a_killed_rollback_leaves_files_and_conversation_at_the_same_point() {
    let session = Session::new();
    let names: Vec<String> = (0..120).map(|number| format!("f{number}")).collect();
    let mut agent = Agent::new(&session, "s1");
    for content in ["1", "2"] {
        agent.hears(content);
        agent.runs(&format!("for n in $(seq 0 119); do echo {content} > f$n; done"));
        agent.is_done();
    }
    let journal = session.workspace_directory().join("journal");
    let mut finished = 0;
    for round in 0..200 {
        // On a busy machine, a rollback is often complete before it can be killed.
        if round >= 12 && finished > 0 {
            break;
        }
        let turn = rows(&session).iter().find(|row| row["prompt"] == "2").unwrap()["id"].clone();
        let mut child = session.start(&["rollback", turn.as_str().unwrap()]);
        let last = &names[round * 10 % names.len()];
        while child.try_wait().unwrap().is_none() {
            // In one of every ten rounds, the rollback is killed as soon as there is a journal; in
            // the others, when it has restored some of the files.
            let is_far_enough = round % 10 == 0 || session.read(last) == "1\n";
            if journal.exists() && is_far_enough {
                break;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let next = session.output(&["checkpoint"]);
        finished += usize::from(said(&next).contains("has been finished"));
        let first = session.read(&names[0]);
        assert!(names.iter().all(|name| session.read(name) == first), "a mixed tree");
        let left = if first == "1\n" { vec!["1"] } else { vec!["1", "2"] };
        assert_eq!(conversation(&session), left, "round {round}");
        let undone = session.output(&["rollback", "undo"]);
        assert_eq!(undone.status.success(), first == "1\n", "{}", said(&undone));
        assert_eq!((session.read(&names[0]), conversation(&session).len()), ("2\n".into(), 2));
    }
    assert!(finished > 0, "no rollback was killed in time");
}

#[test]
fn the_conversations_of_subagents_are_rewound_with_the_turn() {
    let session = Session::new();
    session.write("a", "0");
    let mut parent = Agent::new(&session, "s1");
    parent.turn("zero", "z", "0");
    parent.hears("delegate");
    let task = parent.begins("Task", json!({ "prompt": "work" }));
    let mut child = Agent::new(&session, "s1-sub");
    child.fields["parent"] = json!("s1");
    child.hears("work");
    child.writes("a", "1");
    child.writes("b", "1");
    child.is_done();
    parent.finishes(&task);
    parent.writes("c", "1");
    parent.is_done();
    let done = session.json(&["rollback", "1"]);
    assert_eq!(conversation(&session), ["zero"], "{done}");
    let sessions: Vec<_> = done["sessions"].as_array().unwrap().iter().collect();
    assert_eq!(
        (&sessions[0]["session"], &sessions[1]["session"]),
        (&json!("mine:s1"), &json!("mine:s1-sub"))
    );
    session.json(&["rollback", "undo"]);
    assert_eq!(conversation(&session), ["zero", "delegate", "work"]);
    // A rollback to a step after the subagent's work does not change the subagent's conversation.
    let steps = rows(&session)[0]["steps"].as_array().unwrap().len();
    session.json(&["rollback", &format!("1.{steps}")]);
    assert_eq!((session.read("b"), session.exists("c")), ("1".into(), false));
    assert_eq!(conversation(&session), ["zero", "delegate", "work"]);
    session.json(&["rollback", "1"]);
    assert_eq!((session.read("a"), conversation(&session)), ("0".into(), vec!["zero".into()]));
    session.json(&["rollback", "undo"]);
    session.json(&["rollback", "undo"]);
    assert_eq!((session.read("c"), conversation(&session).len()), ("1".into(), 3));
}

/// Creates a history that is pruned to two turns and the checkpoint `start`, which precedes the
/// first turn.
fn with_pruned_turns() -> Session {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_snapshots = 2\n");
    session.write("a", "0");
    std::fs::write(session.base().join("note"), "0").unwrap();
    session.json(&["checkpoint", "--name", "start"]);
    let mut first = Agent::new(&session, "s1");
    first.hears("1");
    first.writes("a", "1");
    first.writes("../note", "1");
    first.writes("dist/app.js", "1");
    first.is_done();
    let mut second = Agent::new(&session, "s2");
    for number in ["2", "3", "4"] {
        second.turn(number, "a", number);
    }
    session.json(&["checkpoints", "prune"]);
    let prompts: Vec<_> = rows(&session).iter().map(|row| row["prompt"].clone()).collect();
    assert_eq!(prompts, [json!("4"), json!("3"), json!(null)]);
    session
}

#[test]
fn turns_that_were_pruned_are_taken_back_with_their_files() {
    let session = with_pruned_turns();
    let done = session.json(&["rollback", "start"]);
    assert_eq!((session.read("a"), conversation(&session)), ("0".into(), vec![]), "{done:#}");
    let note = std::fs::read_to_string(session.base().join("note")).unwrap();
    assert_eq!(note, "0", "also outside the workspace: {done:#}");
    session.json(&["rollback", "undo"]);
    assert_eq!((session.read("a"), conversation(&session).len()), ("4".into(), 4));
}

#[test]
fn an_ignored_file_that_a_pruned_turn_created_is_deleted_with_the_turn() {
    let session = with_pruned_turns();
    let planned = session.json(&["rollback", "start", "--dry-run"]);
    assert_eq!(planned["deleted"], json!(["dist", "dist/app.js"]), "{planned:#}");
    session.json(&["rollback", "start"]);
    assert!(!session.exists("dist"));
    session.json(&["rollback", "undo"]);
    assert_eq!(session.read("dist/app.js"), "1");
}

#[test]
fn turns_that_were_pruned_are_taken_back_after_their_project_was_moved() {
    let session = with_pruned_turns();
    let (old, new) = (session.project(), session.base().join("moved"));
    std::fs::rename(&old, &new).unwrap();
    std::fs::create_dir(&old).unwrap();
    let (old, new) = (old.to_str().unwrap(), new.to_str().unwrap());
    session.json(&["checkpoints", "move", old, new]);
    session.json(&["-C", new, "rollback", "start"]);
    assert!(conversation(&session).is_empty());
}

#[test]
fn a_checkpoint_before_a_pruned_rollback_has_the_conversation_as_it_was_then() {
    let session = with_pruned_turns();
    session.json(&["checkpoint", "--name", "four"]);
    session.json(&["rollback", "start"]);
    let mut agent = Agent::new(&session, "s1");
    for number in ["5", "6", "7"] {
        agent.turn(number, "a", number);
    }
    // Only the newest safety checkpoint is protected from pruning. This rollback takes another one,
    // so the safety checkpoint of the first rollback can now be pruned.
    session.json(&["rollback", "1"]);
    agent.turn("8", "a", "8");
    agent.turn("9", "a", "9");
    session.json(&["checkpoints", "prune"]);
    let done = session.json(&["rollback", "four"]);
    assert_eq!(session.read("a"), "4");
    assert_eq!(conversation(&session), ["1", "2", "3", "4"], "{done:#}");
}

#[test]
fn a_turn_that_was_taken_back_stays_taken_back_when_the_target_is_pruned() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_snapshots = 4\n");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("1");
    for number in ["1", "2", "3"] {
        agent.writes("a", number);
    }
    agent.is_done();
    agent.turn("2", "b", "2");
    session.json(&["rollback", "2.3"]);
    // A long turn uses up the limit on steps, so the steps of the first turn are pruned.
    agent.hears("3");
    for number in ["4", "5", "6", "7", "8"] {
        agent.writes("a", number);
    }
    agent.is_done();
    session.json(&["checkpoints", "prune"]);
    let list = rows(&session);
    assert_eq!(list[2]["steps"].as_array().unwrap().len(), 1, "{list:#?}");
    let taken_back: Vec<_> = list.iter().map(|row| row["taken_back"] == true).collect();
    assert_eq!(taken_back, [false, true, false]);
}
