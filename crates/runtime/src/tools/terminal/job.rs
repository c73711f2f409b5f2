//! A running command: its output, its exit status, and how to terminate it early.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::family::Family;
use super::output::{LiveOutput, OutputBuffer};
use super::shell::Shell;
use super::watchdog::Watchdog;

/// The time that processes are given to exit after they are asked to.
const TERM_GRACE: Duration = Duration::from_secs(2);

/// The time after which takeback gives up on processes that do not disappear even when they are
/// killed.
const KILL_GRACE: Duration = Duration::from_secs(2);

/// The interval at which takeback checks on processes that are not its children.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The maximum number of bytes that can be left in a pipe when its writer exits.
const PIPE_CAPACITY: usize = 64 * 1024;

/// Messages to the thread that reads the output.
const EXITED: u8 = b'x';
const STOP: u8 = b's';

/// A command that was started.
pub(super) struct Job {
    pub(super) number: u32,
    pub(super) command: String,
    family: Family,
    state: Mutex<JobState>,
    changed: Condvar,
    control: PipeWriter,
}

struct JobState {
    output: OutputBuffer,
    /// The output to show; `None` if no user is watching.
    live: Option<LiveOutput>,
    /// The exit status of the shell. Other processes of the command may still be running.
    status: Option<ExitStatus>,
    /// True if all output that was written before the shell ended has been read.
    is_drained: bool,
    /// True if the output is no longer being read.
    is_closed: bool,
    is_cancelled: bool,
}

/// The reason why waiting for a command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    Exited(ExitStatus),
    TimedOut,
    Cancelled,
}

impl Job {
    /// Starts a command. If `is_watched` is true, the output of the command is kept for
    /// [`Job::wait`] to show.
    pub(super) fn start(
        number: u32,
        command: &str,
        directory: &Path,
        shell: &Shell,
        watchdog: &Arc<Watchdog>,
        output: OutputBuffer,
        is_watched: bool,
    ) -> io::Result<Arc<Job>> {
        let (reader, writer) = io::pipe()?;
        let (messages, control) = io::pipe()?;
        let exit_control = control.try_clone()?;
        let (mut child, family) = shell.prepare(command, directory, writer)?;
        watchdog.watch(family);
        let gate = child.stdin.take();
        let job = Arc::new(Job {
            number,
            command: command.to_owned(),
            family,
            state: Mutex::new(JobState {
                output,
                live: is_watched.then(LiveOutput::default),
                status: None,
                is_drained: false,
                is_closed: false,
                is_cancelled: false,
            }),
            changed: Condvar::new(),
            control,
        });
        let (reading, waiting) = (Arc::clone(&job), Arc::clone(&job));
        let watchdog = Arc::clone(watchdog);
        let spawn = |body: Box<dyn FnOnce() + Send>| thread::Builder::new().spawn(body);
        // The child is reaped even if the second thread cannot be started.
        spawn(Box::new(move || waiting.reap(child, &exit_control, &watchdog)))?;
        let started = spawn(Box::new(move || reading.read_output(reader, messages)));
        if let Err(error) = started {
            job.end();
            return Err(error);
        }
        // If this fails, the child has already ended.
        let _ = gate.map(|mut gate| gate.write_all(b"\n"));
        Ok(job)
    }

    /// Waits until the shell ends, and records its exit status.
    fn reap(&self, mut child: Child, control: &PipeWriter, watchdog: &Watchdog) {
        // Until the status is collected, the process id cannot be reused. So the status is
        // collected under the lock, while no other thread can send a signal.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(self.family.id), options) {}
        let mut state = self.lock();
        // The status is missing only if other code in this process has already collected it.
        state.status = Some(child.wait().unwrap_or(ExitStatus::from_raw(255 << 8)));
        drop(state);
        self.changed.notify_all();
        let _ = (&*control).write_all(&[EXITED]);
        if self.family.is_empty() {
            watchdog.unwatch(self.family);
        }
    }

    /// Reads the output until it ends, or until a message says to stop. A process that outlives the
    /// shell may keep the pipe open.
    fn read_output(&self, mut reader: PipeReader, mut messages: PipeReader) {
        let mut chunk = vec![0; PIPE_CAPACITY];
        let mut left_in_pipe: Option<usize> = None;
        while let Ok((has_output, has_message)) = wait_readable(&reader, &messages, left_in_pipe) {
            if has_message {
                let mut message = [STOP];
                let _ = messages.read(&mut message);
                match message {
                    [EXITED] => left_in_pipe = Some(PIPE_CAPACITY),
                    _ => break,
                }
            }
            if has_output {
                let Ok(count @ 1..) = reader.read(&mut chunk) else { break };
                self.push(&chunk[..count]);
                left_in_pipe = left_in_pipe.map(|left| left.saturating_sub(count));
            }
            if (left_in_pipe.is_some() && !has_output && !has_message) || left_in_pipe == Some(0) {
                self.lock().is_drained = true;
                self.changed.notify_all();
                left_in_pipe = None;
            }
        }
        let mut state = self.lock();
        (state.is_drained, state.is_closed) = (true, true);
        drop(state);
        self.changed.notify_all();
    }

