//! Text for terminals: nothing from a name or a reason may act as a command.

use std::io::IsTerminal;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::Serialize;
use takeback_tree::{Reason, Uncovered};

/// Text whose control and reordering characters are written out.
pub(crate) fn disarm(text: &str) -> String {
    let is_bidi = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_bidi(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// The first characters of a text.
pub(crate) fn shorten(text: &str, length: usize) -> String {
    match text.char_indices().nth(length) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

pub(crate) fn print_json(value: &impl Serialize) {
    println!("{}", serde_json::to_string_pretty(value).expect("plain data becomes JSON"));
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
