//! Work to do while no agent is waiting: warming up a workspace, and maintaining it at the end of a
//! turn.

use std::path::{Path, PathBuf};

use takeback_base::errors::error_chain;
use takeback_ledger::Time;
use takeback_tree::{
    CaptureError, RelPath, RepairError, Store, Workspace, WorkspaceError, WorkspaceId,
};

use super::repositories::find_nested_repositories;
use super::session::find_owner;
use super::state::{OpenCall, SessionState, WorkspaceState};
use crate::Opened;
use crate::history::record::{Began, CallRef, Kind, Record};
use crate::history::{History, TakeError, WorkspaceRef, count_changes, new_record, pin_tree};
use crate::retention::limit_rows;

/// The number of bytes in the store that are checked for damage at the end of each turn.
const SCRUB_BYTES: u64 = 64 << 20;

/// Work that is put off until no agent is waiting.
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

/// Captures a workspace, so that the next checkpoint only has to look for changes. Then checks the
/// next part of the store for damage.
pub fn warm_workspace(opened: &Opened, directory: &Path) -> Result<(), TakeError> {
    let workspace = opened.store()?.workspace(directory, &opened.forbidden)?;
    let mut lock = opened.lock(&workspace)?;
    let nested = find_nested_repositories(workspace.path());
    WorkspaceState::new(workspace.notes()).set_repositories(&nested);
    lock.forget_limit();
    lock.limit_captures(opened.settings.max_total_size());
    let capture = lock.capture(&opened.capture_options(workspace.path(), &[]))?;
    opened.note_findings(workspace.path(), &capture);
    lock.finish(opened.system_time())?;
    scrub_store(opened, &workspace);
    Ok(())
}

/// Maintains a workspace at the end of a turn: keeps the resulting state, counts the turn's
/// changes, and enforces `max_snapshots`.
pub fn tend_workspace(
    opened: &Opened,
    directory: &Path,
    session: &str,
    ended: Time,
) -> Result<(), TakeError> {
    let workspace = match opened.store()?.workspace(directory, &opened.forbidden) {
        // Nothing is protected in a forbidden root, so there is nothing to do.
        Err(WorkspaceError::Refused { .. }) => return Ok(()),
        workspace => workspace?,
    };
    scrub_store(opened, &workspace);
    let past = PastTurns::of(opened, session, ended);
    conclude_turn(opened, &workspace, &past)?;
    conclude_elsewhere(opened, workspace.id(), &past)?;
    let history = History::read(workspace.store(), workspace.id())?;
    count_changes(opened, &WorkspaceRef::of(&workspace), &history, usize::MAX);
    // If another process is using the workspace, this is done at the end of the next turn.
    let _ = limit_rows(opened, workspace.id());
    Ok(())
}

/// Captures the state at the end of a session's turn, if the ends of some of its calls were not
/// reported. This is done while the agent is still waiting, because the user's next edits must not
/// be attributed to these calls. If this fails, [`tend_workspace`] tries again.
pub fn conclude_unended_calls(opened: &Opened, session: &str) -> Result<(), TakeError> {
    let Some(state) = opened.session_state(session).filter(|_| opened.has_store()) else {
        return Ok(());
    };
    let (store, directory) = (opened.store()?, &state.workspace.0);
    let notes = store.notes(&store.workspace_id(directory));
    let past = PastTurns::of(opened, session, opened.now());
    if WorkspaceState::new(notes).open_calls().iter().any(|call| past.contain(call)) {
        let workspace = store.workspace(directory, &opened.forbidden)?;
        conclude_turn(opened, &workspace, &past)?;
    }
    Ok(())
}

/// Checks the next part of the store for damage. Repairs a damaged store, and stores lost files
/// again if they are still on disk.
fn scrub_store(opened: &Opened, workspace: &Workspace<'_>) {
    let store = workspace.store();
    // If this fails, the check is repeated after the next turn.
    let Ok(Some(damaged)) = store.scrub(SCRUB_BYTES) else { return };
    let message = match store.repair(&|_, _| {}) {
        Ok(repaired) => format!(
            "{} was damaged: {}. The store was repaired and {} objects were saved; `takeback \
             checkpoints verify` shows which checkpoints lost files",
            damaged.name, damaged.reason, repaired.salvaged
        ),
        Err(RepairError::Busy) => return,
        Err(error) => format!(
            "{} is damaged: {}. It could not be repaired: {}",
            damaged.name,
            damaged.reason,
            error_chain(&error)
        ),
    };
    opened.note_failure(workspace.path(), &message);
    heal_workspaces(opened, store);
}

/// Captures all workspaces, including everything that calls have named. This stores lost objects
/// again if their files are still on disk, and completes the checkpoints that need these objects.
fn heal_workspaces(opened: &Opened, store: &Store) {
    let heal = |id: &WorkspaceId| -> Option<()> {
        let info = store.workspace_info(id).ok()??;
        let path = info.path.0;
        let workspace = match info.single_file {
            true => store.single_file(&path, &opened.forbidden).ok()?,
            false => store.workspace(&path, &opened.forbidden).ok()?,
        };
        let named = History::read(store, id).ok()?.named_paths();
        let mut lock = opened.lock(&workspace).ok()?;
        lock.limit_captures(opened.settings.max_total_size());
        lock.capture(&opened.capture_options(&path, &named)).ok()?;
        lock.finish(opened.system_time()).ok()
    };
    // A workspace that cannot be captured now is healed by its next checkpoint.
    let all = store.pinned_workspaces().unwrap_or_default();
    for id in &all {
        let _ = heal(id);
    }
}

