//! The HTTP API: `/api/v1/…`.

mod chats;
mod checkpoints;
mod input;
mod labels;
mod ledger;
mod openapi;
mod rewind;
mod rollback;
mod slash;
mod streams;
mod tasks;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::app::App;
use crate::problem::Problem;

pub(crate) use self::chats::{ChatState, read_chat};
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
        .route("/sessions/{id}/rewind", post(rewind::rewind))
        .route("/notices", get(tasks::notices))
        .route("/tasks", get(tasks::list))
        .route("/tasks/{id}/resume", post(tasks::resume))
        .route("/tasks/{id}/cancel", post(tasks::cancel))
        .route("/goals", get(tasks::goals).post(tasks::start_goal))
        .route("/goals/{id}/resume", post(tasks::resume_goal))
        .route("/goals/{id}/pause", post(tasks::pause_goal))
        .route("/goals/{id}/cancel", post(tasks::cancel_goal))
        .route("/chats", post(chats::begin))
        .route("/chats/{session}", get(chats::state))
        .route("/chats/{session}/turns", post(chats::prompt))
        .route("/chats/{session}/resume", post(chats::resume))
        .route("/chats/{session}/stop", post(chats::stop))
        .route("/chats/{session}/answers", post(chats::answer))
        .route("/chats/{session}/events", get(chats::events))
        .route("/slash", post(slash::slash))
        .route("/status", get(ledger::status))
        .route("/doctor", get(ledger::doctor))
        .route("/events", get(streams::events))
        .fallback(async || Problem::not_found("resource"))
        .method_not_allowed_fallback(async || {
            Problem::new(405, "the resource does not support this method")
        });
    Router::new().nest("/api/v1", api)
}
