//! The program under test, and the answers that it gives.

use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::clock::ClockShim;
use super::files::PROJECT;
use crate::Failure;

/// The maximum time that background processes may take.
const LONGEST_WORK: Duration = Duration::from_secs(60);

pub(crate) struct Program<'a> {
    takeback: &'a Path,
    clock: &'a ClockShim,
    root: PathBuf,
    /// The number of seconds by which the clock is shifted for the program.
    pub(crate) shift: i64,
}

/// The answer to a command.
pub(crate) struct Answer {
    pub(crate) succeeded: bool,
    pub(crate) json: Value,
    /// The raw output, for failure messages.
    pub(crate) text: String,
}

impl<'a> Program<'a> {
    pub(crate) fn new(takeback: &'a Path, clock: &'a ClockShim, root: &Path) -> Program<'a> {
        Program { takeback, clock, root: root.to_owned(), shift: 0 }
    }

    /// Prepares a command that runs in the project, without this machine's own settings.
    pub(crate) fn command_in_project(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.env_clear().env("PATH", path).env("HOME", self.root.join("user"));
        command.env("GIT_CONFIG_NOSYSTEM", "1").current_dir(self.root.join(PROJECT));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn takeback(&self, arguments: &[&str]) -> Command {
        let mut command = self.command_in_project(self.takeback);
        command.env("TAKEBACK_HOME", self.home()).args(arguments);
        self.clock.shift(&mut command, self.shift);
        command
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.home().join("checkpoints/store")
    }

    /// Reports an event, as an agent does, and returns the answer.
    pub(crate) fn report(&self, event: &Value) -> Result<Answer, Failure> {
        let child = self.start_report(event)?;
        let answer = read_answer(&child.wait_with_output().map_err(|error| cannot_run(&error))?);
        match answer.succeeded {
            true => Ok(answer),
            false => Err(format!("a hook failed: {}", answer.text)),
        }
    }

    /// Reports an event. Kills the hook after the given time, unless it has ended.
    pub(crate) fn report_and_kill(&self, event: &Value, after: Duration) -> Result<(), Failure> {
        kill_after(self.start_report(event)?, after)
    }

    fn start_report(&self, event: &Value) -> Result<Child, Failure> {
        let mut command = self.takeback(&["hook", "generic", "--json"]);
        let child = command.stdin(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| cannot_run(&error))?;
        let mut input = child.stdin.take().expect("the input is piped");
        let _ = input.write_all(event.to_string().as_bytes());
        Ok(child)
    }

    /// Runs a command to completion.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Answer, Failure> {
        let mut command = self.takeback(arguments);
        command.arg("--json");
        Ok(read_answer(&command.output().map_err(|error| cannot_run(&error))?))
    }

    /// Runs a command that must succeed.
    pub(crate) fn run_well(&self, arguments: &[&str]) -> Result<Value, Failure> {
        let answer = self.run(arguments)?;
        match answer.succeeded {
            true => Ok(answer.json),
            false => Err(format!("takeback {} failed: {}", arguments.join(" "), answer.text)),
        }
    }

    /// Waits until all background processes have ended.
    pub(crate) fn wait_for_background(&self) -> Result<(), Failure> {
        let mark = [b"TAKEBACK_HOME=", self.home().as_os_str().as_bytes(), b"\0"].concat();
        let is_running = || {
            let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
            let mut environments =
                processes.filter_map(|process| fs::read(process.path().join("environ")).ok());
            environments.any(|all| all.windows(mark.len()).any(|part| part == mark))
        };
        let start = Instant::now();
        while is_running() {
            if start.elapsed() > LONGEST_WORK {
                return Err("a background process does not end".into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Runs a command. Kills it after the given time, unless it has ended.
    pub(crate) fn run_and_kill(&self, arguments: &[&str], after: Duration) -> Result<(), Failure> {
        kill_after(self.takeback(arguments).spawn().map_err(|error| cannot_run(&error))?, after)
    }
}

fn kill_after(mut child: Child, after: Duration) -> Result<(), Failure> {
    thread::sleep(after);
    let _ = child.kill();
    child.wait_with_output().map_err(|error| cannot_run(&error))?;
    Ok(())
}

fn cannot_run(error: &std::io::Error) -> Failure {
    format!("cannot run takeback: {error}")
}

fn read_answer(output: &Output) -> Answer {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Answer {
        succeeded: output.status.success(),
        json: serde_json::from_str(&text).unwrap_or(Value::Null),
        text: format!("{}, {text}{}", output.status, String::from_utf8_lossy(&output.stderr)),
    }
}

/// Returns the paths in an array of strings, or in an array of objects that have a `path`.
pub(crate) fn list_paths(value: &Value) -> Vec<String> {
    let entries = value.as_array().into_iter().flatten();
    let path = |entry: &Value| entry.as_str().or(entry["path"].as_str()).map(str::to_owned);
    entries.filter_map(path).collect()
}
