//! The proxy's state: the sessions, and the requests that are waiting for an answer.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use takeback_agents::{find_acp_agent, log_format};
use takeback_ledger::{Event, MessageRecord, Time, Tokens};
use takeback_undo::{Report, ReportedEvent};

use super::calls::CallState;
use super::commands::AgentCommands;
use super::message::{PermissionOption, Usage};

/// The name that the ledger uses for an agent that takeback does not know.
const UNKNOWN_AGENT: &str = "acp";

/// The state of the conversation.
pub(super) struct State {
    /// The name of the agent in the ledger.
    pub(super) agent: &'static str,
    /// The version of the protocol: 1 until the agent has chosen a version.
    pub(super) version: u64,
    /// The directory that is assumed for sessions whose beginning the proxy has not seen.
    directory: PathBuf,
    pub(super) sessions: HashMap<String, Session>,
    /// The editor's requests that are waiting for an answer, by their ids.
    pub(super) of_editor: HashMap<String, EditorRequest>,
    /// The agent's requests that are waiting for an answer, by their ids.
    pub(super) of_agent: HashMap<String, AgentRequest>,
    /// The session and call that each of the editor's terminals belongs to, by the terminal's id.
    pub(super) terminals: HashMap<String, CallName>,
}

/// A request of the editor.
pub(super) enum EditorRequest {
    Initialize,
    NewSession { directory: PathBuf },
    LoadSession { session: String },
    Prompt { session: String },
    CloseSession { session: String },
}

/// A request of the agent.
pub(super) enum AgentRequest {
    Permission {
        call: CallName,
        options: Vec<PermissionOption>,
    },
    /// A request to write a file. If it belongs to no announced call, it is a call of its own,
    /// which ends with the editor's answer.
    Write {
        call: CallName,
        is_own: bool,
    },
    Terminal {
        call: CallName,
    },
    TerminalExit {
        call: CallName,
    },
}

/// A call in a session.
#[derive(Clone, Debug)]
pub(super) struct CallName {
    pub(super) session: String,
    pub(super) call: String,
}

/// A session of the agent.
#[derive(Default)]
pub(super) struct Session {
    pub(super) directory: PathBuf,
    /// True while the agent replays the conversation.
    pub(super) is_loading: bool,
    /// The number of prompts that the agent is working on.
    pub(super) prompts: usize,
    pub(super) calls: HashMap<String, CallState>,
    pub(super) commands: AgentCommands,
    /// True if the agent has hooks that do not report its calls.
    pub(super) hooks_are_silent: bool,
    pub(super) draft: Draft,
    pub(super) model: Option<String>,
    /// The cost of the session so far, in dollars.
    pub(super) cost: Option<f64>,
    /// The part of the cost that has been written to the ledger.
    pub(super) recorded_cost: f64,
}

impl State {
    /// Creates the state for an agent that is started with a command.
    pub(super) fn new(command: &[String], directory: PathBuf) -> State {
        let mut state = State {
            agent: UNKNOWN_AGENT,
            version: 1,
            directory,
            sessions: HashMap::new(),
            of_editor: HashMap::new(),
            of_agent: HashMap::new(),
            terminals: HashMap::new(),
        };
        for word in command {
            let name = Path::new(word).file_name().unwrap_or_default().to_string_lossy();
            // The name of a package may be followed by a version: `codex-acp@2.6.0`.
            state.recognize(name.rsplit_once('@').map_or(name.as_ref(), |(name, _)| name));
        }
        state
    }

    /// Recognizes the agent by the name of its program or package.
    pub(super) fn recognize(&mut self, name: &str) {
        if let Some(agent) = find_acp_agent(name) {
            self.agent = agent.name;
        }
    }

    /// Returns true if takeback reads the conversation from the agent's own log.
    pub(super) fn has_log(&self) -> bool {
        log_format(self.agent).is_some()
    }

    /// Returns true if the agent uses the first version of the protocol. Only in that version can
    /// takeback recognize the end of a turn and answer a prompt itself.
    pub(super) fn is_first_version(&self) -> bool {
        self.version <= 1
    }

    /// Returns a session, and adds it if the proxy does not know it yet.
    pub(super) fn session(&mut self, id: &str) -> &mut Session {
        let directory = &self.directory;
        self.sessions
            .entry(id.to_owned())
            .or_insert_with(|| Session { directory: directory.clone(), ..Session::default() })
    }

    /// Begins a session in a directory.
    pub(super) fn begin_session(&mut self, id: &str, directory: &Path, is_loading: bool) {
        let directory = self.directory.join(directory);
        let session = self.session(id);
        (session.directory, session.is_loading) = (directory, is_loading);
    }

    /// Returns the id of a session in the ledger.
    pub(super) fn ledger_id(&self, session: &str) -> String {
        format!("{}:{session}", self.agent)
    }

    /// Builds a report about an event in a session.
    pub(super) fn report(&mut self, session: &str, event: ReportedEvent) -> Report {
        let agent = self.agent.to_owned();
        let Session { directory, model, .. } = self.session(session);
        Report {
            agent,
            session: session.to_owned(),
            parent: None,
            turn: None,
            directory: directory.clone(),
            model: model.clone(),
            event,
        }
    }

