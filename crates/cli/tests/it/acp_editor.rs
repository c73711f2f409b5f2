//! A simulated editor and a simulated agent, which the test connects to the two ends of `takeback
//! acp`. The agent's process is a shell that connects two named pipes to its input and output.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use serde_json::{Value, json};

use crate::session::Session;

/// The script of the agent's process. The process copies its input to the pipe `heard`, and copies
/// the pipe `says` to its output. It also records its process id and the value of `TAKEBACK_ACP`.
const AGENT: &str = "\
echo $$ > \"$1/pid\"; echo \"$TAKEBACK_ACP\" > \"$1/proxy\"
exec 3<&0; cat <&3 > \"$1/heard\" & cat \"$1/says\"; exit \"$2\"";

pub(crate) struct Conversation {
    pub(crate) proxy: Child,
    base: PathBuf,
    project: PathBuf,
    to_proxy: Option<ChildStdin>,
    from_proxy: Option<BufReader<ChildStdout>>,
    agent_hears: BufReader<File>,
    agent_says: Option<File>,
    last_id: i64,
}

impl Conversation {
    /// Starts the proxy with an agent that takeback does not know.
    pub(crate) fn new(session: &Session) -> Conversation {
        Conversation::with(session, "agent", 0, |_| {})
    }

    /// Starts the proxy with an agent whose command has this name. At the end, the agent exits with
    /// `code`.
    pub(crate) fn with(
        session: &Session,
        name: &str,
        code: i32,
        change: impl FnOnce(&mut Command),
    ) -> Conversation {
        let base = session.base().join("pipes");
        fs::create_dir_all(&base).unwrap();
        for pipe in ["heard", "says"] {
            let path = base.join(pipe);
            let _ = fs::remove_file(&path);
            make_pipe(&path);
        }
        let mut command = session.command(&["acp", "--", "/bin/sh", "-c", AGENT]);
        command.arg(name).arg(&base).arg(code.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        change(&mut command);
        let mut proxy = command.spawn().unwrap();
        let to_proxy = proxy.stdin.take();
        let from_proxy = proxy.stdout.take().map(BufReader::new);
        // Opening a pipe blocks until the agent opens the other end.
        let agent_hears = BufReader::new(File::open(base.join("heard")).unwrap());
        let agent_says = Some(File::options().write(true).open(base.join("says")).unwrap());
        Conversation {
            proxy,
            base,
            project: session.project(),
            to_proxy,
            from_proxy,
            agent_hears,
            agent_says,
            last_id: 0,
        }
    }

    pub(crate) fn editor_sends(&mut self, bytes: &[u8]) {
        self.to_proxy.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn agent_sends(&mut self, bytes: &[u8]) {
        self.agent_says.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn agent_receives(&mut self) -> String {
        read_line(&mut self.agent_hears)
    }

    pub(crate) fn editor_receives(&mut self) -> String {
        read_line(self.from_proxy.as_mut().unwrap())
    }

    /// Returns the next message for the editor.
    pub(crate) fn editor_gets(&mut self) -> Value {
        parse(&self.editor_receives())
    }

    /// Returns the next message for the agent.
    pub(crate) fn agent_gets(&mut self) -> Value {
        parse(&self.agent_receives())
    }

    /// Passes a message from the editor to the agent. The agent must get exactly the same line.
    pub(crate) fn editor_says(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.editor_sends(line.as_bytes());
        assert_eq!(self.agent_receives(), line);
    }

    /// Passes a message from the agent to the editor. The editor must get exactly the same line.
    pub(crate) fn agent_says(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.agent_sends(line.as_bytes());
        assert_eq!(self.editor_receives(), line);
    }

    /// Makes the agent send a request, which the editor answers.
    pub(crate) fn agent_asks(&mut self, method: &str, params: &Value, result: &Value) {
        let id = self.begin_question(method, params);
        self.editor_says(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    /// Makes the agent send a request, and returns its id.
    pub(crate) fn begin_question(&mut self, method: &str, params: &Value) -> i64 {
        self.last_id += 1;
        let id = self.last_id;
        self.agent_says(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Makes the editor send a request, and returns its id.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> i64 {
        self.last_id += 1;
        let id = self.last_id;
        self.editor_says(
            &json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }),
        );
        id
    }

    pub(crate) fn agent_answers(&mut self, id: i64, result: &Value) {
        self.agent_says(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    /// Begins the session `s` in the project. Returns the names of the commands that takeback
    /// offers to the editor.
    pub(crate) fn begin(&mut self, agent: &str) -> Vec<String> {
        let id = self.request("initialize", &json!({ "protocolVersion": 1 }));
        let info = json!({ "name": agent, "version": "1" });
        self.agent_answers(id, &json!({ "protocolVersion": 1, "agentInfo": info }));
        let id = self.request("session/new", &json!({ "cwd": self.project, "mcpServers": [] }));
        self.agent_answers(id, &json!({ "sessionId": "s" }));
        let offered = self.editor_gets();
        assert_eq!(offered["params"]["sessionId"], "s");
        command_names(&offered)
    }

    /// Sends a prompt to the agent, and returns the id of the request.
    pub(crate) fn prompt(&mut self, text: &str) -> i64 {
        self.request("session/prompt", &prompt_params(text))
    }

    pub(crate) fn end_turn(&mut self, id: i64) {
        self.agent_answers(id, &json!({ "stopReason": "end_turn" }));
    }

    /// Makes the agent send an update in the session `s`.
    pub(crate) fn update(&mut self, update: &Value) {
        let params = json!({ "sessionId": "s", "update": update });
        self.agent_says(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
    }

    /// Makes the agent send text as a part of its answer.
    pub(crate) fn chunk(&mut self, text: &str) {
        let content = json!({ "type": "text", "text": text });
        self.update(&json!({ "sessionUpdate": "agent_message_chunk", "content": content }));
    }

    /// Types one of takeback's slash commands, and returns the answer. The agent does not receive
    /// the command.
    pub(crate) fn type_command(&mut self, text: &str) -> String {
        self.last_id += 1;
        let params = prompt_params(text);
        let id = self.last_id;
        let line =
            json!({ "jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params });
        self.editor_sends(format!("{line}\n").as_bytes());
        let said = self.editor_gets();
        let update = &said["params"]["update"];
        assert_eq!(
            (&said["params"]["sessionId"], &update["sessionUpdate"]),
            (&json!("s"), &json!("agent_message_chunk")),
            "{said}"
        );
        let answer = self.editor_gets();
        assert_eq!(
            answer,
            json!({ "jsonrpc": "2.0", "id": id, "result": { "stopReason": "end_turn" } })
        );
        update["content"]["text"].as_str().unwrap().to_owned()
    }

    /// Returns the id of the last request.
    pub(crate) fn last_id(&self) -> i64 {
        self.last_id
    }

    /// Takes the editor's input, so that another thread can write to it.
    pub(crate) fn take_input(&mut self) -> ChildStdin {
        self.to_proxy.take().unwrap()
    }

    /// Closes the editor's pipes, as if the editor had been killed.
    pub(crate) fn drop_editor(&mut self) {
        drop(self.to_proxy.take());
        drop(self.from_proxy.take());
    }

    /// Returns the process id of the agent.
    pub(crate) fn agent_pid(&self) -> u32 {
        fs::read_to_string(self.base.join("pid")).unwrap().trim().parse().unwrap()
    }

    /// Returns the directory that the proxy shares with the agent's hooks.
    pub(crate) fn proxy_directory(&self) -> String {
        fs::read_to_string(self.base.join("proxy")).unwrap().trim().to_owned()
    }

    /// Closes the editor's side, waits until the agent's input ends, and makes the agent exit.
    pub(crate) fn close(mut self) -> ExitStatus {
        drop(self.to_proxy.take());
        let mut rest = String::new();
        self.agent_hears.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
        self.end_agent()
    }

    /// Makes the agent exit, and returns the exit status of the proxy.
    pub(crate) fn end_agent(mut self) -> ExitStatus {
        drop(self.agent_says.take());
        let mut rest = String::new();
        self.from_proxy.as_mut().unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
        self.proxy.wait().unwrap()
    }

    /// Closes the agent's output, and returns everything that the editor still receives.
    pub(crate) fn read_to_end(mut self) -> Vec<u8> {
        drop(self.agent_says.take());
        let mut rest = Vec::new();
        self.from_proxy.as_mut().unwrap().read_to_end(&mut rest).unwrap();
        self.proxy.wait().unwrap();
        rest
    }

    /// Closes the editor's side, and returns everything that the agent still receives.
    pub(crate) fn read_to_end_of_input(&mut self) -> Vec<u8> {
        drop(self.to_proxy.take());
        let mut rest = Vec::new();
        self.agent_hears.read_to_end(&mut rest).unwrap();
        rest
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

pub(crate) fn prompt_params(text: &str) -> Value {
    json!({ "sessionId": "s", "prompt": [{ "type": "text", "text": text }] })
}

/// Returns the names of the commands in an update.
pub(crate) fn command_names(message: &Value) -> Vec<String> {
    let commands = message["params"]["update"]["availableCommands"].as_array().unwrap();
    commands.iter().map(|command| command["name"].as_str().unwrap().to_owned()).collect()
}

fn read_line(reader: &mut impl BufRead) -> String {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line).unwrap();
    String::from_utf8(line).unwrap()
}

fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

fn make_pipe(path: &Path) {
    let path = CString::new(path.to_str().unwrap()).unwrap();
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        path.as_c_str(),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    );
    made.unwrap();
}
