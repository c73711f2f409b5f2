//! The OpenAPI document, which is made from the handlers and their types.

use axum::Json;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;

use super::{checkpoints, labels, ledger, rollback, streams};
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
        labels::label,
        labels::delete,
        labels::prune,
        rollback::plan,
        rollback::apply,
        rollback::undo,
        rollback::redo,
        ledger::sessions,
        ledger::messages,
        ledger::search,
        ledger::stats,
        ledger::tasks,
        ledger::status,
        streams::events,
    ),
    components(schemas(Problem))
)]
struct ApiDocument;

pub(super) async fn document() -> Json<Document> {
    Json(ApiDocument::openapi())
}
