//! Goals: turns that follow each other without new prompts from the user, until the goal is reached
//! or its budget is spent.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;
use takeback_ledger::{Budget, GoalRecord, GoalState, GoalUpdate, Spending};

use crate::agent::Agent;
use crate::entry::{Bill, Entry};
use crate::error::TaskError;
use crate::front_end::{FrontEnd, TurnOutcome};
use crate::goal_list::is_interrupted;
use crate::model::{RequestedCall, ToolSpec};
use crate::open::NewSession;
use crate::state::{State, TurnState};
use crate::task::{Pause, Task};
use crate::tools::ToolOutput;

/// The name of the tool with which the model ends its work on a goal.
pub(crate) const FINISH_GOAL: &str = "finish_goal";

/// The prompt after a turn that did not end the work.
const CONTINUE: &str = "Continue working on the goal.";

/// The prompt of the last turn, once the budget is spent.
const WRAP_UP: &str = "The budget for this goal is spent. Do not begin anything new. Leave the \
    work in a clean state, and say what is done and what is left.";

/// The goal that a task works on.
pub(crate) struct GoalRun {
    record: GoalRecord,
    turn_began: Instant,
}

/// The model's report on a goal.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, Deserialize)]
pub struct GoalReport {
    /// True if the goal is reached; false if the model cannot continue without the user.
    pub is_reached: bool,
    /// A summary if the goal is reached, or else the reason why the model cannot continue.
    pub summary: String,
}

#[derive(Deserialize)]
struct FinishInput {
    status: FinishStatus,
    #[serde(default)]
    summary: String,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum FinishStatus {
    Reached,
    Blocked,
}

/// Describes the tool that ends the work on a goal.
pub(crate) fn finish_spec() -> ToolSpec {
    ToolSpec {
        name: FINISH_GOAL.to_owned(),
        description: "Ends the work on the goal: it is reached, or you cannot continue without \
                      the user."
            .to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "status": { "type": "string", "enum": ["reached", "blocked"] },
                "summary": { "type": "string" },
            },
            "required": ["status", "summary"],
        }),
    }
}

impl Task {
    /// Begins a task that works on a goal.
    ///
    /// ```
    /// # use std::path::Path;
    /// # use std::sync::Arc;
    /// use takeback_ledger::{Budget, GoalState};
    /// use takeback_runtime::{Agent, FrontEnd, NewSession, Task, TaskError};
    ///
    /// fn reach(agent: Arc<Agent>, directory: &Path, front: &dyn FrontEnd) -> Result<bool, TaskError> {
    ///     let budget = Budget { usd: Some(2.0), ..Budget::default() };
    ///     let objective = "all tests pass";
    ///     let mut task =
    ///         Task::begin_goal(agent, directory, NewSession::default(), "tests", objective, budget)?;
    ///     Ok(task.run_goal("tests", None, front)?.state == GoalState::Complete)
    /// }
    /// ```
    pub fn begin_goal(
        agent: Arc<Agent>,
        directory: &Path,
        new: NewSession,
        id: &str,
        objective: &str,
        budget: Budget,
    ) -> Result<Task, TaskError> {
        let mut task = Task::begin(agent, directory, new, id)?;
        task.create_goal(id, objective, budget)?;
        Ok(task)
    }

    /// Gives the task a goal. [`Task::run_goal`] starts the work on the goal.
    pub fn create_goal(
        &mut self,
        id: &str,
        objective: &str,
        budget: Budget,
    ) -> Result<(), TaskError> {
        let goal = GoalRecord {
            id: id.to_owned(),
            task: self.id().to_owned(),
            objective: objective.to_owned(),
            budget,
            ..GoalRecord::default()
        };
        let now = self.agent.opened.now();
        Ok(self.journal.ledger()?.create_goal(&goal, now)?)
    }

    /// Begins a run: works on the task's goal until the goal is reached, the budget is spent, or
    /// the user is needed. The spending of the run is counted from zero. If `budget` is given, it
    /// replaces the goal's own budget.
    pub fn run_goal(
        &mut self,
        goal: &str,
        budget: Option<Budget>,
        front: &dyn FrontEnd,
    ) -> Result<GoalRecord, TaskError> {
        let goal = goal.to_owned();
        let update = GoalUpdate { goal, budget, begins_run: true, ..GoalUpdate::default() };
        self.activate_goal(update, front)
    }

