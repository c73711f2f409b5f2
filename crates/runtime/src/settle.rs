//! Determining the outcome of a call that was running when the process ended.
//!
//! The files show the outcome: if they are as they were before the call, the call had no effect; if
//! they are as the call would have left them, the call was completed. Otherwise the outcome is
//! unknown, and both the model and the user are told.

use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha256};
use takeback_base::{foreign, hex};
use takeback_tree::{Diff, Oid};
use takeback_undo::history::compare_tree_with_present;
use takeback_undo::{ToolCall, ToolWork};

use crate::entry::CallStart;
use crate::error::TaskError;
use crate::front_end::{FrontEnd, TurnEvent};
use crate::state::CallProgress;
use crate::task::Task;
use crate::tools::{IntendedWrite, Intent, ToolOutput};

/// The maximum size of a file that is compared, in bytes.
const MAX_COMPARED: u64 = 256 << 20;

/// The maximum number of changed paths that are listed.
const LISTED: usize = 20;

/// The outcome of an interrupted call, as far as it can be determined.
#[derive(Debug, PartialEq)]
enum Settled {
    /// The call has changed nothing, so it can be made again.
    NotMade,
    /// The call was made, with this result.
    Made(ToolOutput),
    /// The call may have been made in part. The text describes what is known.
    Unknown(String),
}

impl Task {
    /// Settles a call that was started and has no result.
    pub(crate) fn settle_call(
        &mut self,
        index: usize,
        front: &dyn FrontEnd,
    ) -> Result<(), TaskError> {
        let turn = self.state.turn.as_ref().expect("a call is part of a turn");
        let state = turn.calls[index].clone();
        let CallProgress::Started(start) = &state.progress else { return Ok(()) };
        let reported = ToolCall {
            id: Some(state.call.id.clone()),
            tool: state.call.name.clone(),
            input: serde_json::from_str(&state.call.arguments).unwrap_or(Value::Null),
            work: ToolWork::default(),
        };
        match self.settle(start) {
            Settled::NotMade => self.repeat_call(index, front),
            Settled::Made(output) => self.finish_call(&state.call, reported, output, front),
            Settled::Unknown(present) => {
                let warning = format!(
                    "{} was interrupted, and it is unknown whether it was completed",
                    state.call.name
                );
                front.show(&TurnEvent::Warning(&warning));
                let text = format!(
                    "The agent was killed while this call was running. It is unknown whether the \
                     call was completed. {present} Check before you repeat it."
                );
                self.finish_call(&state.call, reported, ToolOutput::error(text), front)
            }
        }
    }

    fn settle(&self, start: &CallStart) -> Settled {
        if start.has_effects {
            let text = "It may have had effects outside the workspace.";
            return Settled::Unknown(text.to_owned());
        }
        if start.reads {
            return Settled::NotMade;
        }
        if let Some(intent) = &start.intent {
            return settle_writes(intent);
        }
        let tree = start.tree.as_deref().and_then(|tree| tree.parse::<Oid>().ok());
        let Some(tree) = tree else {
            return Settled::Unknown("No checkpoint shows what it changed.".to_owned());
        };
        match compare_tree_with_present(&self.agent.opened, &self.directory, &tree) {
            Ok(diff) if diff.from == diff.to => Settled::NotMade,
            Ok(diff) => Settled::Unknown(describe_changes(&diff)),
            Err(error) => {
                let error = takeback_base::errors::error_chain(&error);
                Settled::Unknown(format!("The workspace cannot be compared: {error}."))
            }
        }
    }
}

fn settle_writes(intent: &Intent) -> Settled {
    let writes = &intent.writes;
    let now: Vec<Option<String>> = writes.iter().map(|write| digest_file(&write.path)).collect();
    let is_all = |expected: fn(&IntendedWrite) -> &Option<String>| {
        writes.iter().zip(&now).all(|(write, now)| expected(write) == now)
    };
    if is_all(|write| &write.after) {
        Settled::Made(intent.output.clone())
    } else if is_all(|write| &write.before) {
        Settled::NotMade
    } else {
        let paths: Vec<String> =
            writes.iter().map(|write| write.path.display().to_string()).collect();
        Settled::Unknown(format!(
            "Some of these files are in an unexpected state: {}.",
            paths.join(", ")
        ))
    }
}

/// Returns the digest of a file's content, or `None` if the file does not exist or cannot be read.
fn digest_file(path: &Path) -> Option<String> {
    let content = foreign::read_regular(path, MAX_COMPARED).ok()?;
    Some(hex::encode(&Sha256::digest(content)))
}

/// Lists the paths that have changed since the call began.
fn describe_changes(diff: &Diff) -> String {
    let paths: Vec<String> =
        diff.changes.iter().take(LISTED).map(|change| change.path.to_string()).collect();
    let rest = diff.changes.len().saturating_sub(LISTED);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("Since it began, these paths have changed: {}{more}.", paths.join(", "))
}
