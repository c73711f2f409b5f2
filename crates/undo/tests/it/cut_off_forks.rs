//! A fork that is cut off leaves nothing behind, or is completed by the next command.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use takeback_tree::fault::{self, Fault};
use takeback_undo::{
    Fork, ForkError, ForkFiles, ForkPoint, ForkRequest, Opened, SessionPoint, finish_forks, fork,
    history,
};

use crate::support::Scratch;

/// The environment variable that passes the scratch directory to a child process.
const DIRECTORY: &str = "TAKEBACK_FORK_DIRECTORY";
/// The environment variable that gives the point at which a child process is killed.
const POINT: &str = "TAKEBACK_FORK_POINT";

const ID: &str = "takeback:fork";

fn scratch_after_a_turn() -> Scratch {
    let scratch = Scratch::new();
    run_git(&scratch.project(), &["init", "-q", "--template="]);
    scratch.write("a", "1");
    fs::create_dir_all(scratch.project().join("deep/er")).unwrap();
    scratch.write("deep/er/b", "1");
    scratch.play_turn("change it", "a", "2");
    scratch
}

fn run_git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b"])
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn make_fork(opened: &Opened, base: &Path) -> Result<Fork, ForkError> {
    let from = ForkPoint::Session { session: "mine:s".into(), at: SessionPoint::LastTurn };
    let request = ForkRequest {
        files: ForkFiles::Into(base.join("new/fork")),
        id: Some(ID.into()),
        ..ForkRequest::new(from)
    };
    fork::fork(opened, &request)
}

/// Checks that there is a complete fork or none at all. Returns true if there is one.
fn assert_all_or_nothing(scratch: &Scratch, point: usize) -> bool {
    let opened = Scratch::open(scratch.base());
    finish_forks(&opened);
    let session = opened.ledger().unwrap().unwrap().session(ID).ok();
    let to = scratch.base().join("new/fork");
    assert_eq!(to.exists(), session.is_some(), "point {point}");
    let beside = fs::read_dir(scratch.base().join("new")).into_iter().flatten().count();
    assert_eq!(beside, usize::from(to.exists()), "point {point}");
    let intents = fs::read_dir(scratch.base().join("home/checkpoints/forks"));
    let intents = intents.into_iter().flatten().flatten().map(|entry| entry.file_name());
    assert_eq!(intents.filter(|name| name != "lock").count(), 0, "point {point}");
    let Some(session) = session else { return false };
    let name = fs::canonicalize(&to).unwrap().display().to_string();
    assert_eq!((session.message_count, session.workspace), (1, Some(name)), "point {point}");
    assert_eq!(fs::read_to_string(to.join("a")).unwrap(), "2", "point {point}");
    assert_eq!(fs::read_to_string(to.join("deep/er/b")).unwrap(), "1", "point {point}");
    assert_eq!(run_git(&to, &["status", "--porcelain"]), "?? a\n?? deep/\n", "point {point}");
    let list = history::list_checkpoints(&opened, &to).unwrap();
    assert_eq!(list.checkpoints.len(), 1, "point {point}");
    true
}

#[test]
fn a_fork_killed_at_any_step_is_complete_or_absent() {
    const TEST: &str = "cut_off_forks::a_fork_killed_at_any_step_is_complete_or_absent";
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let base = Path::new(&directory);
        let point = std::env::var(POINT).unwrap().parse().unwrap();
        fault::arm(point, Fault::Kill, false);
        make_fork(&Scratch::open(base), base).unwrap();
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
        match assert_all_or_nothing(&scratch, point) {
            true => made += 1,
            false => {
                not_made += 1;
                // Nothing prevents the next attempt.
                make_fork(&scratch.opened, scratch.base()).unwrap();
                assert!(assert_all_or_nothing(&scratch, point));
            }
        }
        if status.success() {
            break;
        }
    }
    assert!(made > 2 && not_made > 5, "{made} {not_made}");
}

#[test]
fn the_users_empty_directory_is_not_mistaken_for_a_killed_fork() {
    const TEST: &str = "cut_off_forks::the_users_empty_directory_is_not_mistaken_for_a_killed_fork";
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let base = Path::new(&directory);
        fault::arm(std::env::var(POINT).unwrap().parse().unwrap(), Fault::Kill, false);
        make_fork(&Scratch::open(base), base).unwrap();
        return;
    }
    let scratch = scratch_after_a_turn();
    let to = scratch.base().join("new/fork");
    fs::create_dir_all(&to).unwrap();
    for point in 0..4 {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .env(DIRECTORY, scratch.base())
            .env(POINT, point.to_string())
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.signal(), Some(9));
        let opened = Scratch::open(scratch.base());
        finish_forks(&opened);
        assert!(opened.ledger().unwrap().unwrap().session(ID).is_err(), "point {point}");
        assert_eq!(fs::read_dir(&to).unwrap().count(), 0, "point {point}");
        assert_eq!(fs::read_dir(scratch.base().join("new")).unwrap().count(), 1);
    }
    make_fork(&scratch.opened, scratch.base()).unwrap();
    assert!(assert_all_or_nothing(&scratch, 0));
}

#[test]
fn a_fork_that_fails_at_any_step_leaves_nothing_behind() {
    let mut failures = 0;
    for point in 0.. {
        let scratch = scratch_after_a_turn();
        fault::arm(point, Fault::Errno(28), false);
        let result = make_fork(&scratch.opened, scratch.base());
        let passed = fault::disarm();
        let is_made = scratch.base().join("new/fork").exists();
        assert_eq!(result.is_ok(), is_made, "point {point}: {result:?}");
        match result {
            Ok(fork) => {
                // If the fork has no copy of the repository, there is a warning.
                let has_repository = fork.repository.is_some();
                let to = scratch.base().join("new/fork");
                assert_eq!(to.join(".git").exists(), has_repository, "point {point}");
                assert!(has_repository || !fork.warnings.is_empty(), "point {point}");
            }
            Err(_) => {
                failures += 1;
                assert!(!assert_all_or_nothing(&scratch, point));
                assert!(!scratch.base().join("new").exists(), "point {point}");
            }
        }
        if passed <= point {
            break;
        }
    }
    assert!(failures > 5, "only {failures} failures");
}

