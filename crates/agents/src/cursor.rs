//! The payloads of Cursor, as its documentation has them.

use serde_json::{Value, json};
use takeback_undo::TurnId;

use crate::outcome;
use crate::parse::Told;
use crate::spec::Signal;
use crate::wire::Object;

pub(crate) fn read(wire: &Object, signal: Signal) -> Option<Told> {
    // Older versions report shell commands and edits in events of their own.
    let old = match (wire.value("command"), wire.value("file_path")) {
        (Some(command), _) => Some(("Shell", json!({ "command": command }))),
        (None, Some(path)) => Some(("Write", json!({ "file_path": path }))),
        (None, None) => None,
    };
    let (tool, input): (Option<String>, Option<Value>) = match (wire.text("tool_name"), old) {
        (None, Some((tool, input))) => (Some(tool.to_owned()), Some(input)),
        (tool, _) => (tool, wire.unpacked("tool_input")),
    };
    let directory = wire.name("cwd").or_else(|| wire.first("workspace_roots"));
    Some(Told {
        session: wire.name("conversation_id").or_else(|| wire.name("session_id")),
        turn: wire.name("generation_id").map(TurnId::Name),
        directory,
        model: wire.name("model"),
        prompt: wire.text("prompt"),
        call: wire.name("tool_use_id"),
        tool,
        input,
        outcome: match signal {
            Signal::ToolFailed => Some(outcome::error(wire.string("error_message").as_deref())),
            Signal::AfterTool => Some(outcome::ok()),
            _ => None,
        },
        ..Told::default()
    })
}
