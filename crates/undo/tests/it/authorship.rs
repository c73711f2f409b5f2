//! Authorship of changes: an undo takes back the agent's changes and nothing else.

use takeback_undo::history::{CheckpointOptions, open_workspace, take_checkpoint};
use takeback_undo::retention::clear_checkpoints;
use takeback_undo::{
    Deadline, Destination, Report, ReportedEvent, RollbackView, ToolCall, ToolWork, TurnUndo,
};

use crate::support::Scratch;

fn reasons(view: &RollbackView) -> Vec<(String, String)> {
    view.doubts.iter().map(|doubt| (doubt.path.to_string(), doubt.reason.to_string())).collect()
}

#[test]
fn a_call_that_names_its_files_does_not_count_as_changing_other_files() {
    let scratch = Scratch::new();
    scratch.write("a", "0\n");
    scratch.write("mine", "0\n");
    scratch.begin_turn("s", "edit a");
    let call = scratch.begin_edit("s", "Edit", "c1", &["a"]);
    // The agent is waiting for permission while the user keeps working.
    scratch.write("mine", "the user's\n");
    scratch.write("new", "the user's\n");
    scratch.write("a", "1\n");
    scratch.end_call("s", call);
    scratch.end_turn("s");
    let view = scratch.undo();
    assert_eq!(
        (scratch.read("a").as_str(), scratch.read("mine").as_str()),
        ("0\n", "the user's\n")
    );
    assert!(scratch.exists("new") && view.uncertain.is_empty(), "{view:?}");
}

#[test]
fn new_directories_above_a_named_file_count_as_created_by_the_call() {
    let scratch = Scratch::new();
    scratch.write("a", "0\n");
    scratch.begin_turn("s", "write it");
    let call = scratch.begin_edit("s", "Write", "c1", &["d/e/f"]);
    std::fs::create_dir_all(scratch.project().join("d/e")).unwrap();
    scratch.write("d/e/f", "1\n");
    scratch.end_call("s", call);
    scratch.end_turn("s");
    scratch.undo();
    assert!(!scratch.exists("d"));
}

#[test]
fn changes_to_files_that_an_unknown_tool_does_not_name_are_uncertain() {
    let scratch = Scratch::new();
    scratch.write("a", "0\n");
    scratch.begin_turn("s", "generate");
    let call = scratch.begin_edit("s", "mcp__build__generate", "c1", &["a"]);
    scratch.write("a", "1\n");
    scratch.write("b", "1\n");
    scratch.end_call("s", call);
    scratch.end_turn("s");
    let view = scratch.undo();
    assert_eq!(scratch.read("a"), "0\n");
    assert_eq!(reasons(&view), [("b".into(), "the call names other files".into())]);
    assert!(scratch.exists("b"));
}

#[test]
fn changes_made_while_a_script_is_running_belong_to_it() {
    let scratch = Scratch::new();
    scratch.write("a", "0\n");
    scratch.begin_turn("s", "make it");
    let call = scratch.begin_script("s", "c1", "make");
    scratch.write("a", "1\n");
    scratch.write("b", "1\n");
    scratch.end_call("s", call);
    scratch.end_turn("s");
    let view = scratch.undo();
    assert!(scratch.read("a") == "0\n" && !scratch.exists("b"), "{view:?}");
}

