//! `takeback config`: shows and changes the settings.

mod change;
mod edit;
mod lines;
pub(crate) mod show;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::config;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Show or change the settings
#[derive(Args)]
#[command(after_help = "\
The file config.toml in takeback's own directory holds the settings, for example:
  [checkpoints]
  max_snapshots = 100
  exclude = [\"*.iso\"]
  [ledger]
  redact = true
  [profiles.work.ledger]      the settings of a profile: --profile work, or TAKEBACK_PROFILE=work
  redact = false

Examples:
  takeback config
  takeback config set max_snapshots 100
  takeback config set exclude '*.iso' '*.img'
  takeback config unset max_snapshots
  takeback config --profile work
  takeback config --json")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    #[command(alias = "get")]
    Show(show::Arguments),
    Set(change::SetArguments),
    Unset(change::UnsetArguments),
    /// Open config.toml in your editor, and check the settings before they are saved
    ///
    /// The editor is $VISUAL, $EDITOR or vi. If the file has a mistake, you can correct it or keep
    /// the old settings.
    Edit,
    /// Print the path of config.toml
    Path,
}

pub(crate) fn run(arguments: Arguments, context: &Context) -> Result<ExitCode, Failure> {
    match arguments.command {
        ConfigCommand::Show(arguments) => show::run(&arguments, context),
        ConfigCommand::Set(arguments) => change::set(&arguments, context),
        ConfigCommand::Unset(arguments) => change::unset(&arguments, context),
        ConfigCommand::Edit => edit::run(context),
        ConfigCommand::Path => {
            let path = config::config_path(&context.home).display().to_string();
            if !output::answers_json(&serde_json::json!({ "file": path }), context) {
                println!("{}", output::disarm(&path));
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}
