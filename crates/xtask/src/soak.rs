//! `cargo xtask soak`: runs the test suite repeatedly, and counts the failures of each test.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::Failure;
use crate::nextest;
use crate::results::TestResult;

/// The options of the command.
#[derive(Debug, PartialEq)]
struct SoakOptions<'a> {
    times: usize,
    has_load: bool,
    filters: Vec<&'a str>,
}

impl<'a> SoakOptions<'a> {
    fn parse(arguments: &[&'a str]) -> Result<SoakOptions<'a>, Failure> {
        let mut options = SoakOptions { times: 10, has_load: false, filters: Vec::new() };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match *argument {
                "--load" => options.has_load = true,
                "--times" => {
                    let times = arguments.next().and_then(|times| times.parse().ok());
                    options.times =
                        times.filter(|times| *times > 0).ok_or("--times needs a number")?;
                }
                option if option.starts_with('-') => {
                    return Err(format!("unknown option {option}"));
                }
                filter => options.filters.push(filter),
            }
        }
        Ok(options)
    }
}

/// Runs `cargo xtask soak [--times N] [--load] [filter…]`.
pub(crate) fn soak_tests(arguments: &[&str]) -> Result<(), Failure> {
    let options = SoakOptions::parse(arguments)?;
    if !nextest::is_installed() {
        return Err(
            "soak needs cargo-nextest: install it with `cargo install cargo-nextest`".into()
        );
    }
    let mut tally = SoakTally::default();
    for run in 1..=options.times {
        // The first run has no load, because it may have to build first.
        let load = (options.has_load && run % 2 == 0).then(CpuLoad::start);
        let condition = if load.is_some() { ", under load" } else { "" };
        eprintln!("\nrun {run} of {}{condition}", options.times);
        let mut words = vec!["--status-level", "fail", "--final-status-level", "fail"];
        words.extend(&options.filters);
        let (results, outcome) = nextest::run_tests(&words);
        if results.is_empty() {
            return outcome.and(Err("no test ran".into()));
        }
        tally.add_run(&results, load.is_some());
    }
    match tally.failures.is_empty() {
        true => {
            eprintln!("\n{tally}");
            Ok(())
        }
        false => Err(format!("\n{tally}")),
    }
}

/// The failures of each test over all runs.
#[derive(Debug, Default)]
struct SoakTally {
    runs: usize,
    runs_with_load: usize,
    /// The number of tests in the last run.
    tests: usize,
    /// The number of failures of each test: in total, and under load.
    failures: BTreeMap<String, (usize, usize)>,
}

impl SoakTally {
    fn add_run(&mut self, results: &[TestResult], has_load: bool) {
        self.runs += 1;
        self.runs_with_load += usize::from(has_load);
        self.tests = results.len();
        for result in results.iter().filter(|result| result.failed) {
            let (all, with_load) = self.failures.entry(result.name.clone()).or_default();
            *all += 1;
            *with_load += usize::from(has_load);
        }
    }
}

impl fmt::Display for SoakTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SoakTally { runs, runs_with_load, tests, failures } = self;
        for (name, (all, with_load)) in failures {
            writeln!(f, "failed {all} of {runs} times ({with_load} under load): {name}")?;
        }
        let failed = failures.len();
        write!(f, "{tests} tests, {runs} runs, {runs_with_load} under load: {failed} failed")
    }
}

/// Busy loops, one on every core, that run until the value is dropped. The loops are threads, so
/// they also end with this process.
struct CpuLoad {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl CpuLoad {
    fn start() -> CpuLoad {
        let is_over = Arc::new(AtomicBool::new(false));
        let cores = thread::available_parallelism().map_or(2, usize::from);
        let spin = || {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = (0..cores).map(|_| spin()).collect();
        CpuLoad { is_over, threads }
    }
}

impl Drop for CpuLoad {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The loop does not panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(name: &str, failed: bool) -> TestResult {
        TestResult { name: name.to_owned(), failed, skipped: Vec::new() }
    }

    #[test]
    fn options_and_filters_are_told_apart() {
        let options = SoakOptions::parse(&["rpc", "--times", "3", "--load", "undo"]);
        let wanted = SoakOptions { times: 3, has_load: true, filters: vec!["rpc", "undo"] };
        assert_eq!(options, Ok(wanted));
        assert!(SoakOptions::parse(&["--times", "0"]).is_err());
        assert!(SoakOptions::parse(&["--times"]).is_err());
        assert!(SoakOptions::parse(&["--often"]).is_err());
    }

    #[test]
    fn failures_are_counted_per_test() {
        let mut tally = SoakTally::default();
        tally.add_run(&[result("a", false), result("b", true)], false);
        tally.add_run(&[result("a", true), result("b", true)], true);
        assert_eq!(
            tally.to_string(),
            "failed 1 of 2 times (1 under load): a\n\
             failed 2 of 2 times (1 under load): b\n\
             2 tests, 2 runs, 1 under load: 2 failed"
        );
    }

    #[test]
    fn a_load_ends_when_it_is_dropped() {
        let load = CpuLoad::start();
        assert!(!load.threads.is_empty());
        let is_over = Arc::clone(&load.is_over);
        drop(load);
        assert!(is_over.load(Ordering::Relaxed));
        assert_eq!(Arc::strong_count(&is_over), 1);
    }
}
