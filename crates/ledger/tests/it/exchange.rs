//! Sessions out and in.

use serde_json::{Value, json};
use takeback_ledger::{
    CallRecord, EffectRecord, ImportError, ImportReport, Ledger, MessageRecord, Options,
    ParentKind, SearchOptions, SessionRecord, Tokens, UsageRecord, Which,
};

use crate::support::{Fixture, at, message, session};

fn export(ledger: &Ledger, id: &str) -> String {
    let mut out = Vec::new();
    ledger.export_line(id, false, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn import(ledger: &mut Ledger, lines: &str) -> ImportReport {
    ledger.import_lines(&mut lines.as_bytes(), at(100), &|_| {}).unwrap()
}

/// A session with some of everything.
fn rich(fixture: &mut Fixture) {
    let record = SessionRecord {
        user_id: Some("u".into()),
        model: Some("m".into()),
        model_config: Some(json!({ "temperature": 0.5 })),
        system_prompt: Some("be kind".into()),
        parent_session_id: Some("elsewhere".into()),
        parent_kind: Some(ParentKind::Compaction),
        started_at: Some(at(1)),
        workspace: Some("/w".into()),
        git_branch: Some("main".into()),
        billing_provider: Some("p".into()),
        extra: json!({ "session_key": "k" }).as_object().unwrap().clone(),
        ..session("claude:1")
    };
    fixture.ledger.create_session(&record, at(0)).unwrap();
    for number in 0..6 {
        let calls = json!([{ "id": format!("c{number}"), "type": "function",
            "function": { "name": "Bash", "arguments": "{\"command\": \"ls\"}" } }]);
        let messages = [
            message("user", &format!("ask {number}\n\u{0}\u{202e}\"'")),
            MessageRecord {
                tool_calls: Some(calls),
                reasoning: Some("hm".into()),
                extra: json!({ "effect": 1 }).as_object().unwrap().clone(),
                ..message("assistant", "答")
            },
            MessageRecord {
                role: "tool".into(),
                tool_call_id: Some(format!("c{number}")),
                content: Some(json!([{ "type": "text", "text": "out" }])),
                ..MessageRecord::default()
            },
        ];
        fixture.ledger.append("claude:1", &messages, at(number)).unwrap();
    }
    let usage = UsageRecord {
        model: "m".into(),
        tokens: Tokens { input: 7, ..Tokens::default() },
        ..UsageRecord::default()
    };
    fixture.ledger.record_usage("claude:1", &usage, at(3)).unwrap();
    let call = CallRecord { call: "c1".into(), tool: "Bash".into(), ..CallRecord::default() };
    fixture.ledger.record_call("claude:1", &call).unwrap();
    let effect = EffectRecord {
        kind: "publish".into(),
        command: "git push".into(),
        ..EffectRecord::default()
    };
    fixture.ledger.record_effect("claude:1", &effect, at(4)).unwrap();
    fixture.ledger.set_title("claude:1", Some("A title")).unwrap();
    fixture.ledger.compact("claude:1", 6, &message("user", "summary"), at(5)).unwrap();
    fixture.ledger.undo_turns("claude:1", 1, at(6)).unwrap();
    fixture.ledger.end_session("claude:1", "done", at(7)).unwrap();
}

#[test]
fn out_in_and_out_again_is_the_same() {
    let mut fixture = Fixture::new();
    rich(&mut fixture);
    let first = export(&fixture.ledger, "claude:1");
    let mut other = Fixture::new();
    let report = import(&mut other.ledger, &first);
    assert_eq!((report.sessions, report.new_sessions, report.messages), (1, 1, 19));
    assert!(report.bad.is_empty());
    assert_eq!(export(&other.ledger, "claude:1"), first);
    assert!(other.ledger.verify(&|_, _| {}).unwrap().whole);
    let current = |ledger: &Ledger| ledger.messages("claude:1", Which::Current).unwrap().len();
    assert_eq!(current(&other.ledger), current(&fixture.ledger));
}

#[test]
fn the_same_twice_adds_nothing() {
    let mut fixture = Fixture::new();
    rich(&mut fixture);
    let first = export(&fixture.ledger, "claude:1");
    let report = import(&mut fixture.ledger, &first);
    assert_eq!((report.sessions, report.new_sessions, report.messages), (1, 0, 0));
    assert!(report.bad.is_empty());
    assert_eq!(export(&fixture.ledger, "claude:1"), first);
}

#[test]
fn a_longer_version_adds_what_is_new() {
    let mut fixture = Fixture::new();
    fixture.session("s");
    fixture.say("s", "user", "one");
    let short = export(&fixture.ledger, "s");
    fixture.say("s", "assistant", "two");
    let long = export(&fixture.ledger, "s");
    let mut other = Fixture::new();
    import(&mut other.ledger, &short);
    assert_eq!(import(&mut other.ledger, &long).messages, 1);
    assert_eq!(export(&other.ledger, "s"), long);
    assert_eq!(import(&mut other.ledger, &short).messages, 0);
    other.ledger.clear_messages("s").unwrap();
    assert_eq!(import(&mut other.ledger, &long).messages, 2, "what was cleared can come back");
}

#[test]
fn another_message_under_the_same_number_is_refused() {
    let mut fixture = Fixture::new();
    fixture.session("s");
    fixture.say("s", "user", "one");
    let other = r#"{"id": "s", "source": "x", "messages": [{"role": "user", "content": "other"},
        {"role": "user", "content": "more"}]}"#
        .replace('\n', " ");
    let report = import(&mut fixture.ledger, &other);
    assert!(matches!(&report.bad[0].error, ImportError::Conflict { seq: 1, .. }));
    assert_eq!(fixture.ledger.session("s").unwrap().message_count, 1);
}

