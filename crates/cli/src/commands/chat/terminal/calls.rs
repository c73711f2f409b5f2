//! Tool calls as lines: one line that says what a call does, and its output while it runs.

use serde_json::Value;
use takeback_runtime::model::RequestedCall;
use takeback_runtime::tools::ToolOutput;

use super::keep_end;
use crate::output::{
    Style, count, disarm, disarm_lines, join_lines, last_lines, paint, shorten, width_of,
};

/// The maximum number of output lines that are shown for a running call.
const OUTPUT_LINES: usize = 5;

/// The number of bytes at the end of a running call's output that are kept for display.
const OUTPUT_KEPT: usize = 1 << 10;

/// The names of the inputs that describe a call best, the best one first.
const TELLING: [&str; 8] =
    ["command", "path", "pattern", "url", "prompt", "task", "query", "process"];

/// A call that has not ended.
pub(super) struct RunningCall {
    pub(super) id: String,
    title: String,
    /// The last part of the call's output.
    output: String,
}

impl RunningCall {
    pub(super) fn new(call: &RequestedCall, subagent: Option<usize>) -> RunningCall {
        let subagent = subagent.map(|number| format!("[{number}] ")).unwrap_or_default();
        let title = format!("{subagent}{}", title_of(call));
        RunningCall { id: call.id.clone(), title, output: String::new() }
    }

    pub(super) fn add_output(&mut self, text: &str) {
        self.output.push_str(text);
        let length = self.output.len();
        keep_end(&mut self.output, OUTPUT_KEPT);
        // Drop whole lines only: if a control sequence were cut in two, its second half would look
        // like text.
        if self.output.len() < length
            && let Some(end) = self.output.find('\n')
        {
            self.output.drain(..=end);
        }
    }

    /// Returns the lines that are shown while the call runs.
    pub(super) fn live_lines(&self, columns: usize) -> Vec<String> {
        let title = shorten(&self.title, columns.saturating_sub(2));
        let mut lines = vec![format!("{} {title}", paint(Style::Faint, "…"))];
        let plain = anstream::adapter::strip_str(&self.output).to_string();
        // A progress bar overwrites its line, so only the text after the last carriage return is
        // shown.
        let plain: Vec<&str> =
            plain.split('\n').map(|line| line.trim_end_matches('\r')).map(after_return).collect();
        let text = disarm_lines(plain.join("\n").trim_end());
        let output = last_lines(&text, columns.saturating_sub(2), OUTPUT_LINES);
        lines.extend(output.iter().map(|line| paint(Style::Faint, &format!("  {line}"))));
        lines
    }

    /// Returns the line for a call that has ended.
    pub(super) fn ended_line(&self, output: &ToolOutput, columns: usize) -> String {
        let text = output.text.trim();
        match (output.is_error, text.lines().count()) {
            (true, _) => {
                let first = text.lines().next().unwrap_or_default();
                self.line(Style::Bad, "✗", &disarm(first), columns)
            }
            (false, 0) => self.line(Style::Good, "✓", "", columns),
            (false, 1) => self.line(Style::Good, "✓", &disarm(text), columns),
            (false, lines) => self.line(Style::Good, "✓", &count(lines, "line"), columns),
        }
    }

    /// Returns the line for a call that did not end, because the turn was stopped.
    pub(super) fn stopped_line(&self, columns: usize) -> String {
        self.line(Style::Warning, "–", "stopped", columns)
    }

    /// Returns one line: the mark, the title, and the outcome if there is room for it.
    fn line(&self, style: Style, mark: &str, outcome: &str, columns: usize) -> String {
        let room = columns.saturating_sub(2);
        let title = shorten(&self.title, room);
        let left = room.saturating_sub(width_of(&title) + 2);
        let outcome = match outcome {
            "" => String::new(),
            // An outcome that is cut off after a word or two would be of no use.
            _ if left < 8 => String::new(),
            outcome => format!("  {}", paint(Style::Faint, &shorten(outcome, left))),
        };
        format!("{} {title}{outcome}", paint(style, mark))
    }
}

/// Returns the text after the last carriage return in a line.
fn after_return(line: &str) -> &str {
    line.rsplit('\r').next().unwrap_or(line)
}

/// Describes a call in one line: its tool, and the input that describes the call best.
fn title_of(call: &RequestedCall) -> String {
    let input: Value = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
    let named = TELLING.iter().find_map(|key| input.get(key)?.as_str());
    let any = || input.as_object()?.values().find_map(Value::as_str);
    let telling = match (named.or_else(any), &input) {
        (Some(text), _) => text,
        (None, Value::Object(_)) => "",
        // The arguments are not valid JSON.
        (None, _) => &call.arguments,
    };
    disarm(join_lines(&format!("{} {telling}", call.name)).trim_end())
}
