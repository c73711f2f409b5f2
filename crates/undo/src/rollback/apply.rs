//! Applies a plan: locks the workspace, checks that its state has not changed since the plan was
//! made, saves that state, restores the files, and records the rollback.

use std::collections::BTreeSet;

use takeback_base::errors::error_chain;
use takeback_ledger::Time;
use takeback_tree::{
    BlockedPath, BlockedReason, Filter, KeptPath, KeptReason, Lock, Oid, OpenGitDirectory, Pin,
    Plan, RelPath, RestoreError, Store, StoreError, Uncovered, Workspace,
};

use super::RollbackError;
use super::conversation::move_conversation;
use super::elsewhere::apply_elsewhere;
use super::follow::follow_sessions;
use super::git_index::{check_index, open_git_directory, restore_index};
use super::notices::{self, RollbackSummary};
use super::parts::{claim_parts, forget_parts, note_parts};
use super::plan::plan_files;
use super::planned::{Planned, PlannedWork, RollbackView};
use super::reversal::{Direction, find_reversible};
use crate::Opened;
use crate::history::record::{Action, Checkpoint, Kind, Record, RollbackRecord};
use crate::history::workspace::revive_workspace;
use crate::history::{History, new_record, pin_tree};

/// Applies a plan if the workspace is still in the state that the plan was made for. Otherwise
/// changes nothing and returns [`RollbackError::Changed`].
///
/// ```
/// use takeback_undo::history::{open_workspace, take_checkpoint};
/// use takeback_undo::{CheckpointOptions, Destination, OpenOptions, Opened, Request, rollback};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let project = scratch.path().join("shop");
/// # std::fs::create_dir(&project)?;
/// # std::fs::write(project.join("cart.rs"), "struct Cart;\n")?;
/// # let opened = Opened::new(OpenOptions::new(scratch.path().join("home")));
/// let workspace = open_workspace(&opened, &project)?;
/// let options = CheckpointOptions { name: Some("start".into()), ..CheckpointOptions::default() };
/// take_checkpoint(&opened, &workspace, &options)?;
/// let cart = project.join("cart.rs");
/// std::fs::remove_file(&cart)?;
/// let roll_back_to = |to| {
///     let planned = rollback::plan(&opened, &Request::new(&project, to))?;
///     rollback::apply(&opened, planned)
/// };
/// roll_back_to(Destination::Checkpoint("start".into()))?;
/// assert!(cart.exists());
/// // The state before the rollback was kept, too.
/// roll_back_to(Destination::BeforeLastRollback)?;
/// assert!(!cart.exists());
/// # Ok(())
/// # }
/// ```
pub fn apply(opened: &Opened, planned: Planned) -> Result<RollbackView, RollbackError> {
    let Planned { mut work, mut view } = planned;
    let (workspace, _revived) = revive_workspace(opened, &work.workspace.0)?;
    check_root(&workspace, &work)?;
    let git = match work.goal.index {
        Some(_) => open_git_directory(&workspace)?,
        None => None,
    };
    if let Some(git) = &git {
        check_index(git)?;
    }
    let mut lock = opened.lock(&workspace)?;
    check_reversal(&workspace, &work)?;
    let safety = match &work.files {
        Some(_) => restore_files(opened, &mut lock, &mut work, &mut view)?,
        None => Some(pin_present(opened, &mut lock, &work)?),
    };
    let Some(safety) = safety else { return Ok(view) };
    view.safety_checkpoint = Some(safety.pin.id);
    let index = match (&git, &work.goal.index) {
        (Some(git), Some(copy)) => restore_index_copy(workspace.store(), git, copy),
        _ => Ok(()),
    };
    // While this process holds the claim, no other process restores the parts of the rollback that
    // are outside the workspace.
    let claim = claim_parts(workspace.store(), workspace.id());
    // If this process is killed before the end of the restore, the next process that locks the
    // workspace completes the rollback.
    let now = safety.record.moment();
    let is_moved = match move_conversation(opened, &work, now, &mut view) {
        Ok(is_moved) => is_moved,
        Err(error) => {
            // The only change in the plan was to move the conversation. That failed, so no rollback
            // happened.
            unpin_safety(&lock, &safety.pin)?;
            return Err(error);
        }
    };
    leave_notices(opened, &workspace, &work, now, &mut view);
    match is_moved {
        true => lock.end_restore(),
        false => lock.keep_restore_open(),
    }
    if let Err(error) = lock.finish(opened.system_time()) {
        let error = error_chain(&error);
        view.warnings.push(format!("the next checkpoint will take longer: {error}"));
    }
    // The lock has been released by now. A process that kept this lock while locking other
    // workspaces could deadlock with a rollback that started in one of them.
    let elsewhere = std::mem::take(&mut work.elsewhere);
    apply_elsewhere(opened, elsewhere, &workspace, safety.pin.id, &mut view);
    if let Some(claim) = claim {
        claim.end();
    }
    // Agents in the workspace do not wait for this step, which may take seconds.
    if is_moved {
        follow_sessions(opened, &workspace, &mut view);
    }
    index.map(|()| view)
}

