//! `cargo xtask test`: all checks that must pass before a change is merged.

use std::process::Command;
use std::thread;

use crate::Failure;
use crate::adversary;
use crate::agents;
use crate::browser;
use crate::clients;
use crate::deny;
use crate::fuzz::UsualTargets;
use crate::nextest;
use crate::results::Tally;
use crate::run::{cargo, is_success, run_step, run_step_with_output};
use crate::storage;

/// Programs that the tests run, each with its Debian package.
const PROGRAMS: [(&str, &str); 3] = [("git", "git"), ("setpriv", "util-linux"), ("c++", "g++")];

/// Programs that tests use if they are installed, each with its Debian package.
const OPTIONAL_PROGRAMS: [(&str, &str); 4] =
    [("zsh", "zsh"), ("fish", "fish"), ("psql", "postgresql"), ("mkfs.btrfs", "btrfs-progs")];

/// The options that select all tests except doc tests, which cargo cannot build in advance.
const ALL_BUT_DOC: [&str; 4] = ["--lib", "--bins", "--tests", "--examples"];

/// Runs all checks and tests. The last lines of the output count the tests, even if some failed.
pub(crate) fn test_everything() -> Result<(), Failure> {
    install_needed_programs()?;
    let mut tally = Tally::default();
    let agents = agents::fetch_usual_agents();
    let fetching = thread::spawn(|| {
        let fetched = agents.join();
        clients::fetch_checkers();
        browser::fetch_tools();
        storage::fetch_servers();
        fetched
    });
    let targets = UsualTargets::start_build()?;
    check_code(&mut tally)?;
    // This also builds takeback, which the tests with agents need.
    let build = ["test", "--workspace", "--all-features", "--no-run"];
    run_step(cargo().args(build).args(ALL_BUT_DOC))?;
    fetching.join().flatten().map_err(|_| "fetching agents panicked")?;
    let failures = run_all_tests(&mut tally, targets);
    if failures.is_empty() {
        eprintln!("\n{tally}");
        return Ok(());
    }
    Err(format!("{}\n\n{tally}", failures.join("")))
}

fn check_code(tally: &mut Tally) -> Result<(), Failure> {
    run_step(cargo().args(["fmt", "--all", "--check"]))?;
    run_step(cargo().args(["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--all-features"];
    run_step(cargo().args(clippy).args(["--", "-D", "warnings"]))?;
    let mut doc = cargo();
    doc.args(["doc", "--workspace", "--all-features", "--no-deps"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    run_step(&mut doc)?;
    match deny::find_program() {
        Some(program) => deny::check_offline(&program),
        None => {
            let reason = "cargo-deny is not installed: run `cargo xtask deny`";
            tally.add_skipped("licenses and sources of dependencies", reason);
            Ok(())
        }
    }
}

/// Runs all tests, even if some fail. The agents and the simulated days mostly wait, so they run at
/// the same time as the tests of the workspace. Fuzzing uses the processor time that all of these
/// leave unused.
fn run_all_tests(tally: &mut Tally, targets: UsualTargets) -> Vec<Failure> {
    let (mut failures, others, fuzzed) = thread::scope(|scope| {
        let targets = scope.spawn(|| targets.run());
        let others = scope.spawn(run_agents_and_days);
        let failures = run_workspace_tests(tally);
        (failures, others.join(), targets.join())
    });
    match others {
        Ok((counted, failed)) => {
            tally.add_all(counted);
            failures.extend(failed);
        }
        Err(_) => failures.push("the tests with agents panicked".into()),
    }
    let fuzzed = fuzzed.unwrap_or_else(|_| Err("fuzzing panicked".into()));
    failures.extend(fuzzed.and_then(|targets| targets.count(tally)).err());
    failures
}

/// Runs the tests with real agents, the simulated days, and the tests of the clients, the pages and
/// the API.
fn run_agents_and_days() -> (Tally, Vec<Failure>) {
    let mut tally = Tally::default();
    let (agents, pages, days) = thread::scope(|scope| {
        let days = scope.spawn(adversary::test_usual_days);
        let agents = agents::test_usual_agents(&mut tally);
        let pages = browser::test_usual(&mut tally);
        let days = days.join();
        (agents, pages, days.unwrap_or_else(|_| Err("the test of random days panicked".into())))
    });
    let days = days.and_then(|days| days.count(&mut tally));
    let clients = clients::test_built_clients(&mut tally);
    (tally, [agents, pages, days, clients].into_iter().filter_map(Result::err).collect())
}

/// Runs the tests of the workspace.
fn run_workspace_tests(tally: &mut Tally) -> Vec<Failure> {
    let mut failures = Vec::new();
    let (output, outcome) =
        run_step_with_output(cargo().args(["test", "--workspace", "--all-features", "--doc"]));
    tally.add_cargo_output(&output);
    failures.extend(outcome.err());
    if nextest::is_installed() {
        let (results, outcome) = nextest::run_tests(&[]);
        results.iter().for_each(|result| tally.add_result(result));
        failures.extend(outcome.err());
    } else {
        let mut command = cargo();
        command.args(["test", "--workspace", "--all-features", "--no-fail-fast"]);
        command.args(ALL_BUT_DOC);
        let (output, outcome) = run_step_with_output(&mut command);
        tally.add_cargo_output(&output);
        failures.extend(outcome.err());
    }
    failures
}

/// Installs the programs that the checks and tests need. If a program cannot be installed, the
/// failure names that program.
fn install_needed_programs() -> Result<(), Failure> {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if !is_success(cargo().args([subcommand, "--version"])) {
            run_step(Command::new("rustup").args(["component", "add", component]))
                .map_err(|failure| format!("{failure}\n{component} is needed: install it"))?;
        }
    }
    let missing = || PROGRAMS.iter().filter(|(program, _)| !is_installed(program));
    let optional = OPTIONAL_PROGRAMS.iter().filter(|(program, _)| !is_installed(program));
    let packages: Vec<&str> = missing().chain(optional).map(|(_, package)| *package).collect();
    if !packages.is_empty() && is_root() && is_success(Command::new("apt-get").arg("--version")) {
        let apt = || {
            let mut command = Command::new("apt-get");
            command.env("DEBIAN_FRONTEND", "noninteractive");
            command
        };
        run_step(apt().arg("update"))?;
        run_step(apt().args(["install", "-y", "--no-install-recommends"]).args(&packages))?;
    }
    match missing().next() {
        None => Ok(()),
        Some((program, _)) => Err(format!(
            "the tests need the program {program}: install the packages {}",
            packages.join(" ")
        )),
    }
}

fn is_installed(program: &str) -> bool {
    is_success(Command::new(program).arg("--version"))
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Lists each package with the features that it has in a build with these arguments.
    fn list_packages(arguments: &[&str]) -> BTreeSet<String> {
        let mut command = cargo();
        command.args(["tree", "--locked", "--offline", "--all-features", "--prefix", "none"]);
        let output = command.args(["--format", "{p} {f}"]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
    }

    #[test]
    fn no_dependency_is_built_twice() {
        let tests = list_packages(&["--workspace", "--edges", "normal,build,dev"]);
        for other in [&["--package", "xtask"][..], &["--workspace"]] {
            let built = list_packages(&[other, &["--edges", "normal,build"]].concat());
            let differing: Vec<&String> = built.difference(&tests).collect();
            assert!(
                differing.is_empty(),
                "{other:?} builds these with features that they do not have in the tests, so \
                 same-as-tests in crates/xtask/Cargo.toml lacks something: {differing:#?}"
            );
        }
    }
}
