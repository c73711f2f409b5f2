//! `cargo xtask test-acp`: real agents that speak the Agent Client Protocol, a simulated editor,
//! `takeback acp` between them, and a scripted model.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::model::{DONE, FILE, GREETING, WORK};
use super::npm::{AgentCache, FetchError};
use super::programs::PROGRAMS;
use super::sandbox::Sandbox;
use super::scenario::NOTICE;
use crate::Failure;
use crate::run::{cargo, run_step};

/// An agent that speaks the protocol.
struct AcpProgram {
    /// The name of an entry in the table of agents. This agent has the configuration and the tools
    /// of that entry.
    name: &'static str,
    package: &'static str,
    version: &'static str,
    command: &'static [&'static str],
}

const ACP_PROGRAMS: [AcpProgram; 3] = [
    AcpProgram {
        name: "claude",
        package: "@agentclientprotocol/claude-agent-acp",
        version: "0.100.0",
        command: &["claude-agent-acp"],
    },
    AcpProgram {
        name: "codex",
        package: "@agentclientprotocol/codex-acp",
        version: "2.6.0",
        command: &["codex-acp"],
    },
    AcpProgram {
        name: "gemini",
        package: "@google/gemini-cli",
        version: "0.61.0",
        command: &["gemini", "--acp", "-m", "gemini-2.5-flash"],
    },
];

