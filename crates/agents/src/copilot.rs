//! The payloads of Copilot CLI.

use serde_json::Value;

use crate::outcome;
use crate::parse::Told;
use crate::spec::Signal;
use crate::wire::Object;

pub(crate) fn read(wire: &Object, signal: Signal) -> Option<Told> {
    Some(Told {
        session: wire.name("sessionId"),
        directory: wire.string("cwd"),
        prompt: wire.text("prompt"),
        tool: wire.text("toolName"),
        // An object, or one in a text.
        input: wire.unpacked("toolArgs"),
        outcome: match signal {
            Signal::ToolFailed => Some(outcome::error(error_of(wire).as_deref())),
            Signal::AfterTool => wire.object("toolResult").and_then(|result| of_result(&result)),
            _ => None,
        },
        ..Told::default()
    })
}

fn error_of(wire: &Object) -> Option<String> {
    match wire.value("error")? {
        Value::String(text) => Some(text),
        error => error.get("message")?.as_str().map(str::to_owned),
    }
}

fn of_result(result: &Object) -> Option<String> {
    let text = result.string("textResultForLlm");
    match result.string("resultType")?.as_str() {
        "success" => {
            let code = text.as_deref().and_then(outcome::exit_code);
            Some(code.map_or_else(outcome::ok, outcome::of_code))
        }
        _ => Some(outcome::error(text.as_deref())),
    }
}
