//! The Python contenders: the documented schema in plain sqlite3, and Hermes's SessionDB.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::figures::{HERMES, PLAIN};
use crate::Failure;
use crate::bench::process;
use crate::run::{is_success, repository};

const HERMES_VERSION: &str = "0.19.0";

/// A contender that is ready to run.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    python: PathBuf,
    /// The directory in which Hermes keeps its own files.
    home: PathBuf,
}

impl Contender {
    /// Finds Python's own sqlite3, if it has the features that the schema needs.
    pub(crate) fn find_plain(scratch: &Path) -> Option<Contender> {
        let python = PathBuf::from("python3");
        let probe = "import sqlite3; sqlite3.connect(':memory:').execute(\
             \"CREATE VIRTUAL TABLE t USING fts5 (x, tokenize = 'trigram')\")";
        is_success(Command::new(&python).args(["-c", probe])).then(|| Contender {
            name: PLAIN,
            python,
            home: scratch.to_owned(),
        })
    }

    /// Finds Hermes, or installs it in the target directory if it is missing.
    pub(crate) fn find_hermes(target: &Path, scratch: &Path) -> Option<Contender> {
        let environment = target.join(format!("hermes-venv-{HERMES_VERSION}"));
        let python = environment.join("bin/python");
        let contender = Contender { name: HERMES, python, home: scratch.to_owned() };
        let is_there = || {
            is_success(
                contender.python_command().args(["-c", "from hermes_state import SessionDB"]),
            )
        };
        if !is_there() {
            eprintln!("installing hermes-agent {HERMES_VERSION} …");
            is_success(Command::new("python3").args(["-m", "venv"]).arg(&environment));
            // The database needs none of Hermes's many dependencies.
            is_success(
                Command::new(&contender.python)
                    .args(["-m", "pip", "install", "--quiet", "--no-deps"])
                    .arg(format!("hermes-agent=={HERMES_VERSION}")),
            );
        }
        is_there().then_some(contender)
    }

    /// Prepares a Python command without a script.
    fn python_command(&self) -> Command {
        let mut command = process::clean_command(&self.python);
        command.env("HERMES_HOME", &self.home).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// Prepares `driver.py <name> <command> <database>`. More arguments may follow.
    pub(crate) fn driver_command(&self, command: &str, database: &Path) -> Command {
        let mut driver = self.python_command();
        driver.arg(repository().join("crates/xtask/src/bench/ledger/driver.py"));
        driver.args([self.name, command]).arg(database);
        driver
    }
}

/// Runs the driver and returns its answer.
pub(crate) fn read_answer(command: &mut Command) -> Result<Value, Failure> {
    let said = process::read_output(command)?;
    serde_json::from_str(&said)
        .map_err(|error| format!("cannot parse the answer {said:?}: {error}"))
}
