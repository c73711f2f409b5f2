//! Hooks under bad conditions: their input stays open, or they cannot start threads, write large
//! files or finish in time.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use serde_json::json;

use crate::agent::{Agent, configure, eventually, hook, rows};
use crate::session::{Session, tell_skipped};

fn to_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a hook whose input stays open after the event.
fn hook_with_open_input(session: &Session, event: &[u8]) -> Output {
    let mut command = session.command(&["hook", "generic"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(event).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    output
}

/// Some agents keep standard input open. If the hook waited for the end of its input, this test
/// would hang.
#[test]
fn a_hook_does_not_wait_for_the_end_of_its_input() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    let call = agent.call("Write", json!({ "path": "a" }));
    let output = hook_with_open_input(&session, &agent.event(call.event("before_tool")));
    assert_eq!((output.status.code(), to_text(&output.stderr)), (Some(0), String::new()));
    assert_eq!(rows(&session).len(), 1);
}

#[test]
fn broken_json_is_a_failure_even_if_the_input_stays_open() {
    let session = Session::new();
    let output = hook_with_open_input(&session, b"{\"event\": \"before_tool\"] ");
    assert_eq!(output.status.code(), Some(0));
    let said = to_text(&output.stderr);
    assert!(said.starts_with("takeback: cannot read the event on standard input: "), "{said}");
}

/// Runs a hook under a system limit, as a user who cannot exceed it.
fn hook_under(session: &Session, limit: &str, event: &[u8]) -> Option<Output> {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !has("prlimit") || !has("setpriv") {
        tell_skipped("prlimit and setpriv are missing");
        return None;
    }
    let mut command = Command::new("prlimit");
    command.args(["--core=0", limit]);
    // Root has no limit on processes, so run the hook as a user who owns no other processes.
    if rustix::process::getuid().is_root() {
        let everyone = fs::Permissions::from_mode(0o777);
        for path in [session.base(), session.project()] {
            fs::set_permissions(path, everyone.clone()).unwrap();
        }
        command.args(["setpriv", "--reuid=64321", "--clear-groups", "--inh-caps=-all"]);
    }
    command.arg(env!("CARGO_BIN_EXE_takeback")).args(["hook", "generic"]);
    command.current_dir(session.project()).env("HOME", session.base()).env("TZ", "UTC");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(event);
    Some(child.wait_with_output().unwrap())
}

#[test]
fn a_hook_that_cannot_start_threads_works_without_them() {
    let session = Session::new();
    for number in 0..200 {
        session.write(&format!("d{}/f{number}", number % 20), &number.to_string());
    }
    let mut agent = Agent::new(&session, "s1");
    // The pack is so large that it is synced while it is being written.
    let large: Vec<u8> =
        (0..3_u32 << 20).flat_map(|n| n.wrapping_mul(0x9e37_79b1).to_le_bytes()).collect();
    fs::write(session.project().join("large"), &large).unwrap();
    let call = agent.call("Bash", json!({ "command": "rm -r d1 large" }));
    let event = agent.event(call.event("before_tool"));
    let Some(output) = hook_under(&session, "--nproc=1", &event) else { return };
    assert_eq!((output.status.code(), to_text(&output.stderr)), (Some(0), String::new()));
    fs::remove_dir_all(session.project().join("d1")).unwrap();
    fs::remove_file(session.project().join("large")).unwrap();
    assert_eq!(rows(&session).len(), 1);
    session.json(&["rollback", "1"]);
    assert_eq!(session.read("d1/f1"), "1");
    assert!(fs::read(session.project().join("large")).unwrap() == large);
}

#[test]
fn a_file_size_limit_causes_a_failure_but_does_not_kill_the_hook() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    let call = agent.call("Write", json!({ "path": "a" }));
    let event = agent.event(call.event("before_tool"));
    let Some(output) = hook_under(&session, "--fsize=10", &event) else { return };
    let said = to_text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{:?}: {said}", output.status);
    assert!(said.contains("File too large"), "{said}");
}

#[test]
fn the_generic_hook_answers_in_json() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    let call = agent.call("Write", json!({ "path": "a" }));
    let event = agent.event(call.event("before_tool"));
    let output = hook(&session.base(), &["hook", "generic", "--json"], &event);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let id = rows(&session)[0]["id"].clone();
    let expected = json!({
        "session": "mine:s1", "enabled": true, "checkpoints": [id], "missed": false,
        "late": false, "failures": [], "unprotected": [], "tampering": [], "refused": false,
    });
    assert_eq!((answer, output.status.code()), (expected, Some(0)));
    let event = br#"{"event": "befor_tool"}"#;
    let output = hook(&session.base(), &["hook", "generic", "--json"], event);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let failure = "unknown event: use session_start, turn_start, before_tool, after_tool, \
                   turn_end, session_end";
    assert_eq!(answer["failures"], json!([failure]));
    assert_eq!(to_text(&output.stderr), format!("takeback: {failure}\n"));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn files_that_are_deleted_before_their_late_capture_come_back() {
    let session = Session::new();
    session.write(".gitignore", "*.bin\n");
    session.write("model.bin", "mine");
    session.write("data/deep/x", "1");
    fs::set_permissions(session.project().join("data/deep/x"), fs::Permissions::from_mode(0o750))
        .unwrap();
    session.write("kept", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("begin", "a", "1");
    configure(&session, "[checkpoints]\ntimeout_ms = 200\n");
    agent.hears("tidy up");
    let call = agent.call("Bash", json!({ "command": "rm -rf model.bin data; mv kept moved" }));
    // As long as another process holds the lock, nothing is captured.
    let lock = session.lock_workspace();
    let said = agent.report(call.event("before_tool"));
    assert!(said.contains("not done within 200 ms"), "{said}");
    fs::remove_file(session.project().join("model.bin")).unwrap();
    fs::remove_dir_all(session.project().join("data")).unwrap();
    fs::rename(session.project().join("kept"), session.project().join("moved")).unwrap();
    drop(lock);
    eventually("the late capture is complete", || {
        rows(&session).first().is_some_and(|row| row["late"] == true)
    });
    let held = session.base().join(".takeback/checkpoints/held");
    eventually("no file is held anymore", || fs::read_dir(&held).unwrap().next().is_none());
    session.json(&["rollback", "1"]);
    assert_eq!(session.read("model.bin"), "mine");
    assert_eq!((session.read("data/deep/x"), session.read("kept")), ("1".into(), "1".into()));
    let mode = fs::metadata(session.project().join("data/deep/x")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
}
