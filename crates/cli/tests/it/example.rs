//! The example of an agent that is built on takeback's crates.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use takeback_script::{Reply, Request};

use crate::scripted_model::{StuckModel, text_of};
use crate::session::{Session, tell_skipped};

/// Finds the example, which cargo builds together with the tests.
fn find_example() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_BIN_EXE_takeback")).with_file_name("examples");
    let program = beside.join("durable_agent");
    if program.exists() {
        return Some(program);
    }
    tell_skipped("the example durable_agent is not built");
    None
}

fn answer(request: &Request) -> Reply {
    match request.last_result() {
        None => Reply::call("clock", json!({})),
        Some(result) => Reply::text(format!("It is {}.", result.text)),
    }
}

#[test]
fn the_example_uses_its_own_tool_and_continues_after_a_kill() {
    let Some(program) = find_example() else { return };
    let model = StuckModel::start(answer, |request| request.last_result().is_some());
    let session = Session::new();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(session.project()).env_clear();
        command.env("MODEL_URL", format!("{}/v1", model.server.url())).stdout(Stdio::piped());
        command
    };
    let mut child = run(&["what time is it?"]).spawn().unwrap();
    model.reached.recv().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    model.release();
    let shown = text_of(&run(&[]).output().unwrap());
    assert!(shown.starts_with("Continuing the interrupted turn.\n"), "{shown}");
    assert!(shown.contains("It is 1") && shown.ends_with("Complete\n"), "{shown}");
    // The clock tool was called only once, because its step had been finished before the kill.
    assert!(!shown.contains("[clock"), "{shown}");
}
