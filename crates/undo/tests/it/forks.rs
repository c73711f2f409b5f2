//! Forks: a new directory with the files as they were at an earlier point, and a new session with
//! the conversation up to that point.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::json;
use takeback_ledger::{LedgerError, MessageRecord, ParentKind, SessionRecord, Time};
use takeback_undo::{
    CheckpointOptions, Fork, ForkError, ForkFiles, ForkPoint, ForkRequest, ReportedEvent,
    SessionPoint, fork, history,
};

use crate::support::{Scratch, shift_clock};

pub(crate) fn checkpoint(scratch: &Scratch, text: &str) -> ForkPoint {
    ForkPoint::Checkpoint { directory: scratch.project(), checkpoint: text.into() }
}

fn session(at: SessionPoint) -> ForkPoint {
    ForkPoint::Session { session: "mine:s".into(), at }
}

fn try_fork(scratch: &Scratch, from: ForkPoint) -> Result<Fork, ForkError> {
    let to = scratch.base().join("fork");
    let request = ForkRequest { files: ForkFiles::Into(to), ..ForkRequest::new(from) };
    fork::fork(&scratch.opened, &request)
}

/// Forks into the directory `fork`, after removing the previous fork.
fn make_fork(scratch: &Scratch, from: ForkPoint) -> Fork {
    let _ = fs::remove_dir_all(scratch.base().join("fork"));
    try_fork(scratch, from).unwrap()
}

fn read(scratch: &Scratch, name: &str) -> String {
    fs::read_to_string(scratch.base().join("fork").join(name)).unwrap()
}

/// Returns the texts of the messages in a session, except those that were taken back.
fn texts(scratch: &Scratch, session: &str) -> Vec<String> {
    let ledger = scratch.opened.ledger().unwrap().unwrap();
    let messages = ledger.messages(session, Default::default()).unwrap();
    let left = messages.into_iter().filter(|message| !message.undone);
    left.map(|message| message.content.unwrap().as_str().unwrap().to_owned()).collect()
}

fn texts_of(scratch: &Scratch, fork: &Fork) -> Vec<String> {
    texts(scratch, fork.session.as_ref().unwrap())
}

/// Adds an answer from the model to the conversation.
fn answer(scratch: &Scratch, text: &str) {
    let message = MessageRecord {
        role: "assistant".into(),
        content: Some(text.into()),
        ..MessageRecord::default()
    };
    let now = scratch.opened.now();
    scratch.opened.ledger_or_new().unwrap().append("mine:s", &[message], now).unwrap();
}

/// Plays three turns that write `a`, each with an answer.
fn three_turns() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("a", "0");
    for number in ["1", "2", "3"] {
        scratch.play_turn(number, "a", number);
        answer(&scratch, &format!("done {number}"));
    }
    scratch
}

#[test]
fn a_fork_from_a_checkpoint_has_the_files_and_the_conversation_before_its_turn() {
    let scratch = three_turns();
    let fork = make_fork(&scratch, checkpoint(&scratch, "2"));
    assert_eq!(read(&scratch, "a"), "1");
    assert_eq!(texts_of(&scratch, &fork), ["1", "done 1"]);
    assert_eq!((fork.parent.as_deref(), fork.turn), (Some("mine:s"), Some(1)));
    assert_eq!((fork.files, fork.warnings.len()), (1, 0));
    let ledger = scratch.opened.ledger().unwrap().unwrap();
    let made = ledger.session(fork.session.as_ref().unwrap()).unwrap();
    assert_eq!(made.parent_kind, Some(ParentKind::Fork));
    let directory = fs::canonicalize(scratch.base().join("fork")).unwrap();
    assert_eq!(made.workspace.as_deref().map(Path::new), Some(directory.as_path()));
    drop(ledger);
    assert_eq!((scratch.read("a").as_str(), scratch.prompts("s").len()), ("3", 3));
}

