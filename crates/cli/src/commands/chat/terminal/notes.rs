//! Lines about a turn: retries, warnings, its end, and what it cost.

use std::time::Duration;

use takeback_ledger::Tokens;
use takeback_runtime::{TurnEvent, TurnOutcome};

use crate::output::{Style, disarm, paint, wrap_text};

/// Describes an event that is neither text nor a call.
pub(super) fn note_of(event: &TurnEvent<'_>, columns: usize) -> Vec<String> {
    let (style, text) = match event {
        TurnEvent::Retrying { because, wait } => {
            let wait = format_wait(*wait);
            (Style::Warning, format!("{because}; trying again in {wait} (Ctrl-C stops)"))
        }
        TurnEvent::Continuing { because } => {
            (Style::Warning, format!("{because}; asking for the rest of the answer"))
        }
        TurnEvent::FailedOver { because, provider } => {
            (Style::Warning, format!("{because}; {provider} takes over"))
        }
        TurnEvent::Compressed { session } => (
            Style::Faint,
            format!("Older turns were summarized; the conversation continues as {session}"),
        ),
        TurnEvent::Warning(text) => (Style::Warning, format!("warning: {text}")),
        _ => return Vec::new(),
    };
    paint_lines(style, &text, columns)
}

/// Describes the end of a turn: its tokens, its cost and, unless the turn is complete, its outcome.
pub(super) fn describe_end(
    outcome: &TurnOutcome,
    tokens: Tokens,
    cost: Option<f64>,
    columns: usize,
) -> Vec<String> {
    let (style, text) = match outcome {
        TurnOutcome::Complete => (Style::Faint, String::new()),
        TurnOutcome::Partial { because } => {
            (Style::Warning, format!("The answer is incomplete: {because}"))
        }
        TurnOutcome::Failed { because, .. } => (Style::Bad, format!("The turn failed: {because}")),
        TurnOutcome::Cancelled => (Style::Warning, "Stopped.".to_owned()),
        TurnOutcome::Blocked { because } => {
            (Style::Warning, format!("The turn is waiting for you: {because}"))
        }
    };
    let mut lines = paint_lines(style, &text, columns);
    lines.extend(paint_lines(Style::Faint, &foot(tokens, cost), columns));
    lines
}

fn paint_lines(style: Style, text: &str, columns: usize) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    wrap_text(&disarm(text), columns).iter().map(|line| paint(style, line)).collect()
}

/// Lists the tokens and the cost: `12,345 tokens in (10,000 cached), 678 out · $0.0123`.
fn foot(tokens: Tokens, cost: Option<f64>) -> String {
    let Tokens { input, output, cache_read, cache_write, reasoning } = tokens;
    let (sent, received) = (input + cache_read + cache_write, output + reasoning);
    if sent == 0 && received == 0 {
        return String::new();
    }
    let cached = match cache_read {
        0 => String::new(),
        cached => format!(" ({} cached)", group_digits(cached)),
    };
    let cost = cost.map(|cost| format!(" · {}", format_cost(cost))).unwrap_or_default();
    format!("{} tokens in{cached}, {} out{cost}", group_digits(sent), group_digits(received))
}

/// Formats a number of tokens: `12,345`.
fn group_digits(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if number < 0 { format!("-{grouped}") } else { grouped }
}

/// Formats US dollars, with more digits for small amounts.
fn format_cost(cost: f64) -> String {
    if cost >= 1.0 { format!("${cost:.2}") } else { format!("${cost:.4}") }
}

fn format_wait(wait: Duration) -> String {
    match wait.as_secs_f64() {
        seconds if seconds < 10.0 => format!("{seconds:.1} s"),
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds => format!("{:.0} min", seconds / 60.0),
    }
}
