//! What every ledger does, whatever keeps it. Only the public interface is used.

use serde_json::{Value, json};
use takeback_ledger::{
    CallRecord, EffectRecord, LedgerError, ListOptions, MessageRecord, ParentKind, PruneOptions,
    SearchOptions, SessionRecord, SessionState, TitleError, Tokens, UsageBy, UsageRecord, Which,
};

use crate::support::{Fixture, at, message, session};

fn texts(messages: &[MessageRecord]) -> Vec<&str> {
    messages.iter().map(|message| message.content.as_ref().unwrap().as_str().unwrap()).collect()
}

fn current(fixture: &Fixture, session: &str) -> Vec<String> {
    let messages = fixture.ledger.messages(session, Which::Current).unwrap();
    texts(&messages).into_iter().map(str::to_owned).collect()
}

fn counts(fixture: &Fixture, session: &str) -> (i64, i64) {
    let session = fixture.ledger.session(session).unwrap();
    (session.message_count, session.tool_call_count)
}

fn hits(fixture: &mut Fixture, query: &str) -> Vec<(String, i64)> {
    let outcome = fixture.ledger.search(query, &SearchOptions::default()).unwrap();
    outcome.results.into_iter().map(|hit| (hit.session, hit.message)).collect()
}

fn calling(text: &str, tools: &[&str]) -> MessageRecord {
    let calls: Vec<Value> = tools
        .iter()
        .map(|tool| json!({ "id": tool, "function": { "name": tool, "arguments": "{}" } }))
        .collect();
    MessageRecord { tool_calls: Some(Value::from(calls)), ..message("assistant", text) }
}

/// Three turns of two messages each, the second of each with a tool call.
fn three_turns(fixture: &mut Fixture) {
    fixture.session("s");
    for turn in 1..=3 {
        let messages =
            [message("user", &format!("ask{turn}")), calling(&format!("answer{turn}"), &["tool"])];
        fixture.ledger.append("s", &messages, at(turn)).unwrap();
    }
}

#[test]
fn everything_in_a_message_comes_back() {
    let mut fixture = Fixture::new();
    fixture.session("s");
    let full = MessageRecord {
        role: "assistant".into(),
        content: Some(json!([{ "type": "text", "text": "höi" }])),
        tool_call_id: Some("id".into()),
        tool_calls: Some(json!([{ "id": "1" }])),
        tool_name: Some("name".into()),
        timestamp: Some(at(7)),
        token_count: Some(12),
        finish_reason: Some("stop".into()),
        reasoning: Some("r".into()),
        reasoning_content: Some("rc".into()),
        reasoning_details: Some(json!([{ "x": 1.5 }])),
        codex_reasoning_items: Some(json!({ "a": null })),
        codex_message_items: Some(json!("text")),
        extra: json!({ "effect_disposition": "none" }).as_object().unwrap().clone(),
        ..MessageRecord::default()
    };
    let nothing = MessageRecord { role: "tool".into(), ..MessageRecord::default() };
    let seqs = fixture.ledger.append("s", &[full.clone(), nothing], at(1)).unwrap();
    assert_eq!(seqs, [1, 2]);
    let stored = fixture.another().messages("s", Which::All).unwrap();
    assert_eq!(stored[0], MessageRecord { seq: 1, ..full });
    assert_eq!(stored[1].content, None);
    assert_eq!(stored[1].timestamp, Some(at(1)), "without a time of its own, now");
}

#[test]
fn creating_a_session_again_fills_only_what_is_empty() {
    let mut fixture = Fixture::new();
    let first =
        SessionRecord { model: Some("one".into()), started_at: Some(at(1)), ..session("s") };
    fixture.ledger.create_session(&first, at(5)).unwrap();
    let second = SessionRecord {
        model: Some("two".into()),
        workspace: Some("/w".into()),
        system_prompt: Some("be kind".into()),
        started_at: Some(at(9)),
        ..session("s")
    };
    fixture.ledger.create_session(&second, at(9)).unwrap();
    let stored = fixture.ledger.session("s").unwrap();
    assert_eq!(stored.model.as_deref(), Some("one"));
    assert_eq!(stored.workspace.as_deref(), Some("/w"));
    assert_eq!(stored.system_prompt.as_deref(), Some("be kind"));
    assert_eq!(stored.started_at, Some(at(1)));
}

