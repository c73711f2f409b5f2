//! The project's own tasks, run as `cargo xtask <task>`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a task talks to its terminal")]

mod adversary;
mod agents;
mod bench;
mod browser;
mod deny;
mod fuzz;
mod local_model;
mod memory;
mod nextest;
mod plugins;
mod prose;
mod random;
mod results;
mod run;
mod soak;
mod test;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <task>

  test          Run all checks and tests, and install the programs they need
  test-agents   Test with real agents from the npm registry and a scripted model
                  [--latest] their newest versions   [agent…] only these agents
  test-model    Test takeback's own agent with a real model server, llama.cpp from PyPI
  test-web      Test the pages of `takeback serve` in Chromium, which is installed if possible
  test-api      Test the HTTP API with schemathesis, which is installed if possible
                  [--examples N] requests of each kind, 30 by default
  screenshots   Take pictures of every page, in target/screenshots
  soak          Run the test suite repeatedly, and count the failures of each test
                  [--times N] how often, 10 by default   [--load] every second run under
                  load on all cores   [filter…] only tests whose name contains one of these
  adversary     Simulate random days of agents and users, and check that nothing is lost
                  [--minutes N] how long, 2 by default   [--seed N] only this day, to repeat it
  deny          Check the licenses, sources and known vulnerabilities of the dependencies
  fuzz          Feed arbitrary bytes to all code that reads text written by others
                  [--seconds N] how long for each target, 60 by default   [target…] only these
  prose         Count habits that make comments and names hard to read
                  [--list] also list each occurrence   [PATH…] only below these paths
  plugins       Build packages for agents that have plugins, in target/plugins
  bench         Measure time and space, compared with git and with the best the machine can do
                  [--quick] fewer rounds   [--json FILE] also as JSON
                  [--keep] keep the scratch files   [filter…] only measurements whose name (as
                  in 10000/first) contains one of these
  bench hook    Measure only how long an agent waits before and after each tool call
  bench ledger  Compare the ledger with Hermes's state database, on the same messages
                  [--quick] fewer messages   [--json FILE]   [--keep]
  bench chat    Measure what takeback's own agent adds to the time of its model
                  [--quick] fewer turns   [--json FILE]   [--keep]
  bench web     Measure `takeback serve` with 10,000 checkpoints, compared with a bare server
                  [--quick] fewer checkpoints   [--json FILE]   [--keep]
";

/// The message of a task that failed.
type Failure = String;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["test"] => test::test_everything(),
        ["test-model"] => local_model::test_model(),
        ["test-agents", ref options @ ..] => agents::test_agents(options),
        ["test-web"] => browser::test_web(),
        ["test-api", ref options @ ..] => browser::test_api(options),
        ["screenshots"] => browser::write_screenshots(),
        ["adversary", ref options @ ..] => adversary::run_adversary(options),
        ["fuzz", ref options @ ..] => fuzz::run_fuzz(options),
        ["soak", ref options @ ..] => soak::soak_tests(options),
        ["deny"] => deny::check_dependencies(),
        ["plugins"] => plugins::write_plugins(),
        ["prose", ref options @ ..] => prose::report_prose(options),
        [bench::ledger::WRITER, ref options @ ..] => bench::ledger::run_writer(options),
        ["bench", ref options @ ..] => bench::run_bench(options),
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
