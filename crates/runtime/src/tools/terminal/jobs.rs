//! The commands that are running, by number.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::job::Job;
use super::output::OutputBuffer;
use super::shell::Shell;
use super::watchdog::Watchdog;
use crate::tools::ToolSettings;

/// The maximum number of commands in the background.
const MAX_JOBS: usize = 32;

/// All running commands of an agent, and the commands whose end has not been reported to the model
/// yet. The commands are terminated when this value is dropped, and also if the agent's process is
/// killed.
///
/// A command that must outlive the agent starts a session of its own, for instance with `setsid
/// --fork`, and writes its output to a file.
pub(in crate::tools) struct Jobs {
    shell: Shell,
    max_output: usize,
    watchdog: Arc<Watchdog>,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    last: u32,
    jobs: BTreeMap<u32, Arc<Job>>,
}

impl Jobs {
    pub(in crate::tools) fn new(settings: &ToolSettings) -> Jobs {
        let shell = Shell::find(&settings.environment);
        Jobs {
            watchdog: Arc::new(Watchdog::new(&shell)),
            shell,
            max_output: settings.max_output,
            running: Mutex::default(),
        }
    }

    /// Starts a command.
    pub(super) fn start(
        &self,
        command: &str,
        directory: &Path,
        is_watched: bool,
    ) -> Result<Arc<Job>, String> {
        let mut running = self.lock();
        if running.jobs.len() >= MAX_JOBS {
            return Err(("too many background commands: end one of them with the `process` tool")
                .to_owned());
        }
        let number = running.last + 1;
        let output = OutputBuffer::new(self.max_output);
        let job =
            Job::start(number, command, directory, &self.shell, &self.watchdog, output, is_watched)
                .map_err(|error| describe_start_error(&error))?;
        running.last = number;
        running.jobs.insert(number, Arc::clone(&job));
        Ok(job)
    }

    /// Returns the command with this number. The error lists the numbers that exist.
    pub(super) fn get(&self, number: u32) -> Result<Arc<Job>, String> {
        let running = self.lock();
        running.jobs.get(&number).cloned().ok_or_else(|| {
            let known: Vec<String> = running.jobs.keys().map(ToString::to_string).collect();
            match known.is_empty() {
                true => format!("no background command {number}: none is running"),
                false => format!("no background command {number}, only {}", known.join(", ")),
            }
        })
    }

    pub(super) fn list(&self) -> Vec<Arc<Job>> {
        self.lock().jobs.values().cloned().collect()
    }

    /// Forgets a command that has no processes left.
    pub(super) fn remove(&self, job: &Job) {
        self.watchdog.unwatch(job.family());
        self.lock().jobs.remove(&job.number);
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        let jobs = self.list();
        // All commands are asked to exit before this waits for any of them, so that they can exit
        // at the same time.
        jobs.iter().for_each(|job| job.ask_to_end());
        for job in jobs {
            if !job.wait_until_gone(Duration::ZERO) {
                job.end();
            }
            job.stop_reading();
            self.remove(&job);
        }
    }
}

fn describe_start_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ArgumentListTooLong => {
            "the command is too long: write it to a file, and run the file".to_owned()
        }
        _ => format!("cannot start the command: {error}"),
    }
}
