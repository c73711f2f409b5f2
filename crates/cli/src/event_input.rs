//! Reads the event that is passed to a hook: one JSON value. Some agents keep standard input open
//! after that value.

use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use serde::de::IgnoredAny;

/// The minimum time that the hook waits for its event. An agent on a busy machine may need some
/// time to write the event.
const MIN_WAIT: Duration = Duration::from_secs(3);

/// The byte order mark, which some programs put before UTF-8 text.
const BYTE_ORDER_MARK: [u8; 3] = *b"\xef\xbb\xbf";

/// Reads the first JSON value and nothing after it, without waiting for the end of the input. If
/// the input is not JSON, returns the bytes read up to the first error.
pub(crate) fn read_event(input: impl Read) -> io::Result<Vec<u8>> {
    let mut recorder = Recorder { input: io::BufReader::new(input), read: Vec::new() };
    let mut values = serde_json::Deserializer::from_reader(&mut recorder).into_iter::<IgnoredAny>();
    match values.next() {
        Some(Err(error)) if error.is_io() => Err(error.into()),
        _ => Ok(recorder.read),
    }
}

/// An input that fails with an error if nothing arrives for too long.
pub(crate) struct TimedInput<F> {
    input: F,
    /// The maximum time between two reads; `None` if there is no limit.
    limit: Option<Duration>,
}

impl TimedInput<io::Stdin> {
    /// Reads standard input. A user who types the event has no time limit.
    pub(crate) fn stdin(limit: Duration) -> TimedInput<io::Stdin> {
        let input = io::stdin();
        let limit = (!input.is_terminal()).then_some(limit.max(MIN_WAIT));
        TimedInput { input, limit }
    }
}

impl<F: AsFd> Read for TimedInput<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let timeout = self.limit.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
        loop {
            let mut sources = [PollFd::new(&self.input, PollFlags::IN)];
            match poll(&mut sources, timeout.as_ref()) {
                Ok(0) => {
                    let limit = self.limit.unwrap_or_default().as_millis();
                    let message = format!("the rest of it did not arrive within {limit} ms");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, message));
                }
                Err(Errno::INTR) => continue,
                ready => ready?,
            };
            match read(&self.input, &mut *buffer) {
                Err(Errno::INTR | Errno::AGAIN) => {}
                count => return Ok(count?),
            }
        }
    }
}

/// A reader that records the bytes that it reads, except a byte order mark.
struct Recorder<R> {
    input: R,
    read: Vec<u8>,
}

impl<R: Read> Read for Recorder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut count = self.input.read(buffer)?;
        let is_mark = self.read.is_empty() && buffer[..count].first() == Some(&BYTE_ORDER_MARK[0]);
        if is_mark && count == 1 {
            let mut rest = [0; 2];
            self.input.read_exact(&mut rest)?;
            if rest == BYTE_ORDER_MARK[1..] {
                count = self.input.read(buffer)?;
            }
        }
        self.read.extend(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// An input that is never closed.
    struct Open<'a>(&'a [u8]);

    impl Read for Open<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            assert!(!self.0.is_empty(), "the reader waits for more");
            self.0.read(buffer)
        }
    }

    fn read_open(text: &str) -> String {
        String::from_utf8(read_event(Open(text.as_bytes())).unwrap()).unwrap()
    }

    #[test]
    fn the_end_of_the_value_is_the_end_of_the_event() {
        assert_eq!(read_open(r#"{"a": "}", "b": [1]}"#), r#"{"a": "}", "b": [1]}"#);
        assert_eq!(read_open("\u{feff}{}"), "{}");
        assert_eq!(read_open(" {\"half\": \"\\ud83d\"}\n{}").trim(), r#"{"half": "\ud83d"}"#);
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(read_open(&format!("{{\"input\": {deep}}}")).len(), deep.len() + 11);
    }

    #[test]
    fn half_a_value_on_an_open_input_is_an_error() {
        let (mut agent, input) = UnixStream::pair().unwrap();
        agent.write_all(br#"{"event": "#).unwrap();
        let limit = Some(Duration::from_millis(1));
        let error = read_event(TimedInput { input, limit }).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "the rest of it did not arrive within 1 ms");
    }

    #[test]
    fn a_whole_value_is_read_from_an_open_input() {
        let (mut agent, input) = UnixStream::pair().unwrap();
        agent.write_all(b"{}").unwrap();
        let limit = Some(Duration::from_secs(600));
        assert_eq!(read_event(TimedInput { input, limit }).unwrap(), b"{}");
    }

    #[test]
    fn reading_ends_at_text_that_is_not_json() {
        assert_eq!(read_open("{]"), "{]");
        assert_eq!(read_event(&b"{"[..]).unwrap(), b"{");
        assert_eq!(read_event(&b""[..]).unwrap(), b"");
    }
}
