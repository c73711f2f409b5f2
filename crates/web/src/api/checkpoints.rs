//! Workspaces, checkpoints and diffs.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use takeback_tree::{Diff, Oid, RelPath, StoreError, TreeChange};
use takeback_undo::history::{open_workspace, take_checkpoint};
use takeback_undo::retention::limit_rows;
use takeback_undo::{CheckpointOptions, CheckpointView};
use utoipa::{IntoParams, ToSchema};

use super::input::{Body, Params};
use crate::app::{App, Work};
use crate::events::look_at;
use crate::problem::Problem;
use crate::view::filter::{Filter, FilterQuery};
use crate::view::timeline::{Entry, Timeline, take_page};
use crate::view::turn::Compared;

/// The number of entries in a page, unless the request asks for a different number.
const PAGE: usize = 50;

/// The maximum number of entries in a page.
const MAX_PAGE: usize = 500;

/// The maximum number of lines in a diff.
const MAX_LINES: usize = 20_000;

/// A workspace that has checkpoints.
#[derive(Serialize, ToSchema)]
pub(super) struct WorkspaceView {
    /// The id of the workspace: 16 hexadecimal digits.
    id: String,
    /// The directory, or the single file.
    path: String,
    /// The time of the last use: RFC 3339 in UTC.
    last_seen: String,
}

/// Lists the workspaces that have checkpoints, the most recently used first.
#[utoipa::path(get, path = "/api/v1/workspaces", tag = "checkpoints", responses(
    (status = 200, body = [WorkspaceView]), (status = "default", body = Problem)))]
pub(super) async fn workspaces(
    State(app): State<Arc<App>>,
) -> Result<Json<Vec<WorkspaceView>>, Problem> {
    let known = app.work(Work::workspaces).await?;
    let view = |known: crate::view::timeline::WorkspaceSummary| WorkspaceView {
        path: known.path.to_string_lossy().into_owned(),
        last_seen: known.last_seen.rfc3339(),
        id: known.id,
    };
    Ok(Json(known.into_iter().map(view).collect()))
}

/// The part of the list that a client requests.
#[derive(Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// Only entries of this workspace, given by its id.
    workspace: Option<String>,
    /// The maximum number of entries.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// Only turns of this agent.
    agent: String,
    /// Only turns of this session.
    session: String,
    /// Only turns whose prompt, reason, name or commands contain these words.
    text: String,
    /// Only turns that changed this file or directory, relative to the workspace.
    file: String,
    /// Only entries on this day or later: `2026-11-18`.
    since: String,
    /// Only entries on this day or earlier: `2026-11-18`.
    until: String,
    /// Only entries older than this position, which an earlier page returned as `next`.
    before: String,
}

/// A page of a list.
#[derive(Serialize, ToSchema)]
pub(super) struct EntryPage {
    /// The entries, newest first: rows as in `takeback list --json`, and rollbacks.
    #[schema(value_type = Vec<Object>)]
    entries: Vec<Value>,
    /// The value of `before` for the next page; null if this is the last one.
    next: Option<String>,
    /// The total number of entries that match.
    total: usize,
}

/// Lists turns, checkpoints and rollbacks, newest first.
#[utoipa::path(get, path = "/api/v1/checkpoints", tag = "checkpoints", params(PageQuery), responses(
    (status = 200, body = EntryPage), (status = "default", body = Problem)))]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    RawQuery(key): RawQuery,
    Params(query): Params<PageQuery>,
) -> Result<Response, Problem> {
    let key = key.unwrap_or_default();
    if let Some(answer) = app.find_answer(&key) {
        return Ok(json_response(answer));
    }
    let limit = query.limit.unwrap_or(PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(Problem::invalid(format!("limit must be between 1 and {MAX_PAGE}")));
    }
    let PageQuery { workspace, agent, session, text, file, since, until, before, .. } = query;
    let filter = FilterQuery { agent, session, text, file, since, until, before };
    let filter = Filter::new(filter, &app.zone)?;
    let answer = app.work(move |work| {
        let (now, seen) = (work.opened.now(), look_at(&work.opened));
        let timelines = match workspace {
            Some(id) => vec![work.timeline(&id)?],
            None => work.all_timelines()?,
        };
        let filter = filter.find_rows(work, &timelines)?;
        let page = take_page(&timelines, &filter, limit);
        let entry = |(timeline, place): &(Arc<Timeline>, usize)| {
            let entry: &Entry = &timeline.entries[*place];
            let mut value = serde_json::to_value(entry).expect("plain data becomes JSON");
            value["workspace"] = json!(timeline.id);
            value
        };
        let page = EntryPage {
            entries: page.entries.iter().map(entry).collect(),
            next: page.next.map(|next| next.to_string()),
            total: page.total,
        };
        let answer = Bytes::from(serde_json::to_vec(&page).expect("plain data becomes JSON"));
        work.app.answers.keep(key, seen, now, answer.clone());
        Ok(answer)
    });
    Ok(json_response(answer.await?))
}