#[test]
fn the_first_end_reason_wins_until_it_is_opened_again() {
    let mut fixture = Fixture::new();
    fixture.session("s");
    assert!(fixture.ledger.end_session("s", "done", at(2)).unwrap());
    assert!(!fixture.ledger.end_session("s", "crashed", at(3)).unwrap());
    let ended = fixture.ledger.session("s").unwrap();
    assert_eq!((ended.ended_at, ended.end_reason.as_deref()), (Some(at(2)), Some("done")));
    fixture.ledger.reopen_session("s").unwrap();
    assert_eq!(fixture.ledger.session("s").unwrap().ended_at, None);
    assert!(fixture.ledger.end_session("s", "crashed", at(4)).unwrap());
}

#[test]
fn unknown_sessions_are_refused_and_nothing_is_written() {
    let mut fixture = Fixture::new();
    let refused = fixture.ledger.append("nobody", &[message("user", "hi")], at(1));
    assert!(matches!(refused, Err(LedgerError::NoSuchSession(id)) if id == "nobody"));
    assert!(matches!(fixture.ledger.session("nobody"), Err(LedgerError::NoSuchSession(_))));
    assert!(matches!(fixture.ledger.delete_session("nobody"), Err(LedgerError::NoSuchSession(_))));
    assert!(hits(&mut fixture, "hi").is_empty());
}

#[test]
fn a_message_of_the_users_begins_a_turn() {
    let mut fixture = Fixture::new();
    three_turns(&mut fixture);
    let turns = fixture.ledger.turns("s").unwrap();
    assert_eq!(
        turns.iter().map(|turn| (turn.turn, turn.first_seq)).collect::<Vec<_>>(),
        [(1, 1), (2, 3), (3, 5)]
    );
    fixture.ledger.end_turn("s", at(9)).unwrap();
    fixture.ledger.end_turn("s", at(10)).unwrap();
    assert_eq!(fixture.ledger.turns("s").unwrap()[2].ended_at, Some(at(9)));
}

#[test]
fn undo_marks_and_redo_brings_back() {
    let mut fixture = Fixture::new();
    three_turns(&mut fixture);
    assert_eq!(counts(&fixture, "s"), (6, 3));

    let undone = fixture.ledger.undo_turns("s", 1, at(10)).unwrap();
    assert_eq!((undone.messages, undone.turns, undone.from_seq), (2, 1, 5));
    assert_eq!(undone.prompt.as_deref(), Some("ask3"));
    assert_eq!(current(&fixture, "s"), ["ask1", "answer1", "ask2", "answer2"]);
    assert_eq!(counts(&fixture, "s"), (4, 2));
    assert_eq!(fixture.ledger.messages("s", Which::All).unwrap().len(), 6, "nothing is deleted");
    assert!(fixture.ledger.turns("s").unwrap()[2].undone);

    fixture.ledger.undo_turns("s", 1, at(11)).unwrap();
    assert_eq!(current(&fixture, "s"), ["ask1", "answer1"]);
    fixture.ledger.redo("s", at(12)).unwrap();
    assert_eq!(current(&fixture, "s"), ["ask1", "answer1", "ask2", "answer2"]);
    fixture.ledger.redo("s", at(13)).unwrap();
    assert_eq!(current(&fixture, "s").len(), 6);
    assert_eq!(counts(&fixture, "s"), (6, 3));
    assert!(matches!(fixture.ledger.redo("s", at(14)), Err(LedgerError::NothingToRedo(_))));
}

#[test]
fn undoing_more_turns_than_there_are_undoes_all_of_them() {
    let mut fixture = Fixture::new();
    three_turns(&mut fixture);
    assert_eq!(fixture.ledger.undo_turns("s", 99, at(10)).unwrap().turns, 3);
    assert_eq!(counts(&fixture, "s"), (0, 0));
    assert!(matches!(
        fixture.ledger.undo_turns("s", 1, at(11)),
        Err(LedgerError::NothingToUndo(_))
    ));
}

