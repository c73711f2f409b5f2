//! Conversations with takeback's own agent: prompts, events, questions, and the stop button.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{KeepAlive, Sse};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use takeback_ledger::{GoalRecord, TaskFilter};
use takeback_runtime::{Answer, list_goals, list_tasks};
use utoipa::{IntoParams, ToSchema};

use super::input::{Body, Params};
use super::streams::read_last_event;
use crate::app::{App, Work};
use crate::chat::{Job, JobPlace, Room, StartedJob, start_job};
use crate::events::{EventStream, start_watching};
use crate::problem::{Problem, WorkError};
use crate::view::goal::{GoalView, view_goal};

/// The longest prompt, in bytes.
const MAX_PROMPT: usize = 256 << 10;

/// The longest name of a model, in bytes.
const MAX_NAME: usize = 200;

/// A conversation to begin.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewChat {
    prompt: String,
    /// The id of the workspace. Without it, the agent works in the directory of the server.
    workspace: Option<String>,
    /// The model. Without it, the agent uses the model in the settings.
    model: Option<String>,
}

/// The conversation in which a turn has begun.
#[derive(Serialize, ToSchema)]
pub(super) struct StartedTurn {
    /// The id of the session.
    pub(super) session: String,
    /// The id of the last event before the turn. A stream after this event has the whole turn.
    pub(super) last_event: u64,
}

impl From<StartedJob> for StartedTurn {
    fn from(StartedJob { session, last_event }: StartedJob) -> StartedTurn {
        StartedTurn { session, last_event }
    }
}

/// Begins a conversation with a prompt. The turn runs in the background.
#[utoipa::path(post, path = "/api/v1/chats", tag = "chat", request_body = NewChat, responses(
    (status = 202, body = StartedTurn), (status = "default", body = Problem)))]
pub(super) async fn begin(
    State(app): State<Arc<App>>,
    Body(new): Body<NewChat>,
) -> Result<(StatusCode, Json<StartedTurn>), Problem> {
    check_prompt(&new.prompt)?;
    if new.model.as_ref().is_some_and(|model| model.is_empty() || model.len() > MAX_NAME) {
        return Err(Problem::invalid("the name of the model is empty or too long"));
    }
    let started = app.work(move |work| {
        let directory = find_directory(work, new.workspace.as_deref())?;
        let place = JobPlace::New { directory, model: new.model };
        Ok(start_job(work, &place, Job::Prompt(new.prompt))?.into())
    });
    Ok((StatusCode::ACCEPTED, Json(started.await?)))
}

/// Finds the directory of a conversation. A client can choose only workspaces that have
/// checkpoints.
pub(super) fn find_directory(work: &Work, workspace: Option<&str>) -> Result<PathBuf, WorkError> {
    let directory = match workspace {
        Some(id) => work.workspace(id)?.path,
        None => work.app.chat.directory(),
    };
    match directory.is_dir() {
        true => Ok(directory),
        false => Err(Problem::new(409, "the agent needs a directory to work in")
            .hint("choose another workspace")
            .into()),
    }
}

fn check_prompt(prompt: &str) -> Result<(), Problem> {
    if prompt.trim().is_empty() {
        return Err(Problem::invalid("the prompt is empty"));
    }
    if prompt.len() > MAX_PROMPT {
        return Err(Problem::new(413, format!("the prompt is longer than {MAX_PROMPT} bytes"))
            .hint("write it to a file in the workspace, and ask the agent to read it"));
    }
    Ok(())
}

/// Finds the room of the session that a client names.
pub(super) fn find_room(work: &Work, typed: &str) -> Result<Arc<Room>, WorkError> {
    // Since the client received this id, the conversation may have moved to another session.
    if let Some(room) = work.app.rooms.find(typed) {
        return Ok(room);
    }
    let session = {
        let ledger = work.opened.ledger()?.ok_or_else(|| Problem::not_found("session"))?;
        ledger.resolve(typed)?
    };
    work.app.rooms.enter(&work.opened, &session)
}

/// The prompt of a new turn.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewTurn {
    prompt: String,
}

/// Begins a turn in a conversation. Fails with status 409 while another one is running there.
#[utoipa::path(post, path = "/api/v1/chats/{session}/turns", tag = "chat", request_body = NewTurn,
    params(("session" = String, Path, description = "The id of the session.")), responses(
    (status = 202, body = StartedTurn), (status = "default", body = Problem)))]
