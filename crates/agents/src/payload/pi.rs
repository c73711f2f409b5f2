//! pi hook payloads: takeback's plugin sends pi's own data and adds `cwd`, `session` and `model`.

use super::{HookPayload, JsonObject};
use crate::agent::Signal;
use crate::call_outcome;

/// Reads a payload that takeback's plugin for pi sent.
pub(crate) fn read_payload(object: &JsonObject, signal: Signal) -> Option<HookPayload> {
    Some(HookPayload {
        session: object.nonempty_text("session"),
        directory: object.string("cwd"),
        model: object.nonempty_text("model"),
        prompt: object.text("prompt"),
        call: object.nonempty_text("toolCallId"),
        tool: object.text("toolName"),
        input: object.value("input"),
        outcome: match (signal, object.flag("isError")) {
            (Signal::AfterTool, Some(is_error)) => Some(call_outcome::from_success(!is_error)),
            _ => None,
        },
        ..HookPayload::default()
    })
}
