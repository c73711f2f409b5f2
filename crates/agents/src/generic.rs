//! Our own format, for agents that are not in the table.

use serde_json::Value;
use takeback_undo::TurnId;

use crate::parse::Told;
use crate::spec::Signal;
use crate::wire::Object;

pub(crate) fn read(wire: &Object, signal: Signal) -> Option<Told> {
    let outcome = wire.value("outcome");
    Some(Told {
        agent: wire.name("agent"),
        session: Some(wire.text("session").unwrap_or_else(|| "default".to_owned())),
        parent: wire.text("parent"),
        turn: match wire.value("turn") {
            Some(Value::Number(number)) if number.is_i64() => number.as_i64().map(TurnId::Number),
            _ => wire.text("turn").map(TurnId::Name),
        },
        directory: wire.string("cwd"),
        model: wire.text("model"),
        prompt: (signal == Signal::TurnStart).then(|| wire.text("prompt").unwrap_or_default()),
        call: wire.name("call"),
        tool: wire.text("tool"),
        input: wire.value("input"),
        outcome: outcome.map(|outcome| wire.text("outcome").unwrap_or_else(|| outcome.to_string())),
        ..Told::default()
    })
}
