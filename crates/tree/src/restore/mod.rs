//! Restore: tree → workspace. Plan, journal, apply, verify.
//!
//! A [`Plan`] is self-contained. Applying it writes the journal, stages every new file under a
//! temporary name, and then changes the workspace only in ways that can be reverted: it renames
//! files, creates and removes directories, and changes modes. Old files stay under temporary names
//! until the new ones are verified.

mod apply;
mod draft;
mod guard;
mod journal;
mod moves;
mod owners;
mod plan;
mod recover;
mod writers;

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::beneath::Stat;
use crate::capture::{CaptureError, Uncovered, UncoveredReason};
use crate::compare::Node;
use crate::lock::{Lock, PinError};
use crate::oid::Oid;
use crate::path::RelPath;
use crate::pins::{Pin, PinName};
use crate::rules::Filter;
use crate::store::{ObjectError, StoreError};

pub(crate) use self::moves::set_mode;
pub use self::writers::Writer;

/// True if a restore was interrupted. `directory` is the workspace's directory in the store.
pub(crate) fn is_unfinished(directory: &Path) -> bool {
    journal::Journal::exists(directory)
}

/// The state to return to, as its capture described it.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct RestoreTarget<'a> {
    pub tree: Oid,
    /// The filter that the state was captured with.
    pub filter: &'a Filter,
    /// The paths that the state does not cover.
    pub uncovered: &'a [Uncovered],
    /// The state after a restore, if this target undoes that restore. Paths that are still in that
    /// state are not guarded, so the whole restore is undone.
    pub undoes: Option<Oid>,
    /// Paths that are not guarded, because the calls that are taken back named them.
    pub released: &'a [RelPath],
    /// True if the capture left out files and empty directories without reporting them, and kept no
    /// permissions except a file's executable bit. In this case, a restore deletes no empty
    /// directory and no path that the filter excludes, and leaves all other permissions unchanged.
    pub silent: bool,
}

/// The plan of a restore. It is self-contained: it borrows nothing and holds nothing open, so it
/// can be kept, even as JSON, while the user decides.
///
/// In the meantime, another process may change the workspace. [`Lock::apply`] therefore requires a
/// capture under its own lock, and rejects the plan if that capture differs from the state that the
/// plan starts from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The current state, including everything that the plan overwrites or deletes.
    pub from: Oid,
    /// The state to return to.
    pub to: Oid,
    /// The paths that the current state does not cover.
    pub uncovered: Vec<Uncovered>,
    /// The filter that the current state was captured with.
    pub filter: Filter,
    /// Files, symlinks and directories that will be written or whose mode will be set.
    pub writes: Vec<RelPath>,
    /// Files, symlinks and directories that will be deleted.
    pub deletes: Vec<RelPath>,
    /// Guarded files that differ from the target and are left unchanged.
    pub guarded: Vec<RelPath>,
    /// Paths that are kept although the target does not have them.
    pub kept: Vec<KeptPath>,
    /// Files that will be setuid or setgid. They will run as this user, even if another user starts
    /// them.
    #[serde(default)]
    pub privileged: Vec<RelPath>,
    /// Files that will be written without the setuid or setgid bit of the target, because another
    /// user owns the current file or will own the new one.
    #[serde(default)]
    pub unprivileged: Vec<RelPath>,
    /// Files that root does not give to the owner of the current file or of the directory, because
    /// it is unknown whether that owner is allowed to read them.
    #[serde(default)]
    pub disowned: Vec<RelPath>,
    /// Paths that prevent the plan from being applied.
    pub blocked: Vec<BlockedPath>,
    steps: Vec<PlannedStep>,
    /// Directories that must temporarily be made writable, with their modes.
    loosened: Vec<(RelPath, u32)>,
}

/// A path that is kept although the target does not have it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct KeptPath {
    pub path: RelPath,
    pub reason: KeptReason,
}

