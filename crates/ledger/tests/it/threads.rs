//! Threads: the states of graphs that apps keep in the ledger.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rusqlite::Connection;
use serde_json::{Map, Value, json};
use takeback_ledger::{
    Channel, Encoded, Ledger, LedgerError, MAX_STATE_BYTES, MAX_WRITES_BYTES, ThreadFilter,
    ThreadKey, ThreadState, ThreadWrite, repair_ledger,
};

use crate::support::{Fixture, at, open_raw};

const APP: &str = "app";

fn key(thread: &str, namespace: &str) -> ThreadKey {
    ThreadKey { app: APP.into(), thread: thread.into(), namespace: namespace.into() }
}

fn encoded(text: &str) -> Encoded {
    Encoded { kind: "text".into(), data: text.into() }
}

fn fields(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// Builds a channel with the given value, or with the parent's value.
fn channel(name: &str, version: u32, value: Option<&str>) -> Channel {
    Channel { name: name.into(), version: version.to_string(), value: value.map(encoded) }
}

fn state(thread: &str, id: &str, parent: Option<&str>, channels: &[Channel]) -> ThreadState {
    ThreadState {
        key: key(thread, ""),
        id: id.into(),
        parent: parent.map(str::to_owned),
        time: at(1),
        files: None,
        metadata: Map::new(),
        deltas: Vec::new(),
        content: encoded("content"),
        channels: channels.to_vec(),
        writes: Vec::new(),
    }
}

fn write(task: &str, position: i64, text: &str) -> ThreadWrite {
    ThreadWrite {
        task: task.into(),
        path: String::new(),
        position,
        channel: "c".into(),
        value: encoded(text),
    }
}

fn put(ledger: &mut Ledger, state: &ThreadState) {
    assert_eq!(ledger.put_thread_state(state, at(1)).unwrap(), Vec::<String>::new());
}

fn list(ledger: &Ledger, filter: ThreadFilter) -> Vec<String> {
    let page = ledger.list_thread_states(&ThreadFilter { app: APP.into(), ..filter }).unwrap();
    page.states.into_iter().map(|state| state.id).collect()
}

fn values_of(ledger: &Ledger, thread: &str, id: &str) -> BTreeMap<String, String> {
    let state = ledger.thread_state(&key(thread, ""), Some(id)).unwrap().unwrap();
    let text = |channel: Channel| String::from_utf8(channel.value.unwrap().data).unwrap();
    state.channels.into_iter().map(|channel| (channel.name.clone(), text(channel))).collect()
}

fn count(connection: &Connection, table: &str) -> i64 {
    connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

#[test]
fn a_state_comes_back_with_its_values_and_writes() {
    let mut fixture = Fixture::new();
    let mut first =
        state("t", "1", None, &[channel("a", 1, Some("x")), channel("b", 1, Some("y"))]);
    first.files = Some("checkpoint".into());
    first.metadata = fields(&json!({ "run_id": "r", "step": -1, "more": [1.5, null] }));
    put(&mut fixture.ledger, &first);
    let writes = [write("2", 0, "second"), write("1", 1, "first b"), write("1", 0, "first a")];
    fixture.ledger.put_thread_writes(&first.key, "1", &writes).unwrap();
    let found = fixture.open_another().thread_state(&first.key, None).unwrap().unwrap();
    let [second, first_b, first_a] = writes;
    first.writes = vec![first_a, first_b, second];
    assert_eq!(found, first);
}

#[test]
fn an_unchanged_value_is_taken_from_the_parent() {
    let mut fixture = Fixture::new();
    put(&mut fixture.ledger, &state("t", "1", None, &[channel("a", 1, Some("x"))]));
    // Two states that follow the same state may give the same version to different values.
    for (id, text) in [("2", "left"), ("3", "right")] {
        let channels = [channel("a", 1, None), channel("b", 2, Some(text))];
        put(&mut fixture.ledger, &state("t", id, Some("1"), &channels));
    }
    let channels = [channel("a", 1, None), channel("b", 2, None)];
    put(&mut fixture.ledger, &state("t", "4", Some("2"), &channels));
    put(&mut fixture.ledger, &state("t", "5", Some("3"), &channels));
    assert_eq!(values_of(&fixture.ledger, "t", "4")["b"], "left");
    assert_eq!(values_of(&fixture.ledger, "t", "5")["b"], "right");
    assert_eq!(values_of(&fixture.ledger, "t", "5")["a"], "x");
    assert_eq!(count(&open_raw(&fixture.path()), "thread_values"), 3);
}

#[test]
fn a_state_with_missing_values_is_not_stored() {
    let mut fixture = Fixture::new();
    put(&mut fixture.ledger, &state("t", "1", None, &[channel("a", 1, Some("x"))]));
    let channels = [channel("a", 2, None), channel("b", 1, Some("y")), channel("c", 1, None)];
    for parent in [None, Some("1"), Some("unknown")] {
        let missing = fixture.ledger.put_thread_state(&state("t", "2", parent, &channels), at(1));
        assert_eq!(missing.unwrap(), ["a", "c"]);
    }
    assert_eq!(list(&fixture.ledger, ThreadFilter::default()), ["1"]);
    assert_eq!(count(&open_raw(&fixture.path()), "thread_values"), 1);
}

#[test]
fn a_state_that_is_stored_again_replaces_the_first() {
    let mut fixture = Fixture::new();
    put(&mut fixture.ledger, &state("t", "1", None, &[channel("a", 1, Some("old"))]));
    fixture.ledger.put_thread_writes(&key("t", ""), "1", &[write("task", 0, "kept")]).unwrap();
    put(&mut fixture.ledger, &state("t", "1", None, &[channel("a", 2, Some("new"))]));
    put(&mut fixture.ledger, &state("t", "1", None, &[channel("a", 2, None)]));
    assert_eq!(values_of(&fixture.ledger, "t", "1")["a"], "new");
    let found = fixture.ledger.thread_state(&key("t", ""), None).unwrap().unwrap();
    assert_eq!(found.writes, [write("task", 0, "kept")]);
    assert_eq!(count(&open_raw(&fixture.path()), "thread_values"), 1);
}

#[test]
fn the_first_result_of_a_task_is_kept_and_a_repeated_error_is_replaced() {
    let mut fixture = Fixture::new();
    put(&mut fixture.ledger, &state("t", "1", None, &[]));
    for text in ["first", "second"] {
        let writes = [write("task", 0, text), write("task", -1, text)];
        fixture.ledger.put_thread_writes(&key("t", ""), "1", &writes).unwrap();
    }
    let found = fixture.ledger.thread_state(&key("t", ""), None).unwrap().unwrap();
    assert_eq!(found.writes, [write("task", -1, "second"), write("task", 0, "first")]);
}

#[test]
fn states_are_found_by_thread_and_namespace_and_metadata_and_position() {
    let mut fixture = Fixture::new();
    for (thread, namespace, id, step) in
        [("t", "", "1", 1), ("t", "", "2", 2), ("t", "child", "3", 1), ("u", "", "4", 1)]
    {
        let mut new = state(thread, id, None, &[]);
        new.key.namespace = namespace.into();
        new.metadata = fields(&json!({ "step": step, "source": "loop" }));
        put(&mut fixture.ledger, &new);
    }
    let mut other = state("t", "9", None, &[]);
    other.key.app = "another".into();
    put(&mut fixture.ledger, &other);
    let found = |filter| list(&fixture.ledger, filter);
    let thread = Some("t".to_owned());
    assert_eq!(found(ThreadFilter::default()), ["4", "3", "2", "1"]);
    let all = ThreadFilter { thread: thread.clone(), ..ThreadFilter::default() };
    assert_eq!(found(all.clone()), ["3", "2", "1"]);
    assert_eq!(found(ThreadFilter { namespace: Some(String::new()), ..all.clone() }), ["2", "1"]);
    assert_eq!(found(ThreadFilter { before: Some("2".into()), ..all.clone() }), ["1"]);
    assert_eq!(found(ThreadFilter { id: Some("2".into()), ..all.clone() }), ["2"]);
    assert_eq!(found(ThreadFilter { limit: Some(2), ..all.clone() }), ["3", "2"]);
    assert_eq!(found(ThreadFilter { limit: Some(0), ..all.clone() }), [""; 0]);
    let metadata = fields(&json!({ "step": 1.0, "source": "loop" }));
    assert_eq!(found(ThreadFilter { metadata, ..all.clone() }), ["3", "1"]);
    let metadata = fields(&json!({ "step": 1, "more": null }));
    assert_eq!(found(ThreadFilter { metadata, ..all }), [""; 0]);
}

#[test]
fn a_long_list_comes_in_pages() {
    let mut fixture = Fixture::new();
    let large = "x".repeat(5 << 20);
    for id in ["1", "2", "3", "4", "5"] {
        put(&mut fixture.ledger, &state("t", id, None, &[channel("a", 1, Some(&large))]));
    }
    let mut filter = ThreadFilter { app: APP.into(), ..ThreadFilter::default() };
    let mut pages = Vec::new();
    loop {
        let page = fixture.ledger.list_thread_states(&filter).unwrap();
        pages.push(page.states.into_iter().map(|state| state.id).collect::<Vec<_>>().join(" "));
        filter.after = page.next;
        if filter.after.is_none() {
            break;
        }
    }
    assert_eq!(pages, ["5 4", "3 2", "1"]);
}

#[test]
fn states_and_writes_that_are_too_large_for_any_answer_are_refused() {
    let mut fixture = Fixture::new();
    let half = "x".repeat(usize::try_from(MAX_STATE_BYTES).unwrap() / 2 + 1);
    put(&mut fixture.ledger, &state("t", "1", None, &[channel("a", 1, Some(&half))]));
    let channels = [channel("a", 1, None), channel("b", 1, Some(&half))];
    let refused = fixture.ledger.put_thread_state(&state("t", "2", Some("1"), &channels), at(1));
    assert!(matches!(refused, Err(LedgerError::TooLarge { .. })), "{refused:?}");
    let half = "x".repeat(usize::try_from(MAX_WRITES_BYTES).unwrap() / 2 + 1);
    fixture.ledger.put_thread_writes(&key("t", ""), "1", &[write("task", 0, &half)]).unwrap();
    let refused = fixture.ledger.put_thread_writes(&key("t", ""), "1", &[write("task", 1, &half)]);
    assert!(matches!(refused, Err(LedgerError::TooLarge { .. })), "{refused:?}");
    let found = fixture.ledger.thread_state(&key("t", ""), None).unwrap().unwrap();
    assert_eq!((found.id.as_str(), found.writes.len()), ("1", 1));
}

#[test]
fn a_copied_thread_is_independent_of_the_original() {
    let mut fixture = Fixture::new();
    put(&mut fixture.ledger, &state("t", "1", None, &[channel("a", 1, Some("x"))]));
    put(&mut fixture.ledger, &state("t", "2", Some("1"), &[channel("a", 1, None)]));
    fixture.ledger.put_thread_writes(&key("t", ""), "2", &[write("task", 0, "w")]).unwrap();
    assert_eq!(fixture.ledger.copy_thread(APP, "t", "u").unwrap(), 2);
    assert_eq!(fixture.ledger.copy_thread(APP, "unknown", "v").unwrap(), 0);
    let refused = fixture.ledger.copy_thread(APP, "t", "u");
    assert!(matches!(refused, Err(LedgerError::ThreadExists(_))), "{refused:?}");
    let original = fixture.ledger.thread_state(&key("t", ""), None).unwrap().unwrap();
    assert_eq!(fixture.ledger.delete_thread(APP, "t").unwrap(), 2);
    let copy = fixture.ledger.thread_state(&key("u", ""), None).unwrap().unwrap();
    assert_eq!(copy, ThreadState { key: key("u", ""), ..original });
    fixture.ledger.delete_thread(APP, "u").unwrap();
    for table in ["thread_states", "thread_channels", "thread_values", "thread_writes"] {
        assert_eq!(count(&open_raw(&fixture.path()), table), 0, "{table}");
    }
}

#[test]
fn a_prune_keeps_the_latest_state_of_each_namespace() {
    let mut fixture = Fixture::new();
    for (namespace, id) in [("", "1"), ("", "2"), ("child", "1"), ("child", "3")] {
        let mut new = state("t", id, None, &[channel("a", 1, Some(id))]);
        new.key.namespace = namespace.into();
        put(&mut fixture.ledger, &new);
        fixture.ledger.put_thread_writes(&new.key, id, &[write("task", 0, id)]).unwrap();
    }
    put(&mut fixture.ledger, &state("another", "0", None, &[]));
    assert_eq!(fixture.ledger.prune_thread(APP, "t").unwrap(), 2);
    assert_eq!(list(&fixture.ledger, ThreadFilter::default()), ["3", "2", "0"]);
    assert_eq!(count(&open_raw(&fixture.path()), "thread_writes"), 2);
    assert_eq!(fixture.ledger.prune_thread(APP, "unknown").unwrap(), 0);
}

/// Stores a chain of states, each with the channels that have a value and the channels whose values
/// follow from earlier states.
fn put_chain(ledger: &mut Ledger, states: &[(&str, &str, &[&str], &[&str])]) {
    let mut parent = None;
    for (id, run, valued, deltas) in states {
        let channels: Vec<Channel> = valued.iter().map(|name| channel(name, 1, Some(id))).collect();
        let mut new = state("t", id, parent, &channels);
        new.deltas = deltas.iter().map(|&name| name.to_owned()).collect();
        new.metadata = fields(&json!({ "run_id": run }));
        put(ledger, &new);
        ledger.put_thread_writes(&new.key, id, &[write("task", 0, id)]).unwrap();
        parent = Some(*id);
    }
}

#[test]
fn states_that_a_kept_state_depends_on_are_not_pruned() {
    let mut fixture = Fixture::new();
    put_chain(
        &mut fixture.ledger,
        &[
            ("1", "r", &["d", "e"], &[]),
            ("2", "r", &["e"], &["d"]),
            ("3", "r", &["d"], &["e"]),
            ("4", "s", &[], &["d", "e"]),
            ("5", "s", &["a"], &["d", "e"]),
        ],
    );
    assert_eq!(fixture.ledger.prune_thread(APP, "t").unwrap(), 1);
    // States 2 and 3 are kept, because they have the last values of `e` and `d`.
    assert_eq!(list(&fixture.ledger, ThreadFilter::default()), ["5", "4", "3", "2"]);
    assert_eq!(fixture.ledger.delete_thread_runs(APP, &["r".into()]).unwrap(), 0);
    assert_eq!(fixture.ledger.delete_thread_runs(APP, &["r".into(), "s".into()]).unwrap(), 4);
}

#[test]
fn states_that_are_each_others_ancestors_do_no_harm() {
    let mut fixture = Fixture::new();
    let mut new = state("t", "1", Some("2"), &[]);
    new.deltas = vec!["d".into()];
    put(&mut fixture.ledger, &new);
    put(&mut fixture.ledger, &ThreadState { id: "2".into(), parent: Some("1".into()), ..new });
    assert_eq!(fixture.ledger.prune_thread(APP, "t").unwrap(), 0);
}

#[test]
fn threads_survive_a_repair_and_a_lost_value_is_named() {
    let mut fixture = Fixture::new();
    put(&mut fixture.ledger, &state("t", "1", None, &[channel("a", 1, Some("x"))]));
    put(&mut fixture.ledger, &state("u", "1", None, &[channel("a", 1, Some("y"))]));
    fixture.ledger.put_thread_writes(&key("t", ""), "1", &[write("task", 0, "w")]).unwrap();
    let path = fixture.path();
    let Fixture { directory, ledger } = fixture;
    drop(ledger);
    repair_ledger(&path, at(2), &|_, _| {}).unwrap();
    let ledger = Ledger::open(&path, &Default::default()).unwrap();
    assert_eq!(values_of(&ledger, "t", "1")["a"], "x");
    let found = ledger.thread_state(&key("t", ""), None).unwrap().unwrap();
    assert_eq!(found.writes, [write("task", 0, "w")]);
    assert!(ledger.verify(&|_, _| {}).unwrap().whole);
    drop(ledger);
    open_raw(&path).execute("DELETE FROM thread_values WHERE data = ?1", [b"x"]).unwrap();
    let ledger = Ledger::open(&path, &Default::default()).unwrap();
    assert_eq!(values_of(&ledger, "u", "1")["a"], "y");
    let error = ledger.thread_state(&key("t", ""), None).unwrap_err();
    assert_eq!(error.to_string(), "state 1 of thread t has lost the value of channel \"a\"");
    let problems = ledger.verify(&|_, _| {}).unwrap().problems;
    assert_eq!(problems, ["channels of threads without a value: 1"]);
    drop(directory);
}

/// An operation on the threads of one app.
#[derive(Clone, Debug)]
enum Operation {
    Put { thread: u8, id: u8, parent: Option<u8>, changed: Vec<u8>, run: u8 },
    Copy { from: u8, to: u8 },
    Prune(u8),
    Delete(u8),
    DeleteRun(u8),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let changed = prop::collection::vec(0..3_u8, 0..3);
    let put = (0..3_u8, 0..9_u8, prop::option::of(0..9_u8), changed, 0..3_u8).prop_map(
        |(thread, id, parent, changed, run)| Operation::Put { thread, id, parent, changed, run },
    );
    let operation = prop_oneof![
        8 => put,
        1 => (0..3_u8, 0..3_u8).prop_map(|(from, to)| Operation::Copy { from, to }),
        1 => (0..3_u8).prop_map(Operation::Prune),
        1 => (0..3_u8).prop_map(Operation::Delete),
        1 => (0..3_u8).prop_map(Operation::DeleteRun),
    ];
    prop::collection::vec(operation, 1..60)
}

/// A model of the states: (thread, id) → (run, values).
type Model = BTreeMap<(u8, u8), (u8, BTreeMap<u8, usize>)>;

fn apply(ledger: &mut Ledger, model: &mut Model, step: usize, operation: &Operation) {
    match operation {
        Operation::Put { thread, id, parent, changed, run } => {
            let inherited = parent.and_then(|parent| model.get(&(*thread, parent)));
            let mut values = inherited.map(|(_, values)| values.clone()).unwrap_or_default();
            values.extend(changed.iter().map(|channel| (*channel, step)));
            let channels: Vec<Channel> = values
                .iter()
                .map(|(name, version)| Channel {
                    name: name.to_string(),
                    version: version.to_string(),
                    value: changed.contains(name).then(|| encoded(&version.to_string())),
                })
                .collect();
            let parent = parent.map(|parent| parent.to_string());
            let mut new = state(&thread.to_string(), &id.to_string(), parent.as_deref(), &channels);
            new.metadata = fields(&json!({ "run_id": run.to_string() }));
            put(ledger, &new);
            model.insert((*thread, *id), (*run, values));
        }
        Operation::Copy { from, to } => {
            let copied: Vec<_> = model.iter().filter(|((thread, _), _)| thread == from).collect();
            let copied: Model =
                copied.into_iter().map(|((_, id), state)| ((*to, *id), state.clone())).collect();
            let exists = model.keys().any(|(thread, _)| thread == to);
            let done = ledger.copy_thread(APP, &from.to_string(), &to.to_string());
            assert_eq!(done.is_err(), exists);
            if !exists {
                model.extend(copied);
            }
        }
        Operation::Prune(thread) => {
            ledger.prune_thread(APP, &thread.to_string()).unwrap();
            let latest = model.keys().filter(|(one, _)| one == thread).max().copied();
            model.retain(|key, _| key.0 != *thread || Some(*key) == latest);
        }
        Operation::Delete(thread) => {
            ledger.delete_thread(APP, &thread.to_string()).unwrap();
            model.retain(|key, _| key.0 != *thread);
        }
        Operation::DeleteRun(run) => {
            ledger.delete_thread_runs(APP, &[run.to_string()]).unwrap();
            model.retain(|_, (one, _)| one != run);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn threads_behave_like_a_map_of_states(operations in operations()) {
        let mut fixture = Fixture::new();
        let mut model = Model::new();
        for (step, operation) in operations.iter().enumerate() {
            apply(&mut fixture.ledger, &mut model, step, operation);
        }
        let filter = ThreadFilter { app: APP.into(), ..ThreadFilter::default() };
        let found = fixture.ledger.list_thread_states(&filter).unwrap().states;
        let found: BTreeMap<(String, String), BTreeMap<String, String>> = found
            .into_iter()
            .map(|state| {
                let values = values_of(&fixture.ledger, &state.key.thread, &state.id);
                ((state.key.thread, state.id), values)
            })
            .collect();
        let text = |(key, value): (&u8, &usize)| (key.to_string(), value.to_string());
        let expected = model.iter().map(|((thread, id), (_, values))| {
            ((thread.to_string(), id.to_string()), values.iter().map(text).collect())
        });
        prop_assert_eq!(found, expected.collect());
        let connection = open_raw(&fixture.path());
        let unused: i64 = connection
            .query_row(
                "SELECT count(*) FROM thread_values
                 WHERE key NOT IN (SELECT value FROM thread_channels)",
                [],
                |row| row.get(0),
            )
            .unwrap();
        prop_assert_eq!(unused, 0);
    }
}
