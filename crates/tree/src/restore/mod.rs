//! Restore: tree → workspace. Plan, journal, apply, verify.
//!
//! A [`Plan`] owns all it needs. Applying it stages every new file beside its place, writes the
//! journal, then moves files in and out by renames only, so that whatever goes wrong can be moved
//! back. What a rename takes away stays under a temporary name until everything is verified.

mod apply;
mod guard;
mod journal;
mod moves;
mod plan;

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::beneath::Stat;
use crate::capture::{CaptureError, Reason, Uncovered};
use crate::compare::Node;
use crate::oid::Oid;
use crate::path::RelPath;
use crate::pins::Pin;
use crate::rules::Filter;
use crate::store::{ObjectError, StoreError};
use crate::workspace::Lock;

pub(crate) use moves::rename_new;

/// Whether a restore of the workspace that has this directory in the store was cut off.
pub(crate) fn is_unfinished(directory: &Path) -> bool {
    journal::Journal::is_there(directory)
}

/// The state to return to, with what its capture said about itself.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The state.
    pub tree: Oid,
    /// The rules it was captured by.
    pub filter: &'a Filter,
    /// What it does not cover.
    pub uncovered: &'a [Uncovered],
    /// To undo a restore: the state that it led to. What is still as it was left then is not
    /// guarded, so that undoing takes back everything that was done.
    pub undoes: Option<Oid>,
    /// Whether its capture left out files and empty directories without naming them, so that
    /// nothing that the filter excludes is deleted because of it.
    pub silent: bool,
}

/// What a restore will do, complete in itself: it borrows nothing and holds nothing open, so it can
/// be kept, also as JSON, while a person thinks.
///
/// Another process may change the workspace meanwhile. [`Lock::apply`] therefore wants a capture
/// under its own lock, and refuses the plan if that capture is not the state the plan starts from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The present state, including everything that the plan overwrites or deletes.
    pub from: Oid,
    /// The state to return to.
    pub to: Oid,
    /// What the present state does not cover.
    pub uncovered: Vec<Uncovered>,
    /// The rules that the present state was captured by.
    pub filter: Filter,
    /// Files, symlinks and directories that will be written or whose mode will be set.
    pub writes: Vec<RelPath>,
    /// What will be deleted.
    pub deletes: Vec<RelPath>,
    /// Guarded files that differ and are left as they are.
    pub guarded: Vec<RelPath>,
    /// What the target does not have and that stays all the same.
    pub kept: Vec<Kept>,
    /// What makes the plan impossible.
    pub blocked: Vec<Blocked>,
    steps: Vec<PlannedStep>,
    /// Directories that must be made writable for a while, with their modes.
    loosened: Vec<(RelPath, u32)>,
}

/// A path that stays although the target does not have it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// The path.
    pub path: RelPath,
    /// Why it stays.
    pub reason: KeptReason,
}

/// Why a path stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptReason {
    /// The target did not cover it, so it may have been there.
    NotCovered,
    /// It is ignored or otherwise not captured now, so no checkpoint holds it.
    NotSaved,
    /// The directory has something in it that stays.
    NotEmpty,
}

/// Something is in the way, and it cannot be captured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Blocked {
    /// The path.
    pub path: RelPath,
    /// Why it cannot be replaced.
    #[serde(flatten)]
    pub reason: BlockedReason,
}

/// Why something in the way cannot be replaced.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "blocked", rename_all = "snake_case")]
pub enum BlockedReason {
    /// It cannot be captured, and what no checkpoint holds is never overwritten.
    Uncovered(Reason),
    /// It holds something that is never captured, such as a repository's own data.
    Uncapturable,
    /// There are more files in it than may be captured.
    TooManyFiles,
    /// A directory on the way to the path is something else now.
    ParentReplaced,
}

/// A step of a plan, and the file that it expects to find.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct PlannedStep {
    step: Step,
    /// The file at the step's path when it was captured. The journal does without: a restore that
    /// is cut off leaves files with other inodes.
    seen: Option<Stat>,
}

/// One change to one path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Step {
    path: RelPath,
    from: Option<Node>,
    to: Option<Node>,
    /// The directory in which its temporary file is: it exists before, during and after.
    stage: RelPath,
    /// Part of a swap of a directory and something else: what goes, goes first.
    swap: bool,
}

/// What a restore did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Paths that were written.
    pub restored: Vec<RelPath>,
    /// Paths that were deleted.
    pub deleted: Vec<RelPath>,
    /// Directories that were to be deleted and got new content meanwhile.
    pub kept: Vec<RelPath>,
    /// Old files that somebody wrote to while they were replaced, under the names that they have
    /// now.
    pub saved: Vec<RelPath>,
}

