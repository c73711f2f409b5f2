//! Checkpoints, rollback and undo: joins the store of trees and the ledger.
//!
//! A [`Keeper`] is what everything starts from. Hooks hand it a [`Report`]; people list, roll back
//! and undo.

mod bring;
mod calls;
mod changes;
mod counts;
mod diff;
mod failures;
mod history;
mod keeper;
mod legacy;
mod list;
pub mod merge;
mod notes;
mod notices;
mod places;
mod protect;
mod record;
mod report;
mod repository;
mod retention;
mod rollback;
mod roots;
mod settings;
pub mod shell;
mod status;
mod subject;
mod tend;
mod undo;

pub use bring::{MoveWorkspaceError, Moved};
pub use counts::Counts;
pub use diff::CompareError;
pub use failures::Failure;
pub use history::{FindError, Found, History, Row};
pub use keeper::{Keeper, NameError, Setting, TakeError, Wish};
pub use list::{EffectView, Elsewhere, List, RowView, StepView, UncoveredView};
pub use notes::Turn;
pub use notices::{Notice, NoticeFile};
pub use protect::{Handled, Later};
pub use record::{
    Action, Began, CallOf, Chat, Checkpoint, Checkpoints, Kind, Record, Rollback, TurnId,
};
pub use report::{Event, Report, ToolCall, Work, paths_in, quoted, script_in};
pub use repository::{Head, IndexError};
pub use retention::{Cleared, PruneError, PruneOptions, Pruned, PrunedWorkspace, WorkspaceState};
pub use rollback::{
    ChatView, Direction, HeadMoved, PlannedRollback, RollbackError, RollbackOptions, RollbackView,
    Scope,
};
pub use roots::{Root, root_of};
pub use settings::{Granularity, Private, Settings, Skip};
pub use status::{Legacy, Status, StatusError, WorkspaceStatus};
pub use subject::{Revived, Subject};
pub use undo::{Conflict, Resolution, UndoOptions};
