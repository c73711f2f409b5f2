//! Everything that takeback says to its users: lines on standard output and standard error, tables,
//! progress, questions.
//!
//! In this crate, `println!` and `eprintln!` are the macros that are defined here. They strip
//! unwanted colors, send long output to a pager, and do not fail if the reader closes the pipe.

// The macros come first, because modules see only macros that are defined before them.

/// Prints a line. Does not panic if the reader closes the pipe (`takeback … | head`).
macro_rules! println {
    () => { println!("") };
    ($($part:tt)*) => { $crate::output::write_line(format_args!($($part)*)) };
}

/// Prints a line to standard error. The line appears in order with the lines on standard output or,
/// if there is a pager, after the pager is closed.
macro_rules! eprintln {
    ($($part:tt)*) => { $crate::output::write_error_line(format_args!($($part)*)) };
}

mod capture;
mod live;
mod markdown;
mod pager;
mod progress;
mod style;
mod table;
mod terminal;
mod text;

pub(crate) use capture::{Capture, CapturedOutput, capture_output, keep_data, take_captured};
pub(crate) use live::LiveRegion;
pub(crate) use markdown::{MarkdownStream, last_lines, render_markdown, wrap_text};
pub(crate) use progress::Progress;
pub(crate) use style::{Style, paint};
pub(crate) use table::{Cell, Column, Table};
pub(crate) use terminal::Size;
pub(crate) use text::{
    blocked_line, bytes, count, disarm, disarm_lines, join_lines, local, local_time, relative_time,
    short_local, shorten, tilde, uncovered_line, width_of,
};

use std::fmt::Arguments;
use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use takeback_base::text::is_armed;
use takeback_tree::Recovery;
use takeback_undo::Resume;
use takeback_undo::hook::quote_word;

use crate::context::{Color, Context};
use crate::failure::{self, Failure};

use self::pager::Pager;

/// The state of the output.
struct Output {
    sink: Sink,
    /// The pager's program and arguments.
    pager: Option<Vec<String>>,
    /// The first error that occurred while writing to standard output.
    error: Option<io::Error>,
}

enum Sink {
    /// Each line is written immediately.
    Direct,
    /// Lines are held back until it is known whether they fit on the screen.
    Waiting { size: Size, rows: usize, lines: Vec<Line> },
    /// There are more lines than fit on the screen, so a pager shows them. Errors are held back
    /// until the pager is closed.
    Paged { size: Size, pager: Pager, errors: Vec<String> },
    /// Lines are collected for a front end.
    Captured(CapturedOutput),
}

enum Line {
    Output(String),
    Error(String),
}

static OUTPUT: Mutex<Output> = Mutex::new(Output { sink: Sink::Direct, pager: None, error: None });

fn output() -> MutexGuard<'static, Output> {
    // The state is still usable after a panic while writing a line.
    OUTPUT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets whether colors are used.
pub(crate) fn set_colors(color: Color) {
    let choice = match color {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::Always,
        Color::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// Shows all later output in this pager if it is longer than the screen.
pub(crate) fn use_pager(words: Vec<String>) {
    // If the size is unknown, no pager is used, because a program rather than a user may be reading
    // the terminal.
    let mut output = output();
    if let Some(size) = Size::of(io::stdout())
        && !matches!(output.sink, Sink::Captured(_))
    {
        output.pager = Some(words);
        output.sink = Sink::Waiting { size, rows: 0, lines: Vec::new() };
    }
}

fn is_paging() -> bool {
    matches!(output().sink, Sink::Paged { .. })
}

pub(crate) fn write_line(line: Arguments<'_>) {
    output().write(Line::Output(line.to_string()));
}

pub(crate) fn write_error_line(line: Arguments<'_>) {
    output().write(Line::Error(line.to_string()));
}

/// Shows lines in a pager, which stays open even if they fit on the screen. Returns false if the
/// pager cannot be started.
pub(crate) fn page_lines(words: &[String], lines: &[String]) -> bool {
    let Some(mut pager) = Pager::start(words, "R") else { return false };
    for line in lines {
        // An error means that the user has closed the pager.
        if pager.write_line(line).is_err() {
            break;
        }
    }
    pager.end();
    true
}

/// Returns true if colors are used on standard output.
pub(crate) fn has_colors() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

/// Writes everything that has been held back. If there is a pager, waits until the user closes it.
pub(crate) fn flush() {
    output().flush();
}

/// Writes the remaining output, and fails if some output could not be written. It is not an error
/// if the reader closed the pipe.
pub(crate) fn finish() -> Result<(), Failure> {
    let mut output = output();
    output.flush();
    let flushed = io::stdout().flush();
    output.note(flushed);
    match output.error.take() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new("cannot write to standard output").because(&error))
        }
        _ => Ok(()),
    }
}

