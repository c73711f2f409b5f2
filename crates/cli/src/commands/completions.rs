//! `takeback completions`: completions for shells.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use takeback_base::durable::{Durability, replace_file};
use takeback_undo::hook::quote_word;

use crate::completions::Shell;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Complete commands, checkpoints, sessions and settings in your shell
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback completions install      for bash, zsh and fish, where they look for completions
  source <(takeback completions bash)
  takeback completions fish | source")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: CompletionsCommand,
}

#[derive(Subcommand)]
enum CompletionsCommand {
    /// Print the script for bash
    Bash,
    /// Print the script for zsh
    Zsh,
    /// Print the script for fish
    Fish,
    /// Write the scripts to the directories where your shells look for them
    Install,
}

/// A script that was written.
#[derive(Serialize)]
struct InstalledScript {
    shell: &'static str,
    file: PathBuf,
    /// The line that the user may have to add to the shell's startup file, if any.
    needs: Option<String>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let shell = match arguments.command {
        CompletionsCommand::Bash => Shell::Bash,
        CompletionsCommand::Zsh => Shell::Zsh,
        CompletionsCommand::Fish => Shell::Fish,
        CompletionsCommand::Install => return install(context),
    };
    println!("{}", shell.script().trim_end());
    Ok(ExitCode::SUCCESS)
}

fn install(context: &Context) -> Result<ExitCode, Failure> {
    let Some(user) = context.user_home() else {
        return Err(Failure::new("no home directory to install completions in").hint("set HOME"));
    };
    let in_home = |variable: &str, usual: &str| {
        context.variable(variable).map_or_else(|| user.join(usual), PathBuf::from)
    };
    let data = in_home("XDG_DATA_HOME", ".local/share");
    let configuration = in_home("XDG_CONFIG_HOME", ".config");
    let functions = data.join("zsh/site-functions");
    let scripts = [
        (Shell::Bash, "bash", data.join("bash-completion/completions/takeback"), None),
        (Shell::Zsh, "zsh", functions.join("_takeback"), Some(zsh_line(&functions))),
        (Shell::Fish, "fish", configuration.join("fish/completions/takeback.fish"), None),
    ];
    let mut installed = Vec::new();
    for (shell, name, file, needs) in scripts {
        replace_file(&file, shell.script().as_bytes(), Durability::Cached).map_err(|error| {
            Failure::new(format!("cannot write {}", file.display())).because(&error)
        })?;
        installed.push(InstalledScript { shell: name, file, needs });
    }
    if !output::answers_json(&serde_json::json!({ "scripts": installed }), context) {
        for script in &installed {
            println!("{:<4}  {}", script.shell, output::tilde(&script.file, context));
            if let Some(line) = &script.needs {
                println!(
                    "      if Tab offers nothing, add this to ~/.zshrc before compinit: {line}"
                );
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn zsh_line(functions: &Path) -> String {
    format!("fpath=({} $fpath)", quote_word(&functions.to_string_lossy()))
}
