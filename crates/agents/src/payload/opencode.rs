//! opencode hook payloads: takeback's plugin sends opencode's own data and adds `cwd`.

use serde_json::Value;
use takeback_undo::TurnId;

use super::{HookPayload, JsonObject};
use crate::agent::Signal;
use crate::call_outcome;

/// Reads a payload that takeback's plugin for opencode sent.
pub(crate) fn read_payload(object: &JsonObject, signal: Signal) -> Option<HookPayload> {
    let input = object.object("input").unwrap_or_default();
    let output = object.object("output").unwrap_or_default();
    let properties = object.object("properties").unwrap_or_default();
    let session =
        input.nonempty_text("sessionID").or_else(|| properties.nonempty_text("sessionID"));
    let directory = object.string("cwd");
    match signal {
        Signal::SessionStart | Signal::SessionEnd => {
            let info = properties.object("info").unwrap_or_default();
            Some(HookPayload {
                session: session.or_else(|| info.nonempty_text("id")),
                parent: info.nonempty_text("parentID"),
                directory: directory.or_else(|| info.string("directory")),
                ..HookPayload::default()
            })
        }
        Signal::TurnStart => {
            let message = output.object("message").unwrap_or_default();
            let model = message.object("model").unwrap_or_default();
            Some(HookPayload {
                session,
                turn: message.nonempty_text("id").map(TurnId::Name),
                directory,
                model: model.nonempty_text("modelID"),
                prompt: Some(user_prompt(&output)?),
                ..HookPayload::default()
            })
        }
        _ => Some(HookPayload {
            session,
            directory,
            call: input.nonempty_text("callID"),
            tool: input.text("tool"),
            // The arguments are in `output` before a call and in `input` after it.
            input: output.value("args").or_else(|| input.value("args")),
            // opencode does not report failed calls.
            outcome: (signal == Signal::AfterTool).then(|| {
                let metadata = output.value("metadata").unwrap_or_default();
                let code = metadata["exit"].as_i64();
                code.map_or_else(call_outcome::success, call_outcome::from_exit_code)
            }),
            ..HookPayload::default()
        }),
    }
}

/// Returns the text that the user typed. Returns `None` if opencode generated the whole message on
/// the user's behalf, as it does to continue a turn.
fn user_prompt(output: &JsonObject) -> Option<String> {
    let parts = output.value("parts").unwrap_or_default();
    let parts = parts.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_typed = |part: &&Value| part["synthetic"] != true;
    if !parts.is_empty() && parts.iter().filter(is_typed).count() == 0 {
        return None;
    }
    let texts = parts.iter().filter(is_typed).filter(|part| part["type"] == "text");
    Some(texts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"))
}
