//! The agent's process: starting it, passing signals on, and stopping it.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::takeover;

/// The time that this process waits for the agent to exit, first after the end of the agent's
/// input, and then after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// A script that stops the agent if this process is killed. It first gives the agent some time to
/// notice that its input has ended.
const WATCHDOG: &str = r#"
trap '' HUP INT TERM
read -r over && exit
sleep 2; kill -s TERM -- "-$1"; sleep 2; kill -s KILL -- "-$1"
"#;

/// The agent, running in a process group of its own.
pub(super) struct AgentProcess {
    child: Child,
    group: AgentGroup,
    watchdog: Option<Child>,
}

/// The process group of the agent.
#[derive(Clone, Copy)]
pub(super) struct AgentGroup(Pid);

impl AgentProcess {
    /// Starts the agent. `proxy` is the directory of this proxy; an environment variable passes its
    /// path to the agent's hooks.
    pub(super) fn start(
        command: &[OsString],
        directory: Option<&Path>,
        proxy: Option<&Path>,
    ) -> io::Result<AgentProcess> {
        let (program, words) = command.split_first().expect("clap requires at least one word");
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        command.env_remove(takeover::VARIABLE);
        command.envs(proxy.map(|proxy| (takeover::VARIABLE, proxy)));
        if let Some(directory) = directory {
            command.current_dir(directory);
        }
        let child = command.spawn()?;
        let group = AgentGroup(Pid::from_child(&child));
        // Even without a watchdog, the agent notices the end of its input if this process is
        // killed.
        let watchdog = start_watchdog(group).ok();
        Ok(AgentProcess { child, group, watchdog })
    }

    pub(super) fn group(&self) -> AgentGroup {
        self.group
    }

    /// Takes the agent's input and output.
    pub(super) fn take_streams(&mut self) -> (ChildStdin, ChildStdout) {
        let input = self.child.stdin.take().expect("the input is piped");
        (input, self.child.stdout.take().expect("the output is piped"))
    }

    /// Waits until the agent exits.
    pub(super) fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait();
        if let Some(mut watchdog) = self.watchdog.take() {
            if let Some(mut input) = watchdog.stdin.take() {
                let _ = writeln!(input, "over");
            }
            let _ = watchdog.wait();
        }
        status
    }
}

fn start_watchdog(AgentGroup(group): AgentGroup) -> io::Result<Child> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", WATCHDOG, "takeback"]).arg(group.as_raw_nonzero().to_string());
    command.process_group(0).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

impl AgentGroup {
    /// Sends a signal to the agent and all processes in its group.
    fn send(self, signal: Signal) {
        // The agent may have exited already.
        let _ = kill_process_group(self.0, signal);
    }

    /// Passes signals on to the agent, which decides how to react.
    pub(super) fn forward_signals(self) -> io::Result<()> {
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2])?;
        thread::Builder::new().spawn(move || {
            for number in signals.forever() {
                Signal::from_named_raw(number).into_iter().for_each(|signal| self.send(signal));
            }
        })?;
        Ok(())
    }

    /// Stops the agent after the editor has exited. The agent's input has ended, so the agent first
    /// gets time to exit by itself. As soon as it exits, this process exits as well, and sends no
    /// more signals.
    pub(super) fn end(self) {
        thread::sleep(GRACE);
        self.send(Signal::TERM);
        thread::sleep(GRACE);
        self.send(Signal::KILL);
    }
}

/// Waits until no process reads standard output any longer. If standard output is neither a pipe
/// nor a socket, this never returns.
pub(super) fn wait_for_reader_to_leave() {
    let output = io::stdout();
    loop {
        // `poll` reports the end of a pipe even if no event is requested.
        let mut sources = [PollFd::from_borrowed_fd(output.as_fd(), PollFlags::empty())];
        match poll(&mut sources, None) {
            Ok(_) if !sources[0].revents().is_empty() => return,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
