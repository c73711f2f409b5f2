//! Background work: detached takeback processes that neither an agent nor a user waits for.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use takeback_undo::retention::{has_packs_over_size_cap, is_prune_due};
use takeback_undo::{FollowUp, Opened};

use crate::config::has_profile;
use crate::context::{Context, PROFILE};

/// The maximum lifetime of a background process. A process that hangs, for example on an
/// unresponsive file system, releases its locks when this time is up.
const LONGEST_LIFE: Duration = Duration::from_secs(3600);

/// Ends this process after the given time, whatever it is doing. That is safe: the system releases
/// the locks that the process holds, and all its writes are crash-safe.
pub(crate) fn end_process_after(time: Duration) {
    let end = move || {
        thread::sleep(time);
        std::process::exit(1);
    };
    // If no thread can be started, the process has no time limit.
    let _ = thread::Builder::new().spawn(end);
}

/// Starts takeback in a new process and does not wait for it. `input` is the standard input of the
/// new process.
pub(crate) fn spawn_takeback<S: AsRef<OsStr>>(
    context: &Context,
    directory: &Path,
    arguments: impl IntoIterator<Item = S>,
    input: Option<&[u8]>,
) -> io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--home").arg(&context.home).arg("-C").arg(directory);
    // Do not pass on an unknown profile: the new process would fail with an error.
    command.env_remove(PROFILE);
    if let Some(profile) = context.profile().filter(|name| has_profile(&context.home, name)) {
        command.arg("--profile").arg(profile);
    }
    command.arg("--end-after").arg(LONGEST_LIFE.as_secs().to_string()).args(arguments);
    // If the new process ran in the workspace, the workspace could not be unmounted.
    command.current_dir("/").stdout(Stdio::null()).stderr(Stdio::null());
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn()?;
    let written = match (input, child.stdin.take()) {
        (Some(input), Some(mut stdin)) => stdin.write_all(input),
        _ => Ok(()),
    };
    keep(child);
    written
}

/// The background processes that this process has started and not yet reaped.
static STARTED: Mutex<Vec<Child>> = Mutex::new(Vec::new());

fn keep(child: Child) {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner).push(child);
}

/// Starts a process that continues a goal, and does not wait for it. If the last run was
/// interrupted, the process continues that run, and what the run has spent still counts.
pub(crate) fn spawn_goal(context: &Context, goal: &str, is_interrupted: bool) -> io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--home").arg(&context.home).arg("-C").arg(&context.directory);
    command.args(context.profile().into_iter().flat_map(|profile| ["--profile", profile]));
    command.args(["goal", "resume", "--detached", "--json", goal]);
    command.args(is_interrupted.then_some("--same-run"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(keep)
}

/// Reaps background processes that have exited. Otherwise, a long-running process would accumulate
/// zombies. Other children are left to the code that waits for them.
pub(crate) fn reap_children() {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    started.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}

/// Detaches this process from the terminal, so that signals from the terminal do not reach it.
pub(crate) fn detach_from_terminal() {
    let _ = rustix::process::setsid();
}

/// Starts the background work that follows a report. If the process cannot be started, a later
/// report will start this work. `log` is the agent's log.
pub(crate) fn spawn_follow_up(
    context: &Context,
    follow_up: &FollowUp,
    session: &str,
    log: Option<&Path>,
) {
    let mut words: Vec<&OsStr> = vec!["checkpoints".as_ref()];
    let ended;
    let workspace = match follow_up {
        FollowUp::Warm(workspace) => {
            words.push("warm".as_ref());
            workspace
        }
        FollowUp::Tend { workspace, time, .. } => {
            ended = time.0.to_string();
            words.extend(["tend", "--ended", &ended].map(OsStr::new));
            workspace
        }
    };
    words.extend(["--session", session].map(OsStr::new));
    let mut word = OsString::from("--log=");
    if let Some(log) = log {
        word.push(log);
        words.push(&word);
    }
    let _ = spawn_takeback(context, workspace, words, None);
}

/// Starts a background process that merges packs and enforces limits, if either is due. After a
/// large capture, both may be due, and neither can wait until the end of a long turn.
pub(crate) fn spawn_upkeep(context: &Context, opened: &Opened) {
    let needs_merge = opened.store().is_ok_and(takeback_tree::Store::needs_merge);
    if needs_merge || has_packs_over_size_cap(opened) || is_prune_due(opened) {
        let _ = spawn_takeback(context, Path::new("/"), ["checkpoints", "upkeep"], None);
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    use super::*;

    fn run(code: i32) -> Child {
        let child = Command::new("/bin/sh").args(["-c", &format!("exit {code}")]).spawn().unwrap();
        // Wait until the process has exited, without reaping it.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&child)), options).unwrap();
        child
    }

    #[test]
    fn only_background_processes_are_reaped() {
        let (own, mut other) = (run(3), run(7));
        let pid = Pid::from_child(&own);
        keep(own);
        reap_children();
        assert!(waitid(WaitId::Pid(pid), WaitIdOptions::EXITED).is_err());
        assert_eq!(other.wait().unwrap().code(), Some(7));
    }
}
