//! `cargo xtask test`: everything that must hold before a change goes in.

use std::process::Command;

use crate::Failure;
use crate::agents;
use crate::run::{cargo, step, works};

/// Programs that the tests run, each with the Debian package it is in.
const PROGRAMS: [(&str, &str); 2] = [("git", "git"), ("setpriv", "util-linux")];

pub(crate) fn test() -> Result<(), Failure> {
    set_up()?;
    step(cargo().args(["fmt", "--all", "--check"]))?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--all-features"];
    step(cargo().args(clippy).args(["--", "-D", "warnings"]))?;
    let mut doc = cargo();
    doc.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    step(&mut doc)?;
    if works(cargo().args(["deny", "--version"])) {
        step(cargo().args(["deny", "check"]))?;
    } else {
        eprintln!("\nnot checked: licences and sources of dependencies (no cargo-deny here)");
    }
    step(cargo().args(["test", "--workspace", "--doc"]))?;
    agents::test_always()?;
    // The tests last: their summary is what stays in sight.
    if works(cargo().args(["nextest", "--version"])) {
        step(cargo().args(["nextest", "run", "--workspace", "--all-features"]))
    } else {
        // The doc tests were run above.
        let all_but_doc = ["--lib", "--bins", "--tests", "--examples"];
        step(cargo().args(["test", "--workspace", "--all-features"]).args(all_but_doc))
    }
}

/// Gets what the checks and tests need, or says what is missing.
fn set_up() -> Result<(), Failure> {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if !works(cargo().args([subcommand, "--version"])) {
            step(Command::new("rustup").args(["component", "add", component]))
                .map_err(|failure| format!("{failure}\n{component} is needed: install it"))?;
        }
    }
    let missing = || PROGRAMS.iter().filter(|(program, _)| !is_there(program));
    if missing().next().is_none() {
        return Ok(());
    }
    let packages: Vec<&str> = missing().map(|(_, package)| *package).collect();
    if is_root() && works(Command::new("apt-get").arg("--version")) {
        let apt = || {
            let mut command = Command::new("apt-get");
            command.env("DEBIAN_FRONTEND", "noninteractive");
            command
        };
        step(apt().arg("update"))?;
        step(apt().args(["install", "-y"]).args(&packages))?;
    }
    match missing().next() {
        None => Ok(()),
        Some((program, _)) => Err(format!(
            "the tests need the program {program}: install the packages {}",
            packages.join(" ")
        )),
    }
}

fn is_there(program: &str) -> bool {
    works(Command::new(program).arg("--version"))
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
