//! Goals: objectives that a task works on until they are reached or the budget is spent.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, named_params, params};
use serde::{Deserialize, Serialize};

use super::{check_id, find_key, resolve_id};
use crate::{Ledger, LedgerError, Time, mask};

/// The state of a goal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GoalState {
    /// The task is working on the goal, or will do so when a process takes the task's lease.
    #[default]
    Active,
    /// The user stopped the work, or the process that did the work died.
    Paused,
    /// The agent cannot continue without the user.
    Blocked,
    /// The provider refuses more requests for now.
    UsageLimited,
    /// The budget is spent.
    BudgetLimited,
    /// The objective is reached.
    Complete,
    /// The user gave up the goal.
    Cancelled,
}

impl GoalState {
    const ALL: [GoalState; 7] = [
        GoalState::Active,
        GoalState::Paused,
        GoalState::Blocked,
        GoalState::UsageLimited,
        GoalState::BudgetLimited,
        GoalState::Complete,
        GoalState::Cancelled,
    ];

    /// Returns the word for this state in the ledger and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            GoalState::Active => "active",
            GoalState::Paused => "paused",
            GoalState::Blocked => "blocked",
            GoalState::UsageLimited => "usage_limited",
            GoalState::BudgetLimited => "budget_limited",
            GoalState::Complete => "complete",
            GoalState::Cancelled => "cancelled",
        }
    }

    /// Parses a state. An unknown word, which only another program can have written, means that the
    /// goal is paused: no work is done, and the user can resume it.
    fn parse(text: &str) -> GoalState {
        let known = GoalState::ALL.into_iter().find(|state| state.as_str() == text);
        known.unwrap_or(GoalState::Paused)
    }
}

/// The limits of a goal; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Budget {
    pub tokens: Option<i64>,
    pub usd: Option<f64>,
    pub time: Option<Duration>,
    pub turns: Option<i64>,
}

/// The spending on a goal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Spending {
    pub tokens: i64,
    pub usd: f64,
    pub time: Duration,
    pub turns: i64,
}

/// An objective, with its budget and the spending on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct GoalRecord {
    /// The id: 1 to 64 letters, digits, `-` and `_`.
    pub id: String,
    /// The task that works on the goal.
    pub task: String,
    pub objective: String,
    pub state: GoalState,
    /// The reason for the state.
    pub reason: Option<String>,
    pub budget: Budget,
    /// The spending since the goal began. Ignored when the goal is created.
    pub spent: Spending,
    /// The spending since the current run began. Ignored when the goal is created.
    pub spent_in_run: Spending,
    /// Ignored when the goal is created.
    pub created_at: Time,
    /// Ignored when the goal is created.
    pub updated_at: Time,
}

/// A change to a goal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GoalUpdate {
    /// The id of the goal.
    pub goal: String,
    /// The new state, and the reason for it. The old reason is forgotten.
    pub state: Option<(GoalState, Option<String>)>,
    /// The new budget.
    pub budget: Option<Budget>,
    /// True to set the state only if the goal is active. This keeps a process that is working on a
    /// goal from overwriting the user's decision to pause or cancel it.
    pub only_if_active: bool,
    /// True if a new run begins. Its spending is counted from zero.
    pub begins_run: bool,
    /// The spending since the last update. It is added to the totals of the goal and of the run.
    pub spent: Spending,
}

impl Ledger {
    /// Creates a goal for an existing task.
    pub fn create_goal(&mut self, goal: &GoalRecord, now: Time) -> Result<(), LedgerError> {
        let mut goal = goal.clone();
        if self.redact {
            mask_goal(&mut goal);
        }
        self.database.write(|transaction| insert_goal(transaction, &goal, now))
    }

    /// Changes a goal. No lease is needed, so another process can use this to pause or cancel the
    /// goal. Returns the goal after the change.
    pub fn update_goal(
        &mut self,
        update: &GoalUpdate,
        now: Time,
    ) -> Result<GoalRecord, LedgerError> {
        let update = mask_update(self.redact, update);
        self.database.write(|transaction| update_goal(transaction, &update, now))
    }

    /// Returns the goal with exactly this id.
    pub fn goal(&self, id: &str) -> Result<GoalRecord, LedgerError> {
        find_goal(self.database.reader()?, id)
    }

