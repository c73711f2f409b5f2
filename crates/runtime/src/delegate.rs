//! Subagents: tasks that have a parent task and run in parallel. They are journaled like all other
//! tasks.

use std::sync::{Arc, mpsc};
use std::thread;

use serde_json::Value;
use takeback_ledger::{Event, TaskChange, TaskRecord};

use crate::agent::Agent;
use crate::cancel::Cancel;
use crate::entry::{Bill, Entry};
use crate::error::TaskError;
use crate::front_end::{Answer, FrontEnd, Question, TurnEvent, TurnOutcome};
use crate::model::RequestedCall;
use crate::state::{CallProgress, CallState};
use crate::task::{Pause, Task};
use crate::tools::ToolOutput;

/// The maximum number of subagents that work at the same time.
const MAX_PARALLEL: usize = 4;

/// A call that a subagent works on.
struct Delegated {
    call: RequestedCall,
    task: String,
    /// True if the task does not exist yet.
    is_new: bool,
    prompt: String,
    /// The number of the subagent, as it is shown to the user.
    number: usize,
}

/// The end of a subagent's work.
struct Report {
    output: ToolOutput,
    bill: Bill,
}

impl Task {
    /// Lets subagents work on calls, in parallel. Subagents that had begun before a crash continue
    /// from the point that they had reached. Returns false if a subagent is waiting for the user.
    pub(crate) fn delegate(
        &mut self,
        indices: &[usize],
        front: &dyn FrontEnd,
    ) -> Result<bool, TaskError> {
        let turn = self.state.turn.as_ref().expect("a call is part of a turn");
        let states: Vec<CallState> =
            indices.iter().take(MAX_PARALLEL).map(|index| turn.calls[*index].clone()).collect();
        let mut delegated = Vec::new();
        let mut next = self.journal.next_seq();
        for CallState { call, progress } in states {
            let Some(prompt) = read_prompt(&call) else {
                let problem = "the input needs a `prompt`, which must be a string";
                // The next step handles the other calls.
                return self.end_call(&call, ToolOutput::unusable(problem), front).map(|()| true);
            };
            let (task, is_new) = match progress {
                CallProgress::Spawned { task } => (task, false),
                _ => (format!("{}-{next}", self.id()), true),
            };
            next += i64::from(is_new);
            let number = delegated.len() + 1;
            delegated.push(Delegated { call, task, is_new, prompt, number });
        }
        self.spawn(&delegated)?;
        self.await_subagents(&delegated, front)
    }

    /// Creates the tasks of new subagents, and records them in the journal in the same append, so
    /// that no task is created twice after a crash.
    fn spawn(&mut self, delegated: &[Delegated]) -> Result<(), TaskError> {
        let new: Vec<&Delegated> = delegated.iter().filter(|delegated| delegated.is_new).collect();
        if new.is_empty() {
            return Ok(());
        }
        let (events, tasks): (Vec<Event>, Vec<TaskRecord>) =
            new.iter().map(|new| self.describe_subagent(&new.task)).unzip();
        let change = TaskChange { events: &events, new_tasks: &tasks, ..TaskChange::default() };
        let spawned =
            |new: &&Delegated| Entry::Spawned { call: new.call.id.clone(), task: new.task.clone() };
        self.append_change(&change, |_| new.iter().map(spawned).collect())
    }

    /// Runs subagents, and records the report of each as soon as it arrives.
    fn await_subagents(
        &mut self,
        delegated: &[Delegated],
        front: &dyn FrontEnd,
    ) -> Result<bool, TaskError> {
        let (sender, reports) = mpsc::channel();
        let plans: Vec<SubagentPlan> =
            delegated.iter().map(|delegated| self.plan_subagent(delegated)).collect();
        thread::scope(|scope| {
            for (index, plan) in plans.iter().enumerate() {
                let sender = sender.clone();
                let number = delegated[index].number;
                let run = move || {
                    let tagged = SubagentFront { front, number };
                    // If the receiver is gone, the parent has failed; the subagent's work is kept.
                    let _ = sender.send((index, plan.run(&tagged)));
                };
                thread::Builder::new().spawn_scoped(scope, run).map_err(TaskError::Thread)?;
            }
            drop(sender);
            let mut is_waiting = false;
            for (index, report) in reports {
                match report? {
                    Some(report) => self.take_report(&delegated[index], report, front)?,
                    None => is_waiting = true,
                }
            }
            Ok(!is_waiting)
        })
    }

