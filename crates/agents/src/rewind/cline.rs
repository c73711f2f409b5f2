//! Cline: a document of messages, and a document about the session.

use serde_json::{Value, json};
use takeback_base::foreign;

use super::{Copy, Cut, RewindError};

/// Copies a session, with the messages before the anchor.
pub(super) fn cut(cut: &Cut<'_>) -> Result<Copy, RewindError> {
    let malformed = |_| RewindError::UnknownFormat("it is not JSON");
    let mut document: Value = serde_json::from_slice(cut.bytes).map_err(malformed)?;
    if document["version"] != 1 || document["sessionId"] != cut.old {
        return Err(RewindError::UnknownFormat("its beginning does not name its session"));
    }
    let messages = document["messages"].as_array_mut().ok_or(RewindError::NoAnchor)?;
    if let Some(anchor) = cut.anchor {
        let mut found = messages.iter().enumerate().filter(|(_, message)| message["id"] == anchor);
        let (Some((end, _)), None) = (found.next(), found.next()) else {
            return Err(RewindError::NoAnchor);
        };
        messages.truncate(end);
    }
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
