//! The agent: a model, its tools, and the rules by which it works.

use std::path::PathBuf;
use std::sync::Arc;

use takeback_undo::{FollowUp, Opened};

use crate::approval::ApprovalMode;
use crate::model::{Client, Provider, ToolSpec};
use crate::shared::SharedJournal;
use crate::state::SUBAGENT;
use crate::tools::Tools;

/// The name of the agent in the ledger and in checkpoints.
pub const AGENT: &str = "takeback";

/// The maximum number of levels of subagents below the agent that the user talks to.
const MAX_DEPTH: usize = 2;

/// A function that starts background work for a session.
pub type OnFollowUp = Box<dyn Fn(&str, FollowUp) + Send + Sync>;

/// An agent. Several tasks can share it.
pub struct Agent {
    /// Takeback's home, which holds the ledger and the checkpoints.
    pub opened: Arc<Opened>,
    /// The connections to models.
    pub client: Client,
    /// The model that normally answers.
    pub provider: Provider,
    /// The model that takes over if the first one keeps failing.
    pub fallback: Option<Provider>,
    /// The tools that the model may call.
    pub tools: Tools,
    /// The calls that the user is asked about.
    pub approval: ApprovalMode,
    /// True if a checkpoint is taken before each call that may change files.
    pub has_checkpoints: bool,
    /// The user's home directory, to which `~` in scripts refers.
    pub user_home: Option<PathBuf>,
    /// The function that starts follow-up work, such as pruning, which runs while no user is
    /// waiting. It receives the id of the session.
    pub on_follow_up: OnFollowUp,
    /// The journal that the machines of a fleet share. Without one, tasks stay on this machine.
    pub shared: Option<Arc<SharedJournal>>,
}

impl Agent {
    /// Describes the tools to the model. Subagents at the lowest level cannot delegate.
    pub(crate) fn tool_specs(&self, depth: usize) -> Vec<ToolSpec> {
        let mut specs = self.tools.specs();
        if depth < MAX_DEPTH {
            specs.push(subagent_spec());
        }
        specs
    }

    /// Returns the provider of the next request.
    pub(crate) fn provider(&self, use_fallback: bool) -> &Provider {
        self.fallback.as_ref().filter(|_| use_fallback).unwrap_or(&self.provider)
    }
}

fn subagent_spec() -> ToolSpec {
    ToolSpec {
        name: SUBAGENT.to_owned(),
        description: "Lets another agent work on a task in the same directory. It sees only the \
                      prompt, and answers with a report. Several calls in one reply run in \
                      parallel."
            .to_owned(),
        schema: serde_json::json!({
            "type": "object",
            "properties": { "prompt": { "type": "string" } },
            "required": ["prompt"],
        }),
    }
}
