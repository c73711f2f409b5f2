//! `takeback serve`, as a process: its link, its token, its chat, and how it ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use serde_json::{Value, json};
use takeback_script::Server;

use crate::agent::eventually;
use crate::rpc_client::Client;
use crate::scripted_model::{
    StuckModel, chat, chat_output, last_session, list_tasks, with_model, writer,
};
use crate::session::Session;

/// A running server, which ends with the test.
pub(crate) struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the server and returns its link.
pub(crate) fn start(session: &Session, arguments: &[&str]) -> (Served, String) {
    let words: Vec<&str> = ["serve"].iter().chain(arguments).copied().collect();
    let mut child = chat(session, &words).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (Served(child), line.trim_end().to_owned())
}

fn get(port: u16, path: &str, header: &str) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n");
    socket.write_all(format!("{head}{header}\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_first_line_is_the_link_and_ctrl_c_ends_the_server() {
    let session = Session::new();
    session.write("a.txt", "one\n");
    session.output(&["checkpoint", "--reason", "by hand"]);
    let (mut served, link) = start(&session, &[]);
    let rest = link.strip_prefix("http://127.0.0.1:").unwrap();
    let (port, token) = rest.split_once("/?token=").unwrap();
    let port: u16 = port.parse().unwrap();
    assert_eq!(token.len(), 64, "{link}");

    assert!(get(port, "/", "").starts_with("HTTP/1.1 401"));
    let let_in = get(port, &format!("/?token={token}"), "");
    assert!(let_in.starts_with("HTTP/1.1 303"), "{let_in}");
    assert!(let_in.contains("HttpOnly") && !let_in.contains(&format!("={token};")), "{let_in}");
    let bearer = format!("authorization: Bearer {token}\r\n");
    let page = get(port, "/", &bearer);
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("by hand"), "{page}");
    // An error has the same hint as on the command line.
    let workspace = page.split("/w/").nth(1).unwrap().split(['"', '/']).next().unwrap();
    let missing = get(port, &format!("/api/v1/checkpoints/{workspace}/abcdef0"), &bearer);
    assert!(missing.starts_with("HTTP/1.1 404"), "{missing}");
    assert!(missing.contains("`takeback list` lists the checkpoints"), "{missing}");

    let id = Pid::from_raw(i32::try_from(served.0.id()).unwrap()).unwrap();
    kill_process(id, Signal::INT).unwrap();
    assert!(served.0.wait().unwrap().success());
}

#[test]
fn two_servers_have_different_secrets() {
    let session = Session::new();
    let (_first, one) = start(&session, &["--port", "0"]);
    let (_second, two) = start(&session, &["--json"]);
    assert!(two.starts_with("{\"url\":\"http://127.0.0.1:"), "{two}");
    let token =
        |link: &str| link.split("token=").nth(1).unwrap().trim_end_matches("\"}").to_owned();
    assert_ne!(token(&one), token(&two));
}

