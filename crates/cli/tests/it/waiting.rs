//! Commands wait while another process is using the workspace, and name that process.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::{ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agent::rows;
use crate::session::{Session, said};

/// Creates a project with a checkpoint.
fn with_checkpoint() -> Session {
    let session = Session::new();
    session.write("a", "1");
    assert!(session.output(&["checkpoint"]).status.success());
    session.write("a", "2");
    session
}

/// Runs takeback in a workspace that this process keeps locked for the given time.
fn run_beside_lock(session: &Session, arguments: &[&str], held: Duration) -> Output {
    let lock = session.lock_workspace();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(held);
            lock.unlock().unwrap();
        });
        session.output(arguments)
    })
}

fn notice() -> String {
    match cfg!(target_os = "linux") {
        true => format!("waiting for another takeback process (pid {}) …\n", std::process::id()),
        false => "waiting for another takeback process …\n".to_owned(),
    }
}

#[test]
fn the_user_is_not_told_about_a_short_wait() {
    for arguments in [
        &["checkpoint"][..],
        &["rollback", "1"],
        &["diff", "1"],
        &["checkpoints", "prune"],
        &["checkpoints", "clear", "--force"],
    ] {
        let session = with_checkpoint();
        let output = run_beside_lock(&session, arguments, Duration::from_millis(300));
        assert_eq!(
            (output.status.code(), said(&output)),
            (Some(0), String::new()),
            "{arguments:?}"
        );
    }
}

/// Runs takeback in a workspace that this process keeps locked until takeback prints something.
fn run_until_notice(session: &Session, arguments: &[&str]) -> (ExitStatus, String) {
    let lock = session.lock_workspace();
    let mut command = session.command(arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    stderr.read_line(&mut said).unwrap();
    lock.unlock().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    (child.wait().unwrap(), said)
}

#[test]
fn after_a_second_the_user_is_told_which_process_the_command_is_waiting_for() {
    let session = with_checkpoint();
    let begin = Instant::now();
    let (status, said) = run_until_notice(&session, &["rollback", "1"]);
    assert!(begin.elapsed() >= Duration::from_secs(1));
    assert_eq!((status.code(), said), (Some(0), notice()));
    assert_eq!(session.read("a"), "1");
    let (status, said) = run_until_notice(&session, &["checkpoints", "clear", "--force"]);
    assert_eq!((status.code(), said), (Some(0), notice()));
    assert_eq!(rows(&session).len(), 0);
}

#[test]
fn after_ten_seconds_the_command_gives_up_and_changes_nothing() {
    let session = with_checkpoint();
    let begin = Instant::now();
    let lock = session.lock_workspace();
    let output = session.output(&["rollback", "1"]);
    drop(lock);
    assert!((10..20).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    assert!(text.starts_with(&notice()), "{text}");
    assert!(text.contains(") is using this workspace\nhint: nothing was changed; "), "{text}");
    assert_eq!(session.read("a"), "2");
}

#[test]
fn a_gc_waits_while_another_process_is_cleaning_up_the_store() {
    let session = with_checkpoint();
    let path = session.base().join(".takeback/checkpoints/store/gc.lock");
    assert!(session.output(&["checkpoints", "gc"]).status.success());
    let lock = File::open(path).unwrap();
    lock.lock().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            lock.unlock().unwrap();
        });
        session.output(&["checkpoints", "gc"])
    });
    assert_eq!((output.status.code(), said(&output)), (Some(0), String::new()));
}

#[test]
fn a_workspace_in_use_keeps_its_checkpoints_and_is_reported() {
    let session = Session::new();
    session.output(&["checkpoint"]);
    let lock = session.lock_workspace();
    let output = session.output(&["checkpoints", "clear", "-f", "--json"]);
    let cleared: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&cleared["checkpoints"], &cleared["workspaces"]), (&json!(0), &json!(0)));
    assert_eq!((&cleared["busy"], output.status.code()), (&json!([session.project()]), Some(1)));
    drop(lock);
    assert_eq!(rows(&session).len(), 1);
}