/// Refuses to change a directory other than the one that the plan was made for.
pub(super) fn check_root(
    workspace: &Workspace<'_>,
    work: &PlannedWork,
) -> Result<(), RollbackError> {
    match work.root.is_none_or(|root| workspace.identity().ok() == Some(root)) {
        true => Ok(()),
        false => Err(RollbackError::Changed(Vec::new())),
    }
}

fn restore_index_copy(
    store: &Store,
    git: &OpenGitDirectory,
    copy: &Oid,
) -> Result<(), RollbackError> {
    let copy = store.attachment(copy).map_err(StoreError::from)?;
    restore_index(git, &copy).map_err(RollbackError::IndexNotRestored)
}

/// Refuses to reverse a rollback twice: another process may have reversed it since the plan was
/// made.
fn check_reversal(workspace: &Workspace<'_>, work: &PlannedWork) -> Result<(), RollbackError> {
    let direction = match work.goal.action {
        Action::Undo => Direction::Undo,
        Action::Redo => Direction::Redo,
        Action::Rollback | Action::UndoTurn => return Ok(()),
    };
    let history = History::read(workspace.store(), workspace.id())?;
    let (safety, _) =
        find_reversible(&history, direction).map_err(|_| RollbackError::Changed(Vec::new()))?;
    let is_same = work.goal.reverses.is_some_and(|(known, _)| known == safety.pin.id);
    if is_same { Ok(()) } else { Err(RollbackError::Changed(Vec::new())) }
}

/// The maximum number of times that a restore is tried, each time without the paths that blocked
/// the previous attempts.
const ATTEMPTS: usize = 10;

/// Saves the current state as the safety checkpoint and restores the files. If the request allows
/// it, skips paths that cannot be restored. Returns `None` if everything is skipped.
pub(super) fn restore_files(
    opened: &Opened,
    lock: &mut Lock<'_>,
    work: &mut PlannedWork,
    view: &mut RollbackView,
) -> Result<Option<Checkpoint>, RollbackError> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let result = try_to_restore(opened, lock, work, view);
        let Err(error) = result else { return result };
        let mut blocked = error.blocked_paths();
        lock.name_writers(&mut blocked);
        if !work.goal.skip_blocked || blocked.is_empty() || attempt == ATTEMPTS {
            return Err(match error {
                RollbackError::Changed(_)
                | RollbackError::Restore(RestoreError::Changed(_) | RestoreError::Unverified(_)) => {
                    RollbackError::Changed(blocked)
                }
                RollbackError::Restore(RestoreError::Blocked(_)) => {
                    RollbackError::Restore(RestoreError::Blocked(blocked))
                }
                error => error,
            });
        }
        work.goal.skip(blocked);
    }
}

fn try_to_restore(
    opened: &Opened,
    lock: &mut Lock<'_>,
    work: &mut PlannedWork,
    view: &mut RollbackView,
) -> Result<Option<Checkpoint>, RollbackError> {
    let present = plan_files(opened, lock, &mut work.goal)?;
    check_unchanged(work, &present)?;
    if is_nothing_left(work, &present, view) {
        (view.restored, view.deleted) = (Vec::new(), Vec::new());
        view.skipped = work.goal.skipped.clone();
        return Ok(None);
    }
    let record = make_safety_record(opened, lock, work, &present.filter, &present.uncovered)?;
    // Until the files are restored, the record says only what is about to happen.
    let attempt = Record { rollback: None, attempt: record.rollback.clone(), ..record.clone() };
    let mut safety = pin_tree(opened, lock, present.from, attempt)?;
    if let Err(error) = note_parts(lock.workspace(), &safety.pin.name, work, view) {
        unpin_safety(lock, &safety.pin)?;
        return Err(RollbackError::Parts(error));
    }
    let done = Record { rollback: record.rollback, attempt: None, ..safety.record.clone() };
    let outcome = match lock.apply_recorded(&present, &safety.pin, &done.message()) {
        Ok(outcome) => outcome,
        // Some files could not be put back. The safety checkpoint contains them, so it is kept.
        Err(error @ (RestoreError::NotReverted { .. } | RestoreError::Left { .. })) => {
            return Err(error.into());
        }
        Err(error) => {
            // No rollback happened, so its safety checkpoint is not needed.
            forget_parts(lock.workspace());
            unpin_safety(lock, &safety.pin)?;
            return Err(error.into());
        }
    };
    (view.restored, view.deleted, view.saved) = (outcome.restored, outcome.deleted, outcome.saved);
    let kept = outcome.kept.into_iter();
    let kept = kept.map(|path| KeptPath { path, reason: KeptReason::NotEmpty });
    let known = view.kept.clone();
    view.kept.extend(present.kept.into_iter().filter(|kept| !known.contains(kept)).chain(kept));
    view.skipped = work.goal.skipped.clone();
    safety.record = done;
    // Adding the rollback to the record changed the id of the checkpoint.
    if let Some(pin) = lock.workspace().store().pin(&safety.pin.name)? {
        safety.pin = pin;
    }
    Ok(Some(safety))
}

