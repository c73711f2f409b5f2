//! `cargo xtask test-agents`: tests with the real agents and a scripted model.

mod model;
mod npm;
mod process;
mod program;
mod programs;
mod sandbox;
mod scenario;
mod snapshot;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, ScopedJoinHandle};
use std::time::{Duration, Instant};

pub(crate) use self::npm::{AgentCache, FetchError};
use self::program::AgentProgram;
use self::programs::PROGRAMS;
use self::sandbox::Sandbox;
use crate::Failure;
use crate::results::Tally;
use crate::run::{cargo, run_step};

/// The agents that are tested with every change.
const USUAL: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

/// The maximum number of agents that are tested at the same time.
const AT_ONCE: usize = 2;

/// The result of testing one agent.
enum AgentResult {
    Passed,
    /// The agent could not be fetched, for the given reason.
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
    let programs = match names.is_empty() {
        true => PROGRAMS.iter().collect(),
        false => find_programs(&names)?,
    };
    // Building takeback together with xtask gives its dependencies the same features as in the
    // tests, so they are not built twice.
    let packages = ["--package", "takeback", "--package", "xtask", "--all-features"];
    run_step(cargo().arg("build").args(packages))?;
    test_each(&programs, is_latest, &mut Tally::default())
}

/// Tests the usual agents in the versions that are known to work. Takeback must already have been
/// built.
pub(crate) fn test_usual_agents(tally: &mut Tally) -> Result<(), Failure> {
    test_each(&find_programs(&USUAL)?, false, tally)
}

/// Fetches the usual agents in the background. Problems are reported later, when the agents are
/// tested.
pub(crate) fn fetch_usual_agents() -> JoinHandle<()> {
    thread::spawn(|| {
        if let (Ok(cache), Ok(programs)) = (AgentCache::new(), find_programs(&USUAL)) {
            for program in programs {
                let _ = cache.fetch(program, false);
            }
        }
    })
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
    let cache = AgentCache::new()?;
    let mut lines = Vec::new();
    let mut failures = Vec::new();
    for (program, test) in programs.iter().zip(test_together(programs, &cache, is_latest)) {
        let line = match test.result {
            AgentResult::Passed => {
                tally.add_passed();
                format!("ok, {} s", test.duration.as_secs())
            }
            AgentResult::Skipped(why) => {
                tally.add_skipped(&format!("{} itself", program.title()), why);
                format!("SKIPPED: {why}")
            }
            AgentResult::Failed(failure) => {
                tally.add_failed();
                failures.push(format!("\n{}: {failure}", program.title()));
                "FAILED".to_owned()
            }
        };
        lines.push(format!("  {:10}{:12}{line}", program.name, test.version));
    }
    eprintln!("\nReal agents:\n{}", lines.join("\n"));
    if failures.is_empty() {
        return Ok(());
    }
    Err(failures.join("\n"))
}

/// A finished test of one agent.
struct AgentTest {
    version: String,
    result: AgentResult,
    duration: Duration,
}

/// Tests several agents at the same time, because a single agent does not keep the machine busy.
/// Returns the results in the order of the agents.
fn test_together(
    programs: &[&'static AgentProgram],
    cache: &AgentCache,
    is_latest: bool,
) -> Vec<AgentTest> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut tests = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(program) = programs.get(index) else { return tests };
            eprintln!("{} …", program.title());
            let start = Instant::now();
            let (version, result) = test_one(program, cache, is_latest);
            tests.push((index, AgentTest { version, result, duration: start.elapsed() }));
        }
    };
    let mut tests: Vec<(usize, AgentTest)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        let join = |thread: ScopedJoinHandle<'_, _>| thread.join().expect("a test does not panic");
        threads.into_iter().flat_map(join).collect()
    });
    tests.sort_by_key(|(index, _)| *index);
    tests.into_iter().map(|(_, test)| test).collect()
}

fn test_one(
    program: &'static AgentProgram,
    cache: &AgentCache,
    is_latest: bool,
) -> (String, AgentResult) {
    let (version, installed) = match cache.fetch(program, is_latest) {
        Ok(found) => found,
        Err(FetchError::Unavailable(why)) => {
            return (program.version.to_owned(), AgentResult::Skipped(why));
        }
        Err(FetchError::Failed(failure)) => {
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
