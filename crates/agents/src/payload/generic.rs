//! Hook payloads in takeback's own format, for agents that are not in the table.

use serde_json::Value;
use takeback_undo::TurnId;

use super::{HookPayload, JsonObject};
use crate::agent::Signal;

/// Reads a payload in takeback's own format.
pub(crate) fn read_payload(object: &JsonObject, signal: Signal) -> Option<HookPayload> {
    let outcome = object.value("outcome");
    Some(HookPayload {
        agent: object.nonempty_text("agent"),
        session: Some(object.text("session").unwrap_or_else(|| "default".to_owned())),
        parent: object.text("parent"),
        turn: match object.value("turn") {
            Some(Value::Number(number)) if number.is_i64() => number.as_i64().map(TurnId::Number),
            _ => object.text("turn").map(TurnId::Name),
        },
        directory: object.string("cwd"),
        model: object.text("model"),
        prompt: (signal == Signal::TurnStart).then(|| object.text("prompt").unwrap_or_default()),
        call: object.nonempty_text("call"),
        tool: object.text("tool"),
        input: object.value("input"),
        outcome: outcome
            .map(|outcome| object.text("outcome").unwrap_or_else(|| outcome.to_string())),
        ..HookPayload::default()
    })
}