#[test]
fn edits_made_while_a_bounded_script_is_waiting_are_uncertain() {
    let scratch = Scratch::new();
    for name in ["a", "b", "list"] {
        scratch.write(name, "a\n");
    }
    // The second script can no longer be analyzed once it has run.
    for script in ["rm a", "rm $(cat list) list"] {
        scratch.begin_turn("s", "delete it");
        let call = scratch.begin_script("s", script, script);
        // The agent is waiting for permission while the user keeps working.
        scratch.write("b", script);
        scratch.write("new", script);
        for name in script.split(' ').filter(|word| ["a", "list"].contains(word)) {
            scratch.remove(name);
        }
        scratch.end_call("s", call);
        scratch.end_turn("s");
        let view = scratch.undo();
        assert_eq!((scratch.read("list"), scratch.read("b")), ("a\n".into(), script.into()));
        let reason = || "the call names other files".to_owned();
        assert_eq!(reasons(&view), [("b".into(), reason()), ("new".into(), reason())], "{script}");
        assert!(scratch.exists("a") && scratch.exists("new"), "{script}");
        // The user decides that the agent made one of the changes after all.
        scratch.carry_out(Destination::BeforeLastRollback);
        let taken = vec![view.uncertain[1].clone()];
        let undo = TurnUndo { taken, ..TurnUndo::default() };
        scratch.carry_out(Destination::WithoutTurn(undo));
        assert_eq!((scratch.read("b").as_str(), scratch.exists("new")), (script, false));
    }
}

#[test]
fn a_script_that_deletes_the_whole_workspace_counts_as_changing_all_of_it() {
    for script in ["rm -r \"$PWD\"", "rm -r ../project", "rm -r .."] {
        let scratch = Scratch::new();
        scratch.write("a", "0\n");
        scratch.begin_turn("s", "delete it");
        let call = scratch.begin_script("s", script, script);
        scratch.remove("a");
        scratch.end_call("s", call);
        scratch.end_turn("s");
        let view = scratch.undo();
        assert!(scratch.exists("a") && view.uncertain.is_empty(), "{script}: {view:?}");
    }
}

#[test]
fn changes_to_other_files_are_uncertain_if_the_end_of_a_bounded_call_is_missing() {
    let scratch = Scratch::new();
    for name in ["a", "b", "c"] {
        scratch.write(name, "0\n");
    }
    scratch.begin_turn("s", "delete it");
    scratch.begin_script("s", "c1", "rm a");
    scratch.remove("a");
    scratch.write("b", "the user's\n");
    scratch.begin_edit("s", "Edit", "c2", &["c"]);
    scratch.write("c", "1\n");
    scratch.end_turn("s");
    let view = scratch.undo();
    assert_eq!((scratch.read("a").as_str(), scratch.read("c").as_str()), ("0\n", "0\n"));
    assert_eq!(scratch.read("b"), "the user's\n");
    assert_eq!(reasons(&view), [("b".into(), "the call names other files".into())]);
}

#[test]
fn a_change_to_a_file_that_is_open_in_an_editor_is_uncertain() {
    let scratch = Scratch::new();
    scratch.write("a", "0\n");
    scratch.write("notes.md", "0\n");
    scratch.begin_turn("s", "make it");
    let call = scratch.begin_script("s", "c1", "make");
    scratch.write(".notes.md.swp", "vim");
    scratch.write("notes.md", "the user's\n");
    scratch.write("a", "1\n");
    scratch.end_call("s", call);
    scratch.end_turn("s");
    let view = scratch.undo();
    assert_eq!(
        (scratch.read("a").as_str(), scratch.read("notes.md").as_str()),
        ("0\n", "the user's\n")
    );
    assert_eq!(scratch.read(".notes.md.swp"), "vim");
    let expected = [
        (".notes.md.swp".into(), "editors create files with such names".into()),
        ("notes.md".into(), "open in an editor at that time".into()),
    ];
    assert_eq!(reasons(&view), expected);
}

#[test]
fn a_change_is_certain_despite_another_session_if_a_script_is_known_to_write_the_path() {
    let scratch = Scratch::new();
    scratch.write("a", "0\n");
    scratch.write("b", "0\n");
    scratch.begin_turn("one", "1");
    scratch.begin_turn("two", "2");
    let first = scratch.begin_script("one", "c1", "echo 1 > a; make");
    let second = scratch.begin_script("two", "c2", "make all");
    scratch.write("a", "1\n");
    scratch.write("b", "1\n");
    scratch.end_call("one", first);
    scratch.end_call("two", second);
    scratch.end_turn("one");
    scratch.end_turn("two");
    let undo = TurnUndo { row: Some(2), ..TurnUndo::default() };
    let view = scratch.carry_out(Destination::WithoutTurn(undo));
    assert_eq!(
        (scratch.read("a").as_str(), scratch.read("b").as_str()),
        ("0\n", "1\n"),
        "{view:?}"
    );
    let reason = "another session was working at the same time";
    assert_eq!(reasons(&view), [("b".into(), reason.into())]);
    let taken = vec![view.uncertain[0].clone()];
    let undo = TurnUndo { row: Some(2), taken, ..TurnUndo::default() };
    scratch.carry_out(Destination::WithoutTurn(undo));
    assert_eq!(scratch.read("b"), "0\n");
}

