//! One file per command.

mod checkpoint;
mod checkpoints;
mod demo;
mod rollback;
mod sessions;

use std::process::ExitCode;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    Checkpoint(checkpoint::Arguments),
    Rollback(rollback::Arguments),
    Checkpoints(checkpoints::Arguments),
    Sessions(sessions::Arguments),
    Demo(demo::Arguments),
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        match self {
            Command::Checkpoint(arguments) => checkpoint::run(&arguments, context),
            Command::Rollback(arguments) => rollback::run(&arguments, context),
            Command::Checkpoints(arguments) => checkpoints::run(&arguments, context),
            Command::Sessions(arguments) => sessions::run(&arguments, context),
            Command::Demo(arguments) => demo::run(&arguments, context),
        }
    }
}
