//! The project's own tasks, run as `cargo xtask <task>`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a task talks to its terminal")]

mod run;
mod test;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <task>

  test    all checks and tests, with the set-up they need
";

/// What a task that failed says.
type Failure = String;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["test"] => test::test(),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