impl Output {
    fn write(&mut self, line: Line) {
        match (&mut self.sink, line) {
            (Sink::Direct, line) => self.write_now(&line),
            (Sink::Captured(captured), Line::Output(line) | Line::Error(line)) => {
                captured.lines.push(line);
            }
            (Sink::Waiting { size, rows, lines }, line) => {
                *rows += line.rows(*size);
                lines.push(line);
                // The shell's next prompt also needs a row.
                if *rows >= size.rows {
                    self.start_pager();
                }
            }
            (Sink::Paged { errors, .. }, Line::Error(line)) => errors.push(line),
            (Sink::Paged { pager, .. }, Line::Output(line)) if self.error.is_none() => {
                let written = pager.write_line(&line);
                self.note(written);
            }
            (Sink::Paged { .. }, Line::Output(_)) => {}
        }
    }

    fn write_now(&mut self, line: &Line) {
        match line {
            Line::Output(line) if self.error.is_none() => {
                let written = writeln!(anstream::stdout().lock(), "{line}");
                self.note(written);
            }
            Line::Output(_) => {}
            // If standard error is closed, there is nowhere to report the error.
            Line::Error(line) => drop(writeln!(anstream::stderr().lock(), "{line}")),
        }
    }

    /// Remembers the first error that occurs while writing to standard output. After this error,
    /// nothing more is written.
    fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.error.get_or_insert(error);
        }
    }

    /// Takes the lines that were held back, and switches to direct output.
    fn take_lines(&mut self) -> Vec<Line> {
        match std::mem::replace(&mut self.sink, Sink::Direct) {
            Sink::Waiting { lines, .. } => lines,
            sink => {
                self.sink = sink;
                Vec::new()
            }
        }
    }

    fn start_pager(&mut self) {
        let Sink::Waiting { size, .. } = self.sink else { return };
        let lines = self.take_lines();
        if let Some(pager) = self.pager.as_deref().and_then(|words| Pager::start(words, "FRX")) {
            self.sink = Sink::Paged { size, pager, errors: Vec::new() };
        }
        lines.into_iter().for_each(|line| self.write(line));
    }

    fn flush(&mut self) {
        match std::mem::replace(&mut self.sink, Sink::Direct) {
            Sink::Direct => {}
            captured @ Sink::Captured(_) => self.sink = captured,
            Sink::Waiting { size, lines, .. } => {
                lines.iter().for_each(|line| self.write_now(line));
                self.sink = Sink::Waiting { size, rows: 0, lines: Vec::new() };
            }
            Sink::Paged { size, pager, errors } => {
                pager.end();
                // The user has closed the pager, so the broken pipe to the pager does not affect
                // later output.
                self.error.take_if(|error| error.kind() == ErrorKind::BrokenPipe);
                errors.into_iter().for_each(|line| self.write_now(&Line::Error(line)));
                self.sink = Sink::Waiting { size, rows: 0, lines: Vec::new() };
            }
        }
    }
}

impl Line {
    /// Returns the number of terminal rows that the line occupies.
    fn rows(&self, size: Size) -> usize {
        let (Line::Output(text) | Line::Error(text)) = self;
        let plain = anstream::adapter::strip_str(text).to_string();
        plain.split('\n').map(|line| width_of(line).div_ceil(size.columns).max(1)).sum()
    }
}

/// A writer that prints what is written to it, line by line, with control characters escaped.
#[derive(Default)]
pub(crate) struct DisarmedLines {
    /// The last line, while it is incomplete.
    line: Vec<u8>,
}

impl Write for DisarmedLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        if let Some(end) = self.line.iter().rposition(|byte| *byte == b'\n') {
            let rest = self.line.split_off(end + 1);
            let lines = std::mem::replace(&mut self.line, rest);
            println!("{}", disarm_lines(&String::from_utf8_lossy(&lines[..end])));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            println!("{}", disarm_lines(&String::from_utf8_lossy(&line)));
        }
        Ok(())
    }
}

/// If the user asks for JSON, prints the result of a command as JSON, and returns true. Otherwise
/// returns false, and the caller prints text.
pub(crate) fn answers_json(value: &impl Serialize, context: &Context) -> bool {
    match context.globals.json {
        true => print_json(value),
        false => keep_data(value),
    }
    context.globals.json
}

