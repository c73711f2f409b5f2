//! A ledger that stays open while other processes work on the same database.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use takeback_ledger::{
    JournalMode, Ledger, LedgerError, LedgerOptions, ListOptions, MessageFilter, OpenError,
    Recorded, SearchOptions, repair_ledger,
};
use tempfile::TempDir;

use crate::support::{
    FOREVER, Fixture, all_texts, at, child_arguments, damage_index_page, impatient, message,
    open_raw, prompt_event, run_again, session,
};

/// Opens a ledger without shared memory. Such a ledger holds no lock between operations, so a
/// repair by another process does not wait for it.
fn open_without_shared_memory(directory: &TempDir) -> Ledger {
    let options =
        LedgerOptions { journal: Some(JournalMode::Rollback), ..LedgerOptions::default() };
    let path = directory.path().join("state.db");
    let mut ledger = Ledger::open(&path, &options).unwrap();
    ledger.create_session(&session("s"), at(0)).unwrap();
    ledger.append("s", &[message("user", "before the repair")], at(1)).unwrap();
    ledger
}

/// Starts a process that repairs the ledger. The process runs the calling test again, so the test
/// must call [`repair_as_child`].
fn start_repair(test: &str, path: &Path) -> Child {
    run_again(&format!("long_lived::{test}"), path, "").stdout(Stdio::null()).spawn().unwrap()
}

/// Repairs the ledger if this process is a child of [`start_repair`].
fn repair_as_child() -> bool {
    let Some((path, _)) = child_arguments() else { return false };
    assert!(repair_ledger(&path, at(5), &|_, _| {}).unwrap().backup.is_some());
    true
}

#[test]
fn a_ledger_can_move_to_another_thread() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    let ledger = fixture.ledger;
    let count = std::thread::spawn(move || ledger.session("s").unwrap().message_count);
    assert_eq!(count.join().unwrap(), 0);
}

#[test]
fn a_deletion_after_a_repair_overwrites_the_text() {
    if repair_as_child() {
        return;
    }
    let directory = TempDir::new().unwrap();
    let mut ledger = open_without_shared_memory(&directory);
    let path = ledger.path().to_owned();
    damage_index_page(&path);
    let test = "a_deletion_after_a_repair_overwrites_the_text";
    assert!(start_repair(test, &path).wait().unwrap().success());
    // This read opens the new file. The next write then configures the connection so that deleted
    // text is overwritten.
    assert_eq!(all_texts(&ledger, "s"), ["before the repair"]);
    let has_text = || {
        let bytes = fs::read(&path).unwrap();
        bytes.windows(17).any(|window| window == b"before the repair")
    };
    assert!(has_text());
    ledger.delete_session("s").unwrap();
    assert!(!has_text(), "the deleted text is still in the file");
}

#[test]
fn a_reader_notices_that_the_ledger_was_repaired() {
    if repair_as_child() {
        return;
    }
    let directory = TempDir::new().unwrap();
    let mut ledger = open_without_shared_memory(&directory);
    let path = ledger.path().to_owned();
    damage_index_page(&path);
    let test = "a_reader_notices_that_the_ledger_was_repaired";
    assert!(start_repair(test, &path).wait().unwrap().success());
    Ledger::open(&path, &LedgerOptions::default())
        .unwrap()
        .append("s", &[message("user", "after the repair")], at(6))
        .unwrap();
    assert_eq!(all_texts(&ledger, "s"), ["before the repair", "after the repair"]);
    // The write uses the connection to the new file that the read has opened.
    ledger.append("s", &[message("user", "by the open ledger")], at(7)).unwrap();
    let fresh = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    assert_eq!(
        all_texts(&fresh, "s"),
        ["before the repair", "after the repair", "by the open ledger"]
    );
    assert!(fresh.verify(&|_, _| {}).unwrap().whole);
}

#[test]
fn a_writer_notices_that_the_ledger_was_repaired() {
    if repair_as_child() {
        return;
    }
    let directory = TempDir::new().unwrap();
    let mut ledger = open_without_shared_memory(&directory);
    let path = ledger.path().to_owned();
    damage_index_page(&path);
    let test = "a_writer_notices_that_the_ledger_was_repaired";
    assert!(start_repair(test, &path).wait().unwrap().success());
    ledger.append("s", &[message("user", "by the open ledger")], at(6)).unwrap();
    ledger.record(&[prompt_event("s", "by an event")], Duration::ZERO, at(7)).unwrap();
    let fresh = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    assert_eq!(all_texts(&fresh, "s"), ["before the repair", "by the open ledger", "by an event"]);
}

#[test]
fn a_repair_waits_until_the_ledger_is_closed() {
    if repair_as_child() {
        return;
    }
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    fixture.say("s", "user", "before the repair");
    fixture.ledger.optimize(&|_| {}).unwrap();
    let path = fixture.path();
    let Fixture { directory: _directory, ledger } = fixture;
    // When a process opens and closes a database file, it loses all its locks on the file. So the
    // ledger is closed while `damage_index_page` does this.
    drop(ledger);
    damage_index_page(&path);
    let ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    let mut child = start_repair("a_repair_waits_until_the_ledger_is_closed", &path);
    std::thread::sleep(Duration::from_millis(600));
    assert!(child.try_wait().unwrap().is_none(), "the repair waits");
    assert_eq!(all_texts(&ledger, "s"), ["before the repair"]);
    drop(ledger);
    assert!(child.wait().unwrap().success());
    let ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    assert_eq!(all_texts(&ledger, "s"), ["before the repair"]);
}

