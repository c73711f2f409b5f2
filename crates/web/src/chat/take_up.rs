//! Continues the goals and turns that were interrupted before the server started.

use std::collections::BTreeSet;

use takeback_ledger::TaskFilter;
use takeback_runtime::{list_interrupted_goals, list_open_tasks};

use super::job::{Job, JobPlace, start_job};
use crate::app::Work;
use crate::problem::WorkError;

/// Continues interrupted goals, then interrupted turns, most recently changed first. Turns that
/// wait for an answer are left to the user. A task that cannot be continued stays interrupted; its
/// page says so, and offers to continue the task.
pub(crate) fn take_up_interrupted(work: &Work) -> Result<(), WorkError> {
    let goals = list_interrupted_goals(&work.opened)?;
    let tasks = list_open_tasks(&work.opened, TaskFilter::default())?;
    let of_goals: BTreeSet<&str> = goals.iter().map(|goal| goal.task.as_str()).collect();
    let jobs =
        goals.iter().map(|goal| (goal.task.clone(), Job::ContinueGoal { goal: goal.id.clone() }));
    let turns = tasks
        .iter()
        .filter(|task| task.state == "interrupted" && !of_goals.contains(task.id.as_str()))
        .map(|task| (task.id.clone(), Job::Proceed));
    let all: Vec<(String, Job)> = jobs.chain(turns).collect();
    for (task, job) in all {
        if !work.app.rooms.wait_for_slot() {
            return Ok(());
        }
        // If this fails, the user still sees the task in the list of interrupted tasks.
        let _ = start_job(work, &JobPlace::Task(task), job);
    }
    Ok(())
}
