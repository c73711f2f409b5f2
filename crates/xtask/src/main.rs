//! The project's own tasks, run as `cargo xtask <task>`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a task talks to its terminal")]

mod agents;
mod bench;
mod nextest;
mod plugins;
mod prose;
mod results;
mod run;
mod test;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <task>

  test    all checks and tests, with the set-up they need
  test-agents   real agents from the npm registry, with a model that says what a script tells it
          [--latest] their newest versions   [agent…] only these
  plugins       packages for agents that have plugins, in target/plugins
  prose         counts habits that make comments and names hard to read
          [--list] also name the places   [PATH…] only below these
  bench   how fast and how small, next to git and to what the machine can do at best
          [--quick] fewer rounds   [--json FILE] also as JSON   [--keep] leave the scratch files
          [filter…] only measurements whose name (as in 10000/first) contains one of these
  bench hook     of these, what an agent waits for before and after each tool call
  bench ledger   the ledger next to Hermes's state database, on the same messages
          [--quick] fewer messages   [--json FILE]   [--keep]
";

/// What a task that failed says.
type Failure = String;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["test"] => test::test_everything(),
        ["test-agents", ref options @ ..] => agents::test_agents(options),
        ["plugins"] => plugins::plugins(),
        ["prose", ref options @ ..] => prose::report_prose(options),
        [bench::ledger::WRITER, ref options @ ..] => bench::ledger::write(options),
        ["bench", ref options @ ..] => bench::bench(options),
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
