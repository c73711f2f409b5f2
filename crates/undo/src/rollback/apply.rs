//! Doing what was planned.

use takeback_ledger::{LedgerError, Time};
use takeback_tree::{
    Filter, Kept, KeptReason, Lock, Oid, Pin, Plan, PlanError, RestoreError, StoreError, Target,
    Uncovered,
};

use super::{ChatStep, ChatView, PlannedRollback, RollbackError, RollbackView, State};
use crate::failures::chain;
use crate::notices::{self, Told};
use crate::record::{Action, Checkpoint, Kind, Record, Rollback};
use crate::repository::Repository;

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

    /// The same for another plan only if that does the same to the same state.
    pub fn digest(&self) -> Oid {
        let view = serde_json::to_vec(&self.view).expect("plain data becomes JSON");
        let from = self.plan.as_ref().map(|plan| plan.from.to_string()).unwrap_or_default();
        let to = self.goal.state.tree.to_string();
        Oid::of(takeback_tree::Kind::Blob, &[view, from.into(), to.into()].concat())
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

    pub(super) fn make_plan(&self, lock: &mut Lock<'_>) -> Result<Plan, PlanError> {
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

    /// How many messages go, and of which conversation.
    pub(super) fn count_messages(&mut self) {
        let Some(ChatStep { chat, redo: None }) = &self.goal.chat else { return };
        let Ok(Some(ledger)) = self.keeper.ledger() else { return };
        let count = ledger.count_from(&chat.session, chat.from_message).unwrap_or(0);
        self.view.undone_messages = count;
        let turns = ledger.turns(&chat.session).unwrap_or_default();
        let is_prompt = turns.iter().any(|turn| turn.first_seq == chat.from_message);
        let prompt =
            is_prompt.then(|| ledger.prompt(&chat.session, chat.from_message).ok().flatten());
        self.view.chat = (count > 0).then(|| ChatView {
            session: chat.session.clone(),
            prompt: prompt.flatten(),
            resume: self.keeper.resume(&chat.session),
        });
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
                (view.undone_messages, view.chat) = (0, None);
                view.warnings.push(format!("the conversation stays as it is: {}", chain(&error)));
            }
            (Err(error), _) => return Err(error),
        }
        Ok(())
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
