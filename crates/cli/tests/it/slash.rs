//! Slash commands: one dispatcher for the terminal and for programs.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};
use takeback_script::{Reply, Request, Server};

use crate::agent::eventually;
use crate::rpc_client::Client;
use crate::scripted_model::{
    chat, chat_output, last_session, parse_lines, text_of, with_model, writer,
};
use crate::session::Session;

/// Prepares a project in which the agent has worked for two turns. Returns the session.
fn after_two_turns(server: &Server) -> (Session, String) {
    let session = with_model(server);
    chat_output(&session, &["chat", "-p", "write first"]);
    chat_output(&session, &["chat", "--resume", "-p", "add other.txt"]);
    let id = last_session(&session);
    (session, id)
}

/// Types lines into `takeback chat`, and returns the answers to the slash commands.
fn type_into_chat(session: &Session, lines: &[String]) -> Vec<Value> {
    let mut command = chat(session, &["chat", "--resume", "--json", "--yes"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    let events = parse_lines(&String::from_utf8(output.stdout).unwrap());
    let answers = events.into_iter().filter(|event| event["event"] == "slash");
    answers.map(|event| event["answer"].clone()).collect()
}

/// Sends lines to `takeback rpc`, and returns the answers. If an answer names another session,
/// sends the later lines to that session.
fn send_to_rpc(session: &Session, id: &str, lines: &[String]) -> Vec<Value> {
    let mut client = Client::new(session);
    let mut id = id.to_owned();
    let mut answers = Vec::new();
    for line in lines {
        let params = json!({ "line": line, "session": id, "model": "m (local)" });
        let answer = client.call("slash", params);
        if let Some(next) = answer["action"]["session"].as_str() {
            next.clone_into(&mut id);
        }
        answers.push(answer);
    }
    assert!(client.end().success());
    answers
}

/// Replaces everything that differs between two homes: directories, ids, dates and times.
fn mask(session: &Session, text: &str) -> String {
    let text = text.replace(&*session.base().to_string_lossy(), "~");
    let mut masked = String::new();
    for word in text.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric()) {
        let core = word.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
        let is_hex = core.len() >= 4 && core.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_number = !core.is_empty() && core.bytes().all(|byte| byte.is_ascii_digit());
        masked.push_str(match () {
            () if is_hex && (core.len() >= 7 || !is_number) => "<id>",
            () if core.len() == 2 && is_number => "<time>",
            () => core,
        });
        masked.push_str(&word[core.len()..]);
    }
    masked
}

#[test]
fn every_command_has_the_same_answer_in_chat_and_over_rpc() {
    let server = Server::start(writer).unwrap();
    let lines = |id: &str| -> Vec<String> {
        [
            "/help",
            "/rollback",
            "/diff 1",
            "/diff",
            "/sessions",
            "/search first --limit 1",
            "/cost",
            "/model",
            "/model other",
            "/title It's my work",
            "/tasks",
            "/undo",
            "/rollback undo",
            "/redo",
            "/rollback 1",
            "/rollback undo",
            "/rollback 99",
            "/rollback --home x 1",
            "/fork 1",
            "/fork 9",
            "/compress",
            "/goal",
            "/goal list",
            "/goal show nothing",
            "/resume",
            "/resume nothing",
            &format!("/resume {id}"),
            "/resum",
            "/cost of everything",
        ]
        .map(str::to_owned)
        .to_vec()
    };
    let (typed, first) = after_two_turns(&server);
    let (sent, second) = after_two_turns(&server);
    let in_chat = type_into_chat(&typed, &lines(&first));
    let over_rpc = send_to_rpc(&sent, &second, &lines(&second));
    assert_eq!(in_chat.len(), over_rpc.len());
    for ((chat, rpc), line) in in_chat.iter().zip(&over_rpc).zip(lines("ID")) {
        let text = |session: &Session, answer: &Value| {
            let text = mask(session, answer["text"].as_str().unwrap());
            (text, answer["failed"].clone(), answer["data"].is_null())
        };
        assert_eq!(text(&typed, chat), text(&sent, rpc), "{line}");
        assert_ne!(rpc["text"], "", "{line}");
    }
    let answers: Vec<(String, &Value)> = lines("ID").into_iter().zip(&over_rpc).collect();
    let answer_to = |line: &str| answers.iter().find(|(known, _)| known == line).unwrap().1;
    let failed = answers.iter().filter(|(_, answer)| answer["failed"] == true);
    let failed: Vec<&str> = failed.map(|(line, _)| line.as_str()).collect();
    assert_eq!(
        failed,
        [
            "/diff",
            "/rollback 99",
            "/rollback --home x 1",
            "/fork 9",
            "/goal show nothing",
            "/resume nothing",
            "/resum",
            "/cost of everything",
        ]
    );
    assert_eq!(answer_to("/rollback")["data"]["checkpoints"].as_array().unwrap().len(), 2);
    assert_eq!(answer_to("/diff 1")["data"]["files_changed"], 1);
    assert_eq!(answer_to("/search first --limit 1")["data"]["results"][0]["role"], "user");
    assert_eq!(answer_to("/cost")["data"]["requests"], 4);
    assert_eq!(answer_to("/model")["text"], "Asking m (local).");
    assert_eq!(answer_to("/model other")["action"], json!({ "do": "model", "name": "other" }));
    assert_eq!(answer_to("/title It's my work")["data"]["title"], "It's my work");
    assert_eq!(answer_to("/undo")["data"]["deleted"], json!(["other.txt"]));
    assert_eq!(
        answer_to("/rollback 99")["data"]["error"]["message"],
        "no checkpoint 99: this workspace has 2"
    );
    let fork = answer_to("/fork 1");
    assert_eq!((&fork["data"]["turn"], &fork["action"]["do"]), (&json!(1), &json!("resume")));
    assert_eq!(
        answer_to("/resum")["text"],
        "error: there is no /resum\nhint: did you mean /resume?"
    );
}

#[test]
fn a_rollback_says_where_files_and_conversation_are_now() {
    let server = Server::start(writer).unwrap();
    let (session, id) = after_two_turns(&server);
    let answers = send_to_rpc(&session, &id, &["/rollback 1".into()]);
    let text = answers[0]["text"].as_str().unwrap();
    for part in [
        "Deleted:\n  other.txt",
        "Conversation: 1 turn (4 messages) taken back.",
        "The prompt was:\n  add other.txt",
        "(before write_file other.txt).",
        "The state before that is saved as checkpoint ",
        "This conversation now has 4 messages.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!session.exists("other.txt"));
    let answers = send_to_rpc(&session, &id, &["/rollback undo".into()]);
    let text = answers[0]["text"].as_str().unwrap();
    assert!(text.contains("4 messages restored"), "{text}");
    assert!(text.contains("This conversation now has 8 messages."), "{text}");
    assert!(session.exists("other.txt"));
}

#[test]
fn a_line_with_forbidden_options_or_outside_paths_is_refused() {
    let server = Server::start(writer).unwrap();
    let (session, id) = after_two_turns(&server);
    let mut client = Client::new(&session);
    let before = crate::agent::everything(&session.project());
    for line in [
        "/rollback --home /nowhere 1",
        "/rollback -C / 1",
        "/rollback 1 --yes",
        "/rollback 1 ../outside",
        "/rollback 1 /etc/passwd",
        "/diff 1 ../outside",
        "/undo --yes",
        "/redo --home x",
        "/fork 1 --files /nowhere",
        "/search --home x words",
        "/sessions --workspace /",
        "/goal start --yolo everything",
        "/tasks -C /",
    ] {
        let answer = client.call("slash", json!({ "line": line, "session": id }));
        assert_eq!(answer["failed"], true, "{line}: {answer}");
    }
    assert_eq!(crate::agent::everything(&session.project()), before);
}

#[test]
fn without_a_user_nothing_is_changed() {
    let server = Server::start(writer).unwrap();
    let (session, id) = after_two_turns(&server);
    let mut client = Client::new(&session);
    let mut ask =
        |line: &str| client.call("slash", json!({ "line": line, "session": id, "headless": true }));
    for line in ["/rollback 1", "/undo", "/redo", "/fork", "/title x", "/compress", "/goal start x"]
    {
        let answer = ask(line);
        let text = answer["text"].as_str().unwrap();
        assert!(text.contains("nothing was changed: no user typed this line"), "{line}: {text}");
        assert_eq!((&answer["failed"], &answer["action"]), (&json!(true), &Value::Null));
    }
    assert_eq!(ask("/rollback 1 --dry-run")["failed"], false);
    assert_eq!(ask("/rollback")["failed"], false);
    assert!(session.exists("other.txt"));
}

#[test]
fn lines_from_a_pipe_change_nothing_unless_the_user_agrees() {
    let server = Server::start(writer).unwrap();
    let (session, _) = after_two_turns(&server);
    let mut command = chat(&session, &["chat", "--resume"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"/rollback\n/rollback 1\n").unwrap();
    let said = text_of(&child.wait_with_output().unwrap());
    assert!(said.contains("before write_file"), "{said}");
    assert!(said.contains("error: nothing was changed: no user typed this line"), "{said}");
    assert!(session.exists("other.txt"));
}

#[test]
fn a_long_conversation_is_compressed_over_rpc() {
    let server = Server::start(writer).unwrap();
    let session = with_model(&server);
    let mut command = chat(&session, &["chat"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let prompts: String = (1..=24).map(|number| format!("prompt {number}\n")).collect();
    child.stdin.take().unwrap().write_all(prompts.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let id = last_session(&session);
    let mut client = Client::new(&session);
    let answer = client.call("slash", json!({ "line": "/compress", "session": id }));
    let next = answer["action"]["session"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert_ne!(next, id);
    let text = answer["text"].as_str().unwrap();
    assert!(text.contains(&format!("the conversation continues as {next}")), "{text}");
    chat_output(&session, &["chat", "--resume", next, "-p", "hello"]);
    let last = server.requests().pop().unwrap();
    let count = |prompt: &str| last.messages.iter().filter(|m| m.text == prompt).count();
    assert_eq!((count("prompt 1"), count("prompt 24"), count("hello")), (0, 1, 1));
    // The old messages stay in the old session.
    let shown = session.json(&["sessions", "show", &id]);
    assert_eq!(shown["messages"][0]["content"], "prompt 1");
}

#[test]
fn a_prompt_is_not_a_command() {
    let server = Server::start(writer).unwrap();
    let session = with_model(&server);
    let mut client = Client::new(&session);
    for line in ["hello", "/usr/bin/env is missing", "/diff 1\nand explain it"] {
        assert_eq!(client.call("slash", json!({ "line": line })), Value::Null, "{line}");
    }
    let answer = client.call("slash", json!({ "line": "/cost" }));
    assert_eq!(answer["text"], "error: there is no conversation yet");
    let error = client.fail("slash", json!({ "line": "/cost", "session": "nothing" }));
    assert_eq!(error["message"], "no session \"nothing\"");
}

/// Works on a goal: writes a file, then says that the goal is reached.
fn worker(request: &Request) -> Reply {
    match request.last_result() {
        None => Reply::call("write_file", json!({ "path": "done.txt", "content": "done\n" })),
        Some(result) if result.text == "noted" => Reply::text("That was it."),
        Some(_) => {
            Reply::call("finish_goal", json!({ "status": "reached", "summary": "it is written" }))
        }
    }
}

#[test]
fn a_goal_that_is_started_over_rpc_is_worked_on_in_the_background() {
    let server = Server::start(worker).unwrap();
    let session = with_model(&server);
    let mut client = Client::new(&session);
    let line = "/goal start write it's file --turns 3";
    let answer = client.call("slash", json!({ "line": line }));
    let id = answer["data"]["id"].as_str().unwrap().to_owned();
    assert_eq!(answer["data"]["objective"], "write it's file");
    assert_eq!(answer["data"]["budget"]["turns"], 3);
    let mut show = || client.call("slash", json!({ "line": format!("/goal show {id}") }));
    eventually("the goal is reached", || show()["data"]["state"] == "complete");
    assert_eq!(show()["data"]["reason"], "it is written");
    assert_eq!(session.read("done.txt"), "done\n");
    let resumed =
        client.call("slash", json!({ "line": format!("/goal resume {id} --add-turns 2") }));
    assert_eq!(resumed["data"]["budget"]["turns"], 5, "{resumed}");
}

#[test]
fn work_on_a_goal_that_is_started_in_chat_begins_immediately() {
    let server = Server::start(worker).unwrap();
    let session = with_model(&server);
    let mut command = chat(&session, &["chat", "--yes"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = "/goal start write the file --turns 3 --tokens 1000\n/goal list\n";
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let shown = text_of(&child.wait_with_output().unwrap());
    assert!(shown.contains("complete: it is written"), "{shown}");
    assert!(shown.contains("turns") && shown.contains("1 of 3"), "{shown}");
    assert_eq!(session.read("done.txt"), "done\n");
}
