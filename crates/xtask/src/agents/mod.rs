//! `cargo xtask test-agents`: tests with the real agents and a scripted model.

mod model;
mod npm;
mod process;
mod program;
mod programs;
mod sandbox;
mod scenario;
mod snapshot;

use std::time::Instant;

use self::npm::AgentCache;
use self::program::AgentProgram;
use self::programs::PROGRAMS;
use self::sandbox::Sandbox;
use crate::Failure;
use crate::results::Tally;
use crate::run::{cargo, run_step};

/// The agents that are tested with every change.
const USUAL: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

/// The result of the tests with one agent.
enum AgentResult {
    Passed,
    /// The agent could not be fetched, for this reason.
    Skipped(&'static str),
    Failed(Failure),
}

/// Runs `cargo xtask test-agents [--latest] [agent…]`.
pub(crate) fn test_agents(options: &[&str]) -> Result<(), Failure> {
    let (flags, names): (Vec<&str>, Vec<&str>) =
        options.iter().partition(|option| option.starts_with('-'));
    if let Some(unknown) = flags.iter().find(|flag| **flag != "--latest") {
        return Err(format!("unknown option {unknown}"));
    }
    let is_latest = !flags.is_empty();
    if names.is_empty() {
        test_each(&PROGRAMS.iter().collect::<Vec<_>>(), is_latest, &mut Tally::default())
    } else {
        test_each(&find_programs(&names)?, is_latest, &mut Tally::default())
    }
}

/// Tests the usual agents, in the versions that are known to work.
pub(crate) fn test_usual_agents(tally: &mut Tally) -> Result<(), Failure> {
    test_each(&find_programs(&USUAL)?, false, tally)
}

fn find_programs(names: &[&str]) -> Result<Vec<&'static AgentProgram>, Failure> {
    let one = |name: &&str| {
        let known = PROGRAMS.iter().find(|program| program.name == *name);
        known.ok_or_else(|| {
            let all: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
            format!("no agent {name}: the agents are {}", all.join(", "))
        })
    };
    names.iter().map(one).collect()
}

fn test_each(
    programs: &[&'static AgentProgram],
    is_latest: bool,
    tally: &mut Tally,
) -> Result<(), Failure> {
    run_step(cargo().args(["build", "--package", "takeback"]))?;
    let cache = AgentCache::new()?;
    let mut lines = Vec::new();
    let mut failures = Vec::new();
    for program in programs {
        eprintln!("\n{} …", program.title());
        let start = Instant::now();
        let (version, outcome) = test_one(program, &cache, is_latest);
        let line = match outcome {
            AgentResult::Passed => {
                tally.add_passed();
                format!("ok, {} s", start.elapsed().as_secs())
            }
            AgentResult::Skipped(why) => {
                tally.add_skipped(&format!("{} itself", program.title()), why);
                format!("SKIPPED: {why}")
            }
            AgentResult::Failed(failure) => {
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
    Err(format!("\nthe tests failed with {}", failures.join(", ")))
}

fn test_one(
    program: &'static AgentProgram,
    cache: &AgentCache,
    is_latest: bool,
) -> (String, AgentResult) {
    let (version, installed) = match cache.fetch(program, is_latest) {
        Ok(found) => found,
        Err(npm::FetchError::Unavailable(why)) => {
            return (program.version.to_owned(), AgentResult::Skipped(why));
        }
        Err(npm::FetchError::Failed(failure)) => {
            return (program.version.to_owned(), AgentResult::Failed(failure));
        }
    };
    let outcome = Sandbox::new(program, &installed, cache).and_then(|sandbox| {
        scenario::play_scenario(&sandbox).map_err(|failure| {
            format!("{failure}\nits files are kept in {}", sandbox.directory().display())
        })
    });
    (version, outcome.map_or_else(AgentResult::Failed, |()| AgentResult::Passed))
}
