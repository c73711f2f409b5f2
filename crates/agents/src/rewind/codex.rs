//! Codex: a log that only grows, with the id of the session in its name.

use std::collections::BTreeMap;

use serde_json::Value;

use super::codex_history::read_whole_log;
use super::lines::{Line, find_once, join_lines, parse_lines, with_fields};
use super::{Copy, Cut, RewindError};
use crate::logs::codex_generation;

/// Copies a log up to the beginning of a turn, or up to a line inside a turn. If the log continues
/// other logs, their content becomes part of the copy.
pub(super) fn cut(cut: &Cut<'_>) -> Result<Copy, RewindError> {
    match read_whole_log(cut.path, cut.bytes)? {
        None => cut_log(cut, BTreeMap::new()),
        Some(whole) => cut_log(&Cut { bytes: &whole.content, ..*cut }, whole.origins),
    }
}

/// Copies a log that does not continue another one. `known` maps ids in the log to the ids in the
/// ledger, where these differ.
fn cut_log(cut: &Cut<'_>, known: BTreeMap<String, String>) -> Result<Copy, RewindError> {
    let lines = parse_lines(cut.bytes)?;
    let header = &lines.first().ok_or(RewindError::UnknownFormat("it is empty"))?.value;
    if header["type"] != "session_meta" || header["payload"]["id"] != cut.old {
        return Err(RewindError::UnknownFormat("its beginning does not name the session"));
    }
    let end = match cut.anchor {
        None => lines.len(),
        Some(anchor) => match (find_anchor(&lines, cut, to_own_id(anchor, &known))?, cut.is_prompt)
        {
            (anchor, true) => find_turn_start(&lines, anchor)?,
            (anchor, false) => anchor,
        },
    };
    let text =
        lines[..end].iter().map(|line| copy_line(line, cut)).collect::<Result<Vec<_>, _>>()?;
    let path = cut.path.with_file_name(name_copy(cut)?);
    let mut origins = match_offsets(&lines[..end], &text, cut);
    origins.extend(known);
    Ok(Copy { origins, ..Copy::of_log(path, join_lines(text.iter().map(String::as_str))) })
}

/// Finds the id of the turn that begins with the anchor, which must be a prompt.
pub(super) fn find_turn(cut: &Cut<'_>) -> Result<String, RewindError> {
    let whole = read_whole_log(cut.path, cut.bytes)?;
    let (bytes, known) = match &whole {
        None => (cut.bytes, BTreeMap::new()),
        Some(whole) => (&whole.content[..], whole.origins.clone()),
    };
    let lines = parse_lines(bytes)?;
    let anchor = cut.anchor.filter(|_| cut.is_prompt).ok_or(RewindError::NoAnchor)?;
    let cut = &Cut { bytes, ..*cut };
    let anchor = find_anchor(&lines, cut, to_own_id(anchor, &known))?;
    let start = &lines[find_turn_start(&lines, anchor)?].value;
    start["payload"]["turn_id"].as_str().map(str::to_owned).ok_or(RewindError::NoAnchor)
}

/// Translates the ledger's id for an entry to the entry's id in the log.
fn to_own_id<'a>(id: &'a str, known: &'a BTreeMap<String, String>) -> &'a str {
    known.iter().find(|(_, ledgers)| *ledgers == id).map_or(id, |(own, _)| own)
}

/// Returns the name for the log of a copy.
fn name_copy(cut: &Cut<'_>) -> Result<String, RewindError> {
    let name = cut.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !name.contains(cut.old) || cut.old.len() != cut.new.len() {
        return Err(RewindError::UnknownFormat("its name does not contain its id"));
    }
    let name = match codex_generation(cut.path, cut.old) {
        Some(generation) => name.replace(&format!("_{generation}"), ""),
        None => name.to_owned(),
    };
    Ok(name.replace(cut.old, cut.new))
}

/// Copies a line with the new id and, for a new directory, the new paths. Both ids have the same
/// length, so lines move to other positions only if the directory changes.
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

/// For lines that are identified by their position and have moved, maps the new positions to the
/// old ones.
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

/// Finds the line that begins the turn of a prompt. This line comes before the prompt.
fn find_turn_start(lines: &[Line<'_>], prompt: usize) -> Result<usize, RewindError> {
    let is_start = |line: &Value| line["payload"]["type"] == "task_started";
    let is_end = |line: &Value| line["payload"]["type"] == "task_complete";
    let before =
        lines[..prompt].iter().rposition(|line| is_start(&line.value) || is_end(&line.value));
    before.filter(|index| is_start(&lines[*index].value)).ok_or(RewindError::NoAnchor)
}