#[test]
fn a_fork_from_the_first_checkpoint_begins_with_an_empty_conversation() {
    let scratch = three_turns();
    let fork = make_fork(&scratch, checkpoint(&scratch, "3"));
    assert_eq!((read(&scratch, "a").as_str(), texts_of(&scratch, &fork)), ("0", vec![]));
    assert_eq!(fork.turn, Some(0));
}

#[test]
fn a_fork_from_a_turn_has_the_files_and_the_conversation_after_it() {
    let scratch = three_turns();
    scratch.write("a", "edited by the user");
    for (turn, messages) in [(1, 2), (2, 4), (3, 6)] {
        let fork = make_fork(&scratch, session(SessionPoint::Turn(turn)));
        assert_eq!(read(&scratch, "a"), turn.to_string());
        assert_eq!((texts_of(&scratch, &fork).len(), fork.turn), (messages, Some(turn)));
    }
    let last = make_fork(&scratch, session(SessionPoint::LastTurn));
    assert_eq!((read(&scratch, "a").as_str(), last.turn), ("3", Some(3)));
    let now = make_fork(&scratch, session(SessionPoint::Now));
    assert_eq!((read(&scratch, "a").as_str(), now.turn), ("edited by the user", Some(3)));
    let missing = try_fork(&scratch, session(SessionPoint::Turn(9))).unwrap_err();
    assert!(matches!(missing, ForkError::NoSuchTurn { turns: 3, .. }), "{missing}");
}

#[test]
fn a_fork_from_a_turn_that_was_taken_back_contains_the_turn() {
    let scratch = three_turns();
    scratch.roll_back("2");
    let fork = make_fork(&scratch, session(SessionPoint::Turn(3)));
    assert_eq!((read(&scratch, "a").as_str(), texts_of(&scratch, &fork).len()), ("3", 6));
    let fork = make_fork(&scratch, session(SessionPoint::LastTurn));
    assert_eq!((read(&scratch, "a").as_str(), texts_of(&scratch, &fork).len()), ("1", 2));
    assert_eq!((scratch.read("a").as_str(), scratch.prompts("s").len()), ("1", 1));
}

#[test]
fn a_fork_has_exact_copies_of_files_of_all_kinds() {
    let scratch = Scratch::new();
    let project = scratch.project();
    scratch.write(".gitignore", ".env\nnode_modules/\n");
    scratch.write(".env", "secret");
    fs::create_dir_all(project.join("node_modules/x")).unwrap();
    fs::create_dir_all(project.join("empty")).unwrap();
    symlink("nowhere", project.join("link")).unwrap();
    scratch.write("run", "#!/bin/sh\n");
    fs::set_permissions(project.join("run"), fs::Permissions::from_mode(0o711)).unwrap();
    scratch.play_turn("1", "a", "1");
    let fork = make_fork(&scratch, session(SessionPoint::Turn(1)));
    let to = scratch.base().join("fork");
    assert_eq!((read(&scratch, ".env"), read(&scratch, "a")), ("secret".into(), "1".into()));
    assert!(to.join("empty").is_dir() && !to.join("node_modules").exists());
    assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("nowhere"));
    assert_eq!(fs::metadata(to.join("run")).unwrap().permissions().mode() & 0o7777, 0o711);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(to), mode(project));
    let uncovered: Vec<String> =
        fork.uncovered.iter().map(|uncovered| uncovered.path.to_string()).collect();
    assert_eq!(uncovered, ["node_modules"]);
}

#[test]
fn the_two_directories_and_conversations_are_independent() {
    let scratch = three_turns();
    let fork = make_fork(&scratch, session(SessionPoint::Turn(2)));
    let id = fork.session.clone().unwrap();
    fs::write(scratch.base().join("fork/a"), "in the fork").unwrap();
    scratch.play_turn("4", "a", "4");
    assert_eq!((scratch.read("a").as_str(), read(&scratch, "a").as_str()), ("4", "in the fork"));
    scratch.roll_back("1");
    assert_eq!((scratch.read("a").as_str(), read(&scratch, "a").as_str()), ("3", "in the fork"));
    assert_eq!(texts(&scratch, &id).len(), 4);
}