/// The reason why a path is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptReason {
    /// The target did not cover the path, so the path may already have existed when the target was
    /// captured.
    NotCovered,
    /// The path is currently ignored, or not captured for another reason, so no checkpoint holds
    /// it.
    NotSaved,
    /// The directory contains a path that is kept.
    NotEmpty,
}

/// A path that prevents a plan from being applied.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct BlockedPath {
    pub path: RelPath,
    #[serde(flatten)]
    pub reason: BlockedReason,
    /// The processes that have the file open for writing, if the system reveals them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writers: Vec<Writer>,
}

impl BlockedPath {
    /// Creates an entry for a path that cannot be restored. The processes that are writing to it
    /// are added later.
    pub fn new(path: RelPath, reason: BlockedReason) -> BlockedPath {
        BlockedPath { path, reason, writers: Vec::new() }
    }
}

/// The reason why a path cannot be restored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "blocked", rename_all = "snake_case")]
pub enum BlockedReason {
    /// The path cannot be captured, so overwriting it would lose it.
    Uncovered(UncoveredReason),
    /// A path below this one is never captured, such as a repository's own data.
    Uncapturable,
    /// A directory above the path is no longer a directory.
    ParentReplaced,
    /// Another process changed the path while it was being restored.
    Changed,
    /// The system does not allow the path to be restored.
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    Failed { error: String },
}

impl BlockedPath {
    /// Says why the path cannot be restored, and which processes are writing to it.
    pub fn describe_reason(&self) -> String {
        let mut reason = match &self.reason {
            BlockedReason::Uncovered(uncovered) => uncovered.to_string(),
            BlockedReason::Uncapturable => "never captured".into(),
            BlockedReason::ParentReplaced => "no longer a directory".into(),
            BlockedReason::Changed => "changed in the meantime".into(),
            BlockedReason::Failed { error } => error.clone(),
        };
        for writer in &self.writers {
            let Writer { command, pid } = writer;
            reason.push_str(&format!("; {command} (pid {pid}) has it open for writing"));
        }
        reason
    }
}

/// A step of a plan, with the stat of the file that it expects to find.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct PlannedStep {
    step: Step,
    /// The stat of the file at the step's path when it was captured. The journal omits it, because
    /// files may have different inodes after a restore was interrupted.
    seen: Option<Stat>,
}

/// One change to one path.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
struct Step {
    path: RelPath,
    from: Option<Node>,
    to: Option<Node>,
    /// The directory of the step's temporary file. This directory exists before, during and after
    /// the restore.
    stage: RelPath,
    /// True if the step is part of replacing a directory with a non-directory, or vice versa.
    swap: bool,
}

/// The changes that a restore made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct RestoreOutcome {
    pub restored: Vec<RelPath>,
    pub deleted: Vec<RelPath>,
    /// Directories that should have been deleted but got new content during the restore.
    pub kept: Vec<RelPath>,
    /// The new names of old files that another process wrote to while they were being replaced.
    pub saved: Vec<RelPath>,
}

/// The reason why a plan could not be made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum PlanError {
    #[error("{0} is neither in the checkpoint nor in the workspace")]
    NoSuchPath(RelPath),
    /// The current state could not be captured.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The target is damaged.
    #[error("the checkpoint is damaged")]
    Target(#[from] ObjectError),
    /// The workspace cannot be read.
    #[error("cannot read {path}")]
    Io { path: RelPath, source: io::Error },
    /// An earlier restore was interrupted and can be neither finished nor reverted.
    #[error("an interrupted restore of this workspace must be finished first")]
    Unfinished,
}

