//! Repairs that are interrupted, and processes that open the ledger during a repair.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use takeback_ledger::{Event, Ledger, LedgerOptions, OpenError, Recorded, repair_ledger};

use crate::support::{
    Fixture, at, child_arguments, current_texts, damage_index_page, message, run_again, session,
};

/// Creates a ledger with fifty messages in the database and one in the log, and closes it.
fn make_closed_ledger() -> (tempfile::TempDir, PathBuf) {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    for number in 0..50 {
        fixture.say("s", "user", &format!("message {number} {}", "x".repeat(300)));
    }
    fixture.ledger.optimize(&|_| {}).unwrap();
    fixture.create_session("log");
    fixture.say("log", "user", "only in the log");
    let Fixture { directory, ledger } = fixture;
    drop(ledger);
    let path = directory.path().join("state.db");
    (directory, path)
}

#[test]
fn a_ledger_behind_a_link_is_repaired_with_its_log() {
    let (_directory, path) = make_closed_ledger();
    damage_index_page(&path);
    let elsewhere = tempfile::TempDir::new().unwrap();
    let link = elsewhere.path().join("state.db");
    symlink(&path, &link).unwrap();
    assert!(repair_ledger(&link, at(99), &|_, _| {}).unwrap().backup.is_some());
    let ledger = Ledger::open(&link, &LedgerOptions::default()).unwrap();
    assert_eq!(current_texts(&ledger, "log"), ["only in the log"]);
    assert!(link.is_symlink());
}

#[test]
fn a_repair_that_was_cut_off_is_finished() {
    let (directory, path) = make_closed_ledger();
    damage_index_page(&path);
    // These are the files that remain if a repair dies after the new database was completed and the
    // old log was removed.
    let copy = tempfile::TempDir::new_in(directory.path()).unwrap();
    for name in ["state.db", "state.db-wal"] {
        fs::copy(directory.path().join(name), copy.path().join(name)).unwrap();
    }
    repair_ledger(&copy.path().join("state.db"), at(1), &|_, _| {}).unwrap();
    fs::rename(copy.path().join("state.db"), directory.path().join("state.db.ready")).unwrap();
    fs::remove_file(directory.path().join("state.db-wal")).unwrap();

    let refused = Ledger::open(&path, &LedgerOptions::default()).err().unwrap();
    assert!(matches!(refused, OpenError::Unfinished { .. }), "{refused}");
    let event =
        [Event::Messages { session: "log".into(), messages: vec![message("user", "more")] }];
    let recorded = Ledger::record_in(&path, &LedgerOptions::default(), &event, at(2)).unwrap();
    assert!(matches!(recorded, Recorded::Spooled { .. }));
    repair_ledger(&path, at(3), &|_, _| {}).unwrap();
    let ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    assert_eq!(current_texts(&ledger, "log"), ["only in the log", "more"]);
}

#[test]
fn opening_a_ledger_during_a_repair_waits_for_the_new_one() {
    if let Some((path, _)) = child_arguments() {
        // Opening the ledger fails if the new database is being put in place at that moment.
        let mut ledger = loop {
            match Ledger::open(&path, &LedgerOptions::default()) {
                Err(OpenError::Unfinished { .. }) => std::thread::yield_now(),
                opened => break opened.unwrap(),
            }
        };
        ledger.create_session(&session("child"), at(5)).unwrap();
        for number in 0..50 {
            ledger.append("child", &[message("user", &format!("{number}"))], at(5)).unwrap();
        }
        return;
    }
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    let many: Vec<_> = (0..2_000).map(|n| message("user", &format!("message {n}"))).collect();
    fixture.ledger.append("s", &many, at(1)).unwrap();
    fixture.ledger.optimize(&|_| {}).unwrap();
    let path = fixture.path();
    let Fixture { directory: _directory, ledger } = fixture;
    drop(ledger);
    damage_index_page(&path);
    let child: RefCell<Option<Child>> = RefCell::default();
    repair_ledger(&path, at(99), &|saved, _| {
        if saved == 100 {
            let test = "repair_interrupted::opening_a_ledger_during_a_repair_waits_for_the_new_one";
            let spawned = run_again(test, &path, "").stdout(Stdio::null()).spawn().unwrap();
            *child.borrow_mut() = Some(spawned);
            // This gives the child time to reach the lock. Without the pause, the test is weaker
            // but not wrong.
            std::thread::sleep(Duration::from_millis(300));
        }
    })
    .unwrap();
    let mut ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    for number in 0..20 {
        ledger.append("s", &[message("user", &format!("parent {number}"))], at(5)).unwrap();
    }
    assert!(child.into_inner().unwrap().wait().unwrap().success());
    drop(ledger);
    let ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    let report = ledger.verify(&|_, _| {}).unwrap();
    assert!(report.whole, "{:?}", report.problems);
    assert_eq!(ledger.session("child").unwrap().message_count, 50);
    assert_eq!(ledger.session("s").unwrap().message_count, 2_020);
}

#[test]
fn a_second_repair_does_not_change_the_repaired_ledger() {
    if let Some((path, _)) = child_arguments() {
        assert_eq!(repair_ledger(&path, at(98), &|_, _| {}).unwrap().backup, None);
        return;
    }
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    let many: Vec<_> = (0..500).map(|n| message("user", &format!("message {n}"))).collect();
    fixture.ledger.append("s", &many, at(1)).unwrap();
    fixture.ledger.optimize(&|_| {}).unwrap();
    let path = fixture.path();
    let Fixture { directory: _directory, ledger } = fixture;
    drop(ledger);
    damage_index_page(&path);
    let child: RefCell<Option<Child>> = RefCell::default();
    repair_ledger(&path, at(99), &|saved, _| {
        if saved == 100 {
            let test = "repair_interrupted::a_second_repair_does_not_change_the_repaired_ledger";
            let spawned = run_again(test, &path, "").stdout(Stdio::null()).spawn().unwrap();
            *child.borrow_mut() = Some(spawned);
            // This gives the child time to begin waiting for the lock. Without the pause, the test
            // is weaker but not wrong.
            std::thread::sleep(Duration::from_millis(500));
        }
    })
    .unwrap();
    let mut ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    ledger.append("s", &[message("user", "after the repair")], at(100)).unwrap();
    drop(ledger);
    assert!(child.into_inner().unwrap().wait().unwrap().success());
    let ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    assert_eq!(ledger.session("s").unwrap().message_count, 501);
}
