//! A project whose agent is takeback's own, with a scripted model.

use std::fs;
use std::process::{Command, Output};

use serde_json::{Value, json};
use takeback_script::{Reply, Request, Server};

use crate::session::Session;

/// Prepares a session whose model is at this address.
pub(crate) fn with_model(server: &Server) -> Session {
    let session = Session::new();
    use_model(&session, server, "");
    session
}

/// Makes a session ask the model of this server. `settings` are further lines of `[chat]`.
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

/// Runs takeback with a usual PATH, because the model's commands need one.
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
