//! Calls that the agent only announces. The agent does not wait, so a call may already have changed
//! files when the workspace is captured.
//!
//! Such a call is treated as if it had begun right after the workspace's newest checkpoint, because
//! no reported call has changed the workspace since then. Otherwise, changes that the call made
//! before the capture would be attributed to the user.

use takeback_tree::{Capture, Lock, RelPath, Workspace};

use super::call::{CallContext, ScriptWrites};
use super::protected::ProtectedPath;
use super::state::OpenCall;
use crate::Opened;
use crate::history::record::{Kind, Record};
use crate::history::{TakeError, new_record, pin_tree};

/// The state from which a call begins.
pub(super) struct Start {
    /// The state before the call, as far as it is known.
    pub(super) capture: Capture,
    /// The number of the checkpoint that holds this state, if the workspace has changed since that
    /// checkpoint.
    pub(super) known: Option<u64>,
    /// The present state, if it differs from `capture`.
    present: Option<Capture>,
}

impl Start {
    /// Finds the state from which a call begins. `capture` is the present state. If the turn has no
    /// earlier checkpoint, the call is treated as beginning now, because the newest checkpoint may
    /// be old.
    pub(super) fn find(
        call: &CallContext<'_>,
        workspace: &Workspace<'_>,
        capture: Capture,
        is_turn_known: bool,
    ) -> Result<Start, TakeError> {
        let newest = match is_turn_known && call.deadline.is_announced() {
            true => find_newest(workspace)?.filter(|(_, newest)| newest.tree != capture.tree),
            false => None,
        };
        Ok(match newest {
            Some((seq, known)) => {
                Start { capture: known, known: Some(seq), present: Some(capture) }
            }
            None => Start { capture, known: None, present: None },
        })
    }

    /// Returns the paths that were captured because this call names them. There are none if the
    /// state is that of an earlier checkpoint, which may not contain these paths.
    pub(super) fn named<'p>(&self, path: &'p ProtectedPath) -> &'p [RelPath] {
        if self.known.is_some() { &[] } else { &path.named }
    }

    /// Pins the present state if it is not the one from which the call begins. The present state
    /// may contain edits of the user that the call is about to overwrite.
    pub(super) fn pin_present(
        self,
        opened: &Opened,
        lock: &mut Lock<'_>,
        call: &CallContext<'_>,
        path: &ProtectedPath,
        writes: &ScriptWrites,
    ) -> Result<(), TakeError> {
        let Some(present) = self.present else { return Ok(()) };
        let reason = format!("when {} was announced", call.tool());
        let record = Record {
            call: Some(call.to_ref(&path.named, writes)),
            ..new_record(opened, lock, Kind::State, &reason)?
        };
        let tree = present.tree;
        pin_tree(opened, lock, tree, record.with_capture(present))?;
        Ok(())
    }
}

/// Reads the state of the workspace's newest checkpoint. Returns `None` if there is none, or if it
/// cannot be read.
fn find_newest(workspace: &Workspace<'_>) -> Result<Option<(u64, Capture)>, TakeError> {
    let store = workspace.store();
    let newest = store.pin_names(workspace.id())?.pop();
    let Some(pin) = newest.map(|name| store.pin(&name)).transpose()?.flatten() else {
        return Ok(None);
    };
    let Ok(record) = Record::parse(&pin.message) else { return Ok(None) };
    let capture = Capture {
        tree: pin.tree,
        files: record.files.unwrap_or(0),
        uncovered: record.uncovered,
        unsettled: record.unsettled,
        unprivileged: record.unprivileged,
        unapplied: Vec::new(),
        incomplete_index: false,
        damaged: Vec::new(),
        filter: record.filter,
    };
    Ok(Some((pin.name.seq, capture)))
}

/// Updates an open call that is announced again. Its start stays the same: the call began when it
/// was first announced.
pub(super) fn update_open_call(
    call: &CallContext<'_>,
    path: &ProtectedPath,
    open_call: OpenCall,
) -> OpenCall {
    let writes = call.writes_in(path.path());
    OpenCall {
        tool: call.call.tool.clone(),
        named: path.named.clone(),
        writes: writes.paths,
        script: call.call.script().is_some(),
        bounded: writes.bounded,
        ..open_call
    }
}