#[test]
fn a_new_directory_begins_with_a_checkpoint_of_its_files() {
    let scratch = three_turns();
    make_fork(&scratch, session(SessionPoint::Turn(2)));
    let to = scratch.base().join("fork");
    let list = history::list_checkpoints(&scratch.opened, &to).unwrap();
    assert_eq!(list.checkpoints.len(), 1);
    let reason = &list.checkpoints[0].reason;
    assert!(reason.starts_with("forked from ") && reason.contains("/project ("), "{reason}");
    let workspace = history::open_workspace(&scratch.opened, &to).unwrap();
    let taken =
        history::take_checkpoint(&scratch.opened, &workspace, &CheckpointOptions::default());
    assert!(!taken.unwrap().is_new, "the directory is exactly as the checkpoint says");
}

#[test]
fn the_conversation_of_a_fork_from_a_step_ends_before_its_call() {
    let scratch = Scratch::new();
    scratch.write("a", "0");
    scratch.begin_turn("s", "do two things");
    for name in ["one", "two"] {
        let call = json!([{ "id": name, "function": { "name": "bash", "arguments": "{}" } }]);
        let (role, content) = ("assistant".into(), Some(format!("call {name}").into()));
        let message =
            MessageRecord { role, content, tool_calls: Some(call), ..MessageRecord::default() };
        let now = scratch.opened.now();
        scratch.opened.ledger_or_new().unwrap().append("mine:s", &[message], now).unwrap();
        let call = scratch.begin_script("s", name, "make");
        scratch.write("a", name);
        scratch.end_call("s", call);
    }
    scratch.end_turn("s");
    let fork = make_fork(&scratch, checkpoint(&scratch, "1.2"));
    assert_eq!(read(&scratch, "a"), "one");
    assert_eq!(texts_of(&scratch, &fork), ["do two things", "call one"]);
    let fork = make_fork(&scratch, checkpoint(&scratch, "1"));
    assert_eq!((read(&scratch, "a").as_str(), texts_of(&scratch, &fork).len()), ("0", 0));
}

#[test]
fn a_manual_checkpoint_can_be_forked_with_the_conversation_of_a_session() {
    let scratch = three_turns();
    let workspace = history::open_workspace(&scratch.opened, &scratch.project()).unwrap();
    let options = CheckpointOptions { name: Some("good".into()), ..CheckpointOptions::default() };
    history::take_checkpoint(&scratch.opened, &workspace, &options).unwrap();
    scratch.play_turn("4", "a", "4");
    let alone = make_fork(&scratch, checkpoint(&scratch, "good"));
    assert_eq!((read(&scratch, "a").as_str(), alone.session), ("3", None));
    let good = || session(SessionPoint::Checkpoint("good".into()));
    let fork = make_fork(&scratch, good());
    assert_eq!((read(&scratch, "a").as_str(), texts_of(&scratch, &fork).len()), ("3", 6));
    // The conversation has not changed since the last checkpoint.
    scratch.roll_back("good");
    let fork = make_fork(&scratch, good());
    assert_eq!(texts_of(&scratch, &fork).len(), 6);
    let request =
        ForkRequest { files: ForkFiles::Skip, ..ForkRequest::new(checkpoint(&scratch, "good")) };
    let error = fork::fork(&scratch.opened, &request).unwrap_err();
    assert!(matches!(error, ForkError::NoConversation(_)), "{error}");
}

/// Plays a turn in which the agent changes no files.
fn only_talk(scratch: &Scratch, prompt: &str) {
    scratch.begin_turn("s", prompt);
    scratch.end_turn("s");
}

#[test]
fn a_turn_without_changes_has_the_files_of_the_previous_turn() {
    let scratch = three_turns();
    only_talk(&scratch, "explain it");
    for point in [SessionPoint::Turn(4), SessionPoint::LastTurn] {
        let fork = make_fork(&scratch, session(point));
        assert_eq!((read(&scratch, "a").as_str(), fork.turn), ("3", Some(4)));
    }
    scratch.play_turn("5", "a", "5");
    make_fork(&scratch, session(SessionPoint::Turn(4)));
    assert_eq!(read(&scratch, "a"), "3");
}

