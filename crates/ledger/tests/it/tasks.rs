//! Tasks and their journals: what an append writes, and how a task is loaded again.

use std::fs;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use takeback_ledger::{
    AppendOutcome, AppendedMessage, Event, GoalRecord, JournalEntry, Lease, Ledger, LedgerError,
    MessageFilter, ParentKind, PruneOptions, SessionRecord, TaskChange, TaskFilter, TaskRecord,
};

use crate::support::{
    Fixture, all_texts, at, count_rows, export_line, import_lines, masking, message, open_raw,
    prompt_event, session, task,
};

/// Appends entries without any other write.
pub(crate) fn append(ledger: &mut Ledger, lease: &Lease, entries: &[Value]) -> AppendOutcome {
    let entries = entries.to_vec();
    ledger.append_journal(lease, &TaskChange::default(), |_| entries, at(1)).unwrap()
}

/// Returns the entries of a journal.
pub(crate) fn read(ledger: &Ledger, task: &str) -> Vec<Value> {
    let entries = ledger.read_journal(task, 0).unwrap();
    entries.into_iter().map(|entry| entry.entry).collect()
}

fn numbers(messages: &[AppendedMessage]) -> Vec<i64> {
    messages.iter().map(|message| message.seq).collect()
}

#[test]
fn an_entry_can_refer_to_the_messages_written_with_it() {
    let mut fixture = Fixture::with_task();
    fixture.say("s", "user", "before");
    let lease = fixture.ledger.take_lease("t", at(1)).unwrap();
    let events = [
        Event::Messages {
            session: "s".into(),
            messages: vec![message("user", "ask"), message("assistant", "answer")],
        },
        Event::TurnEnd { session: "s".into() },
    ];
    let change = TaskChange { events: &events, state: Some("waiting"), ..TaskChange::default() };
    let entries = |messages: &[AppendedMessage]| {
        vec![json!({ "said": numbers(messages) }), json!({ "then": "wait" })]
    };
    let outcome = fixture.ledger.append_journal(&lease, &change, entries, at(2)).unwrap();
    assert_eq!(numbers(&outcome.messages), [2, 3]);
    assert_eq!(outcome.previous_state, "running");
    let entry = |seq, entry| JournalEntry { seq, epoch: 1, time: at(2), masked: false, entry };
    let expected = [entry(1, json!({ "said": [2, 3] })), entry(2, json!({ "then": "wait" }))];
    assert_eq!(outcome.entries, expected);
    assert_eq!(fixture.ledger.read_journal("t", 0).unwrap(), expected);
    assert_eq!(fixture.ledger.read_journal("t", 1).unwrap(), expected[1..]);
    assert_eq!(all_texts(&fixture.ledger, "s"), ["before", "ask", "answer"]);
    assert_eq!(fixture.ledger.turns("s").unwrap()[1].ended_at, Some(at(2)));
    let task = fixture.ledger.task("t").unwrap();
    assert_eq!((task.last_seq, task.epoch, task.state.as_str()), (2, 1, "waiting"));
    assert_eq!((task.created_at, task.updated_at), (at(0), at(2)));
    assert_eq!(fixture.find("answer"), [("s".to_owned(), 3)]);
    assert!(fixture.ledger.verify(&|_, _| {}).unwrap().whole);
}

#[test]
fn an_append_that_fails_writes_nothing() {
    let mut fixture = Fixture::with_task();
    let lease = fixture.ledger.take_lease("t", at(1)).unwrap();
    let unknown = [prompt_event("s", "lost"), prompt_event("unknown", "lost")];
    let again = [task("t")];
    let prompt = [prompt_event("s", "lost")];
    for change in [
        TaskChange { events: &unknown, ..TaskChange::default() },
        TaskChange { events: &prompt, new_tasks: &again, ..TaskChange::default() },
        TaskChange { events: &prompt, session: Some("unknown"), ..TaskChange::default() },
    ] {
        let change = TaskChange { state: Some("failed"), ..change };
        let failed = fixture.ledger.append_journal(&lease, &change, |_| vec![json!(1)], at(2));
        assert!(failed.is_err());
        assert!(fixture.ledger.messages("s", MessageFilter::All).unwrap().is_empty());
        assert!(read(&fixture.ledger, "t").is_empty());
        assert_eq!(fixture.ledger.task("t").unwrap().state, "running");
    }
}

