//! Search: filters, ranking and the index.

use std::cell::Cell;
use std::path::Path;

use serde_json::json;
use takeback_ledger::{Event, MessageRecord, SearchOptions};

use crate::support::{FOREVER, Fixture, at, message, open_raw, tail_length};

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
