//! One file per command.

mod checkpoint;
mod checkpoints;
mod config;
mod demo;
mod doctor;
mod explain;
pub(crate) mod hook;
mod install;
mod rollback;
mod rpc;
mod run;
mod sessions;
mod slash;
mod undo;

use std::process::ExitCode;

use clap::Subcommand;
use takeback_undo::Opened;

use crate::context::Context;
use crate::failure::Failure;

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    Checkpoint(checkpoint::Arguments),
    Rollback(rollback::Arguments),
    Undo(undo::Arguments),
    Run(run::Arguments),
    Checkpoints(checkpoints::Arguments),
    Sessions(sessions::Arguments),
    Install(install::Arguments),
    Uninstall(install::Removal),
    Doctor(doctor::Arguments),
    Explain(explain::Arguments),
    Config(config::Arguments),
    Hook(hook::Arguments),
    Rpc(rpc::Arguments),
    Demo(demo::Arguments),
    #[command(hide = true)]
    Slash(slash::Arguments),
}

impl Command {
    /// True if long output of the command goes into a pager. Agents and other programs read the
    /// output of the others, or it comes while they run.
    pub(crate) fn is_paged(&self) -> bool {
        !matches!(
            self,
            Command::Hook(_)
                | Command::Rpc(_)
                | Command::Run(_)
                | Command::Slash(_)
                | Command::Demo(_)
        )
    }

    pub(crate) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        match self {
            Command::Checkpoint(arguments) => checkpoint::run(&arguments, context),
            Command::Rollback(arguments) => rollback::run(&arguments, context),
            Command::Undo(arguments) => undo::run(&arguments, context),
            Command::Run(arguments) => run::run(&arguments, context),
            Command::Checkpoints(arguments) => checkpoints::run(&arguments, context),
            Command::Sessions(arguments) => sessions::run(&arguments, context),
            Command::Install(arguments) => install::run(&arguments, context),
            Command::Uninstall(arguments) => install::remove(&arguments, context),
            Command::Doctor(arguments) => doctor::run(&arguments, context),
            Command::Slash(arguments) => slash::run(&arguments, context),
            Command::Explain(arguments) => explain::run(&arguments, context),
            Command::Config(arguments) => config::run(&arguments, context),
            Command::Hook(arguments) => Ok(hook::run(&arguments, context)),
            Command::Rpc(arguments) => rpc::run(&arguments, context),
            Command::Demo(arguments) => demo::run(&arguments, context),
        }
    }
}

/// Nothing is captured for somebody who does not want it.
fn refuse_if_off(opened: &Opened, context: &Context) -> Result<(), Failure> {
    if opened.settings().enabled {
        return Ok(());
    }
    let hint = if context.is_switched_off() {
        "TAKEBACK_CHECKPOINTS=0 in the environment says so"
    } else {
        "`enabled = false` in config.toml says so"
    };
    Err(Failure::new("checkpoints are switched off").hint(hint))
}
