//! The way back: plan, show, save the present, restore, record.

mod apply;
mod story;

use std::ops::Range;

use serde::Serialize;
use takeback_ledger::{LedgerError, OpenError, Time};
use takeback_tree::{
    Blocked, CaptureError, EditError, Filter, Kept, Lock, ObjectError, Oid, PinError, Plan,
    PlanError, RelPath, RestoreError, StoreError, Uncovered, Workspace,
};

use crate::history::{FindError, Found, History};
use crate::keeper::Keeper;
use crate::list::EffectView;
use crate::record::{Action, Chat, Checkpoint, Rollback};
use crate::repository::{Head, IndexError};
use crate::undo::Conflict;
use story::head_moved;

/// What of a checkpoint comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Files and conversation.
    #[default]
    Both,
    /// The conversation stays as it is.
    Files,
    /// The files stay as they are.
    Chat,
}

/// How to go back.
#[derive(Clone, Debug, Default)]
pub struct RollbackOptions {
    /// Only these files and directories; the conversation is not touched then.
    pub paths: Vec<RelPath>,
    /// Files, conversation, or both.
    pub scope: Scope,
    /// Whether what is staged in the workspace's own repository comes back as well.
    pub index: bool,
}

/// Which way along the rollbacks that were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Before the latest rollback that is not undone.
    Undo,
    /// The reverse of the latest undo.
    Redo,
}

/// A rollback did not happen; nothing was changed, unless it says so.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each says what it is")]
pub enum RollbackError {
    #[error("there is no rollback to undo in this workspace")]
    NothingToUndo,
    #[error("there is no undone rollback to redo in this workspace")]
    NothingToRedo,
    #[error("the workspace changed meanwhile; nothing was restored")]
    Changed,
    #[error("checkpoint {0} belongs to no conversation")]
    NoChat(String),
    #[error("checkpoint {0} has no copy of the repository's index")]
    NoIndex(String),
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error("the files are restored, but not what was staged")]
    IndexNotRestored(#[source] IndexError),
    #[error("no turn is known here that changed files and is not taken back")]
    NoTurn,
    #[error("checkpoint {0} was taken by hand: there is no turn to undo")]
    NotATurn(usize),
    #[error("what turn {0} changed is not known any more: {1}")]
    TurnLost(usize, ObjectError),
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(transparent)]
    Edit(#[from] EditError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Restore(#[from] RestoreError),
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// What a rollback did, or would do.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the names are those of SPEC.md")]
pub struct RollbackView {
    pub action: Action,
    /// Of an undo of a turn: its row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<usize>,
    pub checkpoint: Oid,
    /// What was there before; nothing for a plan, or if nothing differed.
    pub safety_checkpoint: Option<Oid>,
    pub restored: Vec<RelPath>,
    pub deleted: Vec<RelPath>,
    pub guarded: Vec<RelPath>,
    pub kept: Vec<Kept>,
    /// Old files that somebody wrote to meanwhile, under their new names.
    pub saved: Vec<RelPath>,
    pub uncovered: Vec<Uncovered>,
    pub blocked: Vec<Blocked>,
    /// Of restored and deleted ones: what others changed since the agent did.
    pub others: Vec<RelPath>,
    /// Of an undo: what was changed since such that it cannot be told what to do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
    /// Of an undo: what may have been changed by others, and stays.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uncertain: Vec<RelPath>,
    pub effects: Vec<EffectView>,
    /// Whose messages are taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat: Option<ChatView>,
    pub undone_messages: usize,
    /// Messages that are part of the conversation again.
    pub redone_messages: usize,
    /// Whether what was staged came back.
    pub index: bool,
    /// If HEAD moved since: where it was.
    pub repository: Option<HeadMoved>,
    /// What did not go as it should, although the files are restored.
    pub warnings: Vec<String>,
}

/// A conversation that goes back with the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChatView {
    /// The session.
    pub session: String,
    /// What the user said at the beginning of what is taken back, to say it again, or better.
    pub prompt: Option<String>,
    /// How its agent takes its own copy of the conversation back, in words.
    pub resume: Option<String>,
}

/// HEAD or the branch of the workspace's own repository is not what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeadMoved {
    /// Where it was.
    pub then: Head,
    /// Where it is.
    pub now: Head,
    /// How git goes back.
    pub command: Option<String>,
}