/// Returns true if everything that the rollback would have done is skipped.
fn is_nothing_left(work: &PlannedWork, present: &Plan, view: &RollbackView) -> bool {
    let is_skipped =
        present.writes.is_empty() && present.deletes.is_empty() && !work.goal.skipped.is_empty();
    is_skipped && !work.goal.does_more_than_files() && !view.changes_files_elsewhere()
}

/// Fails if the new plan differs from the one that the user saw. Ignores skipped paths, and changes
/// to files that the plan does not touch.
fn check_unchanged(work: &PlannedWork, present: &Plan) -> Result<(), RollbackError> {
    let Some(planned) = &work.files else { return Ok(()) };
    let skipped = &work.goal.skipped;
    let is_skipped = |path: &RelPath| skipped.iter().any(|skipped| path.starts_with(&skipped.path));
    let mut paths = present.paths_done_differently(planned);
    paths.retain(|path| !is_skipped(path));
    if paths.is_empty() {
        return Ok(());
    }
    let changed = |path| BlockedPath::new(path, BlockedReason::Changed);
    Err(RollbackError::Changed(paths.into_iter().map(changed).collect()))
}

fn unpin_safety(lock: &Lock<'_>, safety: &Pin) -> Result<(), StoreError> {
    lock.workspace().store().unpin(&safety.name)
}

/// Pins the current state as the safety checkpoint of a rollback that changes no file.
fn pin_present(
    opened: &Opened,
    lock: &mut Lock<'_>,
    work: &PlannedWork,
) -> Result<Checkpoint, RollbackError> {
    let options = opened.capture_options(lock.workspace().path(), &[]);
    let present = lock.capture_present(&options)?;
    let record = make_safety_record(opened, lock, work, &present.filter, &present.uncovered)?;
    Ok(pin_tree(opened, lock, present.tree, record)?)
}

/// Builds the record of the safety checkpoint, including the rollback that follows.
fn make_safety_record(
    opened: &Opened,
    lock: &mut Lock<'_>,
    work: &PlannedWork,
    filter: &Filter,
    uncovered: &[Uncovered],
) -> Result<Record, RollbackError> {
    let goal = &work.goal;
    let prefix = match goal.action {
        Action::Rollback => "before a rollback to",
        Action::Undo => "before undoing a rollback to",
        Action::Redo => "before redoing a rollback to",
        Action::UndoTurn => "before undoing the turn of",
    };
    let rollback = RollbackRecord {
        action: goal.action,
        to: goal.checkpoint,
        tree: goal.state.tree,
        paths: goal.paths.clone(),
        reverses: goal.reverses.map(|(safety, _)| safety),
        files: work.files.is_some(),
        index: goal.index.is_some(),
        chat: goal.chats.first().cloned(),
        other_chats: goal.chats.iter().skip(1).cloned().collect(),
        part_of: goal.part_of,
        // Paths that were not touched are recorded as skipped, so that a reversal of this rollback
        // does not touch them either.
        skipped: goal
            .skipped
            .iter()
            .map(|skipped| &skipped.path)
            .chain(&goal.untouched)
            .cloned()
            .collect(),
    };
    let reason = format!("{prefix} {}", &goal.checkpoint.to_string()[..7]);
    Ok(Record {
        rollback: Some(rollback),
        filter: filter.clone(),
        uncovered: uncovered.to_vec(),
        ..new_record(opened, lock, Kind::Safety, &reason)?
    })
}

/// Leaves a notice for each session that has worked in the workspace. If only conversations were
/// taken back, only their sessions get a notice.
pub(super) fn leave_notices(
    opened: &Opened,
    workspace: &Workspace<'_>,
    work: &PlannedWork,
    now: Time,
    view: &mut RollbackView,
) {
    let changes_no_file = view.changes_no_file();
    if changes_no_file && view.undone_messages == 0 {
        return;
    }
    let summary = RollbackSummary {
        checkpoint: view.checkpoint,
        restored: &view.restored,
        deleted: &view.deleted,
        effects: &view.effects,
        tree: work.goal.state.tree,
        moved: &view.sessions,
        left: notices::list_left(view),
    };
    let sessions = if changes_no_file {
        view.sessions.iter().map(|moved| moved.session.clone()).collect()
    } else {
        let mut sessions = work.sessions.clone();
        sessions.extend(sessions_since(workspace, work.newest));
        sessions
    };
    if let Err(error) = notices::leave(opened, workspace, &summary, &sessions, now) {
        view.warnings.push(format!("cannot notify the agents: {error}"));
    }
}

/// Lists the sessions that have worked in the workspace since the plan was made.
fn sessions_since(workspace: &Workspace<'_>, newest: u64) -> BTreeSet<String> {
    let store = workspace.store();
    let names = store.pin_names(workspace.id()).unwrap_or_default();
    let new = names.iter().filter(|name| name.seq > newest);
    let records = new.filter_map(|name| Record::parse(&store.pin(name).ok()??.message).ok());
    records.filter_map(|record| Some(record.call?.session)).collect()
}
