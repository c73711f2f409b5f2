//! What agents that are wired now said before.

use takeback_agents::log_format;

use super::show::Outcome;
use crate::commands::sessions::import::from_agent;
use crate::context::Context;
use crate::output;

/// What became of an agent's past conversations.
pub(super) enum Past {
    /// There are logs of so many, and nobody wanted them so far.
    Offered(usize),
    /// They are in the ledger.
    In(crate::commands::sessions::import::View),
    /// They could not be brought in.
    Failed(String),
}

/// Brings past conversations in, if that is wanted: `is_wanted`, or somebody who is there says so.
pub(super) fn bring_in(outcomes: &mut [Outcome], is_wanted: bool, context: &Context) {
    for outcome in outcomes.iter_mut() {
        let Some(agent) = outcome.wired() else { continue };
        let Some(format) = log_format(agent.name) else { continue };
        let Some(place) = context.logs_of(format) else { continue };
        let count = format.find_files(&place).map_or(0, |logs| logs.len());
        if count == 0 {
            continue;
        }
        let logs = output::count(count, "log");
        let question = format!("Bring in the past conversations of {} ({logs})?", agent.title);
        let is_wanted = is_wanted || (context.asks() && output::is_agreed(&question));
        outcome.past = Some(match is_wanted {
            false => Past::Offered(count),
            true => match from_agent(agent.name, None, context) {
                Ok(view) => Past::In(view),
                Err(failure) => Past::Failed(failure.to_string()),
            },
        });
    }
}
