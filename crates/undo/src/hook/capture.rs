//! The captures before and after a call, for each path that the call may change.

use takeback_base::errors::error_chain;
use takeback_ledger::Time;
use takeback_tree::{Capture, CaptureError, CaptureOptions, Lock, Oid, Workspace};

use super::announced::{Start, update_open_call};
use super::call::{CallContext, ScriptWrites};
use super::held::add_held_files;
use super::protected::{PathKind, ProtectedPath};
use super::report::ToolWork;
use super::state::{self, OpenCall, StepState, WorkspaceState};
use super::unprotected::{Unprotected, find_unprotected};
use crate::Opened;
use crate::history::record::{Began, CallRef, Kind, NewestCheckpoint, Record};
use crate::history::{TakeError, has_pin, new_record, pin_tree};
use crate::settings::Granularity;

/// The result of capturing a path before a call.
pub(super) struct CapturedPath {
    pub(super) tree: Oid,
    /// The checkpoint, if the call needed one.
    pub(super) checkpoint: Option<Oid>,
    /// The paths that the call names or sweeps, but that the tree does not contain.
    pub(super) unprotected: Vec<Unprotected>,
}

/// Finds the newest checkpoint of the workspace in which a call's session works.
pub(super) fn find_newest_checkpoint(
    opened: &Opened,
    call: &CallContext<'_>,
) -> Option<NewestCheckpoint> {
    let store = opened.store().ok()?;
    let workspace = call.session_workspace.clone();
    let seq = store.pin_names(&store.workspace_id(&workspace.0)).ok()?.last()?.seq;
    Some(NewestCheckpoint { workspace, seq })
}

/// Captures a path before a call. For a path outside the session's workspace, `newest` is the
/// newest checkpoint of that workspace.
pub(super) fn capture_before(
    opened: &Opened,
    path: &ProtectedPath,
    call: &CallContext<'_>,
    newest: Option<NewestCheckpoint>,
) -> Result<CapturedPath, TakeError> {
    let workspace = path.open(opened)?;
    let mut lock = opened.lock(&workspace)?;
    let hook_state = WorkspaceState::new(workspace.notes());
    let mut capture = capture_path(opened, path, &workspace, &mut lock)?;
    let late = call.deadline.has_passed();
    if late && let Err(error) = add_held_files(opened, call, path, &mut lock, &mut capture) {
        opened.note_failure(workspace.path(), &error_chain(&error));
    }
    let unprotected = find_unprotected(path, &capture.uncovered);
    if call.deadline.is_announced()
        && let Some((open_call, _)) = hook_state.find_open_call(&call.reporter, &call.key)
    {
        let tree = open_call.tree;
        keep_open_call(opened, call, &workspace, &update_open_call(call, path, open_call));
        lock.finish(opened.system_time())?;
        return Ok(CapturedPath { tree, checkpoint: None, unprotected });
    }
    let last = hook_state
        .step(&call.session)
        .filter(|step| step.turn == call.turn.number && has_pin(&workspace, step.seq));
    let start = Start::find(call, &workspace, capture, last.is_some())?;
    let before = StateBefore { start, last, newest };
    let (open_call, checkpoint) = pin_before(opened, path, call, &mut lock, before)?;
    let tree = open_call.tree;
    if !call.is_prompt {
        keep_open_call(opened, call, &workspace, &open_call);
    }
    lock.finish(opened.system_time())?;
    Ok(CapturedPath { tree, checkpoint, unprotected })
}

/// The state before a call.
struct StateBefore {
    start: Start,
    /// The last checkpoint of the call's turn.
    last: Option<StepState>,
    /// For a path outside the session's workspace, the newest checkpoint of that workspace.
    newest: Option<NewestCheckpoint>,
}

