//! The way back: plan, show, save the present, restore, record.

use std::time::Duration;

use serde::Serialize;
use takeback_ledger::{LedgerError, OpenError, Time};
use takeback_tree::{
    Blocked, CaptureError, EditError, Filter, Kept, KeptReason, Lock, ObjectError, Oid, Pin,
    PinError, Plan, PlanError, Recovery, RelPath, RestoreError, StoreError, Target, Uncovered,
    Workspace,
};

use crate::changes::Timeline;
use crate::history::{FindError, Found, History};
use crate::keeper::Keeper;
use crate::list::EffectView;
use crate::notices::{self, Told};
use crate::protect::chain;
use crate::record::{Action, Chat, Checkpoint, Kind, Record, Rollback};
use crate::report::quoted;
use crate::repository::{Head, IndexError, Repository};
use crate::undo::Conflict;

/// How long a rollback waits for the ledger to be complete.
const PATIENCE: Duration = Duration::from_secs(5);

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
        history: &History,
        direction: Direction,
    ) -> Result<PlannedRollback<'k, 'w>, RollbackError> {
        let (undo, redo) = stacks(history);
        let (stack, action, nothing) = match direction {
            Direction::Undo => (undo, Action::Undo, RollbackError::NothingToUndo),
            Direction::Redo => (redo, Action::Redo, RollbackError::NothingToRedo),
        };
        let (safety, done) = stack.last().ok_or(nothing)?;
        let made = safety.record.moment();
        // What took messages back gives them back, and the other way round.
        let took = matches!(done.action, Action::Rollback | Action::Redo);
        let chat = done.chat.clone().map(|chat| ChatStep { chat, redo: took.then_some(made) });
        let goal = Goal {
            checkpoint: (*safety).clone(),
            state: State::of(safety),
            action,
            reverses: Some((safety.pin.id, done.tree)),
            // One of single paths is reversed for these paths.
            paths: done.paths.clone(),
            named: history.named(),
            chat,
            files: done.files,
            index: done.index && safety.pin.attachment.is_some(),
        };
        self.plan(workspace, None, goal, Vec::new())
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

    /// The messages that a return to a checkpoint takes back.
    fn chat_of(&self, found: &Found<'_>, warnings: &mut Vec<String>) -> Option<Chat> {
        let call = found.checkpoint.record.call.as_ref()?;
        if found.checkpoint.record.kind != Kind::Call {
            return None;
        }
        let moment = found.checkpoint.record.moment();
        let looked_up = (|| {
            let Some(mut ledger) = self.ledger().map_err(|error| chain(&error))? else {
                return Ok(None);
            };
            ledger.set_wait(PATIENCE);
            if !ledger.catch_up().map_err(|error| chain(&error))? {
                return Err("the ledger does not know the latest turns yet".to_owned());
            }
            let failed = |error: LedgerError| match error {
                LedgerError::NoSuchSession(_) => None,
                error => Some(chain(&error)),
            };
            let turn = match ledger.turn_at(&call.session, moment).map_err(failed) {
                Ok(Some(turn)) => turn,
                Ok(None) | Err(None) => return Ok(None),
                Err(Some(error)) => return Err(error),
            };
            if !found.is_step {
                return Ok(Some(turn.first_seq));
            }
            let first = ledger.message_of_call(&call.session, &turn, &call.id, moment);
            first.map_err(|error| chain(&error))
        })();
        match looked_up {
            Ok(first) => {
                first.map(|from_message| Chat { session: call.session.clone(), from_message })
            }
            Err(error) => {
                warnings.push(format!("the conversation stays as it is: {error}"));
                None
            }
        }
    }

    /// What happened since a checkpoint that no rollback reverses.
    fn effects_since(
        &self,
        workspace: &Workspace<'_>,
        checkpoint: &Checkpoint,
        warnings: &mut Vec<String>,
    ) -> Vec<EffectView> {
        let path = workspace.path().display().to_string();
        let found = match self.ledger() {
            Ok(None) => return Vec::new(),
            Ok(Some(ledger)) => {
                ledger.effects_in(&path, checkpoint.record.moment()).map_err(|error| chain(&error))
            }
            Err(error) => Err(chain(&error)),
        };
        match found {
            Ok(effects) => {
                let mut views: Vec<EffectView> = Vec::new();
                for effect in effects {
                    let view = EffectView { kind: effect.kind, command: effect.command };
                    if !views.contains(&view) {
                        views.push(view);
                    }
                }
                views
            }
            Err(error) => {
                warnings.push(format!("what cannot be reversed is not known: {error}"));
                Vec::new()
            }
        }
    }
}