pub(super) async fn prompt(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    Body(turn): Body<NewTurn>,
) -> Result<(StatusCode, Json<StartedTurn>), Problem> {
    check_prompt(&turn.prompt)?;
    start_in(app, session, Job::Prompt(turn.prompt)).await
}

/// A request body without data: `{}`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// Continues an interrupted turn, or a turn that is waiting for an answer.
#[utoipa::path(post, path = "/api/v1/chats/{session}/resume", tag = "chat", request_body = Nothing,
    params(("session" = String, Path, description = "The id of the session.")), responses(
    (status = 202, body = StartedTurn), (status = "default", body = Problem)))]
pub(super) async fn resume(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    Body(_): Body<Nothing>,
) -> Result<(StatusCode, Json<StartedTurn>), Problem> {
    start_in(app, session, Job::Proceed).await
}

async fn start_in(
    app: Arc<App>,
    session: String,
    job: Job,
) -> Result<(StatusCode, Json<StartedTurn>), Problem> {
    let started = app.work(move |work| {
        let place = JobPlace::Session(find_room(work, &session)?.session());
        Ok(start_job(work, &place, job)?.into())
    });
    Ok((StatusCode::ACCEPTED, Json(started.await?)))
}

/// The result of a request to stop.
#[derive(Serialize, ToSchema)]
pub(super) struct Stopped {
    /// True if a turn was running.
    stopped: bool,
}

/// Stops the running turn. Everything that the turn has done is kept.
#[utoipa::path(post, path = "/api/v1/chats/{session}/stop", tag = "chat", request_body = Nothing,
    params(("session" = String, Path, description = "The id of the session.")), responses(
    (status = 200, body = Stopped), (status = "default", body = Problem)))]
pub(super) async fn stop(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    Body(_): Body<Nothing>,
) -> Result<Json<Stopped>, Problem> {
    let stopped = app.work(move |work| Ok(find_room(work, &session)?.stop())).await?;
    Ok(Json(Stopped { stopped }))
}

/// The answer to a question.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerRequest {
    /// The number of the question, from its event.
    question: u64,
    answer: AnswerKind,
    /// The reason for a refusal, or an instruction to do something else. The model reads it.
    #[serde(default)]
    reason: String,
}

#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum AnswerKind {
    /// The call may be made.
    Allow,
    /// This call and later calls that begin the same way may be made.
    Always,
    /// The call must not be made.
    Deny,
}

/// A question that has just been answered.
#[derive(Serialize, ToSchema)]
pub(super) struct Answered {
    question: u64,
}

/// Answers a question about a tool call. Fails with status 409 if the question is already answered.
#[utoipa::path(post, path = "/api/v1/chats/{session}/answers", tag = "chat",
    request_body = AnswerRequest,
    params(("session" = String, Path, description = "The id of the session.")), responses(
    (status = 200, body = Answered), (status = "default", body = Problem)))]
pub(super) async fn answer(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    Body(request): Body<AnswerRequest>,
) -> Result<Json<Answered>, Problem> {
    let AnswerRequest { question, answer, reason } = request;
    if reason.len() > MAX_PROMPT {
        return Err(Problem::invalid("the reason is too long"));
    }
    let answer = match (answer, reason.trim()) {
        (AnswerKind::Allow, _) => Answer::Allow,
        (AnswerKind::Always, _) => Answer::AllowAlways,
        (AnswerKind::Deny, "") => Answer::Deny("the user said no".to_owned()),
        (AnswerKind::Deny, reason) => Answer::Deny(format!("the user said: {reason}")),
    };
    app.work(move |work| Ok(find_room(work, &session)?.answer(question, answer)?)).await?;
    Ok(Json(Answered { question }))
}

/// The state of a conversation.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChatState {
    pub(crate) session: String,
    pub(crate) title: Option<String>,
    /// The first prompt.
    pub(crate) first_prompt: Option<String>,
    /// The directory that the agent works in.
    pub(crate) directory: Option<String>,
    pub(crate) model: Option<String>,
    /// `running` (in this server), `elsewhere` (running in another process), `waiting` (for an
    /// answer), `interrupted` or `idle`.
    pub(crate) state: String,
    /// True if the running turn has been asked to stop.
    pub(crate) stopping: bool,
    /// The number of the last message before the live entries.
    pub(crate) base: i64,
    /// The running turn so far, and the answers to slash commands. The entries have the form of
    /// events.
    #[schema(value_type = Vec<Object>)]
    pub(crate) live: Vec<Value>,
    /// The outcome of the last turn, unless the turn was completed.
    #[schema(value_type = Option<Object>)]
    pub(crate) last_end: Option<Value>,
    /// The id of the latest event. A stream that begins after this event continues where this state
    /// ends.
    pub(crate) last_event: u64,
    pub(crate) requests: i64,
    pub(crate) tokens_in: i64,
    pub(crate) tokens_out: i64,
    /// The cost in US dollars, if the prices are known.
    pub(crate) cost: Option<f64>,
    pub(crate) goals: Vec<GoalView>,
}

