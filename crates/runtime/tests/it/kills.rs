//! Killed processes: the next one continues at the exact step.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use serde_json::json;
use takeback_runtime::{Pause, Task, fault};
use takeback_script::{Reply, Request, Server, ToolCall};

use crate::subagents::delegator;
use crate::support::{Recorder, Scratch, agent};

const BASE: &str = "TAKEBACK_TEST_BASE";
const URL: &str = "TAKEBACK_TEST_URL";
const KILL_AT: &str = "TAKEBACK_TEST_KILL_AT";

/// The process that is killed: begins the task or continues it, and runs it to the end.
#[test]
#[ignore = "other tests start it"]
fn run_until_killed() {
    let Some(base) = std::env::var_os(BASE) else { return };
    let url = std::env::var(URL).unwrap();
    if let Ok(nth) = std::env::var(KILL_AT) {
        fault::kill_at(nth.parse().unwrap());
    }
    let agent = agent(Path::new(&base), &url);
    let project = Path::new(&base).join("project").canonicalize().unwrap();
    let is_begun = agent.opened.ledger().unwrap().is_some_and(|ledger| ledger.task("t1").is_ok());
    let front = Recorder::default();
    let mut task = match is_begun {
        true => Task::resume_task(agent, "t1").unwrap(),
        false => Task::begin(agent, &project, Default::default(), "t1").unwrap(),
    };
    let prompts = fs::read_to_string(Path::new(&base).join("prompts")).unwrap();
    if task.is_interrupted() {
        task.proceed(&front).unwrap();
    }
    for prompt in prompts.lines().skip(task.state().turns as usize) {
        assert!(matches!(task.prompt(prompt, &front).unwrap(), Pause::TurnEnded(_)));
    }
}

fn run_child(scratch: &Scratch, server: &Server, kill_at: Option<i64>) -> ExitStatus {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "kills::run_until_killed", "--ignored", "--quiet"]);
    command.env(BASE, scratch.base()).env(URL, server.url());
    if let Some(nth) = kill_at {
        command.env(KILL_AT, nth.to_string());
    }
    command.stdout(std::process::Stdio::null()).status().unwrap()
}

/// The files of the project, the messages of all sessions, and the bills.
#[derive(Debug, PartialEq)]
struct Outcome {
    files: BTreeMap<String, String>,
    conversations: Vec<Vec<String>>,
    bills: Vec<(i64, i64, i64)>,
}

fn read_outcome(scratch: &Scratch) -> Outcome {
    let ledger = scratch.ledger();
    let entries = fs::read_dir(scratch.project()).unwrap().flatten();
    let files = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .map(|name| (name.clone(), scratch.read(&name)))
        .collect();
    let sessions = ledger.session_ids(&[]).unwrap();
    let mut conversations: Vec<Vec<String>> =
        sessions.iter().map(|session| scratch.conversation(session)).collect();
    // Subagents finish in any order.
    conversations.iter_mut().for_each(|messages| messages.sort());
    conversations.sort();
    let bill = |id: &String| {
        let session = ledger.session(id).unwrap();
        (session.api_call_count, session.tokens.input, session.tokens.output)
    };
    let mut bills: Vec<(i64, i64, i64)> = sessions.iter().map(bill).collect();
    bills.sort_unstable();
    Outcome { files, conversations, bills }
}

fn new_scratch(prompts: &str) -> Scratch {
    let scratch = Scratch::new();
    fs::write(scratch.base().join("prompts"), prompts).unwrap();
    scratch
}

/// Kills the process at each point of the journal in turn, and compares the end with that of an
/// undisturbed run. Returns the number of kills.
fn kill_everywhere(prompts: &str, script: fn(&Request) -> Reply, step: usize) -> usize {
    let server = Server::start(script).unwrap();
    let undisturbed = new_scratch(prompts);
    assert!(run_child(&undisturbed, &server, None).success());
    let expected = read_outcome(&undisturbed);
    for nth in (0..).step_by(step) {
        let scratch = new_scratch(prompts);
        let status = run_child(&scratch, &server, Some(nth));
        if status.success() {
            return nth as usize;
        }
        assert_eq!(status.signal(), Some(9), "at point {nth}");
        assert!(run_child(&scratch, &server, None).success(), "after point {nth}");
        assert_eq!(read_outcome(&scratch), expected, "killed at point {nth}");
    }
    unreachable!()
}

/// Reads a file, writes two files and edits one, in two turns.
fn editor(request: &Request) -> Reply {
    let results: usize = request.messages.iter().map(|message| message.results.len()).sum();
    let call = |name: &str, input| ToolCall { id: String::new(), name: name.into(), input };
    match results {
        0 => Reply {
            text: "First I look.".into(),
            calls: vec![
                call("list_files", json!({})),
                call("write_file", json!({ "path": "a.txt", "content": "one\n" })),
            ],
            ..Reply::default()
        },
        2 => Reply::call("write_file", json!({ "path": "sub/b.txt", "content": "b\n" })),
        3 if request.last_text() == "first" => Reply::text("The first part is done."),
        3 => {
            let edits = json!([{ "old": "one", "new": "two" }]);
            Reply::call("patch", json!({ "path": "a.txt", "edits": edits }))
        }
        _ => Reply::text("Everything is done."),
    }
}

#[test]
fn a_killed_process_continues_at_the_exact_step() {
    let kills = kill_everywhere("first\nsecond\n", editor, 1);
    assert!(kills > 30, "{kills}");
}

#[test]
fn killed_subagents_continue_where_they_were() {
    let kills = kill_everywhere("delegate\n", delegator, 2);
    assert!(kills > 20, "{kills}");
}

#[test]
fn a_command_that_was_running_is_not_repeated_blindly() {
    fn appender(request: &Request) -> Reply {
        match request.last_result() {
            None => Reply::call("terminal", json!({ "command": "echo line >> log.txt" })),
            Some(result) if result.text.contains("unknown whether") => Reply::text("I looked."),
            Some(_) => Reply::text("Done."),
        }
    }
    let server = Server::start(appender).unwrap();
    for nth in 0.. {
        let scratch = new_scratch("append\n");
        if run_child(&scratch, &server, Some(nth)).success() {
            assert!(nth > 8, "{nth}");
            return;
        }
        assert!(run_child(&scratch, &server, None).success(), "after point {nth}");
        assert_eq!(scratch.read("log.txt"), "line\n", "killed at point {nth}");
    }
}
