//! Leases: only one process at a time continues a task, and a process that has lost its lease
//! cannot write.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use takeback_ledger::{LedgerError, TaskChange};

use crate::support::{Fixture, all_texts, at, open_raw, prompt_event, task};
use crate::tasks::{append, read};

/// Returns the names of the lock files of tasks.
fn lock_files(fixture: &Fixture) -> BTreeSet<String> {
    let listing = fs::read_dir(fixture.directory.path().join("tasks")).unwrap();
    let names = listing.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "lock").collect()
}

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_task_has_one_lease_at_a_time() {
    let mut fixture = Fixture::with_task();
    fixture.ledger.create_task(&task("u"), at(0)).unwrap();
    assert!(fixture.ledger.running_tasks().unwrap().is_empty());
    assert!(!fixture.directory.path().join("tasks").exists(), "looking creates nothing");
    let mut other = fixture.open_another();
    let first = fixture.ledger.take_lease("t", at(1)).unwrap();
    assert_eq!((first.task(), first.epoch()), ("t", 1));
    let refused = other.take_lease("t", at(2));
    assert!(matches!(refused, Err(LedgerError::TaskRunning(id)) if id == "t"));
    assert_eq!(fixture.ledger.task("t").unwrap().epoch, 1, "a refusal fences no process");
    let another = other.take_lease("u", at(2)).unwrap();
    assert_eq!(fixture.ledger.running_tasks().unwrap(), names(&["t", "u"]));
    append(&mut fixture.ledger, &first, &[json!("still mine")]);
    drop((first, another));
    assert!(other.running_tasks().unwrap().is_empty());
    assert_eq!(other.take_lease("t", at(3)).unwrap().epoch(), 2);
}

#[test]
fn seizing_a_lease_locks_out_the_previous_owner() {
    let mut fixture = Fixture::with_task();
    let stale = fixture.ledger.take_lease("t", at(1)).unwrap();
    append(&mut fixture.ledger, &stale, &[json!("before")]);
    let mut other = fixture.open_another();
    let lease = other.seize_lease("t", at(2)).unwrap();

    let events = [prompt_event("s", "too late")];
    let change = TaskChange { events: &events, state: Some("done"), ..TaskChange::default() };
    let never = |_: &[_]| unreachable!("a fenced process adds no entries");
    let fenced = fixture.ledger.append_journal(&stale, &change, never, at(3));
    assert!(matches!(fenced, Err(LedgerError::Fenced { epoch: 1, current: 2, .. })));
    let fenced = fixture.ledger.write_snapshot(&stale, 1, &json!({}), at(3));
    assert!(matches!(fenced, Err(LedgerError::Fenced { .. })));
    assert!(all_texts(&fixture.ledger, "s").is_empty());
    assert_eq!(fixture.ledger.task("t").unwrap().state, "running");
    assert_eq!(fixture.ledger.load_task("t").unwrap().snapshot, None);

    append(&mut other, &lease, &[json!("after")]);
    assert_eq!(read(&fixture.ledger, "t"), ["before", "after"]);
    let epochs: Vec<i64> =
        other.read_journal("t", 0).unwrap().iter().map(|entry| entry.epoch).collect();
    assert_eq!(epochs, [1, 2]);
    // The old lock no longer has any effect, so releasing it does not free the task.
    drop(stale);
    assert!(matches!(fixture.ledger.take_lease("t", at(4)), Err(LedgerError::TaskRunning(_))));
    drop(lease);
    assert_eq!(fixture.ledger.take_lease("t", at(5)).unwrap().epoch(), 3);
}

#[test]
fn a_lease_of_a_deleted_task_allows_no_writes() {
    let mut fixture = Fixture::with_task();
    let lease = fixture.ledger.take_lease("t", at(1)).unwrap();
    // Another program deletes the locks, so the session no longer looks busy.
    fs::remove_dir_all(fixture.directory.path().join("tasks")).unwrap();
    fixture.ledger.delete_session("s").unwrap();
    let change = TaskChange::default();
    let refused = fixture.ledger.append_journal(&lease, &change, |_| vec![json!(1)], at(2));
    assert!(matches!(refused, Err(LedgerError::NoSuchTask(id)) if id == "t"));
}

#[test]
fn lock_files_are_accessible_only_to_their_owner_and_old_ones_are_deleted() {
    let mut fixture = Fixture::with_task();
    fixture.ledger.create_task(&task("u"), at(0)).unwrap();
    let directory = fixture.directory.path().join("tasks");
    let lease = fixture.ledger.take_lease("t", at(1)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    for name in ["t.lock", "lock"] {
        assert_eq!(mode(&directory.join(name)), 0o600, "{name}");
    }
    // These are lock files of processes that died.
    for name in ["dead.lock", "u.lock"] {
        fs::write(directory.join(name), "").unwrap();
    }
    assert_eq!(fixture.ledger.running_tasks().unwrap(), names(&["t"]));
    assert_eq!(lock_files(&fixture), names(&["t.lock"]));
    drop(lease);
    let lease = fixture.ledger.take_lease("u", at(2)).unwrap();
    assert_eq!(lock_files(&fixture), names(&["u.lock"]));
    drop(lease);
    assert!(fixture.ledger.running_tasks().unwrap().is_empty());
    assert!(lock_files(&fixture).is_empty());
}

#[test]
fn an_id_that_another_program_wrote_does_not_lead_out_of_the_directory() {
    let mut fixture = Fixture::with_task();
    open_raw(&fixture.path()).execute_batch("UPDATE tasks SET id = '../escaped'").unwrap();
    let refused = fixture.ledger.take_lease("../escaped", at(1));
    assert!(matches!(refused, Err(LedgerError::BadTaskId(_))));
    assert!(!fixture.directory.path().join("escaped.lock").exists());
}

#[test]
fn listing_running_tasks_never_prevents_taking_a_lease() {
    let mut fixture = Fixture::with_task();
    let observer = fixture.open_another();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let done = &done;
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                let running = observer.running_tasks().unwrap();
                assert!(running.is_empty() || running == names(&["t"]));
            }
        });
        let taken = (0..300).all(|_| fixture.ledger.take_lease("t", at(1)).is_ok());
        // The observing thread must stop even if the test fails.
        done.store(true, Ordering::Relaxed);
        assert!(taken);
    });
    assert_eq!(fixture.ledger.task("t").unwrap().epoch, 300);
}

#[test]
fn a_busy_ledger_refuses_an_append_and_loses_nothing() {
    let mut fixture = Fixture::with_task();
    let lease = fixture.ledger.take_lease("t", at(1)).unwrap();
    let other = open_raw(&fixture.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    fixture.ledger.set_wait(Duration::from_millis(30));
    let events = [prompt_event("s", "once")];
    let change = TaskChange { events: &events, ..TaskChange::default() };
    let refused = fixture.ledger.append_journal(&lease, &change, |_| vec![json!(1)], at(2));
    assert!(matches!(refused, Err(LedgerError::Busy { .. })));
    other.execute_batch("ROLLBACK").unwrap();
    assert!(!fixture.directory.path().join("spool").exists());
    let outcome = fixture.ledger.append_journal(&lease, &change, |_| vec![json!(1)], at(2));
    assert_eq!(outcome.unwrap().entries[0].seq, 1);
    assert_eq!(all_texts(&fixture.ledger, "s"), ["once"]);
}
