//! `cargo xtask deny`: checks the licenses, sources and known vulnerabilities of the dependencies.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::run::{cargo, is_success, repository, run_step, target_directory};

/// The checks that need no network.
const OFFLINE_CHECKS: [&str; 3] = ["licenses", "bans", "sources"];

/// Checks the dependencies with cargo-deny. Installs cargo-deny first if it is missing.
pub(crate) fn check_dependencies() -> Result<(), Failure> {
    if find_program().is_none() {
        let mut install = cargo();
        install.args(["install", "--locked", "cargo-deny", "--root"]).arg(tools_directory());
        run_step(&mut install)?;
    }
    let program = find_program().ok_or("cargo-deny was installed, but does not run")?;
    check_offline(&program)?;
    // This check needs the database of vulnerabilities, a repository on another host.
    run_step(deny(&program).args(["check", "advisories"])).map_err(|failure| {
        format!(
            "{failure}\nif the database of vulnerabilities cannot be fetched, the other checks \
             passed: only this one is missing"
        )
    })
}

/// Runs the checks that need no network.
pub(crate) fn check_offline(program: &Path) -> Result<(), Failure> {
    run_step(deny(program).args(["--offline", "check"]).args(OFFLINE_CHECKS))
}

fn deny(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(repository());
    command
}

/// Finds cargo-deny among the machine's programs, or among the project's own tools.
pub(crate) fn find_program() -> Option<PathBuf> {
    let own = tools_directory().join("bin/cargo-deny");
    let candidates = [PathBuf::from("cargo-deny"), own];
    candidates.into_iter().find(|program| is_success(Command::new(program).arg("--version")))
}

fn tools_directory() -> PathBuf {
    target_directory().join("tools")
}
