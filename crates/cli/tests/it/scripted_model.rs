//! A project in which takeback's own agent works with a scripted model.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use takeback_script::{Reply, Request, Server, StreamGate, StreamStep};

use crate::session::Session;

/// Prepares a session that uses the model of this server.
pub(crate) fn with_model(server: &Server) -> Session {
    let session = Session::new();
    use_model(&session, server, "");
    session
}

/// Configures a session to use the model of this server. `settings` are additional lines for the
/// section `[chat]`.
pub(crate) fn use_model(session: &Session, server: &Server, settings: &str) {
    let home = session.base().join(".takeback");
    fs::create_dir_all(&home).unwrap();
    let url = server.url();
    let config = format!(
        "[chat]\nprovider = \"local\"\n{settings}\n[providers.local]\nbase_url = \"{url}/v1\"\n\
         model = \"m\"\n"
    );
    fs::write(home.join("config.toml"), config).unwrap();
}

/// Prepares to run takeback with an ordinary PATH, because the model's commands need one.
pub(crate) fn chat(session: &Session, arguments: &[&str]) -> Command {
    let mut command = session.command(arguments);
    command.env("PATH", "/bin:/usr/bin");
    command
}

/// Runs takeback, which must succeed, and returns its standard output.
#[track_caller]
pub(crate) fn chat_output(session: &Session, arguments: &[&str]) -> String {
    let output = chat(session, arguments).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns everything that a process printed.
pub(crate) fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

/// Parses lines of JSON.
pub(crate) fn parse_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Answers prompts: `write` and `write TEXT` write `note.txt`, `add PATH` writes another file, and
/// `publish` pushes.
pub(crate) fn writer(request: &Request) -> Reply {
    let write = |path: &str, text: &str| {
        let input = json!({ "path": path, "content": format!("{text}\n") });
        Reply::call("write_file", input)
    };
    match (request.last_text(), request.last_result()) {
        (_, Some(_)) => Reply::text("I wrote the **note**."),
        ("write", None) => write("note.txt", "hello"),
        ("publish", None) => Reply::call("terminal", json!({ "command": "git push" })),
        (prompt, None) => match prompt.split_once(' ') {
            Some(("write", text)) => write("note.txt", text),
            Some(("add", path)) => write(path, "new"),
            _ => Reply::text("Hello."),
        },
    }
}

/// Lists all tasks, starting with the one that changed last.
pub(crate) fn list_tasks(session: &Session) -> Vec<Value> {
    session.json(&["tasks", "--all"])["tasks"].as_array().unwrap().clone()
}

/// Returns the session of the task that changed last.
pub(crate) fn last_session(session: &Session) -> String {
    list_tasks(session)[0]["session"].as_str().unwrap().to_owned()
}

/// A model that leaves some requests unanswered.
pub(crate) struct StuckModel {
    pub(crate) server: Server,
    /// Receives a message whenever the model gets stuck in a request.
    pub(crate) reached: Receiver<()>,
    is_stuck: Arc<Mutex<bool>>,
}

impl StuckModel {
    /// Starts a model that gets stuck in requests for which `is_meant` returns true.
    pub(crate) fn start(
        answer: fn(&Request) -> Reply,
        is_meant: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> StuckModel {
        let (reach, reached) = channel();
        let reach = Mutex::new(reach);
        let is_stuck = Arc::new(Mutex::new(true));
        let flag = is_stuck.clone();
        let server = Server::start(move |request: &Request| {
            let reply = answer(request);
            if !*flag.lock().unwrap() || !is_meant(request) {
                return reply;
            }
            reach.lock().unwrap().send(()).unwrap();
            let (held, waits) = channel::<()>();
            let waits = Mutex::new(waits);
            // The gate keeps the sender alive, so the stream waits until the client disconnects.
            let gate = StreamGate::new(move |_| {
                let _ = &held;
                let _ = waits.lock().unwrap().recv();
                StreamStep::Cut
            });
            Reply { gate: Some(gate), ..reply }
        })
        .unwrap();
        StuckModel { server, reached, is_stuck }
    }

    /// Starts a command, waits until the model is stuck, and kills the command.
    pub(crate) fn kill_when_stuck(&self, session: &Session, arguments: &[&str]) {
        let mut command = chat(session, arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        self.reached.recv().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Makes the model answer all later requests.
    pub(crate) fn release(&self) {
        *self.is_stuck.lock().unwrap() = false;
    }
}
