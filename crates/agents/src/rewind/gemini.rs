//! Gemini CLI: a log that only grows. A copy can be in any directory, because Gemini CLI can open a
//! log by its path. takeback keeps the copy with its own files, because Gemini CLI deletes logs
//! that it considers empty.
//!
//! A running Gemini CLI can load conversations that were saved with `/chat save`, so takeback also
//! writes the copy as such a saved conversation.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::lines::{Line, join_lines, parse_lines, with_fields};
use super::{Copy, Cut, RewindError};
use crate::logs::{PROJECT_ROOT, find_project_root};

/// Copies a log up to a message.
pub(super) fn cut(cut: &Cut<'_>) -> Result<Copy, RewindError> {
    let lines = parse_lines(cut.bytes)?;
    let header = lines.first().ok_or(RewindError::UnknownFormat("it is empty"))?;
    if header.value["sessionId"] != cut.old || !header.value["projectHash"].is_string() {
        return Err(RewindError::UnknownFormat("its beginning does not name the session"));
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
    let own = cut.own_directory.join(cut.new);
    let path = own.join(format!("{}.jsonl", cut.new));
    let mut copy = Copy::of_log(path, join_lines(copied.iter().map(String::as_str)));
    if let Some(directory) = find_project_root(cut.path) {
        let directory = cut.moved.map_or(directory.clone(), |moved| moved.map(&directory));
        copy.others.push((own.join(PROJECT_ROOT), directory.into_bytes()));
    }
    if let Some(saved) = place_saved_chat(cut) {
        let chat = json!({ "history": list_contents(&replay(&lines[1..end])) });
        copy.others.push((saved, format!("{chat:#}").into_bytes()));
    }
    Ok(copy)
}

/// Finds the line that adds a message. A resumed session lists its messages again, so only the
/// first line that mentions the message counts.
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

/// Returns the name under which a running Gemini CLI finds a copy.
fn saved_chat_name(session: &str) -> String {
    let start = session.len().saturating_sub(6);
    format!("takeback-{}", session.get(start..).unwrap_or(session))
}

/// Returns the path of the saved chat among the files of the project. A copy for another directory
/// has no saved chat, because Gemini CLI is not running there.
fn place_saved_chat(cut: &Cut<'_>) -> Option<PathBuf> {
    let chats = cut.path.parent().filter(|chats| chats.ends_with("chats"))?;
    let name = format!("checkpoint-{}.json", saved_chat_name(cut.new));
    cut.moved.is_none().then(|| chats.with_file_name(name))
}

/// Finds the saved chat of a copy, and returns its name. `projects` is the directory with the
/// files of all projects.
pub(super) fn find_saved_chat(session: &str, projects: &Path) -> Option<String> {
    let name = saved_chat_name(session);
    let file = format!("checkpoint-{name}.json");
    let mut all = fs::read_dir(projects).ok()?.flatten();
    all.any(|project| project.path().join(&file).is_file()).then_some(name)
}

/// Lists the messages that result from the lines of a log, by Gemini's own rules.
fn replay<'l>(lines: &'l [Line<'_>]) -> Vec<&'l Value> {
    let mut messages: Vec<&Value> = Vec::new();
    for Line { value: line, .. } in lines {
        let find = |id: &Value| messages.iter().position(|known| known["id"] == *id);
        if let Some(all) = line["$set"]["messages"].as_array() {
            messages = all.iter().collect();
        } else if line["$rewindTo"].is_string() {
            messages.truncate(find(&line["$rewindTo"]).unwrap_or(0));
        } else if line["id"].is_string() {
            match find(&line["id"]) {
                Some(known) => messages[known] = line,
                None => messages.push(line),
            }
        }
    }
    messages
}

/// Converts messages to the form in which they are sent to the model.
fn list_contents(messages: &[&Value]) -> Vec<Value> {
    let mut contents = Vec::new();
    // Gemini logs a result in the message of the call, in a separate message, and again when it
    // resumes the session.
    let mut answered = BTreeSet::new();
    let mut is_new = |part: &Value| match part["functionResponse"]["id"].as_str() {
        Some(id) => answered.insert(id.to_owned()),
        None => true,
    };
    for message in messages {
        let role = match message["type"].as_str() {
            Some("user") => "user",
            Some("gemini") => "model",
            _ => continue,
        };
        let mut parts = list_parts(&message["content"]);
        let calls = message["toolCalls"].as_array().map(Vec::as_slice).unwrap_or_default();
        if !parts.iter().any(|part| part["functionCall"].is_object()) {
            parts.extend(calls.iter().map(|call| {
                let (id, name, input) = (&call["id"], &call["name"], &call["args"]);
                json!({ "functionCall": { "id": id, "name": name, "args": input } })
            }));
        }
        let results = calls.iter().flat_map(|call| list_parts(&call["result"])).collect();
        for (role, mut parts) in [(role, parts), ("user", results)] {
            parts.retain(&mut is_new);
            if !parts.is_empty() {
                contents.push(json!({ "role": role, "parts": parts }));
            }
        }
    }
    contents
}

fn list_parts(content: &Value) -> Vec<Value> {
    match content {
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![json!({ "text": text })],
        Value::Object(_) => vec![content.clone()],
        Value::Array(parts) => parts.iter().flat_map(list_parts).collect(),
        _ => Vec::new(),
    }
}
