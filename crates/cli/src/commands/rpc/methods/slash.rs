//! The method that answers slash commands.

use serde_json::json;

use super::super::Server;
use super::super::params::Params;
use super::super::protocol::{Answer, answer};
use crate::commands::chat::unattended;
use crate::commands::goal;
use crate::context::Context;
use crate::failure::Failure;
use crate::slash::{SlashAction, SlashAnswer, SlashLine, answer_line};

pub(super) fn slash(_: &Server, context: &Context, mut params: Params) -> Answer {
    let text: String = params.required("line")?;
    let session: Option<String> = params.optional("session")?;
    let model: Option<String> = params.optional("model")?;
    let is_headless = params.or_default("headless")?;
    params.end()?;
    let session = match session {
        Some(typed) => Some(context.ledger()?.resolve(&typed).map_err(Failure::from)?),
        None => None,
    };
    let (session, model) = (session.as_deref(), model.as_deref());
    let is_busy = false;
    let line = SlashLine { text: &text, session, model, is_headless, is_busy };
    let answered = answer_line(&line, context).map(|answered| {
        finish(answered, session, context).unwrap_or_else(|failure| SlashAnswer::failure(&failure))
    });
    answer(&answered.map(SlashAnswer::plain))
}

/// Carries out the part of an action that needs takeback's own agent. The front end does the rest.
fn finish(
    answered: SlashAnswer,
    session: Option<&str>,
    context: &Context,
) -> Result<SlashAnswer, Failure> {
    match (&answered.action, session) {
        (Some(SlashAction::Compress), Some(session)) => {
            let Some(child) = unattended::compress_session(session, context)? else {
                return Ok(SlashAnswer::text("There are no older turns to summarize."));
            };
            let text =
                format!("Older turns were summarized; the conversation continues as {child}");
            let data = json!({ "session": child });
            let action = SlashAction::Resume { session: Some(child), directory: None };
            Ok(SlashAnswer { action: Some(action), ..SlashAnswer::data(text, data) })
        }
        (Some(SlashAction::StartGoal { objective, budget }), _) => {
            let id = unattended::start_goal(objective, *budget, context)?;
            describe_goal(&id, context)
        }
        (Some(SlashAction::ResumeGoal { goal, budget }), _) => {
            unattended::resume_goal(goal, *budget, context)?;
            describe_goal(goal, context)
        }
        _ => Ok(answered),
    }
}

fn describe_goal(id: &str, context: &Context) -> Result<SlashAnswer, Failure> {
    let text = format!(
        "Working on goal {id} in the background. /goal show {id} shows its progress, and /goal \
         pause {id} pauses it."
    );
    Ok(SlashAnswer::data(text, goal::describe(id, context)?))
}
