//! Takeback's own agent and its slash commands, for conversations in the browser.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use takeback_runtime::SharedJournal;
use takeback_web::{BuiltAgent, ChatHost, Problem, SlashAction, SlashAnswer, SlashLine};

use super::{ServedHome, describe};
use crate::commands::chat::{AgentArguments, build_agent, new_id, shared_journal};
use crate::context::Context;
use crate::slash::{self, COMMANDS, answer_line};

/// The agent and the commands, with the settings of the served home.
pub(super) struct ServedAgent {
    home: Arc<ServedHome>,
    directory: PathBuf,
    /// Held while a command runs: the output of only one command can be collected at a time.
    running: Mutex<()>,
}

impl ServedAgent {
    pub(super) fn new(home: Arc<ServedHome>, context: &Context) -> ServedAgent {
        // The directory of a session is recorded without symbolic links.
        let directory = context.directory.canonicalize();
        let directory = directory.unwrap_or_else(|_| context.directory.clone());
        ServedAgent { home, directory, running: Mutex::new(()) }
    }
}

impl ChatHost for ServedAgent {
    fn directory(&self) -> PathBuf {
        self.directory.clone()
    }

    fn build_agent(&self, directory: &Path, model: Option<&str>) -> Result<BuiltAgent, Problem> {
        let build = || {
            let context = self.home.context()?.in_directory(directory);
            let arguments = AgentArguments::default();
            let arguments =
                model.map_or_else(|| arguments.clone(), |name| arguments.with_model(name));
            build_agent(&arguments, &context)
        };
        match build() {
            Ok(built) => Ok(BuiltAgent { agent: built.agent, new_session: built.new_session }),
            // The user's settings are at fault: they name no provider, or an incomplete one.
            Err(failure) => Err(Problem { status: 409, ..describe(failure) }),
        }
    }

    fn shared_journal(&self) -> Result<Option<Arc<SharedJournal>>, Problem> {
        self.home.context().and_then(|context| shared_journal(&context)).map_err(describe)
    }

    fn answer_slash(&self, line: &SlashLine<'_>) -> Option<SlashAnswer> {
        let _one_at_a_time = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let context = match self.home.context() {
            Ok(context) => context.in_directory(line.directory),
            Err(failure) => return Some(convert(slash::SlashAnswer::failure(&failure))),
        };
        let line = slash::SlashLine {
            text: line.text,
            session: line.session,
            model: line.model,
            is_headless: false,
            is_busy: line.is_busy,
        };
        answer_line(&line, &context).map(convert)
    }

    fn commands(&self) -> &'static [(&'static str, &'static str)] {
        COMMANDS
    }

    fn new_id(&self) -> String {
        new_id()
    }
}

/// Converts an answer to the server's type, and removes colors and control characters.
fn convert(answer: slash::SlashAnswer) -> SlashAnswer {
    let slash::SlashAnswer { text, data, action, failed } = answer.plain();
    let mut converted = SlashAnswer { text, data, failed, action: None };
    converted.action = match action {
        None | Some(slash::SlashAction::Resume { session: None, .. }) => None,
        Some(slash::SlashAction::Resume { session: Some(session), .. }) => {
            Some(SlashAction::Open { session })
        }
        Some(slash::SlashAction::Model { name }) => Some(SlashAction::Model { name }),
        Some(slash::SlashAction::Compress) => Some(SlashAction::Compress),
        Some(slash::SlashAction::StartGoal { objective, budget }) => {
            Some(SlashAction::StartGoal { objective, budget })
        }
        Some(slash::SlashAction::ResumeGoal { goal, budget }) => {
            Some(SlashAction::ResumeGoal { goal, budget })
        }
        Some(slash::SlashAction::Quit) => Some(SlashAction::Quit),
    };
    converted
}
