//! Files, conversations and turns stay consistent, no matter what is rolled back and when.

use takeback_undo::{Destination, Opened, Request, Resume, Scope, history, rollback};

use crate::support::{Scratch, shift_clock};

/// Creates a workspace in which a session wrote `a` in four turns.
fn with_four_turns() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("a", "0\n");
    for number in ["1", "2", "3", "4"] {
        scratch.play_turn(number, "a", &format!("{number}\n"));
    }
    scratch
}

fn taken_back(scratch: &Scratch) -> Vec<bool> {
    let list = history::list_checkpoints(&scratch.opened, &scratch.project()).unwrap();
    list.checkpoints.iter().map(|row| row.taken_back).collect()
}

#[test]
fn turns_that_are_in_force_again_are_back_in_the_conversation() {
    let scratch = with_four_turns();
    scratch.roll_back("3");
    assert_eq!(scratch.prompts("s"), ["1"]);
    assert_eq!(taken_back(&scratch), [true, true, true, false]);
    let view = scratch.roll_back("1");
    assert_eq!((scratch.read("a").as_str(), view.redone_messages), ("3\n", 2));
    assert_eq!(scratch.prompts("s"), ["1", "2", "3"]);
    assert_eq!(taken_back(&scratch), [true, false, false, false]);
    assert_eq!(scratch.undo().row, Some(2), "the last turn in force is that of row 2");
    assert_eq!(scratch.read("a"), "2\n");
}

#[test]
fn each_step_back_through_rollbacks_restores_files_and_conversation() {
    let scratch = with_four_turns();
    let undo = || scratch.carry_out(Destination::BeforeLastRollback);
    let redo = || scratch.carry_out(Destination::BeforeLastUndo);
    scratch.roll_back("3");
    scratch.roll_back("1");
    undo();
    assert_eq!((scratch.read("a").as_str(), scratch.prompts("s")), ("1\n", vec!["1".into()]));
    undo();
    assert_eq!((scratch.read("a").as_str(), scratch.prompts("s").len()), ("4\n", 4));
    redo();
    assert_eq!((scratch.read("a").as_str(), scratch.prompts("s").len()), ("1\n", 1));
    redo();
    assert_eq!((scratch.read("a").as_str(), scratch.prompts("s").len()), ("3\n", 3));
    assert_eq!(taken_back(&scratch), [true, false, false, false]);
}

#[test]
fn a_turn_after_a_rollback_is_taken_back_when_the_rollback_is_undone() {
    let scratch = with_four_turns();
    scratch.roll_back("3");
    scratch.play_turn("5", "a", "5\n");
    assert_eq!(scratch.prompts("s"), ["1", "5"]);
    scratch.carry_out(Destination::BeforeLastRollback);
    assert_eq!(scratch.prompts("s"), ["1", "2", "3", "4"]);
    assert_eq!(scratch.read("a"), "4\n");
    scratch.carry_out(Destination::BeforeLastUndo);
    assert_eq!(
        (scratch.read("a").as_str(), scratch.prompts("s")),
        ("5\n", vec!["1".into(), "5".into()])
    );
}

#[test]
fn a_return_to_another_branch_restores_its_turns() {
    let scratch = with_four_turns();
    scratch.roll_back("3");
    scratch.play_turn("5", "a", "5\n");
    // Row 2 is now the fourth turn.
    scratch.roll_back("2");
    assert_eq!((scratch.read("a").as_str(), scratch.prompts("s").len()), ("3\n", 3));
    assert_eq!(scratch.prompts("s"), ["1", "2", "3"]);
    assert_eq!(taken_back(&scratch), [true, true, false, false, false]);
}

