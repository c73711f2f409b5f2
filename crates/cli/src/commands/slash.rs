//! `/rollback` and `/undo`, typed inside an agent. A second process runs the command, and its
//! output is shown as the answer.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use clap::{Args, Subcommand};
use takeback_agents::{SlashCommand, split_words};

use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Run a command that was typed as `/rollback …` or `/undo …` inside an agent
///
/// For the command files that `takeback install` writes. Asks no questions, uses no colors, and
/// prints errors on standard output, because an agent shows nothing else.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Change nothing, because no user typed the command
    #[arg(long)]
    list_only: bool,
    #[command(subcommand)]
    typed: Typed,
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
    let (name, rest) = words.split_first().expect("clap requires a word");
    let rest = match rest {
        [text] => split_words(text),
        words => words.to_vec(),
    };
    let slash = SlashCommand::new(name, rest)
        .ok_or_else(|| Failure::new(format!("there is no /{name}")))?;
    println!("{}", run_slash_command(&slash, &context.directory, context, arguments.list_only));
    // Agents do not show the output of a command that fails.
    Ok(ExitCode::SUCCESS)
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
        let list = run_takeback(["list"], directory, context);
        return format!(
            "Nothing was changed: the agent runs without a user. Type `takeback {command}` in a \
             terminal to take something back.\n\n{list}"
        );
    }
    let words = [slash.command()].into_iter().chain(slash.arguments().iter().map(String::as_str));
    run_takeback(words, directory, context)
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