    fn take_report(
        &mut self,
        delegated: &Delegated,
        report: Report,
        front: &dyn FrontEnd,
    ) -> Result<(), TaskError> {
        let subagent = Some(delegated.number);
        let (call, output) = (&delegated.call, &report.output);
        front.show(&TurnEvent::CallEnded { call, output, subagent });
        self.record_result(call, report.output, report.bill, Vec::new())
    }

    fn plan_subagent(&self, delegated: &Delegated) -> SubagentPlan {
        SubagentPlan {
            agent: self.agent.clone(),
            task: delegated.task.clone(),
            depth: self.depth + 1,
            prompt: delegated.prompt.clone(),
            cancel: self.cancel.clone(),
        }
    }
}

/// A subagent that is about to run or to continue.
pub(crate) struct SubagentPlan {
    pub(crate) agent: Arc<Agent>,
    pub(crate) task: String,
    pub(crate) depth: usize,
    prompt: String,
    pub(crate) cancel: Cancel,
}

impl SubagentPlan {
    /// Runs the subagent until its turn is over. Returns `None` if the subagent is waiting for the
    /// user.
    fn run(&self, front: &dyn FrontEnd) -> Result<Option<Report>, TaskError> {
        let mut task = Task::open_subagent(self)?;
        let pause = match (&task.state.turn, &task.state.last_outcome) {
            (None, Some(outcome)) => Pause::TurnEnded(outcome.clone()),
            (None, None) => task.prompt(&self.prompt, front)?,
            (Some(_), _) => task.proceed(front)?,
        };
        let Pause::TurnEnded(outcome) = pause else { return Ok(None) };
        let bill = Bill { tokens: Some(task.state.tokens), cost: task.state.cost };
        let answer = task.last_answer()?.to_owned();
        let output = match outcome {
            TurnOutcome::Complete => ToolOutput { text: answer, ..ToolOutput::default() },
            TurnOutcome::Partial { because } => {
                ToolOutput::error(format!("{answer}\n\nThe report is incomplete: {because}"))
            }
            TurnOutcome::Failed { because, .. } | TurnOutcome::Blocked { because } => {
                ToolOutput::error(format!("the subagent failed: {because}"))
            }
            TurnOutcome::Cancelled => ToolOutput::error("the user stopped the subagent"),
        };
        Ok(Some(Report { output, bill }))
    }
}

fn read_prompt(call: &RequestedCall) -> Option<String> {
    let input: Value = serde_json::from_str(&call.arguments).ok()?;
    Some(input.get("prompt")?.as_str()?.to_owned())
}

/// Shows a subagent's work as part of its parent's turn.
struct SubagentFront<'a> {
    front: &'a dyn FrontEnd,
    number: usize,
}

impl FrontEnd for SubagentFront<'_> {
    fn show(&self, event: &TurnEvent<'_>) {
        let subagent = Some(self.number);
        match event {
            TurnEvent::CallStarted { call, .. } => {
                self.front.show(&TurnEvent::CallStarted { call, subagent });
            }
            TurnEvent::CallEnded { call, output, .. } => {
                self.front.show(&TurnEvent::CallEnded { call, output, subagent });
            }
            // The subagent's own text is a report to its parent, not to the user.
            TurnEvent::Text(_) | TurnEvent::Reasoning(_) | TurnEvent::TurnEnded { .. } => {}
            event => self.front.show(event),
        }
    }

    fn approve(&self, question: &Question<'_>) -> Answer {
        self.front.approve(question)
    }
}
