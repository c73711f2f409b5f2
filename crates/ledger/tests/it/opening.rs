//! Opening a ledger: permissions, refusals, and file systems without shared memory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};

use takeback_ledger::{
    JournalMode, Ledger, LedgerOptions, MessageFilter, OpenError, SearchOptions,
};
use tempfile::TempDir;

use crate::support::{Fixture, at, child_arguments, message, open_raw, run_again, session};

#[test]
fn only_the_owner_can_read_a_ledger() {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("home/state.db");
    let mut ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    ledger.create_session(&session("s"), at(0)).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        assert_eq!(mode(&path.with_file_name(name)), 0o600, "{name}");
    }
    assert_eq!(mode(path.parent().unwrap()), 0o700);
}

#[test]
fn a_newer_ledger_is_refused_and_not_touched() {
    let fixture = Fixture::new();
    let path = fixture.path();
    drop(fixture.ledger);
    let other = open_raw(&path);
    other.execute_batch("PRAGMA user_version = 999; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    drop(other);
    let before = fs::read(&path).unwrap();
    let refused = Ledger::open(&path, &LedgerOptions::default()).err().unwrap();
    assert!(matches!(refused, OpenError::TooNew { found: 999, .. }), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn another_programs_database_is_refused_and_not_touched() {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("state.db");
    open_raw(&path).execute_batch("CREATE TABLE sessions (id); PRAGMA user_version = 22").unwrap();
    let before = fs::read(&path).unwrap();
    let refused = Ledger::open(&path, &LedgerOptions::default()).err().unwrap();
    assert!(matches!(refused, OpenError::Foreign { .. }), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_that_is_not_a_database_is_refused_and_not_touched() {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("state.db");
    fs::write(&path, "my notes ".repeat(1_000)).unwrap();
    let refused = Ledger::open(&path, &LedgerOptions::default()).err().unwrap();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "my notes ".repeat(1_000));
}

#[test]
fn a_directory_at_the_path_is_an_error() {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("state.db");
    fs::create_dir(&path).unwrap();
    assert!(Ledger::open(&path, &LedgerOptions::default()).is_err());
}

#[test]
fn a_ledger_works_without_shared_memory() {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("state.db");
    let options =
        LedgerOptions { journal: Some(JournalMode::Rollback), ..LedgerOptions::default() };
    let mut one = Ledger::open(&path, &options).unwrap();
    let mut other = Ledger::open(&path, &options).unwrap();
    one.create_session(&session("s"), at(0)).unwrap();
    for number in 0..200 {
        let ledger = if number % 2 == 0 { &mut one } else { &mut other };
        ledger.append("s", &[message("user", &format!("word{number}"))], at(number)).unwrap();
    }
    assert_eq!(one.messages("s", MessageFilter::All).unwrap().len(), 200);
    assert_eq!(other.search("word7", &SearchOptions::default()).unwrap().total, 1);
    assert!(!path.with_file_name("state.db-shm").exists());
    assert!(one.verify(&|_, _| {}).unwrap().whole);
}

#[test]
fn a_ledger_that_moved_to_a_network_file_system_is_converted() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    fixture.say("s", "user", "in the log");
    let path = fixture.path();
    drop(fixture.ledger);
    let options =
        LedgerOptions { journal: Some(JournalMode::Rollback), ..LedgerOptions::default() };
    let ledger = Ledger::open(&path, &options).unwrap();
    assert_eq!(ledger.messages("s", MessageFilter::All).unwrap().len(), 1);
    let mode: String =
        open_raw(&path).query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_ne!(mode, "wal");
}

#[test]
fn many_processes_can_create_a_ledger_at_the_same_time() {
    if let Some((directory, rounds)) = child_arguments() {
        for round in 0..rounds.parse().unwrap() {
            let home = directory.join(format!("{round}"));
            while !home.exists() {
                std::hint::spin_loop();
            }
            Ledger::open(&home.join("state.db"), &LedgerOptions::default()).unwrap();
        }
        return;
    }
    let directory = tempfile::TempDir::new().unwrap();
    let rounds = 60;
    let spawn = |_| {
        let test = "opening::many_processes_can_create_a_ledger_at_the_same_time";
        let mut command = run_again(test, directory.path(), &rounds.to_string());
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..5).map(spawn).collect();
    for round in 0..rounds {
        let home = directory.path().join(format!("{round}"));
        fs::create_dir(&home).unwrap();
        // Each round ends only after a child has created the database.
        while !home.join("state.db-wal").exists() {
            std::thread::yield_now();
        }
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
}