impl Keeper {
    /// Takes messages back, or gives them back. Says how many.
    fn converse(&self, step: &ChatStep, now: Time) -> Result<usize, RollbackError> {
        let Some(mut ledger) = self.ledger()? else { return Ok(0) };
        let ChatStep { chat, redo } = step;
        let done = match redo {
            None => ledger.undo_from(&chat.session, chat.from_message, now),
            Some(made) => ledger.redo_of(&chat.session, Some(*made), now),
        };
        match done {
            Ok(done) => Ok(done.messages),
            // They were taken back otherwise.
            Err(LedgerError::NothingToUndo(_)) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// After a restore that was cut off: the rest of what it was part of. Its safety checkpoint is
    /// the newest there is.
    pub(crate) fn follow(&self, workspace: &Workspace<'_>, recovery: &Recovery) {
        let Ok(history) = History::of(workspace.store(), workspace.id()) else { return };
        let Some(safety) = history.all.last() else { return };
        let Some(done) = &safety.record.rollback else { return };
        match recovery {
            // There was no rollback, so there is none to undo.
            Recovery::Reverted(_) => {
                let _ = workspace.store().unpin(&safety.pin.name);
            }
            Recovery::Finished(_) => {
                let reversed = history.all.iter().find(|known| done.reverses == Some(known.pin.id));
                let redo = reversed.filter(|_| done.action == Action::Undo);
                let redo = redo.map(|reversed| reversed.record.moment());
                let now = safety.record.moment();
                let told = match &done.chat {
                    Some(chat) => {
                        self.converse(&ChatStep { chat: chat.clone(), redo }, now).map(drop)
                    }
                    None => Ok(()),
                };
                let told = told.map_err(|error| chain(&error)).and_then(|()| {
                    notices::leave_after_recovery(self, workspace, safety, done, now)
                });
                if let Err(error) = told {
                    let message =
                        format!("a rollback was finished, but not its conversation: {error}");
                    self.note_failure(workspace.path(), &message);
                }
            }
            Recovery::Failed(_) => {}
        }
    }
}

/// Safety checkpoints of what can be undone, and of what can be redone; the latest last.
#[allow(clippy::type_complexity)]
fn stacks(history: &History) -> (Vec<(&Checkpoint, &Rollback)>, Vec<(&Checkpoint, &Rollback)>) {
    let (mut undo, mut redo): (Vec<(&Checkpoint, &Rollback)>, Vec<_>) = (Vec::new(), Vec::new());
    for safety in &history.all {
        let Some(done) = &safety.record.rollback else { continue };
        let is_reversed =
            |(known, _): &(&Checkpoint, &Rollback)| done.reverses == Some(known.pin.id);
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

/// Whether the workspace's own repository is not where it was, and how git goes back.
fn head_moved(
    workspace: &Workspace<'_>,
    checkpoint: &Checkpoint,
    warnings: &mut Vec<String>,
) -> Option<HeadMoved> {
    let then = checkpoint.record.repository.clone()?;
    let Some(repository) = Repository::of(workspace.path()) else {
        warnings.push("the repository's own data (.git) is gone, and no checkpoint has it".into());
        return Some(HeadMoved { then, now: Head::default(), command: None });
    };
    let now = repository.head();
    if then == now {
        return None;
    }
    // The files are as they were already: only what git thinks of them has to follow.
    let command = match (&then.branch, &then.commit) {
        (Some(branch), Some(commit)) if then.branch != now.branch => {
            let branch = quoted(&format!("refs/heads/{branch}"));
            Some(format!("git symbolic-ref HEAD {branch} && git reset --soft {}", &commit[..12]))
        }
        (Some(_), Some(commit)) => Some(format!("git reset --soft {}", &commit[..12])),
        (None, Some(commit)) => Some(format!("git update-ref --no-deref HEAD {}", &commit[..12])),
        (_, None) => None,
    };
    Some(HeadMoved { then, now, command })
}

impl<'w> PlannedRollback<'_, 'w> {
    /// What will be done; after [`PlannedRollback::apply`], what was done.
    pub fn view(&self) -> &RollbackView {
        &self.view
    }

    /// Whether there is nothing to do at all.
    pub fn is_empty(&self) -> bool {
        let is_step = self.goal.reverses.is_some();
        // One that finds everything done is recorded all the same, so that the next goes further.
        self.changes_no_file() && !is_step && self.goal.chat.is_none() && !self.goal.index
    }

    /// Whether all files are as they should be.
    pub fn changes_no_file(&self) -> bool {
        self.view.restored.is_empty() && self.view.deleted.is_empty()
    }

    /// Lets others work while somebody thinks.
    pub fn pause(&mut self) -> Result<(), RollbackError> {
        if let Some(lock) = self.lock.take() {
            lock.finish(self.keeper.system_time())?;
        }
        Ok(())
    }

    /// Ends without having done anything.
    pub fn cancel(mut self) -> RollbackView {
        // It is about speed only: whatever fails here fails again where it matters.
        let _ = self.pause();
        self.view
    }

    /// Does it.
    pub fn apply(mut self) -> Result<RollbackView, RollbackError> {
        let repository = Repository::of(self.workspace.path());
        if self.goal.index
            && let Some(repository) = &repository
        {
            repository.check_index()?;
        }
        let now;
        if self.goal.files {
            let plan = self.plan.take().expect("files are planned for");
            let mut lock = match self.lock.take() {
                Some(lock) => lock,
                None => self.lock_again(&plan)?,
            };
            let present = (plan.from, plan.filter.clone(), plan.uncovered.clone());
            let safety = self.pin_safety(&mut lock, present)?;
            now = safety.record.moment();
            self.restore(&mut lock, &plan, &safety.pin)?;
            self.view.safety_checkpoint = Some(safety.pin.id);
            if let Err(error) = lock.finish(self.keeper.system_time()) {
                let error = chain(&error);
                self.view.warnings.push(format!("the next checkpoint will take longer: {error}"));
            }
        } else {
            now = self.record_only()?;
        }
        if self.goal.index
            && let Some(repository) = repository
        {
            let attachment = self.goal.checkpoint.pin.attachment.expect("the index has a copy");
            let copy = self.workspace.store().attachment(&attachment).map_err(StoreError::from)?;
            repository.restore_index(&copy).map_err(RollbackError::IndexNotRestored)?;
        }
        self.converse(now)?;
        self.leave_notices(now);
        Ok(self.view)
    }

    fn target(&self) -> Target<'_> {
        let State { tree, filter, uncovered } = &self.goal.state;
        Target {
            tree: *tree,
            filter,
            uncovered,
            undoes: self.goal.reverses.map(|(_, led_to)| led_to),
            silent: self.goal.checkpoint.record.imported.is_some(),
        }
    }

    fn make_plan(&self, lock: &mut Lock<'_>) -> Result<Plan, PlanError> {
        let keeper = self.keeper;
        let options = keeper.capture_options(&keeper.rules, &self.goal.named);
        lock.plan(&self.target(), &self.goal.paths, &options)
    }

    /// Goes on after a pause, if what was planned still is what has to be done.
    fn lock_again(&self, plan: &Plan) -> Result<Lock<'w>, RollbackError> {
        let mut lock = self.keeper.lock(self.workspace)?;
        if self.make_plan(&mut lock)?.does_the_same_as(plan) {
            Ok(lock)
        } else {
            Err(RollbackError::Changed)
        }
    }

    /// Records what changes no file.
    fn record_only(&mut self) -> Result<Time, RollbackError> {
        let keeper = self.keeper;
        let mut lock = keeper.lock(self.workspace)?;
        let present = lock.capture(&keeper.capture_options(&keeper.rules, &[]))?;
        let present = (present.tree, present.filter, present.uncovered);
        let safety = self.pin_safety(&mut lock, present)?;
        lock.finish(keeper.system_time())?;
        self.view.safety_checkpoint = Some(safety.pin.id);
        Ok(safety.record.moment())
    }

    fn pin_safety(
        &self,
        lock: &mut Lock<'_>,
        (tree, filter, uncovered): (Oid, Filter, Vec<Uncovered>),
    ) -> Result<Checkpoint, RollbackError> {
        let to = &self.goal.checkpoint;
        let what = match self.goal.action {
            Action::Rollback => "before a rollback to",
            Action::Undo => "before undoing a rollback to",
            Action::Redo => "before redoing a rollback to",
            Action::UndoTurn => "before undoing the turn of",
        };
        let rollback = Rollback {
            action: self.goal.action,
            to: to.pin.id,
            tree: self.goal.state.tree,
            paths: self.goal.paths.clone(),
            reverses: self.goal.reverses.map(|(safety, _)| safety),
            files: self.goal.files,
            index: self.goal.index,
            chat: self.goal.chat.as_ref().map(|step| step.chat.clone()),
        };
        let record = Record {
            rollback: Some(rollback),
            filter,
            uncovered,
            ..self.keeper.record(lock, Kind::Safety, &format!("{what} {}", to.short_id()))?
        };
        Ok(self.keeper.pin(lock, tree, record)?)
    }

    fn restore(
        &mut self,
        lock: &mut Lock<'_>,
        plan: &Plan,
        safety: &Pin,
    ) -> Result<(), RollbackError> {
        let outcome = match lock.apply(plan, safety) {
            Ok(outcome) => outcome,
            // Not everything is as it was: what is missing is in the safety checkpoint.
            Err(error @ (RestoreError::NotReverted { .. } | RestoreError::Left { .. })) => {
                return Err(error.into());
            }
            Err(error) => {
                // There was no rollback, so there is none to undo.
                self.workspace.store().unpin(&safety.name)?;
                return Err(error.into());
            }
        };
        let view = &mut self.view;
        (view.restored, view.deleted, view.saved) =
            (outcome.restored, outcome.deleted, outcome.saved);
        let kept = outcome.kept.into_iter();
        view.kept.extend(kept.map(|path| Kept { path, reason: KeptReason::NotEmpty }));
        Ok(())
    }

    /// How many messages go or come.
    fn count_messages(&mut self) {
        let Some(ChatStep { chat, redo: None }) = &self.goal.chat else { return };
        let Ok(Some(ledger)) = self.keeper.ledger() else { return };
        self.view.undone_messages =
            ledger.count_from(&chat.session, chat.from_message).unwrap_or(0);
    }

    /// Takes the conversation back, or gives it back. The files are restored by then, so a failure
    /// is only a warning, unless there was nothing else to do.
    fn converse(&mut self, now: Time) -> Result<(), RollbackError> {
        let Some(step) = &self.goal.chat else { return Ok(()) };
        let done = self.keeper.converse(step, now);
        let view = &mut self.view;
        match (done, step.redo) {
            (Ok(messages), None) => view.undone_messages = messages,
            (Ok(messages), Some(_)) => view.redone_messages = messages,
            (Err(RollbackError::Ledger(LedgerError::NothingToRedo(_))), _) => {
                view.warnings.push(format!(
                    "messages of {} stay taken back: another undo came after",
                    step.chat.session
                ));
            }
            (Err(error), _) if self.goal.files => {
                view.undone_messages = 0;
                view.warnings.push(format!("the conversation stays as it is: {}", chain(&error)));
            }
            (Err(error), _) => return Err(error),
        }
        Ok(())
    }

    /// Of what will be restored, what somebody other than the checkpoint's session changed last.
    fn others(&self, history: &History) -> Result<Vec<RelPath>, RollbackError> {
        let (Some(call), Some(plan)) = (&self.goal.checkpoint.record.call, &self.plan) else {
            return Ok(Vec::new());
        };
        let store = self.workspace.store();
        let timeline = Timeline::of(history, Some((plan.from, &plan.uncovered)));
        let changes = timeline
            .changes(store, |running, _| running.session == call.session)
            .map_err(StoreError::from)?;
        let mut others = Vec::new();
        for path in self.view.restored.iter().chain(&self.view.deleted) {
            let present = store.entry(&plan.from, path).map_err(StoreError::from)?;
            if present.is_some_and(|(mode, _)| mode.is_directory()) {
                continue;
            }
            let last = changes.paths.get(path).and_then(|segments| segments.last());
            if last.is_none_or(|last| last.after != present) {
                others.push(path.clone());
            }
        }
        Ok(others)
    }

    /// Tells each session that worked here what its agent has to know.
    fn leave_notices(&mut self, now: Time) {
        if self.changes_no_file() && self.view.undone_messages == 0 {
            return;
        }
        let told = Told {
            checkpoint: self.view.checkpoint,
            restored: &self.view.restored,
            deleted: &self.view.deleted,
            effects: &self.view.effects,
        };
        let tree = &self.goal.state.tree;
        let left = notices::leave(self.keeper, self.workspace, &told, tree, now);
        if let Err(error) = left {
            self.view.warnings.push(format!("the agents will not be told: {error}"));
        }
    }
}
