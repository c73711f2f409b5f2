//! The program `takeback`: parses the arguments, runs one command, and prints its result.

#![allow(clippy::print_stderr, reason = "this is the one crate that talks to users")]

// This module comes first, because it defines `println!` and `eprintln!`.
#[macro_use]
mod output;

mod arguments;
mod background;
mod commands;
mod completions;
mod config;
mod context;
mod event_input;
mod failure;
mod fired;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod logs;
#[cfg(test)]
#[path = "../tests/it/pseudo_terminal.rs"]
mod pseudo_terminal;
#[cfg(test)]
mod reference;
mod reporting;
mod slash;
mod takeover;
mod topics;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::arguments::Arguments;
use crate::commands::Command;
use crate::context::Context;

fn main() -> ExitCode {
    // Without a handler, a write beyond RLIMIT_FSIZE would end the process instead of failing.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let words: Vec<OsString> = std::env::args_os().collect();
    if completions::answer_shell(&words) {
        return ExitCode::SUCCESS;
    }
    let Arguments { globals, command, is_bare, .. } = match Arguments::parse_words(words) {
        Ok(arguments) => arguments,
        // A hook that another version installed must not block the agent.
        Err(error) if !error.is_help() && commands::hook::is_asked_for() => {
            return commands::hook::give_up(&error.to_string());
        }
        Err(error) => return finish(error.report()),
    };
    let json = globals.json;
    globals.end_after.into_iter().map(Duration::from_secs).for_each(background::end_process_after);
    output::set_colors(globals.color);
    let is_hook = matches!(command, Command::Hook(_));
    let context = Context::new(globals, command.caller());
    if let (Command::Acp(arguments), Err(failure)) = (&command, &context) {
        // A problem with takeback's home must not keep the editor from reaching its agent.
        return finish(commands::acp::run_without_checkpoints(arguments, failure));
    }
    let result = context.and_then(|context| {
        #[cfg(not(fuzzing))]
        if is_bare && let Some(shown) = commands::browse::run(&command, &context) {
            return shown;
        }
        context.warn_of_missing_directory();
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
    finish(code)
}

/// Writes the remaining output, and returns the exit code.
fn finish(code: ExitCode) -> ExitCode {
    match output::finish() {
        Ok(()) => code,
        // Report the error as plain text, because standard output is broken.
        Err(failure) => failure.report(false),
    }
}
