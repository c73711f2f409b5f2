//! Repairing ledgers with tasks, and upgrading ledgers of versions without tasks.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use takeback_ledger::{
    GoalRecord, Ledger, LedgerOptions, LoadedTask, TaskChange, TaskFilter, TaskRecord,
    repair_ledger,
};

use crate::support::{Fixture, at, damage_index_page, open_raw, prompt_event, random_below, task};
use crate::tasks::{append, read};

const PAGE: u64 = 4096;

/// Creates a closed ledger with three tasks of 150 entries. Two of them have snapshots.
fn make_tasks() -> (tempfile::TempDir, PathBuf, BTreeMap<String, LoadedTask>) {
    let mut fixture = Fixture::new();
    for id in ["a", "b", "c"] {
        fixture.create_session(id);
        let record = TaskRecord { session: id.into(), ..task(id) };
        fixture.ledger.create_task(&record, at(0)).unwrap();
        let lease = fixture.ledger.take_lease(id, at(1)).unwrap();
        for number in 1..=150 {
            let length = [1, 30, 900][number as usize % 3];
            let events = [prompt_event(id, &format!("{id}{number}"))];
            let change = TaskChange { events: &events, ..TaskChange::default() };
            let entry = json!({ "task": id, "n": number, "text": "text ".repeat(length) });
            fixture.ledger.append_journal(&lease, &change, |_| vec![entry], at(number)).unwrap();
        }
        if id != "c" {
            fixture.ledger.write_snapshot(&lease, 100, &json!({ "of": id }), at(2)).unwrap();
        }
        let goal = GoalRecord { id: id.into(), task: id.into(), ..GoalRecord::default() };
        fixture.ledger.create_goal(&goal, at(1)).unwrap();
    }
    fixture.ledger.optimize(&|_| {}).unwrap();
    let tasks = ["a", "b", "c"].map(|id| (id.into(), fixture.ledger.load_task(id).unwrap()));
    let path = fixture.path();
    let Fixture { directory, ledger } = fixture;
    drop(ledger);
    (directory, path, tasks.into_iter().collect())
}

/// Returns the number of the root page of a table or index.
fn root_page(path: &Path, name: &str) -> u64 {
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    open_raw(path).query_row(sql, [name], |row| row.get::<_, i64>(0)).unwrap() as u64
}

fn wipe_page(path: &Path, page: u64) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&[0; PAGE as usize], (page - 1) * PAGE).unwrap();
}

#[test]
fn a_repair_keeps_all_tasks_if_their_pages_are_intact() {
    let (_directory, path, before) = make_tasks();
    damage_index_page(&path);
    let report = repair_ledger(&path, at(5), &|_, _| {}).unwrap();
    assert!(report.backup.is_some());
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    let mut ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    assert!(ledger.verify(&|_, _| {}).unwrap().whole);
    for (id, before) in before {
        let now = ledger.load_task(&id).unwrap();
        assert_eq!((&now.snapshot, &now.entries), (&before.snapshot, &before.entries));
        assert!(now.task.epoch > before.task.epoch + 100, "leases from before are fenced");
        assert_eq!(TaskRecord { epoch: before.task.epoch, ..now.task }, before.task);
        assert_eq!(ledger.goal(&id).unwrap().task, id);
        let lease = ledger.take_lease(&id, at(6)).unwrap();
        append(&mut ledger, &lease, &[json!("goes on")]);
        assert_eq!(ledger.task(&id).unwrap().last_seq, 151);
    }
}

#[test]
fn tasks_whose_rows_are_lost_are_recovered_in_their_sessions() {
    let (_directory, path, before) = make_tasks();
    wipe_page(&path, root_page(&path, "tasks"));
    repair_ledger(&path, at(5), &|_, _| {}).unwrap();
    let mut ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    let report = ledger.verify(&|_, _| {}).unwrap();
    assert!(report.whole, "{:?}", report.problems);
    let tasks = ledger.tasks(&TaskFilter::default()).unwrap();
    assert_eq!(tasks.len(), 3);
    for found in tasks {
        assert!(found.id.starts_with("recovered-"), "{}", found.id);
        let original = &before[&found.session];
        let now = ledger.load_task(&found.id).unwrap();
        assert_eq!((&now.snapshot, &now.entries), (&original.snapshot, &original.entries));
        let lease = ledger.take_lease(&found.id, at(6)).unwrap();
        append(&mut ledger, &lease, &[json!("goes on")]);
        assert_eq!(ledger.goals(Some(&found.id)).unwrap().len(), 1);
    }
}

