//! What our plugins inside opencode and pi send: the agent's own data, and `cwd`. Pi's has no name
//! of the session in it, so the plugin adds `session`.

use serde_json::Value;
use takeback_undo::TurnId;

use crate::outcome;
use crate::parse::Told;
use crate::spec::Signal;
use crate::wire::Object;

pub(crate) fn opencode(wire: &Object, signal: Signal) -> Option<Told> {
    let input = wire.object("input").unwrap_or_default();
    let output = wire.object("output").unwrap_or_default();
    let properties = wire.object("properties").unwrap_or_default();
    let session = input.name("sessionID").or_else(|| properties.name("sessionID"));
    let directory = wire.string("cwd");
    match signal {
        Signal::SessionStart | Signal::SessionEnd => {
            let information = properties.object("info").unwrap_or_default();
            Some(Told {
                session: session.or_else(|| information.name("id")),
                parent: information.name("parentID"),
                directory: directory.or_else(|| information.string("directory")),
                ..Told::default()
            })
        }
        Signal::TurnStart => {
            let message = output.object("message").unwrap_or_default();
            let model = message.object("model").unwrap_or_default();
            Some(Told {
                session,
                turn: message.name("id").map(TurnId::Name),
                directory,
                model: model.name("modelID"),
                prompt: Some(said(&output)?),
                ..Told::default()
            })
        }
        _ => Some(Told {
            session,
            directory,
            call: input.name("callID"),
            tool: input.text("tool"),
            // Before a call they are there, after it here.
            input: output.value("args").or_else(|| input.value("args")),
            // What failed is not reported.
            outcome: (signal == Signal::AfterTool).then(|| {
                let metadata = output.value("metadata").unwrap_or_default();
                metadata["exit"].as_i64().map_or_else(outcome::ok, outcome::of_code)
            }),
            ..Told::default()
        }),
    }
}

/// What the user said. Nothing if opencode itself said it in their name, to go on with a turn.
fn said(output: &Object) -> Option<String> {
    let parts = output.value("parts").unwrap_or_default();
    let parts = parts.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_own = |part: &&Value| part["synthetic"] != true;
    if !parts.is_empty() && parts.iter().filter(is_own).count() == 0 {
        return None;
    }
    let texts = parts.iter().filter(is_own).filter(|part| part["type"] == "text");
    Some(texts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"))
}

pub(crate) fn pi(wire: &Object, signal: Signal) -> Option<Told> {
    Some(Told {
        session: wire.name("session"),
        directory: wire.string("cwd"),
        model: wire.name("model"),
        prompt: wire.text("prompt"),
        call: wire.name("toolCallId"),
        tool: wire.text("toolName"),
        input: wire.value("input"),
        outcome: match (signal, wire.flag("isError")) {
            (Signal::AfterTool, Some(is_error)) => Some(outcome::of(!is_error)),
            _ => None,
        },
        ..Told::default()
    })
}
