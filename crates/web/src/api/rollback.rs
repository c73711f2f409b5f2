//! Planning and applying rollbacks and undos.
//!
//! A plan is kept under its digest while the user decides. If the workspace has changed meanwhile,
//! applying the plan fails and returns the new plan. In this way, the server makes only changes
//! that the user has seen.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use takeback_tree::RelPath;
use takeback_undo::rollback::{apply as apply_plan, literal_path, plan as make_plan, roll_back};
use takeback_undo::{
    Destination, FileResolution, History, Planned, Request, Resolution, RollbackError,
    RollbackView, Scope, TurnUndo,
};
use utoipa::ToSchema;

use super::input::Body;
use crate::app::{App, Work};
use crate::events::Change;
use crate::problem::{Problem, WorkError};

/// The maximum number of paths in a request.
const MAX_PATHS: usize = 10_000;

/// A request for a plan.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanRequest {
    /// The id of the workspace.
    workspace: String,
    /// The id of a checkpoint: the state to return to, or the turn to undo.
    checkpoint: String,
    /// True to undo only the turn, and to keep what others have changed since the turn began.
    #[serde(default)]
    undo: bool,
    /// The files and directories to restore, relative to the workspace. If the list is empty,
    /// everything is restored.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    paths: Vec<RelPath>,
    /// `both`, `files` or `chat`.
    #[serde(default)]
    #[schema(value_type = String)]
    scope: Scope,
    /// For an undo: `leave`, `ours`, `theirs` or `markers`.
    #[serde(default)]
    #[schema(value_type = String)]
    conflicts: Resolution,
    /// For an undo: files whose conflicts are resolved in a different way.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    files: Vec<FileResolution>,
    /// For an undo: true to also take back changes that others may have made.
    #[serde(default)]
    uncertain: bool,
    /// For an undo: files whose changes are taken back even if others may have made them.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    taken: Vec<RelPath>,
    /// True to skip paths that cannot be restored.
    #[serde(default)]
    skip_blocked: bool,
}

/// A plan that is kept on the server.
#[derive(Serialize, ToSchema)]
pub(super) struct PlanAnswer {
    /// The id of the plan: a digest. Two plans have the same digest only if they make the same
    /// changes to the same state.
    digest: String,
    /// True if there is nothing to do.
    empty: bool,
    /// The sessions that are working in the workspace. While there are any, the plan is applied
    /// only with `while_working`.
    working: Vec<String>,
    /// The plan, as in `takeback rollback --dry-run --json`.
    #[schema(value_type = Object)]
    plan: RollbackView,
}

/// Plans a rollback or an undo. Changes nothing.
#[utoipa::path(post, path = "/api/v1/plan", tag = "rollback", request_body = PlanRequest, responses(
    (status = 200, body = PlanAnswer), (status = "default", body = Problem)))]
pub(super) async fn plan(
    State(app): State<Arc<App>>,
    Body(request): Body<PlanRequest>,
) -> Result<Json<PlanAnswer>, Problem> {
    let answer = app.work(move |work| {
        work.catch_up();
        let (request, planned) = plan_request(work, &request)?;
        keep_plan(work, request, planned)
    });
    Ok(Json(answer.await?))
}

/// The plan to apply.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ApplyRequest {
    /// The digest of a plan that this server made.
    digest: String,
    /// True to change files even if an agent is working in the workspace.
    #[serde(default)]
    while_working: bool,
}

/// Applies a plan. Fails with status 409 if the workspace has changed since the plan was made, or
/// while an agent is working in the workspace. The answer then contains the new plan (`now`), or
/// the sessions that are working there (`working`).
#[utoipa::path(post, path = "/api/v1/apply", tag = "rollback", request_body = ApplyRequest, responses(
    (status = 200, description = "What was done.", body = Object),
    (status = 409, description = "The plan no longer fits; `now` is the new one.", body = Problem),
    (status = "default", body = Problem)))]
pub(super) async fn apply(
    State(app): State<Arc<App>>,
    Body(ApplyRequest { digest, while_working }): Body<ApplyRequest>,
) -> Result<Json<RollbackView>, Problem> {
    let answer = app.work(move |work| {
        let Some(kept) = work.app.plans.find(&digest) else {
            return Err(Problem::new(404, "the server does not know this plan")
                .hint("plan again; the server keeps only the latest plans")
                .into());
        };
        if kept.planned.is_blocked() {
            return Err(blocked(kept.planned.view()).into());
        }
        if kept.planned.is_empty() {
            return Ok(kept.planned.into_view());
        }
        if !while_working {
            let store = work.opened.store()?;
            let id = store.workspace_id(&kept.request.directory);
            work.refuse_if_working(&work.workspace(&id.to_string())?)?;
        }
        let result = match apply_plan(&work.opened, kept.planned) {
            Err(RollbackError::Changed(_)) => {
                let planned = make_plan(&work.opened, &kept.request)?;
                return Err(changed(&keep_plan(work, kept.request, planned)?).into());
            }
            result => result?,
        };
        work.app.plans.forget(&digest);
        announce(work, &kept.request);
        Ok(result)
    });
    Ok(Json(answer.await?))
}

/// The workspace in which the last rollback is reversed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReverseRequest {
    /// The id of the workspace.
    workspace: String,
    /// True to skip paths that cannot be restored.
    #[serde(default)]
    skip_blocked: bool,
    /// True to change files even if an agent is working in the workspace.
    #[serde(default)]
    while_working: bool,
}

