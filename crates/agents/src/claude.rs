//! The payloads of Claude Code, and of those that took them over: Codex, Qwen Code, Droid and
//! Gemini CLI.

use takeback_undo::TurnId;

use crate::outcome;
use crate::parse::Told;
use crate::spec::Signal;
use crate::wire::Object;

/// Claude Code: a prompt's name is that of its turn.
pub(crate) fn claude(wire: &Object, signal: Signal) -> Option<Told> {
    Some(Told { turn: wire.name("prompt_id").map(TurnId::Name), ..told(wire, signal) })
}

/// Codex names turns.
pub(crate) fn codex(wire: &Object, signal: Signal) -> Option<Told> {
    Some(Told { turn: wire.name("turn_id").map(TurnId::Name), ..told(wire, signal) })
}

/// Qwen Code says after each tool that the user said nothing. Its names of prompts are numbers
/// that begin again when a session goes on, so they are no names of turns.
pub(crate) fn qwen(wire: &Object, signal: Signal) -> Option<Told> {
    let told = told(wire, signal);
    let is_blank = told.prompt.as_deref().unwrap_or_default().trim().is_empty();
    (signal != Signal::TurnStart || !is_blank).then_some(told)
}

/// Droid and Gemini CLI name neither turns nor calls.
pub(crate) fn nameless(wire: &Object, signal: Signal) -> Option<Told> {
    Some(told(wire, signal))
}

fn told(wire: &Object, signal: Signal) -> Told {
    Told {
        session: wire.name("session_id"),
        // Calls of subagents come with the session of whoever handed out the work.
        child: wire.name("agent_id"),
        directory: wire.string("cwd"),
        model: wire.name("model"),
        prompt: wire.text("prompt"),
        command: wire.name("command_name"),
        arguments: wire.text("command_args"),
        call: wire.name("tool_use_id"),
        tool: wire.text("tool_name"),
        input: wire.unpacked("tool_input"),
        outcome: match signal {
            Signal::ToolFailed => Some(outcome::error(wire.string("error").as_deref())),
            Signal::AfterTool => {
                wire.value("tool_response").and_then(|response| outcome::of_response(&response))
            }
            _ => None,
        },
        ..Told::default()
    }
}
