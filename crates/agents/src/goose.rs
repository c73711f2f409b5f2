//! The payloads of Goose, as its documentation has them.

use crate::outcome;
use crate::parse::Told;
use crate::spec::Signal;
use crate::wire::Object;

pub(crate) fn read(wire: &Object, signal: Signal) -> Option<Told> {
    Some(Told {
        session: wire.name("session_id"),
        directory: wire.string("working_dir"),
        prompt: wire.text("message"),
        call: wire.name("tool_call_id"),
        tool: wire.text("tool_name"),
        input: wire.unpacked("tool_input"),
        outcome: match signal {
            Signal::ToolFailed => Some(outcome::error(wire.string("error").as_deref())),
            Signal::AfterTool => Some(outcome::ok()),
            _ => None,
        },
        ..Told::default()
    })
}
