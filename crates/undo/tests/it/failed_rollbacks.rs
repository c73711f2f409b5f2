//! A rollback that failed is treated as if it was never made: there is no rollback to undo, and the
//! turn can still be undone.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use takeback_base::lock_wait::LockWait;
use takeback_tree::WorkspaceGuard;
use takeback_tree::fault::{self, Fault};
use takeback_undo::{
    Destination, Opened, Request, Resume, RollbackError, TurnUndo, history, rollback,
};

use crate::support::Scratch;

const EIO: i32 = 5;

/// The environment variable that passes the scratch directory to a child process.
const DIRECTORY: &str = "TAKEBACK_FAILED_DIRECTORY";
/// The environment variable that gives the point at which a child process is killed.
const POINT: &str = "TAKEBACK_FAILED_POINT";

/// Plays a turn that changes, creates and deletes files.
fn scratch_after_a_turn() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("a", "1\n");
    scratch.write("gone", "1\n");
    scratch.play_turn_of("s", "change everything", || {
        scratch.write("a", "2\n");
        scratch.write("new", "2\n");
        scratch.remove("gone");
    });
    scratch
}

fn roll_back(opened: &Opened, base: &Path) -> Result<(), RollbackError> {
    let request = Request::new(base.join("project"), Destination::Checkpoint("1".into()));
    rollback::apply(opened, rollback::plan(opened, &request)?).map(drop)
}

/// Returns true if the conversation still has its message.
fn has_message(opened: &Opened) -> bool {
    let ledger = opened.ledger().unwrap().unwrap();
    ledger.session("mine:s").unwrap().message_count == 1
}

/// Checks that files, conversation, `undo` and `rollback undo` agree on whether the rollback was
/// made. Returns true if it was.
fn assert_one_story(base: &Path, point: usize) -> bool {
    let opened = Scratch::open(base);
    let plan = |to| rollback::plan(&opened, &Request::new(base.join("project"), to));
    let reversal = plan(Destination::BeforeLastRollback);
    let undo = plan(Destination::WithoutTurn(TurnUndo::default()));
    let was_made = fs::read_to_string(base.join("project/a")).unwrap() == "1\n";
    assert_eq!(base.join("project/gone").exists(), was_made, "point {point}");
    assert_eq!(base.join("project/new").exists(), !was_made, "point {point}");
    assert_eq!(has_message(&opened), !was_made, "point {point}");
    if was_made {
        assert_eq!(reversal.unwrap().view().restored.len(), 2, "point {point}");
        assert!(matches!(undo, Err(RollbackError::NoTurn)), "point {point}: {undo:?}");
    } else {
        let is_nothing = matches!(reversal, Err(RollbackError::NothingToUndo));
        assert!(is_nothing, "point {point}: {reversal:?}");
        assert_eq!(undo.unwrap().view().restored.len(), 2, "point {point}");
    }
    was_made
}

#[test]
fn a_rollback_that_fails_at_any_step_changes_nothing() {
    for is_lasting in [false, true] {
        let mut failures = 0;
        for point in 0.. {
            let scratch = scratch_after_a_turn();
            fault::arm(point, Fault::Errno(EIO), is_lasting);
            let result = roll_back(&scratch.opened, scratch.base());
            let passed = fault::disarm();
            let was_made = assert_one_story(scratch.base(), point);
            match result {
                Ok(()) => assert!(was_made, "point {point}"),
                // If the rollback could not even be reverted, the next command finishes or reverts
                // it.
                Err(_) if is_lasting => failures += 1,
                Err(error) => {
                    assert!(!was_made, "point {point}: {error}");
                    failures += 1;
                }
            }
            if passed <= point {
                break;
            }
        }
        assert!(failures > 15, "only {failures} failures");
    }
}

