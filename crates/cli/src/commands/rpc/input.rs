//! Waits until the next request or a signal arrives, or until the server has been idle for a while.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// The maximum length of a line, in bytes.
pub(in crate::commands) const MAX_LINE: usize = 64 << 20;

/// The maximum number of bytes to read in one system call.
const CHUNK: usize = 64 << 10;

/// An event that wakes the server.
pub(in crate::commands) enum Event {
    Line(Vec<u8>),
    /// A line was too long, so it was skipped.
    TooLongLine,
    /// No request arrived within the given time.
    Idle,
    /// The input has ended, or a signal asked the process to end.
    End,
}

/// Standard input, and the signals that end the server.
///
/// One thread waits for both, because handing each line from one thread to another would take as
/// long as answering a short request.
pub(in crate::commands) struct Input {
    lines: LineBuffer,
    has_ended: bool,
    /// True after the first signal. A second signal ends the process immediately; the next command
    /// recovers from that.
    stopped: Arc<AtomicBool>,
    /// Becomes readable when the first signal arrives.
    signals: UnixStream,
}

impl Input {
    pub(in crate::commands) fn new() -> io::Result<Input> {
        let stopped = Arc::new(AtomicBool::new(false));
        let (signals, sender) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_conditional_default(signal, stopped.clone())?;
            flag::register(signal, stopped.clone())?;
            low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        Ok(Input { lines: LineBuffer::default(), has_ended: false, stopped, signals })
    }

    /// Returns the flag that becomes true when the first signal arrives.
    pub(in crate::commands) fn stop_flag(&self) -> Arc<AtomicBool> {
        self.stopped.clone()
    }

    /// Waits for the next event. If `idle_after` is `None`, there is no time limit.
    pub(in crate::commands) fn next_event(
        &mut self,
        idle_after: Option<Duration>,
    ) -> io::Result<Event> {
        loop {
            // After a signal, lines that are still pending are not served.
            if self.stopped.load(Ordering::SeqCst) {
                return Ok(Event::End);
            }
            if let Some(event) = self.lines.take_line() {
                return Ok(event);
            }
            if self.has_ended {
                return Ok(self.lines.take_last_line().unwrap_or(Event::End));
            }
            if !self.wait(idle_after)? {
                return Ok(Event::Idle);
            }
        }
    }

    /// Waits for a signal or for input, and reads the input. Returns false if neither arrived in
    /// time.
    fn wait(&mut self, idle_after: Option<Duration>) -> io::Result<bool> {
        let input = io::stdin();
        let timeout = idle_after.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
        let mut sources =
            [PollFd::new(&input, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
        match poll(&mut sources, timeout.as_ref()) {
            Ok(0) => return Ok(false),
            Err(Errno::INTR) => return Ok(true),
            ready => ready?,
        };
        if !sources[0].revents().is_empty() {
            self.has_ended = self.lines.read_from(&input)? == 0;
        }
        Ok(true)
    }
}

/// Input that has been read but not taken yet.
#[derive(Default)]
struct LineBuffer {
    bytes: Vec<u8>,
    /// The number of bytes at the beginning of `bytes` that are known to contain no line ending.
    searched: usize,
    /// True while the rest of a line that is too long is skipped.
    is_skipping: bool,
}

impl LineBuffer {
    /// Reads the available bytes, and returns their number.
    fn read_from(&mut self, input: impl AsFd) -> io::Result<usize> {
        let length = self.bytes.len();
        self.bytes.resize(length + CHUNK, 0);
        let count = match read(input, &mut self.bytes[length..]) {
            Err(error) => {
                self.bytes.truncate(length);
                return Err(error.into());
            }
            Ok(count) => count,
        };
        self.bytes.truncate(length + count);
        Ok(count)
    }

    /// Takes the first line, without its line ending, if the line is complete.
    fn take_line(&mut self) -> Option<Event> {
        let end = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end.map(|end| self.searched + end) else {
            self.searched = self.bytes.len();
            if self.searched > MAX_LINE || self.is_skipping {
                self.is_skipping = true;
                self.clear();
            }
            return None;
        };
        let rest = self.bytes.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.bytes, rest);
        self.searched = 0;
        line.pop();
        Some(self.end_line(line))
    }

    /// Takes the last line, which has no line ending.
    fn take_last_line(&mut self) -> Option<Event> {
        if self.bytes.is_empty() && !self.is_skipping {
            return None;
        }
        let line = std::mem::take(&mut self.bytes);
        self.searched = 0;
        Some(self.end_line(line))
    }

    fn end_line(&mut self, line: Vec<u8>) -> Event {
        match std::mem::take(&mut self.is_skipping) || line.len() > MAX_LINE {
            true => Event::TooLongLine,
            false => Event::Line(line),
        }
    }

    fn clear(&mut self) {
        self.bytes = Vec::new();
        self.searched = 0;
    }
}