    fn push(&self, bytes: &[u8]) {
        let mut state = self.lock();
        state.output.push(bytes);
        if let Some(live) = &mut state.live {
            live.push(bytes);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for the end of the shell, and shows the output as it arrives.
    pub(super) fn wait(&self, deadline: Instant, on_output: &dyn Fn(&str)) -> Waited {
        loop {
            let (text, waited) = self.wait_for_change(deadline);
            if !text.is_empty() {
                on_output(&text);
            }
            if let Some(waited) = waited {
                return waited;
            }
        }
    }

    /// Waits until there is something to show, or until there is a reason to stop waiting.
    fn wait_for_change(&self, deadline: Instant) -> (String, Option<Waited>) {
        let mut state = self.lock();
        loop {
            let is_late = Instant::now() >= deadline;
            let waited = match state.status {
                Some(status) if state.is_drained => Some(Waited::Exited(status)),
                _ if state.is_cancelled => Some(Waited::Cancelled),
                _ => is_late.then_some(Waited::TimedOut),
            };
            let is_end = waited.is_some();
            let live = state.live.as_mut().filter(|live| is_end || !live.is_empty());
            let text = live.map(|live| live.take(is_end)).unwrap_or_default();
            if is_end || !text.is_empty() {
                return (text, waited);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            state =
                self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until no process of the command is left, but no longer than `time`. Returns true if no
    /// process is left.
    pub(super) fn wait_until_gone(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        loop {
            if self.status().is_some() && self.family.is_empty() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            drop(self.changed.wait_timeout(self.lock(), POLL_INTERVAL));
        }
    }

    /// Terminates all processes of the command: first asks them to exit, then kills those that are
    /// left.
    pub(super) fn end(&self) {
        self.signal(Signal::TERM);
        // A stopped process handles the first signal only after it continues.
        self.signal(Signal::CONT);
        if !self.wait_until_gone(TERM_GRACE) {
            let deadline = Instant::now() + KILL_GRACE;
            // A process may start another one just before it is killed.
            while Instant::now() < deadline {
                self.signal(Signal::KILL);
                if self.wait_until_gone(POLL_INTERVAL) {
                    break;
                }
            }
        }
        self.stop_reading();
    }

    fn signal(&self, signal: Signal) {
        let state = self.lock();
        if state.status.is_none() {
            // The shell may not have started its session yet.
            let _ = kill_process(self.family.id, signal);
        }
        drop(state);
        self.family.signal(signal);
    }

    /// Sends a signal without waiting for its effect.
    pub(super) fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    /// Stops reading the output, once everything that was written before the shell ended has been
    /// read.
    pub(super) fn stop_reading(&self) {
        let deadline = Instant::now() + KILL_GRACE;
        let mut state = self.lock();
        while !state.is_drained && Instant::now() < deadline {
            let waited = self.changed.wait_timeout(state, POLL_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        let _ = (&self.control).write_all(&[STOP]);
    }

    /// Makes [`Job::wait`] return.
    pub(super) fn cancel_wait(&self) {
        self.lock().is_cancelled = true;
        self.changed.notify_all();
    }

    /// Stops collecting the output that is shown to the user, and allows [`Job::wait`] to be called
    /// again.
    pub(super) fn unwatch(&self) {
        let mut state = self.lock();
        state.live = None;
        state.is_cancelled = false;
    }

    /// Returns the output that has arrived since the last call.
    pub(super) fn take_output(&self) -> String {
        self.lock().output.take()
    }

    /// Returns the exit status of the shell, if the shell has ended.
    pub(super) fn status(&self) -> Option<ExitStatus> {
        self.lock().status
    }

    pub(super) fn family(&self) -> Family {
        self.family
    }

    fn lock(&self) -> MutexGuard<'_, JobState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until one of the two pipes is readable or at its end. Does not wait if the shell has
/// ended. Returns, for each pipe, whether it is ready.
fn wait_readable(
    output: &PipeReader,
    messages: &PipeReader,
    left_in_pipe: Option<usize>,
) -> io::Result<(bool, bool)> {
    let mut ready = [PollFd::new(output, PollFlags::IN), PollFd::new(messages, PollFlags::IN)];
    let no_wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        match poll(&mut ready, left_in_pipe.map(|_| &no_wait)) {
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok((!ready[0].revents().is_empty(), !ready[1].revents().is_empty()))
}
