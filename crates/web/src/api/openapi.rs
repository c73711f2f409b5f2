//! The OpenAPI document, which is generated from the handlers and their types.

use axum::Json;
use serde_json::{Map, Value};
use utoipa::OpenApi;

use super::{chats, checkpoints, labels, ledger, rewind, rollback, slash, streams, tasks};
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
        ledger::doctor,
        streams::events,
    ),
    components(schemas(Problem))
)]
struct ApiDocument;

pub(super) async fn document() -> Json<Value> {
    let mut document =
        serde_json::to_value(ApiDocument::openapi()).expect("the document becomes JSON");
    let paths = document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    let operations = paths.filter_map(Value::as_object_mut).flat_map(Map::values_mut);
    for operation in operations {
        mark_problems(&mut operation["responses"]);
    }
    Json(document)
}

/// Describes all error responses as problems: sets their content type, and adds a description where
/// there is none.
fn mark_problems(responses: &mut Value) {
    let responses = responses.as_object_mut().into_iter().flatten();
    for (_, response) in responses.filter(|(status, _)| !status.starts_with('2')) {
        if let Some(content) = response["content"].as_object_mut()
            && let Some(problem) = content.remove("application/json")
        {
            content.insert("application/problem+json".into(), problem);
        }
        if response["description"] == "" {
            response["description"] = "A problem.".into();
        }
    }
}
