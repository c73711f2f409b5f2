//! `takeback checkpoints`: the store as a whole.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::failure::Failure;

/// Look after the store of all checkpoints
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Sub,
}

#[derive(Subcommand)]
enum Sub {
    /// Read every object of every checkpoint and check that it is what it was
    Verify,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    match arguments.command {
        Sub::Verify => verify(context),
    }
}

fn verify(_context: &Context) -> Result<ExitCode, Failure> {
    Err(Failure::new("verify is not here yet"))
}
