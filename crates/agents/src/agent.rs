//! An agent as a row of the agent table, and lookups in that table.

use std::path::Path;

use takeback_base::foreign;

use crate::agent_table::AGENTS;
use crate::payload::{HookPayload, JsonObject};
use crate::wiring::{Part, Wiring};

/// A coding agent that takeback supports.
pub struct Agent {
    /// The name on the command line, also used as the prefix of the agent's session ids.
    pub name: &'static str,
    /// The name of the product, as it is usually written.
    pub title: &'static str,
    /// The names by which the agent's program for the Agent Client Protocol introduces itself, and
    /// the names of the packages that contain the program. The program uses the same session ids as
    /// the agent's hooks and logs.
    pub acp_names: &'static [&'static str],
    /// True if this row was checked against the real program, not just against its documentation.
    pub proven: bool,
    /// The names of the agent's events, each with its kind. Events that are not listed are ignored.
    pub events: &'static [(&'static str, Signal)],
    /// The agent's tools. If `None`, takeback judges each call only by the tool's name and the
    /// call's input.
    pub tools: Option<KnownTools>,
    /// The JSON in which a hook passes a notice to the model.
    pub notice_format: NoticeFormat,
    /// The events at which a hook can safely print a notice.
    pub notice_events: &'static [&'static str],
    /// The JSON in which a hook shows a warning to the user before a tool runs.
    pub warning_format: WarningFormat,
    /// Instructions for rewinding the agent's own copy of a conversation. `{}` is replaced with the
    /// session id.
    pub(crate) resume: Option<&'static str>,
    /// The means by which a hook stops the agent from running a tool.
    pub refusal: Refusal,
    /// The events at which a hook can answer the user's prompt in place of the model.
    pub answer_events: &'static [&'static str],
    /// The sign by which the agent shows that it is running without a user; `None` if it gives no
    /// such sign.
    pub(crate) headless_sign: Option<HeadlessSign>,
    /// Limitations that apply when takeback is used with this agent.
    pub limitations: &'static [&'static str],
    /// The changes that `install` makes; `None` if the agent has to run takeback itself.
    pub(crate) wiring: Option<&'static Wiring>,
    /// The payload keys that can hold the event name. Agents without such a key pass the name as an
    /// argument to the hook.
    pub(crate) event_keys: &'static [&'static str],
    /// Reads a hook payload. Returns `None` for a payload that takeback ignores.
    pub(crate) read_payload: fn(&JsonObject, Signal) -> Option<HookPayload>,
}

impl Agent {
    /// True if `takeback install` supports the agent.
    pub fn has_wiring(&self) -> bool {
        self.wiring.is_some()
    }

    /// True if this is an editor, which starts agents through takeback.
    pub fn is_editor(&self) -> bool {
        let is_server = |part: &Part| matches!(part, Part::Servers(_));
        self.wiring.is_some_and(|wiring| wiring.parts.iter().any(is_server))
    }

    /// True if `event` is one that the agent reports before it runs a tool.
    pub fn is_before_tool(&self, event: Option<&str>) -> bool {
        self.events
            .iter()
            .any(|(name, signal)| Some(*name) == event && *signal == Signal::BeforeTool)
    }

    /// True if the agent gives a sign that it is running without a user. In that case, a script
    /// wrote the prompt. `variable` looks up an environment variable; `log` is the agent's log of
    /// the session.
    pub fn is_headless(
        &self,
        variable: impl FnOnce(&str) -> Option<String>,
        log: Option<&Path>,
    ) -> bool {
        match &self.headless_sign {
            Some(HeadlessSign::Variable { name, begins }) => {
                variable(name).is_some_and(|value| value.starts_with(begins))
            }
            Some(HeadlessSign::Log { contains }) => log.is_some_and(|log| {
                let beginning = foreign::read_beginning(log, LOG_BEGINNING).unwrap_or_default();
                let line = beginning.split(|byte| *byte == b'\n').next().unwrap_or_default();
                String::from_utf8_lossy(line).contains(contains)
            }),
            None => false,
        }
    }

