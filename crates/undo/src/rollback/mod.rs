//! Rollback and undo. [`plan`] turns a [`Request`] into a [`Planned`] value, which can be kept
//! while the user decides. [`apply`] carries out the plan if the workspace has not changed.
//!
//! `plan` finds the goal (`turn`, `reversal`, `named_later`, `replaced`), compares the workspace
//! with it, and adds what the user should know (`conversation`, `story`, `elsewhere`). `apply`
//! takes a safety checkpoint, restores the files, and then does the rest: the index (`git_index`),
//! the conversations (`follow`) and the notices. `recovery` finishes a rollback whose process was
//! killed.

mod apply;
mod conversation;
mod elsewhere;
mod follow;
mod git_index;
pub mod merge;
mod named_later;
mod notice_text;
pub(crate) mod notices;
mod parts;
mod patterns;
mod plan;
mod planned;
mod recovery;
mod replaced;
mod reversal;
mod story;
mod turn;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use takeback_ledger::{LedgerError, OpenError};
use takeback_tree::{
    BlockedPath, CaptureError, EditError, ObjectError, PinError, PlanError, RelPath, RestoreError,
    StoreError,
};

use crate::Opened;
use crate::history::{FindError, TakeError};

pub use self::apply::apply;
pub(crate) use self::conversation::find_point_of_session;
pub use self::elsewhere::ElsewhereView;
pub(crate) use self::follow::follow_after_recovery;
pub use self::git_index::IndexError;
pub use self::notice_text::notice_text;
pub use self::notices::{
    Notice, NoticeFile, TakenBack, leave_for_fork, leave_in_place, read_notices, take_notices,
};
pub(crate) use self::parts::{finish_parts, has_unfinished_parts};
pub use self::patterns::{ChosenPaths, literal_path};
pub use self::plan::{plan, relative_paths};
pub use self::planned::{ChatView, HeadMoved, MovedSession, Planned, Resume, RollbackView};
pub(crate) use self::recovery::{finish_before_turn, finish_recovered, is_interrupted};
pub use self::turn::{Conflict, UncertainPath};

/// A request to take something back. It says which workspace it applies to, which state to return
/// to, and what to restore.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Request {
    /// The directory that the user works in. It determines the workspace, and relative paths are
    /// relative to it.
    pub directory: PathBuf,
    /// The state to return to.
    pub to: Destination,
    /// The files and directories to restore, as the user gave them. If the list is empty, all files
    /// are restored. Otherwise, the conversation is left unchanged.
    pub paths: Vec<PathBuf>,
    pub scope: Scope,
    /// True if the index of the workspace's own repository is also restored.
    pub index: bool,
    /// True if paths that cannot be restored are skipped, and the rest is restored.
    #[serde(default)]
    pub skip_blocked: bool,
    /// True if paths outside the workspace are left unchanged.
    #[serde(default)]
    pub workspace_only: bool,
}

impl Request {
    /// Creates a request to restore everything: all files and the conversation.
    pub fn new(directory: impl Into<PathBuf>, to: Destination) -> Request {
        let (directory, paths) = (directory.into(), Vec::new());
        let scope = Scope::Both;
        let (index, skip_blocked, workspace_only) = (false, false, false);
        Request { directory, to, paths, scope, index, skip_blocked, workspace_only }
    }
}

/// The state that a request returns to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Destination {
    /// A checkpoint, given by its row number, step, name or id.
    Checkpoint(String),
    /// The state before the latest rollback that has not been undone.
    BeforeLastRollback,
    /// The state before the latest undo of a rollback.
    BeforeLastUndo,
    /// The current state without the changes that a turn made.
    WithoutTurn(TurnUndo),
}

/// The options for undoing a turn.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct TurnUndo {
    /// The row of the turn; `None` for the last turn that changed files.
    pub row: Option<usize>,
    pub conflicts: Resolution,
    /// True if changes that others may have made are also taken back.
    pub uncertain: bool,
    /// Paths whose changes are taken back even if others may have made them.
    #[serde(default)]
    pub taken: Vec<RelPath>,
    /// The files whose conflicts are resolved in a different way than `conflicts` says.
    #[serde(default)]
    pub files: Vec<FileResolution>,
}

impl TurnUndo {
    /// Returns how to resolve the conflicts in a file.
    pub(crate) fn resolution_of(&self, path: &RelPath) -> Resolution {
        let own = self.files.iter().find(|file| file.path == *path);
        own.map_or(self.conflicts, |file| file.resolution)
    }
}

/// A choice of how to resolve the conflicts in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct FileResolution {
    pub path: RelPath,
    pub resolution: Resolution,
}

/// A way to resolve a conflict. A file is in conflict if lines that the turn changed have been
/// edited since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// Leave the file unchanged and report it.
    #[default]
    Leave,
    /// Keep the current lines.
    Ours,
    /// Restore the lines from before the turn.
    Theirs,
    /// Write both versions of the lines, with markers around them.
    Markers,
}

/// The part of a checkpoint that is restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Files and conversation.
    #[default]
    Both,
    /// Files without the conversation.
    Files,
    /// The conversation without files.
    Chat,
}

/// The reason why a rollback did not happen. Nothing was changed unless the message says so.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum RollbackError {
    #[error("no rollback to undo in this workspace")]
    NothingToUndo,
    #[error("no undone rollback to redo in this workspace")]
    NothingToRedo,
    #[error("the workspace has changed in the meantime; nothing was restored")]
    Changed(Vec<BlockedPath>),
    #[error("{} is outside the workspace {}", path.display(), workspace.display())]
    Outside { path: PathBuf, workspace: PathBuf },
    #[error("the rollback would change no file that matches {0}")]
    NoMatch(RelPath),
    #[error("nothing is left to restore: every change is excluded")]
    NothingLeft,
    #[error("checkpoint {0} belongs to no conversation")]
    NoChat(String),
    #[error("checkpoint {0} has no copy of the repository's index")]
    NoIndex(String),
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error("the files were restored, but not the repository's index")]
    IndexNotRestored(#[source] IndexError),
    #[error("cannot record what to restore outside the workspace")]
    Parts(#[source] std::io::Error),
    #[error("no turn left to undo in this workspace")]
    NoTurn,
    #[error("checkpoint {0} was taken by hand: there is no turn to undo")]
    NotATurn(usize),
    #[error("the changes of turn {0} are lost: {1}")]
    TurnLost(usize, ObjectError),
    #[error(transparent)]
    Take(#[from] TakeError),
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(transparent)]
    Edit(#[from] EditError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Restore(#[from] RestoreError),
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl RollbackError {
    /// Returns the paths that blocked the rollback. If they are skipped, the rest can be restored.
    pub fn blocked_paths(&self) -> Vec<BlockedPath> {
        match self {
            RollbackError::Changed(paths) => paths.clone(),
            RollbackError::Restore(error) => error.blocked_paths(),
            _ => Vec::new(),
        }
    }
}

/// Plans a request and immediately applies the plan, for a caller that does not inspect it. If the
/// workspace changes before the plan is applied, plans again.
pub fn roll_back(opened: &Opened, request: &Request) -> Result<RollbackView, RollbackError> {
    const ATTEMPTS: usize = 5;
    let mut attempt = 0;
    loop {
        let planned = plan(opened, request)?;
        if planned.is_empty() || planned.is_blocked() {
            return Ok(planned.into_view());
        }
        attempt += 1;
        match apply(opened, planned) {
            Err(RollbackError::Changed(_)) if attempt < ATTEMPTS => {}
            result => return result,
        }
    }
}
