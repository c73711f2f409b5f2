//! The tasks and goals that were left open: they are waiting for the user, or their process has
//! ended.

use serde::Serialize;
use takeback_ledger::{GoalRecord, GoalState, TaskFilter};
use takeback_runtime::{TaskView, list_goals, list_interrupted_goals};

use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// A task or goal that was left open, and the command that continues it.
#[derive(Serialize)]
pub(crate) struct OpenTask {
    /// `chat` or `goal`.
    kind: &'static str,
    id: String,
    session: String,
    /// `interrupted`, or `waiting` for the user's answer.
    state: String,
    command: String,
}

impl OpenTask {
    /// Describes the task in one line.
    pub(crate) fn describe(&self) -> String {
        let OpenTask { kind, id, session, state, command } = self;
        let what = match *kind {
            "goal" => format!("goal {id}"),
            _ => output::disarm(session),
        };
        let state = match state.as_str() {
            "waiting" => "is waiting for your answer",
            _ => "was interrupted",
        };
        format!("{what} {state}; continue it with `{command}`")
    }
}

/// Lists what was left open in all workspaces: first the goals, then the conversations, the newest
/// of each kind first.
pub(crate) fn list_open_tasks(context: &Context) -> Result<Vec<OpenTask>, Failure> {
    let tasks = find_open_tasks(TaskFilter::default(), context)?;
    let goals = find_open_goals(&tasks, context)?;
    let mut open = Vec::new();
    for OpenGoal { goal, state } in &goals {
        open.push(OpenTask {
            kind: "goal",
            id: goal.id.clone(),
            session: context.ledger()?.task(&goal.task)?.session,
            state: (*state).to_owned(),
            command: format!("takeback goal resume {}", goal.id),
        });
    }
    let is_goal = |task: &TaskView| goals.iter().any(|open| open.goal.task == task.id);
    open.extend(tasks.into_iter().filter(|task| !is_goal(task)).map(|task| OpenTask {
        kind: "chat",
        command: format!("takeback tasks resume {}", task.id),
        id: task.id,
        session: task.session,
        state: task.state,
    }));
    Ok(open)
}

/// A goal that was left open.
pub(crate) struct OpenGoal {
    pub(crate) goal: GoalRecord,
    /// `interrupted`, or `waiting` for the user's answer.
    pub(crate) state: &'static str,
}

/// Finds the goals that were left open: either their process ended, or their task is among `tasks`
/// and is waiting for an approval.
pub(crate) fn find_open_goals(
    tasks: &[TaskView],
    context: &Context,
) -> Result<Vec<OpenGoal>, Failure> {
    let interrupted = list_interrupted_goals(context.opened()?)?;
    let is_waiting = |goal: &GoalRecord| {
        let mut waiting = tasks.iter().filter(|task| task.state == "waiting");
        goal.state == GoalState::Blocked && waiting.any(|task| task.id == goal.task)
    };
    let waiting = list_goals(context.opened()?)?.into_iter().filter(is_waiting);
    let waiting = waiting.map(|goal| OpenGoal { goal, state: "waiting" }).collect::<Vec<_>>();
    let interrupted = interrupted.into_iter().map(|goal| OpenGoal { goal, state: "interrupted" });
    Ok(interrupted.chain(waiting).collect())
}

/// Finds the tasks whose last turn is open although no process is working on it, the newest first.
/// Leaves out the tasks of subagents, because they belong to other tasks.
pub(crate) fn find_open_tasks(
    filter: TaskFilter,
    context: &Context,
) -> Result<Vec<TaskView>, Failure> {
    Ok(takeback_runtime::list_open_tasks(context.opened()?, filter)?)
}