#[test]
fn a_clock_that_jumps_does_not_separate_files_from_the_conversation() {
    for jump in [-3, -3_600, 3_600] {
        let scratch = Scratch::new();
        scratch.write("a", "0\n");
        scratch.play_turn("1", "a", "1\n");
        scratch.begin_turn("s", "2");
        shift_clock(jump);
        let call = scratch.begin_script("s", "c2", "psql -c 'drop table x'; make");
        scratch.write("a", "2\n");
        shift_clock(-jump);
        scratch.end_call("s", call);
        scratch.end_turn("s");
        shift_clock(jump);
        scratch.play_turn("3", "a", "3\n");
        let list = history::list_checkpoints(&scratch.opened, &scratch.project()).unwrap();
        let prompts: Vec<_> = list.checkpoints.iter().map(|row| row.prompt.as_deref()).collect();
        assert_eq!(prompts, [Some("3"), Some("2"), Some("1")], "{jump}");
        let effects: Vec<_> = list.checkpoints.iter().map(|row| row.effects.len()).collect();
        assert_eq!(effects, [0, 1, 0], "{jump}");
        let view = scratch.roll_back("2");
        assert_eq!((scratch.read("a").as_str(), view.effects.len()), ("1\n", 1), "{jump}");
        assert_eq!(scratch.prompts("s"), ["1"], "{jump}");
        scratch.carry_out(Destination::BeforeLastRollback);
        assert_eq!(scratch.prompts("s"), ["1", "2", "3"], "{jump}");
        assert!(scratch.roll_back("1").effects.is_empty(), "{jump}");
        shift_clock(-jump);
    }
}

#[test]
fn a_call_that_the_ledger_does_not_know_is_part_of_its_turn_regardless_of_the_clock() {
    for jump in [-3_600, 3_600] {
        let scratch = Scratch::new();
        scratch.write("a", "0\n");
        scratch.play_turn("1", "a", "1\n");
        scratch.begin_turn("s", "2");
        shift_clock(jump);
        scratch.begin_script("s", "killed", "make");
        scratch.write("a", "2\n");
        // The hook took the checkpoint, but was killed before it wrote to the ledger.
        let ledger = rusqlite::Connection::open(scratch.base().join("home/state.db")).unwrap();
        assert_eq!(ledger.execute("DELETE FROM calls WHERE call = 'killed'", []).unwrap(), 1);
        shift_clock(-2 * jump);
        scratch.end_turn("s");
        scratch.play_turn("3", "a", "3\n");
        let list = history::list_checkpoints(&scratch.opened, &scratch.project()).unwrap();
        let prompts: Vec<_> = list.checkpoints.iter().map(|row| row.prompt.as_deref()).collect();
        assert_eq!(prompts, [Some("3"), Some("2"), Some("1")], "{jump}");
        scratch.roll_back("2");
        assert_eq!((scratch.read("a"), scratch.prompts("s")), ("1\n".into(), vec!["1".into()]));
        shift_clock(jump);
    }
}

