//! Goals, as the API and the pages show them.

use serde::Serialize;
use takeback_ledger::{Budget, GoalRecord, Spending};
use utoipa::ToSchema;

/// A goal, as in `takeback goal show --json`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct GoalView {
    pub(crate) id: String,
    /// The task that works on the goal.
    pub(crate) task: String,
    pub(crate) objective: String,
    /// `active`, `paused`, `blocked`, `usage_limited`, `budget_limited`, `complete` or `cancelled`.
    pub(crate) state: String,
    /// The reason for the state.
    pub(crate) reason: Option<String>,
    pub(crate) budget: BudgetView,
    /// The amount spent since the goal began.
    pub(crate) spent: SpendingView,
    /// The amount spent since the current run began. Only this amount counts against the budget.
    pub(crate) spent_in_run: SpendingView,
}

/// The limits of the work on a goal; null means no limit.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct BudgetView {
    pub(crate) tokens: Option<i64>,
    pub(crate) usd: Option<f64>,
    pub(crate) seconds: Option<u64>,
    pub(crate) turns: Option<i64>,
}

/// An amount that was spent on a goal.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct SpendingView {
    pub(crate) tokens: i64,
    pub(crate) usd: f64,
    pub(crate) seconds: u64,
    pub(crate) turns: i64,
}

pub(crate) fn view_goal(goal: &GoalRecord) -> GoalView {
    let GoalRecord { id, task, objective, state, reason, budget, spent, spent_in_run, .. } = goal;
    GoalView {
        id: id.clone(),
        task: task.clone(),
        objective: objective.clone(),
        state: state.as_str().to_owned(),
        reason: reason.clone(),
        budget: view_budget(budget),
        spent: view_spending(spent),
        spent_in_run: view_spending(spent_in_run),
    }
}

fn view_budget(budget: &Budget) -> BudgetView {
    let Budget { tokens, usd, time, turns } = *budget;
    BudgetView { tokens, usd, seconds: time.map(|time| time.as_secs()), turns }
}

fn view_spending(spent: &Spending) -> SpendingView {
    let Spending { tokens, usd, time, turns } = *spent;
    SpendingView { tokens, usd, seconds: time.as_secs(), turns }
}
