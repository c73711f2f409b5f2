//! Prompts that wait for their checkpoint, and calls that an agent announces without waiting.

use serde_json::json;
use takeback_undo::{
    Deadline, Destination, Handled, Report, ReportedEvent, ToolCall, ToolWork, history, hook,
};

use crate::support::Scratch;

fn report(scratch: &Scratch, event: ReportedEvent, deadline: &Deadline) -> Handled {
    let report = Report {
        agent: "mine".into(),
        session: "s".into(),
        parent: None,
        turn: None,
        directory: scratch.project(),
        model: None,
        event,
    };
    let handled = hook::handle(&scratch.opened, &report, deadline);
    assert_eq!(handled.failures, Vec::<String>::new());
    handled
}

fn prompt(scratch: &Scratch, text: &str) -> Handled {
    let event = ReportedEvent::BeforePrompt { prompt: Some(text.into()) };
    report(scratch, event, &Deadline::open())
}

fn announce(scratch: &Scratch, call: &ToolCall) -> Handled {
    report(scratch, ReportedEvent::BeforeTool(call.clone()), &Deadline::announced())
}

fn edit(id: &str, names: &[&str]) -> ToolCall {
    let paths = names.iter().map(Into::into).collect();
    ToolCall {
        id: Some(id.into()),
        tool: "edit".into(),
        input: json!({}),
        work: ToolWork::Changes { script: None, paths },
    }
}

fn rows(scratch: &Scratch) -> Vec<(String, Option<String>, usize)> {
    let list = history::list_checkpoints(&scratch.opened, &scratch.project()).unwrap();
    list.checkpoints.into_iter().map(|row| (row.reason, row.prompt, row.steps.len())).collect()
}

#[test]
fn a_checkpoint_is_taken_before_the_agent_receives_a_prompt() {
    let scratch = Scratch::new();
    scratch.write("a", "0\n");
    let handled = prompt(&scratch, "change a");
    assert_eq!(handled.checkpoints.len(), 1);
    scratch.write("a", "1\n");
    scratch.end_turn("s");
    scratch.roll_back("1");
    assert_eq!(scratch.read("a"), "0\n");
    assert_eq!(scratch.prompts("s"), Vec::<String>::new());
}

#[test]
fn edits_between_the_prompt_and_the_first_call_do_not_count_as_edits_by_the_agent() {
    let scratch = Scratch::with_reported_ends();
    scratch.write("a", "0\n");
    scratch.write("mine", "0\n");
    prompt(&scratch, "change a");
    scratch.write("mine", "the user's\n");
    let call = scratch.begin_script("s", "c1", "make");
    scratch.write("a", "1\n");
    scratch.end_call("s", call);
    scratch.end_turn("s");
    let view = scratch.undo();
    assert_eq!((scratch.read("a"), scratch.read("mine")), ("0\n".into(), "the user's\n".into()));
    assert!(view.uncertain.is_empty(), "{view:?}");
}

#[test]
fn a_call_that_was_announced_after_it_had_begun_is_taken_back() {
    let scratch = Scratch::with_reported_ends();
    scratch.write("a", "0\n");
    scratch.write("b", "0\n");
    prompt(&scratch, "change both");
    for (id, name) in [("c1", "a"), ("c2", "b")] {
        // The agent writes before takeback can capture the workspace.
        scratch.write(name, "1\n");
        let call = edit(id, &[name]);
        announce(&scratch, &call);
        scratch.end_call("s", call);
    }
    scratch.end_turn("s");
    scratch.roll_back("1.2");
    assert_eq!((scratch.read("a"), scratch.read("b")), ("1\n".into(), "0\n".into()));
    scratch.carry_out(Destination::BeforeLastRollback);
    let view = scratch.undo();
    assert_eq!((scratch.read("a"), scratch.read("b")), ("0\n".into(), "0\n".into()));
    assert!(view.uncertain.is_empty(), "{view:?}");
}

#[test]
fn later_updates_about_an_announced_call_do_not_move_its_beginning() {
    let scratch = Scratch::with_reported_ends();
    scratch.write("a", "0\n");
    prompt(&scratch, "change a");
    announce(&scratch, &edit("c1", &[]));
    scratch.write("a", "1\n");
    let call = edit("c1", &["a"]);
    announce(&scratch, &call);
    scratch.end_call("s", call);
    scratch.end_turn("s");
    let view = scratch.undo();
    assert_eq!(scratch.read("a"), "0\n");
    assert!(view.uncertain.is_empty(), "{view:?}");
}

#[test]
fn edits_by_the_user_before_an_announced_call_are_kept() {
    let scratch = Scratch::with_reported_ends();
    scratch.write("a", "0\n");
    prompt(&scratch, "change a");
    scratch.write("a", "the user's, unsaved elsewhere\n");
    let call = edit("c1", &["a"]);
    announce(&scratch, &call);
    scratch.write("a", "1\n");
    scratch.end_call("s", call);
    scratch.end_turn("s");
    let store = scratch.opened.store().unwrap();
    let workspace = store.workspace_id(&scratch.project());
    let known = takeback_undo::read_checkpoints(store, &workspace).unwrap().all;
    let first = known.last().unwrap().pin.tree;
    let has_edit = known.iter().any(|checkpoint| {
        let changes = store.changed_paths(&first, &checkpoint.pin.tree).unwrap();
        changes.iter().filter_map(|change| change.to).any(|(_, oid)| {
            store.read_object(&oid).unwrap().1 == b"the user's, unsaved elsewhere\n"
        })
    });
    assert!(has_edit);
}

#[test]
fn a_prompt_without_calls_gets_one_row_without_steps() {
    let scratch = Scratch::new();
    scratch.write("a", "0\n");
    prompt(&scratch, "what is this?");
    scratch.end_turn("s");
    let expected = ("before the prompt".into(), Some("what is this?".into()), 1);
    assert_eq!(rows(&scratch), [expected]);
}