#[test]
fn the_state_that_another_process_set_is_reported() {
    let mut fixture = Fixture::with_task();
    let lease = fixture.ledger.take_lease("t", at(1)).unwrap();
    fixture.open_another().set_task_state("t", "cancelling", at(2)).unwrap();
    let change = TaskChange { state: Some("running"), ..TaskChange::default() };
    let outcome =
        fixture.ledger.append_journal(&lease, &change, |_| vec![json!("step")], at(3)).unwrap();
    assert_eq!(outcome.previous_state, "cancelling");
    assert_eq!(append(&mut fixture.ledger, &lease, &[]).previous_state, "running");
    let refused = fixture.ledger.set_task_state("u", "done", at(4));
    assert!(matches!(refused, Err(LedgerError::NoSuchTask(id)) if id == "u"));
}

#[test]
fn a_subagent_is_created_with_the_entry_that_spawns_it() {
    let mut fixture = Fixture::with_task();
    let lease = fixture.ledger.take_lease("t", at(1)).unwrap();
    let record = Box::new(SessionRecord {
        parent_session_id: Some("s".into()),
        parent_kind: Some(ParentKind::Subagent),
        ..session("sub")
    });
    let child = TaskRecord {
        session: "sub".into(),
        parent: Some("t".into()),
        kind: "subagent".into(),
        workspace: Some("/w".into()),
        detail: Some(json!({ "call": "c1" })),
        ..task("child")
    };
    let change = TaskChange {
        events: &[Event::Session { record }],
        new_tasks: std::slice::from_ref(&child),
        ..TaskChange::default()
    };
    fixture.ledger.append_journal(&lease, &change, |_| vec![json!("spawned")], at(2)).unwrap();
    let stored = fixture.ledger.task("child").unwrap();
    assert_eq!(stored, TaskRecord { created_at: at(2), updated_at: at(2), ..child });
}

#[test]
fn a_task_continues_in_the_session_that_a_compaction_creates() {
    let mut fixture = Fixture::with_task();
    let lease = fixture.ledger.take_lease("t", at(1)).unwrap();
    let record = Box::new(SessionRecord {
        parent_session_id: Some("s".into()),
        parent_kind: Some(ParentKind::Compaction),
        ..session("s2")
    });
    let events = [
        Event::SessionEnd { session: "s".into(), reason: "compacted".into() },
        Event::Session { record },
        prompt_event("s2", "summary"),
    ];
    let change = TaskChange { events: &events, session: Some("s2"), ..TaskChange::default() };
    let entries = |messages: &[AppendedMessage]| {
        vec![json!({ "compacted": [messages[0].session, messages[0].seq] })]
    };
    fixture.ledger.append_journal(&lease, &change, entries, at(2)).unwrap();
    assert_eq!(read(&fixture.ledger, "t"), [json!({ "compacted": ["s2", 1] })]);
    assert_eq!(fixture.ledger.task("t").unwrap().session, "s2");
    drop(lease);
    fixture.ledger.delete_session("s").unwrap();
    assert_eq!(read(&fixture.ledger, "t").len(), 1, "the task is no longer in that session");
    fixture.ledger.delete_session("s2").unwrap();
    assert_eq!(count_rows(&fixture.path(), "journal"), 0);
}

