//! Errors as the API reports them: `application/problem+json`, with the hints of the commands.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use takeback_ledger::{LedgerError, OpenError};
use takeback_runtime::TaskError;
use takeback_tree::StoreError;
use takeback_undo::{
    CompareError, ConversationError, DeleteError, FindError, LabelError, PruneError, RollbackError,
    ShowError, StatusError, TakeError,
};
use utoipa::ToSchema;

/// An error from one of takeback's libraries. The caller of this crate knows the hint for each
/// error.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Error {
    Compare(#[from] CompareError),
    Delete(#[from] DeleteError),
    Find(#[from] FindError),
    Label(#[from] LabelError),
    Ledger(#[from] LedgerError),
    Open(#[from] OpenError),
    Prune(#[from] PruneError),
    Rollback(#[from] RollbackError),
    Show(#[from] ShowError),
    Status(#[from] StatusError),
    Store(#[from] StoreError),
    Take(#[from] TakeError),
    Task(#[from] TaskError),
}

impl From<ConversationError> for Error {
    fn from(error: ConversationError) -> Error {
        match error {
            ConversationError::Open(error) => error.into(),
            ConversationError::Ledger(error) => error.into(),
        }
    }
}

/// A problem, in the form of RFC 9457.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Problem {
    /// The status code of the response.
    pub status: u16,
    /// The message of the error.
    pub title: String,
    /// The causes, from the outermost to the innermost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// Advice about what to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The new plan, if the workspace has changed since the plan of the request was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub now: Option<Box<Value>>,
    /// The sessions that are working in the workspace, if nothing was restored because of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub working: Vec<String>,
}

impl Problem {
    /// Creates a problem without a hint.
    pub fn new(status: u16, title: impl Into<String>) -> Problem {
        let (title, causes, working) = (title.into(), Vec::new(), Vec::new());
        Problem { status, title, causes, hint: None, now: None, working }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn not_found(what: &str) -> Problem {
        Problem::new(404, format!("there is no such {what}"))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Problem {
        Problem::new(400, message)
    }

    pub(crate) fn code(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).expect("plain data becomes JSON");
        let kind = HeaderValue::from_static("application/problem+json");
        (self.code(), [(CONTENT_TYPE, kind)], body).into_response()
    }
}

/// The reason why a piece of work failed: a problem, or an error that still has to be explained.
#[derive(Debug)]
pub(crate) enum WorkError {
    Problem(Box<Problem>),
    Error(Box<Error>),
}

impl From<Problem> for WorkError {
    fn from(problem: Problem) -> WorkError {
        WorkError::Problem(Box::new(problem))
    }
}

impl<E> From<E> for WorkError
where
    Error: From<E>,
{
    fn from(error: E) -> WorkError {
        WorkError::Error(Box::new(error.into()))
    }
}

/// Returns the status code for an error.
pub(crate) fn status_of(error: &Error) -> u16 {
    match error {
        Error::Find(error) => status_of_find(error),
        Error::Show(ShowError::Find(error)) => status_of_find(error),
        Error::Show(ShowError::Store(error)) | Error::Store(error) => status_of_store(error),
        Error::Compare(CompareError::NoSuchPath(_) | CompareError::InNeither(_)) => 404,
        Error::Ledger(error) => status_of_ledger(error),
        Error::Task(TaskError::Ledger(error)) => status_of_ledger(error),
        Error::Task(TaskError::Entry(_) | TaskError::Open(_) | TaskError::Thread(_)) => 500,
        Error::Task(_) => 409,
        Error::Take(TakeError::Name(_)) => 409,
        Error::Label(LabelError::Find(error)) | Error::Delete(DeleteError::Find(error)) => {
            status_of_find(error)
        }
        Error::Label(LabelError::Name(_)) => 409,
        Error::Delete(DeleteError::Protected(_) | DeleteError::Needed(_)) => 409,
        Error::Label(LabelError::Busy) | Error::Delete(DeleteError::Busy) => 503,
        Error::Rollback(error) => match error {
            RollbackError::Find(error) => status_of_find(error),
            RollbackError::Store(error) => status_of_store(error),
            RollbackError::NothingToUndo
            | RollbackError::NothingToRedo
            | RollbackError::Changed(_)
            | RollbackError::NoTurn
            | RollbackError::NotATurn(_)
            | RollbackError::NoChat(_)
            | RollbackError::NoIndex(_)
            | RollbackError::TurnLost(..)
            | RollbackError::Restore(_) => 409,
            RollbackError::Outside { .. }
            | RollbackError::NoMatch(_)
            | RollbackError::NothingLeft
            | RollbackError::Plan(_) => 400,
            _ => 500,
        },
        _ => 500,
    }
}

fn status_of_ledger(error: &LedgerError) -> u16 {
    match error {
        LedgerError::NoSuchSession(_)
        | LedgerError::NoSuchMessage { .. }
        | LedgerError::NoSuchTask(_)
        | LedgerError::BadTaskId(_)
        | LedgerError::NoSuchGoal(_) => 404,
        LedgerError::TaskRunning(_)
        | LedgerError::Fenced { .. }
        | LedgerError::Ambiguous { .. }
        | LedgerError::NothingToRewind(_)
        | LedgerError::WentOn(_) => 409,
        LedgerError::Busy { .. } => 503,
        _ => 500,
    }
}

fn status_of_find(error: &FindError) -> u16 {
    match error {
        FindError::Store(error) => status_of_store(error),
        FindError::Ambiguous(_) => 409,
        _ => 404,
    }
}

fn status_of_store(error: &StoreError) -> u16 {
    if matches!(error, StoreError::Busy { .. }) { 503 } else { 500 }
}
