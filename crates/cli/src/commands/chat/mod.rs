//! `takeback chat`: talk to takeback's own agent.
//!
//! Prompts are read by [`PromptReader`], turns are shown by [`TerminalFrontEnd`] or
//! [`JsonFrontEnd`], and `slash` answers the commands that begin with a slash.

mod agent;
mod conversation;
mod input;
mod json;
pub(crate) mod slash;
mod terminal;

use std::process::ExitCode;

use clap::Args;
use takeback_runtime::{FrontEnd, Pause, TurnOutcome};

pub(crate) use self::agent::AgentArguments;
pub(crate) use self::conversation::Conversation;
use self::input::{PromptInput, PromptReader, read_whole_prompt};
use self::json::JsonFrontEnd;
use self::slash::{COMMANDS, SlashAction, answer_line};
use self::terminal::TerminalFrontEnd;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Talk to takeback's own agent, which can always continue where it stopped
///
/// Every step is journalled: if the process is killed, `--resume` continues at the exact step. A
/// checkpoint is taken before every call that may change files, and `/rollback` takes back files
/// and conversation.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback chat                                  a conversation in this directory
  takeback chat -p \"fix the failing test\"        one turn, for scripts
  takeback chat -p - --json < prompt.txt         the prompt from a file, events as JSON lines
  takeback chat --resume                         continue the last conversation in this directory

The model comes from the table [chat] of config.toml: see docs/configuration.md.")]
pub(crate) struct Arguments {
    /// Run one turn with this prompt, and leave; `-` reads the prompt from standard input
    #[arg(short, long, value_name = "PROMPT")]
    prompt: Option<String>,
    /// Continue a session: its id, the beginning of its id, or its title; without a value, the last
    /// one in this directory
    #[arg(long, value_name = "SESSION", num_args = 0..=1)]
    resume: Option<Option<String>>,
    #[command(flatten)]
    agent: AgentArguments,
}

pub(crate) fn run(arguments: Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let mut conversation = Conversation::new(arguments.agent, context)?;
    if let Some(session) = &arguments.resume {
        conversation.resume(session.as_deref())?;
    }
    match arguments.prompt {
        Some(prompt) => {
            let prompt = match prompt.as_str() {
                "-" => read_whole_prompt(std::io::stdin())?,
                _ => prompt,
            };
            run_once(&mut conversation, &prompt, context)
        }
        None => talk(&mut conversation, context),
    }
}

/// Calls `act` with the front end for this output.
pub(crate) fn with_front_end<T>(
    context: &Context,
    act: impl FnOnce(&dyn FrontEnd) -> Result<T, Failure>,
) -> Result<T, Failure> {
    match context.globals.json {
        true => act(&JsonFrontEnd::new()),
        false => act(&TerminalFrontEnd::new()),
    }
}

/// Runs one turn, and leaves.
fn run_once(
    conversation: &mut Conversation<'_>,
    prompt: &str,
    context: &Context,
) -> Result<ExitCode, Failure> {
    if conversation.is_interrupted() {
        return Err(Failure::new("the last turn of this session was interrupted")
            .hint("`takeback tasks` lists it; continue it with `takeback tasks resume ID`, or end it with `takeback tasks cancel ID`"));
    }
    let pause = with_front_end(context, |front| conversation.prompt(prompt, front))?;
    conversation.leave("finished");
    Ok(exit_code(&pause))
}

/// Continues an interrupted turn, and leaves.
pub(crate) fn proceed_once(
    conversation: &mut Conversation<'_>,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let pause = with_front_end(context, |front| conversation.proceed(front))?;
    conversation.leave("finished");
    Ok(exit_code(&pause))
}

fn exit_code(pause: &Pause) -> ExitCode {
    match pause {
        Pause::TurnEnded(TurnOutcome::Complete) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Talks with the user until the user leaves.
fn talk(conversation: &mut Conversation<'_>, context: &Context) -> Result<ExitCode, Failure> {
    let mut reader = PromptReader::new(&context.home, &context.directory, COMMANDS)?;
    continue_interrupted(conversation, context)?;
    loop {
        let prompt = match reader.read_prompt()? {
            PromptInput::Text(prompt) => prompt,
            PromptInput::Interrupted => continue,
            PromptInput::End => break,
        };
        let answer = answer_line(&prompt, conversation.session(), &context.directory, context);
        let Some(answer) = answer else {
            // One failed turn does not end the conversation.
            let turn = with_front_end(context, |front| conversation.prompt(&prompt, front));
            if let Err(failure) = turn {
                failure.report(context.globals.json);
            }
            continue;
        };
        if !answer.text.is_empty() {
            println!("{}", answer.text);
        }
        match answer.action {
            Some(SlashAction::Quit) => break,
            Some(action) => {
                if let Err(failure) = act(&action, conversation, context) {
                    failure.report(context.globals.json);
                }
            }
            None => {}
        }
        output::flush();
    }
    conversation.leave("left by the user");
    Ok(ExitCode::SUCCESS)
}

/// Offers to continue the last turn if it was interrupted.
fn continue_interrupted(
    conversation: &mut Conversation<'_>,
    context: &Context,
) -> Result<(), Failure> {
    if !conversation.is_interrupted() {
        return Ok(());
    }
    let is_wanted = conversation.is_resumed_automatically()
        || !context.asks()
        || output::is_agreed("The last turn was interrupted. Continue it?");
    if is_wanted {
        with_front_end(context, |front| conversation.proceed(front))?;
    } else {
        conversation.give_up_turn()?;
    }
    Ok(())
}

/// Carries out a slash command that concerns this conversation.
fn act(
    action: &SlashAction,
    conversation: &mut Conversation<'_>,
    context: &Context,
) -> Result<(), Failure> {
    match action {
        SlashAction::Quit => {}
        SlashAction::Resume { session } => {
            conversation.resume(Some(session))?;
            continue_interrupted(conversation, context)?;
        }
        SlashAction::Model { name: None } => println!("Asking {}.", conversation.model()),
        SlashAction::Model { name: Some(name) } => {
            conversation.change_model(name)?;
            println!("Now asking {}.", conversation.model());
        }
        SlashAction::Compress => {
            let is_done = with_front_end(context, |front| conversation.compress(front))?;
            if !is_done {
                println!("There are no older turns to summarize.");
            }
        }
        SlashAction::Fork { turn } => conversation.fork(turn.as_deref())?,
    }
    Ok(())
}
