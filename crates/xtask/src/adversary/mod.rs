//! `cargo xtask adversary`: random days of agents and users, judged by plain copies of their files.
//!
//! The program under test is the real one, and the agents' commands are run by a real bash. The
//! judge knows nothing of checkpoints: it copies all files at each moment, and it knows who wrote
//! each line, because every line says so. It asks four things:
//!
//! - Nothing is lost: whatever a call destroys is in the store, or was named as unprotected.
//! - A way back leads exactly there, and its undo exactly back again.
//! - An undone turn keeps every line of the user's.
//! - Files and conversation agree.

mod clock;
mod commands;
mod day;
mod files;
mod judge;
mod program;
mod way_back;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use self::clock::ClockShim;
use self::day::Day;
use crate::Failure;
use crate::run::{cargo, run_step, target_directory};

/// The number of failures after which the rest of the time is not needed.
const ENOUGH_FAILURES: usize = 20;

/// The options of the command.
#[derive(Debug, PartialEq)]
struct AdversaryOptions {
    time: Duration,
    /// The seed of the only day, in order to repeat it.
    seed: Option<u64>,
}

impl AdversaryOptions {
    fn parse(arguments: &[&str]) -> Result<AdversaryOptions, Failure> {
        let mut options = AdversaryOptions { time: Duration::from_secs(120), seed: None };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let number = arguments.next().and_then(|number| number.parse::<u64>().ok());
            match (*argument, number) {
                ("--minutes", Some(minutes)) => options.time = Duration::from_secs(60 * minutes),
                ("--seed", Some(seed)) => options.seed = Some(seed),
                _ => return Err("usage: cargo xtask adversary [--minutes N] [--seed N]".into()),
            }
        }
        Ok(options)
    }
}

/// Runs `cargo xtask adversary [--minutes N] [--seed N]`.
pub(crate) fn run_adversary(arguments: &[&str]) -> Result<(), Failure> {
    let options = AdversaryOptions::parse(arguments)?;
    run_step(cargo().args(["build", "--package", "takeback"]))?;
    let takeback = target_directory().join("debug/takeback");
    let base = std::env::temp_dir().join(format!("takeback-adversary-{}", std::process::id()));
    fs::create_dir_all(&base).map_err(|error| format!("cannot create {base:?}: {error}"))?;
    let clock = ClockShim::build(&base)?;
    let start = Instant::now();
    let (mut days, mut steps, mut failures) = (0, 0, Vec::new());
    while start.elapsed() < options.time && failures.len() < ENOUGH_FAILURES {
        // The days of each run differ, and each can be repeated.
        let seed = options.seed.unwrap_or_else(|| new_seed(days));
        let root = base.join(seed.to_string());
        let (taken, outcome) = live_day(&takeback, &clock, &root, seed);
        days += 1;
        steps += taken;
        match outcome {
            Ok(()) => drop(fs::remove_dir_all(&root)),
            Err(failure) => failures.push(report_failure(seed, &root, &failure)),
        }
        if options.seed.is_some() {
            break;
        }
    }
    eprintln!("{days} days, {steps} steps, {} failures", failures.len());
    if failures.is_empty() {
        let _ = fs::remove_dir_all(&base);
        return Ok(());
    }
    Err(format!("\n{}\nRepeat one with `cargo xtask adversary --seed N`", failures.join("\n")))
}

fn live_day(
    takeback: &Path,
    clock: &ClockShim,
    root: &Path,
    seed: u64,
) -> (usize, Result<(), Failure>) {
    let mut day = match Day::begin(takeback, clock, root, seed) {
        Ok(day) => day,
        Err(failure) => return (0, Err(failure)),
    };
    let outcome = day.live();
    let log = day.log.join("\n  ");
    (day.log.len(), outcome.map_err(|failure| format!("{failure}\n  {log}")))
}

fn report_failure(seed: u64, root: &Path, failure: &str) -> String {
    eprintln!("day {seed} failed: {}", failure.lines().next().unwrap_or_default());
    format!("day {seed}, in {}: {failure}\n", root.display())
}

fn new_seed(day: u64) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.unwrap_or_default().as_nanos() as u64;
    (now ^ (day << 40)) % 1_000_000_007 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let options = AdversaryOptions::parse(&["--minutes", "3", "--seed", "7"]).unwrap();
        let expected = AdversaryOptions { time: Duration::from_secs(180), seed: Some(7) };
        assert_eq!(options, expected);
        assert!(AdversaryOptions::parse(&["--minutes"]).is_err());
        assert!(AdversaryOptions::parse(&["--hours", "1"]).is_err());
    }
}
