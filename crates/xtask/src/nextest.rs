//! Running the test suite with nextest.

use std::fs;

use crate::Failure;
use crate::memory::ScratchDirectory;
use crate::results::{TestResult, parse_junit};
use crate::run::{cargo, is_success, run_step, target_directory};

/// True if nextest is installed.
pub(crate) fn is_installed() -> bool {
    is_success(cargo().args(["nextest", "--version"]))
}

/// Runs all tests that the arguments select, even if some fail. Returns the results of the tests
/// that ran, and a failure if nextest reports one.
pub(crate) fn run_tests(arguments: &[&str]) -> (Vec<TestResult>, Result<(), Failure>) {
    // This path is set in `.config/nextest.toml`.
    let report = target_directory().join("nextest/default/junit.xml");
    // The report of an earlier run must not be mistaken for the report of this one.
    let _ = fs::remove_file(&report);
    let mut command = cargo();
    command.args(["nextest", "run", "--workspace", "--all-features", "--no-fail-fast"]);
    let outcome = match ScratchDirectory::create("") {
        Ok(scratch) => run_step(scratch.give_to(command.args(arguments))),
        Err(error) => Err(format!("cannot create a directory for temporary files: {error}")),
    };
    let results = fs::read_to_string(&report).map(|xml| parse_junit(&xml)).unwrap_or_default();
    (results, outcome)
}
