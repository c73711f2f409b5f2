//! The description of an agent to be tested.

use std::path::Path;

use takeback_script::Reply;

pub(crate) struct AgentProgram {
    /// The name of the program, which is also takeback's name for the agent.
    pub(crate) name: &'static str,
    /// The package in the npm registry.
    pub(crate) package: &'static str,
    /// The version that is known to work.
    pub(crate) version: &'static str,
    /// The package that earlier versions belong to, and the beginning of their version numbers.
    pub(crate) former: Option<(&'static str, &'static str)>,
    /// The files that the user's home contains before takeback is installed. They contain the
    /// model's address.
    pub(crate) configuration: fn(url: &str, project: &Path) -> Vec<(String, String)>,
    /// The environment variables that contain the model's address and keep the agent from using the
    /// network for anything else.
    pub(crate) environment: fn(url: &str) -> Vec<(&'static str, String)>,
    /// The arguments for a turn without a terminal and without permission prompts.
    pub(crate) words: fn(home: &Path, turn: Turn<'_>) -> Vec<String>,
    /// The arguments that make the agent end the processes that it left running.
    pub(crate) leave: &'static [&'static str],
    /// The arguments for each step of checking the package that takeback builds for the agent. `{}`
    /// is replaced with the package's directory.
    pub(crate) package_steps: &'static [&'static [&'static str]],
    /// True if a conversation can be continued without a terminal.
    pub(crate) can_continue: bool,
    /// The reply that makes the agent write a file.
    pub(crate) write: fn(path: &str, content: &str) -> Reply,
    /// The reply that makes the agent run a shell command.
    pub(crate) shell: fn(command: &str) -> Reply,
    /// The command that the user types inside the agent for a rollback.
    pub(crate) command: RollbackCommand,
    /// The agent in a terminal, if that is tested.
    pub(crate) terminal: Option<TerminalUse>,
}

/// The properties of an agent in a terminal.
pub(crate) struct TerminalUse {
    /// The arguments for a new conversation without permission prompts.
    pub(crate) words: &'static [&'static str],
    /// Text that appears once the agent accepts input.
    pub(crate) ready: &'static str,
    /// Questions that the agent may ask before it accepts input, and the keys that answer them.
    pub(crate) questions: &'static [(&'static str, &'static str)],
    pub(crate) way: WayBack,
}

/// The way to continue the earlier conversation in an agent that is open in a terminal.
pub(crate) enum WayBack {
    /// The user types this line, and the agent shows the earlier conversation by itself. The model
    /// is not asked.
    Command(&'static str),
    /// The user types the line `typed`, and the conversation goes back in the open agent. The
    /// screen still shows the turns that were taken back.
    InPlace {
        typed: &'static str,
        shown: &'static str,
        /// The directory in which the agent then begins another log, relative to the home
        /// directory. The name of that log contains `_`.
        logs: Option<&'static str>,
        /// The line that makes the conversation go forward again in place.
        forward: Option<&'static str>,
    },
    /// The user rolls back elsewhere, and types the line that takeback prints.
    PrintedLine,
}

/// A turn started by the user.
#[derive(Clone, Copy)]
pub(crate) enum Turn<'a> {
    /// A prompt in a new conversation.
    First(&'a str),
    /// A prompt in the same conversation.
    Next(&'a str),
    /// A prompt in the conversation to continue after a rollback, as reported by takeback. The
    /// agent finds the conversation by its id or by its file.
    At { session: &'a str, file: &'a str, prompt: &'a str },
    /// The rollback command with these arguments, for agents in which it is not typed as a prompt.
    Command(&'a str),
}

/// The way to type a rollback inside an agent, and the place where its result is shown.
pub(crate) enum RollbackCommand {
    /// takeback answers without asking the model, but changes nothing, because the agent reports
    /// that it is running without a user.
    Withheld {
        typed: &'static str,
        /// True if the answer is shown when there is no terminal.
        is_shown: bool,
    },
    /// The model is told the result.
    Told(&'static str),
    /// The model is told the result. Without a terminal, the command cannot be typed as a prompt.
    Own,
    /// The agent has no such command.
    None,
}

impl RollbackCommand {
    /// Returns the beginning of the prompt that requests a rollback.
    pub(crate) fn typed_prefix(&self) -> &'static str {
        match self {
            RollbackCommand::Withheld { typed, .. } | RollbackCommand::Told(typed) => typed,
            RollbackCommand::Own | RollbackCommand::None => "",
        }
    }
}

impl AgentProgram {
    /// Returns the package that a version belongs to.
    pub(crate) fn package_of(&self, version: &str) -> &'static str {
        match self.former {
            Some((package, beginning)) if version.starts_with(beginning) => package,
            _ => self.package,
        }
    }

    pub(crate) fn title(&self) -> String {
        takeback_agents::find_agent(self.name)
            .map_or_else(|| self.name.to_owned(), |agent| agent.title.to_owned())
    }
}
