//! Terminates the commands of an agent that dies without terminating them itself.
//!
//! A killed process cannot clean up. So a small shell waits for the end of a pipe that only the
//! agent's process holds open, and then terminates the commands that are still running. Without the
//! watchdog, a command would go on changing files while the restarted agent decides how to
//! continue.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::family::Family;
use super::shell::Shell;

/// Every line on standard input lists all running families. Only the last line counts.
const SCRIPT: &str = "
trap '' HUP INT TERM
while read -r families; do last=$families; done
send() {
  for family in $last; do pkill \"-$1\" -s \"$family\"; kill -s \"$1\" -- \"-$family\"; done
}
test -z \"$last\" || { send TERM; sleep 1; send KILL; }
";

/// A process that briefly outlives this one, in order to terminate the commands that this process
/// started.
pub(super) struct Watchdog {
    state: Mutex<WatchdogState>,
    shell: Shell,
}

#[derive(Default)]
struct WatchdogState {
    child: Option<Child>,
    families: BTreeSet<i32>,
}

impl Watchdog {
    pub(super) fn new(shell: &Shell) -> Watchdog {
        Watchdog { state: Mutex::default(), shell: shell.clone() }
    }

    /// Makes the watchdog terminate the family if this process dies.
    pub(super) fn watch(&self, family: Family) {
        let mut state = self.lock();
        state.families.insert(family.id.as_raw_nonzero().get());
        if state.child.is_none() {
            // If the watchdog cannot be started, commands still run. They are just not terminated
            // after a crash.
            state.child = start(&self.shell).ok();
        }
        state.send();
    }

    pub(super) fn unwatch(&self, family: Family) {
        let mut state = self.lock();
        if state.families.remove(&family.id.as_raw_nonzero().get()) {
            state.send();
        }
    }

    fn lock(&self) -> MutexGuard<'_, WatchdogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchdogState {
    fn send(&mut self) {
        let families: Vec<String> = self.families.iter().map(ToString::to_string).collect();
        if let Some(input) = self.child.as_mut().and_then(|child| child.stdin.as_mut()) {
            let _ = writeln!(input, "{}", families.join(" "));
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut child) = state.child.take() {
            // `wait` closes the pipe first. No family is left, so the watchdog exits immediately.
            let _ = child.wait();
        }
    }
}

fn start(shell: &Shell) -> std::io::Result<Child> {
    Command::new(&shell.posix)
        .args(["-c", SCRIPT])
        .env_clear()
        .envs(shell.environment.iter().map(|(name, value)| (name, value)))
        // Ctrl-C in the terminal is meant for the agent only.
        .process_group(0)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}