#[test]
fn a_conversation_that_went_on_cannot_be_redone() {
    let mut fixture = Fixture::new();
    three_turns(&mut fixture);
    fixture.ledger.undo_turns("s", 1, at(10)).unwrap();
    fixture.say("s", "user", "other");
    assert!(matches!(fixture.ledger.redo("s", at(12)), Err(LedgerError::WentOn(_))));
    assert_eq!(current(&fixture, "s"), ["ask1", "answer1", "ask2", "answer2", "other"]);
    // The undo of the new turn can be.
    fixture.ledger.undo_turns("s", 1, at(13)).unwrap();
    fixture.ledger.redo("s", at(14)).unwrap();
    assert_eq!(current(&fixture, "s").last().unwrap(), "other");
}

#[test]
fn undone_messages_are_found_only_when_asked_for() {
    let mut fixture = Fixture::new();
    three_turns(&mut fixture);
    fixture.ledger.append("s", &[message("user", "数据 gone")], at(5)).unwrap();
    for optimized in [false, true] {
        if optimized {
            fixture.ledger.redo("s", at(6)).unwrap();
            fixture.ledger.optimize(&|_| {}).unwrap();
        }
        fixture.ledger.undo_turns("s", 1, at(6)).unwrap();
        for query in ["gone", "数据", "*on*"] {
            assert!(hits(&mut fixture, query).is_empty(), "{query}");
            let options = SearchOptions { undone: true, ..SearchOptions::default() };
            assert_eq!(fixture.ledger.search(query, &options).unwrap().total, 1, "{query}");
        }
    }
}

#[test]
fn a_summary_stands_for_what_it_sums_up() {
    let mut fixture = Fixture::new();
    three_turns(&mut fixture);
    let seq = fixture.ledger.compact("s", 4, &message("user", "summary"), at(10)).unwrap();
    assert_eq!(seq, 7);
    assert_eq!(current(&fixture, "s"), ["summary", "ask3", "answer3"]);
    assert_eq!(counts(&fixture, "s"), (7, 3), "what was said was said");
    assert_eq!(hits(&mut fixture, "ask1"), [("s".to_owned(), 1)], "and is found");
    assert_eq!(fixture.ledger.turns("s").unwrap().len(), 3, "a summary is not a turn");

    fixture.say("s", "user", "ask4");
    fixture.ledger.compact("s", 6, &message("user", "summary2"), at(11)).unwrap();
    assert_eq!(current(&fixture, "s"), ["summary2", "ask4"], "summaries are summed up as well");

    // Undoing the turn in which it was made brings back what it stood for.
    fixture.ledger.undo_turns("s", 1, at(12)).unwrap();
    assert_eq!(current(&fixture, "s"), ["summary", "ask3", "answer3"]);
    fixture.ledger.redo("s", at(13)).unwrap();
    assert_eq!(current(&fixture, "s"), ["summary2", "ask4"]);
    assert!(matches!(
        fixture.ledger.compact("s", 99, &message("user", "x"), at(14)),
        Err(LedgerError::NoSuchMessage { .. })
    ));
}

#[test]
fn a_fork_is_a_copy_that_goes_its_own_way() {
    let mut fixture = Fixture::new();
    three_turns(&mut fixture);
    fixture.ledger.set_title("s", Some("Fix Docker Build")).unwrap();
    fixture.ledger.undo_turns("s", 1, at(9)).unwrap();
    let fork = fixture.ledger.fork("s", 3, "f", at(10)).unwrap();
    assert_eq!(fork.parent_session_id.as_deref(), Some("s"));
    assert_eq!(fork.parent_kind, Some(ParentKind::Fork));
    assert_eq!(fork.title.as_deref(), Some("Fix Docker Build #2"));
    assert_eq!((fork.message_count, fork.tool_call_count), (3, 1));
    fixture.say("f", "user", "elsewhere");
    assert_eq!(current(&fixture, "f"), ["ask1", "answer1", "ask2", "elsewhere"]);
    assert_eq!(current(&fixture, "s"), ["ask1", "answer1", "ask2", "answer2"]);
    assert_eq!(fixture.ledger.turns("f").unwrap().len(), 3);

    assert!(
        matches!(
            fixture.ledger.fork("s", 5, "g", at(11)),
            Err(LedgerError::NoSuchMessage { seq: 5, .. }),
        ),
        "an undone message is no place to fork at"
    );
    assert!(matches!(fixture.ledger.fork("s", 1, "f", at(11)), Err(LedgerError::Exists(_))));
}