#[test]
fn a_rollback_killed_at_any_step_takes_effect_completely_or_not_at_all() {
    const TEST: &str =
        "failed_rollbacks::a_rollback_killed_at_any_step_takes_effect_completely_or_not_at_all";
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let base = Path::new(&directory);
        let point = std::env::var(POINT).unwrap().parse().unwrap();
        fault::arm(point, Fault::Kill, false);
        roll_back(&Scratch::open(base), base).unwrap();
        return;
    }
    let (mut made, mut not_made) = (0, 0);
    for point in 0.. {
        let scratch = scratch_after_a_turn();
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .env(DIRECTORY, scratch.base())
            .env(POINT, point.to_string())
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success() || status.signal() == Some(9), "{status:?}");
        match assert_one_story(scratch.base(), point) {
            true => made += 1,
            false => not_made += 1,
        }
        if status.success() {
            break;
        }
    }
    assert!(made > 10 && not_made > 5, "{made} {not_made}");
}

/// Plays a turn that also changes files outside the workspace.
fn scratch_after_a_turn_outside() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("a", "1\n");
    for name in ["note", "other"] {
        fs::write(scratch.base().join(name), "1\n").unwrap();
    }
    scratch.begin_turn("s", "change everything");
    for name in ["a", "../note", "../other"] {
        let call = scratch.begin_edit("s", "edit", name, &[name]);
        scratch.write(name, "2\n");
        scratch.end_call("s", call);
    }
    scratch.end_turn("s");
    scratch
}

#[test]
fn a_rollback_killed_at_any_step_is_finished_outside_the_workspace_as_well() {
    const TEST: &str =
        "failed_rollbacks::a_rollback_killed_at_any_step_is_finished_outside_the_workspace_as_well";
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let base = Path::new(&directory);
        let point = std::env::var(POINT).unwrap().parse().unwrap();
        fault::arm(point, Fault::Kill, false);
        roll_back(&Scratch::open(base), base).unwrap();
        return;
    }
    let (mut made, mut not_made) = (0, 0);
    // Every third step is enough: there are many steps, and each one needs a process.
    for point in (0..).step_by(3) {
        let scratch = scratch_after_a_turn_outside();
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .env(DIRECTORY, scratch.base())
            .env(POINT, point.to_string())
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success() || status.signal() == Some(9), "{status:?}");
        let opened = Scratch::open(scratch.base());
        let list = history::list_checkpoints(&opened, &scratch.project()).unwrap();
        assert!(list.failures.is_empty(), "point {point}: {:?}", list.failures);
        let inside = scratch.read("a");
        let outside = ["../note", "../other"].map(|name| scratch.read(name));
        assert!(outside.iter().all(|content| *content == inside), "point {point}: {outside:?}");
        match inside == "1\n" {
            true => made += 1,
            false => not_made += 1,
        }
        if status.success() {
            break;
        }
        if inside == "1\n" {
            scratch.carry_out(Destination::BeforeLastRollback);
            assert_eq!(["a", "../note", "../other"].map(|name| scratch.read(name)), ["2\n"; 3]);
        }
    }
    assert!(made > 10 && not_made > 3, "{made} {not_made}");
}

/// Rolls back while the ledger cannot be written to: only the files are restored.
fn roll_back_without_a_ledger(scratch: &Scratch) {
    let planned = scratch.plan(Destination::Checkpoint("1".into()));
    let ledger = scratch.base().join("home/state.db");
    let aside = scratch.base().join("state.db");
    fs::rename(&ledger, &aside).unwrap();
    fs::create_dir(&ledger).unwrap();
    scratch.apply(planned).unwrap();
    assert_eq!(scratch.read("a"), "1\n");
    fs::remove_dir(&ledger).unwrap();
    fs::rename(&aside, &ledger).unwrap();
}

#[test]
fn a_conversation_that_cannot_be_moved_now_is_moved_by_the_next_command() {
    let scratch = scratch_after_a_turn();
    roll_back_without_a_ledger(&scratch);
    assert_one_story(scratch.base(), 0);
    // The conversation is moved once, and the files are not touched again.
    scratch.begin_turn("s", "go on");
    scratch.write("a", "2\n");
    history::list_checkpoints(&Scratch::open(scratch.base()), &scratch.project()).unwrap();
    assert_eq!((scratch.read("a").as_str(), scratch.prompts("s")), ("2\n", vec!["go on".into()]));
}

