//! Droid: a log that only grows. Reminders to the model come before the prompt that they belong to.

use serde_json::{Value, json};

use super::lines::{Line, find_once, join_lines, parse_lines, with_fields};
use super::{Copy, Cut, RewindError};

/// Copies a log up to a message.
pub(super) fn cut(cut: &Cut<'_>) -> Result<Copy, RewindError> {
    let lines = parse_lines(cut.bytes)?;
    let header = lines.first().ok_or(RewindError::UnknownFormat("it is empty"))?;
    let is_known = header.value["type"] == "session_start" && header.value["version"] == 2;
    if !is_known || header.value["id"] != cut.old {
        return Err(RewindError::UnknownFormat("it does not begin with its own session"));
    }
    let anchor = find_once(&lines, |line| line["id"] == cut.anchor)?;
    let end = lines[..anchor].iter().rposition(is_said).map_or(1, |last| last + 1);
    let mut copied = vec![with_fields(header.text, &[("id", json!(cut.new))])?];
    copied.extend(lines[1..end.max(1)].iter().map(|line| line.text.to_owned()));
    let path = cut.path.with_file_name(format!("{}.jsonl", cut.new));
    Ok(Copy::of_log(path, join_lines(copied.iter().map(String::as_str))))
}

/// Returns true if a line is neither a reminder nor the output of a hook.
fn is_said(line: &Line<'_>) -> bool {
    let message: &Value = &line.value["message"];
    let is_shown = message["visibility"].as_str().is_none_or(|who| who == "both");
    let is_context = line.value["id"].as_str().is_some_and(|id| id.starts_with("context-"));
    line.value["type"] != "message" || (is_shown && !is_context)
}