/// The maximum time that an agent may be silent.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs `cargo xtask test-acp [agent…]`.
pub(crate) fn test_acp(names: &[&str]) -> Result<(), Failure> {
    let packages = ["--package", "takeback", "--package", "xtask", "--all-features"];
    run_step(cargo().arg("build").args(packages))?;
    let is_wanted = |program: &&AcpProgram| names.is_empty() || names.contains(&program.name);
    let wanted: Vec<&AcpProgram> = ACP_PROGRAMS.iter().filter(is_wanted).collect();
    if wanted.len() < names.len() {
        return Err(format!("unknown agent in {}", names.join(" ")));
    }
    let (cache, mut failures) = (AgentCache::new()?, Vec::new());
    for program in wanted {
        for has_hooks in [false, true] {
            let how = if has_hooks { "with its hooks" } else { "without hooks" };
            match test_one(program, has_hooks, &cache) {
                Ok(()) => eprintln!("  {} {how}: ok", program.package),
                Err(FetchError::Unavailable(why)) => {
                    eprintln!("  {} {how}: SKIPPED: {why}", program.package);
                }
                Err(FetchError::Failed(failure)) => {
                    eprintln!("  {} {how}: FAILED: {failure}", program.package);
                    failures.push(format!("{} {how}", program.package));
                }
            }
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(format!("failed: {}", failures.join(", "))) }
}

fn test_one(program: &AcpProgram, has_hooks: bool, cache: &AgentCache) -> Result<(), FetchError> {
    let installed = cache.install_package(
        &format!("acp-{}", program.name),
        program.package,
        program.version,
    )?;
    let known = PROGRAMS.iter().find(|known| known.name == program.name);
    let known = known.expect("each agent is also in the table of npm packages");
    let directory = format!("acp-{}-{has_hooks}", program.name);
    let played = Sandbox::new_in(known, &installed, cache, &directory).and_then(|sandbox| {
        play(&sandbox, program, has_hooks).map_err(|failure| {
            format!("{failure}\nits files are kept in {}", sandbox.directory().display())
        })
    });
    played.map_err(FetchError::Failed)
}

/// Lets the agent do some work, takes the work back from inside the editor, and checks the files,
/// the requests to the model and the ledger.
fn play(sandbox: &Sandbox, program: &AcpProgram, has_hooks: bool) -> Result<(), Failure> {
    if has_hooks {
        sandbox.run_takeback(&["install", program.name, "--user", "--yes"], "install")?;
    }
    let before = sandbox.snapshot_project()?;
    let mut editor = Editor::start(sandbox, program)?;
    // Gemini CLI 0.61 fails to create a file if the editor reads files for it, because it does not
    // understand any editor's error for a missing file.
    let reads_files = !has_hooks && program.name != "gemini";
    let session = editor.begin(&sandbox.project(), reads_files, !has_hooks)?;
    editor.prompt(&session, WORK)?;
    if !sandbox.project().join(FILE.0).exists() {
        return Err(format!("the agent did not write {}", FILE.0));
    }
    let listed = editor.prompt(&session, "/rollback")?;
    let done = editor.prompt(&session, "/rollback 1")?;
    if sandbox.find_request(0, "/rollback").is_some() {
        return Err("the model was asked, but takeback should have answered".to_owned());
    }
    if !listed.contains(WORK) {
        return Err(format!("the list lacks the prompt:\n{listed}\n{done}"));
    }
    sandbox.snapshot_project()?.must_be(&before, "the project after a rollback in the editor")?;
    editor.prompt(&session, GREETING)?;
    if sandbox.find_request(0, NOTICE).is_none() {
        return Err("the model was not told about the rollback".to_owned());
    }
    editor.close()?;
    check_ledger(sandbox, program.name)
}

/// Checks that the ledger has each session, message and call once.
fn check_ledger(sandbox: &Sandbox, agent: &str) -> Result<(), Failure> {
    let mut last = String::new();
    // The agent's log is read in the background.
    for _ in 0..60 {
        let text = sandbox.print_takeback(&["sessions", "export", "--all"], "export")?;
        let sessions: Vec<Value> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        match judge_ledger(&sessions, agent) {
            Ok(()) => return Ok(()),
            Err(failure) => last = format!("{failure}\n{text}"),
        }
        thread::sleep(Duration::from_millis(500));
    }
    Err(last)
}

fn judge_ledger(sessions: &[Value], agent: &str) -> Result<(), Failure> {
    // Some agents start sessions of their own, in which nothing happens.
    let is_used = |session: &&Value| {
        let has = |key: &str| session[key].as_array().is_some_and(|list| !list.is_empty());
        session["source"] == agent && (has("messages") || has("calls"))
    };
    let of_agent: Vec<&Value> = sessions.iter().filter(is_used).collect();
    let [session] = of_agent[..] else {
        return Err(format!("the ledger has {} sessions of {agent}", of_agent.len()));
    };
    let list = |key: &str| session[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let count = |role: &str, text: &str| {
        let is_it = |message: &&Value| {
            message["role"] == role && message["content"].to_string().contains(text)
        };
        list("messages").iter().filter(is_it).count()
    };
    let counts = [
        count("user", WORK),
        count("assistant", DONE),
        count("user", GREETING),
        list("calls").len(),
    ];
    match counts {
        [1, 1, 1, 2] => Ok(()),
        counts => Err(format!(
            "expected one each of work, answer and greeting, and two calls: {counts:?}"
        )),
    }
}

/// The simulated editor.
struct Editor {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    last_id: i64,
}

impl Editor {
    fn start(sandbox: &Sandbox, program: &AcpProgram) -> Result<Editor, Failure> {
        let mut command: Command = sandbox.agent_command(&["acp", "--"])?;
        command.args(program.command).stdin(Stdio::piped()).stdout(Stdio::piped());
        let failed = |error: std::io::Error| format!("cannot start takeback acp: {error}");
        let mut child = command.spawn().map_err(failed)?;
        let output = child.stdout.take().ok_or("no output")?;
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Ok(Editor { input: child.stdin.take(), child, messages, last_id: 0 })
    }

    /// Begins a session. Returns its id.
    fn begin(
        &mut self,
        project: &Path,
        reads_files: bool,
        writes_files: bool,
    ) -> Result<String, Failure> {
        let files = json!({ "readTextFile": reads_files, "writeTextFile": writes_files });
        let params = json!({
            "protocolVersion": 1, "clientCapabilities": { "fs": files, "terminal": false },
            "clientInfo": { "name": "zed", "version": "1.0.0" },
        });
        let (about, _) = self.request("initialize", &params)?;
        let params = json!({ "cwd": project, "mcpServers": [] });
        let session = match self.request("session/new", &params) {
            Ok((session, _)) => session,
            Err(failure) => {
                // Some agents must be told how to authenticate, even if a key is set.
                let method = about["authMethods"].as_array().into_iter().flatten();
                let method = method.filter_map(|method| method["id"].as_str());
                let method = method.into_iter().find(|id| id.contains("api-key"));
                let method = method.ok_or(failure)?;
                self.request("authenticate", &json!({ "methodId": method }))?;
                self.request("session/new", &params)?.0
            }
        };
        let id = session["sessionId"].as_str();
        id.map(str::to_owned).ok_or_else(|| format!("a session without an id: {session}"))
    }

    /// Sends a prompt. Returns everything that the agent says before it finishes.
    fn prompt(&mut self, session: &str, text: &str) -> Result<String, Failure> {
        let blocks = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": session, "prompt": blocks });
        let (result, said) = self.request("session/prompt", &params)?;
        match result["stopReason"].as_str() {
            Some("end_turn") => Ok(said),
            _ => Err(format!("{text}: {result}\n{said}")),
        }
    }

    /// Sends a request, and answers the agent's own requests until the response arrives. Returns
    /// the result, and the text that the agent sent.
    fn request(&mut self, method: &str, params: &Value) -> Result<(Value, String), Failure> {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        let mut said = String::new();
        loop {
            let message = self.messages.recv_timeout(LIMIT);
            let message =
                message.map_err(|error| format!("{method}: no answer: {error}\n{said}"))?;
            let update = &message["params"]["update"];
            match (message["method"].as_str(), message.get("id")) {
                (None, Some(answered)) if *answered == json!(id) => match message.get("error") {
                    Some(error) => return Err(format!("{method}: {error}\n{said}")),
                    None => return Ok((message["result"].clone(), said)),
                },
                (Some(asked), Some(asked_id)) => {
                    let answer = answer_agent(asked, &message["params"]);
                    let mut response = json!({ "jsonrpc": "2.0", "id": asked_id });
                    match answer {
                        Ok(result) => response["result"] = result,
                        Err((code, message)) => {
                            response["error"] = json!({ "code": code, "message": message });
                        }
                    }
                    self.send(&response)?;
                }
                (Some(_), None) if update["sessionUpdate"] == "agent_message_chunk" => {
                    said.push_str(update["content"]["text"].as_str().unwrap_or_default());
                }
                _ => {}
            }
        }
    }

    fn send(&mut self, message: &Value) -> Result<(), Failure> {
        let input = self.input.as_mut().ok_or("the input is closed")?;
        writeln!(input, "{message}").map_err(|error| format!("cannot write: {error}"))
    }

    /// Closes the input, and waits for the proxy and its agent to end.
    fn close(mut self) -> Result<(), Failure> {
        drop(self.input.take());
        while self.messages.recv_timeout(LIMIT).is_ok() {}
        self.child.wait().map(drop).map_err(|error| error.to_string())
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The code and the message of an error.
type AnswerError = (i64, String);

/// Creates the error for a file that cannot be read or written. Agents recognize a missing file by
/// the code and the words that editors use.
fn explain_io(error: &io::Error) -> AnswerError {
    match error.kind() {
        io::ErrorKind::NotFound => (-32002, "Resource not found".to_owned()),
        _ => (-32603, error.to_string()),
    }
}

/// Carries out an agent's request to its editor.
fn answer_agent(method: &str, params: &Value) -> Result<Value, AnswerError> {
    let path = || params["path"].as_str().unwrap_or_default();
    match method {
        "session/request_permission" => {
            let options = params["options"].as_array().into_iter().flatten();
            let mut allowing = options
                .filter(|option| option["kind"].as_str().is_some_and(|it| it.starts_with("allow")));
            let chosen =
                allowing.next().ok_or((-32602, "no option allows this call".to_owned()))?;
            Ok(json!({ "outcome": { "outcome": "selected", "optionId": chosen["optionId"] } }))
        }
        "fs/read_text_file" => {
            let content = std::fs::read_to_string(path()).map_err(|error| explain_io(&error))?;
            Ok(json!({ "content": content }))
        }
        "fs/write_text_file" => {
            let content = params["content"].as_str().unwrap_or_default();
            std::fs::write(path(), content).map_err(|error| explain_io(&error))?;
            Ok(json!({}))
        }
        _ => Err((-32601, format!("unknown method {method}"))),
    }
}
