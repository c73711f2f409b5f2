//! Determining the turn that a call belongs to.

use std::fs;

use serde_json::json;

use crate::agent::{Agent, configure, conversation, eventually, rows, steps};
use crate::session::Session;

#[test]
fn a_late_call_belongs_to_its_own_turn_and_not_to_the_next() {
    let session = Session::new();
    configure(&session, "[checkpoints]\ntimeout_ms = 300\n");
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("one");
    agent.writes("a", "1");
    let lock = session.lock_workspace();
    let call = agent.call("Bash", json!({ "command": "make" }));
    assert!(agent.report(call.event("before_tool")).contains("in the background"));
    let failures = session.json(&["checkpoints"])["failures"].clone();
    assert_eq!(failures[0]["count"], 1, "the background work may never be done");
    agent.is_done();
    agent.hears("two");
    drop(lock);
    session.write("a", "2");
    eventually("the late one", || steps(&rows(&session)[0]).len() == 2);
    eventually("nothing failed", || session.json(&["checkpoints"])["failures"] == json!([]));
    agent.writes("a", "3");
    let rows = rows(&session);
    assert_eq!((rows.len(), &rows[0]["prompt"]), (2, &json!("two")), "{rows:?}");
    session.json(&["rollback", "1"]);
    assert_eq!((session.read("a"), conversation(&session)), ("2".into(), vec!["one".into()]));
}

#[test]
fn without_the_ledger_turns_are_still_distinguished() {
    let session = Session::new();
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "1");
    agent.tell(json!({ "event": "session_end" }));
    session.write("mine", "by hand");
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        let _ = fs::remove_file(session.base().join(".takeback").join(name));
    }
    agent.tell(json!({ "event": "session_start" }));
    agent.writes("a", "2");
    assert_eq!(rows(&session).len(), 2);
    let done = session.json(&["rollback", "1", "--dry-run"]);
    assert_eq!((&done["restored"], &done["deleted"]), (&json!(["a"]), &json!([])));
}

#[test]
fn takebacks_turn_numbers_are_not_mistaken_for_those_of_the_agent() {
    let session = Session::new();
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    let fields = agent.fields.clone();
    for turn in 1..=4 {
        agent.fields["turn"] = json!(turn);
        agent.turn("with a number", "a", &turn.to_string());
    }
    agent.fields = fields;
    agent.turn("without", "a", "5");
    agent.writes("a", "6");
    assert_eq!(rows(&session).len(), 6);
    session.json(&["rollback", "2"]);
    assert_eq!(session.read("a"), "4");
}

/// Some agents start to number their turns anew in each process. Others continue to count from the
/// turn that a rollback returned to.
#[test]
fn a_turn_whose_name_repeats_counts_as_a_new_turn() {
    let session = Session::new();
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.fields["turn"] = json!(1);
    for content in ["1", "2", "3"] {
        agent.tell(json!({ "event": "session_start" }));
        agent.turn(content, "a", content);
        agent.tell(json!({ "event": "session_end" }));
        session.write(content, "by hand");
    }
    let prompts: Vec<_> = rows(&session).iter().map(|row| row["prompt"].clone()).collect();
    assert_eq!(prompts, ["3", "2", "1"]);
    let done = session.json(&["rollback", "1"]);
    assert_eq!((&done["restored"], &done["deleted"]), (&json!(["a"]), &json!(["3"])));
    assert_eq!(conversation(&session), ["1", "2"]);
    agent.turn("4", "2", "not by hand");
    session.json(&["rollback", "1"]);
    assert_eq!((session.read("a"), session.read("2")), ("2".into(), "by hand".into()));
    assert_eq!(conversation(&session), ["1", "2"]);
}
