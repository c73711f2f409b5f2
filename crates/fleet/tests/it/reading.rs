//! Searching, listing and adding up: a fleet answers as a ledger does.

use std::collections::BTreeSet;

use takeback_fleet::Encrypt;
use takeback_ledger::{
    Event, ListOptions, MessageRecord, SearchOptions, SessionRecord, Time, Tokens, UsageBy,
    UsageRecord, matches,
};

use crate::machine::{Machine, at};
use crate::server::Server;

const TEXTS: [&str; 12] = [
    "the quick brown fox",
    "Quick fixes for the BROWN door",
    "connection refused: retry",
    "connection was not refused",
    "naïve café",
    "全文検索のテスト",
    "テスト and text",
    "quickest path to /etc/hosts",
    "a nul \0 byte, it's \\ here",
    "chat-send failed",
    "😀 smile",
    "",
];

const QUERIES: [&str; 20] = [
    "quick",
    "quick*",
    "*ick*",
    "brown fox",
    "fox OR door",
    "connection NOT refused",
    "\"connection refused\"",
    "cafe",
    "検索",
    "テスト",
    "テ",
    "/etc/hosts",
    "chat-send",
    "it's",
    "\\",
    "😀",
    "NOT quick",
    "(quick OR connection) brown",
    "absent",
    "the",
];

/// Fills a machine's ledger with sessions, a fork, and a rewind. No two messages have the same time.
fn fill(machine: &mut Machine, offset: i64) {
    for (number, text) in (0_i64..).zip(TEXTS) {
        let session = ["claude:a", "codex:b"][number as usize % 2];
        if machine.ledger.session(session).is_err() {
            let record = SessionRecord {
                id: session.into(),
                source: session.split(':').next().unwrap().into(),
                workspace: Some(format!("/work/{session}")),
                ..SessionRecord::default()
            };
            machine.ledger.create_session(&record, at(offset)).unwrap();
        }
        let role = if number % 4 < 2 { "user" } else { "assistant" };
        let message = MessageRecord {
            role: role.into(),
            content: Some((*text).into()),
            ..MessageRecord::default()
        };
        machine.ledger.append(session, &[message], at(offset + number)).unwrap();
    }
    let usage = |model: &str, input| UsageRecord {
        model: model.into(),
        tokens: Tokens { input, ..Tokens::default() },
        estimated_cost_usd: Some(0.25),
        ..UsageRecord::default()
    };
    for (session, model, input) in
        [("claude:a", "m1", 5), ("claude:a", "m2", 7), ("codex:b", "m1", 9)]
    {
        let event = Event::Usage { session: session.into(), usage: usage(model, input) };
        machine
            .ledger
            .record(&[event], std::time::Duration::from_secs(60), at(offset + 30))
            .unwrap();
    }
    machine.ledger.fork("claude:a", 3, "claude:fork", at(offset + 40)).unwrap();
    machine.ledger.rewind_turns("codex:b", 1, at(offset + 41)).unwrap();
}

fn options() -> SearchOptions {
    SearchOptions { limit: 1_000, ..SearchOptions::default() }
}

#[test]
fn a_search_over_all_machines_finds_exactly_what_matches() {
    let Some(server) = Server::start() else { return };
    let (mut first, key) = Machine::first(&server.address());
    let mut second = Machine::new("second", &server.address());
    second.join_with(&key).unwrap();
    fill(&mut first, 0);
    fill(&mut second, 1_000);
    first.sync().unwrap();
    second.sync().unwrap();
    for query in QUERIES {
        let mut expected = BTreeSet::new();
        for (name, machine) in [("first", &first), ("second", &second)] {
            for session in ["claude:a", "codex:b"] {
                for message in machine.ledger.transcript(session).unwrap().messages {
                    let text = message.content.unwrap();
                    if !message.undone && matches(query, &[text.as_str().unwrap()]) {
                        expected.insert((name.to_owned(), session.to_owned(), message.seq));
                    }
                }
            }
        }
        let found = second.fleet().search(query, &options(), &|| false).unwrap();
        assert_eq!(found.total, expected.len(), "{query}");
        let found = found
            .hits
            .into_iter()
            .map(|found| (found.machine, found.hit.session, found.hit.message));
        assert_eq!(found.collect::<BTreeSet<_>>(), expected, "{query}");
    }
}

