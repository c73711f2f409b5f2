//! Describes the result of a rollback in a conversation.

use takeback_ledger::MessageFilter;
use takeback_undo::History;
use takeback_undo::history::find_workspace_with;

use super::SlashAnswer;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Adds lines that say where the files and the conversation are now.
pub(super) fn describe_rollback(
    mut answer: SlashAnswer,
    session: Option<&str>,
    context: &Context,
) -> SlashAnswer {
    let Some(data) = &answer.data else { return answer };
    let Some(safety) = data["safety_checkpoint"].as_str() else { return answer };
    let mut lines = Vec::new();
    if data["action"] == "rollback" {
        let checkpoint = data["checkpoint"].as_str().unwrap_or_default();
        let reason = find_reason(checkpoint, context).unwrap_or_default();
        let reason = output::disarm(&reason);
        lines.push(format!("Restored to checkpoint {} ({reason}).", short(checkpoint)));
    }
    lines.push(format!("The state before that is saved as checkpoint {}.", short(safety)));
    let left = session.map(|session| count_messages(session, context));
    if let Some(Ok(left)) = left {
        let left = output::count(left, "message");
        lines.push(format!("This conversation now has {left}."));
    }
    answer.text.extend(lines.iter().flat_map(|line| ["\n", line]));
    answer
}

fn short(id: &str) -> &str {
    id.get(..7).unwrap_or(id)
}

/// Finds the reason why a checkpoint was taken.
fn find_reason(checkpoint: &str, context: &Context) -> Result<String, Failure> {
    let workspace = find_workspace_with(context.opened()?, &context.directory, checkpoint)?;
    let history = History::read(workspace.store(), workspace.id())?;
    Ok(history.find(workspace.store(), checkpoint)?.checkpoint.record.reason.clone())
}

fn count_messages(session: &str, context: &Context) -> Result<usize, Failure> {
    Ok(context.ledger()?.messages(session, MessageFilter::Current)?.len())
}