/// Sends a request to the API of a server, and returns the answer.
fn ask(link: &str, method: &str, path: &str, body: &Value) -> Value {
    let rest = link.strip_prefix("http://").unwrap();
    let (host, token) = rest.split_once("/?token=").unwrap();
    let mut socket = TcpStream::connect(host).unwrap();
    let body = if method == "GET" { String::new() } else { body.to_string() };
    let request = format!(
        "{method} /api/v1/{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
         authorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

#[allow(clippy::needless_pass_by_value, reason = "callers write it in place")]
pub(crate) fn post(link: &str, path: &str, body: Value) -> Value {
    ask(link, "POST", path, &body)
}

/// Waits until a conversation is idle.
fn wait_for_rest(link: &str, session: &str) {
    eventually("the conversation is idle", || {
        ask(link, "GET", &format!("chats/{session}"), &json!({}))["state"] == "idle"
    });
}

#[test]
fn slash_commands_have_the_same_answers_as_in_other_front_ends() {
    let server = Server::start(writer).unwrap();
    let session = with_model(&server);
    chat_output(&session, &["chat", "-p", "write first"]);
    chat_output(&session, &["chat", "--resume", "-p", "add other.txt"]);
    let id = last_session(&session);
    let (_served, link) = start(&session, &[]);
    let mut rpc = Client::new(&session);
    for line in ["/rollback", "/diff 1", "/cost", "/tasks", "/help", "/search note", "/nothing"] {
        let page = post(&link, "slash", json!({ "line": line, "session": id }));
        let other = rpc.call("slash", json!({ "line": line, "session": id }));
        assert_eq!(page["is_command"], true, "{page}");
        assert_eq!((&page["text"], &page["data"]), (&other["text"], &other["data"]), "{line}");
        assert_eq!(page["failed"], other["failed"]);
    }
    assert!(rpc.end().success());
    let done = post(&link, "slash", json!({ "line": "/rollback 1", "session": id }));
    let text = done["text"].as_str().unwrap();
    assert!(text.contains("This conversation now has 4 messages."), "{text}");
    assert!(!session.exists("other.txt") && session.exists("note.txt"));
    let forked = post(&link, "slash", json!({ "line": "/fork", "session": id }));
    let fork = forked["session"].as_str().unwrap();
    assert_ne!(fork, id);
    post(&link, &format!("chats/{fork}/turns"), json!({ "prompt": "add more.txt" }));
    wait_for_rest(&link, fork);
    assert!(session.exists("more.txt"));
}

#[test]
fn a_killed_turn_continues_when_the_server_starts() {
    let model = StuckModel::start(writer, |request| request.last_result().is_some());
    let session = with_model(&model.server);
    model.kill_when_stuck(&session, &["chat", "-p", "write"]);
    model.release();
    let id = last_session(&session);
    let (_served, link) = start(&session, &[]);
    wait_for_rest(&link, &id);
    let shown = session.json(&["sessions", "show", &id]);
    assert!(shown.to_string().contains("I wrote the **note**."), "{shown}");
}

#[test]
fn ctrl_c_leaves_a_running_turn_open() {
    let model = StuckModel::start(writer, |request| request.last_result().is_some());
    let session = with_model(&model.server);
    let (mut served, link) = start(&session, &[]);
    let started = post(&link, "chats", json!({ "prompt": "write" }));
    let id = started["session"].as_str().unwrap();
    model.reached.recv().unwrap();
    let process = Pid::from_raw(i32::try_from(served.0.id()).unwrap()).unwrap();
    kill_process(process, Signal::INT).unwrap();
    assert!(served.0.wait().unwrap().success());
    let task = &list_tasks(&session)[0];
    assert_eq!((&task["session"], &task["state"]), (&json!(id), &json!("interrupted")));
    // Any process can continue the task, and the file that was already written is not written
    // again.
    model.release();
    chat_output(&session, &["tasks", "resume", task["id"].as_str().unwrap()]);
    assert_eq!(session.read("note.txt"), "hello\n");
    assert_eq!(list_tasks(&session)[0]["state"], "idle");
}

#[test]
fn without_a_provider_the_page_says_which_lines_to_write() {
    let session = Session::new();
    let (_served, link) = start(&session, &[]);
    let refused = post(&link, "chats", json!({ "prompt": "hello" }));
    assert_eq!(refused["status"], 409, "{refused}");
    assert!(refused["hint"].as_str().unwrap().contains("[providers.local]"), "{refused}");
}

#[test]
fn the_health_page_reports_what_doctor_reports() {
    let session = Session::new();
    std::fs::create_dir(session.base().join(".claude")).unwrap();
    let (_served, link) = start(&session, &[]);
    let light = ask(&link, "GET", "doctor", &Value::Null);
    assert_eq!(light["findings"][0]["message"], "Claude Code: hooks not installed", "{light}");
    assert_eq!(light["agents"][0]["state"], "hooks not installed", "{light}");
    let thorough = ask(&link, "GET", "doctor?thorough=true", &Value::Null);
    assert_eq!(thorough["findings"], light["findings"], "{thorough}");
    assert_eq!(thorough["is_thorough"], true, "{thorough}");
}
