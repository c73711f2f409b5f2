//! What an agent's hook is given becomes a report.

use std::path::{Path, PathBuf};

use serde_json::Value;
use takeback_undo::{Report, ReportedEvent, ToolCall, ToolWork, TurnId};

use crate::slash::{Slash, words};
use crate::spec::{Agent, Signal};
use crate::wire::Object;

/// What an agent told.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// Something happened.
    Report {
        /// What.
        report: Box<Report>,
        /// The agent's name for that, as in the table.
        event: &'static str,
        /// The agent's own log of the conversation, if it says where that is.
        log: Option<PathBuf>,
    },
    /// The user typed something that is meant for takeback.
    Slash {
        /// What.
        slash: Slash,
        /// Where.
        directory: PathBuf,
    },
}

/// Why nothing could be understood.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// It is no JSON object.
    #[error("the event on standard input cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// It could be anything.
    #[error("the event on standard input cannot be read: it does not say which it is")]
    NoEvent,
}

/// What a payload says, whatever its shape.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Another name than the table's.
    pub(crate) agent: Option<String>,
    pub(crate) session: Option<String>,
    /// The subagent of that session that did it.
    pub(crate) child: Option<String>,
    pub(crate) parent: Option<String>,
    pub(crate) turn: Option<TurnId>,
    pub(crate) directory: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) prompt: Option<String>,
    /// The name of a command that the user typed, and what came after it.
    pub(crate) command: Option<String>,
    pub(crate) arguments: Option<String>,
    pub(crate) call: Option<String>,
    pub(crate) tool: Option<String>,
    pub(crate) input: Option<Value>,
    pub(crate) outcome: Option<String>,
}

/// Understands what an agent told its hook. `event` is what the hook was started with, for agents
/// that do not name the event. `Ok(None)`: it is of no interest.
pub fn parse(
    agent: &Agent,
    event: Option<&str>,
    input: &[u8],
    fallback_directory: &Path,
) -> Result<Option<Heard>, ParseError> {
    let wire = Object::read(input)?;
    let Some((event, signal)) = event_of(agent, event, &wire)? else { return Ok(None) };
    let Some(told) = (agent.read)(&wire, signal) else { return Ok(None) };
    let directory = match told.directory.as_deref().filter(|directory| !directory.is_empty()) {
        Some(directory) => fallback_directory.join(directory),
        None => fallback_directory.to_owned(),
    };
    if let Some(slash) = typed(agent, event, signal, &told) {
        return Ok(Some(Heard::Slash { slash, directory }));
    }
    let report = report(agent, signal, told, directory);
    let log = LOG_KEYS.iter().find_map(|key| wire.name(key)).map(PathBuf::from);
    Ok(report.map(|report| Heard::Report { report: Box::new(report), event, log }))
}

/// What is meant for takeback, in an event that a hook can answer.
fn typed(agent: &Agent, event: &str, signal: Signal, told: &Told) -> Option<Slash> {
    if !agent.answers_on.contains(&event) {
        return None;
    }
    match signal {
        Signal::Command => {
            let arguments = told.arguments.as_deref().unwrap_or_default();
            Slash::new(told.command.as_deref()?, words(arguments))
        }
        _ => Slash::in_prompt(told.prompt.as_deref()?),
    }
}

/// Where payloads say which file the log is.
const LOG_KEYS: [&str; 2] = ["transcript_path", "transcriptPath"];

/// Which event of the table it is.
fn event_of(
    agent: &Agent,
    argument: Option<&str>,
    wire: &Object,
) -> Result<Option<(&'static str, Signal)>, ParseError> {
    let told = agent.event_keys.iter().filter_map(|key| match key.split_once('.') {
        Some((outer, key)) => wire.object(outer)?.string(key),
        None => wire.string(key),
    });
    let names: Vec<String> = told.chain(argument.map(str::to_owned)).collect();
    if names.is_empty() {
        return Err(ParseError::NoEvent);
    }
    let known = |name: &String| agent.events.iter().find(|(known, _)| known == name).copied();
    Ok(names.iter().find_map(known))
}

fn report(agent: &Agent, signal: Signal, told: Told, directory: PathBuf) -> Option<Report> {
    let is_child = matches!(signal, Signal::ChildStart | Signal::ChildEnd);
    if is_child && told.child.is_none() {
        return None;
    }
    let event = match signal {
        Signal::SessionStart | Signal::ChildStart => ReportedEvent::SessionStart,
        Signal::SessionEnd | Signal::ChildEnd => ReportedEvent::SessionEnd,
        Signal::TurnStart => ReportedEvent::TurnStart { prompt: told.prompt },
        Signal::TurnEnd => ReportedEvent::TurnEnd,
        Signal::Command => return None,
        Signal::BeforeTool | Signal::AfterTool | Signal::ToolFailed => {
            let tool = told.tool.unwrap_or_default();
            let input = told.input.unwrap_or_default();
            let work = match &agent.tools {
                Some(tools) => tools.work(&tool, &input, &directory),
                None => ToolWork::guess(&tool, &input),
            };
            let call = ToolCall { id: told.call, tool, input, work };
            match signal {
                Signal::BeforeTool => ReportedEvent::BeforeTool(call),
                _ => ReportedEvent::AfterTool { call, outcome: told.outcome },
            }
        }
    };
    // Without a name for it, a session is the work in a directory.
    let session = told.session.unwrap_or_else(|| directory.display().to_string());
    let (session, parent) = match told.child {
        Some(child) => (format!("{session}/{child}"), Some(session)),
        None => (session, told.parent),
    };
    Some(Report {
        agent: told.agent.unwrap_or_else(|| agent.name.to_owned()),
        session,
        parent,
        turn: told.turn,
        directory,
        model: told.model,
        event,
    })
}
