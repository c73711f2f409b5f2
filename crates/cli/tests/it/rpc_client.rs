//! An agent that keeps `takeback rpc` running.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use serde_json::{Value, json};

use crate::session::Session;

/// A running `takeback rpc` and its pipes.
pub(crate) struct Client {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    last_id: i64,
}

impl Client {
    pub(crate) fn new(session: &Session) -> Client {
        Client::in_base(&session.base())
    }

    pub(crate) fn in_base(base: &Path) -> Client {
        let mut child = Command::new(env!("CARGO_BIN_EXE_takeback"))
            .arg("rpc")
            .current_dir(base.join("project"))
            .env_clear()
            .env("HOME", base)
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Client { child, stdin, stdout, last_id: 0 }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn send_line(&mut self, line: &str) {
        self.send(format!("{line}\n").as_bytes());
    }

    /// Reads the next line of output, which must be JSON.
    pub(crate) fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        if self.stdout.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
    }

    /// Sends a line and returns the answer.
    pub(crate) fn ask(&mut self, line: &str) -> Value {
        self.send_line(line);
        self.receive().expect("an answer")
    }

    pub(crate) fn begin(&mut self, method: &str, params: &Value) -> i64 {
        self.last_id += 1;
        let id = self.last_id;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send_line(&request.to_string());
        id
    }

    fn respond(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params);
        let response = self.receive().expect("an answer");
        assert_eq!((&response["jsonrpc"], &response["id"]), (&json!("2.0"), &json!(id)));
        response
    }

    /// Calls a method and returns its result.
    #[allow(clippy::needless_pass_by_value, reason = "callers write it in place")]
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let response = self.respond(method, &params);
        response.get("result").unwrap_or_else(|| panic!("{method} {params}: {response}")).clone()
    }

    /// Calls a method and returns its error.
    #[allow(clippy::needless_pass_by_value, reason = "callers write it in place")]
    pub(crate) fn fail(&mut self, method: &str, params: Value) -> Value {
        let response = self.respond(method, &params);
        response.get("error").unwrap_or_else(|| panic!("{method} {params}: {response}")).clone()
    }

    /// Reports a tool call that writes a file, and writes the file.
    pub(crate) fn writes(&mut self, session: &Session, name: &str, path: &str, content: &str) {
        self.last_id += 1;
        let call = json!({
            "agent": "mine", "session": name, "call": format!("c{}", self.last_id), "tool": "Write",
            "input": { "path": path },
        });
        let before = self.call("tool.before", call.clone());
        assert_eq!((&before["missed"], &before["failures"]), (&json!(false), &json!([])));
        session.write(path, content);
        self.call("tool.after", call);
    }

    /// Reports a whole turn that writes one file.
    pub(crate) fn turn(&mut self, session: &Session, name: &str, prompt: &str, file: (&str, &str)) {
        let own = json!({ "agent": "mine", "session": name });
        self.call("turn.start", json!({ "agent": "mine", "session": name, "prompt": prompt }));
        self.writes(session, name, file.0, file.1);
        self.call("turn.end", own);
    }

    /// Closes the input and waits for the process, which must print nothing more.
    pub(crate) fn end(mut self) -> ExitStatus {
        drop(self.stdin.take());
        assert_eq!(self.receive(), None);
        self.child.wait().unwrap()
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