/// Pins the state before a call if necessary. Returns the open call, and also the checkpoint if the
/// call needed one.
fn pin_before(
    opened: &Opened,
    path: &ProtectedPath,
    call: &CallContext<'_>,
    lock: &mut Lock<'_>,
    before: StateBefore,
) -> Result<(OpenCall, Option<Oid>), TakeError> {
    let workspace = lock.workspace();
    let hook_state = WorkspaceState::new(workspace.notes());
    let StateBefore { start, last, newest } = before;
    let (tree, late) = (start.capture.tree, call.deadline.has_passed());
    let is_checkpoint = match &last {
        None => true,
        Some(last) => opened.settings.granularity == Granularity::Step && last.tree != tree,
    };
    let writes = call.writes_in(path.path());
    let uncovered = start.capture.uncovered.iter().map(|uncovered| uncovered.path.clone());
    let uncovered = uncovered.collect();
    // Even if the call gets no checkpoint, a pin must keep the state before the call in the store.
    let is_kept = last.as_ref().is_some_and(|last| last.tree == tree);
    let needs_pin = is_checkpoint || !is_kept;
    let seq = match start.known {
        Some(known) if !needs_pin => known,
        _ => lock.next_seq()?,
    };
    let mut checkpoint = None;
    if needs_pin {
        let kind = if is_checkpoint { Kind::Call } else { Kind::State };
        let named = start.named(path);
        let record = Record {
            // The effects of the call have the same time in the ledger.
            time: call.time.rfc3339(),
            call: Some(CallRef { newest: newest.clone(), ..call.to_ref(named, &writes) }),
            first: last.is_none(),
            late,
            prompted: call.turn.prompted.map(Time::rfc3339),
            ..new_record(opened, lock, kind, &call.describe_reason())?
        };
        let taken = pin_tree(opened, lock, tree, record.with_capture(start.capture.clone()))?;
        if is_checkpoint {
            checkpoint = Some(taken.pin.id);
            let step = StepState { turn: call.turn.number, tree, seq };
            note_lost_state(opened, workspace, hook_state.set_step(&call.session, &step));
        }
    }
    let has_pin = needs_pin || start.known.is_some();
    start.pin_present(opened, lock, call, path, &writes)?;
    let open_call = OpenCall {
        session: call.reporter.clone(),
        turn: call.turn.id.clone(),
        call: call.id.clone(),
        tool: call.call.tool.clone(),
        named: path.named.clone(),
        writes: writes.paths,
        script: call.call.script().is_some(),
        bounded: writes.bounded,
        tree,
        uncovered,
        seq,
        time: call.time,
        late,
        has_pin,
        newest,
    };
    Ok((open_call, checkpoint))
}

/// Remembers a call that has begun.
fn keep_open_call(
    opened: &Opened,
    call: &CallContext<'_>,
    workspace: &Workspace<'_>,
    open_call: &OpenCall,
) {
    let hook_state = WorkspaceState::new(workspace.notes());
    let written = hook_state.add_open_call(&call.reporter, &call.key, open_call);
    note_lost_state(opened, workspace, written);
}

fn capture_path(
    opened: &Opened,
    path: &ProtectedPath,
    workspace: &Workspace<'_>,
    lock: &mut Lock<'_>,
) -> Result<Capture, CaptureError> {
    // Named paths have a limit of their own.
    lock.limit_captures(if path.only_named { u64::MAX } else { opened.settings.max_total_size() });
    let options = opened.capture_options(path.path(), &path.named);
    let (rules, swept) = (&path.rules, &path.swept[..]);
    let capture = lock.capture(&CaptureOptions { rules, swept, ..options })?;
    opened.note_findings(workspace.path(), &capture);
    Ok(capture)
}

/// Captures a path after a call. Returns `None` if the start of the call is unknown, or if the path
/// was a directory that no longer exists.
pub(super) fn capture_after(
    opened: &Opened,
    path: &ProtectedPath,
    call: &CallContext<'_>,
) -> Result<Option<(OpenCall, Oid)>, TakeError> {
    if !path.path().exists() && matches!(path.kind, PathKind::Directory(_)) {
        // The checkpoint before the call contains the files that were in the directory.
        return Ok(None);
    }
    let workspace = path.open(opened)?;
    let mut lock = opened.lock(&workspace)?;
    let hook_state = WorkspaceState::new(workspace.notes());
    let Some((open_call, file)) = hook_state.find_open_call(&call.reporter, &call.key) else {
        return Ok(None);
    };
    if matches!(call.call.work, ToolWork::Writes { .. }) {
        lock.expect_changes(open_call.tree, &path.named);
    }
    let capture = capture_path(opened, path, &workspace, &mut lock)?;
    let (tree, late) = (capture.tree, call.deadline.has_passed());
    // Even if a call changed nothing, its end is pinned if its start was pinned. Without that pin,
    // the next checkpoint would be mistaken for the end.
    if open_call.has_pin || tree != open_call.tree {
        let began = Began {
            tree: open_call.tree,
            seq: open_call.seq,
            time: open_call.time.rfc3339(),
            uncovered: open_call.uncovered.clone(),
            late: open_call.late || late,
        };
        // The analysis from before the call is used, because files that the script refers to may no
        // longer exist.
        let writes = ScriptWrites { paths: open_call.writes.clone(), bounded: open_call.bounded };
        let call_ref = CallRef {
            turn: open_call.turn.clone(),
            id: open_call.call.clone(),
            began: Some(began),
            newest: open_call.newest.clone(),
            ..call.to_ref(&open_call.named, &writes)
        };
        let reason = format!("after {}", call.tool());
        let record = new_record(opened, &mut lock, Kind::After, &reason)?;
        let record = Record { call: Some(call_ref), ..record };
        pin_tree(opened, &mut lock, tree, record.with_capture(capture))?;
    }
    state::remove(&file);
    lock.finish(opened.system_time())?;
    Ok(Some((open_call, tree)))
}

/// If hook state could not be written, remembers this failure. Such a failure can leave the author
/// of a change uncertain, but no checkpoint is lost.
fn note_lost_state(opened: &Opened, workspace: &Workspace<'_>, written: std::io::Result<()>) {
    if let Err(error) = written {
        let message = format!("cannot record the call: {error}");
        opened.note_failure(workspace.path(), &message);
    }
}
