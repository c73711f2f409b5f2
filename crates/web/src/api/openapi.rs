//! The OpenAPI document, which is made from the handlers and their types.

use axum::Json;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;

use super::{chats, checkpoints, ledger, rewind, rollback, slash, streams, tasks};
use crate::problem::Problem;

/// The description of the API.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "takeback",
        description = "The history of takeback: checkpoints, conversations, and the way back.\n\n\
            Every request needs the cookie that the printed link sets, or `Authorization: Bearer \
            TOKEN` with the token from that link. Bodies are `application/json`; errors are \
            `application/problem+json`.",
        license(name = "MIT OR Apache-2.0"),
    ),
    paths(
        checkpoints::workspaces,
        checkpoints::list,
        checkpoints::create,
        checkpoints::show,
        checkpoints::diff,
        rollback::plan,
        rollback::apply,
        rollback::undo,
        rollback::redo,
        ledger::sessions,
        ledger::messages,
        ledger::search,
        ledger::stats,
        rewind::rewind,
        tasks::notices,
        tasks::list,
        tasks::resume,
        tasks::cancel,
        tasks::goals,
        tasks::start_goal,
        tasks::resume_goal,
        tasks::pause_goal,
        tasks::cancel_goal,
        chats::begin,
        chats::state,
        chats::prompt,
        chats::resume,
        chats::stop,
        chats::answer,
        chats::events,
        slash::slash,
        ledger::status,
        streams::events,
    ),
    components(schemas(Problem))
)]
struct ApiDocument;

pub(super) async fn document() -> Json<Document> {
    Json(ApiDocument::openapi())
}