/// Asserts that the fleet answers as the ledger of its only machine does.
fn assert_same_answers(machine: &mut Machine) {
    let fleet = machine.fleet();
    let choices = [
        options(),
        SearchOptions { undone: true, ..options() },
        SearchOptions { roles: vec!["user".into()], limit: 2, ..options() },
        SearchOptions { sources: vec!["codex".into()], ..options() },
        SearchOptions { exclude_sources: vec!["codex".into()], ..options() },
        SearchOptions { since: Some(at(5)), ..options() },
        SearchOptions { workspace: Some("/work/codex:b".into()), ..options() },
    ];
    for query in QUERIES {
        for options in &choices {
            let mine = machine.ledger.search(query, options).unwrap();
            let shared = fleet.search(query, options, &|| false).unwrap();
            let hits: Vec<_> = shared.hits.into_iter().map(|found| found.hit).collect();
            assert_eq!(hits, mine.results, "{query} {options:?}");
            assert_eq!((shared.total, shared.more), (mine.total, mine.more), "{query}");
        }
    }
    for options in [
        ListOptions::default(),
        ListOptions { limit: Some(1), ..ListOptions::default() },
        ListOptions { sources: vec!["claude".into()], ..ListOptions::default() },
        ListOptions { workspace: Some("/work/codex:b".into()), ..ListOptions::default() },
    ] {
        let shared = fleet.sessions(&options).unwrap();
        let shared: Vec<_> = shared.into_iter().map(|session| session.summary).collect();
        assert_eq!(shared, machine.ledger.sessions(&options).unwrap(), "{options:?}");
    }
    let day = |time: Time| (time.0 / 10_000).to_string();
    let price = |model: &str, tokens: Tokens| (model == "m2").then_some(tokens.input as f64);
    for by in [UsageBy::Model, UsageBy::Day, UsageBy::Workspace, UsageBy::Source, UsageBy::Session]
    {
        let shared = fleet.usage_by(by, &day, &price).unwrap();
        assert_eq!(shared, machine.ledger.usage_by(by, &day, &price).unwrap());
    }
}

#[test]
fn a_fleet_of_one_machine_answers_as_its_ledger_does() {
    let Some(server) = Server::start() else { return };
    let (mut machine, _) = Machine::first(&server.address());
    fill(&mut machine, 0);
    machine.sync().unwrap();
    assert_same_answers(&mut machine);
}

#[test]
fn an_encrypted_fleet_answers_in_the_same_way() {
    let Some(server) = Server::start() else { return };
    let mut machine = Machine::new("m", &server.address());
    machine.settings.encrypt = Encrypt::All;
    machine.join(&Default::default()).unwrap();
    fill(&mut machine, 0);
    machine.sync().unwrap();
    assert_same_answers(&mut machine);
}

#[test]
fn a_search_reads_no_more_than_it_needs() {
    let Some(server) = Server::start() else { return };
    let (mut machine, _) = Machine::first(&server.address());
    for number in 0..450 {
        machine.say("claude:a", "user", &format!("common {number}"));
    }
    machine.sync().unwrap();
    let options = SearchOptions::default();
    let found = machine.fleet().search("common", &options, &|| false).unwrap();
    assert_eq!((found.hits.len(), found.total, found.more), (20, 200, true));
    let found = machine.fleet().search("common 7", &options, &|| false).unwrap();
    assert_eq!((found.hits.len(), found.more), (1, false));
    let stopped = machine.fleet().search("*nothing*", &options, &|| true).unwrap();
    assert!(stopped.stopped && stopped.more);
}

/// The number of messages in the test below. A search first reads only the newest of them.
const LONG: usize = 20_600;

#[test]
fn old_messages_are_found_behind_twenty_thousand_newer_ones() {
    let Some(server) = Server::start() else { return };
    let (mut machine, _) = Machine::first(&server.address());
    let text = |number: usize| match number {
        300 => "red herring".to_owned(),
        number if number.is_multiple_of(50) => format!("blue herring {number}"),
        number => format!("message {number} about a red door"),
    };
    let message = |number| MessageRecord {
        role: "user".into(),
        content: Some(text(number).into()),
        ..MessageRecord::default()
    };
    for first in (0..LONG).step_by(1_000) {
        let id = format!("claude:{first}");
        let source = "claude".into();
        let record = SessionRecord { id: id.clone(), source, ..SessionRecord::default() };
        machine.ledger.create_session(&record, at(first as i64)).unwrap();
        let messages: Vec<_> = (first..LONG.min(first + 1_000)).map(message).collect();
        machine.ledger.append(&id, &messages, at(first as i64)).unwrap();
    }
    machine.sync().unwrap();
    let fleet = machine.fleet();
    // In this order: two queries with a rare word, then a rare combination of frequent words, a
    // phrase, a word on both sides of the boundary, a frequent word, and an unknown word.
    for query in ["10", "message 123", "red herring", "\"red herring\"", "blue", "red", "green"] {
        let options = SearchOptions { limit: 50, ..SearchOptions::default() };
        let found = fleet.search(query, &options, &|| false).unwrap();
        let local = machine.ledger.search(query, &options).unwrap();
        let hits: Vec<_> = found.hits.iter().map(|hit| &hit.hit).collect();
        assert_eq!(hits, local.results.iter().collect::<Vec<_>>(), "{query}");
        assert_eq!(found.total, local.total, "{query}");
    }
}