/// Forgets a session's calls whose ends were never reported. Pins the state of the workspace if it
/// has changed since the newest pin, or if there were such calls.
fn conclude_turn(
    opened: &Opened,
    workspace: &Workspace<'_>,
    past: &PastTurns<'_>,
) -> Result<(), TakeError> {
    let mut lock = opened.lock(workspace)?;
    let mut unended = drop_unended_calls(workspace, past);
    let names = workspace.store().pin_names(workspace.id())?;
    let newest = names.last().and_then(|name| workspace.store().pin(name).ok().flatten());
    let named: Vec<RelPath> = unended.iter().flat_map(|call| call.named.clone()).collect();
    lock.limit_captures(opened.settings.max_total_size());
    let capture = match lock.capture(&opened.capture_options(workspace.path(), &named)) {
        // In a workspace that is too large, only the paths that calls name are captured, and they
        // have already been captured.
        Err(CaptureError::TooManyFiles { .. } | CaptureError::TooLarge { .. }) => {
            return Ok(lock.finish(opened.system_time())?);
        }
        captured => captured?,
    };
    opened.note_findings(workspace.path(), &capture);
    // The end of the turn is the latest possible end of its calls.
    if newest.is_some_and(|newest| newest.tree != capture.tree || !unended.is_empty()) {
        let record = new_record(opened, &mut lock, Kind::State, "at the end of a turn")?;
        let record = Record { call: unended.pop(), unended, ..record };
        let tree = capture.tree;
        pin_tree(opened, &mut lock, tree, record.with_capture(capture))?;
    }
    lock.finish(opened.system_time())?;
    Ok(())
}

/// In all workspaces except `own`, forgets the open calls that the session and its subagents made
/// in past turns. An open call would cast doubt on everything that other sessions change in its
/// workspace.
fn conclude_elsewhere(
    opened: &Opened,
    own: &WorkspaceId,
    past: &PastTurns<'_>,
) -> Result<(), TakeError> {
    let store = opened.store()?;
    let is_over = |call: &OpenCall| past.contain(call) || past.contain_subagents(opened, call);
    for place in store.pinned_workspaces()?.iter().filter(|place| *place != own) {
        let hook_state = WorkspaceState::new(store.notes(place));
        if !hook_state.open_calls().iter().any(is_over) {
            continue;
        }
        // If another process is using the workspace, this is done at the end of the next turn.
        if let Some(_guard) = store.try_lock_workspace(place)? {
            hook_state.drop_open_calls(is_over);
        }
    }
    Ok(())
}

/// The past turns of a session. If a call in such a turn is still open, its end will never be
/// reported.
struct PastTurns<'a> {
    session: &'a str,
    ended: Time,
    state: Option<SessionState>,
    /// The session that the work belongs to, as returned by `find_owner`.
    owner: Option<SessionState>,
}

impl PastTurns<'_> {
    fn of<'a>(opened: &Opened, session: &'a str, ended: Time) -> PastTurns<'a> {
        let state = opened.session_state(session);
        let owner = state.as_ref().map(|state| find_owner(opened, state));
        PastTurns { session, ended, state, owner }
    }

    fn contain(&self, call: &OpenCall) -> bool {
        let is_of_past_turn = match (&self.state, &self.owner) {
            (Some(state), Some(owner)) => state.over || call.turn != owner.current_turn().id,
            _ => call.time <= self.ended,
        };
        call.session == self.session && is_of_past_turn
    }

    /// Returns true if one of the session's subagents made the call before the session's current
    /// turn. A subagent may outlast the turn that started it, so its calls from the current turn
    /// may still be running.
    fn contain_subagents(&self, opened: &Opened, call: &OpenCall) -> bool {
        let Some(subagent) = opened.session_state(&call.session) else { return false };
        let owner = find_owner(opened, &subagent);
        subagent.parent.is_some()
            && owner.session == self.session
            && call.turn != owner.current_turn().id
    }
}

/// Forgets the open calls of past turns. Returns descriptions of these calls, in the order in which
/// they began.
fn drop_unended_calls(workspace: &Workspace<'_>, past: &PastTurns<'_>) -> Vec<CallRef> {
    let session = past.session;
    let hook_state = WorkspaceState::new(workspace.notes());
    let is_over = |call: &OpenCall| past.contain(call);
    let mut calls: Vec<OpenCall> = hook_state.open_calls().into_iter().filter(is_over).collect();
    hook_state.drop_open_calls(is_over);
    calls.sort_by_key(|call| call.seq);
    let owner = past.owner.as_ref().map_or(session, |owner| &owner.session).to_owned();
    let describe = |call: OpenCall| CallRef {
        agent: session.split(':').next().unwrap_or_default().to_owned(),
        subagent: (owner != session).then(|| session.to_owned()),
        session: owner.clone(),
        turn: call.turn,
        id: call.call,
        tool: call.tool,
        named: call.named,
        writes: call.writes,
        script: call.script,
        bounded: call.bounded,
        began: Some(Began {
            tree: call.tree,
            seq: call.seq,
            time: call.time.rfc3339(),
            uncovered: call.uncovered,
            late: call.late,
        }),
        newest: call.newest,
    };
    calls.into_iter().map(describe).collect()
}