/// The reason why a restore did not happen. The workspace is unchanged, except after
/// [`RestoreError::Left`] and [`RestoreError::NotReverted`].
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum RestoreError {
    /// These paths cannot be restored, according to the plan or to the attempt to apply it.
    #[error("cannot restore {}{}", .0[0].path, and_more(.0.len()))]
    Blocked(Vec<BlockedPath>),
    /// The safety checkpoint does not hold the state that the plan starts from.
    #[error("the safety checkpoint does not hold the state that the plan starts from")]
    NoSafety,
    /// The latest capture under the lock is not the state that the plan starts from.
    #[error("the workspace has changed since the plan was made")]
    Outdated,
    /// Another process changed the path while it was being restored.
    #[error("the workspace changed while it was being restored: {0}")]
    Changed(RelPath),
    #[error("cannot restore {path}")]
    Io { path: RelPath, source: io::Error },
    /// A path does not have the planned state after its step.
    #[error("{0} was not restored correctly")]
    Unverified(RelPath),
    /// The content to write is damaged.
    #[error("the checkpoint is damaged")]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The restore could not be recorded in the safety checkpoint.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// The restore failed and was reverted, except for paths that another process changed in the
    /// meantime.
    #[error("{failure}; these paths were left unchanged: {}", list_paths(.left))]
    Left {
        #[source]
        failure: Box<RestoreError>,
        left: Vec<RelPath>,
    },
    /// The restore failed, and so did reverting it. The journal is kept, and the next command tries
    /// again.
    #[error("{failure}; reverting the restore also failed: {revert}")]
    NotReverted {
        #[source]
        failure: Box<RestoreError>,
        revert: Box<RestoreError>,
    },
}