#[test]
fn a_fork_fails_if_the_files_after_its_turn_are_unknown() {
    let scratch = three_turns();
    only_talk(&scratch, "explain it");
    scratch.write("a", "the user's");
    let error = try_fork(&scratch, session(SessionPoint::Turn(4))).unwrap_err();
    let ForkError::FilesUnknown { turn: Some(4), before: Some(before), after: None, .. } = error
    else {
        panic!("{error}");
    };
    assert_eq!(before.reason, "after bash");
    scratch.play_turn("5", "a", "5");
    let error = try_fork(&scratch, session(SessionPoint::Turn(4))).unwrap_err();
    let ForkError::FilesUnknown { before: Some(_), after: Some(after), .. } = error else {
        panic!("{error}");
    };
    assert!(!scratch.base().join("fork").exists());
    // The later checkpoint that the error names has the conversation of that turn, and the files as
    // they were before the next call.
    let fork = make_fork(&scratch, session(SessionPoint::Checkpoint(after.id.to_string())));
    assert_eq!((read(&scratch, "a").as_str(), fork.turn), ("the user's", Some(4)));
}

#[test]
fn a_fork_fails_if_the_end_of_a_call_was_not_reported() {
    let scratch = three_turns();
    scratch.begin_turn("s", "4");
    let _refused = scratch.begin_script("s", "c4", "make");
    scratch.write("a", "half");
    let error = try_fork(&scratch, session(SessionPoint::LastTurn)).unwrap_err();
    assert!(matches!(error, ForkError::FilesUnknown { turn: Some(4), .. }), "{error}");
    // The end of the turn is the latest possible end of its calls.
    scratch.end_turn("s");
    make_fork(&scratch, session(SessionPoint::LastTurn));
    assert_eq!(read(&scratch, "a"), "half");
}

#[test]
fn a_state_that_was_pruned_is_not_replaced_by_an_earlier_one() {
    let scratch = Scratch::new();
    scratch.write("a", "0");
    scratch.begin_turn("s", "do two things");
    for name in ["one", "two"] {
        let call = scratch.begin_script("s", name, "make");
        scratch.write("a", name);
        scratch.end_call("s", call);
    }
    scratch.end_turn("s");
    scratch.write("a", "edited");
    let store = scratch.opened.store().unwrap();
    let workspace = history::open_workspace(&scratch.opened, &scratch.project()).unwrap();
    let known = takeback_undo::read_checkpoints(store, workspace.id()).unwrap();
    let is_second = |id: &str| id == "two";
    for checkpoint in &known.all {
        if checkpoint.record.call.as_ref().is_some_and(|call| is_second(&call.id)) {
            store.unpin(&checkpoint.pin.name).unwrap();
        }
    }
    let error = try_fork(&scratch, session(SessionPoint::Turn(1))).unwrap_err();
    assert!(matches!(error, ForkError::FilesUnknown { .. }), "{error}");
}

#[test]
fn a_fork_from_a_turn_has_the_files_after_the_call_that_ended_last() {
    let scratch = Scratch::new();
    scratch.write("a", "0");
    scratch.begin_turn("s", "do two things at once");
    let slow = scratch.begin_script("s", "slow", "make slow");
    let fast = scratch.begin_script("s", "fast", "make fast");
    scratch.write("a", "fast");
    scratch.end_call("s", fast);
    scratch.write("a", "half");
    let error = try_fork(&scratch, session(SessionPoint::LastTurn)).unwrap_err();
    assert!(matches!(error, ForkError::FilesUnknown { .. }), "one is running: {error}");
    scratch.write("a", "slow");
    scratch.end_call("s", slow);
    scratch.end_turn("s");
    make_fork(&scratch, session(SessionPoint::LastTurn));
    assert_eq!(read(&scratch, "a"), "slow");
}

