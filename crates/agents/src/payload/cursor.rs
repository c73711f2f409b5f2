//! Cursor hook payloads, according to Cursor's documentation.

use serde_json::{Value, json};
use takeback_undo::TurnId;

use super::{HookPayload, JsonObject};
use crate::agent::Signal;
use crate::call_outcome;

/// Reads a Cursor payload.
pub(crate) fn read_payload(object: &JsonObject, signal: Signal) -> Option<HookPayload> {
    let (tool, input) = read_call(object);
    let directory = object.nonempty_text("cwd").or_else(|| object.first_string("workspace_roots"));
    Some(HookPayload {
        session: object
            .nonempty_text("conversation_id")
            .or_else(|| object.nonempty_text("session_id")),
        turn: object.nonempty_text("generation_id").map(TurnId::Name),
        directory,
        model: object.nonempty_text("model"),
        prompt: object.text("prompt"),
        call: object.nonempty_text("tool_use_id"),
        tool,
        input,
        outcome: match signal {
            Signal::ToolFailed => {
                Some(call_outcome::failure(object.string("error_message").as_deref()))
            }
            Signal::AfterTool => Some(call_outcome::success()),
            _ => None,
        },
        ..HookPayload::default()
    })
}

/// Reads the tool and its input. Older Cursor versions do not name the tool, but have separate
/// events for shell commands and edits.
fn read_call(object: &JsonObject) -> (Option<String>, Option<Value>) {
    let old_event = match (object.value("command"), object.value("file_path")) {
        (Some(command), _) => Some(("Shell", json!({ "command": command }))),
        (None, Some(path)) => Some(("Write", json!({ "file_path": path }))),
        (None, None) => None,
    };
    match (object.text("tool_name"), old_event) {
        (None, Some((tool, input))) => (Some(tool.to_owned()), Some(input)),
        (tool, _) => (tool, object.unpacked_value("tool_input")),
    }
}
