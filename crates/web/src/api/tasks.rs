//! The tasks and goals of takeback's own agent, and the pending notices of sessions.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use takeback_ledger::{Budget, TaskFilter};
use takeback_runtime::{CancelledTask, TaskView, cancel_task, list_goals, list_tasks};
use takeback_undo::rollback::{notice_text, read_notices};
use utoipa::{IntoParams, ToSchema};

use super::chats::{Nothing, StartedTurn, find_directory, find_room};
use super::input::{Body, Params};
use crate::app::{App, Work};
use crate::chat::{Job, JobPlace, SlashLine, start_job};
use crate::problem::{Problem, WorkError};
use crate::view::goal::{GoalView, view_goal};

/// The longest goal, in bytes.
const MAX_OBJECTIVE: usize = 64 << 10;

/// Lists the tasks of takeback's own agent, most recently changed first.
#[utoipa::path(get, path = "/api/v1/tasks", tag = "tasks", responses(
    (status = 200, body = [Object]), (status = "default", body = Problem)))]
pub(super) async fn list(State(app): State<Arc<App>>) -> Result<Json<Vec<TaskView>>, Problem> {
    let found = app.work(|work| match work.ledger()? {
        Some(ledger) => Ok(list_tasks(&ledger, &TaskFilter::default())?),
        None => Ok(Vec::new()),
    });
    Ok(Json(found.await?))
}

/// Continues an interrupted task at the exact step where it stopped.
#[utoipa::path(post, path = "/api/v1/tasks/{id}/resume", tag = "tasks", request_body = Nothing,
    params(("id" = String, Path, description = "The id of the task, or the beginning of its id.")), responses(
    (status = 202, body = StartedTurn), (status = "default", body = Problem)))]
pub(super) async fn resume(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(_): Body<Nothing>,
) -> Result<(StatusCode, Json<StartedTurn>), Problem> {
    let started = app.work(move |work| {
        let id = find_task(work, &id)?;
        Ok(start_job(work, &JobPlace::Task(id), Job::Proceed)?.into())
    });
    Ok((StatusCode::ACCEPTED, Json(started.await?)))
}

fn find_task(work: &Work, typed: &str) -> Result<String, WorkError> {
    let ledger = work.opened.ledger()?.ok_or_else(|| Problem::not_found("task"))?;
    Ok(ledger.resolve_task(typed)?)
}

/// A task that was cancelled.
#[derive(Serialize, ToSchema)]
pub(super) struct CancelledView {
    id: String,
    /// `stopping` (the task stops at its next step), or `idle`.
    state: &'static str,
}

/// Stops a running turn, or ends an interrupted one. Everything that the turn has done is kept.
#[utoipa::path(post, path = "/api/v1/tasks/{id}/cancel", tag = "tasks", request_body = Nothing,
    params(("id" = String, Path, description = "The id of the task, or the beginning of its id.")), responses(
    (status = 200, body = CancelledView), (status = "default", body = Problem)))]
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(_): Body<Nothing>,
) -> Result<Json<CancelledView>, Problem> {
    let cancelled = app.work(move |work| {
        let id = find_task(work, &id)?;
        let session = {
            let ledger = work.opened.ledger()?.ok_or_else(|| Problem::not_found("task"))?;
            ledger.task(&id)?.session
        };
        if find_room(work, &session)?.stop() {
            return Ok(CancelledView { id, state: "stopping" });
        }
        work.opened.close_ledger();
        let shared = work.app.chat.shared_journal()?;
        let state = match cancel_task(&work.opened, shared.as_ref(), &id)? {
            CancelledTask::Stopping => "stopping",
            CancelledTask::Ended | CancelledTask::Idle => "idle",
        };
        Ok(CancelledView { id, state })
    });
    Ok(Json(cancelled.await?))
}

/// Lists the goals, most recently changed first.
#[utoipa::path(get, path = "/api/v1/goals", tag = "tasks", responses(
    (status = 200, body = [GoalView]), (status = "default", body = Problem)))]
pub(super) async fn goals(State(app): State<Arc<App>>) -> Result<Json<Vec<GoalView>>, Problem> {
    let goals = app.work(|work| Ok(list_goals(&work.opened)?)).await?;
    Ok(Json(goals.iter().map(view_goal).collect()))
}

/// A goal to work on.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewGoal {
    /// The goal, in the user's words.
    objective: String,
    /// The session to work in. Without it, a new conversation begins.
    session: Option<String>,
    /// The id of the workspace, if there is no session.
    workspace: Option<String>,
    /// The maximum number of tokens.
    #[schema(minimum = 1)]
    tokens: Option<i64>,
    /// The maximum cost in US dollars.
    usd: Option<f64>,
    /// The maximum time in minutes.
    #[schema(minimum = 1)]
    minutes: Option<u64>,
    /// The maximum number of turns.
    #[schema(minimum = 1)]
    turns: Option<i64>,
}

impl NewGoal {
    fn budget(&self) -> Result<Budget, Problem> {
        let NewGoal { tokens, usd, minutes, turns, .. } = *self;
        let is_valid = tokens.is_none_or(|tokens| tokens > 0)
            && usd.is_none_or(|usd| usd.is_finite() && usd > 0.0)
            && minutes.is_none_or(|minutes| (1..=10_000_000).contains(&minutes))
            && turns.is_none_or(|turns| turns > 0);
        if !is_valid {
            return Err(Problem::invalid("each limit must be larger than 0"));
        }
        let time = minutes.map(|minutes| Duration::from_secs(60 * minutes));
        Ok(Budget { tokens, usd, time, turns })
    }
}

