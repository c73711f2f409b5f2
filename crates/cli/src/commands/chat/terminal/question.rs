//! Questions about tool calls.

use std::io::{self, IsTerminal};

use rustix::process::Signal;
use rustix::termios::QueueSelector;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{Config, Editor};
use serde_json::Value;
use takeback_runtime::{Answer, Question};

use crate::output::{Style, disarm, disarm_lines, paint, wrap_text};

/// The maximum number of lines of an input that are shown. Commands are shown in full.
const INPUT_LINES: usize = 10;

/// The result of asking the user.
pub(super) enum Asked {
    Text(String),
    /// The user pressed Ctrl-C.
    Interrupted,
    /// There is no user, or the terminal is closed.
    NoUser,
}

/// Describes the call and the reason for asking. A command is shown as a whole, so that the user
/// sees everything that would run.
pub(super) fn describe_question(question: &Question<'_>, columns: usize) -> Vec<String> {
    let call = question.call;
    let mut lines = vec![format!(
        "{} {}",
        paint(Style::Warning, "?"),
        paint(Style::Label, &disarm(&call.name))
    )];
    let room = columns.saturating_sub(2);
    match serde_json::from_str(&call.arguments) {
        Ok(Value::Object(inputs)) => {
            for (key, value) in &inputs {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let all = key == "command";
                lines.extend(describe_input(key, &text, all, room));
            }
        }
        _ => lines.extend(describe_input("arguments", &call.arguments, true, room)),
    }
    lines.extend(wrap_text(&disarm(&format!("because it {}", question.because)), room));
    lines[1..].iter_mut().for_each(|line| *line = format!("  {line}"));
    lines
}

fn describe_input(key: &str, text: &str, all: bool, columns: usize) -> Vec<String> {
    let mut lines = wrap_text(&disarm_lines(&format!("{key}: {text}")), columns);
    let hidden = lines.len().saturating_sub(INPUT_LINES);
    if hidden > 0 && !all {
        lines.truncate(INPUT_LINES);
        lines.push(format!("… ({hidden} more lines)"));
    }
    lines
}

/// Returns the line on which the user types the answer.
pub(super) fn prompt_of(question: &Question<'_>) -> String {
    let always = question.remember.map(|prefix| format!("  [a]lways for \"{}\"", disarm(prefix)));
    format!("  [y]es{}  [N]o, or what to do instead: ", always.unwrap_or_default())
}

/// Interprets the user's answer. Returns `None` if the user has to be asked again.
pub(super) fn parse_answer(asked: Asked, question: &Question<'_>) -> Option<Answer> {
    let text = match asked {
        Asked::Text(text) => text,
        Asked::Interrupted | Asked::NoUser => return Some(Answer::Later),
    };
    match text.trim().to_lowercase().as_str() {
        "y" | "yes" => Some(Answer::Allow),
        "a" | "always" => question.remember.map(|_| Answer::AllowAlways),
        "" | "n" | "no" => Some(Answer::Deny("the user said no".to_owned())),
        _ => Some(Answer::Deny(format!("the user said: {}", text.trim()))),
    }
}

/// Asks on the terminal.
pub(super) fn ask_on_terminal(prompt: &str) -> Asked {
    let stdin = io::stdin();
    if !stdin.is_terminal() || !io::stdout().is_terminal() {
        return Asked::NoUser;
    }
    // Keys that were pressed before the question appeared are not an answer to it.
    let _ = rustix::termios::tcflush(&stdin, QueueSelector::IFlush);
    let history = MemHistory::new();
    let Ok(mut editor) = Editor::<(), _>::with_history(Config::default(), history) else {
        return Asked::NoUser;
    };
    match editor.readline(prompt) {
        Ok(text) => Asked::Text(text),
        Err(ReadlineError::Interrupted) => {
            // Here, Ctrl-C arrives as an ordinary key press. Everywhere else in a turn, it causes a
            // signal that stops the turn.
            let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::INT);
            Asked::Interrupted
        }
        Err(_) => Asked::NoUser,
    }
}
