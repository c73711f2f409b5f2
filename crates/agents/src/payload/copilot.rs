//! Copilot CLI hook payloads.

use serde_json::Value;

use super::{HookPayload, JsonObject};
use crate::agent::Signal;
use crate::call_outcome;

/// Reads a Copilot CLI payload.
pub(crate) fn read_payload(object: &JsonObject, signal: Signal) -> Option<HookPayload> {
    Some(HookPayload {
        session: object.nonempty_text("sessionId"),
        directory: object.string("cwd"),
        prompt: object.text("prompt"),
        tool: object.text("toolName"),
        // Some versions send an object, others a string that contains one.
        input: object.unpacked_value("toolArgs"),
        outcome: match signal {
            Signal::ToolFailed => Some(call_outcome::failure(error_message(object).as_deref())),
            Signal::AfterTool => {
                object.object("toolResult").and_then(|result| read_outcome(&result))
            }
            _ => None,
        },
        ..HookPayload::default()
    })
}

fn error_message(object: &JsonObject) -> Option<String> {
    match object.value("error")? {
        Value::String(text) => Some(text),
        error => error.get("message")?.as_str().map(str::to_owned),
    }
}

fn read_outcome(result: &JsonObject) -> Option<String> {
    let text = result.string("textResultForLlm");
    match result.string("resultType")?.as_str() {
        "success" => {
            let code = text.as_deref().and_then(call_outcome::find_exit_code);
            Some(code.map_or_else(call_outcome::success, call_outcome::from_exit_code))
        }
        _ => Some(call_outcome::failure(text.as_deref())),
    }
}
