//! Logs with one JSON object per line.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::{Cut, RewindError};

/// A line of a log.
pub(super) struct Line<'a> {
    pub(super) text: &'a str,
    pub(super) value: Value,
}

impl Line<'_> {
    /// Returns the position of the line in the log that it was parsed from.
    pub(super) fn offset_in(&self, log: &[u8]) -> usize {
        self.text.as_ptr() as usize - log.as_ptr() as usize
    }
}

/// Parses all complete lines. A line at the end that is still being written is left out.
pub(super) fn parse_lines(bytes: &[u8]) -> Result<Vec<Line<'_>>, RewindError> {
    let text = std::str::from_utf8(bytes).map_err(|_| RewindError::UnknownFormat("not UTF-8"))?;
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = complete.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|text| {
            let value = serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
            let value = value.ok_or(RewindError::UnknownFormat("a line is not an object"))?;
            Ok(Line { text, value })
        })
        .collect()
}

/// Returns the first line, if it is a header of a known version that names the session.
pub(super) fn find_header<'l, 't>(
    lines: &'l [Line<'t>],
    cut: &Cut<'_>,
    kind: &str,
    version: u64,
) -> Result<&'l Line<'t>, RewindError> {
    let header = lines.first().ok_or(RewindError::UnknownFormat("it is empty"))?;
    let value = &header.value;
    match value["type"] == kind && value["version"] == version && value["id"] == cut.old {
        true => Ok(header),
        false => Err(RewindError::UnknownFormat("its beginning does not name the session")),
    }
}

/// Returns the header of a copy: the header of the original with the new id and, for a new
/// directory, the new path.
pub(super) fn copy_header(header: &Line<'_>, cut: &Cut<'_>) -> Result<String, RewindError> {
    let mut changes = vec![("id", Value::from(cut.new))];
    if let Some(moved) = cut.moved {
        let mut directory = header.value["cwd"].clone();
        moved.map_value(&mut directory);
        changes.push(("cwd", directory));
    }
    with_fields(header.text, &changes)
}

/// Finds the first line to leave out, or the end of the log if nothing is left out.
pub(super) fn find_end(lines: &[Line<'_>], cut: &Cut<'_>) -> Result<usize, RewindError> {
    match cut.anchor {
        Some(anchor) => find_once(lines, |line| line["id"] == anchor),
        None => Ok(lines.len()),
    }
}

/// Finds the line for which a condition is true. Fails unless there is exactly one.
pub(super) fn find_once(
    lines: &[Line<'_>],
    is_it: impl Fn(&Value) -> bool,
) -> Result<usize, RewindError> {
    let mut found = lines.iter().enumerate().filter(|(_, line)| is_it(&line.value));
    match (found.next(), found.next()) {
        (Some((index, _)), None) => Ok(index),
        _ => Err(RewindError::NoAnchor),
    }
}

/// Writes an object with some fields changed. All other values keep their exact text.
pub(super) fn with_fields(text: &str, changes: &[(&str, Value)]) -> Result<String, RewindError> {
    let malformed = |_| RewindError::UnknownFormat("a line is not an object");
    let mut fields: BTreeMap<&str, Box<RawValue>> =
        serde_json::from_str(text).map_err(malformed)?;
    for (name, value) in changes {
        fields.insert(name, to_raw_value(value).map_err(malformed)?);
    }
    serde_json::to_string(&fields).map_err(malformed)
}

/// Joins lines, each with a line ending.
pub(super) fn join_lines<'l>(lines: impl IntoIterator<Item = &'l str>) -> Vec<u8> {
    let mut out = Vec::new();
    for line in lines {
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }
    out
}