#[test]
fn tasks_are_listed_and_found_by_the_beginning_of_their_ids() {
    let mut fixture = Fixture::with_task();
    fixture.create_session("other");
    for (seconds, task) in [
        TaskRecord { parent: Some("t".into()), workspace: Some("/w".into()), ..task("a-1") },
        TaskRecord { session: "other".into(), state: "done".into(), ..task("a-2") },
        TaskRecord { state: "failed".into(), ..task("a") },
    ]
    .into_iter()
    .enumerate()
    {
        fixture.ledger.create_task(&task, at(seconds as i64 + 1)).unwrap();
    }
    let list = |filter: TaskFilter| -> Vec<String> {
        fixture.ledger.tasks(&filter).unwrap().into_iter().map(|task| task.id).collect()
    };
    assert_eq!(list(TaskFilter::default()), ["a", "a-2", "a-1", "t"]);
    let filter = TaskFilter { session: Some("other".into()), ..TaskFilter::default() };
    assert_eq!(list(filter), ["a-2"]);
    let filter = TaskFilter { parent: Some("t".into()), ..TaskFilter::default() };
    assert_eq!(list(filter), ["a-1"]);
    let filter =
        TaskFilter { states: vec!["done".into(), "failed".into()], ..TaskFilter::default() };
    assert_eq!(list(filter), ["a", "a-2"]);
    let filter = TaskFilter { workspace: Some("/w".into()), ..TaskFilter::default() };
    assert_eq!(list(filter), ["a-1"]);

    let resolve = |typed: &str| fixture.ledger.resolve_task(typed);
    assert_eq!(resolve("t").unwrap(), "t");
    assert_eq!(resolve("a").unwrap(), "a", "a whole id is not ambiguous");
    let ambiguous = resolve("a-").unwrap_err();
    assert_eq!(ambiguous.to_string(), r#""a-" is ambiguous: a-2 or a-1"#);
    for unknown in ["", "x", "%", "_", "T"] {
        assert!(matches!(resolve(unknown), Err(LedgerError::NoSuchTask(id)) if id == unknown));
    }
    fixture.ledger.move_workspace("/w", "/moved").unwrap();
    assert_eq!(fixture.ledger.task("a-1").unwrap().workspace.as_deref(), Some("/moved"));
}

#[test]
fn invalid_tasks_are_refused() {
    let mut fixture = Fixture::with_task();
    let mut create = |task: TaskRecord| fixture.ledger.create_task(&task, at(1)).unwrap_err();
    assert!(matches!(create(task("t")), LedgerError::TaskExists(_)));
    for id in ["", "../t", "a b", "a/b", ".", "ä", &"x".repeat(65)] {
        assert!(matches!(create(task(id)), LedgerError::BadTaskId(_)), "{id}");
    }
    let orphan = TaskRecord { parent: Some("nobody".into()), ..task("u") };
    assert!(matches!(create(orphan), LedgerError::NoSuchTask(_)));
    let lost = TaskRecord { session: "none".into(), ..task("u") };
    assert!(matches!(create(lost), LedgerError::NoSuchSession(_)));
    assert!(matches!(fixture.ledger.task("u"), Err(LedgerError::NoSuchTask(_))));
    assert!(matches!(fixture.ledger.load_task("u"), Err(LedgerError::NoSuchTask(_))));
    assert!(matches!(fixture.ledger.read_journal("u", 0), Err(LedgerError::NoSuchTask(_))));
    assert!(matches!(fixture.ledger.take_lease("u", at(1)), Err(LedgerError::NoSuchTask(_))));
}

#[test]
fn loading_reads_only_the_entries_after_the_snapshot() {
    let mut fixture = Fixture::with_task();
    let loaded = fixture.ledger.load_task("t").unwrap();
    assert_eq!((loaded.snapshot, loaded.entries.len()), (None, 0));
    let lease = fixture.ledger.take_lease("t", at(1)).unwrap();
    append(&mut fixture.ledger, &lease, &[json!(1), json!(2), json!(3)]);
    for seq in [0, 4] {
        let refused = fixture.ledger.write_snapshot(&lease, seq, &json!({}), at(1));
        assert!(
            matches!(refused, Err(LedgerError::NoSuchEntry { seq: found, .. }) if found == seq)
        );
    }
    fixture.ledger.write_snapshot(&lease, 1, &json!({ "sum": 1 }), at(2)).unwrap();
    fixture.ledger.write_snapshot(&lease, 2, &json!({ "sum": 3 }), at(3)).unwrap();
    // The entries before the snapshot are not needed.
    open_raw(&fixture.path()).execute_batch("DELETE FROM journal WHERE seq < 3").unwrap();
    let loaded = fixture.ledger.load_task("t").unwrap();
    let snapshot = loaded.snapshot.unwrap();
    assert_eq!((snapshot.seq, snapshot.time, snapshot.masked), (2, at(3), false));
    assert_eq!(snapshot.state, json!({ "sum": 3 }));
    assert_eq!(loaded.entries.iter().map(|entry| &entry.entry).collect::<Vec<_>>(), [&json!(3)]);
    assert_eq!(loaded.task, fixture.ledger.task("t").unwrap());
    assert!(fixture.ledger.verify(&|_, _| {}).unwrap().whole);
}

#[test]
fn an_unreadable_snapshot_is_replaced_by_the_whole_journal() {
    let mut fixture = Fixture::with_task();
    let lease = fixture.ledger.take_lease("t", at(1)).unwrap();
    append(&mut fixture.ledger, &lease, &[json!(1), json!(2)]);
    fixture.ledger.write_snapshot(&lease, 2, &json!({}), at(2)).unwrap();
    open_raw(&fixture.path()).execute_batch("UPDATE snapshots SET state = '{'").unwrap();
    let loaded = fixture.ledger.load_task("t").unwrap();
    assert_eq!((loaded.snapshot, loaded.entries.len()), (None, 2));
}

#[test]
fn a_journal_with_a_gap_is_not_loaded() {
    for (damage, lost) in [
        ("DELETE FROM journal WHERE seq = 1", 1),
        ("DELETE FROM journal WHERE seq = 2", 2),
        ("DELETE FROM journal WHERE seq = 3", 3),
        ("DELETE FROM journal", 1),
        ("UPDATE journal SET entry = '{\"cut' WHERE seq = 2", 2),
    ] {
        let mut fixture = Fixture::with_task();
        let lease = fixture.ledger.take_lease("t", at(1)).unwrap();
        append(&mut fixture.ledger, &lease, &[json!(1), json!(2), json!(3)]);
        open_raw(&fixture.path()).execute_batch(damage).unwrap();
        let refused = fixture.ledger.load_task("t");
        assert!(
            matches!(&refused, Err(LedgerError::NoSuchEntry { seq, .. }) if *seq == lost),
            "{damage}: {refused:?}"
        );
        assert!(!fixture.ledger.verify(&|_, _| {}).unwrap().whole, "{damage}");
    }
}

/// An entry as an agent would define it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Step {
    ToolStarted { v: u32, call: String, key: String, tree: String, input: Value, attempt: u64 },
    ModelDone { v: u32, message: i64, finish_reason: String, cost: f64 },
}

