//! The interface to the program that starts the server. That program knows the settings and
//! implements the slash commands.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use takeback_ledger::Budget;
use takeback_runtime::{Agent, NewSession, SharedJournal};

use crate::problem::Problem;

/// Takeback's own agent and its slash commands, as the program that starts the server provides
/// them.
pub trait ChatHost: Send + Sync {
    /// Returns the directory for conversations that do not specify a workspace.
    fn directory(&self) -> PathBuf;

    /// Builds the agent for a directory. `model` replaces the model from the settings.
    fn build_agent(&self, directory: &Path, model: Option<&str>) -> Result<BuiltAgent, Problem>;

    /// Opens the journal that the machines of a fleet share, if the settings say that tasks are
    /// shared.
    fn shared_journal(&self) -> Result<Option<Arc<SharedJournal>>, Problem> {
        Ok(None)
    }

    /// Answers a slash command. Returns `None` if the line is a prompt for the model.
    fn answer_slash(&self, line: &SlashLine<'_>) -> Option<SlashAnswer>;

    /// Lists the slash commands, without the slash, with a description in a few words.
    fn commands(&self) -> &'static [(&'static str, &'static str)];

    /// Generates an id for a task or goal.
    fn new_id(&self) -> String;
}

/// The agent, and the properties of the sessions that it begins.
pub struct BuiltAgent {
    /// The agent, ready to run turns.
    pub agent: Arc<Agent>,
    /// The properties of a new session.
    pub new_session: NewSession,
}

/// A line that a user typed.
#[derive(Clone, Copy, Debug)]
pub struct SlashLine<'a> {
    /// The line, as the user typed it.
    pub text: &'a str,
    /// The session in which the line was typed, if the conversation has begun.
    pub session: Option<&'a str>,
    /// The model of the conversation. `None` means the model in the settings.
    pub model: Option<&'a str>,
    /// The directory that the agent works in.
    pub directory: &'a Path,
    /// True if a turn is running in the session. In that case, commands that change the
    /// conversation or its files are refused.
    pub is_busy: bool,
}

/// The answer to a slash command.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SlashAnswer {
    /// The text to show, which may have several lines.
    pub text: String,
    /// The document that the command prints with `--json`.
    pub data: Option<Value>,
    /// True if the command was refused, or failed.
    pub failed: bool,
    /// The change that the caller still has to make.
    #[serde(skip)]
    pub action: Option<SlashAction>,
}

/// A change to the conversation that a slash command asks for.
#[derive(Clone, Debug)]
pub enum SlashAction {
    /// Continue in another session.
    Open {
        /// The id of the session to continue in.
        session: String,
    },
    /// Use another model from now on.
    Model {
        /// The name of the model.
        name: String,
    },
    /// Summarize older turns.
    Compress,
    /// Begin to work on a goal.
    StartGoal {
        /// The goal, in the user's words.
        objective: String,
        /// The limits on tokens, cost, time and turns.
        budget: Budget,
    },
    /// Continue the work on a goal.
    ResumeGoal {
        /// The id of the goal.
        goal: String,
        /// The limits that apply from now on.
        budget: Budget,
    },
    /// Leave the conversation.
    Quit,
}

/// A host without an agent, for files that are exported without a server.
pub(crate) struct NoAgent;

impl ChatHost for NoAgent {
    fn directory(&self) -> PathBuf {
        PathBuf::from("/")
    }

    fn build_agent(&self, _: &Path, _: Option<&str>) -> Result<BuiltAgent, Problem> {
        Err(Problem::new(409, "there is no agent"))
    }

    fn answer_slash(&self, _: &SlashLine<'_>) -> Option<SlashAnswer> {
        None
    }

    fn commands(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    fn new_id(&self) -> String {
        String::new()
    }
}
