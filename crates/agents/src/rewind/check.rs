//! Compares a copy with the messages to keep, by reading the copy in the same way as any other log.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;

use serde_json::Value;
use takeback_base::durable;
use takeback_ledger::{LogFact, LogPage, MessageRecord};

use super::{Copy, RewindError, RewindRequest};
use crate::logs::{LogFormat, LogRef};

/// Writes the content of a copy to a temporary file in takeback's own directory, and reads it as a
/// log. Returns the pages if they have exactly the messages to keep.
pub(super) fn check_content(
    format: &LogFormat,
    copy: &Copy,
    request: &RewindRequest<'_>,
) -> Result<Vec<LogPage>, RewindError> {
    let name = copy.log.file_name().unwrap_or_default();
    let mut pages = read_content(format, &copy.content, &request.own_directory.join(name))?;
    check_pages(&pages, request.kept, &copy.origins)?;
    for page in &mut pages {
        page.to.log = copy.log.display().to_string();
    }
    Ok(pages)
}

/// Writes the content of a log to a temporary file next to a path, and reads the file as a log.
pub(super) fn read_content(
    format: &LogFormat,
    content: &[u8],
    beside: &Path,
) -> Result<Vec<LogPage>, RewindError> {
    let mut file = durable::with_directory(beside, || durable::Temporary::create_beside(beside))?;
    file.write_all(content)?;
    read_pages(format, &LogRef { path: file.path().to_owned(), session: None })
}

/// Fails unless the pages of a log have exactly the messages to keep, and every call in them has a
/// result.
pub(super) fn check_pages(
    pages: &[LogPage],
    kept: &BTreeSet<String>,
    origins: &BTreeMap<String, String>,
) -> Result<(), RewindError> {
    if !has_exactly(pages, kept, origins) {
        return Err(RewindError::Differs);
    }
    if has_open_call(pages) {
        return Err(RewindError::OpenCall);
    }
    Ok(())
}

/// Returns true if the pages of a log have exactly these messages. `origins` maps ids in the log to
/// ids in the original, where the two differ.
pub(super) fn has_exactly(
    pages: &[LogPage],
    kept: &BTreeSet<String>,
    origins: &BTreeMap<String, String>,
) -> bool {
    let found: BTreeSet<String> =
        messages(pages).map(|(origin, _)| original_origin(origin, origins)).collect();
    found == *kept
}

/// Translates the id of an entry to its id in the original. An entry may have parts, whose ids
/// begin with the id of the entry.
fn original_origin(origin: &str, origins: &BTreeMap<String, String>) -> String {
    let (entry, part) = origin.split_at(origin.find('/').unwrap_or(origin.len()));
    match origins.get(entry) {
        Some(old) => format!("{old}{part}"),
        None => origin.to_owned(),
    }
}

/// Reads all pages of a log.
pub(crate) fn read_pages(format: &LogFormat, log: &LogRef) -> Result<Vec<LogPage>, RewindError> {
    let mut pages: Vec<LogPage> = Vec::new();
    loop {
        let read = format.read_page(log, pages.last().map(|page| page.to.clone()))?;
        if !read.bad_lines.is_empty() {
            return Err(RewindError::UnknownFormat("a line is not JSON"));
        }
        pages.push(read.page);
        if !read.has_more {
            return Ok(pages);
        }
    }
}

/// Returns true if every message in the pages of a log is among the given ones.
pub(super) fn has_only(
    pages: &[LogPage],
    known: &BTreeSet<&str>,
    origins: &BTreeMap<String, String>,
) -> bool {
    messages(pages).all(|(origin, _)| known.contains(&*original_origin(origin, origins)))
}

/// Counts the entries of a log that are messages.
pub(crate) fn count_messages(pages: &[LogPage]) -> usize {
    messages(pages).map(|(origin, _)| origin).collect::<BTreeSet<_>>().len()
}

/// Lists the messages of a conversation. Leaves out the messages of subagents, which are also in
/// the logs of some agents but belong to separate sessions.
fn messages(pages: &[LogPage]) -> impl Iterator<Item = (&str, &MessageRecord)> {
    let entries = pages.iter().flat_map(|page| &page.entries);
    entries.filter(|entry| !entry.session.contains('/')).filter_map(|entry| match &entry.fact {
        LogFact::Message(message) | LogFact::Summary(message) => {
            Some((entry.origin.as_str(), &**message))
        }
        _ => None,
    })
}

/// Returns true if a call has no result.
fn has_open_call(pages: &[LogPage]) -> bool {
    let mut open = BTreeSet::new();
    for (_, message) in messages(pages) {
        let calls = message.tool_calls.as_ref().and_then(Value::as_array);
        for call in calls.into_iter().flatten() {
            open.extend(call["id"].as_str().map(str::to_owned));
        }
        if let Some(result) = &message.tool_call_id {
            open.remove(result);
        }
    }
    !open.is_empty()
}
