//! A simulated agent that reports its actions to takeback, as the hooks of a real agent would.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::session::Session;

/// One session of an agent.
pub(crate) struct Agent {
    base: PathBuf,
    /// The directory that the agent works in.
    pub(crate) cwd: PathBuf,
    /// The fields that all events of the session share.
    pub(crate) fields: Value,
    /// True if the agent's calls have ids.
    pub(crate) names_calls: bool,
    calls: usize,
}

/// A tool call that has begun.
#[derive(Clone)]
pub(crate) struct Call {
    fields: Value,
}

impl Agent {
    /// Creates a session of the agent `mine` in the project.
    pub(crate) fn new(session: &Session, name: &str) -> Agent {
        Agent {
            base: session.base(),
            cwd: session.project(),
            fields: json!({ "agent": "mine", "session": name }),
            names_calls: true,
            calls: 0,
        }
    }

    /// Reports an event and returns what the hook printed to standard error. The hook must exit
    /// with status 0 and print nothing to standard output.
    pub(crate) fn report(&self, event: Value) -> String {
        let output = hook(&self.base, &["hook", "generic"], &self.event(event));
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Reports an event that must cause no failure.
    pub(crate) fn tell(&self, event: Value) {
        assert_eq!(self.report(event), "");
    }

    /// Builds an event, including the fields that all events share.
    pub(crate) fn event(&self, mut event: Value) -> Vec<u8> {
        let all = event.as_object_mut().unwrap();
        all.entry("cwd").or_insert(json!(self.cwd));
        for (key, value) in self.fields.as_object().unwrap() {
            all.entry(key).or_insert(value.clone());
        }
        event.to_string().into_bytes()
    }

    /// Begins a turn with a prompt from the user.
    pub(crate) fn hears(&self, prompt: &str) {
        self.tell(json!({ "event": "turn_start", "prompt": prompt }));
    }

    /// Creates a call without reporting it.
    pub(crate) fn call(&mut self, tool: &str, input: Value) -> Call {
        self.calls += 1;
        let mut fields = json!({ "tool": tool });
        fields["input"] = input;
        if self.names_calls {
            fields["call"] = json!(format!("c{}", self.calls));
        }
        Call { fields }
    }

    pub(crate) fn begins(&mut self, tool: &str, input: Value) -> Call {
        let call = self.call(tool, input);
        self.tell(call.event("before_tool"));
        call
    }

    pub(crate) fn finishes(&self, call: &Call) {
        self.tell(call.event("after_tool"));
    }

    /// Writes a file with a tool call.
    pub(crate) fn writes(&mut self, path: &str, content: &str) {
        let call = self.begins("Write", json!({ "path": path, "content": content }));
        let path = self.cwd.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self.finishes(&call);
    }

    /// Runs a command in a real shell, as a tool call.
    pub(crate) fn runs(&mut self, command: &str) {
        let call = self.begins("Bash", json!({ "command": command }));
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).current_dir(&self.cwd).env("HOME", &self.base);
        assert!(shell.status().unwrap().success(), "{command}");
        self.finishes(&call);
    }

    /// Reports a command without running it.
    pub(crate) fn pretends(&mut self, command: &str) {
        let call = self.begins("Bash", json!({ "command": command }));
        self.finishes(&call);
    }

    /// Ends the turn.
    pub(crate) fn is_done(&self) {
        self.tell(json!({ "event": "turn_end" }));
    }

    /// Reports a whole turn that writes one file.
    pub(crate) fn turn(&mut self, prompt: &str, path: &str, content: &str) {
        self.hears(prompt);
        self.writes(path, content);
        self.is_done();
    }
}

impl Call {
    pub(crate) fn event(&self, event: &str) -> Value {
        let mut fields = self.fields.clone();
        fields["event"] = json!(event);
        fields
    }
}

/// Runs a hook with an event and returns its output.
pub(crate) fn hook(base: &Path, arguments: &[&str], event: &[u8]) -> Output {
    hook_with(base, arguments, event, &[])
}

/// Runs a hook with an event and with additional environment variables.
pub(crate) fn hook_with(
    base: &Path,
    arguments: &[&str],
    event: &[u8],
    environment: &[(&str, &str)],
) -> Output {
    if !environment.iter().any(|(name, _)| *name == "TAKEBACK_CHECKPOINTS") {
        allow_slow_captures(base);
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_takeback"))
        .args(arguments)
        .current_dir(base.join("project"))
        .env_clear()
        .env("HOME", base)
        .env("TZ", "UTC")
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The hook may exit without reading its input.
    let _ = child.stdin.take().unwrap().write_all(event);
    child.wait_with_output().unwrap()
}

/// Sets a `timeout_ms` that no capture exceeds, even on a busy machine, unless the test has its own
/// configuration.
fn allow_slow_captures(base: &Path) {
    let home = base.join(".takeback");
    let mut directory = fs::DirBuilder::new();
    // In some tests, the home cannot be written to, or it is a file.
    if directory.mode(0o700).recursive(true).create(&home).is_ok()
        && let Ok(mut file) = File::create_new(home.join("config.toml"))
    {
        file.write_all(b"[checkpoints]\ntimeout_ms = 600000\n").unwrap();
    }
}

/// Returns the rows in a workspace's list.
pub(crate) fn rows(session: &Session) -> Vec<Value> {
    session.json(&["rollback"])["checkpoints"].as_array().unwrap().clone()
}

/// Returns the reasons for the steps of a row.
pub(crate) fn steps(row: &Value) -> Vec<&str> {
    row["steps"].as_array().unwrap().iter().map(|step| step["reason"].as_str().unwrap()).collect()
}

/// Waits until a condition holds, for example until background work is done.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("never: {what}");
}

/// Writes the configuration.
pub(crate) fn configure(session: &Session, text: &str) {
    fs::create_dir_all(session.base().join(".takeback")).unwrap();
    fs::write(session.base().join(".takeback/config.toml"), text).unwrap();
}

/// Opens the ledger's database.
pub(crate) fn ledger(session: &Session) -> rusqlite::Connection {
    rusqlite::Connection::open(session.base().join(".takeback/state.db")).unwrap()
}

/// Returns bytes that do not compress.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Reads everything under a directory: paths, modes, contents.
pub(crate) fn everything(path: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        let content = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        all.push((path.clone(), metadata.mode(), content));
        if metadata.is_dir() {
            all.extend(everything(&path));
        }
    }
    all.sort();
    all
}

/// Reads all messages that have not been taken back, from all conversations.
pub(crate) fn conversation(session: &Session) -> Vec<String> {
    let connection = ledger(session);
    let mut statement =
        connection.prepare("SELECT content FROM messages WHERE NOT undone ORDER BY id").unwrap();
    let contents = statement.query_map([], |row| row.get(0)).unwrap();
    contents.collect::<Result<_, _>>().unwrap()
}

/// Creates a project in which an agent has worked for two turns.
pub(crate) fn with_two_turns() -> Session {
    let session = Session::new();
    session.write("config.py", "old\n");
    session.write("dist/x", "");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("add\n  the cart");
    agent.writes("src/app.py", "1\n2\n3\n");
    agent.writes("src/cart.py", "1\n");
    agent.pretends("psql shop -c 'drop table carts'");
    agent.is_done();
    agent.hears("rename the setting");
    agent.runs("sed -i s/old/new/ config.py");
    agent.is_done();
    session
}