fn list_paths(paths: &[RelPath]) -> String {
    paths.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn and_more(count: usize) -> String {
    if count > 1 { format!(" and {} more", count - 1) } else { String::new() }
}

impl RestoreError {
    /// Returns the paths that prevented the restore. If they are skipped, the rest can be restored.
    pub fn blocked_paths(&self) -> Vec<BlockedPath> {
        match self {
            RestoreError::Blocked(blocked) => blocked.clone(),
            RestoreError::Changed(path) | RestoreError::Unverified(path) => {
                vec![BlockedPath::new(path.clone(), BlockedReason::Changed)]
            }
            RestoreError::Io { path, source } if !path.is_root() => {
                let error = source.to_string();
                vec![BlockedPath::new(path.clone(), BlockedReason::Failed { error })]
            }
            RestoreError::Left { failure, .. } => failure.blocked_paths(),
            _ => Vec::new(),
        }
    }

    /// Combines errors into one. `failures` must not be empty.
    fn of_several(mut failures: Vec<RestoreError>) -> RestoreError {
        let blocked: Vec<BlockedPath> =
            failures.iter().flat_map(RestoreError::blocked_paths).collect();
        let is_more = failures.len() > 1 && blocked.len() > 1;
        if is_more { RestoreError::Blocked(blocked) } else { failures.swap_remove(0) }
    }

    /// Adds the paths that were not reverted because another process changed them in the meantime.
    fn with_left(self, mut left: Vec<RelPath>) -> RestoreError {
        left.retain(|path| !matches!(&self, RestoreError::Changed(changed) if changed == path));
        if left.is_empty() { self } else { RestoreError::Left { failure: Box::new(self), left } }
    }
}

/// The outcome of recovering an interrupted restore.
#[derive(Debug)]
pub enum Recovery {
    /// All files were already restored, and [`Lock::keep_restore_open`] was called. Only the call
    /// to [`Lock::end_restore`] is missing.
    Restored,
    /// The restore was finished, except for these paths, which another process changed in the
    /// meantime.
    Finished(Vec<RelPath>),
    /// The restore was reverted, except for these paths, which another process changed in the
    /// meantime.
    Reverted(Vec<RelPath>),
    /// The restore could be neither finished nor reverted. The next command tries again, unless the
    /// journal had to be set aside.
    Failed(RestoreError),
}

impl Plan {
    /// True if another plan makes the same changes to the same state, and is blocked at the same
    /// paths for the same reasons.
    pub fn does_the_same_as(&self, other: &Plan) -> bool {
        let is_blocked_alike = self.blocked.len() == other.blocked.len()
            && self
                .blocked
                .iter()
                .zip(&other.blocked)
                .all(|(one, other)| (&one.path, &one.reason) == (&other.path, &other.reason));
        self.from == other.from && self.steps == other.steps && is_blocked_alike
    }

    /// Lists the paths that another plan changes differently, or expects to be in a different
    /// state.
    pub fn paths_done_differently(&self, other: &Plan) -> Vec<RelPath> {
        let steps = |plan: &Plan| -> HashSet<Step> {
            plan.steps.iter().map(|planned| planned.step.clone()).collect()
        };
        let differing =
            steps(self).symmetric_difference(&steps(other)).cloned().collect::<Vec<_>>();
        let paths: BTreeSet<RelPath> = differing.into_iter().map(|step| step.path).collect();
        paths.into_iter().collect()
    }
}

impl Lock<'_> {
    /// Returns the outcome of recovering a restore that was interrupted before this lock was taken,
    /// or `None` if there was no such restore.
    pub fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }

    /// Applies a plan. `safety` is a pin of the state that the plan starts from.
    ///
    /// The latest capture under this lock must have found exactly that state. [`Lock::plan`] makes
    /// such a capture. If the plan was made under an earlier lock, make another plan and compare
    /// the two with [`Plan::does_the_same_as`].
    ///
    /// After an error, the workspace is unchanged, with the exceptions that [`RestoreError`] lists.
    pub fn apply(&mut self, plan: &Plan, safety: &Pin) -> Result<RestoreOutcome, RestoreError> {
        let outcome = self.check_and_apply(plan, safety, None)?;
        self.end_restore();
        Ok(outcome)
    }

    /// Applies a plan as [`Lock::apply`] does, and records the success in `safety`: the pin gets
    /// the message `done`, which also changes its id, if and only if the workspace was restored.
    /// This holds even if this process is killed.
    ///
    /// If the restore succeeds, it is treated as interrupted until [`Lock::end_restore`] is called.
    /// Before that call, the caller can do further work that belongs to the restore. If the caller
    /// is killed, the next [`Lock`] reports [`Recovery::Finished`], and [`Lock::recovered_pin`]
    /// returns the pin.
    pub fn apply_recorded(
        &mut self,
        plan: &Plan,
        safety: &Pin,
        done: &str,
    ) -> Result<RestoreOutcome, RestoreError> {
        self.check_and_apply(plan, safety, Some(done))
    }

    /// Ends a restore that has succeeded.
    pub fn end_restore(&mut self) {
        // If the journal cannot be removed, the next process that takes the lock finds that all
        // files are restored.
        let _ = journal::Journal::end(&self.directory);
    }

    /// Keeps a successful restore open, so that the caller's further work can be done later: the
    /// next [`Lock`] reports [`Recovery::Restored`].
    pub fn keep_restore_open(&mut self) {
        // If the journal cannot be renamed, the next process that takes the lock finds that all
        // files are restored.
        let _ = journal::Journal::keep_open(&self.directory);
    }

    /// Returns the safety pin of the restore that was interrupted before this lock was taken.
    /// Returns `None` if there was no such restore, or if the restore was not recorded in its
    /// safety pin.
    pub fn recovered_pin(&self) -> Option<&PinName> {
        self.recovered_pin.as_ref()
    }

    fn check_and_apply(
        &mut self,
        plan: &Plan,
        safety: &Pin,
        done: Option<&str>,
    ) -> Result<RestoreOutcome, RestoreError> {
        if !plan.blocked.is_empty() {
            return Err(RestoreError::Blocked(plan.blocked.clone()));
        }
        if safety.tree != plan.from || safety.name.workspace != *self.workspace().id() {
            return Err(RestoreError::NoSafety);
        }
        if self.captured != Some(plan.from) {
            return Err(RestoreError::Outdated);
        }
        // This restore changes the workspace, so the next restore needs another capture.
        self.captured = None;
        let done = done.map(|done| journal::JournalPin {
            seq: safety.name.seq,
            attempt: safety.message.clone(),
            done: done.to_owned(),
        });
        apply::apply_plan(self, plan, safety, done.as_ref())
    }
}
