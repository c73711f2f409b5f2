//! Collects the output of a command, so that a front end other than this terminal can show it.

use std::io::Write;

use serde::Serialize;
use serde_json::Value;

use super::{Sink, output};

/// The output of a command.
#[derive(Debug, Default)]
pub(crate) struct CapturedOutput {
    /// The lines for the user, in the order in which they were printed.
    pub(super) lines: Vec<String>,
    /// The result as JSON.
    pub(crate) data: Option<Value>,
}

impl CapturedOutput {
    /// Returns the lines as one text, without a line break at its end.
    pub(crate) fn text(&self) -> String {
        self.lines.join("\n").trim_end().to_owned()
    }

    /// Returns the lines, which may have colors.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Prints the lines, even while other output is captured.
    pub(crate) fn print(&self) -> std::io::Result<()> {
        let mut stdout = anstream::stdout().lock();
        self.lines.iter().try_for_each(|line| writeln!(stdout, "{line}"))
    }
}

/// Runs a command, and returns its output instead of printing it.
pub(crate) fn capture_output<T>(command: impl FnOnce() -> T) -> (T, CapturedOutput) {
    let mut capture = Capture::begin();
    let result = command();
    (result, capture.end())
}

/// Keeps the result of a command as JSON, if the output is captured.
pub(crate) fn keep_data(value: &impl Serialize) {
    if let Sink::Captured(captured) = &mut output().sink {
        captured.data = serde_json::to_value(value).ok();
    }
}

/// Takes the lines that have been captured so far.
pub(crate) fn take_captured() -> Vec<String> {
    match &mut output().sink {
        Sink::Captured(captured) => std::mem::take(&mut captured.lines),
        _ => Vec::new(),
    }
}

/// A guard that captures output until it is dropped, even if the command panics.
pub(crate) struct Capture {
    /// The sink that was in use before.
    outer: Option<Sink>,
}

impl Capture {
    /// Begins to capture output.
    pub(crate) fn begin() -> Capture {
        let captured = Sink::Captured(CapturedOutput::default());
        Capture { outer: Some(std::mem::replace(&mut output().sink, captured)) }
    }

    fn end(&mut self) -> CapturedOutput {
        let Some(outer) = self.outer.take() else { return CapturedOutput::default() };
        match std::mem::replace(&mut output().sink, outer) {
            Sink::Captured(captured) => captured,
            _ => CapturedOutput::default(),
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.end();
    }
}
