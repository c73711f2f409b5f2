//! Claude Code and Qwen Code: each line names its parent, which is an earlier line. A log may
//! contain branches that the user abandoned in an earlier rewind, so only the chain that leads to
//! the last line to keep is copied.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};

use super::directory::{dashed_name, place_logs};
use super::lines::{Line, find_once, join_lines, parse_lines, with_fields};
use super::{Copy, Cut, RewindError};

/// Copies a Claude Code log.
pub(super) fn cut_claude(cut: &Cut<'_>) -> Result<Copy, RewindError> {
    let lines = parse_lines(cut.bytes)?;
    check_version(&lines, "2.")?;
    let (chain, keep) = find_chain(&lines, cut)?;
    let chain = with_parallel_parts(&lines, chain);
    let is_kept = |index: usize, line: &Line<'_>| {
        let is_snapshot = line.value["type"] == "file-history-snapshot";
        chain.contains(&index) || (is_snapshot && is_about(&line.value, &lines, &chain))
    };
    let mut copied = copy_lines(cut, &lines, is_kept)?;
    copied.push(
        json!({ "type": "last-prompt", "leafUuid": keep, "explicit": true, "sessionId": cut.new })
            .to_string(),
    );
    place_copy(cut, &lines, &copied, "")
}

/// Copies a Qwen Code log.
pub(super) fn cut_qwen(cut: &Cut<'_>) -> Result<Copy, RewindError> {
    let lines = parse_lines(cut.bytes)?;
    check_version(&lines, "0.")?;
    let (chain, _) = find_chain(&lines, cut)?;
    let copied = copy_lines(cut, &lines, |index, _| chain.contains(&index))?;
    place_copy(cut, &lines, &copied, "chats")
}

fn check_version(lines: &[Line<'_>], known: &str) -> Result<(), RewindError> {
    let mut versions = lines.iter().filter_map(|line| line.value["version"].as_str()).peekable();
    match versions.peek().is_some() && versions.all(|version| version.starts_with(known)) {
        true => Ok(()),
        false => Err(RewindError::UnknownFormat("an unknown version wrote it")),
    }
}

/// Finds the chain of lines that begins with the first line. The chain ends with the parent of the
/// anchor (the first line to leave out) or, without an anchor, with the last line to keep. Also
/// returns the id of the last line in the chain.
fn find_chain<'l>(
    lines: &'l [Line<'_>],
    cut: &Cut<'l>,
) -> Result<(BTreeSet<usize>, &'l str), RewindError> {
    let mut index_of: HashMap<&str, usize> = HashMap::new();
    for (index, line) in lines.iter().enumerate() {
        if let Some(uuid) = line.value["uuid"].as_str() {
            index_of.insert(uuid, index);
        }
    }
    let keep = match cut.anchor {
        Some(anchor) => {
            let anchor = find_once(lines, |line| line["uuid"] == anchor)?;
            parent_of(&lines[anchor].value).ok_or(RewindError::NoAnchor)?
        }
        None => cut.last,
    };
    let mut chain = BTreeSet::new();
    let mut next = Some(keep);
    while let Some(uuid) = next {
        let index = *index_of.get(uuid).ok_or(RewindError::UnknownFormat("a line is missing"))?;
        if !chain.insert(index) {
            return Err(RewindError::UnknownFormat("its lines form a cycle"));
        }
        next = parent_of(&lines[index].value);
    }
    Ok((chain, keep))
}

/// Returns the id of a line's parent. The parent of the first line after a compaction is among the
/// lines that were summarized.
fn parent_of(line: &Value) -> Option<&str> {
    line["parentUuid"].as_str().or_else(|| line["logicalParentUuid"].as_str())
}

/// Adds the other parts of responses with several calls, and the results of these calls. The chain
/// contains only one of these results: the one from which Claude Code continued.
fn with_parallel_parts(lines: &[Line<'_>], mut chain: BTreeSet<usize>) -> BTreeSet<usize> {
    let Some(end) = chain.last().copied() else { return chain };
    let responses: BTreeSet<String> =
        chain.iter().filter_map(|index| response_id(&lines[*index].value)).collect();
    let earlier = || lines.iter().enumerate().take(end);
    let parts: Vec<usize> = earlier()
        .filter(|(_, line)| response_id(&line.value).is_some_and(|id| responses.contains(&id)))
        .map(|(index, _)| index)
        .collect();
    chain.extend(parts);
    let uuids: BTreeSet<&str> =
        chain.iter().filter_map(|index| lines[*index].value["uuid"].as_str()).collect();
    let results: Vec<usize> = earlier()
        .filter(|(_, line)| line.value["type"] == "user" && is_result(&line.value))
        .filter(|(_, line)| parent_of(&line.value).is_some_and(|parent| uuids.contains(parent)))
        .map(|(index, _)| index)
        .collect();
    chain.extend(results);
    chain
}

fn response_id(line: &Value) -> Option<String> {
    let is_main = line["type"] == "assistant" && line["isSidechain"] != true;
    is_main.then(|| line["message"]["id"].as_str().map(str::to_owned))?
}

fn is_result(line: &Value) -> bool {
    let blocks = line["message"]["content"].as_array();
    blocks.is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "tool_result"))
}

/// Returns true if a snapshot of the file history belongs to a line that is kept.
fn is_about(record: &Value, lines: &[Line<'_>], chain: &BTreeSet<usize>) -> bool {
    chain.iter().any(|index| {
        let uuid = &lines[*index].value["uuid"];
        uuid.is_string() && *uuid == record["messageId"]
    })
}

fn copy_lines(
    cut: &Cut<'_>,
    lines: &[Line<'_>],
    is_kept: impl Fn(usize, &Line<'_>) -> bool,
) -> Result<Vec<String>, RewindError> {
    let kept = lines.iter().enumerate().filter(|(index, line)| is_kept(*index, line));
    kept.map(|(_, line)| copy_line(line, cut)).collect()
}

fn copy_line(line: &Line<'_>, cut: &Cut<'_>) -> Result<String, RewindError> {
    let mut changes = Vec::new();
    if line.value["sessionId"].is_string() {
        changes.push(("sessionId", json!(cut.new)));
    }
    if let (Some(moved), Some(directory)) = (cut.moved, line.value["cwd"].as_str()) {
        changes.push(("cwd", json!(moved.map(directory))));
    }
    match changes.is_empty() {
        true => Ok(line.text.to_owned()),
        false => with_fields(line.text, &changes),
    }
}

/// Places a copy next to the original or, for a new directory, among the logs of that directory.
/// `below` is the path of the subdirectory with the logs, relative to the project's directory; it
/// may be empty.
fn place_copy(
    cut: &Cut<'_>,
    lines: &[Line<'_>],
    copied: &[String],
    below: &str,
) -> Result<Copy, RewindError> {
    let levels = if below.is_empty() { 1 } else { 2 };
    let project = cut.path.ancestors().nth(levels).ok_or(RewindError::NoAnchor)?;
    let started_in = lines.iter().find_map(|line| line.value["cwd"].as_str());
    let logs = place_logs(cut, project, started_in, dashed_name)?.join(below);
    let path = logs.join(format!("{}.jsonl", cut.new));
    Ok(Copy::of_log(path, join_lines(copied.iter().map(String::as_str))))
}