/// Takes back the last rollback or undo.
#[utoipa::path(post, path = "/api/v1/undo", tag = "rollback", request_body = ReverseRequest, responses(
    (status = 200, description = "What was done.", body = Object),
    (status = "default", body = Problem)))]
pub(super) async fn undo(
    State(app): State<Arc<App>>,
    Body(request): Body<ReverseRequest>,
) -> Result<Json<RollbackView>, Problem> {
    reverse(app, request, Destination::BeforeLastRollback).await
}

/// Repeats the rollback that was last taken back.
#[utoipa::path(post, path = "/api/v1/redo", tag = "rollback", request_body = ReverseRequest, responses(
    (status = 200, description = "What was done.", body = Object),
    (status = "default", body = Problem)))]
pub(super) async fn redo(
    State(app): State<Arc<App>>,
    Body(request): Body<ReverseRequest>,
) -> Result<Json<RollbackView>, Problem> {
    reverse(app, request, Destination::BeforeLastUndo).await
}

async fn reverse(
    app: Arc<App>,
    request: ReverseRequest,
    to: Destination,
) -> Result<Json<RollbackView>, Problem> {
    let answer = app.work(move |work| {
        work.catch_up();
        let known = work.workspace(&request.workspace)?;
        if !request.while_working {
            work.refuse_if_working(&known)?;
        }
        let directory = known.path;
        let skip_blocked = request.skip_blocked;
        let request = Request { skip_blocked, ..Request::new(directory, to) };
        let view = roll_back(&work.opened, &request)?;
        if !view.blocked.is_empty() {
            return Err(blocked(&view).into());
        }
        announce(work, &request);
        Ok(view)
    });
    Ok(Json(answer.await?))
}

/// Makes the plan that a request asks for.
fn plan_request(work: &Work, asked: &PlanRequest) -> Result<(Request, Planned), WorkError> {
    if asked.paths.len().max(asked.files.len()).max(asked.taken.len()) > MAX_PATHS {
        return Err(Problem::invalid(format!("more than {MAX_PATHS} paths")).into());
    }
    if asked.undo && !(asked.paths.is_empty() && asked.scope == Scope::Both) {
        return Err(Problem::invalid("an undo takes neither paths nor a scope").into());
    }
    let known = work.workspace(&asked.workspace)?;
    let history = History::read(known.store(), known.id())?;
    let found = history.find(known.store(), &asked.checkpoint)?.checkpoint.pin.id;
    let mut rows = history.rows();
    let row = rows.find(|row| row.steps().any(|step| step.pin.id == found));
    let to = match asked.undo {
        false => Destination::Checkpoint(found.to_string()),
        true => {
            let row = Some(row.ok_or_else(|| Problem::not_found("turn"))?.number);
            let (conflicts, uncertain) = (asked.conflicts, asked.uncertain);
            let (taken, files) = (asked.taken.clone(), asked.files.clone());
            Destination::WithoutTurn(TurnUndo { row, conflicts, uncertain, taken, files })
        }
    };
    let mut request = Request::new(&known.path, to);
    request.paths =
        asked.paths.iter().map(|path| literal_path(&known.path.join(path.as_path()))).collect();
    request.scope = asked.scope;
    request.skip_blocked = asked.skip_blocked;
    let planned = make_plan(&work.opened, &request)?;
    // Rows are numbered from the newest, so a checkpoint that was taken in the meantime shifts the
    // numbers.
    let is_meant = row.is_some_and(|row| planned.view().checkpoint == row.first().pin.id);
    if asked.undo && !is_meant {
        return Err(Problem::new(409, "a new turn began meanwhile").hint("try again").into());
    }
    Ok((request, planned))
}

fn keep_plan(work: &Work, request: Request, planned: Planned) -> Result<PlanAnswer, WorkError> {
    let id = work.opened.store()?.workspace_id(&request.directory);
    let working = work.working(&work.workspace(&id.to_string())?)?;
    let (empty, plan) = (planned.is_empty(), planned.view().clone());
    Ok(PlanAnswer { digest: work.app.plans.keep(request, planned), empty, working, plan })
}

/// Tells the other pages about a rollback immediately.
pub(super) fn announce(work: &Work, request: &Request) {
    if let Ok(store) = work.opened.store() {
        let id = store.workspace_id(&request.directory);
        work.app.hub.publish(Change::Workspace(id.to_string()));
    }
}

fn changed(now: &PlanAnswer) -> Problem {
    let now: Value = serde_json::to_value(now).expect("plain data becomes JSON");
    let problem =
        Problem::new(409, "the workspace has changed in the meantime; nothing was restored");
    Problem { now: Some(Box::new(now)), ..problem }.hint("read the new plan before you confirm it")
}

pub(super) fn blocked(view: &RollbackView) -> Problem {
    let line = |path: &takeback_tree::BlockedPath| {
        format!("{}: {}", path.path, takeback_base::text::disarm(&path.describe_reason()))
    };
    let causes = view.blocked.iter().take(20).map(line).collect();
    let problem = Problem::new(409, "nothing was changed: something is in the way");
    Problem { causes, ..problem }.hint("move the blocking files out of the way, or skip them")
}
