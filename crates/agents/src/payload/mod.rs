//! Parsing the JSON that an agent passes to its hook. One file per agent reads that agent's fields.

pub(crate) mod claude;
pub(crate) mod cline;
pub(crate) mod codex;
pub(crate) mod copilot;
pub(crate) mod cursor;
pub(crate) mod droid;
pub(crate) mod gemini;
pub(crate) mod generic;
pub(crate) mod goose;
pub(crate) mod json_object;
pub(crate) mod opencode;
pub(crate) mod pi;
pub(crate) mod qwen;
mod tool_work;

use std::path::{Path, PathBuf};

use serde_json::Value;
use takeback_undo::{Report, ReportedEvent, ToolCall, ToolWork, TurnId};

pub(crate) use self::json_object::JsonObject;
pub use self::tool_work::shell_script;

use crate::agent::{Agent, Signal};
use crate::slash_command::{SlashCommand, split_words};

/// A parsed hook payload.
#[derive(Clone, Debug, PartialEq)]
pub enum ParsedPayload {
    /// An event in a session.
    Report {
        /// The event and its session.
        report: Box<Report>,
        /// The agent's name for the event, from the agent table.
        event: &'static str,
        /// The agent's own log of the conversation, if the payload names it.
        log: Option<PathBuf>,
    },
    /// The user typed a command that is meant for takeback.
    Slash {
        /// The command and its arguments.
        command: SlashCommand,
        /// The directory in which the user typed the command.
        directory: PathBuf,
        /// The agent's own log of the conversation, if the payload names it.
        log: Option<PathBuf>,
        /// The session in which the user typed the command, as the ledger names it.
        session: Option<String>,
    },
}

/// The reason why a payload could not be parsed.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// The payload is not a JSON object.
    #[error("cannot read the event on standard input: {0}")]
    Json(#[from] serde_json::Error),
    /// Neither the payload nor the hook's argument names the event.
    #[error("cannot read the event on standard input: missing event name")]
    NoEvent,
}

/// The fields of a hook payload, in a form common to all agents.
#[derive(Debug, Default)]
pub(crate) struct HookPayload {
    /// The name of an agent that is not in the table. Only the generic format has this field.
    pub(crate) agent: Option<String>,
    pub(crate) session: Option<String>,
    /// The subagent that caused the event; `None` if the session itself caused it.
    pub(crate) child: Option<String>,
    pub(crate) parent: Option<String>,
    pub(crate) turn: Option<TurnId>,
    pub(crate) directory: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) prompt: Option<String>,
    /// The name of a slash command that the user typed.
    pub(crate) command: Option<String>,
    /// The text that the user typed after the slash command.
    pub(crate) arguments: Option<String>,
    pub(crate) call: Option<String>,
    pub(crate) tool: Option<String>,
    pub(crate) input: Option<Value>,
    pub(crate) outcome: Option<String>,
}

/// Parses a hook payload. `event` is the hook's argument, for agents that do not name the event in
/// the payload. Returns `Ok(None)` for an event that takeback ignores.
pub fn parse_payload(
    agent: &Agent,
    event: Option<&str>,
    input: &[u8],
    fallback_directory: &Path,
) -> Result<Option<ParsedPayload>, PayloadError> {
    let object = JsonObject::parse(input)?;
    let Some((event, signal)) = find_event(agent, event, &object)? else { return Ok(None) };
    let Some(payload) = (agent.read_payload)(&object, signal) else { return Ok(None) };
    let directory = match payload.directory.as_deref().filter(|directory| !directory.is_empty()) {
        Some(directory) => fallback_directory.join(directory),
        None => fallback_directory.to_owned(),
    };
    let log = LOG_KEYS.iter().find_map(|key| object.nonempty_text(key)).map(PathBuf::from);
    if let Some(command) = find_slash_command(agent, event, signal, &payload) {
        let session = payload.session.map(|session| format!("{}:{session}", agent.name));
        return Ok(Some(ParsedPayload::Slash { command, directory, log, session }));
    }
    let report = build_report(agent, signal, payload, directory);
    Ok(report.map(|report| ParsedPayload::Report { report: Box::new(report), event, log }))
}

/// Finds a takeback command in an event that a hook can answer.
fn find_slash_command(
    agent: &Agent,
    event: &str,
    signal: Signal,
    payload: &HookPayload,
) -> Option<SlashCommand> {
    if !agent.answer_events.contains(&event) {
        return None;
    }
    match signal {
        Signal::Command => {
            let arguments = payload.arguments.as_deref().unwrap_or_default();
            SlashCommand::new(payload.command.as_deref()?, split_words(arguments))
        }
        _ => SlashCommand::parse_prompt(payload.prompt.as_deref()?),
    }
}

/// The payload keys that can hold the path of the agent's log.
const LOG_KEYS: [&str; 2] = ["transcript_path", "transcriptPath"];

/// Finds the event in the agent table, by its name in the payload or by the hook's argument.
fn find_event(
    agent: &Agent,
    argument: Option<&str>,
    object: &JsonObject,
) -> Result<Option<(&'static str, Signal)>, PayloadError> {
    let in_payload = agent.event_keys.iter().filter_map(|key| match key.split_once('.') {
        Some((outer, key)) => object.object(outer)?.string(key),
        None => object.string(key),
    });
    let names: Vec<String> = in_payload.chain(argument.map(str::to_owned)).collect();
    if names.is_empty() {
        return Err(PayloadError::NoEvent);
    }
    let known = |name: &String| agent.events.iter().find(|(known, _)| known == name).copied();
    Ok(names.iter().find_map(known))
}

/// Builds the report for an event. Returns `None` for an event that needs no report.
fn build_report(
    agent: &Agent,
    signal: Signal,
    payload: HookPayload,
    directory: PathBuf,
) -> Option<Report> {
    let is_child = matches!(signal, Signal::ChildStart | Signal::ChildEnd);
    if is_child && payload.child.is_none() {
        return None;
    }
    let event = match signal {
        Signal::SessionStart | Signal::ChildStart => ReportedEvent::SessionStart,
        Signal::SessionEnd | Signal::ChildEnd => ReportedEvent::SessionEnd,
        Signal::TurnStart => ReportedEvent::TurnStart { prompt: payload.prompt },
        Signal::TurnEnd => ReportedEvent::TurnEnd,
        Signal::Command => return None,
        Signal::BeforeTool | Signal::AfterTool | Signal::ToolFailed => {
            let tool = payload.tool.unwrap_or_default();
            let input = payload.input.unwrap_or_default();
            let work = match &agent.tools {
                Some(tools) => tools.expected_work(&tool, &input, &directory),
                None => ToolWork::guess(&tool, &input),
            };
            let call = ToolCall { id: payload.call, tool, input, work };
            match signal {
                Signal::BeforeTool => ReportedEvent::BeforeTool(call),
                _ => ReportedEvent::AfterTool { call, outcome: payload.outcome },
            }
        }
    };
    // If the agent does not name its session, all work in a directory is treated as one session.
    let session = payload.session.unwrap_or_else(|| directory.display().to_string());
    let (session, parent) = match payload.child {
        Some(child) => (format!("{session}/{child}"), Some(session)),
        None => (session, payload.parent),
    };
    Some(Report {
        agent: payload.agent.unwrap_or_else(|| agent.name.to_owned()),
        session,
        parent,
        turn: payload.turn,
        directory,
        model: payload.model,
        event,
    })
}