#[test]
fn calls_end_with_the_turn_if_their_agent_reports_no_ends() {
    let scratch = Scratch::new();
    scratch.write("a", "0\nx\ny\n");
    scratch.write("b", "0\nx\ny\n");
    scratch.begin_turn("s", "edit");
    scratch.begin_edit("s", "Edit", "c1", &["missing"]);
    scratch.begin_edit("s", "Edit", "c2", &["a"]);
    scratch.write("a", "1\nx\ny\n");
    scratch.begin_script("s", "c3", "make");
    scratch.write("b", "1\nx\ny\n");
    scratch.end_turn("s");
    scratch.write("b", "1\nx\ny\nthe user's\n");
    scratch.begin_turn("s", "nothing");
    scratch.begin_script("s", "c4", "make");
    scratch.end_turn("s");
    scratch.write("a", "1\nx\ny\nthe user's\n");
    let view = scratch.undo();
    assert_eq!(
        (view.row, scratch.read("a").as_str()),
        (Some(2), "0\nx\ny\nthe user's\n"),
        "{view:?}"
    );
    assert_eq!(scratch.read("b"), "0\nx\ny\nthe user's\n");
    assert!(view.warnings.iter().any(|warning| warning.contains("does not report")), "{view:?}");
}

#[test]
fn edits_after_the_end_of_a_turn_stay_even_if_the_ends_of_its_calls_are_missing() {
    let scratch = Scratch::new();
    scratch.write("a", "0\nx\ny\n");
    scratch.begin_turn("s", "edit");
    scratch.begin_edit("s", "Edit", "c1", &["a"]);
    scratch.write("a", "1\nx\ny\n");
    let handled = scratch.report("s", ReportedEvent::TurnEnd);
    // The user edits the file before the process in the background has begun.
    scratch.write("a", "1\nx\ny\nthe user's\n");
    scratch.do_follow_up(handled);
    let view = scratch.undo();
    assert_eq!(scratch.read("a"), "0\nx\ny\nthe user's\n", "{view:?}");
}

/// Undoes a turn with a single call, whose end was never reported. Returns the content of a file
/// that the user wrote during the call.
fn undo_a_call_without_an_end(scratch: &Scratch) -> String {
    scratch.write("mine", "0\n");
    scratch.begin_turn("s", "edit");
    scratch.begin_script("s", "c1", "make");
    scratch.write("mine", "the user's\n");
    scratch.end_turn("s");
    let view = scratch.undo();
    assert_eq!(view.doubts.len(), 1, "{view:?}");
    scratch.read("mine")
}

#[test]
fn a_change_during_a_call_without_an_end_is_uncertain_if_the_agent_ever_reported_an_end() {
    let scratch = Scratch::new();
    scratch.play_turn("first", "a", "1\n");
    // Now only the ledger knows about that turn.
    clear_checkpoints(&scratch.opened).unwrap();
    assert_eq!(undo_a_call_without_an_end(&scratch), "the user's\n");
}

#[test]
fn a_change_during_a_call_without_an_end_is_uncertain_if_a_checkpoint_failed() {
    let scratch = Scratch::new();
    scratch.opened.note_missed(&scratch.project(), "no space left");
    assert_eq!(undo_a_call_without_an_end(&scratch), "the user's\n");
}