/// The scratch directory whose ledger disappears.
static MEANWHILE: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Replaces the ledger with a directory.
fn hide_ledger() {
    let base = MEANWHILE.lock().unwrap().clone().unwrap();
    fs::rename(base.join("home/state.db"), base.join("state.db")).unwrap();
    fs::create_dir(base.join("home/state.db")).unwrap();
}

#[test]
fn a_conversation_that_cannot_be_forked_now_is_forked_by_the_next_command() {
    let scratch = scratch_after_a_turn();
    let base = scratch.base().to_owned();
    *MEANWHILE.lock().unwrap() = Some(base.clone());
    fault::interrupt_at("a new directory is in its place", hide_ledger);
    let fork = make_fork(&scratch.opened, &base).unwrap();
    assert_eq!(fork.session.as_deref(), Some(ID));
    assert!(fork.warnings[0].contains("could not be forked yet"), "{:?}", fork.warnings);
    fs::remove_dir(base.join("home/state.db")).unwrap();
    fs::rename(base.join("state.db"), base.join("home/state.db")).unwrap();
    assert!(assert_all_or_nothing(&scratch, 0));
}

#[test]
fn a_fork_that_another_process_is_making_is_not_touched() {
    let scratch = scratch_after_a_turn();
    fault::interrupt_at("a new directory is in its place", || {
        let base = MEANWHILE.lock().unwrap().clone().unwrap();
        let opened = Scratch::open(&base);
        finish_forks(&opened);
        assert!(opened.ledger().unwrap().unwrap().session(ID).is_err());
    });
    *MEANWHILE.lock().unwrap() = Some(scratch.base().to_owned());
    make_fork(&scratch.opened, scratch.base()).unwrap();
    assert!(assert_all_or_nothing(&scratch, 0));
}

#[test]
fn a_fork_of_a_repository_has_the_commit_and_the_index_of_its_checkpoint() {
    let scratch = Scratch::new();
    let project = scratch.project();
    let git = |arguments: &[&str]| run_git(&project, arguments);
    git(&["init", "-q", "-b", "main"]);
    scratch.write("a", "1");
    scratch.write("b", "1");
    git(&["add", "."]);
    git(&["commit", "-qm", "one"]);
    scratch.write("a", "staged");
    git(&["add", "a"]);
    scratch.write("b", "edited");
    scratch.write("new", "untracked");
    let status = git(&["status", "--porcelain"]);
    let head = git(&["rev-parse", "HEAD"]);
    scratch.play_turn_of("s", "commit it", || {
        run_git(&scratch.project(), &["checkout", "-q", "-b", "topic"]);
        run_git(&scratch.project(), &["commit", "-qam", "two"]);
    });
    let after = (git(&["status", "--porcelain"]), git(&["rev-parse", "HEAD"]));
    git(&["commit", "-q", "--allow-empty", "-m", "three"]);
    let fork_into = |name: &str, from: ForkPoint, repository: bool| {
        let to = scratch.base().join(name);
        let files = ForkFiles::Into(to.clone());
        let request = ForkRequest { files, repository, ..ForkRequest::new(from) };
        let made = fork::fork(&scratch.opened, &request).unwrap();
        assert_eq!(made.warnings, Vec::<String>::new());
        (made, to)
    };
    let first = ForkPoint::Checkpoint { directory: scratch.project(), checkpoint: "1".into() };
    let (made, to) = fork_into("before", first.clone(), true);
    assert_eq!(made.repository.unwrap().branch.as_deref(), Some("main"));
    assert_eq!(run_git(&to, &["status", "--porcelain"]), status);
    assert_eq!(run_git(&to, &["rev-parse", "HEAD"]), head);
    let turn = ForkPoint::Session { session: "mine:s".into(), at: SessionPoint::Turn(1) };
    let (made, to) = fork_into("after", turn, true);
    assert_eq!(made.repository.unwrap().branch.as_deref(), Some("topic"));
    let now = (run_git(&to, &["status", "--porcelain"]), run_git(&to, &["rev-parse", "HEAD"]));
    assert_eq!(now, after);
    run_git(&to, &["fsck", "--strict"]);
    run_git(&to, &["commit", "-q", "--allow-empty", "-m", "only in the fork"]);
    assert_eq!(git(&["log", "-1", "--format=%s"]).trim(), "three");
    let (made, to) = fork_into("without", first, false);
    assert!(made.repository.is_none() && !to.join(".git").exists());
}

#[test]
fn a_fork_from_a_state_before_git_init_has_no_repository() {
    let scratch = Scratch::new();
    scratch.write("a", "1");
    scratch.play_turn_of("s", "begin", || {
        run_git(&scratch.project(), &["init", "-q"]);
    });
    let from = ForkPoint::Checkpoint { directory: scratch.project(), checkpoint: "1".into() };
    let made = fork::fork(&scratch.opened, &ForkRequest::new(from)).unwrap();
    let to = made.directory.unwrap().0;
    assert!(made.repository.is_none() && to.join("a").exists() && !to.join(".git").exists());
    let from = ForkPoint::Session { session: "mine:s".into(), at: SessionPoint::LastTurn };
    let made = fork::fork(&scratch.opened, &ForkRequest::new(from)).unwrap();
    assert!(made.repository.is_some());
}
