//! Cline: a document of messages, and a document about the session.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use takeback_base::foreign;

use super::{Copy, Cut, RewindError};

/// Copies a session, with the messages before the anchor that were not left out earlier.
pub(super) fn cut(cut: &Cut<'_>) -> Result<Copy, RewindError> {
    let malformed = |_| RewindError::UnknownFormat("it is not JSON");
    let mut document: Value = serde_json::from_slice(cut.bytes).map_err(malformed)?;
    if document["version"] != 1 || document["sessionId"] != cut.old {
        return Err(RewindError::UnknownFormat("it does not begin with its own session"));
    }
    let messages = document["messages"].as_array_mut().ok_or(RewindError::NoAnchor)?;
    let (kept, _) = split_messages(std::mem::take(messages), cut)?;
    *messages = kept;
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

/// Lists the ids of the messages that a copy leaves out.
pub(super) fn list_left_out(cut: &Cut<'_>) -> Result<Vec<String>, RewindError> {
    let malformed = |_| RewindError::UnknownFormat("it is not JSON");
    let mut document: Value = serde_json::from_slice(cut.bytes).map_err(malformed)?;
    let messages = document["messages"].as_array_mut().ok_or(RewindError::NoAnchor)?;
    let (_, left_out) = split_messages(std::mem::take(messages), cut)?;
    Ok(left_out.iter().filter_map(|message| message["id"].as_str().map(str::to_owned)).collect())
}

/// Splits the messages of a log into those to keep and those to leave out. A message that the
/// ledger does not have goes with the one before it.
fn split_messages(
    messages: Vec<Value>,
    cut: &Cut<'_>,
) -> Result<(Vec<Value>, Vec<Value>), RewindError> {
    let is_anchor = |message: &&Value| cut.anchor.is_some_and(|anchor| message["id"] == anchor);
    if messages.iter().filter(is_anchor).count() != usize::from(cut.anchor.is_some()) {
        return Err(RewindError::NoAnchor);
    }
    let end = messages.iter().position(|message| is_anchor(&message)).unwrap_or(messages.len());
    let (kept, undone) = (list_entries(cut.kept), list_entries(cut.undone));
    let mut is_left_out = false;
    let mut index = 0;
    Ok(messages.into_iter().partition(|message| {
        let id = message["id"].as_str().unwrap_or_default();
        is_left_out = undone.contains(id) || (is_left_out && !kept.contains(id));
        index += 1;
        index <= end && !is_left_out
    }))
}

/// Lists the entries of a log that these messages are in.
fn list_entries(origins: &BTreeSet<String>) -> BTreeSet<&str> {
    origins.iter().filter_map(|origin| origin.split('/').next()).collect()
}
