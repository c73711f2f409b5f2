//! The exchange of complete sessions.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use takeback_ledger::{
    CallRecord, EffectRecord, Event, ExchangeError, ImportError, Ledger, LedgerError, ListOptions,
    MessageFilter, MessageRecord, ParentKind, SessionRecord, Tokens, Transcript, UsageRecord,
};

use crate::support::{
    Fixture, at, export_line, import_lines, message, open_raw, random_below, record_event, session,
};

/// Creates a session with records of every kind.
fn make_rich_session(fixture: &mut Fixture) {
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
    record_event(
        &mut fixture.ledger,
        Event::Call { session: "claude:1".into(), call: call.clone() },
        at(1),
    );
    let effect = EffectRecord {
        kind: "publish".into(),
        command: "git push".into(),
        ..EffectRecord::default()
    };
    record_event(&mut fixture.ledger, Event::Effect { session: "claude:1".into(), effect }, at(4));
    fixture.ledger.set_title("claude:1", Some("A title")).unwrap();
    fixture.ledger.compact("claude:1", 6, &message("user", "summary"), at(5)).unwrap();
    fixture.ledger.rewind_turns("claude:1", 1, at(6)).unwrap();
    fixture.ledger.end_session("claude:1", "done", at(7)).unwrap();
}

#[test]
fn an_exported_session_is_the_same_after_an_import() {
    let mut fixture = Fixture::new();
    make_rich_session(&mut fixture);
    let first = export_line(&fixture.ledger, "claude:1");
    let mut other = Fixture::new();
    let report = import_lines(&mut other.ledger, &first);
    assert_eq!((report.sessions, report.new_sessions, report.messages), (1, 1, 19));
    assert!(report.bad.is_empty());
    assert_eq!(export_line(&other.ledger, "claude:1"), first);
    assert!(other.ledger.verify(&|_, _| {}).unwrap().whole);
    let current =
        |ledger: &Ledger| ledger.messages("claude:1", MessageFilter::Current).unwrap().len();
    assert_eq!(current(&other.ledger), current(&fixture.ledger));
}

#[test]
fn importing_a_session_twice_adds_nothing() {
    let mut fixture = Fixture::new();
    make_rich_session(&mut fixture);
    let first = export_line(&fixture.ledger, "claude:1");
    let report = import_lines(&mut fixture.ledger, &first);
    assert_eq!((report.sessions, report.new_sessions, report.messages), (1, 0, 0));
    assert!(report.bad.is_empty());
    assert_eq!(export_line(&fixture.ledger, "claude:1"), first);
}

#[test]
fn a_longer_version_adds_its_new_messages() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    fixture.say("s", "user", "one");
    let short = export_line(&fixture.ledger, "s");
    fixture.say("s", "assistant", "two");
    let long = export_line(&fixture.ledger, "s");
    let mut other = Fixture::new();
    import_lines(&mut other.ledger, &short);
    assert_eq!(import_lines(&mut other.ledger, &long).messages, 1);
    assert_eq!(export_line(&other.ledger, "s"), long);
    assert_eq!(import_lines(&mut other.ledger, &short).messages, 0);
    other.ledger.clear_messages("s").unwrap();
    assert_eq!(
        import_lines(&mut other.ledger, &long).messages,
        2,
        "cleared messages can be imported again"
    );
}

/// A reader of lines. Before it returns the last line, another process begins to write to the
/// ledger.
struct LinesBeforeALock {
    lines: Vec<&'static str>,
    path: PathBuf,
    lock: Option<rusqlite::Connection>,
}

impl std::io::Read for LinesBeforeALock {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.lines.len() == 1 {
            let lock = open_raw(&self.path);
            lock.execute_batch("BEGIN IMMEDIATE").unwrap();
            self.lock = Some(lock);
        }
        let line = if self.lines.is_empty() { "" } else { self.lines.remove(0) };
        buffer[..line.len()].copy_from_slice(line.as_bytes());
        Ok(line.len())
    }
}