#[test]
fn masked_entries_can_still_be_parsed() {
    let fixture = Fixture::with_task();
    let mut ledger = Ledger::open(&fixture.path(), &masking()).unwrap();
    let secret = format!("ghp_{}", "x7Kq9LmZ2vB4".repeat(3));
    let started = |command: &str| Step::ToolStarted {
        v: 1,
        call: "toolu_01A09q90qw90lq917835lq9".into(),
        key: "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef".into(),
        tree: "4b825dc642cb6eb9a060e54bf8d69288fbee4904".into(),
        input: json!({ "command": command, "password": "hunter-x81Kd!" }),
        attempt: 3,
    };
    let done = Step::ModelDone { v: 1, message: 7, finish_reason: "tool_calls".into(), cost: 0.25 };
    let lease = ledger.take_lease("t", at(1)).unwrap();
    let command = format!("curl -H 'Authorization: Bearer {secret}' x.example");
    let events = [prompt_event("s", &command), prompt_event("s", "nothing secret")];
    let change = TaskChange { events: &events, ..TaskChange::default() };
    let entries = |messages: &[AppendedMessage]| {
        assert_eq!(messages.iter().map(|m| m.masked).collect::<Vec<_>>(), [true, false]);
        vec![serde_json::to_value(started(&command)), serde_json::to_value(&done)]
            .into_iter()
            .map(Result::unwrap)
            .collect()
    };
    let outcome = ledger.append_journal(&lease, &change, entries, at(2)).unwrap();
    ledger.write_snapshot(&lease, 1, &json!({ "running": command }), at(2)).unwrap();

    let stored = ledger.read_journal("t", 0).unwrap();
    assert_eq!(stored, outcome.entries);
    assert_eq!(stored.iter().map(|entry| entry.masked).collect::<Vec<_>>(), [true, false]);
    assert!(ledger.load_task("t").unwrap().snapshot.unwrap().masked);
    let parsed: Vec<Step> =
        stored.into_iter().map(|entry| serde_json::from_value(entry.entry).unwrap()).collect();
    assert_eq!(parsed[1], done);
    let Step::ToolStarted { call, key, tree, input, attempt, .. } = &parsed[0] else { panic!() };
    let Step::ToolStarted { call: c, key: k, tree: t, .. } = started("") else { panic!() };
    assert_eq!((call, key, tree, attempt), (&c, &k, &t, &3), "ids and hashes are not secrets");
    assert!(input["command"].as_str().unwrap().starts_with("curl -H"));

    let child = TaskRecord { detail: Some(json!({ "token": secret })), ..task("u") };
    ledger.create_task(&child, at(3)).unwrap();
    let change = TaskChange {
        new_tasks: &[TaskRecord { detail: Some(json!(secret)), ..task("v") }],
        ..TaskChange::default()
    };
    ledger.append_journal(&lease, &change, |_| Vec::new(), at(3)).unwrap();
    let goal = GoalRecord {
        id: "g".into(),
        task: "t".into(),
        objective: format!("use {secret}"),
        reason: Some(secret.clone()),
        ..GoalRecord::default()
    };
    ledger.create_goal(&goal, at(3)).unwrap();
    assert!(ledger.goal("g").unwrap().objective.contains("[redacted:"));
    drop((ledger, fixture.ledger));
    for name in ["state.db", "state.db-wal"] {
        let bytes = fs::read(fixture.directory.path().join(name)).unwrap();
        for secret in [secret.as_bytes(), b"hunter-x81Kd!"] {
            assert!(!bytes.windows(secret.len()).any(|window| window == secret), "{name}");
        }
    }
}