#[test]
fn a_running_call_without_a_checkpoint_of_its_own_is_not_overlooked() {
    let scratch = Scratch::new();
    scratch.write("a", "0");
    scratch.begin_turn("s", "do it");
    for name in ["changing", "idle"] {
        let call = scratch.begin_script("s", name, "make");
        scratch.write("a", "1");
        scratch.end_call("s", call);
    }
    // Nothing has changed since the last step, so this call gets no checkpoint.
    let running = scratch.begin_script("s", "running", "make");
    scratch.write("a", "half");
    let error = try_fork(&scratch, session(SessionPoint::LastTurn)).unwrap_err();
    assert!(matches!(error, ForkError::FilesUnknown { .. }), "{error}");
    scratch.end_call("s", running);
    make_fork(&scratch, session(SessionPoint::LastTurn));
    assert_eq!(read(&scratch, "a"), "half");
}

#[test]
fn the_work_of_a_subagent_is_part_of_the_turn() {
    let scratch = Scratch::new();
    scratch.write("a", "0");
    scratch.begin_turn("s", "delegate");
    let task = scratch.begin_script("s", "task", "make");
    let report = |event| {
        let report = takeback_undo::Report {
            agent: "mine".into(),
            session: "sub".into(),
            parent: Some("s".into()),
            turn: None,
            directory: scratch.project(),
            model: None,
            event,
        };
        let handled =
            takeback_undo::hook::handle(&scratch.opened, &report, &takeback_undo::Deadline::open());
        assert_eq!(handled.failures, Vec::<String>::new());
    };
    let call = takeback_undo::ToolCall {
        id: Some("inner".into()),
        tool: "bash".into(),
        input: json!({ "command": "make" }),
        work: takeback_undo::ToolWork::run_script("make"),
    };
    report(ReportedEvent::TurnStart { prompt: Some("work".into()) });
    report(ReportedEvent::BeforeTool(call.clone()));
    scratch.write("a", "by the subagent");
    report(ReportedEvent::AfterTool { call, outcome: None });
    report(ReportedEvent::TurnEnd);
    scratch.end_call("s", task);
    scratch.end_turn("s");
    scratch.write("a", "edited");
    let fork = make_fork(&scratch, session(SessionPoint::Turn(1)));
    assert_eq!((read(&scratch, "a").as_str(), fork.turn), ("by the subagent", Some(1)));
    let from = ForkPoint::Session { session: "mine:sub".into(), at: SessionPoint::LastTurn };
    let fork = make_fork(&scratch, from);
    assert_eq!(read(&scratch, "a"), "by the subagent");
    assert_eq!(texts_of(&scratch, &fork), ["work"]);
}

#[test]
fn a_fork_from_a_turn_that_was_partly_taken_back_fails() {
    let scratch = Scratch::new();
    scratch.write("a", "0");
    scratch.begin_turn("s", "do two things");
    for name in ["one", "two"] {
        let call = scratch.begin_script("s", name, "make");
        scratch.write("a", name);
        scratch.end_call("s", call);
        answer(&scratch, name);
        // The next call begins after the answer.
        shift_clock(1);
    }
    scratch.end_turn("s");
    scratch.roll_back("1.2");
    let error = try_fork(&scratch, session(SessionPoint::LastTurn)).unwrap_err();
    assert!(matches!(error, ForkError::PartlyTakenBack { turn: 1, .. }), "{error}");
    let fork = make_fork(&scratch, session(SessionPoint::Now));
    assert_eq!((read(&scratch, "a").as_str(), texts_of(&scratch, &fork).len()), ("one", 2));
}