#[test]
fn a_fork_before_the_summary_has_what_was_summed_up() {
    let mut fixture = Fixture::new();
    three_turns(&mut fixture);
    fixture.ledger.compact("s", 4, &message("user", "summary"), at(10)).unwrap();
    fixture.ledger.fork("s", 5, "before", at(11)).unwrap();
    assert_eq!(current(&fixture, "before"), ["ask1", "answer1", "ask2", "answer2", "ask3"]);
    fixture.ledger.fork("s", 7, "after", at(12)).unwrap();
    assert_eq!(current(&fixture, "after"), ["summary", "ask3", "answer3"]);
}

#[test]
fn titles_are_unique_and_numbered() {
    let mut fixture = Fixture::new();
    for id in ["a", "b", "c"] {
        fixture.session(id);
    }
    fixture.ledger.set_title("a", Some("  Fix\u{202e} Docker \u{7}Build ")).unwrap();
    assert_eq!(fixture.ledger.session("a").unwrap().title.as_deref(), Some("Fix Docker Build"));
    fixture.ledger.set_title("a", Some("Fix Docker Build")).unwrap();
    let taken = fixture.ledger.set_title("b", Some("Fix Docker Build"));
    assert!(matches!(taken, Err(LedgerError::Title(TitleError::Taken { by, .. })) if by == "a"));
    let next = fixture.ledger.next_title("Fix Docker Build").unwrap();
    assert_eq!(next, "Fix Docker Build #2");
    fixture.ledger.set_title("b", Some(&next)).unwrap();
    assert_eq!(fixture.ledger.next_title("Fix Docker Build #2").unwrap(), "Fix Docker Build #3");
    assert_eq!(fixture.ledger.next_title("New").unwrap(), "New");
    fixture.ledger.set_title("a", None).unwrap();
    fixture.ledger.set_title("c", Some("Fix Docker Build")).unwrap();
    let long = "x".repeat(100);
    fixture.ledger.set_title("a", Some(&long)).unwrap();
    let next = fixture.ledger.next_title(&long).unwrap();
    assert_eq!(next.chars().count(), 100);
    assert!(next.ends_with(" #2"));
}

#[test]
fn a_title_means_the_newest_of_its_series() {
    let mut fixture = Fixture::new();
    for (id, title, start) in [("a", "Fix", 1), ("b", "Fix #2", 2), ("c", "Fix #2b", 3)] {
        fixture.ledger.create_session(&session(id), at(start)).unwrap();
        fixture.ledger.set_title(id, Some(title)).unwrap();
    }
    assert_eq!(fixture.ledger.resolve("Fix").unwrap(), "b");
    assert_eq!(fixture.ledger.resolve("Fix #2").unwrap(), "b");
    let continued = SessionRecord {
        parent_session_id: Some("b".into()),
        parent_kind: Some(ParentKind::Compaction),
        ..session("d")
    };
    fixture.ledger.create_session(&continued, at(4)).unwrap();
    assert_eq!(fixture.ledger.resolve("Fix").unwrap(), "d", "where the conversation went on");
}

#[test]
fn prefixes_are_enough_if_they_fit_one() {
    let mut fixture = Fixture::new();
    for id in ["claude:abc1", "claude:abd2", "codex:x%_"] {
        fixture.session(id);
    }
    assert_eq!(fixture.ledger.resolve("claude:abc1").unwrap(), "claude:abc1");
    assert_eq!(fixture.ledger.resolve("claude:abc").unwrap(), "claude:abc1");
    assert_eq!(fixture.ledger.resolve("abd").unwrap(), "claude:abd2");
    assert_eq!(fixture.ledger.resolve("x%").unwrap(), "codex:x%_");
    let ambiguous = fixture.ledger.resolve("ab").unwrap_err();
    assert!(
        matches!(&ambiguous, LedgerError::Ambiguous { candidates, .. } if candidates.len() == 2)
    );
    for nothing in ["", "%", "zzz", "'; DROP TABLE sessions; --"] {
        assert!(matches!(fixture.ledger.resolve(nothing), Err(LedgerError::NoSuchSession(_))));
    }
}

