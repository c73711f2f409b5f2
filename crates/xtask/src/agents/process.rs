//! Running an agent: alone in its environment, and not for ever.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::Failure;

/// A turn takes seconds; a machine that does much else may need minutes.
const LIMIT: Duration = Duration::from_secs(240);

/// Runs a command to its end; it has failed if it says so, or does not end in time. What it says
/// goes to files in `logs`, and is returned.
pub(crate) fn run(command: &mut Command, logs: &Path, name: &str) -> Result<String, Failure> {
    let failed = |error: std::io::Error| format!("cannot run {command:?}: {error}");
    let (stdout, stderr) =
        (logs.join(format!("{name}.stdout")), logs.join(format!("{name}.stderr")));
    let out = File::create(&stdout).map_err(failed)?;
    let err = File::create(&stderr).map_err(failed)?;
    let failed = |error: std::io::Error| format!("{name} cannot be run: {error}");
    // A group of its own, so that what it started can be ended with it.
    let spawned = command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0).spawn();
    let mut child = spawned.map_err(failed)?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait()));
    let said = || fs::read_to_string(&stdout).unwrap_or_default();
    let complaint = || {
        let errors = fs::read_to_string(&stderr).unwrap_or_default();
        format!("{}\n{}", said().trim_end(), errors.trim_end())
    };
    match ended.recv_timeout(LIMIT) {
        Ok(Ok(status)) if status.success() => Ok(said()),
        Ok(Ok(status)) => Err(format!("{name} failed ({status}):\n{}", complaint())),
        Ok(Err(error)) => Err(failed(error)),
        Err(_) => {
            if let Some(group) = group {
                // If it has just ended by itself, there is nothing to do.
                let _ = kill_process_group(group, Signal::KILL);
            }
            Err(format!("{name} did not end within {} s:\n{}", LIMIT.as_secs(), complaint()))
        }
    }
}
