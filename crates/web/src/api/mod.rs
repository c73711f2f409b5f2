//! The HTTP API: `/api/v1/…`.

mod checkpoints;
mod input;
mod labels;
mod ledger;
mod openapi;
mod rollback;
mod streams;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::app::App;
use crate::problem::Problem;

pub(crate) use self::input::Params;

/// Returns the routes of the API. `openapi` documents each of them.
pub(crate) fn routes() -> Router<Arc<App>> {
    let api = Router::new()
        .route("/openapi.json", get(openapi::document))
        .route("/workspaces", get(checkpoints::workspaces))
        .route("/checkpoints", get(checkpoints::list).post(checkpoints::create))
        .route(
            "/checkpoints/{workspace}/{id}",
            get(checkpoints::show).patch(labels::label).delete(labels::delete),
        )
        .route("/prune", post(labels::prune))
        .route("/diff", get(checkpoints::diff))
        .route("/plan", post(rollback::plan))
        .route("/apply", post(rollback::apply))
        .route("/undo", post(rollback::undo))
        .route("/redo", post(rollback::redo))
        .route("/sessions", get(ledger::sessions))
        .route("/messages", get(ledger::messages))
        .route("/search", get(ledger::search))
        .route("/stats", get(ledger::stats))
        .route("/tasks", get(ledger::tasks))
        .route("/status", get(ledger::status))
        .route("/events", get(streams::events))
        .fallback(async || Problem::not_found("resource"))
        .method_not_allowed_fallback(async || Problem::new(405, "the resource has no such method"));
    Router::new().nest("/api/v1", api)
}
