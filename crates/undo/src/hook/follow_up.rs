//! Work to do while no agent is waiting: warming up a workspace, and maintaining it at the end of a
//! turn.

use std::path::{Path, PathBuf};

use takeback_ledger::Time;
use takeback_tree::{Capture, CaptureError, Lock, Workspace, WorkspaceError};

use super::state::{SessionState, WorkspaceState};
use crate::Opened;
use crate::history::record::Kind;
use crate::history::{History, TakeError, WorkspaceRef, count_changes, new_record, pin_tree};
use crate::retention::limit_rows;

/// Work that can wait.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum FollowUp {
    /// Capture a workspace, so that the first checkpoint is fast.
    Warm(PathBuf),
    /// Maintain a workspace at the end of a turn.
    Tend { workspace: PathBuf, session: String, time: Time },
}

impl FollowUp {
    pub(super) fn tend(opened: &Opened, session: &SessionState) -> FollowUp {
        let (workspace, session) = (session.workspace.0.clone(), session.session.clone());
        FollowUp::Tend { workspace, session, time: opened.now() }
    }
}

/// Captures a workspace, so that the next checkpoint only has to look for changes.
pub fn warm_workspace(opened: &Opened, directory: &Path) -> Result<(), TakeError> {
    let workspace = opened.store()?.workspace(directory, &opened.forbidden)?;
    let mut lock = opened.lock(&workspace)?;
    capture_all(opened, &workspace, &mut lock)?;
    lock.finish(opened.system_time())?;
    Ok(())
}

/// Captures a workspace by the configured rules, and remembers for the next hooks whether it has
/// too many files for that.
fn capture_all(
    opened: &Opened,
    workspace: &Workspace<'_>,
    lock: &mut Lock<'_>,
) -> Result<Capture, CaptureError> {
    let captured = lock.capture(&opened.capture_options(&opened.rules, &[]));
    let is_too_large = matches!(captured, Err(CaptureError::TooManyFiles { .. }));
    let limit = is_too_large.then_some(opened.rules.max_files);
    WorkspaceState::new(workspace.notes()).set_too_large(limit);
    captured
}

/// Maintains a workspace at the end of a turn: keeps the resulting state, counts the turn's changes,
/// and enforces the limit of number.
pub fn tend_workspace(
    opened: &Opened,
    directory: &Path,
    session: &str,
    ended: Time,
) -> Result<(), TakeError> {
    let workspace = match opened.store()?.workspace(directory, &opened.forbidden) {
        // Nothing was protected there, so there is nothing to do.
        Err(WorkspaceError::Refused { .. }) => return Ok(()),
        workspace => workspace?,
    };
    conclude_turn(opened, &workspace, session, ended)?;
    let history = History::read(workspace.store(), workspace.id())?;
    count_changes(opened, &WorkspaceRef::of(&workspace), &history);
    // If another process is in the way, the next turn makes up for it.
    let _ = limit_rows(opened, workspace.id());
    Ok(())
}

/// Forgets the calls of a session that have not ended by now, and keeps the state of the workspace
/// if it changed.
fn conclude_turn(
    opened: &Opened,
    workspace: &Workspace<'_>,
    session: &str,
    ended: Time,
) -> Result<(), TakeError> {
    let mut lock = opened.lock(workspace)?;
    WorkspaceState::new(workspace.notes())
        .drop_open_calls(|call| call.session == session && call.time <= ended);
    let names = workspace.store().pin_names(workspace.id())?;
    let newest = names.last().and_then(|name| workspace.store().pin(name).ok().flatten());
    let capture = match capture_all(opened, workspace, &mut lock) {
        // Only what calls name is captured there, and that is done.
        Err(CaptureError::TooManyFiles { .. }) => return Ok(lock.finish(opened.system_time())?),
        captured => captured?,
    };
    if newest.is_some_and(|newest| newest.tree != capture.tree) {
        let record = new_record(opened, &mut lock, Kind::State, "at the end of a turn")?;
        let tree = capture.tree;
        pin_tree(opened, &mut lock, tree, record.with_capture(capture))?;
    }
    lock.finish(opened.system_time())?;
    Ok(())
}