/// One value for each conversation that was moved after a rollback: true if the workspace was not
/// locked at that time.
static FOLLOWED: Mutex<Vec<bool>> = Mutex::new(Vec::new());

fn follow_and_note(opened: &Opened, session: &str) -> Result<Option<Resume>, String> {
    assert_eq!(session, "mine:s");
    let store = opened.store().unwrap();
    let workspace = store.workspaces().unwrap().remove(0);
    FOLLOWED.lock().unwrap().push(store.try_lock_workspace(&workspace).unwrap().is_some());
    Ok(None)
}

#[test]
fn agents_do_not_wait_until_a_conversation_has_followed_an_interrupted_rollback() {
    let scratch = scratch_after_a_turn();
    roll_back_without_a_ledger(&scratch);
    for _ in 0..2 {
        let next = Scratch::open_following_attended(scratch.base(), follow_and_note);
        history::list_checkpoints(&next, &scratch.project()).unwrap();
    }
    assert_eq!(*FOLLOWED.lock().unwrap(), [true], "it follows once, and without the lock");
}

#[test]
fn a_prompt_after_an_interrupted_rollback_is_not_taken_back_with_it() {
    let scratch = scratch_after_a_turn();
    roll_back_without_a_ledger(&scratch);
    scratch.begin_turn("s", "go on");
    assert_eq!(scratch.prompts("s"), ["go on"]);
    history::list_checkpoints(&Scratch::open(scratch.base()), &scratch.project()).unwrap();
    assert_eq!(scratch.prompts("s"), ["go on"]);
}

/// The lock of a workspace, held by another process.
static HELD: Mutex<Option<WorkspaceGuard>> = Mutex::new(None);

#[test]
fn a_prompt_is_not_taken_back_by_a_rollback_that_another_process_is_finishing() {
    let mut scratch = scratch_after_a_turn();
    roll_back_without_a_ledger(&scratch);
    let store = scratch.opened.store().unwrap();
    let workspace = store.workspace_id(&scratch.project());
    *HELD.lock().unwrap() = store.try_lock_workspace(&workspace).unwrap();
    // The other process releases its lock as soon as the hook starts to wait for it.
    let on_wait = |_| drop(HELD.lock().unwrap().take());
    let wait = LockWait { limit: Duration::from_secs(60), on_wait };
    scratch.opened = Scratch::open_waiting(scratch.base(), wait);
    scratch.begin_turn("s", "go on");
    HELD.lock().unwrap().take();
    history::list_checkpoints(&Scratch::open(scratch.base()), &scratch.project()).unwrap();
    assert_eq!(scratch.prompts("s"), ["go on"]);
}

/// The directory in which the user edits a file while a restore fails.
static MEANWHILE: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Edits a file in the workspace, as the user could while a restore fails.
fn edit_a_file() {
    let project = MEANWHILE.lock().unwrap().clone().unwrap();
    fs::write(project.join("a"), "the user's\n").unwrap();
}

#[test]
fn a_rollback_that_fails_while_the_user_is_writing_keeps_what_the_user_wrote() {
    let mut left = 0;
    for point in 0.. {
        let scratch = scratch_after_a_turn();
        *MEANWHILE.lock().unwrap() = Some(scratch.project());
        fault::arm(point, Fault::Meanwhile(edit_a_file, EIO), false);
        let result = roll_back(&scratch.opened, scratch.base());
        if fault::disarm() <= point {
            break;
        }
        let reversal = rollback::plan(
            &scratch.opened,
            &Request::new(scratch.project(), Destination::BeforeLastRollback),
        );
        if result.is_ok() {
            continue;
        }
        let is_nothing = matches!(reversal, Err(RollbackError::NothingToUndo));
        assert!(is_nothing, "point {point}: {reversal:?}");
        assert_eq!(scratch.read("a"), "the user's\n", "point {point}");
        if let Err(RollbackError::Restore(takeback_tree::RestoreError::Left { .. })) = result {
            left += 1;
        }
    }
    assert!(left > 0);
}