    /// Continues the run of a goal whose process ended. The amount that the run has already spent
    /// still counts toward the budget. A goal in any other state is not changed.
    pub fn continue_goal(
        &mut self,
        goal: &str,
        front: &dyn FrontEnd,
    ) -> Result<GoalRecord, TaskError> {
        let record = self.journal.ledger()?.goal(goal)?;
        if record.state != GoalState::Active && !is_interrupted(&record) {
            return Ok(record);
        }
        let update = GoalUpdate { goal: goal.to_owned(), ..GoalUpdate::default() };
        self.activate_goal(update, front)
    }

    fn activate_goal(
        &mut self,
        update: GoalUpdate,
        front: &dyn FrontEnd,
    ) -> Result<GoalRecord, TaskError> {
        let update = GoalUpdate { state: Some((GoalState::Active, None)), ..update };
        let now = self.agent.opened.now();
        let record = self.journal.ledger()?.update_goal(&update, now)?;
        self.goal = Some(GoalRun { record, turn_began: Instant::now() });
        let ended = self.work_on_goal(front);
        let run = self.goal.take();
        self.journal.rest();
        ended.map(|()| run.expect("it was just set").record)
    }

    /// Runs one turn after another while the goal is active.
    fn work_on_goal(&mut self, front: &dyn FrontEnd) -> Result<(), TaskError> {
        while self.goal_run().record.state == GoalState::Active && !self.cancel.is_suspended() {
            self.goal_run().turn_began = Instant::now();
            let pause = match self.is_interrupted() {
                true => self.proceed(front)?,
                false => {
                    let prompt = self.next_goal_prompt();
                    self.prompt(&prompt, front)?
                }
            };
            match pause {
                Pause::Waiting => self.block_goal("a call waits for approval")?,
                Pause::Suspended => return Ok(()),
                Pause::TurnEnded(_) | Pause::Idle => {}
            }
        }
        Ok(())
    }

    fn goal_run(&mut self) -> &mut GoalRun {
        self.goal.as_mut().expect("a goal is running")
    }

    fn next_goal_prompt(&self) -> String {
        let run = self.goal.as_ref().expect("a goal is running");
        match () {
            () if self.has_spent_budget() => WRAP_UP.to_owned(),
            () if run.record.spent.turns == 0 => run.record.objective.clone(),
            () => CONTINUE.to_owned(),
        }
    }

    /// Returns true if the budget of the goal is spent, in which case the next turn is the last
    /// one.
    pub(crate) fn has_spent_budget(&self) -> bool {
        self.goal.as_ref().is_some_and(|run| describe_overrun(&run.record).is_some())
    }

    fn block_goal(&mut self, reason: &str) -> Result<(), TaskError> {
        let update = GoalUpdate {
            goal: self.goal_run().record.id.clone(),
            state: Some((GoalState::Blocked, Some(reason.to_owned()))),
            only_if_active: true,
            ..GoalUpdate::default()
        };
        let now = self.agent.opened.now();
        let record = self.journal.ledger()?.update_goal(&update, now)?;
        self.goal_run().record = record;
        Ok(())
    }

    /// Describes how the end of a turn changes the goal: the cost of the turn, and the goal's new
    /// state. The change is part of the append that ends the turn.
    pub(crate) fn spend_on_goal(&self, state: &State, outcome: &TurnOutcome) -> Option<GoalUpdate> {
        let (run, turn) = (self.goal.as_ref()?, state.turn.as_ref()?);
        let spent = Spending { turns: 1, ..run.spending_of(turn) };
        let after = run.after(spent);
        let goal = run.record.id.clone();
        let state = judge_turn(outcome, turn.wraps_up, state.goal_report.as_ref(), &after);
        // Another process may have paused or cancelled the goal.
        Some(GoalUpdate { goal, state, spent, only_if_active: true, ..GoalUpdate::default() })
    }

    /// Updates the copy of the goal after an append.
    pub(crate) fn note_goal(&mut self, record: Option<GoalRecord>) {
        if let (Some(run), Some(record)) = (&mut self.goal, record) {
            run.record = record;
        }
    }

