//! The errors of tasks.

use std::path::PathBuf;

use takeback_ledger::{ImportError, LedgerError, LogError, OpenError};
use takeback_undo::history::TakeError;

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
    /// The steps that the other machine does not know are kept in the session `kept`.
    #[error("machine {machine} has taken over this task")]
    TakenOver { machine: String, kept: Option<String> },
    /// The last step is in this machine's ledger, but not in the journal that machines share.
    #[error("the turn stopped, because the fleet's journal cannot be reached")]
    Away(#[source] LogError),
    #[error("the last steps of this task were made on machine {machine}")]
    Elsewhere { machine: String },
    #[error("the files in {directory} differ from those that the task was working on")]
    OtherFiles { directory: PathBuf, expected: Option<String> },
    #[error("this machine's tasks are not shared with a fleet")]
    NotShared,
    #[error(transparent)]
    Log(LogError),
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error(transparent)]
    Checkpoint(#[from] TakeError),
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
