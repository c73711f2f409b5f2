//! Running an agent: alone in its environment, and not for ever.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::Failure;

/// A turn takes seconds; a machine that does much else may need minutes.
const LIMIT: Duration = Duration::from_secs(240);

/// What a program wrote.
pub(crate) struct Said {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    fn read(logs: &Path, name: &str) -> Said {
        let read = |stream: &str| {
            let bytes = fs::read(log(logs, name, stream)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Said { stdout: read("stdout"), stderr: read("stderr") }
    }

    /// As it is seen in a terminal.
    pub(crate) fn all(&self) -> String {
        format!("{}\n{}", self.stdout.trim_end(), self.stderr.trim_end())
    }
}

fn log(logs: &Path, name: &str, stream: &str) -> PathBuf {
    logs.join(format!("{name}.{stream}"))
}

/// Runs a command to its end; it has failed if it says so, or does not end in time. What it says
/// goes to files in `logs`.
pub(crate) fn run(command: &mut Command, logs: &Path, name: &str) -> Result<Said, Failure> {
    let failed = |error: std::io::Error| format!("{name} cannot be run: {error}");
    let stdout = File::create(log(logs, name, "stdout")).map_err(failed)?;
    let stderr = File::create(log(logs, name, "stderr")).map_err(failed)?;
    // A group of its own, so that what it started can be ended with it.
    let spawned =
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).process_group(0).spawn();
    let mut child = spawned.map_err(failed)?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait()));
    let said = || Said::read(logs, name);
    match ended.recv_timeout(LIMIT) {
        Ok(Ok(status)) if status.success() => Ok(said()),
        Ok(Ok(status)) => Err(format!("{name} failed ({status}):\n{}", said().all())),
        Ok(Err(error)) => Err(failed(error)),
        Err(_) => {
            if let Some(group) = group {
                // If it has just ended by itself, there is nothing to do.
                let _ = kill_process_group(group, Signal::KILL);
            }
            Err(format!("{name} did not end within {} s:\n{}", LIMIT.as_secs(), said().all()))
        }
    }
}