#[test]
fn lists_have_previews_and_the_latest_first() {
    let mut fixture = Fixture::new();
    for (id, source, workspace) in [("a", "x", "/w"), ("b", "y", "/w"), ("c", "x", "/v")] {
        let session = SessionRecord {
            source: source.into(),
            workspace: Some(workspace.into()),
            ..session(id)
        };
        fixture.ledger.create_session(&session, at(0)).unwrap();
    }
    let say = |fixture: &mut Fixture, id: &str, text: &str, seconds| {
        fixture.ledger.append(id, &[message("user", text)], at(seconds)).unwrap();
    };
    say(&mut fixture, "a", "first\n\n  thing", 5);
    say(&mut fixture, "b", &"é".repeat(64), 4);
    say(&mut fixture, "c", &"é".repeat(63), 3);
    say(&mut fixture, "a", "second thing", 6);
    let list = |fixture: &Fixture, options: &ListOptions| -> Vec<String> {
        fixture.ledger.sessions(options).unwrap().into_iter().map(|row| row.session.id).collect()
    };
    let all = fixture.ledger.sessions(&ListOptions::default()).unwrap();
    assert_eq!(list(&fixture, &ListOptions::default()), ["a", "b", "c"]);
    assert_eq!(all[0].preview, "first thing");
    assert_eq!(all[0].last_activity, at(6));
    assert_eq!(all[1].preview, format!("{}…", "é".repeat(62)));
    assert_eq!(all[2].preview, "é".repeat(63));
    let sources = ListOptions { sources: vec!["x".into()], ..ListOptions::default() };
    assert_eq!(list(&fixture, &sources), ["a", "c"]);
    let workspace = ListOptions { workspace: Some("/w".into()), ..ListOptions::default() };
    assert_eq!(list(&fixture, &workspace), ["a", "b"]);
    let limit = ListOptions { limit: Some(1), ..ListOptions::default() };
    assert_eq!(list(&fixture, &limit), ["a"]);
    fixture.ledger.archive_session("a", true).unwrap();
    assert_eq!(list(&fixture, &ListOptions::default()), ["b", "c"]);
    let archived = ListOptions { archived: true, ..ListOptions::default() };
    assert_eq!(list(&fixture, &archived).len(), 3);
    assert_eq!(fixture.ledger.largest_sessions(1).unwrap()[0].0, "b");
}

fn family(fixture: &mut Fixture) {
    for (id, parent, kind) in [
        ("root", None, None),
        ("sub", Some("root"), Some(ParentKind::Subagent)),
        ("subsub", Some("sub"), Some(ParentKind::Subagent)),
        ("fork", Some("root"), Some(ParentKind::Fork)),
        ("next", Some("root"), Some(ParentKind::Compaction)),
        ("forksub", Some("sub"), Some(ParentKind::Fork)),
    ] {
        let record = SessionRecord {
            parent_session_id: parent.map(str::to_owned),
            parent_kind: kind,
            ..session(id)
        };
        fixture.ledger.create_session(&record, at(0)).unwrap();
        fixture.say(id, "user", &format!("hello from {id}"));
    }
}

#[test]
fn relatives_are_found() {
    let mut fixture = Fixture::new();
    family(&mut fixture);
    let ids = |sessions: Vec<SessionRecord>| -> Vec<String> {
        sessions.into_iter().map(|session| session.id).collect()
    };
    assert_eq!(ids(fixture.ledger.ancestors("subsub").unwrap()), ["sub", "root"]);
    let below: Vec<(usize, String)> = fixture
        .ledger
        .descendants("root")
        .unwrap()
        .into_iter()
        .map(|descendant| (descendant.depth, descendant.session.id))
        .collect();
    let expected = [(1, "sub"), (2, "subsub"), (2, "forksub"), (1, "fork"), (1, "next")];
    assert_eq!(below, expected.map(|(depth, id)| (depth, id.to_owned())));
}