/// What to return to.
pub(crate) struct Goal {
    /// The checkpoint that people see.
    pub(crate) checkpoint: Checkpoint,
    /// The state: the checkpoint's, unless a turn is undone.
    pub(crate) state: State,
    pub(crate) action: Action,
    /// If this reverses another: its safety checkpoint, and what it led to.
    pub(crate) reverses: Option<(Oid, Oid)>,
    pub(crate) paths: Vec<RelPath>,
    /// What has to be captured whatever the rules say.
    pub(crate) named: Vec<RelPath>,
    pub(crate) chat: Option<ChatStep>,
    pub(crate) files: bool,
    pub(crate) index: bool,
}

/// A tree, and what its capture said about itself.
pub(crate) struct State {
    pub(crate) tree: Oid,
    pub(crate) filter: Filter,
    pub(crate) uncovered: Vec<Uncovered>,
}

impl State {
    fn of(checkpoint: &Checkpoint) -> State {
        State {
            tree: checkpoint.pin.tree,
            filter: checkpoint.record.filter.clone(),
            uncovered: checkpoint.record.uncovered.clone(),
        }
    }
}

/// What happens to the conversation.
pub(crate) struct ChatStep {
    chat: Chat,
    /// If messages come back: when they were taken back.
    redo: Option<Time>,
}

/// A rollback that is planned. It holds the workspace's lock until it is paused, applied or
/// dropped.
pub struct PlannedRollback<'k, 'w> {
    keeper: &'k Keeper,
    workspace: &'w Workspace<'w>,
    goal: Goal,
    lock: Option<Lock<'w>>,
    plan: Option<Plan>,
    pub(crate) view: RollbackView,
}

impl Keeper {
    /// Plans to return to a checkpoint.
    pub fn plan_rollback<'k, 'w>(
        &'k self,
        workspace: &'w Workspace<'w>,
        history: &History,
        found: &Found<'_>,
        options: &RollbackOptions,
    ) -> Result<PlannedRollback<'k, 'w>, RollbackError> {
        let checkpoint = found.checkpoint;
        let mut warnings = Vec::new();
        // A part of the files is no return to that moment, so the conversation stays.
        let wants_chat = options.scope != Scope::Files && options.paths.is_empty();
        let chat = if wants_chat { self.chat_of(found, &mut warnings) } else { None };
        if options.scope == Scope::Chat && chat.is_none() {
            return Err(RollbackError::NoChat(checkpoint.short_id()));
        }
        if options.index && checkpoint.pin.attachment.is_none() {
            return Err(RollbackError::NoIndex(checkpoint.short_id()));
        }
        let goal = Goal {
            checkpoint: checkpoint.clone(),
            state: State::of(checkpoint),
            action: Action::Rollback,
            reverses: None,
            paths: options.paths.clone(),
            named: history.named(),
            chat: chat.map(|chat| ChatStep { chat, redo: None }),
            files: options.scope != Scope::Chat,
            index: options.index,
        };
        let mut planned = self.plan(workspace, None, goal, warnings)?;
        planned.view.effects =
            self.effects_since(workspace, checkpoint, &mut planned.view.warnings);
        planned.view.others = planned.others(history)?;
        planned.view.repository = head_moved(workspace, checkpoint, &mut planned.view.warnings);
        Ok(planned)
    }

    /// Plans to take back the latest rollback, or the latest of those that were taken back.
    pub fn plan_reverse<'k, 'w>(
        &'k self,
        workspace: &'w Workspace<'w>,
        direction: Direction,
    ) -> Result<PlannedRollback<'k, 'w>, RollbackError> {
        // Under the lock: a rollback that was cut off is not one until it is finished.
        let lock = self.lock(workspace)?;
        let history = History::of(workspace.store(), workspace.id())?;
        let (undo, redo) = stacks(&history);
        let (stack, action, nothing) = match direction {
            Direction::Undo => (undo, Action::Undo, RollbackError::NothingToUndo),
            Direction::Redo => (redo, Action::Redo, RollbackError::NothingToRedo),
        };
        let (safety, done) = stack.last().ok_or(nothing)?;
        let made = safety.record.moment();
        // What took messages back gives them back, and the other way round.
        let took = matches!(done.action, Action::Rollback | Action::Redo);
        let chat = done.chat.clone().map(|chat| ChatStep { chat, redo: took.then_some(made) });
        let mut state = State::of(safety);
        if done.action == Action::UndoTurn {
            // Each of its paths was looked at, whatever the rules say.
            let was_looked_at = |uncovered: &Uncovered| {
                done.paths.iter().any(|path| path.starts_with(&uncovered.path))
            };
            state.uncovered.retain(|uncovered| !was_looked_at(uncovered));
        }
        let goal = Goal {
            checkpoint: (*safety).clone(),
            state,
            action,
            reverses: Some((safety.pin.id, done.tree)),
            // One of single paths is reversed for these paths.
            paths: done.paths.clone(),
            named: history.named(),
            chat,
            files: done.files,
            index: done.index && safety.pin.attachment.is_some(),
        };
        self.plan(workspace, Some(lock), goal, Vec::new())
    }

