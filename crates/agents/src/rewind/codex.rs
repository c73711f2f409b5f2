//! Codex: a log that only grows, with the id of the session in its name.

use serde_json::Value;

use super::lines::{Line, find_once, join_lines, parse_lines};
use super::{Copy, Cut, RewindError};

/// Copies a log up to the beginning of a turn, or up to a line inside of it.
pub(super) fn cut(cut: &Cut<'_>) -> Result<Copy, RewindError> {
    let lines = parse_lines(cut.bytes)?;
    let header = &lines.first().ok_or(RewindError::UnknownFormat("it is empty"))?.value;
    let meta = &header["payload"];
    let is_known = header["type"] == "session_meta" && meta["id"] == cut.old;
    if !is_known || !meta["history_base"].is_null() {
        return Err(RewindError::UnknownFormat("it does not begin with its own session"));
    }
    let anchor = find_anchor(&lines, cut)?;
    let end = match cut.is_prompt {
        true => find_turn_start(&lines, anchor)?,
        false => anchor,
    };
    // Ids have the same length, so the positions of all lines stay as they are.
    let text: Vec<String> =
        lines[..end].iter().map(|line| line.text.replace(cut.old, cut.new)).collect();
    let name = cut.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !name.contains(cut.old) || cut.old.len() != cut.new.len() {
        return Err(RewindError::UnknownFormat("its name does not contain its id"));
    }
    let path = cut.path.with_file_name(name.replace(cut.old, cut.new));
    Ok(Copy::of_log(path, join_lines(text.iter().map(String::as_str))))
}

/// Finds the line of the first message to leave out, by its number or by its position.
fn find_anchor(lines: &[Line<'_>], cut: &Cut<'_>) -> Result<usize, RewindError> {
    if let Some(number) = cut.anchor.strip_prefix('#') {
        let number: u64 = number.parse().map_err(|_| RewindError::NoAnchor)?;
        return find_once(lines, |line| line["ordinal"] == number);
    }
    let offset = cut.anchor.strip_prefix('@').and_then(|offset| offset.parse::<usize>().ok());
    let begins_at = |line: &Line<'_>| {
        let start = line.text.as_ptr() as usize - cut.bytes.as_ptr() as usize;
        Some(start) == offset
    };
    lines.iter().position(begins_at).ok_or(RewindError::NoAnchor)
}

/// Finds the line with which the turn of a prompt begins.
fn find_turn_start(lines: &[Line<'_>], prompt: usize) -> Result<usize, RewindError> {
    let is_start = |line: &Value| line["payload"]["type"] == "task_started";
    let is_end = |line: &Value| line["payload"]["type"] == "task_complete";
    let before =
        lines[..prompt].iter().rposition(|line| is_start(&line.value) || is_end(&line.value));
    before.filter(|index| is_start(&lines[*index].value)).ok_or(RewindError::NoAnchor)
}
