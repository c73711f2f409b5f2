//! Imports the conversations that an agent had before takeback was installed.

use takeback_agents::log_format;

use super::report::AgentResult;
use crate::commands::sessions::import::{ImportView, import_agent_logs};
use crate::context::Context;
use crate::output;

/// An agent's past conversations, and whether they were imported.
pub(super) enum PastConversations {
    /// The agent has this many logs, and the user has not asked to import them.
    Offered(usize),
    Imported(ImportView),
    Failed(String),
}

/// Imports the past conversations of each installed agent if `is_wanted`, or if the user agrees.
pub(super) fn import_past_conversations(
    results: &mut [AgentResult],
    is_wanted: bool,
    context: &Context,
) {
    for result in results.iter_mut() {
        let Some(agent) = result.succeeded() else { continue };
        let Some(format) = log_format(agent.name) else { continue };
        let Some(directory) = context.logs_of(format) else { continue };
        let count = format.find_files(&directory).map_or(0, |logs| logs.len());
        if count == 0 {
            continue;
        }
        let logs = output::count(count, "log");
        let question = format!("Import the past conversations of {} ({logs})?", agent.title);
        let is_wanted = is_wanted || (context.asks() && output::is_agreed(&question));
        result.past = Some(match is_wanted {
            false => PastConversations::Offered(count),
            true => match import_agent_logs(agent.name, None, context) {
                Ok(view) => PastConversations::Imported(view),
                Err(failure) => PastConversations::Failed(failure.to_string()),
            },
        });
    }
}