#[test]
fn relatives_in_a_circle_do_no_harm() {
    let mut fixture = Fixture::new();
    for (id, parent) in [("a", "b"), ("b", "a"), ("me", "me"), ("lost", "nobody")] {
        let record = SessionRecord {
            parent_session_id: Some(parent.into()),
            parent_kind: Some(ParentKind::Subagent),
            ..session(id)
        };
        fixture.ledger.create_session(&record, at(0)).unwrap();
    }
    assert_eq!(fixture.ledger.ancestors("a").unwrap().len(), 1);
    assert_eq!(fixture.ledger.descendants("a").unwrap().len(), 1);
    assert!(fixture.ledger.ancestors("me").unwrap().is_empty());
    assert!(fixture.ledger.ancestors("lost").unwrap().is_empty());
    assert_eq!(fixture.ledger.delete_session("a").unwrap().len(), 2);
}

#[test]
fn deleting_takes_subagents_along_and_leaves_forks() {
    let mut fixture = Fixture::new();
    family(&mut fixture);
    fixture.ledger.optimize(&|_| {}).unwrap();
    let mut gone = fixture.ledger.delete_session("root").unwrap();
    gone.sort();
    assert_eq!(gone, ["root", "sub", "subsub"]);
    for (id, parent) in [("fork", None), ("next", None), ("forksub", None::<String>)] {
        assert_eq!(fixture.ledger.session(id).unwrap().parent_session_id, parent);
        assert_eq!(current(&fixture, id), [format!("hello from {id}")]);
    }
    let mut found: Vec<String> = hits(&mut fixture, "hello").into_iter().map(|hit| hit.0).collect();
    found.sort();
    assert_eq!(found, ["fork", "forksub", "next"]);
    assert!(fixture.ledger.verify(&|_, _| {}).unwrap().whole);
}

#[test]
fn messages_after_a_deletion_are_found() {
    let mut fixture = Fixture::new();
    fixture.session("old");
    fixture.session("new");
    fixture.say("new", "user", "zero");
    for number in 0..200 {
        fixture.say("old", "user", &format!("old{number}"));
    }
    fixture.ledger.optimize(&|_| {}).unwrap();
    fixture.ledger.delete_session("old").unwrap();
    for number in 0..200 {
        fixture.say("new", "user", &format!("new{number}"));
    }
    assert_eq!(hits(&mut fixture, "new0").len(), 1);
    assert_eq!(hits(&mut fixture, "new199").len(), 1);
    assert!(hits(&mut fixture, "old5").is_empty());
    assert!(fixture.ledger.verify(&|_, _| {}).unwrap().whole);
}

#[test]
fn clearing_keeps_the_session_and_its_cost() {
    let mut fixture = Fixture::new();
    three_turns(&mut fixture);
    let usage = UsageRecord {
        model: "m".into(),
        tokens: Tokens { input: 5, ..Tokens::default() },
        ..UsageRecord::default()
    };
    fixture.ledger.record_usage("s", &usage, at(3)).unwrap();
    assert_eq!(fixture.ledger.clear_messages("s").unwrap(), 6);
    assert_eq!(counts(&fixture, "s"), (0, 0));
    assert!(hits(&mut fixture, "ask1").is_empty());
    assert_eq!(fixture.ledger.session("s").unwrap().tokens.input, 5);
    assert_eq!(fixture.say("s", "user", "again"), 7, "numbers are not given out twice");
    assert!(fixture.ledger.verify(&|_, _| {}).unwrap().whole);
}

#[test]
fn pruning_takes_what_is_old_ended_or_not() {
    let mut fixture = Fixture::new();
    for (id, source, seconds) in [("a", "x", 10), ("b", "y", 20), ("c", "x", 30), ("d", "x", 40)] {
        let session = SessionRecord { source: source.into(), ..session(id) };
        fixture.ledger.create_session(&session, at(0)).unwrap();
        fixture.ledger.append(id, &[message("user", "hi")], at(seconds)).unwrap();
    }
    fixture.ledger.end_session("a", "done", at(11)).unwrap();
    fixture.ledger.end_session("d", "done", at(41)).unwrap();
    let old = PruneOptions { inactive_since: at(35), ..PruneOptions::default() };
    assert_eq!(fixture.ledger.prunable(&old).unwrap(), ["a", "b", "c"]);
    let of_x = PruneOptions { sources: vec!["x".into()], ..old.clone() };
    assert_eq!(fixture.ledger.prunable(&of_x).unwrap(), ["a", "c"]);
    let ended = PruneOptions { state: Some(SessionState::Ended), ..old.clone() };
    assert_eq!(fixture.ledger.prunable(&ended).unwrap(), ["a"]);
    let open = PruneOptions { state: Some(SessionState::Open), ..old.clone() };
    assert_eq!(fixture.ledger.prunable(&open).unwrap(), ["b", "c"]);
    assert_eq!(fixture.ledger.prune(&old).unwrap(), ["a", "b", "c"]);
    assert_eq!(fixture.ledger.sessions(&ListOptions::default()).unwrap().len(), 1);
}

