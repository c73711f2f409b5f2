//! `takeback chat`, `tasks` and `goal`, with a scripted model.

use std::fs;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};

use serde_json::{Value, json};
use takeback_script::{Reply, Request, Server, StreamGate, StreamStep};

use crate::pseudo_terminal::PseudoTerminal;
use crate::scripted_model::{
    chat, chat_output, last_session, list_tasks, parse_lines, text_of, with_model, writer,
};
use crate::session::Session;

#[test]
fn one_turn_writes_a_file_and_can_be_taken_back() {
    let server = Server::start(writer).unwrap();
    let session = with_model(&server);
    let output = chat(&session, &["chat", "-p", "write"]).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let calls = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && calls.contains("write_file"), "{calls}");
    // The answer is printed as the model wrote it, because the output does not go to a terminal.
    assert_eq!(shown, "I wrote the **note**.\n");
    assert_eq!(session.read("note.txt"), "hello\n");
    let done = session.json(&["rollback", "1"]);
    assert_eq!((done["deleted"].clone(), session.exists("note.txt")), (json!(["note.txt"]), false));
    assert_eq!(done["undone_messages"], 4);
}

#[test]
fn events_are_lines_of_json() {
    let server = Server::start(writer).unwrap();
    let session = with_model(&server);
    let output = chat(&session, &["chat", "-p", "write", "--json"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(kinds[..3], ["turn_started", "call_started", "call_ended"], "{text}");
    assert_eq!(events[0]["session"], last_session(&session), "a script can continue it");
    let last = events.last().unwrap();
    assert_eq!((&last["event"], &last["outcome"]), (&json!("turn_ended"), &json!("complete")));
}

#[test]
fn a_killed_chat_is_listed_as_interrupted_and_continues() {
    let (sender, reached) = mpsc::channel();
    let first = AtomicBool::new(true);
    let release = Arc::new(Barrier::new(2));
    let server = Server::start({
        let release = release.clone();
        move |request: &Request| {
            let reply = writer(request);
            if request.last_result().is_none() || !first.swap(false, Ordering::SeqCst) {
                return reply;
            }
            // The first answer is held back until the chat has been killed.
            let (sender, release) = (sender.clone(), release.clone());
            let wait = move |_| {
                sender.send(()).unwrap();
                release.wait();
                StreamStep::Cut
            };
            Reply { gate: Some(StreamGate::new(wait)), ..reply }
        }
    })
    .unwrap();
    let session = with_model(&server);
    let mut command = chat(&session, &["chat", "-p", "write"]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    reached.recv().unwrap();
    let running = list_tasks(&session);
    assert_eq!(running[0]["state"], "running");
    child.kill().unwrap();
    child.wait().unwrap();
    release.wait();
    let task = list_tasks(&session).remove(0);
    assert_eq!(task["state"], "interrupted");
    // The file is not written again, because its step was already finished.
    fs::remove_file(session.project().join("note.txt")).unwrap();
    let id = task["id"].as_str().unwrap();
    let resumed = chat(&session, &["tasks", "resume", id]).output().unwrap();
    let shown = String::from_utf8(resumed.stdout).unwrap();
    assert!(resumed.status.success() && shown.contains("I wrote the **note**."), "{shown}");
    assert!(!session.exists("note.txt"));
    assert_eq!(list_tasks(&session)[0]["state"], "idle");
}

#[test]
fn a_call_that_needs_approval_waits_and_can_be_abandoned() {
    let server = Server::start(writer).unwrap();
    let session = with_model(&server);
    let output = chat(&session, &["chat", "-p", "publish"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let task = list_tasks(&session).remove(0);
    assert_eq!(task["state"], "waiting");
    let id = task["id"].as_str().unwrap();
    let told = text_of(&output);
    assert!(told.contains(&format!("takeback tasks resume {id}")), "{told}");
    let again = chat(&session, &["tasks", "resume", id, "--json"]).output().unwrap();
    let events = parse_lines(std::str::from_utf8(&again.stdout).unwrap());
    let last = events.last().unwrap();
    assert_eq!((&last["event"], &last["task"]), (&json!("turn_waiting"), &json!(id)));
    let blocked = chat(&session, &["chat", "--resume", "-p", "hi"]).output().unwrap();
    let told = text_of(&blocked);
    assert!(told.contains("is not over") && told.contains(id), "{told}");
    let cancelled = session.json(&["tasks", "cancel", id]);
    assert_eq!(cancelled["state"], "idle");
    let again = chat(&session, &["chat", "--resume", "-p", "hi"]).output().unwrap();
    assert!(String::from_utf8(again.stdout).unwrap().contains("Hello."));
}

#[test]
fn a_call_that_waits_for_approval_is_refused_if_the_task_is_resumed_without_questions() {
    let server = Server::start(writer).unwrap();
    let session = with_model(&server);
    chat(&session, &["chat", "-p", "publish"]).output().unwrap();
    let id = list_tasks(&session)[0]["id"].as_str().unwrap().to_owned();
    let answer = chat_output(&session, &["tasks", "resume", &id, "--approve", "never"]);
    assert_eq!(answer, "I wrote the **note**.\n");
    let request = server.requests().pop().unwrap();
    let result = request.last_result().unwrap();
    assert!(result.text.contains("no user can approve the call"), "{}", result.text);
}

#[test]
fn a_goal_lists_its_checkpoints_and_can_be_taken_back() {
    let server = Server::start(|request: &Request| match request.last_result() {
        None => Reply::call("write_file", json!({ "path": "made.txt", "content": "made" })),
        Some(result) if result.text.contains("made.txt") => {
            Reply::call("finish_goal", json!({ "status": "reached", "summary": "it is made" }))
        }
        Some(_) => Reply::text("Done."),
    })
    .unwrap();
    let session = with_model(&server);
    session.write("before.txt", "the user's\n");
    session.json(&["checkpoint"]);
    chat_output(&session, &["goal", "start", "make it", "--turns", "3", "--usd", "1"]);
    let id = session.json(&["goal", "list"])["goals"][0]["id"].as_str().unwrap().to_owned();
    let goal = session.json(&["goal", "show", &id]);
    assert_eq!(session.json(&["goal", "show"]), goal, "the last goal is shown by default");
    let checkpoints = goal["checkpoints"].as_array().unwrap();
    assert_eq!((checkpoints.len(), &checkpoints[0]["row"]), (1, &json!(1)), "{goal:#}");
    let shown = chat_output(&session, &["goal", "show", &id]);
    assert!(shown.contains("1 of 3") && shown.contains("0.0000 of 1.0000"), "{shown}");
    assert!(shown.contains("1 checkpoint; `takeback rollback 1`"), "{shown}");
    session.json(&["rollback", "1"]);
    assert!(!session.exists("made.txt") && session.exists("before.txt"));
    // A goal that has ended cannot be paused, and keeps the reason why it ended.
    let refused = chat(&session, &["goal", "pause", &id]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", text_of(&refused));
    assert_eq!(session.json(&["goal", "show", &id])["reason"], "it is made");
}

#[test]
fn a_goal_ends_when_it_is_reached_or_its_budget_is_spent() {
    let server = Server::start(|request: &Request| {
        let is_reached = request.messages.len() > 4;
        match request.last_result() {
            None if is_reached && request.system.is_empty() => Reply::text("Never."),
            None if is_reached => Reply::call(
                "finish_goal",
                json!({ "status": "reached", "summary": "everything passes" }),
            ),
            _ => Reply::text("Working on it."),
        }
    })
    .unwrap();
    let session = with_model(&server);
    let start = ["goal", "start", "make it work", "--turns", "10"];
    let output = chat(&session, &start).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{shown}{}", String::from_utf8_lossy(&output.stderr));
    let goals = session.json(&["goal", "list"]);
    assert_eq!(goals["goals"][0]["state"], "complete");
    assert_eq!(goals["goals"][0]["reason"], "everything passes");
    let limited = ["goal", "start", "make it perfect", "--turns", "1"];
    let output = chat(&session, &limited).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let goals = session.json(&["goal", "list"]);
    let goal = &goals["goals"][0];
    assert_eq!((&goal["state"], &goal["spent"]["turns"]), (&json!("budget_limited"), &json!(2)));
    // A new run has the whole budget again.
    chat(&session, &["goal", "resume"]).output().unwrap();
    let goals = session.json(&["goal", "list"]);
    assert_eq!(goals["goals"][0]["state"], "complete", "{goals:#}");
    let told = text_of(&chat(&session, &["goal", "pause"]).output().unwrap());
    assert!(told.contains("no goal is open"), "{told}");
}

#[test]
fn a_conversation_in_a_terminal_shows_answers_and_questions_and_can_be_taken_back() {
    let server = Server::start(writer).unwrap();
    let session = with_model(&server);
    let Some(mut terminal) = PseudoTerminal::start(&chat(&session, &["chat"]), 100, 40) else {
        return;
    };
    terminal.press("write\r");
    terminal.wait_for("I wrote the note.");
    assert_eq!(session.read("note.txt"), "hello\n");
    terminal.press("publish\r");
    terminal.wait_for("[N]o");
    terminal.press("n\r");
    terminal
        .wait_until("the second answer", |screen| screen.matches("I wrote the note.").count() == 2);
    terminal.press("/rollback 1\r");
    terminal.wait_for("takes this back");
    assert!(!session.exists("note.txt"));
    terminal.press("/quit\r");
    let (status, screen, _) = terminal.wait_for_end();
    assert!(status.success(), "{screen}");
    let requests = server.requests();
    assert!(requests.len() >= 3, "{}", requests.len());
}

#[test]
fn without_a_provider_the_error_says_what_to_add_to_the_configuration() {
    let session = Session::new();
    let output = session.output(&["chat", "-p", "hi"]);
    let shown = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(shown.contains("no model provider is set") && shown.contains("[chat]"), "{shown}");
    assert!(shown.contains("/config.toml:"), "the file is named with its directory: {shown}");
}
