//! Faults of the server, for tests of clients.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::event_stream::StreamEvent;
use crate::request::Provider;

/// A fault of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server sends this response instead of the reply.
    Response {
        /// The HTTP status.
        status: u16,
        /// Headers to send in addition to the ones that describe the body.
        headers: Vec<(String, String)>,
        /// The body: JSON, or any other text.
        body: String,
    },
    /// The stream ends with an error.
    ErrorEvent {
        /// The number of events before the error.
        after: usize,
        /// The type or code of the error, such as `overloaded_error`.
        kind: String,
        /// The message of the error.
        message: String,
    },
    /// The server closes the connection after this number of bytes of the response, counted from
    /// the beginning of its head.
    CutAtByte(usize),
    /// The server sends the reply in one piece, although the client asks for a stream.
    NoStream,
}

impl Fault {
    /// Creates a response with a status and a body.
    pub fn response(status: u16, body: impl Into<String>) -> Fault {
        Fault::Response { status, headers: Vec::new(), body: body.into() }
    }
}

/// Builds the event that ends a stream with an error.
pub(crate) fn error_event(provider: Provider, kind: &str, message: &str) -> StreamEvent {
    let error: Value = json!({ "type": kind, "message": message });
    match provider {
        Provider::Anthropic => StreamEvent::with_name(&json!({ "type": "error", "error": error })),
        Provider::Responses => StreamEvent::with_name(
            &json!({ "type": "error", "code": kind, "message": message, "param": null }),
        ),
        Provider::Chat | Provider::Gemini => StreamEvent::without_name(&json!({ "error": error })),
    }
}

/// A writer that fails after a number of bytes.
pub(crate) struct CutWriter<'a, W> {
    inner: &'a mut W,
    left: usize,
}

impl<'a, W: Write> CutWriter<'a, W> {
    /// Creates a writer. If the fault is `CutAtByte`, the writer fails after that number of bytes.
    pub(crate) fn new(inner: &'a mut W, fault: Option<&Fault>) -> CutWriter<'a, W> {
        let left = match fault {
            Some(Fault::CutAtByte(count)) => *count,
            _ => usize::MAX,
        };
        CutWriter { inner, left }
    }
}

impl<W: Write> Write for CutWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let count = self.inner.write(&bytes[..bytes.len().min(self.left)])?;
        self.left -= count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
