//! `takeback mcp`: gives the model of any agent access to the history, and to rollbacks that the
//! user approves.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::session::Session;

/// An agent that has started the server.
struct McpAgent {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last_id: i64,
}

impl McpAgent {
    /// Starts the server for an agent with these capabilities.
    fn start(session: &Session, capabilities: &Value) -> McpAgent {
        let mut child = Command::new(env!("CARGO_BIN_EXE_takeback"))
            .arg("mcp")
            .current_dir(session.project())
            .env_clear()
            .env("HOME", session.base())
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut agent = McpAgent { child, input, output, last_id: 0 };
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": capabilities,
            "clientInfo": { "name": "test", "version": "1" },
        });
        let result = agent.ask("initialize", &params);
        assert_eq!(result["protocolVersion"], "2025-06-18");
        assert_eq!(result["serverInfo"]["name"], "takeback");
        agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        agent
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn begin(&mut self, method: &str, params: &Value) -> i64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Sends a request and returns its result.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params);
        self.take_result(id)
    }

    fn take_result(&mut self, id: i64) -> Value {
        let answer = self.receive();
        assert_eq!(answer["id"], json!(id), "{answer}");
        answer.get("result").unwrap_or_else(|| panic!("{answer}")).clone()
    }

    /// Calls a tool. Returns the text of the result, and whether the call failed.
    fn call(&mut self, name: &str, arguments: &Value) -> (String, bool) {
        let params = json!({ "name": name, "arguments": arguments });
        text_of(&self.ask("tools/call", &params))
    }

    /// Asks for a rollback. Returns the id of the request, and the server's question to the user.
    fn offer(&mut self, arguments: &Value) -> (i64, Value) {
        let params = json!({ "name": "restore_checkpoint", "arguments": arguments });
        let id = self.begin("tools/call", &params);
        let question = self.receive();
        assert_eq!(question["method"], "elicitation/create", "{question}");
        (id, question)
    }

    /// Answers a question as the user would.
    fn decide(&mut self, question: &Value, result: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }));
    }

    /// Closes the input and waits for the server.
    fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

fn text_of(result: &Value) -> (String, bool) {
    let text = result["content"][0]["text"].as_str().unwrap().to_owned();
    (text, result["isError"] == true)
}

/// Creates a project with a checkpoint, and changes a file afterwards.
fn project() -> Session {
    let session = Session::new();
    session.write("a", "1\n");
    session.json(&["checkpoint", "--reason", "by hand"]);
    session.write("a", "2\n");
    session
}

fn approve() -> Value {
    json!({ "action": "accept", "content": { "approve": true } })
}

#[test]
fn a_model_can_look_at_the_history() {
    let session = project();
    let mut agent = McpAgent::start(&session, &json!({}));
    let tools = agent.ask("tools/list", &json!({}));
    let names: Vec<&str> = tools["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    let expected = [
        "list_checkpoints",
        "diff_checkpoint",
        "search_sessions",
        "explain_command",
        "restore_checkpoint",
    ];
    assert_eq!(names, expected);
    let (list, _) = agent.call("list_checkpoints", &json!({}));
    assert!(list.contains("by hand"), "{list}");
    let params = json!({ "name": "list_checkpoints" });
    let structured = agent.ask("tools/call", &params)["structuredContent"].clone();
    assert_eq!(structured, session.json(&["list"]));
    for checkpoint in [json!(1), json!("1")] {
        let (diff, _) = agent.call("diff_checkpoint", &json!({ "checkpoint": checkpoint }));
        assert!(diff.contains("-1\n+2"), "{diff}");
    }
    let (diff, _) = agent.call("diff_checkpoint", &json!({ "checkpoint": 1, "paths": ["b"] }));
    assert!(!diff.contains("+2"), "{diff}");
    let (found, failed) = agent.call("search_sessions", &json!({ "query": "--gizmo", "limit": 3 }));
    assert!(!failed, "{found}");
    let (explained, _) = agent.call("explain_command", &json!({ "command": "rm -rf a" }));
    assert!(explained.starts_with("Changes files"), "{explained}");
    agent.end();
}