#[test]
fn a_bad_line_is_reported_and_the_others_go_in() {
    let lines = [
        r#"{"id": "a", "source": "x", "messages": [{"role": "user", "content": "hello"}]}"#,
        r#"{"id": "b", "source": "x", "messages": [{"role": "user", "content": "#,
        "",
        r#"[1, 2]"#,
        r#"{"source": "x"}"#,
        r#"{"id": "c", "messages": [{"content": "who?"}]}"#,
        r#"{"id": "d", "messages": [{"role": "user", "timestamp": "yesterday"}]}"#,
        r#"{"id": "e", "title": "\u0007", "message_count": 99}"#,
        r#"{"id": "f", "started_at": "2024-11-16T00:00:00Z", "messages": [
            {"role": "user", "content": "x", "timestamp": 1731715201.5}, {"role": "tool"}]}"#,
    ]
    .map(|line| line.replace('\n', " "))
    .join("\n");
    let mut fixture = Fixture::new();
    let report = import(&mut fixture.ledger, &lines);
    let bad: Vec<usize> = report.bad.iter().map(|bad| bad.line).collect();
    assert_eq!(bad, [2, 4, 5, 6, 7]);
    assert_eq!(report.new_sessions, 3);
    let e = fixture.ledger.session("e").unwrap();
    assert_eq!((e.message_count, e.title), (0, None), "counts come from the messages");
    let f = fixture.ledger.transcript("f").unwrap();
    assert_eq!(f.session.started_at.unwrap().0, 1_731_715_200_000);
    assert_eq!(f.messages[0].timestamp.unwrap().0, 1_731_715_201_500);
    assert_eq!(f.messages[1].timestamp, f.messages[0].timestamp, "right after the one before it");
    assert!(fixture.ledger.verify(&|_, _| {}).unwrap().whole);
}

#[test]
fn tool_calls_in_a_string_become_a_list() {
    let line = json!({ "id": "s", "messages": [
        { "role": "assistant", "tool_calls": "[{\"id\": \"1\"}, {\"id\": \"2\"}]" }] });
    let mut fixture = Fixture::new();
    import(&mut fixture.ledger, &line.to_string());
    assert_eq!(fixture.ledger.session("s").unwrap().tool_call_count, 2);
}

#[test]
fn titles_that_are_taken_get_a_number() {
    let mut fixture = Fixture::new();
    for id in ["a", "b"] {
        import(&mut fixture.ledger, &json!({ "id": id, "title": "Same" }).to_string());
    }
    assert_eq!(fixture.ledger.session("b").unwrap().title.as_deref(), Some("Same #2"));
}

#[test]
fn secrets_are_masked_on_the_way_out_and_on_the_way_in() {
    let key = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let mut fixture = Fixture::new();
    fixture.session("s");
    let calls =
        json!([{ "function": { "name": "x", "arguments": json!({ "key": key }).to_string() } }]);
    let said =
        MessageRecord { tool_calls: Some(calls), ..message("user", &format!("use {key} now")) };
    fixture.ledger.append("s", std::slice::from_ref(&said), at(1)).unwrap();
    assert!(export(&fixture.ledger, "s").contains(&key));
    let mut masked = Vec::new();
    fixture.ledger.export_line("s", true, &mut masked).unwrap();
    let masked = String::from_utf8(masked).unwrap();
    assert!(!masked.contains(&key) && masked.contains("use [redacted:"), "{masked}");
    serde_json::from_str::<Value>(&masked).unwrap();

    let mut careful = Fixture::new();
    let options = Options { redact: true, ..Options::default() };
    careful.ledger = Ledger::open(&careful.path(), &options).unwrap();
    careful.session("t");
    careful.ledger.append("t", &[said], at(1)).unwrap();
    import(&mut careful.ledger, &export(&fixture.ledger, "s"));
    for id in ["s", "t"] {
        assert!(!export(&careful.ledger, id).contains(&key));
    }
    let found = careful.ledger.search(&key, &SearchOptions::default()).unwrap();
    assert_eq!(found.total, 0);
    let again = import(&mut careful.ledger, &export(&fixture.ledger, "s"));
    assert!(again.bad.is_empty(), "a masked message is the same message");
}
