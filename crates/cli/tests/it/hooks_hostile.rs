//! Hooks in a hostile environment: pipes and devices in place of git's files, and processes that
//! are killed or never end.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::agent::{Agent, configure};
use crate::session::{Session, said};

/// Starts a Claude Code hook for a call.
fn start_hook(session: &Session, arguments: &[&str]) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_takeback"))
        .args(arguments)
        .current_dir(session.project())
        .env_clear()
        .env("HOME", session.base())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let event = json!({ "hook_event_name": "PreToolUse", "session_id": "s", "cwd": session.project(),
        "tool_name": "Write", "tool_use_id": "c", "tool_input": { "file_path": "a" } });
    child.stdin.take().unwrap().write_all(event.to_string().as_bytes()).unwrap();
    child
}

/// Creates a project with a checkpoint, so that its workspace can be locked.
fn project() -> Session {
    let session = Session::new();
    session.write("a", "0");
    Agent::new(&session, "s1").turn("make it 1", "a", "1");
    session
}

/// Waits until a process has started another one, and returns the id of the new process.
fn child_of(parent: u32) -> i32 {
    let children = format!("/proc/{parent}/task/{parent}/children");
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        let children = fs::read_to_string(&children).unwrap_or_default();
        if let Some(child) = children.split_whitespace().next() {
            return child.parse().unwrap();
        }
        std::thread::yield_now();
    }
    panic!("no process was started");
}

#[test]
fn a_strict_hook_that_is_killed_refuses_the_call() {
    let session = project();
    configure(&session, "[checkpoints]\nstrict = true\ntimeout_ms = 600000\n");
    // The hook waits for the lock, so it is certainly killed in the middle of its work.
    let _lock = session.lock_workspace();
    for arguments in [&["hook", "claude"][..], &["hook", "claude", "--strict"]] {
        let hook = start_hook(&session, arguments);
        let worker = rustix::process::Pid::from_raw(child_of(hook.id())).unwrap();
        rustix::process::kill_process(worker, rustix::process::Signal::KILL).unwrap();
        let output = hook.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let told = said(&output);
        assert!(told.contains("takeback: ended abnormally, signal: 9"), "{told}");
    }
}

#[test]
fn a_process_with_a_deadline_ends_although_the_workspace_stays_locked() {
    let session = project();
    let _lock = session.lock_workspace();
    let turn = json!({ "id": { "number": 1 }, "number": 1 }).to_string();
    for arguments in [
        &["--end-after", "1", "hook", "claude", "--late", &turn][..],
        &["--end-after", "1", "checkpoints", "warm"],
    ] {
        let output = start_hook(&session, arguments).wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    }
}

#[test]
fn pipes_and_devices_in_place_of_git_files_block_nothing() {
    for name in ["packed-refs", "HEAD", "index", "refs/heads/main", "commondir"] {
        for is_pipe in [true, false] {
            let session = Session::new();
            session.write("a", "0");
            fs::create_dir_all(session.project().join(".git/refs/heads")).unwrap();
            session.write(".git/HEAD", "ref: refs/heads/main\n");
            let path = session.project().join(".git").join(name);
            let _ = fs::remove_file(&path);
            if is_pipe {
                let made = Command::new("mkfifo").arg(&path).status().unwrap();
                assert!(made.success());
            } else {
                symlink("/dev/zero", &path).unwrap();
            }
            // The time limit matters only if the test fails.
            let run = |arguments: &[&str]| {
                let output = session.output(&[&["--end-after", "60"], arguments].concat());
                assert!(output.status.success(), "{name} {is_pipe} {arguments:?}: {output:?}");
            };
            let output = start_hook(&session, &["--end-after", "60", "hook", "claude"]);
            let output = output.wait_with_output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{name}: {output:?}");
            run(&["checkpoint"]);
            session.write("a", "1");
            run(&["rollback", "1"]);
            assert_eq!(session.read("a"), "0", "{name} {is_pipe}");
        }
    }
}

#[test]
fn a_pipe_in_place_of_an_inner_repository_blocks_nothing() {
    let session = Session::new();
    session.write("vendor/a", "0");
    let pipe = session.project().join("vendor/.git");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut agent = Agent::new(&session, "s1");
    // A hook that waited for the pipe would take longer than an agent waits, and would report a
    // timeout.
    let call = agent.call("Bash", json!({ "command": "rm -rf vendor" }));
    let said = agent.report(call.event("before_tool"));
    assert!(!said.contains("timeout") && !said.contains("ms"), "{said}");
    fs::remove_dir_all(session.project().join("vendor")).unwrap();
    session.json(&["rollback", "1"]);
    assert_eq!(session.read("vendor/a"), "0");
}
