//! Returning to an earlier message in a conversation.

use std::path::Path as FilePath;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use takeback_ledger::{ConversationPoint, TaskFilter};
use takeback_runtime::list_tasks;
use takeback_undo::history::{WorkspaceRef, find_first_message, known_workspaces};
use takeback_undo::rollback::roll_back;
use takeback_undo::{Destination, History, Request, RollbackView, Scope};
use utoipa::ToSchema;

use super::input::Body;
use super::rollback::{announce, blocked};
use crate::app::{App, Work};
use crate::problem::{Problem, WorkError};

/// A message to return to.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RewindRequest {
    /// The number of a prompt. This prompt and everything after it are taken back.
    message: i64,
    #[serde(default)]
    scope: RewindScope,
}

/// The part of the history that is taken back.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum RewindScope {
    Conversation,
    Files,
    #[default]
    Both,
}

/// The result of a rewind.
#[derive(Serialize, ToSchema)]
pub(super) struct RewindAnswer {
    session: String,
    /// The number of messages that were taken back.
    taken_back: usize,
    /// The rollback of the files, as in `takeback rollback --json`; null if no file had to change.
    #[schema(value_type = Option<Object>)]
    files: Option<RollbackView>,
}

/// The checkpoint that holds the files as they were before a message.
struct FoundRow<'w> {
    workspace: WorkspaceRef<'w>,
    checkpoint: String,
}

/// Takes the conversation, the files, or both back to the moment before a prompt. Fails with status
/// 409 while a turn is running in the conversation.
#[utoipa::path(post, path = "/api/v1/sessions/{id}/rewind", tag = "rollback",
    request_body = RewindRequest,
    params(("id" = String, Path, description = "The id of the session, or the beginning of its id.")),
    responses((status = 200, body = RewindAnswer), (status = "default", body = Problem)))]
pub(super) async fn rewind(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(request): Body<RewindRequest>,
) -> Result<Json<RewindAnswer>, Problem> {
    Ok(Json(app.work(move |work| rewind_session(work, &id, &request)).await?))
}

fn rewind_session(
    work: &Work,
    id: &str,
    request: &RewindRequest,
) -> Result<RewindAnswer, WorkError> {
    let (session, first, directory) = find_turn(work, id, request.message)?;
    refuse_if_busy(work, &session)?;
    let row = find_row(work, &session, first, directory.as_deref().map(FilePath::new))?;
    let mut files = None;
    if request.scope != RewindScope::Conversation {
        match row {
            Some(row) => files = Some(restore_files(work, &row)?),
            None if request.scope == RewindScope::Files => {
                return Err(Problem::new(409, "no checkpoint has been taken since that message")
                    .hint("the agent has not changed files since")
                    .into());
            }
            None => {}
        }
    }
    let mut taken_back = 0;
    if request.scope != RewindScope::Files {
        let now = work.opened.now();
        let mut ledger = work.opened.ledger()?.ok_or_else(|| Problem::not_found("session"))?;
        let point = ConversationPoint::BeforeMessage(first);
        taken_back = ledger.return_to_point(&session, point, now)?.taken_back;
    }
    if let Some(room) = work.app.rooms.find(&session) {
        room.publish("changed", &serde_json::json!({}));
    }
    Ok(RewindAnswer { session, taken_back, files })
}

/// Finds the turn of a prompt: its session, the number of its first message, and its directory.
fn find_turn(
    work: &Work,
    id: &str,
    message: i64,
) -> Result<(String, i64, Option<String>), WorkError> {
    let ledger = work.ledger()?.ok_or_else(|| Problem::not_found("session"))?;
    let session = ledger.resolve(id)?;
    let prompt = ledger
        .messages(&session, takeback_ledger::MessageFilter::All)?
        .into_iter()
        .find(|known| known.seq == message)
        .ok_or_else(|| Problem::not_found("message"))?;
    if prompt.role != "user" || prompt.undone {
        return Err(Problem::new(409, "only a prompt that has not been taken back can be chosen")
            .hint("choose one of the user's messages")
            .into());
    }
    // A turn may begin with a notice that precedes the prompt.
    let turns = ledger.turns(&session)?;
    let turn =
        turns.iter().filter(|turn| turn.first_seq <= message).max_by_key(|turn| turn.first_seq);
    let first = turn.map_or(message, |turn| turn.first_seq);
    let directory = ledger.session(&session)?.workspace;
    Ok((session, first, directory))
}

fn refuse_if_busy(work: &Work, session: &str) -> Result<(), WorkError> {
    let filter = TaskFilter { session: Some(session.to_owned()), ..TaskFilter::default() };
    let tasks = match work.opened.ledger()? {
        Some(ledger) => list_tasks(&ledger, &filter)?,
        None => Vec::new(),
    };
    let is_running = tasks.iter().any(|task| matches!(task.state.as_str(), "running" | "stopping"));
    let is_busy = work.app.rooms.find(session).is_some_and(|room| room.is_busy());
    if is_running || is_busy {
        return Err(Problem::new(
            409,
            "a turn is running in this conversation; nothing was changed",
        )
        .hint("wait until it ends, or stop it")
        .into());
    }
    Ok(())
}

/// Finds the first checkpoint that was taken for the session since the message `first`. This
/// checkpoint holds the files as they were before that message, because the agent changes no files
/// before a checkpoint is taken.
fn find_row<'w>(
    work: &'w Work,
    session: &str,
    first: i64,
    directory: Option<&FilePath>,
) -> Result<Option<FoundRow<'w>>, WorkError> {
    let mut found: Option<(i64, FoundRow<'w>)> = None;
    for (workspace, _) in known_workspaces(&work.opened)? {
        if directory.is_some_and(|directory| !directory.starts_with(&workspace.path)) {
            continue;
        }
        let history = History::read(workspace.store(), workspace.id())?;
        let mut best: Option<(i64, String)> = None;
        for row in history.rows().filter(|row| row.turn().is_some_and(|(own, _)| own == session)) {
            let Some(seq) = find_first_message(&work.opened, &row)? else { continue };
            if seq >= first && best.as_ref().is_none_or(|(known, _)| seq < *known) {
                best = Some((seq, row.first().pin.id.to_string()));
            }
        }
        if let Some((seq, checkpoint)) = best
            && found.as_ref().is_none_or(|(known, _)| seq < *known)
        {
            found = Some((seq, FoundRow { workspace, checkpoint }));
        }
    }
    Ok(found.map(|(_, row)| row))
}

fn restore_files(work: &Work, row: &FoundRow<'_>) -> Result<RollbackView, WorkError> {
    work.refuse_if_working(&row.workspace)?;
    let to = Destination::Checkpoint(row.checkpoint.clone());
    let request = Request { scope: Scope::Files, ..Request::new(&row.workspace.path, to) };
    let view = roll_back(&work.opened, &request)?;
    if !view.blocked.is_empty() {
        return Err(blocked(&view).into());
    }
    announce(work, &request);
    Ok(view)
}