#[test]
fn an_import_that_ends_because_the_ledger_is_locked_says_what_was_imported() {
    let mut fixture = Fixture::new();
    fixture.ledger.set_wait(Duration::ZERO);
    let lines = LinesBeforeALock {
        lines: vec!["{\"id\": \"one\"}\n", "{\"id\": \"two\"}\n"],
        path: fixture.path(),
        lock: None,
    };
    let mut lines = std::io::BufReader::new(lines);
    let interrupted = fixture.ledger.import_lines(&mut lines, at(1), &|_| {}).unwrap_err();
    assert!(matches!(interrupted.cause, ExchangeError::Ledger(LedgerError::Busy { .. })));
    assert_eq!((interrupted.line, interrupted.report.new_sessions), (2, 1));
    drop(lines);
    assert!(fixture.ledger.session("one").is_ok() && fixture.ledger.session("two").is_err());
}

#[test]
fn a_different_message_under_the_same_number_is_refused() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    fixture.say("s", "user", "one");
    let other = r#"{"id": "s", "source": "x", "messages": [{"role": "user", "content": "other"},
        {"role": "user", "content": "more"}]}"#
        .replace('\n', " ");
    let report = import_lines(&mut fixture.ledger, &other);
    assert!(matches!(&report.bad[0].error, ImportError::Conflict { seq: 1, .. }));
    assert_eq!(fixture.ledger.session("s").unwrap().message_count, 1);
}

#[test]
fn a_bad_line_is_reported_and_the_others_are_imported() {
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
    let report = import_lines(&mut fixture.ledger, &lines);
    let bad: Vec<usize> = report.bad.iter().map(|bad| bad.line).collect();
    assert_eq!(bad, [2, 4, 5, 6, 7]);
    assert_eq!(report.new_sessions, 3);
    let e = fixture.ledger.session("e").unwrap();
    assert_eq!((e.message_count, e.title), (0, None), "counts come from the messages");
    let f = fixture.ledger.transcript("f").unwrap();
    assert_eq!(f.session.started_at.unwrap().0, 1_731_715_200_000);
    assert_eq!(f.messages[0].timestamp.unwrap().0, 1_731_715_201_500);
    assert_eq!(
        f.messages[1].timestamp, f.messages[0].timestamp,
        "the time of the message before it"
    );
    assert!(fixture.ledger.verify(&|_, _| {}).unwrap().whole);
}

#[test]
fn tool_calls_in_a_string_become_a_list() {
    let line = json!({ "id": "s", "messages": [
        { "role": "assistant", "tool_calls": "[{\"id\": \"1\"}, {\"id\": \"2\"}]" }] });
    let mut fixture = Fixture::new();
    import_lines(&mut fixture.ledger, &line.to_string());
    assert_eq!(fixture.ledger.session("s").unwrap().tool_call_count, 2);
}

#[test]
fn an_imported_title_that_is_taken_gets_a_number() {
    let mut fixture = Fixture::new();
    for id in ["a", "b"] {
        import_lines(&mut fixture.ledger, &json!({ "id": id, "title": "Same" }).to_string());
    }
    assert_eq!(fixture.ledger.session("b").unwrap().title.as_deref(), Some("Same #2"));
}

#[test]
fn importing_a_later_copy_also_imports_its_rewinds_and_summaries() {
    let mut here = Fixture::new();
    here.create_session("undo");
    here.create_session("summary");
    here.talk("undo", &["u1", "a1"]);
    here.talk("summary", &["u1", "a1"]);
    let early = ["undo", "summary"].map(|id| here.ledger.transcript(id).unwrap());
    here.ledger.rewind_turns("undo", 1, at(2)).unwrap();
    here.say("undo", "user", "u2");
    here.ledger.compact("summary", 2, &message("user", "sum"), at(2)).unwrap();
    let late = ["undo", "summary"].map(|id| here.ledger.transcript(id).unwrap());
    let mut there = Fixture::new();
    for transcript in early.iter().chain(&late) {
        there.ledger.import(transcript, at(3)).unwrap();
    }
    assert_eq!(there.current_texts("undo"), ["u2"]);
    assert_eq!(there.current_texts("summary"), ["sum"]);
    assert_eq!(there.ledger.transcript("undo").unwrap(), late[0]);
    assert!(there.ledger.verify(&|_, _| {}).unwrap().whole);
}