/// Returns the state of a conversation, for a client that begins to follow it.
#[utoipa::path(get, path = "/api/v1/chats/{session}", tag = "chat",
    params(("session" = String, Path, description = "The id of the session.")), responses(
    (status = 200, body = ChatState), (status = "default", body = Problem)))]
pub(super) async fn state(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
) -> Result<Json<ChatState>, Problem> {
    Ok(Json(app.work(move |work| read_chat(work, &session)).await?))
}

/// Reads the state of a conversation.
pub(crate) fn read_chat(work: &Work, session: &str) -> Result<ChatState, WorkError> {
    let room = find_room(work, session)?;
    // The room is read before the ledger, so the stream repeats anything that happens between the
    // two reads.
    let view = room.view();
    let goals = list_goals(&work.opened)?;
    let ledger = work.opened.ledger()?.ok_or_else(|| Problem::not_found("session"))?;
    let record = ledger.session(&view.session)?;
    let filter = TaskFilter { session: Some(view.session.clone()), ..TaskFilter::default() };
    let task = list_tasks(&ledger, &filter)?.into_iter().next();
    let state = match (view.is_busy, task.as_ref().map(|task| task.state.as_str())) {
        (true, _) => "running",
        (false, Some("running" | "stopping")) => "elsewhere",
        (false, Some(state)) => state,
        (false, None) => "idle",
    };
    let first = ledger.turns(&view.session)?.first().map(|turn| turn.first_seq);
    let first_prompt = match first {
        Some(seq) => ledger.prompt(&view.session, seq)?,
        None => None,
    };
    let is_own = |goal: &&GoalRecord| task.as_ref().is_some_and(|task| task.id == goal.task);
    let tokens = record.tokens;
    Ok(ChatState {
        session: view.session,
        title: record.title,
        first_prompt,
        directory: record.workspace,
        model: view.model.or(record.model),
        state: state.to_owned(),
        stopping: view.is_stopping,
        base: view.base,
        live: view.live,
        last_end: view.last_end,
        last_event: view.last_event,
        requests: record.api_call_count,
        tokens_in: tokens.input + tokens.cache_read + tokens.cache_write,
        tokens_out: tokens.output + tokens.reasoning,
        cost: record.actual_cost_usd.or(record.estimated_cost_usd),
        goals: goals.iter().filter(is_own).map(view_goal).collect(),
    })
}

/// The point at which a stream begins.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct StreamQuery {
    /// Only events after the event with this id. The header `Last-Event-ID` takes precedence.
    after: Option<u64>,
}

/// Streams a conversation.
///
/// The events of a turn are `turn_started`, `text`, `html` (the blocks of the answer that are
/// finished, and the `rest` after them), `reasoning`, `call_started`, `call_output`, `call_ended`,
/// `question`, `answered`, `retrying`, `continuing`, `failed_over`, `compressed`, `warning` and
/// `turn_ended`. `idle` follows when the next prompt can be sent. `slash` is the answer to a
/// command. `session` names another session in which the conversation continues. `changed` reports
/// a change that another process made, and `stopping` a request to stop. `ready` follows the missed
/// events; `gap` takes the place of events that the server no longer has. Later events have larger
/// ids.
#[utoipa::path(get, path = "/api/v1/chats/{session}/events", tag = "chat", params(
    ("session" = String, Path, description = "The id of the session."), StreamQuery,
    ("Last-Event-ID" = Option<u64>, Header, description = "The id of the last event that was received.")),
    responses((status = 200, description = "Server-sent events.", content_type = "text/event-stream",
        body = String), (status = "default", body = Problem)))]
pub(super) async fn events(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    Params(query): Params<StreamQuery>,
    headers: HeaderMap,
) -> Result<
    Sse<impl futures_core::Stream<Item = <EventStream as futures_core::Stream>::Item>>,
    Problem,
> {
    let last = read_last_event(&headers)?.or(query.after);
    let stream = app.work(move |work| Ok(find_room(work, &session)?.subscribe(last)?)).await?;
    if app.rooms.is_stopping() {
        return Err(Problem::new(503, "the server is stopping"));
    }
    start_watching(&app);
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(20))))
}
