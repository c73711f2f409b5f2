//! `takeback chat`: talk to takeback's own agent.
//!
//! `talk` reads the prompts, [`TerminalFrontEnd`] or [`JsonFrontEnd`] shows the turns, and
//! [`crate::slash`] answers the commands that begin with a slash.

mod agent;
mod conversation;
mod input;
mod interrupted;
mod json;
mod stopper;
mod talk;
mod terminal;
pub(crate) mod unattended;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use takeback_runtime::{FrontEnd, Pause, TurnOutcome};
use takeback_undo::ForkFiles;

pub(crate) use self::agent::{AgentArguments, find_model, shared_journal, shares_tasks};
#[cfg(not(fuzzing))]
pub(crate) use self::agent::{build_agent, new_id};
pub(crate) use self::conversation::{Conversation, find_own_session};
use self::input::read_whole_prompt;
use self::json::JsonFrontEnd;
use self::talk::talk;
use self::terminal::TerminalFrontEnd;
use super::fleet::ResidentShipper;
use super::fork;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Talk to takeback's own agent, which can always continue where it stopped
///
/// Every step is journaled: if the process is killed, `--resume` continues at the exact step. A
/// checkpoint is taken before every call that may change files, and `/rollback` takes back files
/// and conversation.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback chat                                  a conversation in this directory
  takeback chat -p \"fix the failing test\"        one turn, for scripts
  takeback chat -p - --json < prompt.txt         the prompt from a file, events as JSON lines
  takeback chat --resume                         continue the last conversation in this directory
  takeback chat --fork 4f2a@3                    continue differently after its third turn
  takeback chat --fork 4f2a@3 --files            with the files of that moment, in a new directory

/help lists the commands inside the chat. From a pipe, those that change something need --yes.
The model comes from the table [chat] of config.toml: see docs/configuration.md.")]
pub(crate) struct Arguments {
    /// Run one turn with this prompt, and exit; `-` reads the prompt from standard input
    #[arg(short, long, value_name = "PROMPT")]
    prompt: Option<String>,
    /// Continue a session: its id, the beginning of its id, or its title; without a value, the last
    /// one in this directory
    #[arg(long, value_name = "SESSION", num_args = 0..=1)]
    resume: Option<Option<String>>,
    /// Continue in a copy of any agent's session (SESSION, SESSION@TURN, SESSION@CHECKPOINT or
    /// SESSION@now), or from a checkpoint of this workspace
    #[arg(long, value_name = "MOMENT", conflicts_with = "resume")]
    fork: Option<String>,
    /// With --fork: write the files of that moment to a new directory, and work there [default:
    /// beside the workspace]
    #[arg(long, value_name = "DIR", num_args = 0..=1, requires = "fork")]
    files: Option<Option<PathBuf>>,
    #[command(flatten)]
    agent: AgentArguments,
}

pub(crate) fn run(arguments: Arguments, context: &Context) -> Result<ExitCode, Failure> {
    if arguments.prompt.as_ref().is_some_and(|prompt| prompt.trim().is_empty()) {
        return Err(Failure::new("the prompt is empty"));
    }
    let _shipper = ResidentShipper::start(context);
    let mut conversation = Conversation::new(arguments.agent, context)?;
    if let Some(session) = &arguments.resume {
        conversation.resume(session.as_deref())?;
    }
    if let Some(moment) = &arguments.fork {
        let files = match arguments.files {
            None => ForkFiles::Stay(context.directory.clone()),
            Some(None) => ForkFiles::Beside,
            Some(Some(directory)) => ForkFiles::Into(context.directory.join(directory)),
        };
        begin_fork(&mut conversation, moment, files, context)?;
    }
    match arguments.prompt {
        Some(prompt) => {
            let prompt = match prompt.as_str() {
                "-" => read_whole_prompt(std::io::stdin())?,
                _ => prompt,
            };
            run_once(&mut conversation, &prompt)
        }
        None => talk(&mut conversation),
    }
}

/// Forks from the moment that the user names, and continues in the fork.
fn begin_fork(
    conversation: &mut Conversation,
    moment: &str,
    files: ForkFiles,
    context: &Context,
) -> Result<(), Failure> {
    let (fork, captured) = output::capture_output(|| fork::make_and_print(moment, files, context));
    let fork = fork?;
    if context.globals.json {
        let event = serde_json::json!({ "event": "forked", "fork": fork });
        println!("{}", output::disarm_json(&event.to_string()));
    } else if std::io::stdout().is_terminal() {
        println!("{}", captured.text());
    } else {
        // If standard output is not a terminal, it gets only the answer.
        eprintln!("{}", captured.text());
    }
    let directory = fork.directory.as_ref().map(|directory| directory.0.as_path());
    conversation.enter(fork.session.as_deref(), directory)
}

/// Calls `act` with the front end for JSON or the front end for the terminal.
pub(crate) fn with_front_end<T>(
    is_json: bool,
    act: impl FnOnce(&dyn FrontEnd) -> Result<T, Failure>,
) -> Result<T, Failure> {
    match is_json {
        true => act(&JsonFrontEnd::new()),
        false => act(&TerminalFrontEnd::new()),
    }
}

/// Runs one turn, and returns.
fn run_once(conversation: &mut Conversation, prompt: &str) -> Result<ExitCode, Failure> {
    if conversation.is_interrupted() {
        let task = conversation.task().unwrap_or_default();
        return Err(Failure::new("the last turn of this session is not over").hint(format!(
            "`takeback tasks resume {task}` continues it, and `takeback tasks cancel {task}` ends it"
        )));
    }
    let is_json = conversation.context().globals.json;
    let pause = with_front_end(is_json, |front| conversation.prompt(prompt, front))?;
    conversation.leave("finished");
    Ok(exit_code(&pause))
}

/// Continues an interrupted turn, and returns.
pub(crate) fn proceed_once(conversation: &mut Conversation) -> Result<ExitCode, Failure> {
    let is_json = conversation.context().globals.json;
    let pause = with_front_end(is_json, |front| conversation.proceed(front))?;
    conversation.leave("finished");
    Ok(exit_code(&pause))
}

fn exit_code(pause: &Pause) -> ExitCode {
    match pause {
        Pause::TurnEnded(TurnOutcome::Complete) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
