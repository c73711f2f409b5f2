//! Hints for the errors of tasks and goals.

use takeback_ledger::LedgerError;
use takeback_runtime::TaskError;

use super::SPACE;
use crate::failure::Failure;

impl From<TaskError> for Failure {
    fn from(error: TaskError) -> Failure {
        let failure = Failure::of(&error);
        match error {
            TaskError::Ledger(error) => error.into(),
            TaskError::Open(error) => error.into(),
            TaskError::Live(task) => hint_live(failure, &task),
            TaskError::Fenced => failure.hint("everything that this process did is kept"),
            TaskError::Foreign(session) => {
                failure.hint(format!("`takeback chat --fork {session}` continues in a copy of it"))
            }
            TaskError::Directory { .. } => failure.hint("choose another with -C DIR"),
            TaskError::Entry(_) => failure.hint(
                "update takeback if a later version made the task; the conversation is safe: \
                 `takeback chat --fork SESSION` continues in a copy of it",
            ),
            _ => failure,
        }
    }
}

/// Adds the hint for an error of the ledger that concerns a task or a goal.
pub(super) fn hint_task(failure: Failure, error: &LedgerError) -> Failure {
    match error {
        LedgerError::NoSuchTask(_) => failure.hint("`takeback tasks --all` lists the tasks"),
        LedgerError::NoSuchGoal(_) => failure.hint("`takeback goal list` lists the goals"),
        LedgerError::TaskRunning(task) => hint_live(failure, task),
        LedgerError::Fenced { .. } => failure.hint("everything that this process did is kept"),
        LedgerError::NoSuchEntry { .. } => failure.hint(
            "the conversation is safe: `takeback chat --fork SESSION` continues in a copy of it",
        ),
        LedgerError::TaskLock { .. } => failure.hint(SPACE),
        _ => failure,
    }
}

fn hint_live(failure: Failure, task: &str) -> Failure {
    failure.hint(format!("continue there, or stop its turn with `takeback tasks cancel {task}`"))
}