#[test]
fn a_rollback_needs_the_approval_of_the_user() {
    let session = project();
    let mut agent = McpAgent::start(&session, &json!({ "elicitation": {} }));
    let (id, question) = agent.offer(&json!({ "checkpoint": 1 }));
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.contains("Would restore"), "{message}");
    // The server still answers while the user thinks.
    assert_eq!(agent.ask("ping", &json!({})), json!({}));
    let later = agent.begin("tools/list", &json!({}));
    agent.decide(&question, &json!({ "action": "decline" }));
    assert_eq!(text_of(&agent.take_result(id)).0, "The user declined. Nothing was changed.");
    assert!(agent.take_result(later)["tools"].is_array());
    assert_eq!(session.read("a"), "2\n");

    let (id, question) = agent.offer(&json!({ "checkpoint": 1, "paths": ["a"] }));
    agent.decide(&question, &json!({ "action": "accept", "content": { "approve": false } }));
    agent.take_result(id);
    assert_eq!(session.read("a"), "2\n");

    let (id, question) = agent.offer(&json!({ "checkpoint": 1 }));
    agent.decide(&question, &approve());
    let (text, failed) = text_of(&agent.take_result(id));
    assert!(text.contains("Restored") && text.contains("rollback undo") && !failed, "{text}");
    assert_eq!(session.read("a"), "1\n");
    // The workspace now equals the checkpoint, so there is nothing to ask about.
    let (text, _) = agent.call("restore_checkpoint", &json!({ "checkpoint": 1 }));
    assert!(text.contains("Nothing to restore"), "{text}");
    agent.end();
}

#[test]
fn only_the_plan_that_the_user_saw_is_carried_out() {
    let session = project();
    let mut agent = McpAgent::start(&session, &json!({ "elicitation": { "form": {} } }));
    let (id, question) = agent.offer(&json!({ "checkpoint": 1 }));
    session.write("a", "new work\n");
    agent.decide(&question, &approve());
    let (text, failed) = text_of(&agent.take_result(id));
    assert!(failed, "{text}");
    assert_eq!(session.read("a"), "new work\n");
    agent.end();
}

#[test]
fn a_cancelled_question_changes_nothing_and_gets_no_answer() {
    let session = project();
    let mut agent = McpAgent::start(&session, &json!({ "elicitation": {} }));
    let (id, question) = agent.offer(&json!({ "checkpoint": 1 }));
    agent.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id },
    }));
    // A late answer is ignored.
    agent.decide(&question, &approve());
    assert_eq!(agent.ask("ping", &json!({})), json!({}));
    assert_eq!(session.read("a"), "2\n");
    agent.end();
}

#[test]
fn an_agent_that_cannot_ask_gets_the_command_for_the_user() {
    let session = project();
    let cannot = [json!({}), json!({ "elicitation": { "url": {} } })];
    for capabilities in cannot {
        let mut agent = McpAgent::start(&session, &capabilities);
        let arguments = json!({ "checkpoint": 1, "scope": "files", "paths": ["a"] });
        let (text, _) = agent.call("restore_checkpoint", &arguments);
        let command = "rollback 1 --files-only -- a";
        assert!(text.contains(command) && text.contains("Would restore"), "{text}");
        assert_eq!(session.read("a"), "2\n");
        agent.end();
    }
    let output = session.output(&["--yes", "rollback", "1", "--files-only", "--", "a"]);
    assert!(output.status.success());
    assert_eq!(session.read("a"), "1\n");
}

#[test]
fn wrong_requests_get_clear_errors() {
    let session = project();
    let mut agent = McpAgent::start(&session, &json!({ "elicitation": {} }));
    for (method, params, code) in
        [("tools/call", json!({ "name": "no_such_tool" }), -32602), ("no/such", json!({}), -32601)]
    {
        agent.begin(method, &params);
        assert_eq!(agent.receive()["error"]["code"], code);
    }
    agent.send(&json!([]));
    assert_eq!(agent.receive()["error"]["code"], -32600);
    for (tool, arguments, part) in [
        ("diff_checkpoint", json!({ "checkpoint": 9 }), "no checkpoint 9"),
        ("diff_checkpoint", json!({ "checkpoint": "--full" }), "no checkpoint"),
        ("diff_checkpoint", json!({}), "missing field `checkpoint`"),
        ("restore_checkpoint", json!({ "checkpoint": "--yes" }), "no checkpoint"),
        ("restore_checkpoint", json!({ "checkpoint": 1, "yes": true }), "unknown field `yes`"),
        ("explain_command", json!({ "command": 7 }), "expected a string"),
    ] {
        let (text, failed) = agent.call(tool, &arguments);
        assert!(failed && text.contains(part), "{tool} {arguments}: {text}");
    }
    agent.end();
}