/// Asserts that each task either has its original entries or is marked as damaged.
fn assert_honest(path: &Path, before: &BTreeMap<String, LoadedTask>, notes: &[String]) {
    let ledger = Ledger::open(path, &LedgerOptions::default()).unwrap();
    let report = ledger.verify(&|_, _| {}).unwrap();
    assert!(report.whole, "{:?}", report.problems);
    let tasks = ledger.tasks(&TaskFilter::default()).unwrap();
    assert_eq!(tasks.len(), before.len());
    for task in tasks {
        if task.state == "damaged" {
            assert!(ledger.load_task(&task.id).is_err());
            let start = format!("task {} cannot continue", task.id);
            assert!(notes.iter().any(|note| note.starts_with(&start)), "{notes:?}");
            continue;
        }
        let now = ledger.load_task(&task.id).unwrap();
        for entry in &now.entries {
            // If the row of a task was lost, the task has a new id, but its entries still contain
            // the old id.
            let id = entry.entry["task"].as_str().unwrap();
            assert_eq!(entry.entry["n"], json!(entry.seq));
            assert!(before.contains_key(id));
            let text = entry.entry["text"].as_str().unwrap();
            assert_eq!(text, "text ".repeat([1, 30, 900][entry.seq as usize % 3]));
        }
        // Without the task's row, the loss of its last entries cannot be noticed.
        if let Some(before) = before.get(&task.id) {
            assert_eq!(now.task.last_seq, before.task.last_seq);
            assert!(now.entries.ends_with(&before.entries));
        }
    }
}

#[test]
fn the_loss_of_any_page_is_never_hidden() {
    let (_directory, path, before) = make_tasks();
    let whole = fs::read(&path).unwrap();
    let pages = whole.len() as u64 / PAGE;
    let roots = ["tasks", "journal", "snapshots", "goals", "journal_identity"];
    let roots = roots.map(|name| root_page(&path, name));
    // Testing all pages would take minutes, so each run tests a different subset.
    let step = random_below(12);
    for page in (1..=pages).filter(|page| page % 12 == step || roots.contains(page)) {
        let scratch = tempfile::TempDir::new().unwrap();
        let copy = scratch.path().join("state.db");
        fs::write(&copy, &whole).unwrap();
        wipe_page(&copy, page);
        let report = repair_ledger(&copy, at(5), &|_, _| {}).unwrap();
        assert_honest(&copy, &before, &report.notes);
    }
}

#[test]
fn lost_entries_are_reported_and_the_task_is_closed() {
    let (_directory, path, before) = make_tasks();
    open_raw(&path)
        .execute_batch(
            "DELETE FROM journal WHERE task = 1 AND seq = 120;
             DELETE FROM journal WHERE task = 2 AND seq = 50;
             UPDATE tasks SET last_seq = 140, epoch = 0 WHERE key = 3;",
        )
        .unwrap();
    let ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    let found = ledger.verify(&|_, _| {}).unwrap();
    let problems = [
        "task c has later journal entries than it claims",
        "task a is open although its journal is incomplete; missing entries: 1",
    ];
    assert_eq!(found.problems, problems);
    assert!(!found.is_damaged);
    drop(ledger);
    let report = repair_ledger(&path, at(5), &|_, _| {}).unwrap();
    let [first, second] = problems.map(|problem| format!("repaired: {problem}"));
    let note = "task a cannot continue: its journal is incomplete; missing entries: 1".to_owned();
    assert_eq!((report.backup, report.notes), (None, vec![first, second, note]));
    let ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    assert_eq!(ledger.task("a").unwrap().state, "damaged");
    assert_eq!(ledger.load_task("b").unwrap(), before["b"], "its snapshot covers the loss");
    assert_eq!(ledger.load_task("c").unwrap(), before["c"]);
}

