//! Claude Code hook payloads. Codex, Gemini CLI, Qwen Code and Droid use the same field names.

use takeback_undo::TurnId;

use super::{HookPayload, JsonObject};
use crate::agent::Signal;
use crate::call_outcome;

/// Reads a Claude Code payload. The id of a prompt is also the id of its turn.
pub(crate) fn read_payload(object: &JsonObject, signal: Signal) -> Option<HookPayload> {
    let turn = object.nonempty_text("prompt_id").map(TurnId::Name);
    Some(HookPayload { turn, ..read_shared_fields(object, signal) })
}

/// Reads the fields that Claude Code and the agents that use its payload format have in common.
pub(super) fn read_shared_fields(object: &JsonObject, signal: Signal) -> HookPayload {
    HookPayload {
        session: object.nonempty_text("session_id"),
        // A subagent's calls carry the session id of its parent.
        child: object.nonempty_text("agent_id"),
        directory: object.string("cwd"),
        model: object.nonempty_text("model"),
        prompt: object.text("prompt"),
        command: object.nonempty_text("command_name"),
        arguments: object.text("command_args"),
        call: object.nonempty_text("tool_use_id"),
        tool: object.text("tool_name"),
        input: object.unpacked_value("tool_input"),
        outcome: match signal {
            Signal::ToolFailed => Some(call_outcome::failure(object.string("error").as_deref())),
            Signal::AfterTool => object
                .value("tool_response")
                .and_then(|response| call_outcome::from_response(&response)),
            _ => None,
        },
        ..HookPayload::default()
    }
}