#[test]
fn a_change_during_a_call_without_an_end_stays_uncertain_after_the_failure_was_cleared() {
    let by_checkpoint = |scratch: &Scratch| {
        let workspace = open_workspace(&scratch.opened, &scratch.project()).unwrap();
        take_checkpoint(&scratch.opened, &workspace, &CheckpointOptions::default()).unwrap();
    };
    let by_doctor = |scratch: &Scratch| scratch.opened.clear_failures().unwrap();
    for clear in [&by_checkpoint as &dyn Fn(&Scratch), &by_doctor] {
        let scratch = Scratch::new();
        scratch.opened.note_missed(&scratch.project(), "no space left");
        scratch.opened.note_failure(&scratch.project(), "something else");
        clear(&scratch);
        assert_eq!(scratch.opened.failures(), []);
        assert_eq!(undo_a_call_without_an_end(&scratch), "the user's\n");
        // A failure that occurs again after it was cleared is counted from 1 again.
        scratch.opened.note_missed(&scratch.project(), "no space left");
        let counts: Vec<u64> = scratch.opened.failures().iter().map(|known| known.count).collect();
        assert_eq!(counts, [1]);
    }
}

#[test]
fn a_change_during_a_call_without_an_end_is_uncertain_if_the_ledger_cannot_be_read() {
    let scratch = Scratch::new();
    scratch.write("mine", "0\n");
    scratch.begin_turn("s", "edit");
    scratch.begin_script("s", "c1", "make");
    scratch.write("mine", "the user's\n");
    scratch.end_turn("s");
    scratch.opened.close_ledger();
    std::fs::rename(scratch.opened.ledger_path(), scratch.base().join("aside")).unwrap();
    std::fs::create_dir(scratch.opened.ledger_path()).unwrap();
    let view = scratch.undo();
    assert_eq!((scratch.read("mine").as_str(), view.doubts.len()), ("the user's\n", 1), "{view:?}");
}

#[test]
fn a_call_ends_when_the_next_one_begins_if_its_agent_reports_no_ends() {
    let scratch = Scratch::new();
    for name in ["a", "b", "c", "mine"] {
        scratch.write(name, "0\n");
    }
    scratch.begin_turn("s", "edit");
    scratch.begin_edit("s", "Edit", "c1", &["missing"]);
    scratch.begin_edit("s", "Edit", "c2", &["a"]);
    scratch.write("a", "1\n");
    // The agent is waiting for permission while the user keeps working.
    scratch.write("mine", "the user's\n");
    scratch.begin_script("s", "c3", "make");
    scratch.write("b", "1\n");
    scratch.begin_edit("s", "Edit", "c4", &["c"]);
    scratch.write("c", "1\n");
    scratch.write("new", "the user's\n");
    scratch.end_turn("s");
    let view = scratch.undo();
    let contents = ["a", "b", "c", "mine", "new"].map(|name| scratch.read(name));
    assert_eq!(contents, ["0\n", "0\n", "0\n", "the user's\n", "the user's\n"], "{view:?}");
}

#[test]
fn a_turn_without_a_reported_end_ends_when_the_next_one_begins() {
    let scratch = Scratch::new();
    scratch.write("a", "0\n");
    scratch.write("mine", "0\n");
    scratch.begin_turn("s", "first");
    scratch.begin_script("s", "c1", "make");
    scratch.write("a", "1\n");
    scratch.begin_turn("s", "second");
    scratch.write("mine", "the user's\n");
    scratch.begin_script("s", "c2", "make");
    scratch.write("b", "1\n");
    scratch.end_turn("s");
    let undo = TurnUndo { row: Some(2), ..TurnUndo::default() };
    let view = scratch.carry_out(Destination::WithoutTurn(undo));
    assert_eq!(scratch.read("a"), "0\n", "{view:?}");
    assert!(scratch.read("mine") == "the user's\n" && scratch.exists("b"), "{view:?}");
    assert!(view.warnings.iter().any(|warning| warning.contains("does not report")), "{view:?}");
}