    /// Plans what a goal asks for. The workspace may be locked already.
    pub(crate) fn plan<'k, 'w>(
        &'k self,
        workspace: &'w Workspace<'w>,
        lock: Option<Lock<'w>>,
        goal: Goal,
        warnings: Vec<String>,
    ) -> Result<PlannedRollback<'k, 'w>, RollbackError> {
        let view = RollbackView {
            action: goal.action,
            row: None,
            checkpoint: goal.checkpoint.pin.id,
            safety_checkpoint: None,
            restored: Vec::new(),
            deleted: Vec::new(),
            guarded: Vec::new(),
            kept: Vec::new(),
            saved: Vec::new(),
            uncovered: goal.state.uncovered.clone(),
            blocked: Vec::new(),
            others: Vec::new(),
            conflicts: Vec::new(),
            uncertain: Vec::new(),
            effects: Vec::new(),
            chat: None,
            undone_messages: 0,
            redone_messages: 0,
            index: goal.index,
            repository: None,
            warnings,
        };
        let mut planned =
            PlannedRollback { keeper: self, workspace, goal, lock: None, plan: None, view };
        if planned.goal.files {
            let mut lock = match lock {
                Some(lock) => lock,
                None => self.lock(workspace)?,
            };
            let plan = planned.make_plan(&mut lock)?;
            planned.view.restored = plan.writes.clone();
            planned.view.deleted = plan.deletes.clone();
            planned.view.guarded = plan.guarded.clone();
            planned.view.kept = plan.kept.clone();
            planned.view.blocked = plan.blocked.clone();
            (planned.lock, planned.plan) = (Some(lock), Some(plan));
        }
        planned.count_messages();
        Ok(planned)
    }
}

/// A safety checkpoint, and what it was taken for.
type Done<'h> = (&'h Checkpoint, &'h Rollback);

/// What can be undone, and what can be redone; the latest last.
fn stacks(history: &History) -> (Vec<Done<'_>>, Vec<Done<'_>>) {
    let (mut undo, mut redo): (Vec<Done<'_>>, Vec<Done<'_>>) = (Vec::new(), Vec::new());
    for safety in &history.all {
        let Some(done) = &safety.record.rollback else { continue };
        let is_reversed = |(known, _): &Done<'_>| done.reverses == Some(known.pin.id);
        match done.action {
            Action::Rollback | Action::UndoTurn => {
                undo.push((safety, done));
                redo.clear();
            }
            Action::Undo => {
                undo.retain(|known| !is_reversed(known));
                redo.push((safety, done));
            }
            Action::Redo => {
                redo.retain(|known| !is_reversed(known));
                undo.push((safety, done));
            }
        }
    }
    (undo, redo)
}

/// The numbers of checkpoints whose turns a rollback of everything has taken back.
pub(crate) fn taken_back(history: &History) -> Vec<Range<u64>> {
    let seq = |id: Oid| {
        let known = history.all.iter().find(|known| known.pin.id == id);
        known.map(|known| known.pin.name.seq)
    };
    let (undo, _) = stacks(history);
    let whole = undo.iter().filter(|(_, done)| done.files && done.paths.is_empty());
    let ranges = whole
        .filter_map(|(safety, done)| Some(seq(target_of(history, done)?)?..safety.pin.name.seq));
    ranges.collect()
}

/// The checkpoint that a rollback, or what redid it, returned to.
fn target_of(history: &History, done: &Rollback) -> Option<Oid> {
    let done_by = |safety: Option<Oid>| {
        let known = history.all.iter().find(|known| Some(known.pin.id) == safety);
        known.and_then(|known| known.record.rollback.as_ref())
    };
    match done.action {
        Action::Rollback => Some(done.to),
        // What it reverses is an undo, and that reversed what it did again.
        Action::Redo => target_of(history, done_by(done_by(done.reverses)?.reverses)?),
        Action::Undo | Action::UndoTurn => None,
    }
}
