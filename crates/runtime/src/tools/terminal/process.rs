//! The tool `process`: shows, waits for and terminates commands in the background.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use takeback_undo::ToolWork;

use super::job::Job;
use super::{Jobs, append_end, describe_status};
use crate::tools::text::cut_text;
use crate::tools::{Tool, ToolContext, ToolOutput, ToolSpec, input};

/// The longest time that one call waits.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// The maximum number of bytes of a command that are shown in the list.
const MAX_COMMAND: usize = 80;

/// The tool that shows, waits for and terminates background commands.
pub(in crate::tools) struct Process {
    pub(in crate::tools) jobs: Arc<Jobs>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    id: Option<u32>,
    wait_seconds: Option<u64>,
    #[serde(default)]
    stop: bool,
}

impl Tool for Process {
    fn spec(&self) -> ToolSpec {
        let properties = json!({
            "id": { "type": "integer", "description": "lists all commands if left out" },
            "wait_seconds": { "type": "integer", "minimum": 0, "description": "wait for its end" },
            "stop": { "type": "boolean" },
        });
        let description = "Returns the new output of a background command. Can also stop it.";
        input::describe_tool("process", description, &properties, &[])
    }

    fn work(&self, _: &Value, _: &ToolContext<'_>) -> ToolWork {
        ToolWork::Reads
    }

    fn run(&self, input: &Value, context: &ToolContext<'_>) -> ToolOutput {
        self.report(input, context).into()
    }
}

impl Process {
    fn report(&self, input: &Value, context: &ToolContext<'_>) -> Result<ToolOutput, String> {
        let input: Input = input::parse_input(input)?;
        let Some(number) = input.id else {
            return Ok(ToolOutput::success(describe_all(&self.jobs.list())));
        };
        let job = self.jobs.get(number)?;
        if input.stop {
            job.end();
        } else if let Some(seconds) = input.wait_seconds {
            wait(&job, Duration::from_secs(seconds).min(MAX_WAIT), context);
        }
        let end = match (job.status(), job.wait_until_gone(Duration::ZERO)) {
            (Some(status), true) => {
                job.stop_reading();
                self.jobs.remove(&job);
                describe_status(status)
            }
            (Some(status), false) => {
                format!(
                    "the shell has ended ({}); its processes are still running",
                    describe_status(status)
                )
            }
            (None, _) => "running".to_owned(),
        };
        Ok(ToolOutput::success(append_end(&job, &end)))
    }
}

/// Waits until the command ends, the time is up, or the call is cancelled.
fn wait(job: &Arc<Job>, time: Duration, context: &ToolContext<'_>) {
    let watched = Arc::clone(job);
    let guard = context.cancel.on_cancel(move || watched.cancel_wait());
    job.wait(Instant::now() + time, &|_| {});
    drop(guard);
    job.unwatch();
}

fn describe_all(jobs: &[Arc<Job>]) -> String {
    if jobs.is_empty() {
        return "no background commands".to_owned();
    }
    let describe = |job: &Arc<Job>| {
        let state = job.status().map_or("running".to_owned(), describe_status);
        let command = job.command.lines().next().unwrap_or_default();
        format!("{}: {} [{state}]", job.number, cut_text(command, MAX_COMMAND))
    };
    jobs.iter().map(describe).collect::<Vec<_>>().join("\n")
}
