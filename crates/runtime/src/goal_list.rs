//! Lists of goals: all goals, and those whose process ended.

use takeback_ledger::{GoalRecord, GoalState, GoalUpdate, Ledger, LedgerError, Time};
use takeback_undo::Opened;

use crate::error::TaskError;

/// The reason that is stored when a goal is paused because its process has ended.
pub const PROCESS_ENDED: &str = "its process ended";

/// Lists all goals, starting with the one that changed last. A goal whose process ended is stored
/// as paused, with [`PROCESS_ENDED`] as the reason.
pub fn list_goals(opened: &Opened) -> Result<Vec<GoalRecord>, TaskError> {
    let Some(mut ledger) = opened.ledger()? else { return Ok(Vec::new()) };
    for goal in ledger.goals(None)?.iter().filter(|goal| goal.state == GoalState::Active) {
        match ledger.take_lease(&goal.task, opened.now()) {
            // While this process has the lease, no other process can begin to work on the goal.
            Ok(_lease) => pause_goal(&mut ledger, &goal.id, opened.now())?,
            Err(LedgerError::TaskRunning(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ledger.goals(None)?)
}

/// Lists the goals whose process ended. [`crate::Task::continue_goal`] continues them.
pub fn list_interrupted_goals(opened: &Opened) -> Result<Vec<GoalRecord>, TaskError> {
    let mut goals = list_goals(opened)?;
    goals.retain(is_interrupted);
    Ok(goals)
}

/// Returns true if a goal is paused because its process ended.
pub(crate) fn is_interrupted(goal: &GoalRecord) -> bool {
    goal.state == GoalState::Paused && goal.reason.as_deref() == Some(PROCESS_ENDED)
}

/// Pauses the active goals of a task whose lease this process has just taken: the process that
/// worked on them has ended.
pub(crate) fn pause_goals_of(
    ledger: &mut Ledger,
    task: &str,
    now: Time,
) -> Result<(), LedgerError> {
    let goals = ledger.goals(Some(task))?;
    let mut active = goals.iter().filter(|goal| goal.state == GoalState::Active);
    active.try_for_each(|goal| pause_goal(ledger, &goal.id, now))
}

fn pause_goal(ledger: &mut Ledger, goal: &str, now: Time) -> Result<(), LedgerError> {
    let update = GoalUpdate {
        goal: goal.to_owned(),
        state: Some((GoalState::Paused, Some(PROCESS_ENDED.to_owned()))),
        only_if_active: true,
        ..GoalUpdate::default()
    };
    ledger.update_goal(&update, now).map(drop)
}
