//! `cargo xtask test-agents`: the real agents, with a model that says what a script tells it.

mod act;
mod npm;
mod process;
mod programs;
mod script;
mod snapshot;
mod stage;

use std::time::Instant;

use self::npm::Cache;
use self::programs::{PROGRAMS, Program};
use self::stage::Stage;
use crate::Failure;
use crate::results::Tally;
use crate::run::{cargo, run_step};

/// Those that are tested with every change.
pub(crate) const ALWAYS: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

/// How it went with one of them.
enum Outcome {
    Good,
    /// It could not be had.
    Skipped(&'static str),
    Bad(Failure),
}

/// `[--latest] [agent…]`
pub(crate) fn test_agents(options: &[&str]) -> Result<(), Failure> {
    let (flags, names): (Vec<&str>, Vec<&str>) =
        options.iter().partition(|option| option.starts_with('-'));
    if let Some(unknown) = flags.iter().find(|flag| **flag != "--latest") {
        return Err(format!("there is no option {unknown}"));
    }
    let is_latest = !flags.is_empty();
    if names.is_empty() {
        test_each(&PROGRAMS.iter().collect::<Vec<_>>(), is_latest, &mut Tally::default())
    } else {
        test_each(&by_name(&names)?, is_latest, &mut Tally::default())
    }
}

/// Tests those that are tested with every change, in the versions they were last seen to work in.
pub(crate) fn test_usual_agents(tally: &mut Tally) -> Result<(), Failure> {
    test_each(&by_name(&ALWAYS)?, false, tally)
}

fn by_name(names: &[&str]) -> Result<Vec<&'static Program>, Failure> {
    let one = |name: &&str| {
        let known = PROGRAMS.iter().find(|program| program.name == *name);
        known.ok_or_else(|| {
            let all: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
            format!("there is no agent {name}: it is {}", all.join(", "))
        })
    };
    names.iter().map(one).collect()
}

fn test_each(
    programs: &[&'static Program],
    is_latest: bool,
    tally: &mut Tally,
) -> Result<(), Failure> {
    run_step(cargo().args(["build", "--package", "takeback"]))?;
    let cache = Cache::new()?;
    let mut lines = Vec::new();
    let mut failures = Vec::new();
    for program in programs {
        eprintln!("\n{} …", program.title());
        let start = Instant::now();
        let (version, outcome) = test_one(program, &cache, is_latest);
        let line = match outcome {
            Outcome::Good => {
                tally.add_passed();
                format!("ok, {} s", start.elapsed().as_secs())
            }
            Outcome::Skipped(why) => {
                tally.add_skipped(&format!("{} itself", program.title()), why);
                format!("SKIPPED: {why}")
            }
            Outcome::Bad(failure) => {
                tally.add_failed();
                eprintln!("{failure}");
                failures.push(program.name);
                "FAILED".to_owned()
            }
        };
        eprintln!("{line}");
        lines.push(format!("  {:10}{version:12}{line}", program.name));
    }
    eprintln!("\nReal agents:\n{}", lines.join("\n"));
    if failures.is_empty() {
        return Ok(());
    }
    Err(format!("\nfailed with {}", failures.join(", ")))
}

fn test_one(program: &'static Program, cache: &Cache, is_latest: bool) -> (String, Outcome) {
    let (version, installed) = match cache.get(program, is_latest) {
        Ok(found) => found,
        Err(npm::Miss::Absent(why)) => {
            return (program.version.to_owned(), Outcome::Skipped(why));
        }
        Err(npm::Miss::Failed(failure)) => {
            return (program.version.to_owned(), Outcome::Bad(failure));
        }
    };
    let outcome = Stage::new(program, &installed, cache).and_then(|stage| {
        act::all(&stage).map_err(|failure| {
            format!("{failure}\nwhat is left of it: {}", stage.directory().display())
        })
    });
    (version, outcome.map_or_else(Outcome::Bad, |()| Outcome::Good))
}