/// Creates the session `s` with a task, and two more sessions with child tasks: a subagent's
/// session and an unrelated session. Each task has a journal entry, a goal and a snapshot.
fn with_family() -> Fixture {
    let mut fixture = Fixture::with_task();
    let sub = SessionRecord {
        parent_session_id: Some("s".into()),
        parent_kind: Some(ParentKind::Subagent),
        ..session("sub")
    };
    fixture.ledger.create_session(&sub, at(0)).unwrap();
    fixture.create_session("other");
    for (id, session) in [("child", "sub"), ("elsewhere", "other")] {
        let child = TaskRecord { session: session.into(), parent: Some("t".into()), ..task(id) };
        fixture.ledger.create_task(&child, at(0)).unwrap();
    }
    for id in ["t", "child", "elsewhere"] {
        let lease = fixture.ledger.take_lease(id, at(1)).unwrap();
        append(&mut fixture.ledger, &lease, &[json!(format!("MARKER of {id}"))]);
        fixture.ledger.write_snapshot(&lease, 1, &json!("MARKER"), at(1)).unwrap();
        let goal = GoalRecord { id: format!("goal-{id}"), task: id.into(), ..Default::default() };
        fixture.ledger.create_goal(&goal, at(1)).unwrap();
    }
    fixture
}

fn assert_only_elsewhere_is_left(fixture: &Fixture) {
    for table in ["tasks", "journal", "snapshots", "goals"] {
        assert_eq!(count_rows(&fixture.path(), table), 1, "{table}");
    }
    assert_eq!(fixture.ledger.task("elsewhere").unwrap().parent, None);
    assert_eq!(read(&fixture.ledger, "elsewhere"), ["MARKER of elsewhere"]);
    assert!(fixture.ledger.verify(&|_, _| {}).unwrap().whole);
}

#[test]
fn deleting_a_session_deletes_its_tasks() {
    let mut fixture = with_family();
    fixture.ledger.delete_session("s").unwrap();
    assert_only_elsewhere_is_left(&fixture);
    fixture.ledger.delete_session("other").unwrap();
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    open_raw(&fixture.path()).query_row(checkpoint, [], |_| Ok(())).unwrap();
    let bytes = fs::read(fixture.path()).unwrap();
    assert!(!bytes.windows(6).any(|window| window == b"MARKER"));
}

#[test]
fn pruning_and_clearing_delete_tasks() {
    let mut fixture = with_family();
    fixture.say("other", "user", "recent");
    fixture.ledger.append("other", &[message("user", "recent")], at(900)).unwrap();
    let options = PruneOptions { inactive_since: at(500), ..PruneOptions::default() };
    fixture.ledger.prune(&options).unwrap();
    assert_only_elsewhere_is_left(&fixture);
    fixture.ledger.clear_messages("other").unwrap();
    assert_eq!(count_rows(&fixture.path(), "tasks"), 0);
    assert!(fixture.ledger.verify(&|_, _| {}).unwrap().whole);
}

#[test]
fn a_session_with_a_running_task_is_not_deleted() {
    let mut fixture = with_family();
    let lease = fixture.open_another().take_lease("child", at(2)).unwrap();
    let options = PruneOptions { inactive_since: at(500), ..PruneOptions::default() };
    assert_eq!(fixture.ledger.prunable(&options).unwrap(), ["other"]);
    assert_eq!(fixture.ledger.prune(&options).unwrap(), ["other"]);
    for refused in
        [fixture.ledger.delete_session("s").err(), fixture.ledger.clear_messages("sub").err()]
    {
        assert!(matches!(refused, Some(LedgerError::TaskRunning(id)) if id == "child"));
    }
    assert_eq!(read(&fixture.ledger, "child").len(), 1);
    drop(lease);
    assert_eq!(fixture.ledger.delete_session("s").unwrap().len(), 2);
}

#[test]
fn copies_contain_the_tasks_but_exports_do_not() {
    let fixture = with_family();
    let copy = fixture.directory.path().join("copy/state.db");
    fixture.ledger.copy_to(&copy).unwrap();
    let copied = Ledger::open(&copy, &Default::default()).unwrap();
    let all = TaskFilter::default();
    assert_eq!(copied.tasks(&all).unwrap(), fixture.ledger.tasks(&all).unwrap());
    assert_eq!(copied.load_task("t").unwrap(), fixture.ledger.load_task("t").unwrap());

    let mut other = Fixture::new();
    let line = export_line(&fixture.ledger, "s");
    assert!(!line.contains("MARKER"), "{line}");
    assert!(import_lines(&mut other.ledger, &line).bad.is_empty());
    assert!(other.ledger.tasks(&all).unwrap().is_empty());
}
