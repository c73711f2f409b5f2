//! Codex: a log that only grows, with the id of the session in its name.

use std::collections::BTreeMap;

use serde_json::Value;

use super::lines::{Line, find_once, join_lines, parse_lines, with_fields};
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
    let end = match cut.anchor {
        None => lines.len(),
        Some(anchor) => match (find_anchor(&lines, cut, anchor)?, cut.is_prompt) {
            (anchor, true) => find_turn_start(&lines, anchor)?,
            (anchor, false) => anchor,
        },
    };
    let text =
        lines[..end].iter().map(|line| copy_line(line, cut)).collect::<Result<Vec<_>, _>>()?;
    let name = cut.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !name.contains(cut.old) || cut.old.len() != cut.new.len() {
        return Err(RewindError::UnknownFormat("its name does not contain its id"));
    }
    let path = cut.path.with_file_name(name.replace(cut.old, cut.new));
    let origins = match_offsets(&lines[..end], &text, cut);
    Ok(Copy { origins, ..Copy::of_log(path, join_lines(text.iter().map(String::as_str))) })
}

/// Copies a line with the new id and, in a new directory, the new paths. Ids have the same length,
/// so the positions of all lines stay as they are unless the directory changes.
fn copy_line(line: &Line<'_>, cut: &Cut<'_>) -> Result<String, RewindError> {
    let text = line.text.replace(cut.old, cut.new);
    let names_directory =
        line.value["type"] == "session_meta" || line.value["type"] == "turn_context";
    let Some(moved) = cut.moved.filter(|_| names_directory) else { return Ok(text) };
    let malformed = |_| RewindError::UnknownFormat("a line is not an object");
    let mut value: Value = serde_json::from_str(&text).map_err(malformed)?;
    for name in ["cwd", "runtime_workspace_roots", "workspace_roots"] {
        if let Some(directory) = value["payload"].get_mut(name) {
            moved.map_value(directory);
        }
    }
    with_fields(&text, &[("payload", value["payload"].take())])
}

/// Finds the old position of each line, for lines that are identified by their positions.
fn match_offsets(lines: &[Line<'_>], copied: &[String], cut: &Cut<'_>) -> BTreeMap<String, String> {
    let mut origins = BTreeMap::new();
    let mut offset = 0;
    for (line, copied) in lines.iter().zip(copied) {
        let old = line.offset_in(cut.bytes);
        if line.value["ordinal"].is_null() && old != offset {
            origins.insert(format!("@{offset}"), format!("@{old}"));
        }
        offset += copied.len() + 1;
    }
    origins
}

/// Finds the line of the first message to leave out, by its number or by its position.
fn find_anchor(lines: &[Line<'_>], cut: &Cut<'_>, anchor: &str) -> Result<usize, RewindError> {
    if let Some(number) = anchor.strip_prefix('#') {
        let number: u64 = number.parse().map_err(|_| RewindError::NoAnchor)?;
        return find_once(lines, |line| line["ordinal"] == number);
    }
    let offset = anchor.strip_prefix('@').and_then(|offset| offset.parse::<usize>().ok());
    let begins_at = |line: &Line<'_>| Some(line.offset_in(cut.bytes)) == offset;
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
