//! `cargo xtask test-model`: tests takeback's own agent with a real model server.
//!
//! The server is llama.cpp, in the package xllamacpp from PyPI. It offers all three APIs that
//! takeback's agent can use. The model is generated (`model.py`), because no package contains one.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use takeback_base::errors::error_chain;
use takeback_ledger::MessageFilter;
use takeback_runtime::approval::ApprovalMode;
use takeback_runtime::model::{ApiKind, Client, ClientOptions, Provider};
use takeback_runtime::tools::{ToolSettings, Tools};
use takeback_runtime::{
    Agent, Answer, FrontEnd, NewSession, Pause, Question, Task, TurnEvent, TurnOutcome,
};
use takeback_undo::{OpenOptions, Opened};

use crate::Failure;
use crate::run::{run_step, target_directory};

const MODEL: &str = include_str!("model.py");

/// The versions that are known to work.
const PACKAGES: [&str; 3] = ["xllamacpp==2026.10.11549", "gguf==0.19.0", "numpy"];

/// The size of the server's context window, in tokens.
const WINDOW: u64 = 32_768;

/// Runs `cargo xtask test-model`.
pub(crate) fn test_model() -> Result<(), Failure> {
    let directory = target_directory().join("local-model");
    let python = install(&directory)?;
    let server = LocalServer::start(&python, &directory)?;
    for kind in [ApiKind::Openai, ApiKind::Responses, ApiKind::Anthropic] {
        let scratch = directory.join(format!("run-{}-{kind:?}", std::process::id()));
        let checked = check_api(&server, kind, &scratch);
        // If this fails, the remaining files do no harm.
        let _ = fs::remove_dir_all(&scratch);
        checked.map_err(|failure| format!("{kind:?}: {failure}"))?;
        println!("{kind:?}: a call, its result, an answer, and an overflow: ok");
    }
    Ok(())
}

/// Installs the packages into an environment. Returns the path of the environment's Python.
fn install(directory: &Path) -> Result<PathBuf, Failure> {
    let environment = directory.join("python");
    let python = environment.join("bin/python");
    if !python.exists() {
        run_step(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    }
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run_step(Command::new(&python).args(pip).arg("--only-binary=:all:").args(PACKAGES))?;
    Ok(python)
}

/// The running server. It exits when its standard input is closed.
struct LocalServer {
    child: Child,
    url: String,
}

impl LocalServer {
    fn start(python: &Path, directory: &Path) -> Result<LocalServer, Failure> {
        let mut command = Command::new(python);
        command.args(["-c", MODEL]).arg(directory.join("model.gguf"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("cannot run Python: {error}"))?;
        let mut url = String::new();
        let output = child.stdout.take().ok_or("the server has no output")?;
        let read = BufReader::new(output).read_line(&mut url);
        read.map_err(|error| format!("cannot read the server's address: {error}"))?;
        let url = url.trim().to_owned();
        let server = LocalServer { child, url };
        match server.url.starts_with("http://") {
            true => Ok(server),
            false => Err("the server did not start".to_owned()),
        }
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Runs a turn with a call, and a turn whose prompt does not fit into the context window.
fn check_api(server: &LocalServer, kind: ApiKind, scratch: &Path) -> Result<(), Failure> {
    let project = scratch.join("project");
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", scratch.display());
    fs::create_dir_all(&project).map_err(failed)?;
    fs::write(project.join("present.txt"), "here\n").map_err(failed)?;
    let agent = Arc::new(build_agent(server, kind, scratch.join("home")));
    let opened = agent.opened.clone();
    let task = Task::begin(agent, &project, NewSession::default(), "t");
    let mut task = task.map_err(|error| error_chain(&error))?;
    let mut take_turn =
        |prompt: &str| task.prompt(prompt, &Quiet).map_err(|error| error_chain(&error));

    let pause = take_turn("Which files are here?")?;
    expect(pause == Pause::TurnEnded(TurnOutcome::Complete), || format!("{pause:?}"))?;
    let ledger = opened.ledger().map_err(|error| error_chain(&error))?.ok_or("no ledger")?;
    let read = |filter| ledger.messages("takeback:t", filter).map_err(|error| error.to_string());
    let messages = read(MessageFilter::Current)?;
    let text = serde_json::to_string(&messages).map_err(|error| error.to_string())?;
    expect(text.contains("list_files") && text.contains("present.txt"), || text.clone())?;
    expect(text.contains("The files are listed."), || text.clone())?;
    let session = ledger.session("takeback:t").map_err(|error| error.to_string())?;
    let (calls, tokens) = (session.api_call_count, session.tokens);
    expect(calls == 2 && tokens.total() > 0, || format!("{calls} requests, {tokens:?}"))?;
    drop(ledger);

    // For this model, each byte is a token.
    let pause = take_turn(&"much too long ".repeat(WINDOW as usize / 10))?;
    let is_blocked = matches!(&pause, Pause::TurnEnded(TurnOutcome::Blocked { .. }));
    expect(is_blocked, || format!("a prompt that is too long ended with {pause:?}"))
}

fn expect(holds: bool, describe: impl FnOnce() -> String) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(describe()) }
}

fn build_agent(server: &LocalServer, kind: ApiKind, home: PathBuf) -> Agent {
    let opened = Opened::new(OpenOptions { redact: true, ..OpenOptions::new(home) });
    Agent {
        opened: Arc::new(opened),
        client: Client::new(ClientOptions::default()),
        provider: Provider {
            name: "local".into(),
            kind,
            base_url: format!("{}/v1", server.url),
            key: None,
            model: "m".into(),
            // This is larger than the server's real window, so that the server itself has to refuse
            // a request.
            context_window: 10 * WINDOW,
            max_output: 512,
            prices: None,
        },
        fallback: None,
        tools: Tools::standard(&ToolSettings::default()),
        approval: ApprovalMode::Effects,
        has_checkpoints: true,
        user_home: None,
        on_follow_up: Box::new(|_, _| {}),
        shared: None,
    }
}

struct Quiet;

impl FrontEnd for Quiet {
    fn show(&self, _: &TurnEvent<'_>) {}

    fn approve(&self, _: &Question<'_>) -> Answer {
        Answer::Later
    }
}
