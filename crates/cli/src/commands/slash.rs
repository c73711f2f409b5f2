//! `/rollback` and `/undo`, typed inside an agent: runs the typed command in a second process and
//! prints its output.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use takeback_agents::{SlashCommand, split_words};

use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Run what was typed as `/rollback …` or `/undo …` inside an agent
///
/// For the command files that `takeback install` writes. Asks no questions, uses no colours, and
/// prints errors on standard output, because an agent shows only that.
#[derive(Args)]
pub(crate) struct Arguments {
    /// `rollback` or `undo`
    command: String,
    /// The rest, as words or as one text
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let rest = match &arguments.rest[..] {
        [text] => split_words(text),
        words => words.to_vec(),
    };
    let slash = SlashCommand::new(&arguments.command, rest)
        .ok_or_else(|| Failure::new(format!("unknown command /{}", arguments.command)))?;
    println!("{}", answer(&slash, &context.directory, context));
    // With any other code, an agent would hide the output.
    Ok(ExitCode::SUCCESS)
}

/// Returns the output of takeback for that command.
pub(crate) fn answer(slash: &SlashCommand, directory: &Path, context: &Context) -> String {
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
        Err(error) => format!("takeback could not be run: {error}"),
    }
}
