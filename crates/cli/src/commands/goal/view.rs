//! Shows a goal as text or as JSON.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use takeback_ledger::{GoalRecord, ParentKind, Spending};
use takeback_undo::History;
use takeback_undo::history::find_workspace;

use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// A checkpoint that was taken during the work on a goal, with its row in the list of checkpoints.
struct GoalCheckpoint {
    row: usize,
    id: String,
    time: String,
    reason: String,
}

/// Shows a goal.
pub(super) fn show_goal(goal: &GoalRecord, context: &Context) -> Result<ExitCode, Failure> {
    if !output::answers_json(&view_with_checkpoints(goal, context)?, context) {
        println!("{}", output::join_lines(&goal.objective));
        print_goal(goal, context)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the state of a goal, its budget and its checkpoints.
pub(super) fn print_goal(goal: &GoalRecord, context: &Context) -> Result<(), Failure> {
    let state = goal.state.as_str();
    match goal.reason.as_deref().filter(|reason| !reason.is_empty()) {
        Some(reason) => println!("{state}: {}", output::disarm(&output::join_lines(reason))),
        None => println!("{state}"),
    }
    let GoalRecord { budget, spent, spent_in_run: run, .. } = goal;
    let minutes = |time: Duration| time.as_secs_f64() / 60.0;
    print_bar("tokens", run.tokens as f64, budget.tokens.map(|limit| limit as f64), 0);
    print_bar("US dollars", run.usd, budget.usd, 4);
    print_bar("minutes", minutes(run.time), budget.time.map(minutes), 1);
    print_bar("turns", run.turns as f64, budget.turns.map(|limit| limit as f64), 0);
    println!(
        "In total: {} tokens, ${:.4}, {}",
        spent.tokens,
        spent.usd,
        output::count(usize::try_from(spent.turns).unwrap_or(0), "turn")
    );
    let checkpoints = list_checkpoints(goal, context)?;
    if let Some(first) = checkpoints.last() {
        println!(
            "{}; `takeback rollback {}` returns to the state before the first one",
            output::count(checkpoints.len(), "checkpoint"),
            first.row
        );
    }
    Ok(())
}

/// Prints how much of a limit is spent. Prints nothing if there is no limit.
fn print_bar(unit: &str, spent: f64, limit: Option<f64>, decimals: usize) {
    const WIDTH: usize = 20;
    let Some(limit) = limit.filter(|limit| *limit > 0.0) else { return };
    let filled = ((spent / limit).clamp(0.0, 1.0) * WIDTH as f64).round() as usize;
    let bar = format!("{}{}", "█".repeat(filled), "░".repeat(WIDTH - filled));
    println!("  {unit:<10}  {bar}  {spent:.decimals$} of {limit:.decimals$}");
}

/// Returns a goal as JSON.
pub(super) fn view_goal(goal: &GoalRecord) -> Value {
    let spending = |spent: &Spending| {
        json!({
            "tokens": spent.tokens, "usd": spent.usd, "seconds": spent.time.as_secs(),
            "turns": spent.turns,
        })
    };
    json!({
        "id": goal.id, "task": goal.task, "objective": goal.objective,
        "state": goal.state.as_str(), "reason": goal.reason,
        "budget": {
            "tokens": goal.budget.tokens, "usd": goal.budget.usd,
            "seconds": goal.budget.time.map(|time| time.as_secs()), "turns": goal.budget.turns,
        },
        "spent": spending(&goal.spent), "spent_in_run": spending(&goal.spent_in_run),
    })
}

/// Returns a goal as JSON, with its checkpoints.
pub(super) fn view_with_checkpoints(
    goal: &GoalRecord,
    context: &Context,
) -> Result<Value, Failure> {
    let mut view = view_goal(goal);
    let checkpoints = list_checkpoints(goal, context)?;
    let checkpoint = |GoalCheckpoint { row, id, time, reason }: &GoalCheckpoint| json!({ "row": row, "checkpoint": id, "time": time, "reason": reason });
    view["checkpoints"] = checkpoints.iter().map(checkpoint).collect();
    Ok(view)
}

/// Lists the checkpoints that were taken during the work on a goal, newest first. If the directory
/// of the task no longer exists, the list is empty, because there is nothing to roll back.
fn list_checkpoints(goal: &GoalRecord, context: &Context) -> Result<Vec<GoalCheckpoint>, Failure> {
    let opened = context.opened()?;
    let task = context.ledger()?.task(&goal.task)?;
    let directory = task.workspace.as_deref().map(Path::new).filter(|path| path.is_dir());
    let Some(directory) = directory.filter(|_| opened.has_store()) else { return Ok(Vec::new()) };
    let sessions = list_sessions(&task.session, context)?;
    let workspace = find_workspace(opened, directory)?;
    let history = History::read(workspace.store(), workspace.id())?;
    let rows = history.rows().filter_map(|row| {
        let (session, _) = row.turn()?;
        let pin = row.first();
        let time: jiff::Timestamp = pin.record.time.parse().ok()?;
        let is_of_goal = sessions.iter().any(|known| known == session)
            && time.as_millisecond() >= goal.created_at.0;
        is_of_goal.then(|| GoalCheckpoint {
            row: row.number,
            id: pin.pin.id.to_string(),
            time: pin.record.time.clone(),
            reason: pin.record.reason.clone(),
        })
    });
    Ok(rows.collect())
}

/// Lists a session and the earlier sessions of the same conversation. Each session begins with a
/// summary of the previous one.
fn list_sessions(session: &str, context: &Context) -> Result<Vec<String>, Failure> {
    let mut sessions = vec![session.to_owned()];
    loop {
        let newest = sessions.last().expect("it has the session itself");
        let record = context.ledger()?.session(newest)?;
        let is_continuation = record.parent_kind == Some(ParentKind::Compaction);
        match record
            .parent_session_id
            .filter(|parent| is_continuation && !sessions.contains(parent))
        {
            Some(parent) => sessions.push(parent),
            None => return Ok(sessions),
        }
    }
}