fn json_response(body: Bytes) -> Response {
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

/// Shows a turn or checkpoint in full.
#[utoipa::path(get, path = "/api/v1/checkpoints/{workspace}/{id}", tag = "checkpoints", params(
    ("workspace" = String, Path, description = "The id of the workspace."),
    ("id" = String, Path, description = "The id of the checkpoint, the beginning of its id, or its name.")),
    responses((status = 200, body = Object), (status = "default", body = Problem)))]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path((workspace, id)): Path<(String, String)>,
) -> Result<Json<CheckpointView>, Problem> {
    let view = app.work(move |work| {
        let changes = work.changes(&workspace, &id, &Compared::Turn, &[])?;
        let turn = work.turn(&workspace, &id)?;
        Ok(CheckpointView { changes, ..turn.checkpoint })
    });
    Ok(Json(view.await?))
}

/// The two states to compare, and the files to show.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct DiffQuery {
    /// The id of the workspace.
    workspace: String,
    /// The id of the checkpoint.
    checkpoint: String,
    /// `turn` for the turn's own changes, `now` for all changes since the checkpoint, or the id of
    /// another checkpoint.
    #[serde(default)]
    to: String,
    /// Only this file or directory.
    path: Option<String>,
}

/// The differences between two states.
#[derive(Serialize, ToSchema)]
pub(super) struct DiffAnswer {
    files_changed: usize,
    insertions: u64,
    deletions: u64,
    /// The changes, sorted by path, as in `takeback diff --json`.
    #[schema(value_type = Vec<Object>)]
    changes: Vec<TreeChange>,
    /// The diff in git's format, without private files.
    diff: String,
    /// The number of lines that were left out.
    left_out: usize,
}

/// Compares a checkpoint with another state.
#[utoipa::path(get, path = "/api/v1/diff", tag = "checkpoints", params(DiffQuery), responses(
    (status = 200, body = DiffAnswer), (status = "default", body = Problem)))]
pub(super) async fn diff(
    State(app): State<Arc<App>>,
    Params(query): Params<DiffQuery>,
) -> Result<Json<DiffAnswer>, Problem> {
    let answer = app.work(move |work| {
        let DiffQuery { workspace, checkpoint, to, path } = query;
        let paths = path.map(|path| RelPath::new(path.into_bytes())).transpose();
        let paths: Vec<RelPath> =
            paths.map_err(|error| Problem::invalid(error.to_string()))?.into_iter().collect();
        let changes = work.changes(&workspace, &checkpoint, &Compared::parse(&to), &paths)?;
        let store = work.workspace(&workspace)?.store();
        // The text depends only on the changes, not on the trees that they come from.
        let diff = Diff { from: Oid::EMPTY_TREE, to: Oid::EMPTY_TREE, changes };
        let unified = diff.to_unified(store, Some(MAX_LINES)).map_err(StoreError::from)?;
        let counts = diff.changes.iter().filter_map(|change| change.lines);
        let (insertions, deletions) =
            counts.fold((0, 0), |sum, lines| (sum.0 + lines.insertions, sum.1 + lines.deletions));
        Ok(DiffAnswer {
            files_changed: diff.changes.len(),
            insertions,
            deletions,
            changes: diff.changes,
            diff: String::from_utf8_lossy(&unified.text).into_owned(),
            left_out: unified.left_out,
        })
    });
    Ok(Json(answer.await?))
}

/// A request to take a checkpoint.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewCheckpoint {
    /// The id of the workspace.
    workspace: String,
    reason: Option<String>,
    /// A name, which also protects the checkpoint from pruning.
    name: Option<String>,
    /// True if the checkpoint must never be pruned.
    #[serde(default)]
    pinned: bool,
}

/// The checkpoint that holds the current state.
#[derive(Serialize, ToSchema)]
pub(super) struct NewCheckpointAnswer {
    id: String,
    /// False if nothing has changed since an earlier checkpoint, which is returned instead.
    created: bool,
}

/// Takes a checkpoint of the current state.
#[utoipa::path(post, path = "/api/v1/checkpoints", tag = "checkpoints", request_body = NewCheckpoint,
    responses((status = 201, body = NewCheckpointAnswer), (status = "default", body = Problem)))]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Body(new): Body<NewCheckpoint>,
) -> Result<(StatusCode, Json<NewCheckpointAnswer>), Problem> {
    let taken = app.work(move |work| {
        let known = work.workspace(&new.workspace)?;
        let NewCheckpoint { reason, name, pinned, .. } = new;
        let options = CheckpointOptions { reason, name, pinned };
        let workspace = open_workspace(&work.opened, &known.path)?;
        let taken = take_checkpoint(&work.opened, &workspace, &options)?;
        if taken.is_new {
            // A failure is harmless: the limit is enforced again after the next checkpoint.
            let _ = limit_rows(&work.opened, workspace.id());
        }
        let id = taken.checkpoint.pin.id.to_string();
        Ok(NewCheckpointAnswer { id, created: taken.is_new })
    });
    Ok((StatusCode::CREATED, Json(taken.await?)))
}