#[test]
fn rows_whose_task_is_lost_are_found_and_get_a_new_task() {
    let (_directory, path, _) = make_tasks();
    open_raw(&path)
        .execute_batch(
            "DELETE FROM tasks WHERE id IN ('a', 'b');
             DELETE FROM journal WHERE task = 2;",
        )
        .unwrap();
    let ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    assert_eq!(
        ledger.verify(&|_, _| {}).unwrap().problems,
        [
            "rows in journal without a task: 150",
            "rows in snapshots without a task: 2",
            "rows in goals without a task: 2"
        ]
    );
    drop(ledger);
    repair_ledger(&path, at(5), &|_, _| {}).unwrap();
    let ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    assert!(ledger.verify(&|_, _| {}).unwrap().whole);
    assert_eq!(ledger.task("recovered-1").unwrap().session, "a");
    assert_eq!(read(&ledger, "recovered-1").len(), 150);
    assert_eq!(ledger.task("recovered-2").unwrap().session, "recovered:task-2");
    assert_eq!(ledger.load_task("recovered-2").unwrap().snapshot.unwrap().seq, 100);
    assert_eq!(ledger.goals(Some("recovered-2")).unwrap().len(), 1);
}

/// Downgrades a ledger to version 3.
fn downgrade(path: &Path) {
    open_raw(path)
        .execute_batch(
            "DROP TABLE tasks; DROP TABLE journal; DROP TABLE snapshots; DROP TABLE goals;
             DROP TABLE thread_states; DROP TABLE thread_channels; DROP TABLE thread_values;
             DROP TABLE thread_writes;
             PRAGMA user_version = 3; PRAGMA wal_checkpoint(TRUNCATE);",
        )
        .unwrap();
}

/// Returns the statements that create the tables and indexes.
fn schema_of(path: &Path) -> Vec<(String, Option<String>)> {
    let connection = open_raw(path);
    let sql = "SELECT name, sql FROM sqlite_schema ORDER BY name";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn a_ledger_of_version_3_gets_the_tables_for_tasks() {
    let mut fixture = Fixture::with_three_turns();
    let fresh = schema_of(&fixture.path());
    let transcript = fixture.ledger.transcript("s").unwrap();
    // A process that already has the ledger open upgrades it with the next write.
    downgrade(&fixture.path());
    fixture.ledger.create_task(&task("t"), at(9)).unwrap();
    assert_eq!(fixture.ledger.task("t").unwrap().session, "s");

    let path = fixture.path();
    drop(fixture.ledger);
    downgrade(&path);
    let ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    assert_eq!(schema_of(&path), fresh);
    assert_eq!(ledger.transcript("s").unwrap(), transcript);
    assert!(ledger.tasks(&TaskFilter::default()).unwrap().is_empty());
    assert!(ledger.verify(&|_, _| {}).unwrap().whole);
}

#[test]
fn a_damaged_ledger_of_version_3_is_repaired() {
    let mut fixture = Fixture::with_three_turns();
    fixture.ledger.optimize(&|_| {}).unwrap();
    let transcript = fixture.ledger.transcript("s").unwrap();
    let path = fixture.path();
    drop(fixture.ledger);
    downgrade(&path);
    damage_index_page(&path);
    assert!(repair_ledger(&path, at(5), &|_, _| {}).unwrap().backup.is_some());
    let ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    assert_eq!(ledger.transcript("s").unwrap(), transcript);
    assert!(ledger.tasks(&TaskFilter::default()).unwrap().is_empty());
}

#[test]
fn the_ledger_of_the_first_release_is_upgraded() {
    let scratch = tempfile::TempDir::new().unwrap();
    let archive = "../cli/tests/fixtures/home-0.1.tar.gz";
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join(archive);
    let unpacked =
        Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(scratch.path()).status();
    assert!(unpacked.unwrap().success());
    let path = scratch.path().join(".takeback/state.db");
    let mut ledger = Ledger::open(&path, &LedgerOptions::default()).unwrap();
    let ids = ledger.session_ids(&[]).unwrap();
    assert!(ids.len() >= 8, "{ids:?}");
    assert!(ledger.verify(&|_, _| {}).unwrap().whole);
    let record = TaskRecord { session: ids[0].clone(), ..task("t") };
    ledger.create_task(&record, at(1)).unwrap();
    let lease = ledger.take_lease("t", at(1)).unwrap();
    append(&mut ledger, &lease, &[Value::from("works")]);
    assert_eq!(read(&ledger, "t"), ["works"]);
}
