//! Sessions: creating, ending, naming, listing, finding and deleting them.

use std::fs;

use takeback_ledger::{
    LedgerError, ListOptions, ParentKind, PruneOptions, SessionRecord, SessionState, TitleError,
    Tokens, UsageRecord,
};

use crate::support::{Fixture, at, message, open_raw, session};

#[test]
fn creating_a_session_again_fills_only_empty_fields() {
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
fn the_first_end_reason_counts_until_the_session_is_reopened() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
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
    let refused = fixture.ledger.append("unknown", &[message("user", "hi")], at(1));
    assert!(matches!(refused, Err(LedgerError::NoSuchSession(id)) if id == "unknown"));
    assert!(matches!(fixture.ledger.session("unknown"), Err(LedgerError::NoSuchSession(_))));
    assert!(matches!(fixture.ledger.delete_session("unknown"), Err(LedgerError::NoSuchSession(_))));
    assert!(fixture.find("hi").is_empty());
}

#[test]
fn a_session_can_be_created_with_a_title() {
    let mut fixture = Fixture::new();
    let titled = SessionRecord { title: Some("T".into()), ..session("s") };
    fixture.ledger.create_session(&titled, at(0)).unwrap();
    assert_eq!(fixture.ledger.session("s").unwrap().title.as_deref(), Some("T"));
}

#[test]
fn titles_are_unique_and_numbered() {
    let mut fixture = Fixture::new();
    for id in ["a", "b", "c"] {
        fixture.create_session(id);
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
fn a_title_refers_to_the_newest_session_in_its_series() {
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
    assert_eq!(fixture.ledger.resolve("Fix").unwrap(), "d", "the last continuation");
}

#[test]
fn a_prefix_of_an_id_is_enough_if_it_is_unambiguous() {
    let mut fixture = Fixture::new();
    for id in ["claude:abc1", "claude:abd2", "codex:x%_"] {
        fixture.create_session(id);
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
fn lists_have_previews_and_begin_with_the_latest_session() {
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
}

/// Creates a session with subagents, a fork and a continuation.
fn make_family(fixture: &mut Fixture) {
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
fn ancestors_and_descendants_of_a_session_are_found() {
    let mut fixture = Fixture::new();
    make_family(&mut fixture);
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
fn cycles_in_the_lineage_do_no_harm() {
    let mut fixture = Fixture::new();
    for (id, parent) in [("a", "b"), ("b", "a"), ("me", "me"), ("lost", "unknown")] {
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
fn deleting_a_session_deletes_its_subagents_and_keeps_its_forks() {
    let mut fixture = Fixture::new();
    make_family(&mut fixture);
    fixture.ledger.optimize(&|_| {}).unwrap();
    let mut gone = fixture.ledger.delete_session("root").unwrap();
    gone.sort();
    assert_eq!(gone, ["root", "sub", "subsub"]);
    for (id, parent) in [("fork", None), ("next", None), ("forksub", None::<String>)] {
        assert_eq!(fixture.ledger.session(id).unwrap().parent_session_id, parent);
        assert_eq!(fixture.current_texts(id), [format!("hello from {id}")]);
    }
    let mut found: Vec<String> = fixture.find("hello").into_iter().map(|hit| hit.0).collect();
    found.sort();
    assert_eq!(found, ["fork", "forksub", "next"]);
    assert!(fixture.ledger.verify(&|_, _| {}).unwrap().whole);
}

#[test]
fn the_text_of_a_deleted_session_is_gone_from_the_file() {
    let mut fixture = Fixture::new();
    fixture.create_session("keep");
    fixture.create_session("s");
    fixture.say("keep", "user", "hello");
    fixture.say("s", "user", &"SECRETMARKER zzz ".repeat(2_000));
    fixture.ledger.optimize(&|_| {}).unwrap();
    fixture.ledger.delete_session("s").unwrap();
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    open_raw(&fixture.path()).query_row(checkpoint, [], |_| Ok(())).unwrap();
    let bytes = fs::read(fixture.path()).unwrap();
    assert!(!bytes.windows(12).any(|window| window == b"SECRETMARKER"));
}

#[test]
fn clearing_keeps_the_session_and_its_cost() {
    let mut fixture = Fixture::with_three_turns();
    let usage = UsageRecord {
        model: "m".into(),
        tokens: Tokens { input: 5, ..Tokens::default() },
        ..UsageRecord::default()
    };
    fixture.ledger.record_usage("s", &usage, at(3)).unwrap();
    assert_eq!(fixture.ledger.clear_messages("s").unwrap(), 6);
    assert_eq!(fixture.counts("s"), (0, 0));
    assert!(fixture.find("ask1").is_empty());
    assert_eq!(fixture.ledger.session("s").unwrap().tokens.input, 5);
    assert_eq!(fixture.say("s", "user", "again"), 7, "numbers are not reused");
    assert!(fixture.ledger.verify(&|_, _| {}).unwrap().whole);
}

#[test]
fn pruning_deletes_old_sessions_whether_they_have_ended_or_not() {
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
fn pruning_spares_a_session_whose_subagent_is_active() {
    let mut fixture = Fixture::new();
    fixture.ledger.create_session(&session("old"), at(0)).unwrap();
    let subagent = SessionRecord {
        parent_session_id: Some("old".into()),
        parent_kind: Some(ParentKind::Subagent),
        ..session("sub")
    };
    fixture.ledger.create_session(&subagent, at(0)).unwrap();
    fixture.ledger.append("sub", &[message("user", "now")], at(1_000)).unwrap();
    let options = PruneOptions { inactive_since: at(500), ..PruneOptions::default() };
    assert!(fixture.ledger.prunable(&options).unwrap().is_empty());
    assert!(fixture.ledger.prune(&options).unwrap().is_empty());
}
