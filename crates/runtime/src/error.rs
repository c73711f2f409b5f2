//! The errors of tasks.

use std::path::PathBuf;

use takeback_ledger::{LedgerError, OpenError};

use crate::entry::EntryError;

/// The reason why a task cannot continue. Everything up to the task's last step is kept.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum TaskError {
    #[error("the last turn is not over")]
    TurnIsOpen,
    #[error("another process is working on task {0}")]
    Live(String),
    #[error("another process has taken over this task")]
    Fenced,
    #[error("session {0} was not made by takeback chat")]
    Foreign(String),
    #[error("cannot use the directory {path}")]
    Directory { path: PathBuf, source: std::io::Error },
    #[error("cannot summarize the conversation: {0}")]
    NoSummary(String),
    #[error("cannot start a subagent")]
    Thread(#[source] std::io::Error),
    #[error(transparent)]
    Entry(#[from] EntryError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Open(#[from] OpenError),
}