    /// Returns the step that the user must still take after `takeback install`.
    pub fn next_step(&self) -> Option<&'static str> {
        self.wiring?.next_step
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The number of bytes to read from the beginning of a log when looking for a [`HeadlessSign`].
const LOG_BEGINNING: u64 = 4096;

/// A sign that an agent is running without a user.
pub(crate) enum HeadlessSign {
    /// An environment variable that the agent sets for its hooks, and the prefix of the variable's
    /// value when there is no user.
    Variable { name: &'static str, begins: &'static str },
    /// Text in the first line of the agent's log. That line records how the session was started.
    Log { contains: &'static str },
}

/// A kind of event that an agent reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A session begins or is resumed.
    SessionStart,
    /// The user sent a prompt.
    TurnStart,
    /// The user typed one of the agent's slash commands, which the agent expands to a prompt.
    Command,
    /// The agent is about to run a tool.
    BeforeTool,
    /// A tool has finished, successfully or not.
    AfterTool,
    /// A tool has failed.
    ToolFailed,
    /// The agent has finished its work on a prompt.
    TurnEnd,
    /// A session has ended.
    SessionEnd,
    /// A subagent starts its work.
    ChildStart,
    /// A subagent has finished.
    ChildEnd,
}

/// The known tools of an agent. A tool that is not listed may change any file.
#[derive(Clone, Copy, Debug)]
pub struct KnownTools {
    /// Tools that run shell commands.
    pub shell: &'static [&'static str],
    /// Tools that write files.
    pub files: &'static [&'static str],
    /// Tools that only read.
    pub reading: &'static [&'static str],
}

/// The JSON in which a hook passes a notice to an agent's model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeFormat {
    /// `{"hookSpecificOutput": {"hookEventName": …, "additionalContext": …}}`
    HookSpecificOutput,
    /// `{"additionalContext": "…"}` at the top level
    AdditionalContext,
    /// `{"additional_context": "…"}` at the top level
    SnakeContext,
    /// `{"cancel": false, "contextModification": …}`
    ContextModification,
    /// `{"notice": …}`, read by takeback's plugin inside the agent
    Plugin,
    /// No format: the agent's hooks cannot reach its model.
    None,
}

/// The JSON in which a hook shows a warning to the agent's user, without stopping the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarningFormat {
    /// `{"systemMessage": …}`, which the agent shows to its user.
    SystemMessage,
    /// `{"user_message": …, "userMessage": …}`: the key differs between versions.
    UserMessage,
    /// `{"additionalContext": …}`: the model is asked to pass the warning on.
    AdditionalContext,
    /// `{"cancel": false, "contextModification": …}`: the model is asked to pass the warning on.
    ContextModification,
    /// `{"warning": …}`, shown by takeback's plugin inside the agent
    Plugin,
    /// No JSON: the warning is written to standard error, because the agent cannot show it.
    None,
}

/// The means by which a hook stops an agent from running a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An exit code. The reason goes to standard error.
    Code(u8),
    /// `{"permissionDecision": "deny", "permissionDecisionReason": …}`
    PermissionDecision,
    /// `{"cancel": true, "errorMessage": …}`
    Cancel,
    /// `{"refusal": …}`, read by takeback's plugin inside the agent
    Plugin,
}

/// Finds an agent by its name.
pub fn find_agent(name: &str) -> Option<&'static Agent> {
    AGENTS.iter().find(|agent| agent.name == name)
}

/// Finds the agent whose program for the Agent Client Protocol has this name.
pub fn find_acp_agent(name: &str) -> Option<&'static Agent> {
    AGENTS.iter().find(|agent| agent.acp_names.contains(&name))
}

/// Returns instructions for rewinding the agent's own copy of a session's conversation. Returns
/// `None` if the agent cannot rewind a conversation, or is unknown.
pub fn resume_hint(session: &str) -> Option<String> {
    let (name, id) = session.split_once(':')?;
    // A subagent's work is part of its parent's conversation.
    let id = id.split('/').next().filter(|id| !id.is_empty())?;
    Some(find_agent(name)?.resume?.replace("{}", &takeback_undo::hook::quote_word(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_agents_that_can_rewind_have_a_resume_hint() {
        let claude =
            "`claude --resume 'a b' --fork-session`, then press Esc twice and choose the prompt";
        assert_eq!(resume_hint("claude:a b/sub").as_deref(), Some(claude));
        for unknown in ["copilot:1", "mine:1", "claude", "claude:"] {
            assert_eq!(resume_hint(unknown), None, "{unknown}");
        }
    }
}