#[test]
fn an_imported_session_without_checkpoints_can_be_forked_without_files() {
    let scratch = three_turns();
    {
        let mut ledger = scratch.opened.ledger_or_new().unwrap();
        let record = SessionRecord {
            id: "other:x".into(),
            source: "other".into(),
            workspace: Some(scratch.project().display().to_string()),
            ..SessionRecord::default()
        };
        ledger.create_session(&record, Time(1)).unwrap();
        let message = |role: &str| MessageRecord {
            role: role.into(),
            content: Some(role.into()),
            ..MessageRecord::default()
        };
        let messages = [message("user"), message("assistant"), message("user")];
        ledger.append("other:x", &messages, Time(2)).unwrap();
    }
    let from = ForkPoint::Session { session: "other:x".into(), at: SessionPoint::Turn(1) };
    let error = try_fork(&scratch, from.clone()).unwrap_err();
    assert!(matches!(error, ForkError::FilesUnknown { after: Some(_), .. }), "{error}");
    let request = ForkRequest { files: ForkFiles::Skip, ..ForkRequest::new(from) };
    let fork = fork::fork(&scratch.opened, &request).unwrap();
    assert_eq!(texts_of(&scratch, &fork), ["user", "assistant"]);
    assert_eq!((fork.directory, fork.checkpoint), (None, None));
}

#[test]
fn a_session_without_tool_calls_is_forked_with_the_current_files() {
    let scratch = Scratch::new();
    scratch.write("a", "mine");
    only_talk(&scratch, "plan it");
    let error = try_fork(&scratch, session(SessionPoint::LastTurn)).unwrap_err();
    assert!(matches!(error, ForkError::FilesUnknown { .. }), "{error}");
    let fork = make_fork(&scratch, session(SessionPoint::Now));
    assert_eq!(
        (read(&scratch, "a").as_str(), texts_of(&scratch, &fork)),
        ("mine", vec!["plan it".into()])
    );
    let list = history::list_checkpoints(&scratch.opened, &scratch.project()).unwrap();
    assert!(list.checkpoints.is_empty(), "the source's list stays as it was");
}

#[test]
fn a_session_without_prompts_is_forked_with_its_last_files() {
    let scratch = Scratch::new();
    scratch.write("a", "0");
    scratch.report("s", ReportedEvent::SessionStart);
    for name in ["1", "2"] {
        let call = scratch.begin_script("s", name, "make");
        scratch.write("a", name);
        scratch.end_call("s", call);
    }
    scratch.write("a", "edited");
    let fork = make_fork(&scratch, session(SessionPoint::LastTurn));
    assert_eq!((read(&scratch, "a").as_str(), fork.messages), ("2", Some(0)));
    let fork = make_fork(&scratch, checkpoint(&scratch, "1"));
    assert_eq!((read(&scratch, "a").as_str(), fork.messages), ("0", Some(0)));
}

#[test]
fn a_workspace_that_is_gone_can_still_be_forked() {
    let scratch = three_turns();
    fs::remove_dir_all(scratch.project()).unwrap();
    let fork = make_fork(&scratch, session(SessionPoint::Turn(2)));
    assert_eq!((read(&scratch, "a").as_str(), fork.turn), ("2", Some(2)));
    let mode = fs::metadata(scratch.base().join("fork")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "the mode of the workspace is not known");
}

#[test]
fn a_fork_never_touches_existing_files() {
    let scratch = three_turns();
    let fork_into = |path: PathBuf| {
        let from = session(SessionPoint::LastTurn);
        let request = ForkRequest { files: ForkFiles::Into(path), ..ForkRequest::new(from) };
        fork::fork(&scratch.opened, &request)
    };
    let full = scratch.base().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("mine"), "").unwrap();
    assert!(matches!(fork_into(full.clone()), Err(ForkError::NotEmpty(_))));
    assert!(matches!(fork_into(full.join("mine")), Err(ForkError::NotEmpty(_))));
    let dangling = scratch.base().join("dangling");
    symlink("nowhere", &dangling).unwrap();
    assert!(matches!(fork_into(dangling), Err(ForkError::NotEmpty(_))));
    assert!(matches!(fork_into(scratch.project().join("inner")), Err(ForkError::Inside(_))));
    assert!(matches!(fork_into(scratch.project()), Err(ForkError::Inside(_))));
    let own = scratch.base().join("home/fork");
    assert!(matches!(fork_into(own), Err(ForkError::Refused { .. })));
    assert_eq!(fs::read_dir(&full).unwrap().count(), 1);
    let sessions = scratch.opened.ledger().unwrap().unwrap();
    assert_eq!(sessions.sessions(&Default::default()).unwrap().len(), 1);
}

