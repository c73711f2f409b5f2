//! Forks of a conversation from any point in it.

use takeback_ledger::{
    CallRecord, ConversationPoint, Event, LedgerError, NewFork, ParentKind, SessionRecord,
};

use crate::support::{Fixture, at, message, record_event, session};

fn fork_at(fixture: &mut Fixture, id: &str, point: Option<ConversationPoint>) -> i64 {
    let new = NewFork { id, point, ..NewFork::default() };
    fixture.ledger.fork_at("s", &new, at(20)).unwrap().turn
}

#[test]
fn a_fork_has_the_conversation_up_to_the_chosen_point() {
    let mut fixture = Fixture::with_three_turns();
    for (id, point, turn, texts) in [
        ("now", None, 3, 6),
        ("after", Some(ConversationPoint::AfterMessage(4)), 2, 4),
        ("inside", Some(ConversationPoint::BeforeMessage(4)), 2, 3),
        ("empty", Some(ConversationPoint::BeforeMessage(1)), 0, 0),
    ] {
        assert_eq!(fork_at(&mut fixture, id, point), turn, "{id}");
        assert_eq!(fixture.current_texts(id).len(), texts, "{id}");
        assert_eq!(fixture.ledger.turns(id).unwrap().len() as i64, turn, "{id}");
    }
    let fork = fixture.ledger.session("inside").unwrap();
    assert_eq!(fork.parent_session_id.as_deref(), Some("s"));
    assert_eq!(fork.parent_kind, Some(ParentKind::Fork));
    assert_eq!(fixture.current_texts("s").len(), 6, "the original is unchanged");
}

#[test]
fn a_fork_of_a_turn_that_was_taken_back_contains_the_turn() {
    let mut fixture = Fixture::with_three_turns();
    fixture.ledger.rewind_turns("s", 2, at(10)).unwrap();
    fixture.talk("s", &["other", "reply"]);
    assert_eq!(fork_at(&mut fixture, "now", None), 4);
    assert_eq!(fixture.current_texts("now"), ["ask1", "answer1", "other", "reply"]);
    assert_eq!(fork_at(&mut fixture, "then", Some(ConversationPoint::AfterMessage(4))), 2);
    assert_eq!(fixture.current_texts("then"), ["ask1", "answer1", "ask2", "answer2"]);
    fork_at(&mut fixture, "before", Some(ConversationPoint::BeforeRewind(at(10))));
    assert_eq!(fixture.current_texts("before").len(), 6);
    assert_eq!(fixture.ledger.session("then").unwrap().message_count, 4);
}

#[test]
fn a_fork_continues_independently_of_its_parent() {
    let mut fixture = Fixture::with_three_turns();
    fork_at(&mut fixture, "f", Some(ConversationPoint::AfterMessage(2)));
    fixture.talk("f", &["differently"]);
    fixture.talk("s", &["as before"]);
    assert_eq!(fixture.current_texts("f"), ["ask1", "answer1", "differently"]);
    assert_eq!(fixture.current_texts("s").last().unwrap(), "as before");
    fixture.ledger.rewind_turns("f", 1, at(30)).unwrap();
    assert_eq!(fixture.current_texts("f"), ["ask1", "answer1"]);
    assert_eq!(fixture.current_texts("s").len(), 7);
}

#[test]
fn a_fork_from_before_a_summary_has_the_messages_themselves() {
    let mut fixture = Fixture::with_three_turns();
    fixture.ledger.compact("s", 4, &message("user", "summary"), at(9)).unwrap();
    fork_at(&mut fixture, "then", Some(ConversationPoint::AfterMessage(6)));
    assert_eq!(fixture.current_texts("then").len(), 6);
    fork_at(&mut fixture, "now", None);
    assert_eq!(fixture.current_texts("now"), ["summary", "ask3", "answer3"]);
}

#[test]
fn a_fork_with_files_works_in_its_own_directory() {
    let mut fixture = Fixture::new();
    let title = Some("Fix it".into());
    let parent = SessionRecord {
        title,
        workspace: Some("/old".into()),
        git_branch: Some("main".into()),
        model: Some("m".into()),
        ..session("s")
    };
    fixture.ledger.create_session(&parent, at(0)).unwrap();
    fixture.talk("s", &["a"]);
    let new = NewFork { id: "f", workspace: Some("/new"), ..NewFork::default() };
    let fork = fixture.ledger.fork_at("s", &new, at(5)).unwrap().session;
    assert_eq!((fork.workspace.as_deref(), fork.git_branch), (Some("/new"), None));
    assert_eq!((fork.title.as_deref(), fork.model.as_deref()), (Some("Fix it #2"), Some("m")));
    fork_at(&mut fixture, "g", None);
    let same = fixture.ledger.session("g").unwrap();
    assert_eq!(
        (same.workspace.as_deref(), same.git_branch.as_deref()),
        (Some("/old"), Some("main"))
    );
    let again = fixture.ledger.fork_at("s", &new, at(6));
    assert!(matches!(again, Err(LedgerError::Exists(_))), "{again:?}");
}

#[test]
fn a_turn_ends_with_the_last_of_its_remaining_messages() {
    let mut fixture = Fixture::with_three_turns();
    let end = |fixture: &Fixture| {
        let turns = fixture.ledger.turns("s").unwrap();
        let end = fixture.ledger.end_of_turn("s", &turns[2]).unwrap();
        (end.seq, end.is_cut)
    };
    assert_eq!(end(&fixture), (6, false));
    let point = ConversationPoint::BeforeMessage(6);
    fixture.ledger.return_to_point("s", point, at(10)).unwrap();
    assert_eq!(end(&fixture), (5, true));
    fixture.ledger.rewind_turns("s", 1, at(11)).unwrap();
    assert_eq!(end(&fixture), (6, false), "the whole turn is taken back");
}

#[test]
fn the_changing_calls_of_a_turn_include_those_of_its_subagents() {
    let mut fixture = Fixture::with_three_turns();
    let sub = SessionRecord {
        parent_session_id: Some("s".into()),
        parent_kind: Some(ParentKind::Subagent),
        ..session("sub")
    };
    fixture.ledger.create_session(&sub, at(0)).unwrap();
    let mut record = |session: &str, call: &str, workspace: &str, after: Option<&str>| {
        let call = CallRecord {
            call: call.into(),
            workspace: Some(workspace.into()),
            tree_before: Some("1".into()),
            tree_after: after.map(str::to_owned),
            ..CallRecord::default()
        };
        let event = Event::Call { session: session.into(), call };
        record_event(&mut fixture.ledger, event, at(4));
    };
    record("s", "changing", "/w", Some("2"));
    record("s", "unchanged", "/w", Some("1"));
    record("s", "unended", "/w", None);
    record("s", "elsewhere", "/x", Some("2"));
    record("sub", "by-subagent", "/w", Some("2"));
    let calls = |turn| {
        let found = fixture.ledger.changing_calls("s", turn, "/w").unwrap();
        found.into_iter().map(|(session, call)| format!("{session} {call}")).collect::<Vec<_>>()
    };
    assert_eq!(calls(Some(3)), ["s changing", "sub by-subagent"]);
    assert_eq!(calls(None).len(), 2);
    assert!(calls(Some(2)).is_empty());
}
