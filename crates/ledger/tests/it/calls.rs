//! Tool calls, effects and notices.

use serde_json::{Value, json};
use takeback_ledger::{CallId, CallRecord, EffectRecord, Event, MessageRecord, Moment};

use crate::support::{Fixture, at, message, record_event};

#[test]
fn records_of_tool_calls_are_completed_as_more_becomes_known() {
    let mut fixture = Fixture::with_three_turns();
    let before = CallRecord {
        call: "c1".into(),
        tool: "Bash".into(),
        input: Some(json!({ "command": "ls" })),
        started_at: Some(at(1)),
        checkpoint: Some("4270a8c".into()),
        ..CallRecord::default()
    };
    record_event(
        &mut fixture.ledger,
        Event::Call { session: "s".into(), call: before.clone() },
        at(1),
    );
    let after = CallRecord {
        call: "c1".into(),
        outcome: Some("ok".into()),
        ended_at: Some(at(2)),
        tree_after: Some("eaf4c1f".into()),
        ..CallRecord::default()
    };
    record_event(
        &mut fixture.ledger,
        Event::Call { session: "s".into(), call: after.clone() },
        at(1),
    );
    let calls = fixture.ledger.transcript("s").unwrap().calls;
    assert_eq!(
        calls,
        [CallRecord {
            turn: 3,
            outcome: after.outcome.clone(),
            ended_at: after.ended_at,
            tree_after: after.tree_after.clone(),
            ..before
        }]
    );
}

fn unknown_call() -> CallId<'static> {
    let (session, began) = ("s", at(0));
    CallId { session, reporter: session, call: "c", began, late: false, prompted: None }
}

#[test]
fn a_call_that_was_never_recorded_finds_its_turn_even_if_the_clock_has_been_set_back() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    for (prompt, start) in [("one", 86_400), ("two", 10)] {
        fixture.ledger.append("s", &[message("user", prompt)], at(start)).unwrap();
        let end = Event::TurnEnd { session: "s".into() };
        record_event(&mut fixture.ledger, end, at(start + 5));
    }
    let turn_at = |seconds, prompted: Option<i64>| {
        let call = CallId { began: at(seconds), prompted: prompted.map(at), ..unknown_call() };
        fixture.ledger.turn_of_call(&call).unwrap().map(|turn| turn.turn)
    };
    assert_eq!([86_401, 11, 50].map(|began| turn_at(began, None)), [Some(1), Some(2), None]);
    // The time of the prompt identifies the turn, regardless of the clock during the call.
    assert_eq!(turn_at(11, Some(86_400)), Some(1));
    assert_eq!(turn_at(50, Some(10)), Some(2));
    assert_eq!(turn_at(11, Some(12)), Some(2));
}

#[test]
fn effects_are_found_by_session_and_by_workspace() {
    let mut fixture = Fixture::with_three_turns();
    let effect = |command: &str, workspace: &str| EffectRecord {
        kind: "database".into(),
        command: command.into(),
        workspace: Some(workspace.into()),
        ..EffectRecord::default()
    };
    record_event(
        &mut fixture.ledger,
        Event::Effect { session: "s".into(), effect: effect("psql -c 'drop table x'", "/w") },
        at(5),
    );
    record_event(
        &mut fixture.ledger,
        Event::Effect { session: "s".into(), effect: effect("redis-cli flushall", "/v") },
        at(6),
    );
    assert_eq!(fixture.ledger.transcript("s").unwrap().effects.len(), 2);
    let here = fixture.ledger.effects_since("/w", &Moment::Between(None, None), at(5)).unwrap();
    assert_eq!((here.len(), here[0].turn, here[0].time), (1, 3, Some(at(5))));
    assert!(
        fixture.ledger.effects_since("/w", &Moment::Between(None, None), at(6)).unwrap().is_empty()
    );
}

#[test]
fn an_effect_that_belongs_to_no_call_is_recorded_once() {
    let mut fixture = Fixture::with_three_turns();
    let mut record = |call: Option<&str>, seconds: i64| {
        let effect = EffectRecord {
            call: call.map(str::to_owned),
            kind: "publish".into(),
            command: "git push".into(),
            time: Some(at(seconds)),
            ..EffectRecord::default()
        };
        let event = Event::Effect { session: "s".into(), effect };
        record_event(&mut fixture.ledger, event, at(seconds));
        fixture.ledger.transcript("s").unwrap().effects.len()
    };
    assert_eq!([record(None, 5), record(None, 5)], [1, 1]);
    assert_eq!(record(None, 6), 2, "the command ran again");
    assert_eq!([record(Some("c"), 7), record(Some("c"), 8)], [3, 3]);
    let transcript = fixture.ledger.transcript("s").unwrap();
    fixture.ledger.import(&transcript, at(9)).unwrap();
    assert_eq!(fixture.ledger.transcript("s").unwrap().effects.len(), 3);
}

#[test]
fn a_notice_is_taken_once() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    assert!(!fixture.ledger.has_notices("s").unwrap());
    fixture.ledger.add_notice("s", &json!({ "files": ["a"] }), at(1)).unwrap();
    fixture.ledger.add_notice("s", &json!({ "files": ["b"] }), at(2)).unwrap();
    assert!(fixture.ledger.has_notices("s").unwrap());
    let mut other = fixture.open_another();
    let taken = other.take_notices("s", at(3)).unwrap();
    let files: Vec<&Value> = taken.iter().map(|notice| &notice.body["files"][0]).collect();
    assert_eq!(files, ["a", "b"]);
    assert!(fixture.ledger.take_notices("s", at(4)).unwrap().is_empty());
    assert!(!fixture.ledger.has_notices("s").unwrap());
}

#[test]
fn looking_up_many_calls_at_once_finds_the_same_turns_as_looking_up_each_call() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    let call = |id: &str| {
        let function = json!({ "name": "t", "arguments": "{\"path\":\"inner\"}" });
        let calls = json!([{ "id": id, "type": "function", "function": function }]);
        MessageRecord { tool_calls: Some(calls), ..message("assistant", "") }
    };
    let result = |id: &str| MessageRecord { tool_call_id: Some(id.into()), ..message("tool", "r") };
    let long = "x".repeat(1_000);
    let turns = [
        vec![call("c"), result("c"), call("twice")],
        vec![call("a \"quoted\" \\ id"), call("twice")],
        vec![result("only a result"), call(&long)],
    ];
    for (turn, messages) in (1..).zip(turns) {
        let prompt = message("user", "go");
        let messages = [vec![prompt], messages].concat();
        fixture.ledger.append("s", &messages, at(turn * 100)).unwrap();
    }
    let mut found = fixture.ledger.call_turns();
    let expected = [
        ("c", Some(1)),
        ("a \"quoted\" \\ id", Some(2)),
        ("only a result", Some(3)),
        (long.as_str(), Some(3)),
        // For each of the following calls, the time of the call determines the turn.
        ("twice", Some(2)),
        ("unknown", Some(2)),
        ("inner", Some(2)),
        ("", Some(2)),
    ];
    for (id, turn) in expected {
        let call = CallId { call: id, began: at(250), ..unknown_call() };
        let many = found.find(&call).unwrap();
        assert_eq!(many.as_ref().map(|many| many.turn), turn, "{id:?}");
        assert_eq!(many, fixture.ledger.turn_of_call(&call).unwrap(), "{id:?}");
    }
}
