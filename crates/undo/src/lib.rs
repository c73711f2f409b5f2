//! Checkpoints, rollback and undo, built on the store of trees and the ledger.
//!
//! Every operation takes an [`Opened`] value. [`hook::handle`] turns an agent's report into
//! checkpoints and entries in the ledger. [`rollback::plan`] plans a rollback or an undo, and
//! [`rollback::apply`] carries it out.
//!
//! ```
//! use std::fs;
//!
//! use takeback_undo::{
//!     Deadline, Destination, OpenOptions, Opened, Report, ReportedEvent, Request, ToolCall,
//!     ToolWork, hook, rollback,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let scratch = tempfile::tempdir()?;
//! # let project = scratch.path().join("shop");
//! # let home = scratch.path().join("home");
//! # fs::create_dir(&project)?;
//! # fs::write(project.join("cart.rs"), "struct Cart;\n")?;
//! # let opened = Opened::new(OpenOptions::new(home));
//! let report = |event| Report {
//!     agent: "mine".into(),
//!     session: "1".into(),
//!     parent: None,
//!     turn: None,
//!     directory: project.clone(),
//!     model: None,
//!     event,
//! };
//! // Before each tool call, the workspace is captured.
//! let prompt = Some("tidy up".into());
//! hook::handle(&opened, &report(ReportedEvent::TurnStart { prompt }), &Deadline::open());
//! let script = "rm cart.rs";
//! let call = ToolCall {
//!     tool: "bash".into(),
//!     work: ToolWork::run_script(script),
//!     ..ToolCall::default()
//! };
//! hook::handle(&opened, &report(ReportedEvent::BeforeTool(call)), &Deadline::open());
//! fs::remove_file(project.join("cart.rs"))?;
//!
//! // A plan can be shown and kept while the user decides. `apply` checks that it is still valid.
//! let request = Request::new(&project, Destination::Checkpoint("1".into()));
//! let planned = rollback::plan(&opened, &request)?;
//! assert_eq!(planned.view().restored[0].to_string(), "cart.rs");
//! rollback::apply(&opened, planned)?;
//! assert!(project.join("cart.rs").exists());
//! # Ok(())
//! # }
//! ```

pub mod fork;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
pub mod history;
pub mod hook;
mod move_history;
mod open;
pub mod patch;
pub mod retention;
pub mod rollback;
mod root;
mod settings;
pub mod shell;
pub mod view;

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
