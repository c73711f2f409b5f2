//! Captures a directory into a shared git object store and restores it, exactly.
//!
//! A [`Store`] is one bare git repository. A [`Workspace`] is a directory whose states it keeps.
//! Everything that writes goes through the workspace's [`Lock`].
//!
//! Limits: hard links, extended attributes, access control lists, owners and times are not kept;
//! the mode of the workspace's root is not part of its tree; a single file of more than 512 MB is
//! never captured.

mod adopt;
mod attachments;
mod beneath;
mod capture;
mod compare;
mod diff;
mod edit;
#[cfg(feature = "faults")]
pub mod fault;
#[cfg(not(feature = "faults"))]
mod fault;
mod forbidden;
mod gc;
pub mod git;
mod history;
mod object;
mod oid;
mod origins;
mod pack;
mod path;
mod pins;
mod repack;
mod repair;
mod restore;
mod rules;
mod salvage;
mod store;
#[cfg(test)]
mod testing;
mod verify;
mod weigh;
mod workspace;
mod workspaces;

pub use adopt::{AdoptError, AdoptLock, Adopted, Adoption, Late};
pub use capture::{Capture, CaptureError, CaptureOptions, Reason, Uncovered};
pub use compare::PathChange;
pub use diff::{
    Change, ChangeKind, Diff, DiffError, DiffOptions, LineCounts, Side, Unified, compare_nodes,
    diff,
};
pub use edit::{Content, Edit, EditError, Entry};
pub use forbidden::ForbiddenRoots;
pub use gc::{GcError, GcOutcome};
pub use git::{
    ForeignCommit, ForeignError, ForeignObjectError, ForeignRef, ForeignRepository, GitDirectory,
};
pub use object::{Kind, Mode};
pub use oid::{InvalidOid, Oid};
pub use pack::MAX_OBJECT;
pub use path::{AnyPath, InvalidPath, RelPath};
pub use pins::{Pin, PinName, WorkspaceId};
pub use repair::{RepairError, RepairReport};
pub use restore::{
    Blocked, BlockedReason, Kept, KeptReason, Outcome, Plan, PlanError, Recovery, RestoreError,
    Target,
};
pub use rules::{Filter, Rules};
pub use store::{ObjectError, Store, StoreError};
pub use verify::{BrokenPack, PinReport, PinState, Progress, VerifyReport};
pub use workspace::{Lock, PinError, Workspace, WorkspaceError, WorkspaceInfo};
pub use workspaces::{MoveError, WorkspaceGuard};