/// Begins to work on a goal, in the background.
#[utoipa::path(post, path = "/api/v1/goals", tag = "tasks", request_body = NewGoal, responses(
    (status = 202, body = StartedTurn), (status = "default", body = Problem)))]
pub(super) async fn start_goal(
    State(app): State<Arc<App>>,
    Body(new): Body<NewGoal>,
) -> Result<(StatusCode, Json<StartedTurn>), Problem> {
    let objective = new.objective.trim().to_owned();
    if objective.is_empty() || objective.len() > MAX_OBJECTIVE {
        return Err(Problem::invalid("the goal is empty or too long"));
    }
    let budget = new.budget()?;
    let started = app.work(move |work| {
        let place = match &new.session {
            Some(session) => JobPlace::Session(find_room(work, session)?.session()),
            None => {
                let directory = find_directory(work, new.workspace.as_deref())?;
                JobPlace::New { directory, model: None }
            }
        };
        Ok(start_job(work, &place, Job::StartGoal { objective, budget })?.into())
    });
    Ok((StatusCode::ACCEPTED, Json(started.await?)))
}

/// Continues the work on a goal. What was spent earlier does not count against the budget.
#[utoipa::path(post, path = "/api/v1/goals/{id}/resume", tag = "tasks", request_body = Nothing,
    params(("id" = String, Path, description = "The id of the goal, or the beginning of its id.")), responses(
    (status = 202, body = StartedTurn), (status = "default", body = Problem)))]
pub(super) async fn resume_goal(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(_): Body<Nothing>,
) -> Result<(StatusCode, Json<StartedTurn>), Problem> {
    let started = app.work(move |work| {
        let goal = {
            let ledger = work.opened.ledger()?.ok_or_else(|| Problem::not_found("goal"))?;
            ledger.goal(&ledger.resolve_goal(&id)?)?
        };
        let job = Job::ResumeGoal { goal: goal.id, budget: None };
        Ok(start_job(work, &JobPlace::Task(goal.task), job)?.into())
    });
    Ok((StatusCode::ACCEPTED, Json(started.await?)))
}

/// Pauses a goal, and stops the turn that is working on it.
#[utoipa::path(post, path = "/api/v1/goals/{id}/pause", tag = "tasks", request_body = Nothing,
    params(("id" = String, Path, description = "The id of the goal, or the beginning of its id.")), responses(
    (status = 200, body = GoalView), (status = "default", body = Problem)))]
pub(super) async fn pause_goal(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(_): Body<Nothing>,
) -> Result<Json<GoalView>, Problem> {
    Ok(Json(app.work(move |work| change_goal(work, &id, "pause")).await?))
}

/// Gives up a goal. Everything that was done for the goal is kept.
#[utoipa::path(post, path = "/api/v1/goals/{id}/cancel", tag = "tasks", request_body = Nothing,
    params(("id" = String, Path, description = "The id of the goal, or the beginning of its id.")), responses(
    (status = 200, body = GoalView), (status = "default", body = Problem)))]
pub(super) async fn cancel_goal(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(_): Body<Nothing>,
) -> Result<Json<GoalView>, Problem> {
    Ok(Json(app.work(move |work| change_goal(work, &id, "cancel")).await?))
}

/// Pauses or gives up a goal with the corresponding slash command.
fn change_goal(work: &Work, typed: &str, verb: &str) -> Result<GoalView, WorkError> {
    let find = |id: &str| {
        let ledger = work.opened.ledger()?.ok_or_else(|| Problem::not_found("goal"))?;
        Ok::<_, WorkError>(ledger.goal(&ledger.resolve_goal(id)?)?)
    };
    let goal = find(typed)?;
    let line = format!("/goal {verb} {}", goal.id);
    let directory = work.app.chat.directory();
    let line = SlashLine {
        text: &line,
        session: None,
        model: None,
        directory: &directory,
        is_busy: false,
    };
    let answer = work.app.chat.answer_slash(&line);
    if let Some(failed) = answer.filter(|answer| answer.failed) {
        return Err(Problem::new(409, failed.text).into());
    }
    // If a turn for the goal is running in this process, stop that turn immediately.
    let session = {
        let ledger = work.opened.ledger()?.ok_or_else(|| Problem::not_found("goal"))?;
        ledger.task(&goal.task)?.session
    };
    if let Some(room) = work.app.rooms.find(&session) {
        room.stop();
    }
    Ok(view_goal(&find(&goal.id)?))
}

/// The session whose notices a client requests.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct NoticesQuery {
    /// The id of the session, or the beginning of its id.
    session: String,
}

/// The pending notices of a session.
#[derive(Serialize, ToSchema)]
pub(super) struct NoticesAnswer {
    session: String,
    /// The number of notices.
    count: usize,
    /// The text that the agent reads before its next turn; null if there are no notices.
    text: Option<String>,
}

/// Returns the notices that a session's agent will read before its next turn. They remain pending
/// until then.
#[utoipa::path(get, path = "/api/v1/notices", tag = "sessions", params(NoticesQuery), responses(
    (status = 200, body = NoticesAnswer), (status = "default", body = Problem)))]
pub(super) async fn notices(
    State(app): State<Arc<App>>,
    Params(query): Params<NoticesQuery>,
) -> Result<Json<NoticesAnswer>, Problem> {
    let answer = app.work(move |work| {
        let ledger = work.ledger()?.ok_or_else(|| Problem::not_found("session"))?;
        let session = ledger.resolve(&query.session)?;
        let (notices, _) = read_notices(&ledger, &session)?;
        Ok(NoticesAnswer { session, count: notices.len(), text: notice_text(&notices) })
    });
    Ok(Json(answer.await?))
}
