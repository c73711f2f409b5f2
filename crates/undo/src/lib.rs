//! Checkpoints, rollback and undo: joins the store of trees and the ledger.
//!
//! Every operation takes an [`Opened`] value. The way in is [`hook::handle`]: an agent's report
//! becomes checkpoints and entries in the ledger. The way back is [`rollback::plan`] and
//! [`rollback::apply`].

#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
pub mod history;
pub mod hook;
mod move_history;
mod open;
pub mod retention;
pub mod rollback;
mod root;
mod settings;
pub mod shell;

pub use history::record::{
    Action, Began, CallRef, Chat, Checkpoint, Checkpoints, Kind, Record, RollbackRecord, TurnId,
    clean_reason, read_checkpoints,
};
pub use history::{
    ChangeCounts, CheckpointOptions, CompareError, EffectView, FindError, FoundCheckpoint, History,
    List, NameError, OtherWorkspace, Row, RowView, StepView, TakeError, TakenCheckpoint,
    UncoveredView,
};
pub use hook::{
    Deadline, FollowUp, Handled, Report, ReportedEvent, ToolCall, ToolWork, Turn, Unprotected,
};
pub use move_history::{MoveHistoryError, MovedHistory, move_history};
pub use open::{LedgerGuard, OpenOptions, Opened};
pub use retention::{
    ClearedCheckpoints, ClockJump, DirectoryState, Failure, LegacyArchive, PruneError,
    PruneOptions, PruneReport, PrunedWorkspace, Status, StatusError, WorkspaceStatus,
};
pub use rollback::{
    ChatView, Conflict, Destination, HeadMoved, IndexError, MovedSession, Notice, NoticeFile,
    Planned, Request, Resolution, RollbackError, RollbackView, Scope, TurnUndo, UncertainPath,
};
pub use root::{ProjectRoot, root_of};
pub use settings::{Granularity, Private, Settings, Skip};