/// There is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The path is neither in the target nor in the workspace.
    #[error("{0} is neither in the checkpoint nor in the workspace")]
    NoSuchPath(RelPath),
    /// The present could not be captured.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The target is not whole.
    #[error("the checkpoint is damaged")]
    Target(#[from] ObjectError),
    /// The workspace cannot be read.
    #[error("cannot read {path}")]
    Io {
        /// What was read.
        path: RelPath,
        /// Why it failed.
        source: io::Error,
    },
    /// An earlier restore was cut off and can be neither finished nor reverted.
    #[error("an interrupted restore of this workspace must be finished first")]
    Unfinished,
}

/// A restore did not happen; the workspace is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The plan says so itself.
    #[error("{} is in the way and cannot be captured", .0[0].path)]
    Blocked(Vec<Blocked>),
    /// The safety checkpoint is not one of the state that the plan starts from.
    #[error("the safety checkpoint is not of the state that the plan starts from")]
    NoSafety,
    /// The latest capture under the lock is not the state that the plan starts from.
    #[error("the workspace changed since the plan was made")]
    Outdated,
    /// Another process changed the path while it was restored.
    #[error("the workspace changed while it was restored: {0}")]
    Changed(RelPath),
    /// The system refused something.
    #[error("cannot restore {path}")]
    Io {
        /// On what.
        path: RelPath,
        /// Why.
        source: io::Error,
    },
    /// What was written is not what is there.
    #[error("{0} is not what was written")]
    Unverified(RelPath),
    /// The content to write is damaged.
    #[error("the checkpoint is damaged")]
    Object(#[from] ObjectError),
    /// Something is wrong with the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It failed and everything was put back, but for what somebody changed meanwhile.
    #[error("{failure}; left as they are, because they changed meanwhile: {left:?}")]
    Left {
        /// Why the restore failed.
        #[source]
        failure: Box<RestoreError>,
        /// What was left.
        left: Vec<RelPath>,
    },
    /// It failed, and reverting it failed too. The journal stays, and the next command tries again.
    #[error("{failure}; putting everything back failed as well: {revert}")]
    NotReverted {
        /// Why the restore failed.
        #[source]
        failure: Box<RestoreError>,
        /// Why it could not be reverted.
        revert: Box<RestoreError>,
    },
}

impl RestoreError {
    /// The same, with paths that could not be put back because somebody changed them meanwhile.
    fn with_left(self, mut left: Vec<RelPath>) -> RestoreError {
        left.retain(|path| !matches!(&self, RestoreError::Changed(changed) if changed == path));
        if left.is_empty() { self } else { RestoreError::Left { failure: Box::new(self), left } }
    }
}

/// What became of a restore that was cut off.
#[derive(Debug)]
pub enum Recovery {
    /// It was finished. Paths that somebody changed meanwhile were left alone.
    Finished(Vec<RelPath>),
    /// It had not begun to change anything, or was put back. Likewise.
    Reverted(Vec<RelPath>),
    /// Neither was possible; the next command tries again.
    Failed(RestoreError),
}

impl Plan {
    /// Whether another plan does the same to the same state.
    pub fn does_the_same_as(&self, other: &Plan) -> bool {
        self.from == other.from && self.steps == other.steps && self.blocked == other.blocked
    }
}

impl Lock<'_> {
    /// What became of an interrupted restore when the lock was taken; `None` if there was none.
    pub fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }

    /// Applies a plan. `safety` is a pin of the state that the plan starts from.
    ///
    /// The latest capture under this lock must have found exactly that state. [`Lock::plan`] makes
    /// such a capture; for a plan that was made under an earlier lock, plan again and compare by
    /// [`Plan::does_the_same_as`].
    ///
    /// On an error the workspace is as it was (but see [`RestoreError::NotReverted`]).
    pub fn apply(&mut self, plan: &Plan, safety: &Pin) -> Result<Outcome, RestoreError> {
        if !plan.blocked.is_empty() {
            return Err(RestoreError::Blocked(plan.blocked.clone()));
        }
        if safety.tree != plan.from || safety.name.workspace != *self.workspace().id() {
            return Err(RestoreError::NoSafety);
        }
        if self.captured != Some(plan.from) {
            return Err(RestoreError::Outdated);
        }
        // The restore changes the workspace, so the next one needs another capture.
        self.captured = None;
        apply::apply(self, plan)
    }
}