pub(crate) fn print_json(value: &impl Serialize) {
    let json = serde_json::to_string_pretty(value).expect("plain data becomes JSON");
    println!("{}", disarm_json(&json));
}

/// Escapes the characters in JSON that a terminal would interpret. They occur only in strings,
/// where an escape has the same meaning as the character.
pub(crate) fn disarm_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        if character != '\n' && is_armed(character) {
            out.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            out.push(character);
        }
    }
    out
}

/// The maximum number of lines that a section shows without `-v`.
const SECTION_LINES: usize = 10;

/// Prints a title and the lines below it. Prints nothing if there are no lines.
pub(crate) fn print_section(
    title: &str,
    lines: impl IntoIterator<Item = String>,
    context: &Context,
) {
    let lines: Vec<String> = lines.into_iter().collect();
    if lines.is_empty() {
        return;
    }
    let shown = if context.globals.verbose { lines.len() } else { SECTION_LINES };
    println!("{title}:");
    lines.iter().take(shown).for_each(|line| println!("  {line}"));
    if lines.len() > shown {
        println!("  … and {} more (-v shows all)", lines.len() - shown);
    }
}

/// Prints a warning. The command continues after it.
pub(crate) fn warn(text: &str) {
    eprintln!("{} {}", paint(Style::Warning, "warning:"), disarm(text));
}

/// Reports how an interrupted restore was recovered.
pub(crate) fn report_recovery(recovery: &Recovery) {
    let (what, left) = match recovery {
        // The rollback reports its own result.
        Recovery::Restored => return,
        Recovery::Finished(left) => ("was interrupted and has been finished", left),
        Recovery::Reverted(left) => ("was interrupted and has been reverted", left),
        Recovery::Failed(error) => {
            let error = failure::chain(error);
            return warn(&format!("an interrupted restore could not be finished: {error}"));
        }
    };
    eprintln!("note: a restore {what}");
    left.iter().for_each(|path| eprintln!("  not touched, because it has changed: {path}"));
}

/// Tells the user how to continue a conversation after an interrupted rollback was finished.
pub(crate) fn report_continuation(resume: &Resume) {
    let command = continuation_from_here(resume);
    eprintln!("note: the agent's conversation was taken back, too; continue with `{command}`");
}

/// Returns the command that continues a conversation, as the user can type it in any directory.
pub(crate) fn continuation(resume: &Resume) -> String {
    let directory = resume.cwd.iter().map(|directory| format!("cd {} && ", quote_word(directory)));
    let command: Vec<String> = resume.argv.iter().map(|word| quote_word(word)).collect();
    disarm(&format!("{}{}", directory.collect::<String>(), command.join(" ")))
}

/// Returns the command that continues a conversation, as the user can type it in the current
/// directory.
pub(crate) fn continuation_from_here(resume: &Resume) -> String {
    let here = std::env::current_dir().ok();
    let is_here = |directory: &String| std::fs::canonicalize(directory).ok() == here;
    let cwd = resume.cwd.clone().filter(|directory| !is_here(directory));
    continuation(&Resume { cwd, ..resume.clone() })
}

/// Tells the user that the command is waiting for another process.
pub(crate) fn report_waiting(process: Option<u32>) {
    let id = process.map(|id| format!(" (pid {id})")).unwrap_or_default();
    if matches!(output().sink, Sink::Captured(_)) {
        return write_error_line(format_args!("waiting for another takeback process{id} …"));
    }
    // Print this immediately, ahead of lines that are held back, because the user is already
    // waiting. The message may replace a progress line.
    let begin = if io::stderr().is_terminal() { "\r\u{1b}[K" } else { "" };
    let _ = writeln!(io::stderr(), "{begin}waiting for another takeback process{id} …");
}

/// Asks the user whether to proceed, and ends the command if the user declines.
pub(crate) fn confirm() -> Result<(), Failure> {
    match is_agreed("Continue?") {
        true => Ok(()),
        false => Err(Failure::declined()),
    }
}

/// Prints a question. The user answers on the same line.
pub(crate) fn ask(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = write!(stderr, "{text}").and_then(|()| stderr.flush());
}

/// Asks the user a yes-or-no question.
pub(crate) fn is_agreed(question: &str) -> bool {
    let answer = ask_line(&format!("{question} [y/N] "));
    matches!(answer.as_deref(), Some("y" | "Y" | "yes"))
}

/// Asks the user for a line of text. Returns `None` if the input has ended.
pub(crate) fn ask_line(question: &str) -> Option<String> {
    // The user must see the output that the question is about.
    flush();
    ask(question);
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.is_ok_and(|bytes| bytes > 0).then(|| answer.trim().to_owned())
}
