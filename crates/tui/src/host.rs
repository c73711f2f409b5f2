//! The program that uses this crate: it opens takeback's home, explains errors, and runs other
//! programs.

use std::sync::Arc;

use takeback_base::errors::error_messages;
use takeback_base::text::disarm;
use takeback_ledger::{LedgerError, OpenError};
use takeback_runtime::TaskError;
use takeback_tree::{Oid, StoreError};
use takeback_undo::{
    CompareError, ConversationError, FindError, LabelError, Opened, RollbackError, TakeError,
};

/// The program that starts the screen. All functions except [`Host::page_diff`] are called by
/// worker threads, and may take a while.
pub trait Host: Send + Sync {
    /// Opens takeback's home.
    fn open(&self) -> Result<Arc<Opened>, Problem>;

    /// Adds new entries from the agents' own logs to the ledger.
    fn catch_up(&self);

    /// Explains an error, with the same hint as the commands.
    fn explain(&self, error: Error) -> Problem;

    /// Renders Markdown as lines of the given width, with control sequences for colors.
    fn render_markdown(&self, text: &str, columns: usize) -> Vec<String>;

    /// Finds the command that continues a session.
    fn find_resume_command(&self, session: &str) -> Result<String, Problem>;

    /// Takes a checkpoint of the workspace, and says in one line what was done.
    fn take_checkpoint(&self, reason: Option<&str>) -> Result<String, Problem>;

    /// Shows the changes since a checkpoint in the user's pager. The screen is closed while the
    /// pager runs.
    fn page_diff(&self, checkpoint: &Oid) -> Result<(), Problem>;

    /// Returns the messages that could not be printed while the screen was shown. A later call
    /// returns only new messages.
    fn take_messages(&self) -> Vec<String>;
}

/// An error from one of takeback's libraries.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Error {
    Compare(#[from] CompareError),
    Find(#[from] FindError),
    Label(#[from] LabelError),
    Ledger(#[from] LedgerError),
    Open(#[from] OpenError),
    Rollback(#[from] RollbackError),
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

/// An error as the user sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The message of the error.
    pub message: String,
    /// The causes, from the outermost to the innermost.
    pub causes: Vec<String>,
    /// Advice about what to do next.
    pub hint: Option<String>,
}

impl Problem {
    /// Creates a problem without causes.
    pub fn new(message: impl Into<String>) -> Problem {
        Problem { message: message.into(), causes: Vec::new(), hint: None }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    /// Creates a problem from an error and its causes.
    pub fn of(error: &dyn std::error::Error) -> Problem {
        let mut messages = error_messages(error).into_iter();
        let message = messages.next().unwrap_or_default();
        Problem { message, causes: messages.collect(), hint: None }
    }

    /// Joins the message and its causes into one line.
    pub(crate) fn line(&self) -> String {
        let causes = self.causes.iter().map(String::as_str);
        let parts: Vec<&str> = std::iter::once(self.message.as_str()).chain(causes).collect();
        disarm(&parts.join(": "))
    }
}
