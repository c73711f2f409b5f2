//! Checkpoints, rollback and undo, built on the store of trees and the ledger.
//!
//! Every operation takes an [`Opened`] value. [`hook::handle`] turns an agent's report into
//! checkpoints and entries in the ledger. [`rollback::plan`] plans a rollback or an undo, and
//! [`rollback::apply`] carries it out.

pub mod fork;
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

pub use fork::{
    Fork, ForkError, ForkFiles, ForkPoint, ForkRequest, NearCheckpoint, SessionPoint, finish_forks,
};
pub use history::record::{
    Action, Began, CallRef, Chat, Checkpoint, Checkpoints, Kind, Record, RollbackRecord, TurnId,
    clean_reason, read_checkpoints,
};
pub use history::{
    ChangeCounts, CheckpointOptions, CheckpointView, CompareError, ConversationError, EffectView,
    FindError, FoundCheckpoint, History, LabelChange, LabelError, List, NameError, OtherWorkspace,
    Row, RowView, ShowError, StepView, TakeError, TakenCheckpoint, UncoveredView,
};
pub use hook::{
    Deadline, FollowUp, Handled, Report, ReportedEvent, ToolCall, ToolWork, Turn, Unprotected,
};
pub use move_history::{MoveHistoryError, MovedHistory, move_history};
pub use open::{FollowSession, HookFile, LedgerGuard, OpenOptions, Opened, OwnConversations};
pub use retention::{
    ClearedCheckpoints, ClockJump, DaySize, DeleteError, DeletedCheckpoint, DirectoryState,
    Failure, LegacyArchive, MirrorStatus, PruneError, PruneOptions, PruneReport, PrunedWorkspace,
    Status, StatusError, UpdateMirrorError, WorkspaceStatus,
};
pub use rollback::{
    ChatView, Conflict, Destination, FileResolution, HeadMoved, IndexError, MovedSession, Notice,
    NoticeFile, Planned, Request, Resolution, Resume, RollbackError, RollbackView, Scope, TurnUndo,
    UncertainPath,
};
pub use root::{ProjectRoot, root_of};
pub use settings::{Granularity, HistoryProtection, Private, Protection, Settings, Skip};