    /// Returns the outcome of the open turn if that turn has used up the goal's budget. The last
    /// turn, which wraps up the work, has no budget.
    pub(crate) fn find_overrun(&self, state: &State) -> Option<TurnOutcome> {
        let (run, turn) = (self.goal.as_ref()?, state.turn.as_ref()?);
        if turn.wraps_up {
            return None;
        }
        let because = describe_overrun(&run.after(run.spending_of(turn)))?;
        Some(TurnOutcome::Blocked { because })
    }

    /// Records the model's report on the goal.
    pub(crate) fn finish_goal(
        &mut self,
        call: &RequestedCall,
        front: &dyn FrontEnd,
    ) -> Result<(), TaskError> {
        let input: FinishInput = match serde_json::from_str(&call.arguments) {
            Ok(input) => input,
            Err(error) => {
                return self.end_call(call, ToolOutput::unusable(error.to_string()), front);
            }
        };
        let is_reached = input.status == FinishStatus::Reached;
        let report = GoalReport { is_reached, summary: input.summary };
        let events = [self.result_event(call, "noted".to_owned())];
        self.append(&events, |messages| {
            let message = messages.first().expect("the result is a message").seq;
            let ended = Entry::Ended {
                call: call.id.clone(),
                message,
                is_error: false,
                is_unusable: false,
                known_files: Vec::new(),
                bill: Bill::default(),
            };
            vec![Entry::GoalReported { report: report.clone() }, ended]
        })
    }
}

impl GoalRun {
    /// Returns what a turn has spent so far.
    fn spending_of(&self, turn: &TurnState) -> Spending {
        Spending {
            tokens: turn.tokens.total(),
            usd: turn.cost.unwrap_or(0.0),
            time: self.turn_began.elapsed(),
            turns: 0,
        }
    }

    /// Returns a copy of the goal with this spending added.
    fn after(&self, spent: Spending) -> GoalRecord {
        let mut after = self.record.clone();
        after.spent_in_run.tokens += spent.tokens;
        after.spent_in_run.usd += spent.usd;
        after.spent_in_run.time += spent.time;
        after.spent_in_run.turns += spent.turns;
        after
    }
}

/// Determines the state of an active goal after a turn. Returns `None` if the work continues.
fn judge_turn(
    outcome: &TurnOutcome,
    wraps_up: bool,
    report: Option<&GoalReport>,
    goal: &GoalRecord,
) -> Option<(GoalState, Option<String>)> {
    let overrun = describe_overrun(goal);
    let (state, reason) = match (report, outcome) {
        (Some(report), _) if report.is_reached => (GoalState::Complete, report.summary.clone()),
        (Some(report), _) => (GoalState::Blocked, report.summary.clone()),
        (None, TurnOutcome::Cancelled) => (GoalState::Paused, "stopped by the user".to_owned()),
        _ if wraps_up => (GoalState::BudgetLimited, overrun.unwrap_or_default()),
        _ if overrun.is_some() => return None,
        (None, TurnOutcome::Complete) => return None,
        (None, TurnOutcome::Failed { because, is_limited: true }) => {
            (GoalState::UsageLimited, because.clone())
        }
        (
            None,
            TurnOutcome::Failed { because, .. }
            | TurnOutcome::Partial { because }
            | TurnOutcome::Blocked { because },
        ) => (GoalState::Blocked, because.clone()),
    };
    Some((state, Some(reason)))
}

/// Describes the limit that was reached in this run, if any.
fn describe_overrun(goal: &GoalRecord) -> Option<String> {
    let (budget, spent) = (&goal.budget, &goal.spent_in_run);
    let minutes = |time: Duration| time.as_secs_f64() / 60.0;
    if let Some(limit) = budget.tokens.filter(|limit| spent.tokens >= *limit) {
        return Some(format!("{} of {limit} tokens have been spent", spent.tokens));
    }
    if let Some(limit) = budget.usd.filter(|limit| spent.usd >= *limit) {
        return Some(format!("${:.2} of ${limit:.2} have been spent", spent.usd));
    }
    if let Some(limit) = budget.time.filter(|limit| spent.time >= *limit) {
        let (spent, limit) = (minutes(spent.time), minutes(limit));
        return Some(format!("{spent:.1} of {limit:.1} minutes have been spent"));
    }
    let limit = budget.turns.filter(|limit| spent.turns >= *limit)?;
    Some(format!("{} of {limit} turns have been used", spent.turns))
}