#[test]
fn only_a_conversation_that_cannot_be_read_is_left_unchanged() {
    let scratch = Scratch::new();
    scratch.write("a", "0\n");
    scratch.play_turn_of("broken", "1", || scratch.write("a", "1\n"));
    scratch.play_turn_of("s", "2", || scratch.write("a", "2\n"));
    scratch.play_turn_of("broken", "3", || scratch.write("a", "3\n"));
    let ledger = rusqlite::Connection::open(scratch.base().join("home/state.db")).unwrap();
    let damage = "UPDATE turns SET started_at = 'never' WHERE turn = 1 AND session =
        (SELECT key FROM sessions WHERE id = 'mine:broken')";
    assert_eq!(ledger.execute(damage, []).unwrap(), 1);
    let view = scratch.roll_back("3");
    assert_eq!((scratch.read("a"), scratch.prompts("s")), ("0\n".into(), Vec::<String>::new()));
    let moved: Vec<_> = view.sessions.iter().map(|moved| moved.session.as_str()).collect();
    assert_eq!(moved, ["mine:s"]);
    assert_eq!(view.warnings.len(), 1, "{:?}", view.warnings);
    let warning = "the conversation of mine:broken is left unchanged: ";
    assert!(view.warnings[0].starts_with(warning), "{:?}", view.warnings);
    let undone = "SELECT count(*) FROM messages m JOIN sessions s ON s.key = m.session
        WHERE s.id = 'mine:broken' AND undone";
    assert_eq!(ledger.query_row(undone, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

#[test]
fn the_effects_since_a_manual_checkpoint_do_not_depend_on_clocks() {
    for jump in [-3_600, 3_600] {
        let scratch = Scratch::new();
        scratch.write("a", "0\n");
        let play_turn = |name: &str| {
            scratch.begin_turn("s", name);
            let script = format!("psql -c 'drop table {name}'; make");
            let call = scratch.begin_script("s", name, &script);
            scratch.write("a", name);
            scratch.end_call("s", call);
            scratch.end_turn("s");
        };
        play_turn("earlier");
        shift_clock(jump);
        let options = history::CheckpointOptions::default();
        let workspace = history::open_workspace(&scratch.opened, &scratch.project()).unwrap();
        history::take_checkpoint(&scratch.opened, &workspace, &options).unwrap();
        shift_clock(-jump);
        play_turn("later");
        let view = scratch.roll_back("2");
        let effects: Vec<_> = view.effects.iter().map(|effect| effect.command.as_str()).collect();
        assert_eq!(effects, ["psql -c 'drop table later'"], "{jump}");
    }
}

#[test]
fn a_call_after_the_end_of_a_turn_belongs_to_no_prompt() {
    let scratch = Scratch::new();
    scratch.write("a", "0\n");
    scratch.play_turn("1", "a", "1\n");
    let call = scratch.begin_script("s", "c2", "make");
    scratch.write("a", "2\n");
    scratch.end_call("s", call);
    scratch.roll_back("1");
    assert_eq!((scratch.read("a").as_str(), scratch.prompts("s")), ("1\n", vec!["1".into()]));
}

#[test]
fn a_rollback_takes_back_the_turns_of_every_session() {
    let scratch = Scratch::new();
    scratch.write("a", "0\n");
    scratch.play_turn_of("one", "1", || scratch.write("a", "1\n"));
    scratch.play_turn_of("two", "2", || scratch.write("b", "2\n"));
    scratch.play_turn_of("two", "3", || scratch.write("c", "3\n"));
    let view = scratch.roll_back("3");
    assert!(!scratch.exists("b") && !scratch.exists("c"));
    assert_eq!((scratch.prompts("one").len(), scratch.prompts("two").len()), (0, 0));
    let sessions: Vec<_> =
        view.sessions.iter().map(|moved| (moved.session.as_str(), moved.undone_messages)).collect();
    assert_eq!(sessions, [("mine:one", 1), ("mine:two", 2)]);
    // Go forward to the state before the last turn of the second session.
    let view = scratch.roll_back("1");
    assert_eq!(
        (scratch.prompts("one"), scratch.prompts("two")),
        (vec!["1".into()], vec!["2".into()])
    );
    let sessions: Vec<_> =
        view.sessions.iter().map(|moved| (moved.session.as_str(), moved.redone_messages)).collect();
    assert_eq!(sessions, [("mine:two", 1), ("mine:one", 1)]);
    assert!(scratch.exists("b") && !scratch.exists("c"));
}

#[test]
fn a_session_that_worked_only_before_the_checkpoint_keeps_its_turns() {
    let scratch = Scratch::new();
    scratch.write("a", "0\n");
    scratch.play_turn_of("one", "1", || scratch.write("a", "1\n"));
    scratch.play_turn_of("two", "2", || scratch.write("b", "2\n"));
    scratch.roll_back("1");
    assert_eq!((scratch.prompts("one"), scratch.prompts("two").len()), (vec!["1".into()], 0));
}

/// Takes back the conversation of the first row, and leaves the files unchanged.
fn take_back_conversation(scratch: &Scratch) {
    let to = Destination::Checkpoint("1".into());
    let request = Request { scope: Scope::Chat, ..Request::new(scratch.project(), to) };
    let view = rollback::roll_back(&scratch.opened, &request).unwrap();
    assert_eq!((view.undone_messages, view.restored.len()), (1, 0));
}

#[test]
fn taking_back_only_a_conversation_leaves_a_notice_about_effects() {
    let scratch = Scratch::new();
    scratch.play_turn_of("other", "beside it", || scratch.write("b", "1"));
    scratch.begin_turn("s", "drop it");
    let call = scratch.begin_script("s", "c", "psql shop -c 'drop table carts' > a");
    scratch.write("a", "1");
    scratch.end_call("s", call);
    scratch.end_turn("s");
    take_back_conversation(&scratch);
    let notices = rollback::take_notices(&scratch.opened, "mine:s").unwrap();
    let [notice] = notices.as_slice() else { panic!("{notices:?}") };
    assert_eq!((notice.files.len(), notice.more, notice.effects.len()), (0, 0, 1));
    assert_eq!(notice.effects[0].kind, "database");
    assert!(rollback::take_notices(&scratch.opened, "mine:other").unwrap().is_empty());
}

#[test]
fn taking_back_only_a_conversation_leaves_a_notice_about_the_prompt() {
    let scratch = with_four_turns();
    take_back_conversation(&scratch);
    let notices = rollback::take_notices(&scratch.opened, "mine:s").unwrap();
    let [notice] = notices.as_slice() else { panic!("{notices:?}") };
    assert!(notice.files.is_empty() && notice.effects.is_empty(), "{notice:?}");
    assert!(notice.taken_back.is_some(), "{notice:?}");
}

/// Fails if the only workspace in the store is locked.
fn follow_if_unlocked(opened: &Opened, _: &str) -> Result<Option<Resume>, String> {
    let store = opened.store().unwrap();
    let id = store.workspaces().unwrap().remove(0);
    match store.try_lock_workspace(&id).unwrap() {
        Some(_) => Ok(None),
        None => Err("the workspace is locked".to_owned()),
    }
}

#[test]
fn agents_in_the_workspace_do_not_wait_for_a_conversation_to_be_copied() {
    let scratch = Scratch::new();
    scratch.play_turn("one", "a", "1");
    scratch.play_turn("two", "a", "2");
    let opened = Scratch::open_following(scratch.base(), follow_if_unlocked);
    let to = Destination::Checkpoint("1".to_owned());
    let view = rollback::roll_back(&opened, &Request::new(scratch.project(), to)).unwrap();
    let stays: Vec<Option<String>> = view.sessions.into_iter().map(|moved| moved.stays).collect();
    assert_eq!(stays, [None]);
}

/// Reports that the conversation was taken back inside the open agent.
fn follow_in_place(_: &Opened, session: &str) -> Result<Option<Resume>, String> {
    let (agent, id) = session.split_once(':').unwrap();
    Ok(Some(Resume {
        agent: agent.to_owned(),
        session: Some(id.to_owned()),
        argv: vec![agent.to_owned()],
        cwd: None,
        typed: None,
        file: None,
        in_place: true,
    }))
}

#[test]
fn an_agent_whose_conversation_was_rewound_in_place_is_told_only_about_effects() {
    let scratch = Scratch::new();
    scratch.play_turn_of("other", "beside it", || scratch.write("b", "1"));
    scratch.begin_turn("s", "drop it");
    let call = scratch.begin_script("s", "c", "psql shop -c 'drop table carts' > a");
    scratch.write("a", "1");
    scratch.end_call("s", call);
    scratch.end_turn("s");
    let opened = Scratch::open_following(scratch.base(), follow_in_place);
    let to = Destination::Checkpoint("1".to_owned());
    rollback::roll_back(&opened, &Request::new(scratch.project(), to)).unwrap();
    let notices = rollback::take_notices(&scratch.opened, "mine:s").unwrap();
    let [notice] = notices.as_slice() else { panic!("{notices:?}") };
    assert!(notice.files.is_empty() && notice.taken_back.is_none(), "{notice:?}");
    assert_eq!(notice.effects.len(), 1, "{notice:?}");
    let text = rollback::notice_text(&notices).unwrap();
    assert!(!text.contains("drop it") && text.contains("psql shop"), "{text}");
    let others = rollback::take_notices(&scratch.opened, "mine:other").unwrap();
    assert_eq!(others[0].files.len(), 1, "the other session still knows the file");
}