#[test]
fn importing_an_older_copy_takes_back_no_messages() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    fixture.talk("s", &["u1", "a1"]);
    fixture.ledger.rewind_turns("s", 1, at(2)).unwrap();
    let undone = fixture.ledger.transcript("s").unwrap();
    fixture.ledger.unrewind("s", at(3)).unwrap();
    fixture.ledger.import(&undone, at(4)).unwrap();
    assert_eq!(fixture.current_texts("s"), ["u1", "a1"]);
}

#[test]
fn a_message_with_different_tool_calls_is_a_different_message() {
    let calling = |name: &str| Transcript {
        session: session("s"),
        messages: vec![MessageRecord {
            role: "assistant".into(),
            tool_calls: Some(json!([{ "id": "1", "function": { "name": name } }])),
            ..MessageRecord::default()
        }],
        ..Transcript::default()
    };
    let mut fixture = Fixture::new();
    fixture.ledger.import(&calling("ls"), at(1)).unwrap();
    let refused = fixture.ledger.import(&calling("rm"), at(1));
    assert!(matches!(refused, Err(ImportError::Conflict { .. })), "{refused:?}");
}

#[test]
fn huge_numbers_do_no_harm() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    let far = Transcript {
        session: session("far"),
        messages: vec![MessageRecord { seq: i64::MAX, ..message("user", "x") }],
        ..Transcript::default()
    };
    assert!(matches!(fixture.ledger.import(&far, at(1)), Err(ImportError::Malformed(_))));
    let usage = UsageRecord {
        model: "m".into(),
        tokens: Tokens { input: i64::MAX, ..Tokens::default() },
        ..UsageRecord::default()
    };
    for _ in 0..3 {
        fixture.ledger.record_usage("s", &usage, at(1)).unwrap();
    }
    fixture.ledger.set_title("s", Some("x #18446744073709551615")).unwrap();
    fixture.ledger.next_title("x").unwrap();
    assert_eq!(fixture.ledger.sessions(&ListOptions::default()).unwrap().len(), 1);
}

#[test]
fn a_session_and_its_import_agree_after_any_operations() {
    for _ in 0..25 {
        let mut fixture = Fixture::new();
        fixture.create_session("s");
        let mut done = Vec::new();
        for step in 0..12 {
            match random_below(8) {
                0..=2 => fixture.talk("s", &[&format!("u{step}"), &format!("a{step}")]),
                3 => drop(fixture.ledger.rewind_turns("s", 1 + random_below(2) as usize, at(1))),
                4 => drop(fixture.ledger.unrewind("s", at(1))),
                5 => {
                    let messages = fixture.ledger.messages("s", MessageFilter::Current).unwrap();
                    let own = messages.iter().filter(|message| message.summarizes.is_none());
                    if let Some(upto) = own.map(|message| message.seq).max() {
                        let summary = message("user", &format!("sum{step}"));
                        fixture.ledger.compact("s", upto, &summary, at(1)).unwrap();
                    }
                }
                6 if random_below(4) == 0 => drop(fixture.ledger.clear_messages("s").unwrap()),
                _ => {}
            }
            let here = fixture.current_texts("s");
            done.push(format!("{here:?}"));
            assert!(fixture.ledger.verify(&|_, _| {}).unwrap().whole, "{done:?}");
            let transcript = fixture.ledger.transcript("s").unwrap();
            let mut other = Fixture::new();
            other.ledger.import(&transcript, at(2)).unwrap();
            assert_eq!(other.current_texts("s"), here, "{done:?}");
            assert_eq!(other.ledger.transcript("s").unwrap(), transcript, "{done:?}");
            let last = transcript.messages.iter().rfind(|message| !message.undone);
            if let Some(last) = last {
                fixture.ledger.fork("s", last.seq, "fork", at(3)).unwrap();
                assert_eq!(fixture.current_texts("fork"), here, "{done:?}");
                fixture.ledger.delete_session("fork").unwrap();
            }
        }
    }
}
