//! At a real terminal: what is about to happen is shown, and somebody is asked.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::agent::{Agent, rows};
use crate::session::{Session, tell_skipped};

/// Types an answer at a terminal that `script` makes; `None` if there is no such program.
fn typed(session: &Session, arguments: &str, answer: &str) -> Option<(String, Option<i32>)> {
    let program = env!("CARGO_BIN_EXE_takeback");
    let child = Command::new("script")
        .args(["-qec", &format!("{program} {arguments}"), "/dev/null"])
        .current_dir(session.project())
        .env("HOME", session.base())
        .env("TZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        tell_skipped("the program `script` is not installed");
        return None;
    };
    child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Some((String::from_utf8_lossy(&output.stdout).replace('\r', ""), output.status.code()))
}

fn worked() -> Session {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("one");
    agent.writes("a", "2");
    agent.pretends("git push");
    agent.is_done();
    session
}

#[test]
fn a_rollback_shows_its_plan_and_asks() {
    let session = worked();
    let Some((seen, code)) = typed(&session, "rollback 1", "n\n") else { return };
    assert_eq!((session.read("a"), code), ("2".into(), Some(1)), "{seen}");
    for part in
        ["Will restore:\n  a\n", "cannot be reversed:\n  publish: git push\n", "Go on? [y/N]"]
    {
        assert!(seen.contains(part), "{part:?} in {seen}");
    }
    assert!(seen.contains("Conversation: 1 message"), "{seen}");
    let (seen, code) = typed(&session, "rollback 1", "y\n").unwrap();
    assert_eq!((session.read("a"), code), ("1".into(), Some(0)), "{seen}");
}

#[test]
fn an_undo_shows_its_plan_and_asks() {
    let session = worked();
    let Some((seen, code)) = typed(&session, "undo", "\n") else { return };
    assert_eq!((session.read("a"), code), ("2".into(), Some(1)), "{seen}");
    assert!(seen.contains("Will restore:\n  a\n"), "{seen}");
    let (seen, code) = typed(&session, "undo --yes", "").unwrap();
    assert_eq!((session.read("a"), code), ("1".into(), Some(0)), "{seen}");
    assert!(!seen.contains("Go on?"), "{seen}");
}

#[test]
fn clearing_is_asked_about() {
    let session = worked();
    let Some((seen, code)) = typed(&session, "checkpoints clear", "n\n") else { return };
    assert_eq!((rows(&session).len(), code), (1, Some(1)), "{seen}");
    assert!(seen.contains("It cannot be taken back."), "{seen}");
    let (seen, code) = typed(&session, "checkpoints clear", "y\n").unwrap();
    assert_eq!((rows(&session).len(), code), (0, Some(0)), "{seen}");
}

/// While somebody thinks, an agent goes on working; what was planned is not what would be done.
#[test]
fn what_changed_while_somebody_thought_is_not_overwritten() {
    let session = worked();
    let program = env!("CARGO_BIN_EXE_takeback");
    let Ok(mut child) = Command::new("script")
        .args(["-qec", &format!("{program} rollback 1"), "/dev/null"])
        .current_dir(session.project())
        .env("HOME", session.base())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
    else {
        tell_skipped("the program `script` is not installed");
        return;
    };
    let mut seen = Vec::new();
    let mut byte = [0];
    let mut stdout = child.stdout.take().unwrap();
    while !seen.ends_with(b"Go on? [y/N] ") {
        std::io::Read::read_exact(&mut stdout, &mut byte).unwrap();
        seen.push(byte[0]);
    }
    let mut agent = Agent::new(&session, "s2");
    agent.turn("meanwhile", "new", "1");
    child.stdin.take().unwrap().write_all(b"y\n").unwrap();
    std::io::Read::read_to_end(&mut stdout, &mut seen).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let seen = String::from_utf8_lossy(&seen);
    assert!(seen.contains("the workspace changed meanwhile; nothing was restored"), "{seen}");
    assert_eq!((session.read("a"), session.read("new")), ("2".into(), "1".into()));
}
