//! Goose hook payloads, according to Goose's documentation.

use super::{HookPayload, JsonObject};
use crate::agent::Signal;
use crate::call_outcome;

/// Reads a Goose payload.
pub(crate) fn read_payload(object: &JsonObject, signal: Signal) -> Option<HookPayload> {
    Some(HookPayload {
        session: object.nonempty_text("session_id"),
        directory: object.string("working_dir"),
        prompt: object.text("message"),
        call: object.nonempty_text("tool_call_id"),
        tool: object.text("tool_name"),
        input: object.unpacked_value("tool_input"),
        outcome: match signal {
            Signal::ToolFailed => Some(call_outcome::failure(object.string("error").as_deref())),
            Signal::AfterTool => Some(call_outcome::success()),
            _ => None,
        },
        ..HookPayload::default()
    })
}