#[test]
fn an_ignored_file_is_restored_if_a_call_without_an_end_named_it() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.project().join("out")).unwrap();
    scratch.write(".gitignore", "out/\n");
    scratch.write("out/a", "0\n");
    scratch.begin_turn("s", "edit");
    scratch.begin_edit("s", "Edit", "c1", &["out/a"]);
    scratch.write("out/a", "1\n");
    scratch.end_turn("s");
    let view = scratch.undo();
    assert_eq!(scratch.read("out/a"), "0\n", "{view:?}");
}

#[test]
fn a_change_during_a_call_without_an_end_is_uncertain_if_the_agent_reports_ends() {
    let scratch = Scratch::new();
    scratch.write("a", "0\n");
    scratch.play_turn("first", "a", "1\n");
    scratch.begin_turn("s", "second");
    scratch.begin_script("s", "refused", "make");
    scratch.write("a", "the user's\n");
    scratch.end_turn("s");
    let undo = TurnUndo { row: Some(1), ..TurnUndo::default() };
    let view = scratch.carry_out(Destination::WithoutTurn(undo));
    assert_eq!((scratch.read("a").as_str(), view.uncertain.len()), ("the user's\n", 1), "{view:?}");
}

#[test]
fn the_next_call_does_not_end_an_earlier_one_if_the_agent_reports_ends() {
    let scratch = Scratch::new();
    scratch.write("a", "0\n");
    scratch.write("b", "0\n");
    scratch.begin_turn("s", "first");
    // Both calls are running at the same time; the first is interrupted.
    scratch.begin_script("s", "c1", "make");
    let call = scratch.begin_edit("s", "Edit", "c2", &["a"]);
    scratch.write("a", "1\n");
    scratch.write("b", "1\n");
    scratch.end_call("s", call);
    scratch.end_turn("s");
    let view = scratch.undo();
    assert_eq!((scratch.read("a").as_str(), scratch.read("b").as_str()), ("0\n", "1\n"));
    assert_eq!(reasons(&view), [("b".into(), "the end of the call is unknown".into())]);
}

#[test]
fn a_rollback_during_an_open_call_does_not_count_as_a_change_by_the_call() {
    let scratch = Scratch::new();
    scratch.write("a", "0\n");
    scratch.play_turn("first", "a", "1\n");
    scratch.begin_turn("s", "second");
    let call = scratch.begin_script("s", "c2", "make");
    scratch.write("b", "1\n");
    scratch.roll_back("2");
    scratch.write("c", "1\n");
    scratch.end_call("s", call);
    scratch.end_turn("s");
    let undo = TurnUndo { row: Some(1), ..TurnUndo::default() };
    let view = scratch.carry_out(Destination::WithoutTurn(undo));
    assert_eq!((scratch.read("a").as_str(), scratch.exists("c")), ("0\n", false), "{view:?}");
    assert_eq!((view.restored.len(), view.deleted.len()), (0, 1), "{view:?}");
}

#[test]
fn files_that_takeback_restored_do_not_count_as_edited_by_others() {
    let scratch = Scratch::new();
    scratch.write("a", "0\n");
    scratch.play_turn("1", "a", "1\n");
    scratch.play_turn("2", "a", "2\n");
    scratch.roll_back("1");
    let view = scratch.roll_back("2");
    assert!(view.others.is_empty(), "{view:?}");
}

#[test]
fn a_file_that_a_session_created_and_deleted_does_not_count_as_edited_by_others() {
    let scratch = Scratch::new();
    scratch.write("a", "0\n");
    scratch.play_turn("make it", "b", "1\n");
    scratch.play_turn_of("s", "delete it", || scratch.remove("b"));
    let view = scratch.roll_back("1");
    assert!(view.others.is_empty() && scratch.exists("b"), "{view:?}");
    // If the user changes a file after the agent has changed it, the change is still listed as an
    // edit by others.
    scratch.play_turn("again", "a", "1\n");
    scratch.write("a", "the user's\n");
    assert_eq!(scratch.roll_back("1").others.len(), 1);
}

