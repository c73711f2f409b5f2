//! Cline hook payloads.

use super::{HookPayload, JsonObject};
use crate::agent::Signal;
use crate::call_outcome;

/// Reads a Cline payload.
pub(crate) fn read_payload(object: &JsonObject, signal: Signal) -> Option<HookPayload> {
    let context = object.object("sessionContext").unwrap_or_default();
    let workspace = object.object("workspaceInfo").unwrap_or_default();
    let is_child = object.nonempty_text("parent_agent_id").is_some();
    // The command-line program and the editor extension use different names for the same fields.
    let (call, extension_call) = match signal {
        Signal::BeforeTool => (object.object("tool_call"), object.object("preToolUse")),
        Signal::AfterTool => (object.object("tool_result"), object.object("postToolUse")),
        _ => (None, None),
    };
    let (call, extension_call) = (call.unwrap_or_default(), extension_call.unwrap_or_default());
    let prompt = object.object("userPromptSubmit").and_then(|submitted| submitted.text("prompt"));
    Some(HookPayload {
        session: context.nonempty_text("rootSessionId").or_else(|| object.nonempty_text("taskId")),
        child: is_child.then(|| object.nonempty_text("agent_id")).flatten(),
        // Cline does not report its current directory.
        directory: object
            .first_string("workspaceRoots")
            .or_else(|| workspace.nonempty_text("rootPath")),
        prompt,
        call: call.nonempty_text("id"),
        tool: call.text("name").or_else(|| extension_call.text("toolName")),
        input: call.value("input").or_else(|| extension_call.unpacked_value("parameters")),
        outcome: (signal == Signal::AfterTool)
            .then(|| read_outcome(&call, &extension_call))
            .flatten(),
        ..HookPayload::default()
    })
}

fn read_outcome(result: &JsonObject, extension_result: &JsonObject) -> Option<String> {
    match result.value("error") {
        Some(error) => Some(call_outcome::failure(error.get("message").unwrap_or(&error).as_str())),
        None => extension_result.flag("success").map(call_outcome::from_success),
    }
}
