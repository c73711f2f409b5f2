//! The project's own tasks, run as `cargo xtask <task>`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a task talks to its terminal")]

mod adversary;
mod agents;
mod bench;
mod browser;
mod clients;
mod deny;
mod dist;
mod fuzz;
mod local_model;
mod memory;
mod nextest;
mod plugins;
mod prose;
mod random;
mod recording;
mod results;
mod run;
mod soak;
mod storage;
mod test;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <task>

  test          Run all checks and tests, and install the programs they need
  test-agents   Test with real agents from the npm registry and a scripted model
                  [--latest] their newest versions   [agent…] only these agents
  test-acp      Test agents of the Agent Client Protocol from the npm registry, through
                  `takeback acp`, with a scripted model   [agent…] only these agents
  test-model    Test takeback's own agent with a real model server, llama.cpp from PyPI
  test-clients  Test the Python and TypeScript clients and their examples, with type checkers
                  from PyPI and npm
  test-web      Test the pages of `takeback serve` in Chromium, which is installed if possible
                  [word…] only the checks whose names contain one of the words
                  [--quick] only the part that `test` includes, and that of test-api
  test-api      Test the HTTP API with schemathesis, which is installed if possible
                  [--examples N] requests of each kind, 30 by default
  screenshots   Take pictures of every page, in target/screenshots
  recording     Record `takeback demo` for the README, as docs/images/demo.svg
  soak          Run the test suite repeatedly, and count the failures of each test
                  [--times N] how often, 10 by default   [--load] every second run under
                  load on all cores   [filter…] only tests whose name contains one of these
  adversary     Simulate random days of agents and users, and check that nothing is lost
                  [--minutes N] how long, 2 by default   [--seed N] only this day, to repeat it
  dist          Build the static program and all packages in target/packages, install each package
                  into a scratch directory, and run it there
                  [--binary PATH] package this program instead of building one
                  [--binary PLATFORM=PATH] package a program for another platform as well
                  [--base-url URL] the address that releases are fetched from
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
  bench screen  Measure the history in the terminal: first paint, and keys in a large workspace
                [--program PATH]
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
        ["test-acp", ref names @ ..] => agents::test_acp(names),
        ["test-clients"] => clients::test_clients(),
        ["test-web", "--quick"] => browser::test_quickly(),
        ["test-web", ref words @ ..] => browser::test_web(words),
        ["test-api", ref options @ ..] => browser::test_api(options),
        ["screenshots"] => browser::write_screenshots(),
        ["recording"] => recording::write_recording(),
        ["adversary", ref options @ ..] => adversary::run_adversary(options),
        ["fuzz", ref options @ ..] => fuzz::run_fuzz(options),
        ["soak", ref options @ ..] => soak::soak_tests(options),
        ["dist", ref options @ ..] => dist::make_packages(options),
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
