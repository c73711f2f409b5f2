//! Text for terminals: nothing from a name or a reason may act as a command.

use std::fmt::Arguments;
use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;
use takeback_tree::{Reason, Recovery, Uncovered};

use crate::context::Context;
use crate::failure::{self, Failure};

/// Like the standard one, but whoever reads may go away (`takeback … | head`) without a panic.
macro_rules! println {
    () => { println!("") };
    ($($part:tt)*) => { $crate::output::write_line(format_args!($($part)*)) };
}

/// What first went wrong with standard output.
static LOST: OnceLock<io::Error> = OnceLock::new();

pub(crate) fn write_line(line: Arguments<'_>) {
    if LOST.get().is_none()
        && let Err(error) = writeln!(io::stdout().lock(), "{line}")
    {
        let _ = LOST.set(error);
    }
}

/// Whether everything that was printed arrived. A reader that went away has seen enough.
pub(crate) fn finish() -> Result<(), Failure> {
    if LOST.get().is_none()
        && let Err(error) = io::stdout().flush()
    {
        let _ = LOST.set(error);
    }
    match LOST.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new("cannot write to standard output").because(error))
        }
        _ => Ok(()),
    }
}

/// Characters that a terminal obeys instead of showing them.
fn is_armed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}')
}

/// Text whose control and reordering characters are written out.
pub(crate) fn disarm(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_armed(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// Text in which only the ends of lines are left of what [`disarm`] writes out.
pub(crate) fn disarm_lines(text: &str) -> String {
    let lines = text.split('\n').map(|line| disarm(&line.replace('\t', "    ")));
    lines.collect::<Vec<_>>().join("\n")
}

/// Disarms what is written to a terminal, line by line.
pub(crate) struct Disarmed<W> {
    terminal: W,
    line: Vec<u8>,
}

impl<W: Write> Disarmed<W> {
    pub(crate) fn new(terminal: W) -> Disarmed<W> {
        Disarmed { terminal, line: Vec::new() }
    }
}

impl<W: Write> Write for Disarmed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        if let Some(end) = self.line.iter().rposition(|byte| *byte == b'\n') {
            let rest = self.line.split_off(end + 1);
            self.flush()?;
            self.line = rest;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let lines = std::mem::take(&mut self.line);
        self.terminal.write_all(disarm_lines(&String::from_utf8_lossy(&lines)).as_bytes())?;
        self.terminal.flush()
    }
}

/// The first characters of a text.
pub(crate) fn shorten(text: &str, length: usize) -> String {
    match text.char_indices().nth(length) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

pub(crate) fn print_json(value: &impl Serialize) {
    let json = serde_json::to_string_pretty(value).expect("plain data becomes JSON");
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '\n' => out.push('\n'),
            // Only strings have any, and there it means the same.
            _ if is_armed(character) => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            _ => out.push(character),
        }
    }
    println!("{out}");
}

/// A moment as people here read it.
pub(crate) fn local(moment: jiff::Timestamp) -> String {
    moment.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

/// A moment: the time of day today, otherwise with its date.
pub(crate) fn short_local(moment: jiff::Timestamp) -> String {
    let zone = jiff::tz::TimeZone::system();
    let (then, now) = (moment.to_zoned(zone.clone()), jiff::Timestamp::now().to_zoned(zone));
    let format = if then.date() == now.date() { "%H:%M" } else { "%Y-%m-%d %H:%M" };
    then.strftime(format).to_string()
}

/// A path with `~` for the home directory.
pub(crate) fn tilde(path: &Path, context: &Context) -> String {
    let short = context.user_home().and_then(|home| {
        let home = std::fs::canonicalize(home).ok()?;
        Some(format!("~/{}", path.strip_prefix(home).ok()?.display()))
    });
    disarm(&short.unwrap_or_else(|| path.display().to_string()))
}

/// What a piece of text is, for its colour.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    Id,
    Faint,
    Good,
    Bad,
    Warning,
}

