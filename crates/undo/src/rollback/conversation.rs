//! The conversation that goes back with the files, in the ledger.

use std::time::Duration;

use takeback_base::errors::error_chain;
use takeback_ledger::{LedgerError, Time};

use super::RollbackError;
use super::planned::{ChatStep, ChatView, Goal, PlannedWork, RollbackView};
use crate::Opened;
use crate::history::FoundCheckpoint;
use crate::history::record::{CallRef, Chat, Kind};

/// The longest time that a rollback waits for the ledger to be complete.
const LEDGER_WAIT: Duration = Duration::from_secs(5);

/// Finds the messages that a return to a checkpoint takes back.
pub(super) fn find_conversation(
    opened: &Opened,
    found: &FoundCheckpoint<'_>,
    warnings: &mut Vec<String>,
) -> Option<Chat> {
    let record = &found.checkpoint.record;
    let call = record.call.as_ref().filter(|_| record.kind == Kind::Call)?;
    match find_first_message(opened, call, record.moment(), found.is_step) {
        Ok(first) => first.map(|from_message| Chat { session: call.session.clone(), from_message }),
        Err(error) => {
            warnings.push(format!("the conversation stays as it is: {error}"));
            None
        }
    }
}

/// Finds the first message of the turn that was running at a given time, or of a call in that turn.
fn find_first_message(
    opened: &Opened,
    call: &CallRef,
    moment: Time,
    is_step: bool,
) -> Result<Option<i64>, String> {
    let Some(mut ledger) = opened.ledger().map_err(|error| error_chain(&error))? else {
        return Ok(None);
    };
    ledger.set_wait(LEDGER_WAIT);
    if !ledger.catch_up().map_err(|error| error_chain(&error))? {
        return Err("the ledger does not know the latest turns yet".to_owned());
    }
    let turn = match ledger.turn_at(&call.session, moment) {
        Ok(Some(turn)) => turn,
        Ok(None) | Err(LedgerError::NoSuchSession(_)) => return Ok(None),
        Err(error) => return Err(error_chain(&error)),
    };
    if !is_step {
        return Ok(Some(turn.first_seq));
    }
    let first = ledger.message_of_call(&call.session, &turn, &call.id, moment);
    first.map_err(|error| error_chain(&error))
}

/// Counts the messages that will be taken back, and finds the prompt among them.
pub(super) fn count_messages(opened: &Opened, goal: &Goal, view: &mut RollbackView) {
    let Some(ChatStep { chat, redo: None }) = &goal.chat else { return };
    let Ok(Some(ledger)) = opened.ledger() else { return };
    let count = ledger.count_from(&chat.session, chat.from_message).unwrap_or(0);
    view.undone_messages = count;
    let turns = ledger.turns(&chat.session).unwrap_or_default();
    let is_prompt = turns.iter().any(|turn| turn.first_seq == chat.from_message);
    let prompt = is_prompt.then(|| ledger.prompt(&chat.session, chat.from_message).ok().flatten());
    view.chat = (count > 0).then(|| ChatView {
        session: chat.session.clone(),
        prompt: prompt.flatten(),
        resume: (opened.resume_hint)(&chat.session),
    });
}

/// Takes back the conversation of a plan, or restores it. The files are already restored, so a
/// failure is only a warning, unless the plan has nothing but the conversation.
pub(super) fn move_conversation(
    opened: &Opened,
    work: &PlannedWork,
    now: Time,
    view: &mut RollbackView,
) -> Result<(), RollbackError> {
    let Some(step) = &work.goal.chat else { return Ok(()) };
    match (move_messages(opened, step, now), step.redo) {
        (Ok(messages), None) => view.undone_messages = messages,
        (Ok(messages), Some(_)) => view.redone_messages = messages,
        (Err(RollbackError::Ledger(LedgerError::NothingToRedo(_))), _) => {
            view.warnings.push(format!(
                "messages of {} stay taken back: the conversation was rewound again since",
                step.chat.session
            ));
        }
        (Err(error), _) if work.files.is_some() => {
            (view.undone_messages, view.chat) = (0, None);
            let error = error_chain(&error);
            view.warnings.push(format!("the conversation stays as it is: {error}"));
        }
        (Err(error), _) => return Err(error),
    }
    Ok(())
}

/// Takes messages back, or restores them. Returns their number.
pub(super) fn move_messages(
    opened: &Opened,
    step: &ChatStep,
    now: Time,
) -> Result<usize, RollbackError> {
    let ChatStep { chat, redo } = step;
    let done = {
        let Some(mut ledger) = opened.ledger()? else { return Ok(0) };
        match redo {
            None => ledger.undo_from(&chat.session, chat.from_message, now),
            Some(made) => ledger.redo_of(&chat.session, Some(*made), now),
        }
    };
    // The next prompt begins another turn, even if the agent gives it the same name.
    if let Some(mut state) = opened.session_state(&chat.session) {
        state.over = true;
        let _ = opened.set_session_state(&state);
    }
    match done {
        Ok(done) => Ok(done.messages),
        // The messages were taken back in another way.
        Err(LedgerError::NothingToUndo(_)) => Ok(0),
        Err(error) => Err(error.into()),
    }
}
