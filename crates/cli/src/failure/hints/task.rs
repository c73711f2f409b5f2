//! Hints for the errors of tasks and goals.

use takeback_ledger::{LedgerError, LogError};
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
            TaskError::TakenOver { kept: Some(kept), .. } => failure.hint(format!(
                "the steps that only this machine made are kept: `takeback sessions show {kept}`"
            )),
            TaskError::TakenOver { .. } => failure.hint("everything that this process did is kept"),
            TaskError::Away(_) => failure.hint(
                "the last step is kept in this machine's ledger; `takeback tasks resume` continues \
                 with it when the database answers",
            ),
            TaskError::Elsewhere { .. } => failure.hint(
                "`takeback tasks resume` continues from there; `takeback tasks --fleet` lists the tasks",
            ),
            TaskError::OtherFiles { expected: Some(tree), .. } => failure.hint(format!(
                "nothing was changed; restore the files of tree {tree} there, or pass \
                 --accept-files to continue with the current files"
            )),
            TaskError::OtherFiles { expected: None, .. } => failure.hint(
                "no checkpoint shows which files the task was working on; --accept-files continues \
                 with the current files",
            ),
            TaskError::NotShared => {
                failure.hint("`takeback config set chat.journal fleet` shares the tasks")
            }
            TaskError::Log(LogError::Held { .. }) => failure.hint(
                "continue there, or wait: the lease ends by itself if that machine stays silent",
            ),
            TaskError::Log(LogError::NoSuchTask(_)) => {
                failure.hint("`takeback tasks --fleet` lists the tasks of all machines")
            }
            TaskError::Log(LogError::Away(_)) => failure.hint(
                "nothing was changed; `takeback config set chat.journal local` works without the \
                 fleet's database, on this machine only",
            ),
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
