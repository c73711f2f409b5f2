//! Captures that are completed only after the agent has moved on.

use std::fs;

use serde_json::json;
use takeback_undo::{Deadline, Report, ReportedEvent, ToolCall, ToolWork, history, hook};

use crate::support::Scratch;

/// Returns the report of a call that has no id.
fn nameless_report(scratch: &Scratch) -> Report {
    let call = ToolCall {
        id: None,
        tool: "bash".into(),
        input: json!({ "command": "rm -f a b" }),
        work: ToolWork::run_script("rm -f a b"),
    };
    Report {
        agent: "mine".into(),
        session: "s".into(),
        parent: None,
        turn: None,
        directory: scratch.project(),
        model: None,
        event: ReportedEvent::BeforeTool(call),
    }
}

fn held_count(scratch: &Scratch) -> usize {
    fs::read_dir(scratch.base().join("home/checkpoints/held")).unwrap().count()
}

#[test]
fn identical_calls_without_ids_hold_their_files_separately() {
    let scratch = Scratch::new();
    scratch.play_turn("begin", "x", "1");
    scratch.begin_turn("s", "tidy up");
    scratch.write("a", "1");
    let report = nameless_report(&scratch);
    let turn = hook::current_turn(&scratch.opened, &report).unwrap();
    hook::hold_files(&scratch.opened, &report);
    scratch.remove("a");
    // The same command runs again, before the first capture is complete.
    scratch.write("b", "1");
    hook::hold_files(&scratch.opened, &report);
    scratch.remove("b");
    assert_eq!(held_count(&scratch), 2);
    for left in [1, 0] {
        let deadline = Deadline::passed_in(turn.clone());
        let handled = hook::handle(&scratch.opened, &report, &deadline);
        assert_eq!(handled.failures, Vec::<String>::new());
        assert_eq!(held_count(&scratch), left);
    }
    scratch.roll_back("1");
    assert_eq!(scratch.read("a"), "1", "the files of the first call");
    let list = history::list_checkpoints(&scratch.opened, &scratch.project()).unwrap();
    assert!(list.checkpoints[0].late);
}

#[test]
fn held_files_that_are_not_needed_are_discarded() {
    let scratch = Scratch::new();
    scratch.write("a", "1");
    let held = hook::hold_files(&scratch.opened, &nameless_report(&scratch)).unwrap();
    assert_eq!(held_count(&scratch), 1);
    held.discard();
    assert_eq!(held_count(&scratch), 0);
}

#[test]
fn files_that_are_changed_before_their_late_capture_come_back() {
    let scratch = Scratch::new();
    for name in ["written", "replaced", "large"] {
        scratch.write(name, "mine");
    }
    scratch.write("large", &"mine".repeat(1 << 20));
    scratch.play_turn("begin", "x", "1");
    scratch.begin_turn("s", "change them");
    let script = "make > written; mv new replaced; mv new2 large";
    let report = Report {
        event: ReportedEvent::BeforeTool(ToolCall {
            work: ToolWork::run_script(script),
            input: json!({ "command": script }),
            id: Some("c1".into()),
            tool: "bash".into(),
        }),
        ..nameless_report(&scratch)
    };
    let turn = hook::current_turn(&scratch.opened, &report).unwrap();
    hook::hold_files(&scratch.opened, &report);
    scratch.write("written", "in place");
    for name in ["replaced", "large"] {
        scratch.write("new", "another file");
        fs::rename(scratch.project().join("new"), scratch.project().join(name)).unwrap();
    }
    let deadline = Deadline::passed_in(turn);
    let handled = hook::handle(&scratch.opened, &report, &deadline);
    assert_eq!(handled.failures, Vec::<String>::new());
    assert_eq!(held_count(&scratch), 0);
    scratch.roll_back("1");
    assert_eq!((scratch.read("written"), scratch.read("replaced")), ("mine".into(), "mine".into()));
    assert_eq!(scratch.read("large").len(), 4 << 20);
}
