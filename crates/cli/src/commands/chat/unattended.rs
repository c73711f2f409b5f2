//! Lets the agent work for front ends other than a terminal, without showing its work.

use takeback_ledger::{Budget, GoalState, GoalUpdate};
use takeback_runtime::{Answer, FrontEnd, Question, Task, TurnEvent};

use super::agent::{AgentArguments, build_agent, new_id};
use crate::background;
use crate::context::Context;
use crate::failure::Failure;

/// A front end that shows nothing, and lets questions wait for a user.
struct NoFrontEnd;

impl FrontEnd for NoFrontEnd {
    fn show(&self, _: &TurnEvent<'_>) {}

    fn approve(&self, _: &Question<'_>) -> Answer {
        Answer::Later
    }
}

/// Summarizes the older turns of a session. Returns the session in which the conversation
/// continues, or `None` if there are no older turns.
pub(crate) fn compress_session(
    session: &str,
    context: &Context,
) -> Result<Option<String>, Failure> {
    let built = build_agent(&AgentArguments::default(), context)?;
    context.close_ledger();
    let mut task = Task::resume(built.agent, session, &new_id())?;
    let is_done = task.compress_now(&NoFrontEnd)?;
    Ok(is_done.then(|| task.session_id().to_owned()))
}

/// Begins to work on a goal in the background. Returns the id of the goal.
pub(crate) fn start_goal(
    objective: &str,
    budget: Budget,
    context: &Context,
) -> Result<String, Failure> {
    let built = build_agent(&AgentArguments::default(), context)?;
    let (new, id) = (built.new_session, new_id());
    context.close_ledger();
    let task = Task::begin_goal(built.agent, &context.directory, new, &id, objective, budget)?;
    // The background process can continue the task only after this process has released it.
    drop(task);
    spawn_goal(&id, context)?;
    Ok(id)
}

/// Continues a goal in the background, with this budget.
pub(crate) fn resume_goal(id: &str, budget: Budget, context: &Context) -> Result<(), Failure> {
    // Report mistakes in the settings now, because the background process has no user to report
    // them to.
    build_agent(&AgentArguments::default(), context)?;
    let mut ledger = context.ledger()?;
    let goal = ledger.goal(id)?;
    if goal.state == GoalState::Active && ledger.running_tasks()?.contains(&goal.task) {
        return Err(Failure::new(format!("goal {id} is already being worked on"))
            .hint(format!("/goal pause {id} pauses it")));
    }
    let update = GoalUpdate { goal: id.to_owned(), budget: Some(budget), ..GoalUpdate::default() };
    ledger.update_goal(&update, context.now())?;
    drop(ledger);
    spawn_goal(id, context)
}

fn spawn_goal(id: &str, context: &Context) -> Result<(), Failure> {
    background::spawn_goal(context, id, false)
        .map_err(|error| Failure::new("cannot start a process for the goal").because(&error))
}
