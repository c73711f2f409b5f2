//! Goals: turns that follow each other without the user, until the goal is reached or its budget is
//! spent.

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
use crate::model::{RequestedCall, ToolSpec};
use crate::open::NewSession;
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
    /// True in the last turn, which the budget does not limit.
    is_wrapping_up: bool,
    turn_began: Instant,
}

/// The model's word on a goal.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, Deserialize)]
pub struct GoalReport {
    /// True if the goal is reached; false if the model cannot continue without the user.
    pub is_reached: bool,
    /// The model's summary or reason.
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
    pub fn begin_goal(
        agent: Arc<Agent>,
        directory: &Path,
        new: NewSession,
        id: &str,
        objective: &str,
        budget: Budget,
    ) -> Result<Task, TaskError> {
        let mut task = Task::begin(agent, directory, new, id)?;
        let goal = GoalRecord {
            id: id.to_owned(),
            task: id.to_owned(),
            objective: objective.to_owned(),
            budget,
            ..GoalRecord::default()
        };
        let now = task.agent.opened.now();
        task.journal.ledger()?.create_goal(&goal, now)?;
        Ok(task)
    }

    /// Works on the task's goal until the goal is reached, the budget is spent, or the user is
    /// needed. A run begins with nothing spent; `budget` replaces the goal's budget.
    pub fn run_goal(
        &mut self,
        goal: &str,
        budget: Option<Budget>,
        front: &dyn FrontEnd,
    ) -> Result<GoalRecord, TaskError> {
        let now = self.agent.opened.now();
        let update = GoalUpdate {
            goal: goal.to_owned(),
            state: Some((GoalState::Active, None)),
            budget,
            begins_run: true,
            spent: Spending::default(),
        };
        let record = self.journal.ledger()?.update_goal(&update, now)?;
        let turn_began = Instant::now();
        self.goal = Some(GoalRun { record, is_wrapping_up: false, turn_began });
        let ended = self.work_on_goal(front);
        let run = self.goal.take();
        ended.map(|()| run.expect("it was just set").record)
    }

    fn work_on_goal(&mut self, front: &dyn FrontEnd) -> Result<(), TaskError> {
        loop {
            self.goal_run().turn_began = Instant::now();
            let pause = match self.is_interrupted() {
                true => self.proceed(front)?,
                false => {
                    let prompt = self.next_goal_prompt();
                    self.prompt(&prompt, front)?
                }
            };
            let Some(end) = self.judge_turn(pause) else { continue };
            return self.set_goal_state(end.0, Some(end.1));
        }
    }

    fn goal_run(&mut self) -> &mut GoalRun {
        self.goal.as_mut().expect("a goal is running")
    }

    fn next_goal_prompt(&mut self) -> String {
        let is_first = self.state.turns == 0;
        let run = self.goal_run();
        match () {
            () if run.is_wrapping_up => WRAP_UP.to_owned(),
            () if is_first => run.record.objective.clone(),
            () => CONTINUE.to_owned(),
        }
    }

    /// Determines the state of the goal after a turn. Returns `None` if the work goes on.
    fn judge_turn(&mut self, pause: Pause) -> Option<(GoalState, String)> {
        let report = self.state.goal_report.clone();
        let run = self.goal_run();
        // Another process may have paused or cancelled the goal.
        if run.record.state != GoalState::Active {
            let reason = run.record.reason.clone().unwrap_or_default();
            return Some((run.record.state, reason));
        }
        let outcome = match pause {
            Pause::TurnEnded(outcome) => outcome,
            Pause::Waiting => {
                return Some((GoalState::Blocked, "a call waits for approval".to_owned()));
            }
            Pause::Idle => return None,
        };
        match report {
            Some(GoalReport { is_reached: true, summary }) => {
                return Some((GoalState::Complete, summary));
            }
            Some(GoalReport { summary, .. }) => return Some((GoalState::Blocked, summary)),
            None => {}
        }
        let spent = describe_overrun(&run.record);
        match outcome {
            TurnOutcome::Cancelled => Some((GoalState::Paused, "stopped by the user".to_owned())),
            _ if run.is_wrapping_up => Some((GoalState::BudgetLimited, spent.unwrap_or_default())),
            _ if spent.is_some() => {
                run.is_wrapping_up = true;
                None
            }
            TurnOutcome::Complete => None,
            TurnOutcome::Failed { because, is_limited: true } => {
                Some((GoalState::UsageLimited, because))
            }
            TurnOutcome::Failed { because, .. }
            | TurnOutcome::Partial { because }
            | TurnOutcome::Blocked { because } => Some((GoalState::Blocked, because)),
        }
    }

