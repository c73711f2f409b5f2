//! Gemini CLI: a log that only grows. A copy can be anywhere, because Gemini takes its path. It is
//! kept with takeback's own files: Gemini deletes logs that it takes for empty.

use serde_json::{Value, json};

use super::lines::{Line, join_lines, parse_lines, with_fields};
use super::{Copy, Cut, RewindError};

/// Copies a log up to a message.
pub(super) fn cut(cut: &Cut<'_>) -> Result<Copy, RewindError> {
    let lines = parse_lines(cut.bytes)?;
    let header = lines.first().ok_or(RewindError::UnknownFormat("it is empty"))?;
    if header.value["sessionId"] != cut.old || !header.value["projectHash"].is_string() {
        return Err(RewindError::UnknownFormat("it does not begin with its own session"));
    }
    let end = match cut.anchor {
        Some(anchor) => find_message(&lines, anchor)?,
        None => lines.len(),
    };
    let mut copied = Vec::new();
    for line in &lines[..end] {
        copied.push(match line.value["sessionId"].as_str() {
            Some(_) => with_fields(line.text, &[("sessionId", json!(cut.new))])?,
            None => line.text.to_owned(),
        });
    }
    let path = cut.own_directory.join(format!("{}.jsonl", cut.new));
    Ok(Copy::of_log(path, join_lines(copied.iter().map(String::as_str))))
}

/// Finds the line that adds a message. A resumed session lists its messages again, so the first
/// line that has the message counts.
fn find_message(lines: &[Line<'_>], id: &str) -> Result<usize, RewindError> {
    let lists_it = |line: &Value| {
        let listed = line["$set"]["messages"].as_array();
        listed.is_some_and(|listed| listed.iter().any(|message| message["id"] == id))
    };
    let adds_it = |line: &Value| line["id"] == id;
    lines
        .iter()
        .position(|line| adds_it(&line.value) || lists_it(&line.value))
        .filter(|found| adds_it(&lines[*found].value))
        .ok_or(RewindError::NoAnchor)
}
