//! The streams on which a turn is shown.

use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};

use crate::output::{LiveRegion, Size, disarm_lines};

/// The assumed size of a terminal that does not report its size.
const USUAL: Size = Size { columns: 80, rows: 24 };

/// A terminal with live lines, or two plain streams.
pub(super) enum Screen {
    Live {
        out: Box<dyn Write + Send>,
        size: fn() -> Size,
        has_colors: bool,
        region: LiveRegion,
    },
    Plain {
        /// The stream for the answer.
        answer: Box<dyn Write + Send>,
        /// The stream for everything else.
        notes: Box<dyn Write + Send>,
        /// True if the answer so far does not end with a line break.
        is_in_line: bool,
    },
}

impl Screen {
    /// Chooses live lines or plain streams, depending on whether standard output is a terminal.
    pub(super) fn standard() -> Screen {
        let is_dumb = crate::context::variable("TERM").is_none_or(|term| term == "dumb");
        if !io::stdout().is_terminal() || is_dumb {
            let (answer, notes) = (Box::new(io::stdout()), Box::new(anstream::stderr()));
            return Screen::Plain { answer, notes, is_in_line: false };
        }
        Screen::Live {
            out: Box::new(io::stdout()),
            size: || Size::of(io::stdout()).unwrap_or(USUAL),
            has_colors: AutoStream::choice(&io::stdout()) != ColorChoice::Never,
            region: LiveRegion::default(),
        }
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self, Screen::Live { .. })
    }

    /// Returns the width for text. The last column stays empty, because terminals treat it in
    /// different ways.
    pub(super) fn columns(&self) -> usize {
        match self {
            Screen::Live { size, .. } => size().columns.saturating_sub(1).max(1),
            Screen::Plain { .. } => USUAL.columns,
        }
    }

    /// Prints finished lines, and live lines below them.
    pub(super) fn update(&mut self, finished: &[String], live: &[String]) {
        let Screen::Live { out, size, has_colors, region } = self else { return };
        let size = size();
        let text = match has_colors {
            true => region.update(finished, live, size),
            false => region.update(&strip_all(finished), &strip_all(live), size),
        };
        // If the terminal is gone, there is nowhere to report the error.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Writes a piece of the answer as the model wrote it, except that control characters are
    /// escaped.
    pub(super) fn write_answer(&mut self, text: &str) {
        let Screen::Plain { answer, is_in_line, .. } = self else { return };
        let text = text.replace('\r', "");
        // Tabs are part of the text, for example in code.
        let disarmed: Vec<String> = text.split('\t').map(disarm_lines).collect();
        let _ = answer.write_all(disarmed.join("\t").as_bytes()).and_then(|()| answer.flush());
        *is_in_line = !text.is_empty() && !text.ends_with('\n') || *is_in_line && text.is_empty();
    }

    /// Ends the last line of the answer.
    pub(super) fn end_answer(&mut self) {
        if let Screen::Plain { answer, is_in_line, .. } = self
            && std::mem::take(is_in_line)
        {
            let _ = answer.write_all(b"\n").and_then(|()| answer.flush());
        }
    }

    /// Prints lines that are not part of the answer.
    pub(super) fn print(&mut self, lines: &[String]) {
        let Screen::Plain { notes, .. } = self else { return };
        for line in lines {
            let _ = writeln!(notes, "{line}");
        }
        let _ = notes.flush();
    }
}

fn strip_all(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
}