/// Text in its colour, if there are any.
pub(crate) fn paint(context: &Context, style: Style, text: &str) -> String {
    if text.is_empty() || !context.uses_colors() {
        return text.to_owned();
    }
    let code = match style {
        Style::Id | Style::Warning => "33",
        Style::Faint => "2",
        Style::Good => "32",
        Style::Bad => "31",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// How many lines of a kind are shown unless somebody wants all.
const SHOWN: usize = 20;

/// Prints a title and lines below it; nothing without lines.
pub(crate) fn print_section(
    title: &str,
    lines: impl IntoIterator<Item = String>,
    context: &Context,
) {
    let lines: Vec<String> = lines.into_iter().collect();
    if lines.is_empty() {
        return;
    }
    let shown = if context.globals.verbose { lines.len() } else { SHOWN };
    println!("{title}:");
    lines.iter().take(shown).for_each(|line| println!("  {line}"));
    if lines.len() > shown {
        println!("  … and {} more (-v shows all)", lines.len() - shown);
    }
}

/// Says what became of a restore that was cut off.
pub(crate) fn report_recovery(recovery: &Recovery) {
    let (what, left) = match recovery {
        Recovery::Finished(left) => ("was interrupted and is finished now", left),
        Recovery::Reverted(left) => ("was interrupted and is taken back now", left),
        Recovery::Failed(error) => {
            let error = disarm(&failure::chain(error));
            eprintln!("warning: an interrupted restore could not be finished: {error}");
            return;
        }
    };
    eprintln!("note: a restore {what}");
    left.iter().for_each(|path| eprintln!("  left as it is, because it changed meanwhile: {path}"));
}

/// Asks a person whether to go on with what was just shown.
pub(crate) fn go_on() -> Result<(), Failure> {
    match is_agreed("Go on?") {
        true => Ok(()),
        false => Err(Failure::new("nothing was changed")),
    }
}

/// Asks a person.
pub(crate) fn is_agreed(question: &str) -> bool {
    eprint!("{question} [y/N] ");
    let _ = io::stderr().flush();
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

/// `1 file`, `2 files`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Why a path is not covered, in words.
pub(crate) fn reason(uncovered: &Uncovered) -> String {
    match &uncovered.reason {
        Reason::TooLarge { size } => format!("too large ({})", bytes(*size)),
        Reason::Excluded => "excluded".into(),
        Reason::Ignored => "ignored".into(),
        Reason::Unreadable { error } => format!("unreadable: {error}"),
        Reason::Special => "a socket, pipe or device".into(),
        Reason::Changing => "kept changing".into(),
        Reason::Private => "private".into(),
        Reason::Nested => "a nested repository, of which only a link was kept".into(),
    }
}

pub(crate) fn bytes(size: u64) -> String {
    match size {
        0..1_000 => format!("{size} B"),
        1_000..1_000_000 => format!("{:.1} kB", size as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", size as f64 / 1e6),
        _ => format!("{:.1} GB", size as f64 / 1e9),
    }
}

/// Shows on a terminal how far something is, if it takes longer than a second.
pub(crate) struct Bar {
    what: &'static str,
    noun: &'static str,
    start: Instant,
    /// When something was last shown, and how long it was.
    shown: Mutex<(Instant, usize)>,
    is_terminal: bool,
}

impl Bar {
    pub(crate) fn new(what: &'static str, noun: &'static str) -> Bar {
        let start = Instant::now();
        let shown = Mutex::new((start, 0));
        Bar { what, noun, start, shown, is_terminal: io::stderr().is_terminal() }
    }

    /// So many are done, of so many if that is known.
    pub(crate) fn step(&self, done: u64, total: Option<u64>) {
        if !self.is_terminal || self.start.elapsed() < Duration::from_secs(1) {
            return;
        }
        let Ok(mut shown) = self.shown.try_lock() else { return };
        if shown.0.elapsed() > Duration::from_millis(100) {
            let of = total.map_or(String::new(), |total| format!(" of {total}"));
            let line = format!("{}: {done}{of} {} ", self.what, self.noun);
            *shown = (Instant::now(), line.chars().count());
            eprint!("\r{line}");
            let _ = io::stderr().flush();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        let width = self.shown.get_mut().map_or(0, |shown| shown.1);
        if width > 0 {
            eprint!("\r{}\r", " ".repeat(width));
        }
    }
}

/// Says on a terminal what is going on, if it takes longer than a second.
pub(crate) struct Progress {
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    pub(crate) fn new(what: &str) -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress { done: None, thread: None };
        }
        let (done, wait) = mpsc::channel();
        let what = disarm(what);
        let thread = thread::spawn(move || {
            let mut seconds = 0;
            while wait.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                seconds += 1;
                eprint!("\r{what} … {seconds} s");
            }
            if seconds > 0 {
                eprint!("\r{}\r", " ".repeat(what.chars().count() + 12));
            }
        });
        Progress { done: Some(done), thread: Some(thread) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.done.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
