//! The payloads of Cline.

use crate::outcome;
use crate::parse::Told;
use crate::spec::Signal;
use crate::wire::Object;

pub(crate) fn read(wire: &Object, signal: Signal) -> Option<Told> {
    let context = wire.object("sessionContext").unwrap_or_default();
    let information = wire.object("workspaceInfo").unwrap_or_default();
    let root = || information.name("rootPath");
    let is_child = wire.name("parent_agent_id").is_some();
    // The command-line tool and the editor's extension tell the same under different names.
    let (call, plain) = match signal {
        Signal::BeforeTool => (wire.object("tool_call"), wire.object("preToolUse")),
        Signal::AfterTool => (wire.object("tool_result"), wire.object("postToolUse")),
        _ => (None, None),
    };
    let (call, plain) = (call.unwrap_or_default(), plain.unwrap_or_default());
    let prompt = wire.object("userPromptSubmit").and_then(|submitted| submitted.text("prompt"));
    Some(Told {
        session: context.name("rootSessionId").or_else(|| wire.name("taskId")),
        child: is_child.then(|| wire.name("agent_id")).flatten(),
        // There is no current directory.
        directory: wire.first("workspaceRoots").or_else(root),
        prompt,
        call: call.name("id"),
        tool: call.text("name").or_else(|| plain.text("toolName")),
        input: call.value("input").or_else(|| plain.unpacked("parameters")),
        outcome: (signal == Signal::AfterTool).then(|| outcome_of(&call, &plain)).flatten(),
        ..Told::default()
    })
}

fn outcome_of(result: &Object, plain: &Object) -> Option<String> {
    match result.value("error") {
        Some(error) => Some(outcome::error(error.get("message").unwrap_or(&error).as_str())),
        None => plain.flag("success").map(outcome::of),
    }
}
