//! What a rollback means besides files: the conversation, what it cannot reverse, what others
//! changed, where the repository was.

use std::time::Duration;

use takeback_ledger::{LedgerError, Time};
use takeback_tree::{Recovery, RelPath, StoreError, Workspace};

use super::{ChatStep, HeadMoved, PlannedRollback, RollbackError};
use crate::changes::{Now, Timeline};
use crate::failures::chain;
use crate::history::{Found, History};
use crate::keeper::Keeper;
use crate::list::EffectView;
use crate::notices;
use crate::record::{Action, Chat, Checkpoint, Kind};
use crate::report::quoted;
use crate::repository::{Head, Repository};

/// How long a rollback waits for the ledger to be complete.
const PATIENCE: Duration = Duration::from_secs(5);

impl Keeper {
    /// The messages that a return to a checkpoint takes back.
    pub(super) fn chat_of(&self, found: &Found<'_>, warnings: &mut Vec<String>) -> Option<Chat> {
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
    pub(super) fn effects_since(
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

    /// Takes messages back, or gives them back. Says how many.
    pub(super) fn converse(&self, step: &ChatStep, now: Time) -> Result<usize, RollbackError> {
        let Some(mut ledger) = self.ledger()? else { return Ok(0) };
        let ChatStep { chat, redo } = step;
        let done = match redo {
            None => ledger.undo_from(&chat.session, chat.from_message, now),
            Some(made) => ledger.redo_of(&chat.session, Some(*made), now),
        };
        // Whatever comes next is another turn, even if the agent gives it the same name.
        if let Some(mut note) = self.session_note(&chat.session) {
            note.over = true;
            let _ = self.set_session_note(&note);
        }
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
            // What could not be put back is in there.
            Recovery::Reverted(left) if !left.is_empty() => {}
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

impl PlannedRollback<'_, '_> {
    /// Of what will be restored, what somebody other than the checkpoint's session changed last.
    pub(super) fn others(&self, history: &History) -> Result<Vec<RelPath>, RollbackError> {
        let (Some(call), Some(plan)) = (&self.goal.checkpoint.record.call, &self.plan) else {
            return Ok(Vec::new());
        };
        let store = self.workspace.store();
        let (tree, named) = (plan.from, &self.goal.named[..]);
        let now = Now { tree, uncovered: &plan.uncovered, named };
        let timeline = Timeline::of(history, Some(now));
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
}

/// Whether the workspace's own repository is not where it was, and how git goes back.
pub(super) fn head_moved(
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
