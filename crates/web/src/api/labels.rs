//! Changing and deleting single checkpoints, and pruning.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Deserializer, Serialize};
use takeback_tree::Oid;
use takeback_undo::history::label_checkpoint;
use takeback_undo::retention::{delete_checkpoint, prune as prune_store};
use takeback_undo::{DeletedCheckpoint, LabelChange, PruneOptions, PruneReport};
use utoipa::ToSchema;

use super::input::Body;
use crate::app::App;
use crate::events::Change;
use crate::problem::Problem;
use crate::view::turn::check_id;

/// A change to a checkpoint. An omitted field keeps its value.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LabelRequest {
    /// The new name; null removes the name.
    #[serde(default, deserialize_with = "read_given")]
    #[schema(value_type = Option<String>)]
    name: Option<Option<String>>,
    /// True if the checkpoint must never be pruned.
    pinned: Option<bool>,
}

/// Reads a field so that null differs from an omitted field.
fn read_given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// A checkpoint whose name or protection was changed.
#[derive(Serialize, ToSchema)]
pub(super) struct LabelAnswer {
    #[schema(value_type = String)]
    id: Oid,
    name: Option<String>,
    pinned: bool,
}

/// Changes the name or the protection of a checkpoint.
#[utoipa::path(patch, path = "/api/v1/checkpoints/{workspace}/{id}", tag = "checkpoints", params(
    ("workspace" = String, Path, description = "The id of the workspace."),
    ("id" = String, Path, description = "The id of the checkpoint, the beginning of its id, or its name.")),
    request_body = LabelRequest,
    responses((status = 200, body = LabelAnswer), (status = "default", body = Problem)))]
pub(super) async fn label(
    State(app): State<Arc<App>>,
    Path((workspace, id)): Path<(String, String)>,
    Body(LabelRequest { name, pinned }): Body<LabelRequest>,
) -> Result<Json<LabelAnswer>, Problem> {
    let answer = app.work(move |work| {
        check_id(&id)?;
        let known = work.workspace(&workspace)?;
        let found = label_checkpoint(&known, &id, &LabelChange { name, pinned })?;
        work.app.hub.publish(Change::Workspace(workspace));
        let record = found.record;
        Ok(LabelAnswer { id: found.pin.id, name: record.name, pinned: record.pinned })
    });
    Ok(Json(answer.await?))
}

/// Deletes a checkpoint, or a turn with its steps. This cannot be undone.
#[utoipa::path(delete, path = "/api/v1/checkpoints/{workspace}/{id}", tag = "checkpoints", params(
    ("workspace" = String, Path, description = "The id of the workspace."),
    ("id" = String, Path, description = "The id of the checkpoint, the beginning of its id, or its name.")),
    responses((status = 200, description = "What was deleted.", body = Object),
        (status = "default", body = Problem)))]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path((workspace, id)): Path<(String, String)>,
) -> Result<Json<DeletedCheckpoint>, Problem> {
    let answer = app.work(move |work| {
        check_id(&id)?;
        let known = work.workspace(&workspace)?;
        let deleted = delete_checkpoint(&work.opened, &known, &id)?;
        work.app.hub.publish(Change::Workspace(workspace));
        Ok(deleted)
    });
    Ok(Json(answer.await?))
}

/// The limits to prune by. An omitted limit takes its value from the settings.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PruneRequest {
    /// False to delete the checkpoints. If this is true or omitted, the answer only shows what
    /// would be deleted.
    #[serde(default = "yes")]
    dry_run: bool,
    /// Workspaces that have not been used for this many days lose their history.
    retention_days: Option<u64>,
    /// The maximum size of the store.
    max_size_mb: Option<u64>,
    /// True to delete the history of workspaces whose directory no longer exists.
    #[serde(default)]
    orphans: bool,
}

fn yes() -> bool {
    true
}

/// Deletes checkpoints that exceed the limits, or shows which ones would be deleted.
#[utoipa::path(post, path = "/api/v1/prune", tag = "checkpoints", request_body = PruneRequest,
    responses((status = 200, description = "What was deleted, or would be deleted.", body = Object),
        (status = "default", body = Problem)))]
pub(super) async fn prune(
    State(app): State<Arc<App>>,
    Body(asked): Body<PruneRequest>,
) -> Result<Json<PruneReport>, Problem> {
    let answer = app.work(move |work| {
        let options = PruneOptions {
            retention_days: asked.retention_days,
            max_size_mb: asked.max_size_mb,
            delete_orphans: asked.orphans,
            dry_run: asked.dry_run,
            ..PruneOptions::default()
        };
        Ok(prune_store(&work.opened, &options)?)
    });
    Ok(Json(answer.await?))
}
