//! The spool: events that could not be written in time. The next process adds them to the ledger,
//! in order and exactly once.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use takeback_ledger::{
    CallRecord, EffectRecord, Event, Ledger, LedgerError, LedgerOptions, MessageFilter, Recorded,
    Tokens, UsageRecord,
};

use crate::support::{
    FOREVER, Fixture, all_texts, assert_ends, at, child_arguments, current_texts, impatient,
    open_raw, prompt_event, random_below, run_again, session,
};

fn spool_directory(path: &Path) -> PathBuf {
    path.with_file_name("spool")
}

/// Counts the files that are waiting in the spool.
fn count_waiting(path: &Path) -> usize {
    let Ok(listing) = fs::read_dir(spool_directory(path)) else { return 0 };
    listing
        .filter(|entry| entry.as_ref().unwrap().path().extension() == Some("json".as_ref()))
        .count()
}

/// Spools one event for each number, with the number as its text, while another process is writing.
fn spool_numbers(fixture: &Fixture, numbers: std::ops::Range<usize>) {
    let other = open_raw(&fixture.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for number in numbers {
        let events = [
            Event::Session { record: session("s").into() },
            prompt_event("s", &number.to_string()),
        ];
        let recorded =
            Ledger::record_in(&fixture.path(), &impatient(), &events, at(number as i64)).unwrap();
        assert!(matches!(recorded, Recorded::Spooled { .. }), "{recorded:?}");
    }
    other.execute_batch("ROLLBACK").unwrap();
}

#[test]
fn events_are_written_immediately_if_possible() {
    let mut fixture = Fixture::new();
    let events = [
        Event::Session { record: session("s").into() },
        prompt_event("s", "do it"),
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
    assert_eq!(count_waiting(&fixture.path()), 0);
    let ledger = &mut fixture.ledger;
    assert_eq!(all_texts(ledger, "s"), ["do it"]);
    assert_eq!(ledger.transcript("s").unwrap().calls[0].turn, 1);
    assert_eq!(ledger.transcript("s").unwrap().effects.len(), 1);
    assert_eq!(ledger.turns("s").unwrap()[0].ended_at, Some(at(3)));
    let stored = ledger.session("s").unwrap();
    assert_eq!((stored.tokens.input, stored.end_reason.as_deref()), (3, Some("done")));
    assert_eq!(ledger.take_notices("s", at(4)).unwrap().len(), 1);
}

#[test]
fn the_next_process_imports_events_in_order() {
    let fixture = Fixture::new();
    spool_numbers(&fixture, 0..25);
    assert_eq!(count_waiting(&fixture.path()), 25);
    let ledger = fixture.open_another();
    let expected: Vec<String> = (0..25).map(|number| number.to_string()).collect();
    assert_eq!(all_texts(&ledger, "s"), expected);
    assert_eq!(
        ledger.messages("s", MessageFilter::All).unwrap()[3].timestamp,
        Some(at(3)),
        "when it was"
    );
    assert_eq!(count_waiting(&fixture.path()), 0);
    drop(fixture.open_another());
    assert_eq!(all_texts(&ledger, "s"), expected, "once");
    let remembered: i64 = open_raw(&fixture.path())
        .query_row("SELECT count(*) FROM spooled", [], |row| row.get(0))
        .unwrap();
    assert_eq!(remembered, 0);
}

#[test]
fn later_events_do_not_overtake_spooled_ones() {
    let mut fixture = Fixture::new();
    spool_numbers(&fixture, 0..3);
    assert_eq!(
        fixture.ledger.record(&[prompt_event("s", "3")], FOREVER, at(9)).unwrap(),
        Recorded::Written
    );
    assert_eq!(all_texts(&fixture.ledger, "s"), ["0", "1", "2", "3"]);
}

#[test]
fn a_file_whose_events_are_in_the_ledger_is_not_imported_again() {
    let fixture = Fixture::new();
    spool_numbers(&fixture, 0..1);
    let file = spool_directory(&fixture.path()).join(format!("{:020}.json", 1));
    let entry: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    // Simulates a process that died right after its commit.
    open_raw(&fixture.path())
        .execute("INSERT INTO spooled (id) VALUES (?1)", [entry["id"].as_str().unwrap()])
        .unwrap();
    let ledger = fixture.open_another();
    assert!(matches!(ledger.session("s"), Err(LedgerError::NoSuchSession(_))));
    assert_eq!(count_waiting(&fixture.path()), 0);
}

#[test]
fn events_are_neither_lost_nor_repeated_if_the_process_that_imports_them_dies() {
    if let Some((path, _)) = child_arguments() {
        drop(Ledger::open(&path, &LedgerOptions::default()).unwrap());
        return;
    }
    const TEST: &str =
        "spool::events_are_neither_lost_nor_repeated_if_the_process_that_imports_them_dies";
    let fixture = Fixture::new();
    spool_numbers(&fixture, 0..120);
    let mut left = 120;
    while left > 0 {
        let mut child = run_again(TEST, &fixture.path(), "").spawn().unwrap();
        let enough = left - (1 + random_below(30) as usize).min(left);
        while count_waiting(&fixture.path()) > enough {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        left = count_waiting(&fixture.path());
    }
    let expected: Vec<String> = (0..120).map(|number| number.to_string()).collect();
    assert_eq!(all_texts(&fixture.open_another(), "s"), expected);
}

#[test]
fn a_broken_file_is_set_aside_and_the_others_are_imported() {
    let mut fixture = Fixture::new();
    spool_numbers(&fixture, 0..3);
    let second = spool_directory(&fixture.path()).join(format!("{:020}.json", 2));
    fs::write(&second, b"{\"version\": 1, \"id\": ").unwrap();
    let unknown = [prompt_event("unknown", "lost?")];
    let other = open_raw(&fixture.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    Ledger::record_in(&fixture.path(), &impatient(), &unknown, at(1)).unwrap();
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(
        fixture.ledger.record(&[prompt_event("s", "3")], FOREVER, at(9)).unwrap(),
        Recorded::Written
    );
    assert_eq!(all_texts(&fixture.ledger, "s"), ["0", "2", "3"]);
    let report = fixture.ledger.verify(&|_, _| {}).unwrap();
    assert!(!report.whole);
    assert_eq!(report.problems.len(), 2, "{:?}", report.problems);
    let kept =
        fs::read_dir(spool_directory(&fixture.path())).unwrap().flatten().map(|entry| entry.path());
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
    let events = [Event::Session { record: session("s").into() }, prompt_event("s", "kept")];
    let recorded = Ledger::record_in(&path, &impatient(), &events, at(1)).unwrap();
    assert!(matches!(recorded, Recorded::Spooled { because } if because.contains("damaged")));
    fs::remove_file(&path).unwrap();
    let ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    assert_eq!(all_texts(&ledger, "s"), ["kept"]);
}

#[test]
fn files_that_cannot_be_imported_do_not_replace_each_other() {
    let fixture = Fixture::new();
    let options = impatient();
    for text in ["one", "two"] {
        let other = open_raw(&fixture.path());
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let lost = prompt_event("unknown", text);
        let recorded = Ledger::record_in(&fixture.path(), &options, &[lost], at(1)).unwrap();
        assert!(matches!(recorded, Recorded::Spooled { .. }));
        drop(other);
        drop(fixture.open_another());
    }
    let bad =
        fs::read_dir(spool_directory(&fixture.path())).unwrap().flatten().map(|entry| entry.path());
    assert_eq!(
        bad.filter(|path| path.extension().is_some_and(|ending| ending == "bad")).count(),
        2
    );
}

#[test]
fn an_unreadable_spool_does_not_lose_later_events() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    // A directory with the name of a spool file makes the spool unreadable.
    let odd = fixture.directory.path().join("spool/00000000000000000001.json");
    fs::create_dir_all(&odd).unwrap();
    let event = prompt_event("s", "kept");
    let recorded =
        Ledger::record_in(&fixture.path(), &LedgerOptions::default(), &[event], at(1)).unwrap();
    assert!(matches!(recorded, Recorded::Spooled { .. }));
    fs::remove_dir(odd).unwrap();
    assert_eq!(current_texts(&fixture.open_another(), "s"), ["kept"]);
}

#[test]
fn waiting_events_do_not_make_a_reader_wait_for_a_writer() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    let writer = open_raw(&fixture.path());
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let event = prompt_event("s", "later");
    let impatient = impatient();
    Ledger::record_in(&fixture.path(), &impatient, &[event], at(1)).unwrap();
    let path = fixture.path();
    assert_ends(move || {
        let patient = LedgerOptions { wait: FOREVER, ..LedgerOptions::default() };
        let ledger = Ledger::open(&path, &patient).unwrap();
        assert!(current_texts(&ledger, "s").is_empty());
    });
    drop(writer);
    assert_eq!(current_texts(&fixture.open_another(), "s"), ["later"]);
}
