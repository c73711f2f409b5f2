//! `/rollback` and `/undo`, typed inside an agent: a second process runs the command, and its output
//! is the answer.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use takeback_agents::{SlashCommand, split_words};

use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Run a command that was typed as `/rollback …` or `/undo …` inside an agent
///
/// For the command files that `takeback install` writes. Asks no questions, uses no colours, and
/// prints errors on standard output, because an agent shows nothing else.
#[derive(Args)]
pub(crate) struct Arguments {
    /// `rollback` or `undo`
    command: String,
    /// The arguments, as words or as one text
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let rest = match &arguments.rest[..] {
        [text] => split_words(text),
        words => words.to_vec(),
    };
    let slash = SlashCommand::new(&arguments.command, rest)
        .ok_or_else(|| Failure::new(format!("there is no /{}", arguments.command)))?;
    println!("{}", run_slash_command(&slash, &context.directory, context));
    // Agents show no output of a command that fails.
    Ok(ExitCode::SUCCESS)
}

/// Runs the command and returns its output.
pub(crate) fn run_slash_command(
    slash: &SlashCommand,
    directory: &Path,
    context: &Context,
) -> String {
    let program = std::env::current_exe();
    let output = program.and_then(|program| {
        let mut command = Command::new(program);
        command.arg("--home").arg(&context.home).arg("-C").arg(directory);
        command.args(["--yes", "--color", "never", slash.command()]).args(slash.arguments());
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
