//! Running an agent for a limited time.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::Failure;

/// The maximum time that a program may run. A turn takes seconds, or minutes on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// The output of a program.
pub(crate) struct ProgramOutput {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl ProgramOutput {
    fn read_logs(logs: &Path, name: &str) -> ProgramOutput {
        let read = |stream: &str| {
            let bytes = fs::read(log_file(logs, name, stream)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        ProgramOutput { stdout: read("stdout"), stderr: read("stderr") }
    }

    /// Returns standard output, followed by standard error.
    pub(crate) fn all_text(&self) -> String {
        format!("{}\n{}", self.stdout.trim_end(), self.stderr.trim_end())
    }
}

fn log_file(logs: &Path, name: &str, stream: &str) -> PathBuf {
    logs.join(format!("{name}.{stream}"))
}

/// Runs a command to completion. Its output goes to files in `logs`. Fails if the command fails or
/// does not end in time.
pub(crate) fn run_with_limit(
    command: &mut Command,
    logs: &Path,
    name: &str,
) -> Result<ProgramOutput, Failure> {
    let failed = |error: std::io::Error| format!("cannot run {name}: {error}");
    let stdout = File::create(log_file(logs, name, "stdout")).map_err(failed)?;
    let stderr = File::create(log_file(logs, name, "stderr")).map_err(failed)?;
    // The program gets its own process group, so that its children can be killed with it.
    let spawned =
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).process_group(0).spawn();
    let mut child = spawned.map_err(failed)?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait()));
    let said = || ProgramOutput::read_logs(logs, name);
    match ended.recv_timeout(LIMIT) {
        Ok(Ok(status)) if status.success() => Ok(said()),
        Ok(Ok(status)) => Err(format!("{name} failed ({status}):\n{}", said().all_text())),
        Ok(Err(error)) => Err(failed(error)),
        Err(_) => {
            if let Some(group) = group {
                // This fails if the program has just ended on its own.
                let _ = kill_process_group(group, Signal::KILL);
            }
            Err(format!("{name} did not end within {} s:\n{}", LIMIT.as_secs(), said().all_text()))
        }
    }
}