    fn set_goal_state(
        &mut self,
        state: GoalState,
        reason: Option<String>,
    ) -> Result<(), TaskError> {
        let goal = self.goal_run().record.id.clone();
        let update = GoalUpdate { goal, state: Some((state, reason)), ..GoalUpdate::default() };
        let now = self.agent.opened.now();
        let record = self.journal.ledger()?.update_goal(&update, now)?;
        self.goal_run().record = record;
        Ok(())
    }

    /// Returns the cost of the turn that ends now, to be added to the goal.
    pub(crate) fn spend_on_goal(&self) -> Option<GoalUpdate> {
        let (run, turn) = (self.goal.as_ref()?, self.state.turn.as_ref()?);
        let spent = Spending {
            tokens: turn.tokens.total(),
            usd: turn.cost.unwrap_or(0.0),
            time: run.turn_began.elapsed(),
            turns: 1,
        };
        Some(GoalUpdate { goal: run.record.id.clone(), spent, ..GoalUpdate::default() })
    }

    /// Notes the state of the goal after an append.
    pub(crate) fn note_goal(&mut self, record: Option<GoalRecord>) {
        if let (Some(run), Some(record)) = (&mut self.goal, record) {
            run.record = record;
        }
    }

    /// Returns the reason why the turn must end, if the open turn has spent the goal's budget.
    pub(crate) fn find_overrun(&self) -> Option<TurnOutcome> {
        let run = self.goal.as_ref().filter(|run| !run.is_wrapping_up)?;
        let turn = self.state.turn.as_ref()?;
        let mut record = run.record.clone();
        record.spent_in_run.tokens += turn.tokens.total();
        record.spent_in_run.usd += turn.cost.unwrap_or(0.0);
        record.spent_in_run.time += run.turn_began.elapsed();
        let because = describe_overrun(&record)?;
        Some(TurnOutcome::Blocked { because })
    }

    /// Records the model's word on the goal.
    pub(crate) fn finish_goal(
        &mut self,
        call: &RequestedCall,
        front: &dyn FrontEnd,
    ) -> Result<(), TaskError> {
        let input: FinishInput = match serde_json::from_str(&call.arguments) {
            Ok(input) => input,
            Err(error) => {
                return self.end_call(call, ToolOutput::error(error.to_string()), front);
            }
        };
        let is_reached = input.status == FinishStatus::Reached;
        let report = GoalReport { is_reached, summary: input.summary };
        self.append(&[], |_| vec![Entry::GoalReported { report }])?;
        let output = ToolOutput { text: "noted".to_owned(), ..ToolOutput::default() };
        self.record_result(call, output, Bill::default())
    }
}

/// Describes the limit that was reached in this run, if any.
fn describe_overrun(goal: &GoalRecord) -> Option<String> {
    let (budget, spent) = (&goal.budget, &goal.spent_in_run);
    let minutes = |time: Duration| time.as_secs_f64() / 60.0;
    if let Some(limit) = budget.tokens.filter(|limit| spent.tokens >= *limit) {
        return Some(format!("{} of {limit} tokens are spent", spent.tokens));
    }
    if let Some(limit) = budget.usd.filter(|limit| spent.usd >= *limit) {
        return Some(format!("${:.2} of ${limit:.2} are spent", spent.usd));
    }
    if let Some(limit) = budget.time.filter(|limit| spent.time >= *limit) {
        let (spent, limit) = (minutes(spent.time), minutes(limit));
        return Some(format!("{spent:.1} of {limit:.1} minutes are over"));
    }
    let limit = budget.turns.filter(|limit| spent.turns >= *limit)?;
    Some(format!("{} of {limit} turns are over", spent.turns))
}