#[test]
fn usage_adds_up() {
    let mut fixture = Fixture::new();
    for (id, source, workspace) in [("a", "x", "/w"), ("b", "y", "/w")] {
        let session = SessionRecord {
            source: source.into(),
            workspace: Some(workspace.into()),
            started_at: Some(at(if id == "a" { 0 } else { 86_400 })),
            ..session(id)
        };
        fixture.ledger.create_session(&session, at(0)).unwrap();
    }
    let usage = |model: &str, tokens| UsageRecord {
        model: model.into(),
        api_call_count: 1,
        tokens: Tokens { input: tokens, output: 1, ..Tokens::default() },
        estimated_cost_usd: Some(0.25),
        ..UsageRecord::default()
    };
    fixture.ledger.record_usage("a", &usage("big", 100), at(1)).unwrap();
    fixture.ledger.record_usage("a", &usage("big", 10), at(2)).unwrap();
    fixture.ledger.record_usage("a", &usage("small", 1), at(3)).unwrap();
    fixture.ledger.record_usage("b", &usage("small", 2), at(4)).unwrap();
    let a = fixture.ledger.session("a").unwrap();
    assert_eq!((a.api_call_count, a.tokens.input, a.estimated_cost_usd), (3, 111, Some(0.75)));
    assert_eq!(a.actual_cost_usd, None, "not known is not nothing");
    let rows = fixture.ledger.usage("a").unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (rows[0].tokens.input, rows[0].first_seen, rows[0].last_seen),
        (110, Some(at(1)), Some(at(2)))
    );
    let by = |by| -> Vec<(String, usize, i64)> {
        let day = |time: takeback_ledger::Time| time.rfc3339()[..10].to_owned();
        let totals = fixture.ledger.usage_by(by, &day).unwrap();
        totals.into_iter().map(|row| (row.key, row.sessions, row.tokens.input)).collect()
    };
    let row = |key: &str, sessions, tokens| (key.to_owned(), sessions, tokens);
    assert_eq!(by(UsageBy::Model), [row("big", 1, 110), row("small", 2, 3)]);
    assert_eq!(by(UsageBy::Source), [row("x", 1, 111), row("y", 1, 2)]);
    assert_eq!(by(UsageBy::Workspace), [row("/w", 2, 113)]);
    assert_eq!(by(UsageBy::Day), [row("2023-11-15", 1, 2), row("2023-11-14", 1, 111)]);
}

