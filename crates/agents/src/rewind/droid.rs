//! Droid: a log that only grows. Reminders to the model come before the prompt that they belong to.

use serde_json::Value;

use super::directory::place_logs;
use super::lines::{Line, copy_header, find_end, find_header, join_lines, parse_lines};
use super::{Copy, Cut, RewindError};

/// Copies a log up to a message.
pub(super) fn cut(cut: &Cut<'_>) -> Result<Copy, RewindError> {
    let lines = parse_lines(cut.bytes)?;
    let header = find_header(&lines, cut, "session_start", 2)?;
    let end = match cut.anchor {
        None => lines.len(),
        Some(_) => {
            let anchor = find_end(&lines, cut)?;
            lines[..anchor].iter().rposition(is_said).map_or(1, |last| last + 1)
        }
    };
    let mut copied = vec![copy_header(header, cut)?];
    copied.extend(lines[1..end.max(1)].iter().map(|line| line.text.to_owned()));
    let logs = cut.path.parent().ok_or(RewindError::NoAnchor)?;
    let logs = place_logs(cut, logs, header.value["cwd"].as_str(), directory_name)?;
    let path = logs.join(format!("{}.jsonl", cut.new));
    Ok(Copy::of_log(path, join_lines(copied.iter().map(String::as_str))))
}

/// Returns the name that Droid gives to the directory with the logs of a project.
fn directory_name(path: &str) -> String {
    path.replace('/', "-")
}

/// Returns true if a line is neither a reminder nor the output of a hook.
fn is_said(line: &Line<'_>) -> bool {
    let message: &Value = &line.value["message"];
    let is_shown = message["visibility"].as_str().is_none_or(|who| who == "both");
    let is_context = line.value["id"].as_str().is_some_and(|id| id.starts_with("context-"));
    line.value["type"] != "message" || (is_shown && !is_context)
}