#[test]
fn forks_beside_the_workspace_get_different_names() {
    let scratch = three_turns();
    let fork = || {
        let request = ForkRequest::new(session(SessionPoint::LastTurn));
        let made = fork::fork(&scratch.opened, &request).unwrap();
        made.directory.unwrap().0.file_name().unwrap().to_owned()
    };
    assert_eq!([fork(), fork(), fork()], ["project-fork", "project-fork-2", "project-fork-3"]);
}

#[test]
fn an_id_that_is_taken_is_refused_and_nothing_is_left_behind() {
    let scratch = three_turns();
    let request = ForkRequest {
        files: ForkFiles::Into(scratch.base().join("fork")),
        id: Some("mine:s".into()),
        ..ForkRequest::new(session(SessionPoint::LastTurn))
    };
    let error = fork::fork(&scratch.opened, &request).unwrap_err();
    assert!(matches!(error, ForkError::Ledger(LedgerError::Exists(_))), "{error}");
    assert!(!scratch.base().join("fork").exists());
}

#[test]
fn a_forked_directory_can_be_forked_again() {
    let scratch = three_turns();
    let first = make_fork(&scratch, session(SessionPoint::Turn(2)));
    let again = ForkRequest::new(ForkPoint::Session {
        session: first.session.clone().unwrap(),
        at: SessionPoint::Checkpoint("1".into()),
    });
    let second = fork::fork(&scratch.opened, &again).unwrap();
    let directory = second.directory.unwrap().0;
    assert_eq!(fs::read_to_string(directory.join("a")).unwrap(), "2");
    let ledger = scratch.opened.ledger().unwrap().unwrap();
    let ancestors = ledger.ancestors(&second.session.unwrap()).unwrap();
    let ids: Vec<&str> = ancestors.iter().map(|session| session.id.as_str()).collect();
    assert_eq!(ids, [first.session.as_deref().unwrap(), "mine:s"]);
}

#[test]
fn checkpoints_and_sessions_can_be_named_in_many_ways() {
    let scratch = three_turns();
    let workspace = history::open_workspace(&scratch.opened, &scratch.project()).unwrap();
    let options = CheckpointOptions { name: Some("good".into()), ..CheckpointOptions::default() };
    let taken = history::take_checkpoint(&scratch.opened, &workspace, &options).unwrap();
    let id = taken.checkpoint.short_id();
    let parse = |text: &str| ForkPoint::parse(&scratch.opened, &scratch.project(), text);
    for text in ["2", "2.1", "good", &id] {
        assert_eq!(parse(text).unwrap(), checkpoint(&scratch, text));
    }
    let at = |name: &str, at| ForkPoint::Session { session: name.into(), at };
    assert_eq!(parse("mine:s").unwrap(), at("mine:s", SessionPoint::LastTurn));
    assert_eq!(parse("s@2").unwrap(), at("s", SessionPoint::Turn(2)));
    assert_eq!(parse("mine:s@now").unwrap(), at("mine:s", SessionPoint::Now));
    assert_eq!(parse("s@good").unwrap(), at("s", SessionPoint::Checkpoint("good".into())));
    scratch.opened.ledger_or_new().unwrap().set_title("mine:s", Some("me@home")).unwrap();
    assert_eq!(parse("me@home").unwrap(), at("me@home", SessionPoint::LastTurn));
    assert_eq!(parse("me@home@1").unwrap(), at("me@home", SessionPoint::Turn(1)));
    scratch.opened.ledger_or_new().unwrap().set_title("mine:s", Some("good")).unwrap();
    assert!(matches!(parse("good"), Err(ForkError::Ambiguous(_))));
    assert!(matches!(parse("nothing"), Err(ForkError::Unknown(_))));
    assert!(matches!(parse("s@"), Err(ForkError::NoPoint(_))));
    let missing = parse("nobody@3");
    assert!(
        matches!(missing, Err(ForkError::Ledger(LedgerError::NoSuchSession(_)))),
        "{missing:?}"
    );
}