    /// Takes the agent's text so far, as events for the ledger. Returns no events if takeback reads
    /// the agent's own log, which is a better source.
    pub(super) fn take_messages(&mut self, session: &str, now: Time) -> Vec<Event> {
        let (has_log, id) = (self.has_log(), self.ledger_id(session));
        let message = self.session(session).draft.take(now).filter(|_| !has_log);
        let event = |message| Event::Messages { session: id, messages: vec![message] };
        message.map(event).into_iter().collect()
    }

    /// Converts the usage of a turn, and the cost since the last turn, to events for the ledger.
    /// Returns no events if takeback reads the agent's own log.
    pub(super) fn take_usage(&mut self, session: &str, usage: Option<Usage>) -> Vec<Event> {
        if self.has_log() {
            return Vec::new();
        }
        let id = self.ledger_id(session);
        let known = self.session(session);
        let cost = known.cost.map(|cost| cost - known.recorded_cost).filter(|cost| *cost > 0.0);
        let count = |count: Option<i64>| count.unwrap_or(0).max(0);
        let usage = usage.unwrap_or_default();
        let tokens = Tokens {
            input: count(usage.input_tokens),
            output: count(usage.output_tokens),
            cache_read: count(usage.cached_read_tokens),
            cache_write: count(usage.cached_write_tokens),
            reasoning: count(usage.thought_tokens),
        };
        // The agent does not say how many requests it made, so they count as one.
        let usage = tokens.to_usage(known.model.as_deref(), 1);
        let usage = usage.or_else(|| {
            let model = known.model.clone().unwrap_or_default();
            cost.map(|_| takeback_ledger::UsageRecord { model, ..Default::default() })
        });
        known.recorded_cost = known.cost.unwrap_or(known.recorded_cost);
        let usage = usage.map(|mut usage| {
            usage.actual_cost_usd = cost;
            Event::Usage { session: id, usage }
        });
        usage.into_iter().collect()
    }
}

/// The message that the agent is sending.
#[derive(Default)]
pub(super) struct Draft {
    id: Option<String>,
    text: String,
    reasoning: String,
}

impl Draft {
    /// Returns true if a chunk with this id begins another message.
    pub(super) fn is_over(&self, id: Option<&str>) -> bool {
        id.is_some() && self.id.is_some() && self.id.as_deref() != id && !self.text.is_empty()
    }

    /// Adds a chunk.
    pub(super) fn push(&mut self, id: Option<&str>, text: &str, is_thought: bool) {
        match is_thought {
            true => self.reasoning.push_str(text),
            false => {
                self.id = id.map(str::to_owned).or_else(|| self.id.take());
                self.text.push_str(text);
            }
        }
    }

    /// Takes the message. Returns `None` if the agent has said nothing.
    fn take(&mut self, now: Time) -> Option<MessageRecord> {
        let Draft { text, reasoning, .. } = std::mem::take(self);
        if text.trim().is_empty() {
            return None;
        }
        Some(MessageRecord {
            role: "assistant".into(),
            content: Some(Value::from(text)),
            reasoning: Some(reasoning).filter(|text| !text.is_empty()),
            timestamp: Some(now),
            ..MessageRecord::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(command: &[&str]) -> &'static str {
        let words: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        State::new(&words, "/".into()).agent
    }

    #[test]
    fn an_agent_is_recognized_by_its_command() {
        assert_eq!(agent(&["npx", "-y", "@agentclientprotocol/claude-agent-acp"]), "claude");
        assert_eq!(agent(&["npx", "@zed-industries/codex-acp@latest"]), "codex");
        assert_eq!(agent(&["/usr/bin/gemini", "--acp"]), "gemini");
        assert_eq!(agent(&["my-agent", "claude"]), "acp");
    }

    #[test]
    fn usage_is_counted_once() {
        let mut state = State::new(&[], "/".into());
        state.session("s").cost = Some(2.0);
        let usage = Usage { input_tokens: Some(7), ..Usage::default() };
        let cost = |events: &[Event]| match events {
            [Event::Usage { usage, .. }] => (usage.tokens.input, usage.actual_cost_usd),
            _ => panic!("{events:?}"),
        };
        assert_eq!(cost(&state.take_usage("s", Some(usage))), (7, Some(2.0)));
        assert_eq!(state.take_usage("s", None), []);
        state.session("s").cost = Some(2.5);
        assert_eq!(cost(&state.take_usage("s", None)), (0, Some(0.5)));
    }

    #[test]
    fn a_message_ends_where_another_begins() {
        let mut draft = Draft::default();
        draft.push(None, "thinking", true);
        draft.push(Some("1"), "a", false);
        assert!(!draft.is_over(Some("1")) && !draft.is_over(None) && draft.is_over(Some("2")));
        draft.push(Some("1"), "b", false);
        let message = draft.take(Time(1)).unwrap();
        assert_eq!(
            (message.content, message.reasoning),
            (Some("ab".into()), Some("thinking".into()))
        );
        assert_eq!(draft.take(Time(1)), None);
    }
}