    /// Lists the goals of a task, or of all tasks, starting with the one that changed last.
    pub fn goals(&self, task: Option<&str>) -> Result<Vec<GoalRecord>, LedgerError> {
        let connection = self.database.reader()?;
        let sql = format!(
            "{SELECT_GOAL} WHERE ?1 IS NULL OR t.id = ?1 ORDER BY g.updated_at DESC, g.key DESC"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map([task], read_goal)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Finds the goal that the user refers to by its id, or by an unambiguous beginning of the id.
    pub fn resolve_goal(&self, typed: &str) -> Result<String, LedgerError> {
        let found = resolve_id(self.database.reader()?, "goals", typed)?;
        found.ok_or_else(|| LedgerError::NoSuchGoal(typed.to_owned()))
    }
}

/// Masks the secrets in a goal.
pub(super) fn mask_goal(goal: &mut GoalRecord) {
    mask::mask_text(&mut goal.objective);
    goal.reason.iter_mut().for_each(mask::mask_text);
}

/// Returns a copy of the update. If `redact` is true, masks the secrets in it.
pub(super) fn mask_update(redact: bool, update: &GoalUpdate) -> GoalUpdate {
    let mut update = update.clone();
    if redact && let Some((_, Some(reason))) = &mut update.state {
        mask::mask_text(reason);
    }
    update
}

pub(super) fn insert_goal(
    transaction: &Transaction<'_>,
    goal: &GoalRecord,
    now: Time,
) -> Result<(), LedgerError> {
    check_id(&goal.id)?;
    if find_goal(transaction, &goal.id).is_ok() {
        return Err(LedgerError::GoalExists(goal.id.clone()));
    }
    let task = find_key(transaction, &goal.task)?;
    transaction.execute(
        "INSERT INTO goals (id, task, state, created_at, updated_at, reason, objective)
         VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6)",
        params![goal.id, task, goal.state.as_str(), now, goal.reason, goal.objective],
    )?;
    set_budget(transaction, &goal.id, &goal.budget)
}

/// Changes a goal. Returns the goal after the change.
pub(super) fn update_goal(
    transaction: &Transaction<'_>,
    update: &GoalUpdate,
    now: Time,
) -> Result<GoalRecord, LedgerError> {
    if let Some((state, reason)) = &update.state {
        let active = update.only_if_active.then_some(GoalState::Active.as_str());
        transaction
            .prepare_cached(
                "UPDATE goals SET state = ?2, reason = ?3
                 WHERE id = ?1 AND (?4 IS NULL OR state = ?4)",
            )?
            .execute(params![update.goal, state.as_str(), reason, active])?;
    }
    if let Some(budget) = &update.budget {
        set_budget(transaction, &update.goal, budget)?;
    }
    if update.begins_run {
        transaction
            .prepare_cached(
                "UPDATE goals SET run_tokens = 0, run_usd = 0, run_ms = 0, run_turns = 0
                 WHERE id = ?1",
            )?
            .execute([&update.goal])?;
    }
    add_spending(transaction, &update.goal, &update.spent, now)?;
    find_goal(transaction, &update.goal)
}

fn set_budget(connection: &Connection, goal: &str, budget: &Budget) -> Result<(), LedgerError> {
    connection
        .prepare_cached(
            "UPDATE goals SET token_limit = ?2, usd_limit = ?3, ms_limit = ?4, turn_limit = ?5
             WHERE id = ?1",
        )?
        .execute(params![
            goal,
            budget.tokens.map(limit_count),
            budget.usd.map(limit_amount),
            budget.time.map(milliseconds),
            budget.turns.map(limit_count)
        ])?;
    Ok(())
}

fn add_spending(
    connection: &Connection,
    goal: &str,
    spent: &Spending,
    now: Time,
) -> Result<(), LedgerError> {
    connection
        .prepare_cached(
            "UPDATE goals SET
                 tokens = tokens + :tokens, run_tokens = run_tokens + :tokens,
                 usd = usd + :usd, run_usd = run_usd + :usd,
                 ms = ms + :ms, run_ms = run_ms + :ms,
                 turns = turns + :turns, run_turns = run_turns + :turns,
                 updated_at = :now
             WHERE id = :goal",
        )?
        .execute(named_params! {
            ":goal": goal,
            ":tokens": limit_count(spent.tokens),
            ":usd": limit_amount(spent.usd),
            ":ms": milliseconds(spent.time),
            ":turns": limit_count(spent.turns),
            ":now": now,
        })?;
    Ok(())
}

/// Limits a count so that many counts can be added up: SQLite turns a sum that is too large for an
/// integer into a floating-point number.
fn limit_count(count: i64) -> i64 {
    count.clamp(0, 1 << 50)
}

/// Limits an amount of money. A column cannot hold NaN.
fn limit_amount(usd: f64) -> f64 {
    if usd.is_nan() { 0.0 } else { usd.clamp(0.0, 1e15) }
}

fn milliseconds(time: Duration) -> i64 {
    limit_count(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

/// The query for goals with all their columns. Callers append a condition.
const SELECT_GOAL: &str = "SELECT g.*, t.id AS task_id FROM goals g JOIN tasks t ON t.key = g.task";

fn find_goal(connection: &Connection, id: &str) -> Result<GoalRecord, LedgerError> {
    let sql = format!("{SELECT_GOAL} WHERE g.id = ?1");
    let found = connection.prepare_cached(&sql)?.query_row([id], read_goal).optional()?;
    found.ok_or_else(|| LedgerError::NoSuchGoal(id.to_owned()))
}

fn read_goal(row: &Row<'_>) -> rusqlite::Result<GoalRecord> {
    let time = |ms: i64| Duration::from_millis(ms.max(0).unsigned_abs());
    Ok(GoalRecord {
        id: row.get("id")?,
        task: row.get("task_id")?,
        objective: row.get("objective")?,
        state: GoalState::parse(&row.get::<_, String>("state")?),
        reason: row.get("reason")?,
        budget: Budget {
            tokens: row.get("token_limit")?,
            usd: row.get("usd_limit")?,
            time: row.get::<_, Option<i64>>("ms_limit")?.map(time),
            turns: row.get("turn_limit")?,
        },
        spent: Spending {
            tokens: row.get("tokens")?,
            usd: row.get("usd")?,
            time: time(row.get("ms")?),
            turns: row.get("turns")?,
        },
        spent_in_run: Spending {
            tokens: row.get("run_tokens")?,
            usd: row.get("run_usd")?,
            time: time(row.get("run_ms")?),
            turns: row.get("run_turns")?,
        },
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}
