//! Gemini CLI: a log that only grows. A copy can be anywhere, because Gemini takes its path. It is
//! kept with takeback's own files: Gemini deletes logs that it takes for empty.

use serde_json::{Value, json};

use super::lines::{join_lines, parse_lines, with_fields};
use super::{Copy, Cut, RewindError};

/// Copies a log up to a message.
pub(super) fn cut(cut: &Cut<'_>) -> Result<Copy, RewindError> {
    let lines = parse_lines(cut.bytes)?;
    let header = lines.first().ok_or(RewindError::UnknownFormat("it is empty"))?;
    if header.value["sessionId"] != cut.old || !header.value["projectHash"].is_string() {
        return Err(RewindError::UnknownFormat("it does not begin with its own session"));
    }
    // A resumed session lists its messages again, so the first line that has the message counts.
    let names_anchor = |line: &Value| {
        let listed = line["$set"]["messages"].as_array();
        listed.is_some_and(|listed| listed.iter().any(|message| message["id"] == cut.anchor))
    };
    let is_anchor = |line: &Value| line["id"] == cut.anchor;
    let end = lines
        .iter()
        .position(|line| is_anchor(&line.value) || names_anchor(&line.value))
        .filter(|end| is_anchor(&lines[*end].value))
        .ok_or(RewindError::NoAnchor)?;
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
