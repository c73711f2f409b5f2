//! Search: filters, ranking and the index.

use std::cell::Cell;
use std::path::Path;

use serde_json::json;
use takeback_ledger::{Event, MessageRecord, SearchOptions, SessionRecord};

use crate::support::{FOREVER, Fixture, at, message, open_raw, session, tail_length};

#[test]
fn a_search_filters_and_shows_the_messages_around_a_match() {
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
    assert_eq!(total(&mut fixture, SearchOptions { since: Some(at(3)), ..base.clone() }), 2);
    let here = |path: &str| SearchOptions { workspace: Some(path.into()), ..base.clone() };
    assert_eq!(total(&mut fixture, here("/nowhere")), 0);
}

#[test]
fn on_request_only_the_sessions_of_a_workspace_are_searched() {
    let mut fixture = Fixture::new();
    for (id, workspace) in [("a", "/shop"), ("b", "/blog")] {
        let session =
            SessionRecord { workspace: Some(workspace.into()), ..crate::support::session(id) };
        fixture.ledger.create_session(&session, at(0)).unwrap();
        fixture.say(id, "user", "needle");
    }
    let options = SearchOptions { workspace: Some("/blog".into()), ..SearchOptions::default() };
    for _ in 0..2 {
        let found = fixture.ledger.search("needle", &options).unwrap().results;
        assert_eq!(found.iter().map(|hit| hit.session.as_str()).collect::<Vec<_>>(), ["b"]);
        // The result is the same if the search uses the index.
        fixture.ledger.optimize(&|_| {}).unwrap();
    }
}

#[test]
fn results_of_tools_come_after_messages() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    fixture.say("s", "tool", "migrate migrate migrate");
    fixture.say("s", "assistant", &format!("{} migrate", "other words ".repeat(50)));
    let order: Vec<i64> = fixture.find("migrate").into_iter().map(|hit| hit.1).collect();
    assert_eq!(order, [2, 1]);
}

#[test]
fn a_misspelled_word_has_a_suggestion() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    fixture.say("s", "user", "the kubernetes migration failed");
    fixture.ledger.optimize(&|_| {}).unwrap();
    let suggest = |query: &str| fixture.ledger.suggest_query(query).unwrap();
    assert_eq!(suggest("kubernets Migation").as_deref(), Some("kubernetes migration"));
    assert_eq!(suggest("the kubernets").as_deref(), Some("the kubernetes"));
    for fine in ["kubernetes", "zebra", "kub", "\"kubernets\"", "kubernets*", "NOT"] {
        assert_eq!(suggest(fine), None, "{fine}");
    }
}

#[test]
fn the_better_match_comes_first() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    fixture.say("s", "user", "rust rust rust");
    fixture.say("s", "user", &format!("{} rust", "other words ".repeat(50)));
    fixture.say("s", "user", "rust");
    let order: Vec<i64> = fixture.find("rust").into_iter().map(|hit| hit.1).collect();
    assert_eq!(order, [1, 3, 2]);
    let many = SearchOptions { limit: 1, ..SearchOptions::default() };
    let outcome = fixture.ledger.search("rust", &many).unwrap();
    assert_eq!((outcome.results.len(), outcome.total), (1, 3));
}

#[test]
fn a_stopped_search_returns_the_newest_matches() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    for number in 0..5 {
        fixture.say("s", "user", &format!("message {number}"));
    }
    let options = SearchOptions::default();
    for query in ["message", "*essag*"] {
        let asked = Cell::new(0);
        let is_over = || asked.replace(asked.get() + 1) == 1;
        let outcome = fixture.ledger.search_until(query, &options, &is_over).unwrap();
        let found: Vec<i64> = outcome.results.iter().map(|hit| hit.message).collect();
        assert_eq!((found, outcome.more, outcome.stopped), (vec![5, 4], true, true), "{query}");
        let outcome = fixture.ledger.search(query, &options).unwrap();
        assert_eq!((outcome.total, outcome.stopped), (5, false), "{query}");
    }
}

#[test]
fn pasted_text_of_any_length_is_a_query() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    let words = |count: usize| (0..count).map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ");
    fixture.say("s", "user", &words(256));
    assert_eq!(fixture.find(&words(256)).len(), 1);
    assert_eq!(fixture.find(&words(100_000)).len(), 1, "the words beyond the limit are ignored");
}

#[test]
fn messages_after_a_deletion_are_found() {
    let mut fixture = Fixture::new();
    fixture.create_session("old");
    fixture.create_session("new");
    fixture.say("new", "user", "zero");
    for number in 0..200 {
        fixture.say("old", "user", &format!("old{number}"));
    }
    fixture.ledger.optimize(&|_| {}).unwrap();
    fixture.ledger.delete_session("old").unwrap();
    for number in 0..200 {
        fixture.say("new", "user", &format!("new{number}"));
    }
    assert_eq!(fixture.find("new0").len(), 1);
    assert_eq!(fixture.find("new199").len(), 1);
    assert!(fixture.find("old5").is_empty());
    assert!(fixture.ledger.verify(&|_, _| {}).unwrap().whole);
}

#[test]
fn the_unindexed_tail_stays_short() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    for number in 0..600 {
        fixture.say("s", "user", &format!("text {number}"));
        assert!(tail_length(&fixture.path()) <= 140, "{number}: {}", tail_length(&fixture.path()));
    }
    let many: Vec<_> =
        (0..3_000).map(|number| message("user", &format!("more {number}"))).collect();
    fixture.ledger.append("s", &many, at(2)).unwrap();
    assert!(tail_length(&fixture.path()) <= 140, "{}", tail_length(&fixture.path()));
    fixture.say("s", "user", &"large ".repeat(10_000));
    assert_eq!(tail_length(&fixture.path()), 0, "a large message is indexed immediately");
}

#[test]
fn the_unindexed_text_stays_short() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    for number in 0..40 {
        fixture.say("s", "user", &format!("{number} {}", "words ".repeat(1_000)));
        assert!(tail_length(&fixture.path()) <= 6, "{number}: {}", tail_length(&fixture.path()));
    }
}

#[test]
fn large_messages_of_any_form_are_indexed_immediately() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    let text = "lorem ipsum dolor ".repeat(4_000);
    let structured = MessageRecord {
        content: Some(json!([{ "type": "tool_result", "content": text }])),
        ..message("user", "")
    };
    let calling = MessageRecord { tool_calls: Some(json!([{ "x": text }])), ..message("user", "") };
    let indexed = |path: &Path| -> i64 {
        open_raw(path).query_row("SELECT indexed FROM search_state", [], |row| row.get(0)).unwrap()
    };
    fixture.ledger.append("s", std::slice::from_ref(&structured), at(1)).unwrap();
    assert_eq!(indexed(&fixture.path()), 1);
    fixture.ledger.append("s", &[calling], at(1)).unwrap();
    assert_eq!(indexed(&fixture.path()), 2);
    let event = Event::Messages { session: "s".into(), messages: vec![structured] };
    fixture.ledger.record(&[event], FOREVER, at(1)).unwrap();
    assert_eq!(indexed(&fixture.path()), 3);
}
