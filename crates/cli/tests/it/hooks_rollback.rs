//! Rolling back and undoing an agent's work: its files and its conversation.

use std::fs;

use serde_json::{Value, json};

use crate::agent::{Agent, ledger, rows};
use crate::session::Session;

/// Returns the messages that have not been undone.
fn current_messages(session: &Session) -> Vec<String> {
    let connection = ledger(session);
    let mut statement =
        connection.prepare("SELECT content FROM messages WHERE NOT undone ORDER BY id").unwrap();
    let contents = statement.query_map([], |row| row.get(0)).unwrap();
    contents.collect::<Result<_, _>>().unwrap()
}

/// Adds answers from the agent, each with a tool call, by importing a transcript.
fn add_answers(session: &Session, id: &str, answers: &[(&str, &str)]) {
    let exported = session.output(&["sessions", "export", id]).stdout;
    let mut whole: Value = serde_json::from_slice(&exported).unwrap();
    for (content, call) in answers {
        let calls = json!([{ "id": call, "function": { "name": "Write", "arguments": "{}" } }]);
        let message = json!({ "role": "assistant", "content": content, "tool_calls": calls });
        whole["messages"].as_array_mut().unwrap().push(message);
    }
    let file = session.base().join("answers.jsonl");
    fs::write(&file, format!("{whole}\n")).unwrap();
    let output = session.output(&["sessions", "import", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Reports three turns of one session, each of which writes different content to `a`.
fn three_turns() -> Session {
    let session = Session::new();
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    for number in ["1", "2", "3"] {
        agent.turn(&format!("make it {number}"), "a", number);
    }
    session
}

#[test]
fn a_rollback_rewinds_the_conversation_to_before_the_turn() {
    let mut session = three_turns();
    session.takeback(&["rollback", "2"]);
    session.assert(
        "
$ takeback rollback 2
Restored:
  a
Conversation: 2 turns (2 messages) taken back.
The prompt was:
  make it 2
Restored 1 file. `takeback rollback undo` takes this back.
",
    );
    assert_eq!(session.read("a"), "1");
    assert_eq!(current_messages(&session), ["make it 1"]);
    let shown = String::from_utf8(session.output(&["sessions", "show", "mine:s1"]).stdout).unwrap();
    let undone: Vec<_> = shown.lines().filter(|line| line.ends_with("(undone)")).collect();
    assert!(undone.len() == 2 && shown.contains("messages   1\n"), "{shown}");
}

#[test]
fn a_rollback_and_its_dry_run_have_the_documented_shape() {
    let session = three_turns();
    let dry = session.json(&["rollback", "3", "--dry-run"]);
    assert_eq!((session.read("a"), current_messages(&session).len()), ("3".into(), 3));
    let done = session.json(&["rollback", "3"]);
    for view in [&dry, &done] {
        assert_eq!(view["checkpoint"].as_str().unwrap().len(), 40);
        assert_eq!((&view["restored"], &view["deleted"]), (&json!(["a"]), &json!([])));
        assert_eq!(view["undone_messages"], 3);
        for key in ["guarded", "kept", "uncovered", "blocked", "effects"] {
            assert_eq!(view[key], json!([]), "{key}");
        }
    }
    assert_eq!(dry["safety_checkpoint"], Value::Null);
    assert_eq!(done["safety_checkpoint"].as_str().unwrap().len(), 40);
}

#[test]
fn a_rollback_to_a_step_takes_back_the_conversation_from_its_call_on() {
    let session = Session::new();
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("one");
    agent.writes("a", "1");
    agent.writes("a", "2");
    agent.is_done();
    add_answers(&session, "mine:s1", &[("first", "c1"), ("second", "c2")]);
    let done = session.json(&["rollback", "1.2"]);
    assert_eq!((session.read("a"), &done["undone_messages"]), ("1".into(), &json!(1)));
    assert_eq!(current_messages(&session), ["one", "first"]);
    let done = session.json(&["rollback", "1"]);
    assert_eq!((session.read("a"), &done["undone_messages"]), ("0".into(), &json!(2)));
    assert!(current_messages(&session).is_empty());
}

#[test]
fn files_and_conversation_can_be_rolled_back_separately() {
    let session = three_turns();
    let done = session.json(&["rollback", "3", "--files-only"]);
    assert_eq!((session.read("a"), &done["undone_messages"]), ("0".into(), &json!(0)));
    assert_eq!(current_messages(&session).len(), 3);
    let done = session.json(&["rollback", "2", "--chat-only"]);
    assert_eq!((session.read("a"), &done["undone_messages"]), ("0".into(), &json!(2)));
    assert_eq!(current_messages(&session), ["make it 1"]);
}

#[test]
fn a_manual_checkpoint_has_no_conversation() {
    let mut session = three_turns();
    session.output(&["checkpoint", "--name", "mine"]);
    session.write("a", "4");
    assert_eq!(session.json(&["rollback", "mine"])["undone_messages"], 0);
    assert_eq!(current_messages(&session).len(), 3);
    session.takeback(&["rollback", "mine", "--chat-only"]);
    session.takeback(&["rollback", "1", "a", "--chat-only"]);
    session.assert(
        "
$ takeback rollback mine --chat-only
! error: checkpoint <id> belongs to no conversation
! hint: only the checkpoints of an agent's turns belong to a conversation
[exit Some(1)]
$ takeback rollback 1 a --chat-only
! error: --chat-only takes no paths
! hint: drop --chat-only to restore files, or drop the paths
[exit Some(1)]
",
    );
}

#[test]
fn undoing_a_rollback_restores_messages_and_a_redo_takes_them_back_again() {
    let mut session = three_turns();
    session.output(&["rollback", "2"]);
    session.takeback(&["rollback", "undo"]);
    assert_eq!((session.read("a"), current_messages(&session).len()), ("3".into(), 3));
    session.takeback(&["rollback", "redo"]);
    assert_eq!((session.read("a"), current_messages(&session).len()), ("1".into(), 1));
    session.output(&["rollback", "undo"]);
    assert_eq!((session.read("a"), current_messages(&session).len()), ("3".into(), 3));
    session.output(&["rollback", "1"]);
    session.takeback(&["rollback", "redo"]);
    session.assert(
        "
$ takeback rollback undo
Restored:
  a
Conversation: 2 messages restored.
Restored 1 file. `takeback rollback redo` takes this back.
$ takeback rollback redo
Restored:
  a
Conversation: 2 turns (2 messages) taken back.
The prompt was:
  make it 2
Restored 1 file. `takeback rollback undo` takes this back.
$ takeback rollback redo
! error: no undone rollback to redo in this workspace
[exit Some(1)]
",
    );
}

#[test]
fn undoing_a_rollback_of_the_conversation_alone_restores_it() {
    let session = three_turns();
    session.output(&["rollback", "2", "--chat-only"]);
    let output = session.output(&["rollback", "undo"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!((session.read("a"), current_messages(&session).len()), ("3".into(), 3));
}

#[test]
fn a_rollback_is_undone_even_if_its_conversation_continued() {
    let session = three_turns();
    session.output(&["rollback", "2"]);
    let agent = Agent::new(&session, "s1");
    agent.hears("something else");
    agent.is_done();
    let output = session.output(&["rollback", "undo"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(session.read("a"), "3");
    assert_eq!(current_messages(&session), ["make it 1", "make it 2", "make it 3"]);
    session.output(&["rollback", "redo"]);
    assert_eq!(session.read("a"), "1");
    assert_eq!(current_messages(&session), ["make it 1", "something else"]);
}

#[test]
fn the_conversations_of_all_sessions_are_rewound_with_their_files() {
    let session = Session::new();
    let mut one = Agent::new(&session, "s1");
    let mut two = Agent::new(&session, "s2");
    one.turn("first", "a", "1");
    two.turn("second", "b", "1");
    one.turn("third", "a", "2");
    let done = session.json(&["rollback", "3"]);
    assert_eq!(done["undone_messages"], 3);
    let moved = |session, count, prompt| {
        json!({
            "session": session, "undone_messages": count, "redone_messages": 0,
            "undone_turns": count, "prompt": prompt,
        })
    };
    let expected = [moved("mine:s1", 2, "first"), moved("mine:s2", 1, "second")];
    assert_eq!(done["sessions"], json!(expected));
    assert!(current_messages(&session).is_empty());
    let undone = session.output(&["rollback", "undo"]);
    let undone = String::from_utf8(undone.stdout).unwrap();
    assert!(undone.contains("Conversation of mine:s2: 1 message restored.\n"), "{undone}");
    assert_eq!(current_messages(&session).len(), 3);
    assert_eq!(done["others"], json!(["b"]), "another agent's file is listed");
}

#[test]
fn edits_by_the_user_since_the_turn_are_reported() {
    let mut session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "2");
    session.write("notes", "by hand");
    session.takeback(&["rollback", "1", "--dry-run"]);
    session.assert(
        "
$ takeback rollback 1 --dry-run
Would restore 1 file and delete 1. 1 of them has been edited since.
Would restore:
  a
Would delete:
  notes
Edited since the turn, by you or another agent (saved in the safety checkpoint):
  notes
Conversation: 1 turn (1 message) would be taken back.
The prompt was:
  one
",
    );
}

#[test]
fn a_rollback_shows_all_effects_of_commands_since_the_checkpoint() {
    let mut session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "2");
    agent.hears("two");
    agent.pretends("git push origin main");
    agent.pretends("psql -c 'delete from carts'");
    agent.is_done();
    session.takeback(&["rollback", "2", "--yes", "--files-only"]);
    session.assert(
        "
$ takeback rollback 2 --yes --files-only
Restored:
  a
⚠ These publish/database effects cannot be reversed:
  publish: git push origin main
  database: psql -c 'delete from carts'
Restored 1 file. `takeback rollback undo` takes this back.
",
    );
}

#[test]
fn undo_keeps_the_work_of_the_user_and_of_other_agents() {
    let mut session = Session::new();
    for name in ["agent", "other", "person"] {
        session.write(name, "0\n");
    }
    let mut other = Agent::new(&session, "s2");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("change it");
    agent.writes("agent", "agent\n");
    session.write("person", "between calls\n");
    other.turn("mine", "other", "other\n");
    agent.runs("echo new > made && rm -f nothing");
    agent.is_done();
    session.write("later", "by hand\n");
    session.takeback(&["undo", "--turn", "2"]);
    session.assert(
        "
$ takeback undo --turn 2
Restored:
  agent
Deleted:
  made
Conversation: 1 turn (1 message) taken back.
The prompt was:
  change it
Restored 1 file and deleted 1. `takeback rollback undo` takes this back.
",
    );
    let left: Vec<_> = ["agent", "other", "person", "later"].map(|name| session.read(name)).into();
    assert_eq!(left, ["0\n", "other\n", "between calls\n", "by hand\n"]);
    session.output(&["rollback", "undo"]);
    assert_eq!((session.read("agent"), session.read("made")), ("agent\n".into(), "new\n".into()));
    assert_eq!(session.read("later"), "by hand\n");
}

#[test]
fn undo_takes_back_the_last_turn_that_changed_files() {
    let session = three_turns();
    let mut agent = Agent::new(&session, "s1");
    agent.hears("nothing much");
    agent.pretends("make");
    agent.is_done();
    session.output(&["undo"]);
    assert_eq!(session.read("a"), "2");
    assert_eq!(current_messages(&session).len(), 4, "the conversation is not touched");
}

#[test]
fn undo_says_if_there_is_no_turn_to_take_back() {
    let mut session = Session::new();
    session.write("a", "1");
    session.takeback(&["undo"]);
    session.output(&["checkpoint"]);
    session.takeback(&["undo"]);
    session.takeback(&["undo", "--turn", "1"]);
    session.takeback(&["undo", "--turn", "7"]);
    session.assert(
        "
$ takeback undo
! error: no turn left to undo in this workspace
! hint: `takeback list` lists the checkpoints of this workspace
[exit Some(1)]
$ takeback undo
! error: no turn left to undo in this workspace
! hint: `takeback list` lists the checkpoints of this workspace
[exit Some(1)]
$ takeback undo --turn 1
! error: checkpoint 1 was taken by hand: there is no turn to undo
! hint: `takeback list` lists the checkpoints of this workspace
[exit Some(1)]
$ takeback undo --turn 7
! error: no checkpoint 7: this workspace has 1
! hint: `takeback list` lists the checkpoints of this workspace
[exit Some(1)]
",
    );
}

#[test]
fn changes_by_a_call_that_has_not_ended_are_uncertain_in_an_undo() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("one");
    agent.begins("Write", json!({ "path": "a" }));
    session.write("a", "2");
    session.write("b", "a person's");
    let undone = session.json(&["undo"]);
    assert_eq!(undone["uncertain"], json!(["a"]), "{undone}");
    assert_eq!((session.read("a"), session.read("b")), ("2".into(), "a person's".into()));
}

#[test]
fn every_session_that_worked_in_the_workspace_gets_a_notice() {
    let session = Session::new();
    session.write("a", "1");
    let mut one = Agent::new(&session, "s1");
    let mut two = Agent::new(&session, "s2");
    let mut elsewhere = Agent::new(&session, "s3");
    elsewhere.cwd = session.base().join("elsewhere");
    fs::create_dir(&elsewhere.cwd).unwrap();
    one.turn("one", "a", "2");
    two.turn("two", "b", "1");
    elsewhere.turn("three", "c", "1");
    let done = session.json(&["rollback", "2"]);
    let connection = ledger(&session);
    let mut statement = connection
        .prepare(
            "SELECT s.id, n.body FROM notices n JOIN sessions s ON s.key = n.session
             WHERE n.delivered_at IS NULL ORDER BY s.id",
        )
        .unwrap();
    let notices: Vec<(String, String)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let sessions: Vec<_> = notices.iter().map(|(session, _)| session.as_str()).collect();
    assert_eq!(sessions, ["mine:s1", "mine:s2"]);
    let body: Value = serde_json::from_str(&notices[0].1).unwrap();
    assert_eq!(body["checkpoint"], done["checkpoint"]);
    assert_eq!(body["workspace"], json!(session.project()));
    // The id of the content makes it possible to see later whether the file has changed again.
    let content = "56a6051ca2b02b04ef92d5150c9ef600403cb1de";
    assert_eq!(
        body["files"],
        json!([{ "path": "a", "content": content }, { "path": "b", "content": null }])
    );
}

#[test]
fn dry_runs_and_rollbacks_that_change_nothing_leave_no_notice() {
    let session = three_turns();
    session.output(&["rollback", "2", "--dry-run"]);
    session.output(&["undo", "--dry-run"]);
    let count: i64 =
        ledger(&session).query_row("SELECT count(*) FROM notices", [], |row| row.get(0)).unwrap();
    assert_eq!((count, session.read("a"), rows(&session).len()), (0, "3".into(), 3));
}

#[test]
fn a_turn_in_which_only_a_subagent_worked_is_rolled_back() {
    let session = Session::new();
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("first", "a", "1");
    agent.hears("second");
    let mut subagent = Agent::new(&session, "sub");
    subagent.fields["parent"] = json!("s1");
    subagent.writes("b", "made by the subagent");
    agent.is_done();
    assert_eq!(rows(&session)[0]["prompt"], json!("second"));
    session.output(&["rollback", "1"]);
    assert_eq!(current_messages(&session), ["first"]);
    assert!(!session.project().join("b").exists());
}
