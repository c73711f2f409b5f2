//! Events that could not be written in time: taken in by the next process, in order, once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use takeback_ledger::{
    CallRecord, EffectRecord, Event, Ledger, LedgerError, Options, Recorded, Tokens, UsageRecord,
    Which,
};

use crate::support::{FOREVER, Fixture, again, at, message, random, raw, session, told};

fn impatient() -> Options {
    Options { wait: Duration::ZERO, ..Options::default() }
}

fn spool(path: &Path) -> PathBuf {
    path.with_file_name("spool")
}

fn waiting(path: &Path) -> usize {
    let Ok(listing) = fs::read_dir(spool(path)) else { return 0 };
    listing
        .filter(|entry| entry.as_ref().unwrap().path().extension() == Some("json".as_ref()))
        .count()
}

fn said(session: &str, text: &str) -> Event {
    Event::Messages { session: session.to_owned(), messages: vec![message("user", text)] }
}

fn texts(ledger: &Ledger, session: &str) -> Vec<String> {
    let messages = ledger.messages(session, Which::All).unwrap();
    let text = |content: Option<Value>| content.unwrap().as_str().unwrap().to_owned();
    messages.into_iter().map(|message| text(message.content)).collect()
}

/// Spools events saying the numbers while somebody else is writing.
fn spool_numbers(fixture: &Fixture, numbers: std::ops::Range<usize>) {
    let other = raw(&fixture.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for number in numbers {
        let events =
            [Event::Session { record: session("s").into() }, said("s", &number.to_string())];
        let recorded =
            Ledger::record_in(&fixture.path(), &impatient(), &events, at(number as i64)).unwrap();
        assert!(matches!(recorded, Recorded::Spooled { .. }), "{recorded:?}");
    }
    other.execute_batch("ROLLBACK").unwrap();
}

#[test]
fn events_are_written_at_once_if_that_is_possible() {
    let mut fixture = Fixture::new();
    let events = [
        Event::Session { record: session("s").into() },
        said("s", "do it"),
        Event::Call {
            session: "s".into(),
            call: CallRecord { call: "c".into(), tool: "Bash".into(), ..CallRecord::default() },
        },
        Event::Effect {
            session: "s".into(),
            effect: EffectRecord {
                kind: "network".into(),
                command: "curl -d x".into(),
                ..EffectRecord::default()
            },
        },
        Event::Usage {
            session: "s".into(),
            usage: UsageRecord {
                model: "m".into(),
                tokens: Tokens { input: 3, ..Tokens::default() },
                ..UsageRecord::default()
            },
        },
        Event::Notice { session: "s".into(), body: json!({ "x": 1 }) },
        Event::TurnEnd { session: "s".into() },
        Event::SessionEnd { session: "s".into(), reason: "done".into() },
    ];
    assert_eq!(fixture.ledger.record(&events, FOREVER, at(3)).unwrap(), Recorded::Written);
    assert_eq!(waiting(&fixture.path()), 0);
    let ledger = &mut fixture.ledger;
    assert_eq!(texts(ledger, "s"), ["do it"]);
    assert_eq!(ledger.calls("s").unwrap()[0].turn, 1);
    assert_eq!(ledger.effects("s").unwrap().len(), 1);
    assert_eq!(ledger.turns("s").unwrap()[0].ended_at, Some(at(3)));
    let stored = ledger.session("s").unwrap();
    assert_eq!((stored.tokens.input, stored.end_reason.as_deref()), (3, Some("done")));
    assert_eq!(ledger.take_notices("s", at(4)).unwrap().len(), 1);
}

#[test]
fn the_next_process_takes_them_in_in_order() {
    let fixture = Fixture::new();
    spool_numbers(&fixture, 0..25);
    assert_eq!(waiting(&fixture.path()), 25);
    let ledger = fixture.another();
    let expected: Vec<String> = (0..25).map(|number| number.to_string()).collect();
    assert_eq!(texts(&ledger, "s"), expected);
    assert_eq!(ledger.messages("s", Which::All).unwrap()[3].timestamp, Some(at(3)), "when it was");
    assert_eq!(waiting(&fixture.path()), 0);
    drop(fixture.another());
    assert_eq!(texts(&ledger, "s"), expected, "once");
    let remembered: i64 = raw(&fixture.path())
        .query_row("SELECT count(*) FROM spooled", [], |row| row.get(0))
        .unwrap();
    assert_eq!(remembered, 0);
}

#[test]
fn what_comes_later_does_not_overtake() {
    let mut fixture = Fixture::new();
    spool_numbers(&fixture, 0..3);
    assert_eq!(
        fixture.ledger.record(&[said("s", "3")], FOREVER, at(9)).unwrap(),
        Recorded::Written
    );
    assert_eq!(texts(&fixture.ledger, "s"), ["0", "1", "2", "3"]);
}

#[test]
fn a_file_whose_events_are_in_already_is_not_taken_in_again() {
    let fixture = Fixture::new();
    spool_numbers(&fixture, 0..1);
    let file = spool(&fixture.path()).join(format!("{:020}.json", 1));
    let entry: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    // As if the process had died right after its commit.
    raw(&fixture.path())
        .execute("INSERT INTO spooled (id) VALUES (?1)", [entry["id"].as_str().unwrap()])
        .unwrap();
    let ledger = fixture.another();
    assert!(matches!(ledger.session("s"), Err(LedgerError::NoSuchSession(_))));
    assert_eq!(waiting(&fixture.path()), 0);
}

#[test]
fn processes_that_die_while_taking_in_neither_lose_nor_repeat() {
    if let Some((path, _)) = told() {
        drop(Ledger::open(&path, &Options::default()).unwrap());
        return;
    }
    const TEST: &str = "spool::processes_that_die_while_taking_in_neither_lose_nor_repeat";
    let fixture = Fixture::new();
    spool_numbers(&fixture, 0..120);
    let mut left = 120;
    while left > 0 {
        let mut child = again(TEST, &fixture.path(), "").spawn().unwrap();
        let enough = left - (1 + random(30) as usize).min(left);
        while waiting(&fixture.path()) > enough {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        left = waiting(&fixture.path());
    }
    let expected: Vec<String> = (0..120).map(|number| number.to_string()).collect();
    assert_eq!(texts(&fixture.another(), "s"), expected);
}

#[test]
fn a_broken_file_is_set_aside_and_the_others_go_in() {
    let mut fixture = Fixture::new();
    spool_numbers(&fixture, 0..3);
    let second = spool(&fixture.path()).join(format!("{:020}.json", 2));
    fs::write(&second, b"{\"version\": 1, \"id\": ").unwrap();
    let unknown = [said("nobody", "lost?")];
    let other = raw(&fixture.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    Ledger::record_in(&fixture.path(), &impatient(), &unknown, at(1)).unwrap();
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(
        fixture.ledger.record(&[said("s", "3")], FOREVER, at(9)).unwrap(),
        Recorded::Written
    );
    assert_eq!(texts(&fixture.ledger, "s"), ["0", "2", "3"]);
    let report = fixture.ledger.verify(&|_, _| {}).unwrap();
    assert!(!report.whole);
    assert_eq!(report.problems.len(), 2, "{:?}", report.problems);
    let kept = fs::read_dir(spool(&fixture.path())).unwrap().flatten().map(|entry| entry.path());
    let is_bad = |path: &PathBuf| path.extension() == Some("bad".as_ref());
    let kept: Vec<Vec<u8>> = kept.filter(is_bad).map(|path| fs::read(path).unwrap()).collect();
    assert!(kept.contains(&b"{\"version\": 1, \"id\": ".to_vec()), "nothing is thrown away");
}

#[test]
fn a_ledger_that_cannot_be_opened_does_not_lose_events() {
    let fixture = Fixture::new();
    let path = fixture.path();
    drop(fixture.ledger);
    fs::remove_file(path.with_file_name("state.db-wal")).unwrap();
    fs::write(&path, b"this is not a database, it only looks like a file").unwrap();
    let events = [Event::Session { record: session("s").into() }, said("s", "kept")];
    let recorded = Ledger::record_in(&path, &impatient(), &events, at(1)).unwrap();
    assert!(matches!(recorded, Recorded::Spooled { because } if because.contains("damaged")));
    fs::remove_file(&path).unwrap();
    let ledger = Ledger::open(&path, &Options::default()).unwrap();
    assert_eq!(texts(&ledger, "s"), ["kept"]);
}

#[test]
fn secrets_are_masked_before_they_reach_the_spool() {
    let fixture = Fixture::new();
    let other = raw(&fixture.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let key = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let options = Options { redact: true, ..impatient() };
    let events = [Event::Session { record: session("s").into() }, said("s", &format!("use {key}"))];
    Ledger::record_in(&fixture.path(), &options, &events, at(1)).unwrap();
    let file = spool(&fixture.path()).join(format!("{:020}.json", 1));
    assert!(!fs::read_to_string(file).unwrap().contains(&key));
}
