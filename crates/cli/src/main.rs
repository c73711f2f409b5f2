//! The program `takeback`: arguments → one call → one rendering.

#![allow(clippy::print_stderr, reason = "this is the one crate that talks to people")]

// Before the others: it defines what `println!` is here.
#[macro_use]
mod output;

mod background;
mod commands;
mod config;
mod context;
mod failure;
mod fired;
mod logs;
mod reporting;

use std::process::ExitCode;

use clap::Parser;

use crate::commands::Command;
use crate::context::{Context, Globals};
use crate::failure::Failure;

/// Takes back what an AI agent did: its files and its conversation, together.
#[derive(Parser)]
#[command(name = "takeback", version, max_term_width = 100, after_help = EXAMPLES)]
struct Arguments {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  takeback install claude           protect what Claude Code does from now on
  takeback checkpoint --reason 'before the big refactoring'
  takeback rollback                 list the checkpoints of this directory
  takeback rollback 1               return to the newest one
  takeback rollback 1 src/main.rs   only this file
  takeback rollback undo            undo the rollback
  takeback undo                     only what the agent changed in its last turn
  takeback sessions                 list the sessions of all agents
  takeback sessions search chat-send
  takeback demo                     see it work on a scratch project";

fn main() -> ExitCode {
    let Arguments { globals, command } = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return misused(&error),
    };
    let json = globals.json;
    output::set_colors(globals.color);
    let is_hook = matches!(command, Command::Hook(_));
    let result = Context::new(globals, is_hook).and_then(|context| {
        if command.is_paged() {
            context.pager().into_iter().for_each(output::use_pager);
        }
        command.run(&context)
    });
    let code = match result {
        Ok(code) => code,
        Err(failure) if is_hook => commands::hook::give_up(&failure.to_string()),
        Err(failure) => failure.report(json),
    };
    match output::finish() {
        Ok(()) => code,
        // In plain text: standard output is what does not work.
        Err(failure) => failure.report(false),
    }
}

/// Help, or a complaint about the arguments. A hook of another version must not block its agent.
fn misused(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && commands::hook::is_asked_for() {
        return commands::hook::give_up(&error.to_string());
    }
    if error.use_stderr() && std::env::args_os().any(|word| word == "--json") {
        let text = error.to_string();
        let mut lines = text.lines().map(|line| line.trim_start_matches("error: ").trim());
        let message = lines.find(|line| !line.is_empty()).unwrap_or("wrong usage");
        Failure::new(message).hint("`takeback --help` shows what there is").report(true);
    } else {
        // If it cannot be printed, there is nobody to tell.
        let _ = error.print();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
