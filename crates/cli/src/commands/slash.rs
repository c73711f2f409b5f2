//! Answers `/rollback` and `/undo`, which the user types inside an agent. The answer is the output
//! of the command, which runs in a second process or, for an agent's plugin, in this process.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;
use takeback_agents::{SlashCommand, split_words};

use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::slash::{run_words, words_in_agent};

/// Run a command that was typed as `/rollback …` or `/undo …` inside an agent
///
/// For the command files that `takeback install` writes. Asks no questions, uses no colors, and
/// prints errors on standard output, because an agent shows nothing else.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Change nothing, because no user typed the command
    #[arg(long)]
    list_only: bool,
    /// The session that the command was typed in. The answer is then one line of JSON: its text,
    /// and the conversation to continue
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    #[command(subcommand)]
    typed: Typed,
}

/// The answer for an agent's plugin, which can show another conversation.
#[derive(Serialize)]
struct PluginAnswer {
    text: String,
    /// The conversation to show instead of the current one.
    resume: Option<Value>,
}

#[derive(Subcommand)]
enum Typed {
    /// `rollback` or `undo`, then the arguments as words or as one string. None of them is an
    /// option of takeback itself.
    #[command(external_subcommand)]
    Words(Vec<OsString>),
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let Typed::Words(words) = &arguments.typed;
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into()).collect();
    let (name, rest) = words.split_first().expect("clap requires at least one word");
    let rest = match rest {
        [text] => split_words(text),
        words => words.to_vec(),
    };
    let slash = SlashCommand::new(name, rest)
        .ok_or_else(|| Failure::new(format!("there is no /{name}")))?;
    let answer = match &arguments.session {
        None => run_slash_command(&slash, &context.directory, context, arguments.list_only),
        Some(session) => {
            let answer = answer_plugin(&slash, session, context, arguments.list_only);
            serde_json::to_string(&answer).expect("plain data becomes JSON")
        }
    };
    println!("{answer}");
    // Agents do not show the output of a command that fails.
    Ok(ExitCode::SUCCESS)
}

/// Runs the command, and finds the conversation that the agent has to show afterwards.
fn answer_plugin(
    slash: &SlashCommand,
    session: &str,
    context: &Context,
    is_headless: bool,
) -> PluginAnswer {
    if slash.check().is_err() || (is_headless && slash.is_changing()) {
        let text = run_slash_command(slash, &context.directory, context, is_headless);
        return PluginAnswer { text, resume: None };
    }
    let words: Vec<&str> =
        [slash.command()].into_iter().chain(slash.arguments().iter().map(String::as_str)).collect();
    let answer = run_words(&words_in_agent(&words), context).plain();
    let moved = answer.data.as_ref().and_then(|data| data["sessions"].as_array());
    let resume = moved.and_then(|moved| choose_resume(moved, session));
    PluginAnswer { text: answer.text, resume }
}

/// Chooses the conversation to show: one whose messages were restored, or the copy that replaces
/// the current conversation. Returns `None` if the current conversation continues.
fn choose_resume(moved: &[Value], session: &str) -> Option<Value> {
    let (agent, id) = session.split_once(':')?;
    let can_show = |moved: &&Value| {
        let resume = &moved["resume"];
        resume["agent"] == agent && resume["session"].is_string()
    };
    let is_back = |moved: &&Value| moved["redone_messages"].as_u64() > Some(0);
    let mut shown = moved.iter().filter(can_show);
    let chosen =
        shown.clone().find(is_back).or_else(|| shown.find(|moved| moved["session"] == session))?;
    Some(chosen["resume"].clone()).filter(|resume| resume["session"] != id)
}

/// Runs the command and returns its output. If there is no user, a command that would change
/// something is not run, and the checkpoints are listed instead.
pub(crate) fn run_slash_command(
    slash: &SlashCommand,
    directory: &Path,
    context: &Context,
    is_headless: bool,
) -> String {
    if let Err(reason) = slash.check() {
        return output::disarm_lines(&reason);
    }
    if is_headless && slash.is_changing() {
        let command = slash.command();
        let list = run_takeback(words_in_agent(&["list"]), directory, context);
        return format!(
            "Nothing was changed: the agent runs without a user. Type `takeback {command}` in a \
             terminal to take something back.\n\n{list}"
        );
    }
    let words = [slash.command()].into_iter().chain(slash.arguments().iter().map(String::as_str));
    run_takeback(words_in_agent(&words.collect::<Vec<_>>()), directory, context)
}

pub(crate) fn run_takeback<'a>(
    words: impl IntoIterator<Item = &'a str>,
    directory: &Path,
    context: &Context,
) -> String {
    let program = std::env::current_exe();
    let output = program.and_then(|program| {
        let mut command = Command::new(program);
        command.arg("--home").arg(&context.home).arg("-C").arg(directory);
        command.args(context.profile().into_iter().flat_map(|profile| ["--profile", profile]));
        let typed_in = context.globals.typed_in.as_deref();
        command.args(typed_in.into_iter().flat_map(|session| ["--typed-in", session]));
        command.args(["--yes", "--color", "never"]).args(words.into_iter().map(OsStr::new));
        command.stdin(Stdio::null()).output()
    });
    match output {
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            let text = output::disarm_lines(String::from_utf8_lossy(&text).trim_end());
            if text.is_empty() { "Done.".to_owned() } else { text }
        }
        Err(error) => format!("takeback could not be started: {error}"),
    }
}
