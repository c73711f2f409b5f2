//! Work that nobody waits for: processes of their own, without a terminal.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::WaitOptions;
use takeback_undo::retention::is_prune_due;
use takeback_undo::{FollowUp, Opened};

use crate::context::Context;

/// Starts takeback again and does not wait for it. `input` is what it reads.
pub(crate) fn start<S: AsRef<OsStr>>(
    context: &Context,
    directory: &Path,
    arguments: impl IntoIterator<Item = S>,
    input: Option<&[u8]>,
) -> io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--home").arg(&context.home).arg("-C").arg(directory).args(arguments);
    // Nobody's directory is kept from being removed.
    command.current_dir("/").stdout(Stdio::null()).stderr(Stdio::null());
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn()?;
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        stdin.write_all(input)?;
    }
    Ok(())
}

/// For a process that stays: those that have ended are remembered by the system until somebody
/// asks.
pub(crate) fn reap() {
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
}

/// What such a process does first: whoever started it may go, and a signal to their terminal is
/// not meant for it.
pub(crate) fn detach() {
    let _ = rustix::process::setsid();
}

/// Starts what a report of a session left for later. If it cannot be started, the next one makes up
/// for it. `log` is the agent's own one.
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
    let _ = start(context, workspace, words, None);
}

/// Starts to look after the store, if that is due.
pub(crate) fn spawn_upkeep(context: &Context, opened: &Opened) {
    let needs_merge = opened.store().is_ok_and(takeback_tree::Store::needs_merge);
    if needs_merge || is_prune_due(opened) {
        let _ = start(context, Path::new("/"), ["checkpoints", "upkeep"], None);
    }
}
