//! Slash commands, with the same answers as in a terminal.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use takeback_undo::history::find_workspace;
use utoipa::ToSchema;

use super::chats::{find_directory, find_room};
use super::input::Body;
use crate::app::{App, Work};
use crate::chat::{Job, JobPlace, Room, SlashAction, SlashAnswer, SlashLine, start_job};
use crate::problem::{Problem, WorkError};

/// The longest line, in bytes.
const MAX_LINE: usize = 16 << 10;

/// A line that a user typed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SlashRequest {
    line: String,
    /// The session in which the line was typed.
    session: Option<String>,
    /// The id of the workspace, if there is no session yet.
    workspace: Option<String>,
}

/// The answer to a line.
#[derive(Serialize, ToSchema)]
pub(super) struct SlashResponse {
    /// False if the line is a prompt for the model. In that case, nothing was done.
    is_command: bool,
    /// The text to show.
    text: String,
    /// The document that the command prints with `--json`.
    #[schema(value_type = Option<Object>)]
    data: Option<Value>,
    /// True if the command was refused, or failed.
    failed: bool,
    /// The session in which the conversation continues, if that is not the session of the request.
    session: Option<String>,
    /// The id of the workspace to which the command was applied.
    workspace: Option<String>,
    /// True if the command ends the conversation.
    quit: bool,
}

/// Answers a slash command, and makes the change that the command asks for. If there is a session,
/// all clients that follow the session receive the answer as an event.
#[utoipa::path(post, path = "/api/v1/slash", tag = "chat", request_body = SlashRequest, responses(
    (status = 200, body = SlashResponse), (status = "default", body = Problem)))]
pub(super) async fn slash(
    State(app): State<Arc<App>>,
    Body(request): Body<SlashRequest>,
) -> Result<Json<SlashResponse>, Problem> {
    if request.line.len() > MAX_LINE {
        return Err(Problem::invalid(format!("the line is longer than {MAX_LINE} bytes")));
    }
    Ok(Json(app.work(move |work| answer_line(work, &request)).await?))
}

fn answer_line(work: &Work, request: &SlashRequest) -> Result<SlashResponse, WorkError> {
    work.catch_up();
    let room = request.session.as_deref().map(|session| find_room(work, session)).transpose()?;
    let session = room.as_ref().map(|room| room.session());
    let directory = match &session {
        Some(session) => find_session_directory(work, session)?,
        None => find_directory(work, request.workspace.as_deref())?,
    };
    let model = room.as_ref().and_then(|room| room.model());
    let line = SlashLine {
        text: &request.line,
        session: session.as_deref(),
        model: model.as_deref(),
        directory: &directory,
        is_busy: room.as_ref().is_some_and(|room| room.is_busy()) || is_working(work, &directory)?,
    };
    let Some(answer) = work.app.chat.answer_slash(&line) else {
        return Ok(SlashResponse::new(false, SlashAnswer::default()));
    };
    let action = answer.action.clone();
    let mut response = SlashResponse::new(true, answer);
    response.workspace = find_workspace(&work.opened, &directory).ok().map(|w| w.id().to_string());
    if let Some(action) = action
        && let Err(error) = carry_out(work, action, room.as_deref(), directory, &mut response)
    {
        let problem = work.app.explain(error);
        response.failed = true;
        response.text = describe_problem(&problem);
    }
    if let Some(room) = &room {
        let mut fields = serde_json::to_value(&response).expect("plain data becomes JSON");
        fields["line"] = request.line.trim().into();
        room.add_slash(&fields);
    }
    Ok(response)
}

impl SlashResponse {
    fn new(is_command: bool, answer: SlashAnswer) -> SlashResponse {
        let SlashAnswer { text, data, failed, action: _ } = answer;
        let (session, workspace, quit) = (None, None, false);
        SlashResponse { is_command, text, data, failed, session, workspace, quit }
    }
}

/// Returns true if an agent is working in the workspace of a directory.
fn is_working(work: &Work, directory: &Path) -> Result<bool, WorkError> {
    if !work.opened.has_store() {
        return Ok(false);
    }
    match find_workspace(&work.opened, directory) {
        Ok(workspace) => Ok(!work.working(&workspace)?.is_empty()),
        // The directory cannot be a workspace, so no agent is working in it.
        Err(_) => Ok(false),
    }
}

fn find_session_directory(work: &Work, session: &str) -> Result<PathBuf, WorkError> {
    let ledger = work.opened.ledger()?.ok_or_else(|| Problem::not_found("session"))?;
    let directory = ledger.session(session)?.workspace.map(PathBuf::from);
    Ok(directory.unwrap_or_else(|| work.app.chat.directory()))
}

/// Makes the change that a command asks for.
fn carry_out(
    work: &Work,
    action: SlashAction,
    room: Option<&Room>,
    directory: PathBuf,
    response: &mut SlashResponse,
) -> Result<(), WorkError> {
    let here = match room {
        Some(room) => JobPlace::Session(room.session()),
        None => JobPlace::New { directory, model: None },
    };
    let started = match action {
        SlashAction::Quit => {
            response.quit = true;
            return Ok(());
        }
        SlashAction::Open { session } => {
            response.session = Some(session);
            return Ok(());
        }
        SlashAction::Model { name } => {
            match room {
                Some(room) => room.set_model(&name),
                None => response.data = Some(json!({ "model": name })),
            }
            return Ok(());
        }
        SlashAction::Compress => {
            response.text = "Older turns are being summarized.".to_owned();
            start_job(work, &here, Job::Compress)?
        }
        SlashAction::StartGoal { objective, budget } => {
            response.text = "Working on the goal.".to_owned();
            start_job(work, &here, Job::StartGoal { objective, budget })?
        }
        SlashAction::ResumeGoal { goal, budget } => {
            let task = {
                let ledger = work.opened.ledger()?.ok_or_else(|| Problem::not_found("goal"))?;
                ledger.goal(&goal)?.task
            };
            response.text = "Continuing the work on the goal.".to_owned();
            let job = Job::ResumeGoal { goal, budget: Some(budget) };
            start_job(work, &JobPlace::Task(task), job)?
        }
    };
    let session = started.session;
    response.session =
        Some(session).filter(|session| room.is_none_or(|room| room.session() != *session));
    Ok(())
}

fn describe_problem(problem: &Problem) -> String {
    let causes = problem.causes.iter().map(|cause| format!("\n  because: {cause}"));
    let hint = problem.hint.as_ref().map(|hint| format!("\nhint: {hint}"));
    std::iter::once(format!("error: {}", problem.title)).chain(causes).chain(hint).collect()
}