#[test]
fn tool_calls_are_completed_as_more_is_known() {
    let mut fixture = Fixture::new();
    three_turns(&mut fixture);
    let before = CallRecord {
        call: "c1".into(),
        tool: "Bash".into(),
        input: Some(json!({ "command": "ls" })),
        started_at: Some(at(1)),
        checkpoint: Some("4270a8c".into()),
        ..CallRecord::default()
    };
    fixture.ledger.record_call("s", &before).unwrap();
    let after = CallRecord {
        call: "c1".into(),
        outcome: Some("ok".into()),
        ended_at: Some(at(2)),
        tree_after: Some("eaf4c1f".into()),
        ..CallRecord::default()
    };
    fixture.ledger.record_call("s", &after).unwrap();
    let calls = fixture.ledger.calls("s").unwrap();
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

#[test]
fn effects_are_found_by_session_and_by_workspace() {
    let mut fixture = Fixture::new();
    three_turns(&mut fixture);
    let effect = |command: &str, workspace: &str| EffectRecord {
        kind: "database".into(),
        command: command.into(),
        workspace: Some(workspace.into()),
        ..EffectRecord::default()
    };
    fixture.ledger.record_effect("s", &effect("psql -c 'drop table x'", "/w"), at(5)).unwrap();
    fixture.ledger.record_effect("s", &effect("redis-cli flushall", "/v"), at(6)).unwrap();
    assert_eq!(fixture.ledger.effects("s").unwrap().len(), 2);
    let here = fixture.ledger.effects_in("/w", at(5)).unwrap();
    assert_eq!((here.len(), here[0].turn, here[0].time), (1, 3, Some(at(5))));
    assert!(fixture.ledger.effects_in("/w", at(6)).unwrap().is_empty());
}

#[test]
fn a_notice_is_taken_once() {
    let mut fixture = Fixture::new();
    fixture.session("s");
    assert!(!fixture.ledger.has_notices("s").unwrap());
    fixture.ledger.add_notice("s", &json!({ "files": ["a"] }), at(1)).unwrap();
    fixture.ledger.add_notice("s", &json!({ "files": ["b"] }), at(2)).unwrap();
    assert!(fixture.ledger.has_notices("s").unwrap());
    let mut other = fixture.another();
    let taken = other.take_notices("s", at(3)).unwrap();
    let files: Vec<&Value> = taken.iter().map(|notice| &notice.body["files"][0]).collect();
    assert_eq!(files, ["a", "b"]);
    assert!(fixture.ledger.take_notices("s", at(4)).unwrap().is_empty());
    assert!(!fixture.ledger.has_notices("s").unwrap());
}

#[test]
fn search_filters_and_shows_what_is_around() {
    let mut fixture = Fixture::new();
    for (id, source) in [("a", "x"), ("b", "y")] {
        let session = SessionRecord {
            source: source.into(),
            model: Some("m".into()),
            started_at: Some(at(0)),
            ..session(id)
        };
        fixture.ledger.create_session(&session, at(0)).unwrap();
        let long = "z".repeat(500);
        for (seconds, role, text) in [
            (1, "user", long.as_str()),
            (2, "assistant", "The needle is HERE"),
            (3, "user", "thanks"),
        ] {
            fixture.ledger.append(id, &[message(role, text)], at(seconds)).unwrap();
        }
    }
    let outcome = fixture.ledger.search("needle", &SearchOptions::default()).unwrap();
    assert_eq!((outcome.total, outcome.more), (2, false));
    let hit = &outcome.results[0];
    assert_eq!((hit.session.as_str(), hit.message, hit.role.as_str()), ("b", 2, "assistant"));
    assert_eq!(hit.snippet, "The >>>needle<<< is HERE");
    assert_eq!(hit.before.as_deref(), Some("z".repeat(200).as_str()));
    assert_eq!(hit.after.as_deref(), Some("thanks"));
    assert_eq!((hit.source.as_str(), hit.model.as_deref()), ("y", Some("m")));
    assert_eq!((hit.time, hit.session_started), (at(2), at(0)));

    let total = |fixture: &mut Fixture, options: SearchOptions| {
        fixture.ledger.search("needle OR thanks", &options).unwrap().total
    };
    let base = SearchOptions::default();
    assert_eq!(total(&mut fixture, base.clone()), 4);
    assert_eq!(total(&mut fixture, SearchOptions { sources: vec!["x".into()], ..base.clone() }), 2);
    let excluding = SearchOptions { exclude_sources: vec!["x".into(), "y".into()], ..base.clone() };
    assert_eq!(total(&mut fixture, excluding), 0);
    assert_eq!(
        total(&mut fixture, SearchOptions { roles: vec!["user".into()], ..base.clone() }),
        2
    );
    assert_eq!(total(&mut fixture, SearchOptions { since: Some(at(3)), ..base }), 2);
}

#[test]
fn the_better_match_comes_first() {
    let mut fixture = Fixture::new();
    fixture.session("s");
    fixture.say("s", "user", "rust rust rust");
    fixture.say("s", "user", &format!("{} rust", "other words ".repeat(50)));
    fixture.say("s", "user", "rust");
    let order: Vec<i64> = hits(&mut fixture, "rust").into_iter().map(|hit| hit.1).collect();
    assert_eq!(order, [1, 3, 2]);
    let many = SearchOptions { limit: 1, ..SearchOptions::default() };
    let outcome = fixture.ledger.search("rust", &many).unwrap();
    assert_eq!((outcome.results.len(), outcome.total), (1, 3));
}
