//! `cargo xtask test-agents`: tests with the real agents and a scripted model.

mod acp;
mod in_terminal;
mod model;
mod npm;
mod process;
mod program;
mod programs;
mod sandbox;
mod scenario;
mod snapshot;
pub(crate) mod terminal;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, ScopedJoinHandle};
use std::time::{Duration, Instant};

pub(crate) use self::acp::test_acp;
pub(crate) use self::npm::{AgentCache, FetchError};
use self::program::AgentProgram;
use self::programs::PROGRAMS;
use self::sandbox::Sandbox;
use crate::Failure;
use crate::results::Tally;
use crate::run::{cargo, run_step};

/// The agents that are tested with every change.
const USUAL: [&str; 5] = ["claude", "codex", "gemini", "opencode", "pi"];

/// The maximum number of agents that are tested at the same time.
const AT_ONCE: usize = 2;

/// The result of testing one agent.
enum AgentResult {
    Passed,
    /// The agent could not be fetched, for the given reason.
    Skipped(&'static str),
    Failed(Failure),
}

/// An agent to be tested, and its version.
struct WantedAgent {
    program: &'static AgentProgram,
    version: String,
}

/// Runs `cargo xtask test-agents [--latest] [agent[@version]…]`.
pub(crate) fn test_agents(options: &[&str]) -> Result<(), Failure> {
    let (flags, names): (Vec<&str>, Vec<&str>) =
        options.iter().partition(|option| option.starts_with('-'));
    if let Some(unknown) = flags.iter().find(|flag| **flag != "--latest") {
        return Err(format!("unknown option {unknown}"));
    }
    let all: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
    let mut wanted = find_programs(if names.is_empty() { &all } else { &names })?;
    if !flags.is_empty() {
        wanted.iter_mut().for_each(|wanted| wanted.version = "latest".to_owned());
    }
    // Building takeback together with xtask gives its dependencies the same features as in the
    // tests, so the dependencies are not built twice.
    let packages = ["--package", "takeback", "--package", "xtask", "--all-features"];
    run_step(cargo().arg("build").args(packages))?;
    test_each(&wanted, &mut Tally::default())
}

/// Tests the usual agents in the versions that are known to work. Takeback must already have been
/// built.
pub(crate) fn test_usual_agents(tally: &mut Tally) -> Result<(), Failure> {
    test_each(&find_programs(&USUAL)?, tally)
}

/// Fetches the usual agents in the background. Problems are reported later, when the agents are
/// tested.
pub(crate) fn fetch_usual_agents() -> JoinHandle<()> {
    thread::spawn(|| {
        if let (Ok(cache), Ok(programs)) = (AgentCache::new(), find_programs(&USUAL)) {
            for wanted in programs {
                let _ = cache.fetch(wanted.program, &wanted.version);
            }
        }
    })
}

/// Finds agents by their names. A name may end with `@` and a version.
fn find_programs(names: &[&str]) -> Result<Vec<WantedAgent>, Failure> {
    let one = |typed: &&str| {
        let (name, version) =
            typed.split_once('@').map_or((*typed, None), |(name, version)| (name, Some(version)));
        let known = PROGRAMS.iter().find(|program| program.name == name);
        let program = known.ok_or_else(|| {
            let all: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
            format!("no agent {name}: the agents are {}", all.join(", "))
        })?;
        Ok(WantedAgent { program, version: version.unwrap_or(program.version).to_owned() })
    };
    names.iter().map(one).collect()
}

fn test_each(wanted: &[WantedAgent], tally: &mut Tally) -> Result<(), Failure> {
    let cache = AgentCache::new()?;
    let mut lines = Vec::new();
    let mut failures = Vec::new();
    for (WantedAgent { program, .. }, test) in wanted.iter().zip(test_together(wanted, &cache)) {
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
fn test_together(wanted: &[WantedAgent], cache: &AgentCache) -> Vec<AgentTest> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut tests = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(wanted) = wanted.get(index) else { return tests };
            eprintln!("{} …", wanted.program.title());
            let start = Instant::now();
            let (version, result) = test_one(wanted, cache);
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

fn test_one(wanted: &WantedAgent, cache: &AgentCache) -> (String, AgentResult) {
    let WantedAgent { program, version } = wanted;
    let (version, installed) = match cache.fetch(program, version) {
        Ok(found) => found,
        Err(FetchError::Unavailable(why)) => {
            return (version.clone(), AgentResult::Skipped(why));
        }
        Err(FetchError::Failed(failure)) => {
            return (version.clone(), AgentResult::Failed(failure));
        }
    };
    let outcome = Sandbox::new(program, &installed, cache).and_then(|sandbox| {
        scenario::play_scenario(&sandbox).map_err(|failure| {
            format!("{failure}\nits files are kept in {}", sandbox.directory().display())
        })
    });
    (version, outcome.map_or_else(AgentResult::Failed, |()| AgentResult::Passed))
}
