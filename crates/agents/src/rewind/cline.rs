//! Cline: a document of messages, and a document about the session.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use takeback_base::{foreign, hex};

use super::{Copy, Cut, RewindError};

/// Copies a session up to the anchor, the first message to leave out. Messages that were taken back
/// earlier are not copied either.
pub(super) fn cut(cut: &Cut<'_>) -> Result<Copy, RewindError> {
    let malformed = |_| RewindError::UnknownFormat("it is not JSON");
    let mut document: Value = serde_json::from_slice(cut.bytes).map_err(malformed)?;
    if document["version"] != 1 || document["sessionId"] != cut.old {
        return Err(RewindError::UnknownFormat("its beginning does not name the session"));
    }
    let messages = document["messages"].as_array_mut().ok_or(RewindError::NoAnchor)?;
    let mut left_out = mark_left_out(messages, cut)?.into_iter();
    messages.retain(|_| left_out.next() == Some(false));
    document["sessionId"] = json!(cut.new);
    document["origin"]["sessionId"] = json!(cut.new);
    let directory = cut.path.parent().ok_or(RewindError::NoAnchor)?;
    let about = directory.join(format!("{}.json", cut.old));
    let about = foreign::read_regular(&about, foreign::MAX_TEXT)?;
    let mut about: Value = serde_json::from_slice(&about).map_err(malformed)?;
    let directory = directory.with_file_name(cut.new);
    let log = directory.join(format!("{}.messages.json", cut.new));
    about["session_id"] = json!(cut.new);
    about["messages_path"] = json!(log.display().to_string());
    if let Some(moved) = cut.moved {
        for name in ["cwd", "workspace_root"] {
            moved.map_value(&mut about[name]);
        }
    }
    let write = |value: &Value| serde_json::to_vec_pretty(value).map_err(malformed);
    let mut copy = Copy::of_log(log, write(&document)?);
    copy.others.push((directory.join(format!("{}.json", cut.new)), write(&about)?));
    Ok(copy)
}

/// A part of a message. takeback's plugin recognizes the messages in a request by their parts,
/// because Cline sends messages without their ids.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct MessagePart {
    /// The id of a call, or a digest of the text.
    part: String,
    /// True if the plugin has to leave the message out.
    pub(crate) hidden: bool,
}

/// Lists the parts of all messages in a log.
pub(super) fn list_parts(cut: &Cut<'_>) -> Result<Vec<MessagePart>, RewindError> {
    let malformed = |_| RewindError::UnknownFormat("it is not JSON");
    let document: Value = serde_json::from_slice(cut.bytes).map_err(malformed)?;
    let messages = document["messages"].as_array().ok_or(RewindError::NoAnchor)?;
    let left_out = mark_left_out(messages, cut)?;
    let parts = messages.iter().zip(left_out).flat_map(|(message, hidden)| {
        name_parts(message).into_iter().map(move |part| MessagePart { part, hidden })
    });
    Ok(parts.collect())
}

/// Names the parts of a message: its calls and results or, if it has none, its text.
fn name_parts(message: &Value) -> Vec<String> {
    let whole = json!([{ "type": "text", "text": message["content"] }]);
    let blocks = message["content"].as_array().or(whole.as_array()).into_iter().flatten();
    let (mut calls, mut text) = (Vec::new(), String::new());
    for block in blocks {
        let field = |name: &str| block[name].as_str().unwrap_or_default();
        match field("type") {
            "tool_use" => calls.push(format!("call:{}", field("id"))),
            "tool_result" => calls.push(format!("result:{}", field("tool_use_id"))),
            "text" => text.push_str(field("text")),
            _ => {}
        }
    }
    if calls.is_empty() && !text.trim().is_empty() {
        let role = message["role"].as_str().unwrap_or_default();
        calls.push(format!("{role}:{}", hex::encode(&Sha256::digest(text.trim().as_bytes()))));
    }
    calls
}

/// Marks the messages of a log that a copy leaves out. A message that the ledger does not have is
/// treated like the message before it.
fn mark_left_out(messages: &[Value], cut: &Cut<'_>) -> Result<Vec<bool>, RewindError> {
    let is_anchor = |message: &Value| cut.anchor.is_some_and(|anchor| message["id"] == anchor);
    let anchors = messages.iter().filter(|message| is_anchor(message)).count();
    if anchors != usize::from(cut.anchor.is_some()) {
        return Err(RewindError::NoAnchor);
    }
    let (kept, undone) = (list_entries(cut.kept), list_entries(cut.undone));
    let (mut is_undone, mut is_after) = (false, false);
    let mark = |message: &Value| {
        let id = message["id"].as_str().unwrap_or_default();
        is_undone = undone.contains(id) || (is_undone && !kept.contains(id));
        is_after |= is_anchor(message);
        is_undone || is_after
    };
    Ok(messages.iter().map(mark).collect())
}

/// Lists the entries of a log that contain these messages.
fn list_entries(origins: &BTreeSet<String>) -> BTreeSet<&str> {
    origins.iter().filter_map(|origin| origin.split('/').next()).collect()
}