#[test]
fn a_deleted_ledger_is_created_again() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    let home = fixture.directory.path().join("home");
    let path = home.join("state.db");
    let mut ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    for round in 0..3 {
        ledger.create_session(&session("s"), at(0)).unwrap();
        ledger.append("s", &[message("user", "gone soon")], at(1)).unwrap();
        fs::remove_dir_all(&home).unwrap();
        if round == 1 {
            assert!(ledger.sessions(&ListOptions::default()).unwrap().is_empty());
        }
    }
    ledger.create_session(&session("s"), at(2)).unwrap();
    ledger.append("s", &[message("user", "kept")], at(3)).unwrap();
    assert_eq!(all_texts(&Ledger::open(&path, &LedgerOptions::default()).unwrap(), "s"), ["kept"]);
}

#[test]
fn a_ledger_that_a_later_version_changed_is_not_written_to() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    open_raw(&fixture.path()).execute_batch("PRAGMA user_version = 999").unwrap();
    let refused = fixture.ledger.append("s", &[message("user", "too old")], at(1));
    assert!(
        matches!(refused, Err(LedgerError::Open(OpenError::TooNew { found: 999, .. }))),
        "{refused:?}"
    );
    let recorded =
        fixture.ledger.record(&[prompt_event("s", "waits")], Duration::ZERO, at(2)).unwrap();
    assert!(matches!(recorded, Recorded::Spooled { .. }), "{recorded:?}");
}

#[test]
fn a_write_waits_as_long_as_its_caller_allows_and_no_longer() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    let other = open_raw(&fixture.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let start = Instant::now();
    let wait = Duration::from_millis(30);
    let recorded = fixture.ledger.record(&[prompt_event("s", "spooled")], wait, at(1)).unwrap();
    assert!(matches!(recorded, Recorded::Spooled { .. }), "{recorded:?}");
    assert!(start.elapsed() >= wait);
    assert!(start.elapsed() < Duration::from_secs(30), "the ledger's own wait is a minute");
    assert!(all_texts(&fixture.ledger, "s").is_empty());
    other.execute_batch("ROLLBACK").unwrap();
    // Both events are written, in order.
    let recorded = fixture.ledger.record(&[prompt_event("s", "written")], FOREVER, at(2)).unwrap();
    assert_eq!(recorded, Recorded::Written);
    assert_eq!(all_texts(&fixture.ledger, "s"), ["spooled", "written"]);
    // The ledger's usual wait is unchanged: this write waits for the other process.
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let end = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        other.execute_batch("ROLLBACK").unwrap();
    });
    fixture.say("s", "user", "patient");
    end.join().unwrap();
}

#[test]
fn an_open_ledger_imports_events_that_other_processes_spooled() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    let other = open_raw(&fixture.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let impatient = impatient();
    Ledger::record_in(&fixture.path(), &impatient, &[prompt_event("s", "spooled")], at(1)).unwrap();
    fixture.ledger.refresh();
    assert!(all_texts(&fixture.ledger, "s").is_empty());
    other.execute_batch("ROLLBACK").unwrap();
    fixture.ledger.refresh();
    assert_eq!(all_texts(&fixture.ledger, "s"), ["spooled"]);
}

/// Returns the length of the log in bytes.
fn log_length(path: &Path) -> u64 {
    fs::metadata(path.with_file_name("state.db-wal")).map_or(0, |log| log.len())
}

/// Asserts that the ledger has no open transaction: otherwise the log could not be emptied.
fn assert_log_can_be_emptied(path: &Path, after: &str) {
    let other = open_raw(path);
    other.execute_batch("UPDATE sessions SET model = ifnull(model, '') || 'x'").unwrap();
    let busy: i64 =
        other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
    assert_eq!((busy, log_length(path)), (0, 0), "after {after}");
}

#[test]
fn an_idle_ledger_holds_no_transaction() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    for number in 0..30 {
        fixture.say("s", if number % 2 == 0 { "user" } else { "assistant" }, "several words");
    }
    let path = fixture.path();
    // Keeps the log from being deleted when the other connections close.
    let other = open_raw(&path);
    other.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    type Step = (&'static str, fn(&mut Ledger));
    let steps: [Step; 12] = [
        ("search", |ledger| drop(ledger.search("words", &SearchOptions::default()).unwrap())),
        ("no hit", |ledger| drop(ledger.search("nowhere", &SearchOptions::default()).unwrap())),
        ("messages", |ledger| drop(ledger.messages("s", MessageFilter::Current).unwrap())),
        ("no session", |ledger| assert!(ledger.messages("unknown", MessageFilter::All).is_err())),
        ("sessions", |ledger| drop(ledger.sessions(&ListOptions::default()).unwrap())),
        ("session", |ledger| drop(ledger.session("s").unwrap())),
        ("transcript", |ledger| drop(ledger.transcript("s").unwrap())),
        ("usage", |ledger| drop(ledger.transcript("s").unwrap().usage)),
        ("turns", |ledger| drop(ledger.turns("s").unwrap())),
        ("verify", |ledger| drop(ledger.verify(&|_, _| {}).unwrap())),
        ("append", |ledger| drop(ledger.append("s", &[message("user", "x")], at(9)).unwrap())),
        ("refused", |ledger| assert!(ledger.append("unknown", &[], at(9)).is_err())),
    ];
    for (name, step) in steps {
        step(&mut fixture.ledger);
        assert_log_can_be_emptied(&path, name);
    }
}

#[test]
fn the_log_stays_short_while_ledgers_are_open() {
    let mut fixture = Fixture::new();
    fixture.create_session("s");
    let idle = fixture.open_another();
    let mut longest = 0;
    for number in 0..1_000 {
        if number % 100 == 0 {
            idle.session("s").unwrap();
        }
        fixture.say("s", "assistant", &format!("{number} {}", "some words ".repeat(1_000)));
        longest = longest.max(log_length(&fixture.path()));
    }
    assert!(longest < 8 << 20, "the log had {longest} bytes");
}
