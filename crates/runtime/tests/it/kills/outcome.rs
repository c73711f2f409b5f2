//! The outcome of a story: everything that must be the same whether or not the process is killed.

use std::collections::BTreeMap;

use takeback_ledger::{GoalRecord, Ledger};

use super::stories::read_files;
use crate::support::Scratch;

/// The files of the project, the messages of all sessions, the bills and the goal.
#[derive(Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) files: BTreeMap<String, String>,
    conversations: Vec<Vec<String>>,
    /// The requests, the tokens and the cost of each session.
    bills: Vec<(i64, i64, i64, String)>,
    /// The goal's state, its reason, and the amounts spent in total and in the run.
    goal: Option<(String, Option<String>, Vec<i64>)>,
    /// The state of each task.
    tasks: Vec<String>,
}

/// Reads the outcome of a story, and checks that the ledger is intact.
pub(super) fn read_outcome(scratch: &Scratch) -> Outcome {
    let ledger = scratch.ledger();
    let report = ledger.verify(&|_, _| {}).unwrap();
    assert!(report.whole, "{:?}", report.problems);
    let sessions = ledger.session_ids(&[]).unwrap();
    let mut conversations: Vec<Vec<String>> =
        sessions.iter().map(|session| scratch.conversation(session)).collect();
    // Subagents finish in any order.
    conversations.iter_mut().for_each(|messages| messages.sort());
    conversations.sort();
    let mut bills: Vec<_> = sessions.iter().map(|id| read_bill(&ledger, id)).collect();
    bills.sort_unstable();
    let tasks = ledger.tasks(&Default::default()).unwrap();
    let mut tasks: Vec<String> =
        tasks.into_iter().map(|task| format!("{} {}", task.kind, task.state)).collect();
    tasks.sort();
    let files = read_files(&scratch.project());
    let goal = ledger.goals(None).unwrap().pop().map(|goal| describe_goal(&goal));
    Outcome { files, conversations, bills, goal, tasks }
}

fn read_bill(ledger: &Ledger, id: &str) -> (i64, i64, i64, String) {
    let session = ledger.session(id).unwrap();
    let cost = format!("{:.6}", session.estimated_cost_usd.unwrap_or(0.0));
    (session.api_call_count, session.tokens.input, session.tokens.output, cost)
}

fn describe_goal(goal: &GoalRecord) -> (String, Option<String>, Vec<i64>) {
    let (all, run) = (&goal.spent, &goal.spent_in_run);
    let spent = vec![all.tokens, all.turns, run.tokens, run.turns];
    (goal.state.as_str().to_owned(), goal.reason.clone(), spent)
}
