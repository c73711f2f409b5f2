//! The tools `terminal` and `process`: commands in a shell, in the foreground or in the background.
//!
//! - `shell` starts a command, and `family` signals all its processes.
//! - `job` reads the output of a command and waits for its end; `output` limits the size of the
//!   output, and `clean` removes what only a terminal understands.
//! - `jobs` keeps the commands that are running, and `watchdog` terminates them if the agent is
//!   killed.
//! - `process` is the tool for commands in the background.

mod clean;
mod family;
mod job;
mod jobs;
mod output;
mod process;
mod shell;
mod watchdog;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use takeback_base::text::disarm;
use takeback_undo::ToolWork;

use self::job::{Job, Waited};
use super::{Tool, ToolContext, ToolOutput, ToolSettings, ToolSpec, input};

pub(super) use self::jobs::Jobs;
pub(super) use self::process::Process;

/// The time that the other processes are given to end after the shell has ended. A pipeline often
/// ends slightly later than its shell.
const STRAGGLER_TIME: Duration = Duration::from_millis(200);

/// The tool that runs a command.
pub(super) struct Terminal {
    jobs: Arc<Jobs>,
    timeout: Duration,
    max_timeout: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    command: String,
    timeout_seconds: Option<u64>,
    #[serde(default)]
    background: bool,
}

impl Tool for Terminal {
    fn spec(&self) -> ToolSpec {
        let timeout = format!("{} if left out", self.timeout.as_secs());
        let properties = json!({
            "command": { "type": "string" },
            "timeout_seconds": { "type": "integer", "minimum": 1, "description": timeout },
            "background": { "type": "boolean", "description": "return at once; see process" },
        });
        let description = "Runs a bash command in the working directory, without input. Returns \
                           stdout and stderr.";
        input::describe_tool("terminal", description, &properties, &["command"])
    }

    fn work(&self, input: &Value, _: &ToolContext<'_>) -> ToolWork {
        match input::parse_input::<Input>(input) {
            Ok(input) => ToolWork::run_script(input.command),
            // With invalid input, the call fails without running anything.
            Err(_) => ToolWork::Reads,
        }
    }

    fn run(&self, input: &Value, context: &ToolContext<'_>) -> ToolOutput {
        self.run_command(input, context).into()
    }
}

impl Terminal {
    pub(super) fn new(settings: &ToolSettings, jobs: Arc<Jobs>) -> Terminal {
        Terminal {
            jobs,
            timeout: settings.command_timeout,
            max_timeout: settings.max_command_timeout,
        }
    }

    fn run_command(&self, input: &Value, context: &ToolContext<'_>) -> Result<ToolOutput, String> {
        let input: Input = input::parse_input(input)?;
        if context.cancel.is_cancelled() {
            return Err("cancelled: the command was not started".to_owned());
        }
        check_directory(context.directory)?;
        let job = self.jobs.start(&input.command, context.directory, !input.background)?;
        if input.background {
            return Ok(ToolOutput::success(format!(
                "started as background command {}; see its output with the `process` tool",
                job.number
            )));
        }
        let timeout = input.timeout_seconds.map_or(self.timeout, Duration::from_secs);
        let timeout = timeout.min(self.max_timeout);
        let watched = Arc::clone(&job);
        let guard = context.cancel.on_cancel(move || watched.cancel_wait());
        let waited = job.wait(Instant::now() + timeout, context.on_output);
        drop(guard);
        Ok(self.conclude(&job, waited, timeout))
    }

    /// Describes how a command ended. If it timed out or was cancelled, terminates its processes
    /// first.
    fn conclude(&self, job: &Job, waited: Waited, timeout: Duration) -> ToolOutput {
        job.unwatch();
        let (end, is_success) = match waited {
            Waited::Exited(status) if job.wait_until_gone(STRAGGLER_TIME) => {
                job.stop_reading();
                self.jobs.remove(job);
                (describe_status(status), status.success())
            }
            Waited::Exited(status) => {
                let left = format!(
                    "it left processes running, which are now background command {}",
                    job.number
                );
                (format!("{}; {left}", describe_status(status)), status.success())
            }
            Waited::TimedOut => {
                self.end(job);
                (
                    format!("timed out after {} s; its processes were ended", timeout.as_secs()),
                    false,
                )
            }
            Waited::Cancelled => {
                self.end(job);
                ("cancelled by the user; its processes were ended".to_owned(), false)
            }
        };
        ToolOutput { is_error: !is_success, ..ToolOutput::success(append_end(job, &end)) }
    }

    fn end(&self, job: &Job) {
        job.end();
        self.jobs.remove(job);
    }
}

/// Checks that the working directory still exists. Without this check, the error would seem to come
/// from the shell.
fn check_directory(directory: &Path) -> Result<(), String> {
    match directory.is_dir() {
        true => Ok(()),
        false => Err(format!(
            "the working directory {} no longer exists",
            disarm(&directory.to_string_lossy())
        )),
    }
}

/// Returns the new output, followed by a last line in brackets.
fn append_end(job: &Job, end: &str) -> String {
    let mut text = job.take_output();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text + &format!("[{end}]")
}

fn describe_status(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("ended by signal {}", name_signal(signal)),
        (None, None) => "ended".to_owned(),
    }
}

fn name_signal(signal: i32) -> String {
    const NAMES: &[(i32, &str)] = &[
        (1, "HUP"),
        (2, "INT"),
        (3, "QUIT"),
        (4, "ILL"),
        (6, "ABRT"),
        (8, "FPE"),
        (9, "KILL"),
        (11, "SEGV"),
        (13, "PIPE"),
        (14, "ALRM"),
        (15, "TERM"),
    ];
    match NAMES.iter().find(|(number, _)| *number == signal) {
        Some((_, name)) => format!("SIG{name}"),
        None => signal.to_string(),
    }
}