#[test]
fn an_undo_reaches_into_directories_that_are_now_ignored() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.project().join("out")).unwrap();
    scratch.write("out/old", "0\n");
    scratch.begin_turn("s", "build");
    let call = scratch.begin_script("s", "c1", "make");
    scratch.write("out/old", "1\n");
    scratch.write("out/new", "1\n");
    scratch.end_call("s", call);
    scratch.end_turn("s");
    scratch.write(".gitignore", "out/\n");
    scratch.write("out/mine", "the user's\n");
    let view = scratch.undo();
    assert_eq!((scratch.read("out/old").as_str(), scratch.exists("out/new")), ("0\n", false));
    assert_eq!((view.restored.len(), view.deleted.len()), (1, 1), "{view:?}");
    let view = scratch.carry_out(Destination::BeforeLastRollback);
    let contents = ["out/old", "out/new", "out/mine"].map(|name| scratch.read(name));
    assert_eq!(contents, ["1\n", "1\n", "the user's\n"], "{view:?}");
    let view = scratch.carry_out(Destination::BeforeLastUndo);
    assert_eq!(
        (scratch.read("out/old").as_str(), scratch.exists("out/new")),
        ("0\n", false),
        "{view:?}"
    );
    assert_eq!(scratch.read("out/mine"), "the user's\n");
}

#[test]
fn a_change_during_a_run_is_uncertain_unless_the_command_names_the_file() {
    let scratch = Scratch::new();
    scratch.write("a", "0\n");
    scratch.write("mine", "0\n");
    let call = ToolCall {
        id: Some("1".into()),
        tool: "run".into(),
        input: serde_json::json!({ "command": "agent" }),
        work: ToolWork::Changes { script: Some("agent; touch a".into()), paths: Vec::new() },
    };
    let report = |event| {
        let report = Report {
            agent: "run".into(),
            session: "1".into(),
            parent: None,
            turn: None,
            directory: scratch.project(),
            model: None,
            event,
        };
        takeback_undo::hook::handle(&scratch.opened, &report, &Deadline::open());
    };
    report(ReportedEvent::TurnStart { prompt: Some("agent".into()) });
    report(ReportedEvent::BeforeTool(call.clone()));
    scratch.write("a", "1\n");
    scratch.write("mine", "the user's\n");
    // The agent reports its calls through its own hooks.
    scratch.play_turn("make it", "made", "1\n");
    report(ReportedEvent::AfterTool { call, outcome: None });
    report(ReportedEvent::TurnEnd);
    let view = scratch.undo();
    assert!(!scratch.exists("made") && view.uncertain.is_empty(), "{view:?}");
    let view = scratch.undo();
    assert_eq!(scratch.read("a"), "0\n", "{view:?}");
    assert_eq!(scratch.read("mine"), "the user's\n");
    let reason = "changed while `takeback run` ran, by the command or by you";
    assert_eq!(reasons(&view), [("mine".into(), reason.into())]);
}

#[test]
fn edits_during_a_call_that_writes_only_known_files_count_as_the_users_own() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.project().join("sub")).unwrap();
    scratch.write("a", "0\n");
    scratch.write("sub/mine", "0\n");
    let call = ToolCall {
        id: Some("1".into()),
        tool: "write_file".into(),
        input: serde_json::json!({ "path": "a" }),
        work: ToolWork::Writes { paths: vec!["a".into()] },
    };
    scratch.report("s", ReportedEvent::TurnStart { prompt: Some("write a".into()) });
    scratch.report("s", ReportedEvent::BeforeTool(call.clone()));
    scratch.write("a", "1\n");
    scratch.write("sub/mine", "the user's\n");
    scratch.report("s", ReportedEvent::AfterTool { call, outcome: None });
    scratch.report("s", ReportedEvent::TurnEnd);
    let view = scratch.undo();
    assert_eq!(scratch.read("a"), "0\n", "{view:?}");
    assert_eq!(scratch.read("sub/mine"), "the user's\n");
    assert!(view.uncertain.is_empty(), "{view:?}");
}
