//! `cargo xtask adversary`: simulates random days of agents and users, and judges the results by
//! comparing plain copies of the files.
//!
//! The program under test is the real one, and a real bash runs the agents' commands. The judge
//! knows nothing about checkpoints: it copies all files before and after each step, and it knows
//! who wrote each line, because every line says so. It checks five things:
//!
//! - Nothing is lost: everything that a call destroys is in the store or was reported as
//!   unprotected.
//! - A rollback restores exactly its target, and the reversal of a rollback restores exactly the
//!   state before that rollback.
//! - The undo of a turn keeps every line that the user wrote.
//! - The files and the conversations agree with each other.
//! - Everything that the program reports is true: plans, changed paths, counts.
//!
//! All of this must hold while disks are full, clocks jump, and hooks and rollbacks are killed.

mod calls;
mod clock;
mod commands;
mod day;
mod disk;
mod files;
mod judge;
mod kills;
mod program;
mod way_back;

use std::fs;
use std::ops::RangeInclusive;
use std::process::Command;
use std::time::{Duration, Instant};

use self::clock::ClockShim;
use self::day::Day;
use crate::Failure;
use crate::results::Tally;
use crate::run::{cargo, is_success, run_step, target_directory};

/// The number of failures after which no further simulated day is begun.
const ENOUGH_FAILURES: usize = 20;

/// The seeds of the simulated days that are part of `cargo xtask test`.
const USUAL_SEEDS: RangeInclusive<u64> = 1..=20;

/// The time after which no further simulated day of [`USUAL_SEEDS`] is begun.
const USUAL_TIME: Duration = Duration::from_secs(120);

/// The options of the command.
#[derive(Debug, PartialEq)]
struct AdversaryOptions {
    time: Duration,
    /// The seed of a single simulated day that is to be repeated.
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
    let lived = match options.seed {
        Some(seed) => live_days(options.time, std::iter::once(seed))?,
        // The simulated days differ from run to run, and each can be repeated by its seed.
        None => live_days(options.time, (0..).map(new_seed))?,
    };
    eprintln!("{}", lived.summary());
    lived.into_outcome()
}

/// Runs the same simulated days each time, as part of `cargo xtask test`. takeback must have been
/// built.
pub(crate) fn test_usual_days() -> Result<LivedDays, Failure> {
    eprintln!("\nRandom days of agents and users …");
    let lived = live_days(USUAL_TIME, USUAL_SEEDS)?;
    eprintln!("Random days: {}", lived.summary());
    Ok(lived)
}

/// The simulated days that were run.
#[derive(Default)]
pub(crate) struct LivedDays {
    days: usize,
    steps: usize,
    failures: Vec<String>,
    /// True if disks could be mounted and filled.
    has_disks: bool,
}

impl LivedDays {
    fn summary(&self) -> String {
        let disks = if self.has_disks { "" } else { ", full-disk steps skipped: cannot mount" };
        format!("{} days, {} steps, {} failures{disks}", self.days, self.steps, self.failures.len())
    }

    /// Counts each simulated day as a test.
    pub(crate) fn count(self, tally: &mut Tally) -> Result<(), Failure> {
        (0..self.days - self.failures.len()).for_each(|_| tally.add_passed());
        self.failures.iter().for_each(|_| tally.add_failed());
        if !self.has_disks {
            tally.add_skipped("random days with full disks", "cannot mount: that needs root");
        }
        self.into_outcome()
    }

    fn into_outcome(self) -> Result<(), Failure> {
        if self.failures.is_empty() {
            return Ok(());
        }
        let failures = self.failures.join("\n");
        Err(format!("\n{failures}\nRepeat one with `cargo xtask adversary --seed N`"))
    }
}

/// Runs the simulated days with these seeds, until the time is up.
fn live_days(time: Duration, seeds: impl Iterator<Item = u64>) -> Result<LivedDays, Failure> {
    let takeback = target_directory().join("debug/takeback");
    let base = std::env::temp_dir().join(format!("takeback-adversary-{}", std::process::id()));
    fs::create_dir_all(&base).map_err(|error| format!("cannot create {base:?}: {error}"))?;
    let clock = ClockShim::build(&base)?;
    let start = Instant::now();
    let mut lived = LivedDays::default();
    for seed in seeds {
        if start.elapsed() >= time || lived.failures.len() >= ENOUGH_FAILURES {
            break;
        }
        let root = base.join(seed.to_string());
        let mut day = Day::begin(&takeback, &clock, &root, seed)?;
        let outcome = day.live();
        lived.days += 1;
        lived.steps += day.log.len();
        lived.has_disks |= day.disk.is_some();
        match outcome {
            Ok(()) => {
                drop(day);
                let _ = fs::remove_dir_all(&root);
            }
            Err(failure) => lived.failures.push(keep_day(day, seed, &failure)?),
        }
    }
    if lived.failures.is_empty() {
        let _ = fs::remove_dir_all(&base);
    }
    Ok(lived)
}

/// Describes a failure, and keeps the files of its simulated day even though the disk is unmounted.
fn keep_day(day: Day<'_>, seed: u64, failure: &str) -> Result<String, Failure> {
    eprintln!("day {seed} failed: {}", failure.lines().next().unwrap_or_default());
    let root = day.root.clone();
    let aside = root.with_extension("kept");
    if !is_success(Command::new("cp").arg("--archive").arg(&root).arg(&aside)) {
        return Err(format!("cannot copy {} to {}", root.display(), aside.display()));
    }
    let log = day.log.join("\n  ");
    drop(day);
    let _ = fs::remove_dir_all(&root);
    fs::rename(&aside, &root).map_err(|error| format!("cannot rename {aside:?}: {error}"))?;
    let story = format!("day {seed}, in {}: {failure}\n  {log}\n", root.display());
    // All stories are printed at the end of the run, but this file can be read before then.
    let file = root.join("story.txt");
    fs::write(&file, &story).map_err(|error| format!("cannot write {file:?}: {error}"))?;
    Ok(story)
}

/// Generates the seed of a simulated day.
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
