//! `takeback acp`: passes the messages of the Agent Client Protocol between an editor and an agent,
//! and takes checkpoints on the way.
//!
//! The conversation comes first: if anything fails here, messages are passed on unchanged.

mod agent;
mod calls;
mod commands;
mod editor;
mod lines;
mod message;
mod process;
mod proxy;
mod recorder;
mod session;

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::Args;

use self::process::AgentProcess;
use self::proxy::Proxy;
use self::recorder::Recorder;
use self::session::State;
use super::run::exit_code;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::takeover::Takeover;

/// Protect any agent that an editor runs over the Agent Client Protocol
///
/// For editors such as Zed and JetBrains: enter this command instead of the agent's own. takeback
/// passes all messages on unchanged, and takes a checkpoint before each prompt and each change that
/// the agent asks for. In the editor, takeback answers /rollback, /undo, /redo and /diff.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback acp -- npx -y @agentclientprotocol/claude-agent-acp
  takeback acp -- gemini --acp
  takeback install zed          add Claude Code, Codex and Gemini CLI to Zed's settings")]
pub(crate) struct Arguments {
    /// The command that starts the agent
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
}

/// The time to wait for the rest of the agent's output after the agent has exited.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Runs the agent.
pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    run_agent(arguments, Some(context.in_directory(&context.directory)))
}

/// Runs the agent without recording anything, because takeback's home cannot be used.
pub(crate) fn run_without_checkpoints(arguments: &Arguments, failure: &Failure) -> ExitCode {
    output::warn(&format!("{failure}; the agent runs without checkpoints"));
    run_agent(arguments, None).unwrap_or_else(|failure| failure.report(false))
}

fn run_agent(arguments: &Arguments, context: Option<Context>) -> Result<ExitCode, Failure> {
    let takeover = context.as_ref().and_then(|context| Takeover::begin(&context.home).ok());
    let directory = context.as_ref().map(|context| context.directory.clone());
    let proxy = takeover.as_ref().map(Takeover::directory);
    let mut agent = match AgentProcess::start(&arguments.command, directory.as_deref(), proxy) {
        Ok(agent) => agent,
        Err(error) => return Ok(report_missing(&arguments.command[0], &error)),
    };
    let (input, said) = agent.take_streams();
    let words: Vec<String> =
        arguments.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let state = State::new(&words, directory.unwrap_or_else(|| "/".into()));
    let proxy = Arc::new(Proxy::new(state, Recorder::start(context), takeover, input));
    let cannot = |error: io::Error| Failure::new("cannot serve the editor").because(&error);
    agent.group().forward_signals().map_err(cannot)?;
    let heard = pass_messages(&proxy, &agent, said).map_err(cannot)?;
    let status = agent.wait();
    // A process that the agent left behind may keep the agent's output open, so the wait is
    // limited.
    let _ = heard.recv_timeout(LAST_WORDS);
    proxy.finish();
    match status {
        Ok(status) => Ok(exit_code(status)),
        Err(error) => Err(Failure::new("cannot wait for the agent").because(&error)),
    }
}

/// Starts the threads that pass messages on. The returned channel gets a message when the agent's
/// output has ended.
fn pass_messages(
    proxy: &Arc<Proxy>,
    agent: &AgentProcess,
    said: std::process::ChildStdout,
) -> io::Result<mpsc::Receiver<()>> {
    let (sender, heard) = mpsc::channel();
    let (to_agent, to_editor, group) = (proxy.clone(), proxy.clone(), agent.group());
    thread::Builder::new().spawn(move || {
        // If the agent no longer reads its input, it is about to exit.
        let _ = to_agent.pass_to_agent(io::stdin());
        // Stop the agent only if the editor has exited, because then nothing reads the agent's
        // output. If the editor has only closed the input, the agent may finish its work.
        process::wait_for_reader_to_leave();
        group.end();
    })?;
    thread::Builder::new().spawn(move || {
        let passed = to_editor.pass_to_editor(said);
        let _ = sender.send(());
        if passed.is_err() {
            group.end();
        }
    })?;
    Ok(heard)
}

/// Reports that the agent could not be started. Returns the exit code that shells use in this case.
fn report_missing(program: &OsStr, error: &io::Error) -> ExitCode {
    Failure::new(format!("cannot run {}", program.to_string_lossy())).because(error).report(false);
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    ExitCode::from(if is_missing { 127 } else { 126 })
}
