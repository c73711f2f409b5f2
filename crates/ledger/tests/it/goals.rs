//! Goals: their states, budgets and spending.

use std::time::Duration;

use serde_json::json;
use takeback_ledger::{
    Budget, GoalRecord, GoalState, GoalUpdate, LedgerError, Spending, TaskChange,
};

use crate::support::{Fixture, at, open_raw, task};

fn goal(id: &str, task: &str) -> GoalRecord {
    GoalRecord {
        id: id.into(),
        task: task.into(),
        objective: "tests pass".into(),
        budget: Budget { tokens: Some(1_000), turns: Some(5), ..Budget::default() },
        ..GoalRecord::default()
    }
}

fn spent(factor: i64) -> Spending {
    Spending {
        tokens: 100 * factor,
        usd: 0.25 * factor as f64,
        time: Duration::from_millis(1_500 * factor.unsigned_abs()),
        turns: factor,
    }
}

fn update(goal: &str) -> GoalUpdate {
    GoalUpdate { goal: goal.into(), ..GoalUpdate::default() }
}

#[test]
fn spending_is_written_with_the_entry_that_causes_it() {
    let mut fixture = Fixture::with_task();
    fixture.ledger.create_goal(&goal("g", "t"), at(1)).unwrap();
    let created = fixture.ledger.goal("g").unwrap();
    assert_eq!(created, GoalRecord { created_at: at(1), updated_at: at(1), ..goal("g", "t") });
    let lease = fixture.ledger.take_lease("t", at(2)).unwrap();
    let cost = GoalUpdate { spent: spent(1), ..update("g") };
    let change = TaskChange { goal: Some(&cost), ..TaskChange::default() };
    for _ in 0..3 {
        fixture.ledger.append_journal(&lease, &change, |_| vec![json!("turn")], at(3)).unwrap();
    }
    let outcome = fixture.ledger.append_journal(&lease, &change, |_| vec![json!(4)], at(4));
    let after = outcome.unwrap().goal.unwrap();
    assert_eq!((after.spent, after.spent_in_run), (spent(4), spent(4)));
    assert_eq!(after, fixture.ledger.goal("g").unwrap());

    fixture.open_another().seize_lease("t", at(5)).unwrap();
    let fenced = fixture.ledger.append_journal(&lease, &change, |_| vec![json!(5)], at(5));
    assert!(matches!(fenced, Err(LedgerError::Fenced { .. })));
    assert_eq!(fixture.ledger.goal("g").unwrap(), after, "a fenced append spends nothing");

    let lease = fixture.ledger.take_lease("t", at(6)).unwrap();
    let unknown = TaskChange { goal: Some(&update("none")), ..TaskChange::default() };
    let failed = fixture.ledger.append_journal(&lease, &unknown, |_| vec![json!(5)], at(6));
    assert!(matches!(failed, Err(LedgerError::NoSuchGoal(id)) if id == "none"));
    assert_eq!(fixture.ledger.task("t").unwrap().last_seq, 4);
}

#[test]
fn resuming_resets_the_run_and_keeps_the_total() {
    let mut fixture = Fixture::with_task();
    fixture.ledger.create_goal(&goal("g", "t"), at(1)).unwrap();
    let limited = GoalUpdate {
        state: Some((GoalState::BudgetLimited, Some("5 turns are spent".into()))),
        spent: spent(5),
        ..update("g")
    };
    let stopped = fixture.ledger.update_goal(&limited, at(2)).unwrap();
    assert_eq!(stopped.state, GoalState::BudgetLimited);
    assert_eq!(stopped.reason.as_deref(), Some("5 turns are spent"));
    assert_eq!(stopped.updated_at, at(2));

    let more = Budget { turns: Some(10), usd: Some(2.5), time: None, tokens: None };
    let resume = GoalUpdate {
        state: Some((GoalState::Active, None)),
        budget: Some(more),
        begins_run: true,
        spent: spent(1),
        ..update("g")
    };
    let resumed = fixture.ledger.update_goal(&resume, at(3)).unwrap();
    assert_eq!((resumed.state, resumed.reason.as_deref()), (GoalState::Active, None));
    assert_eq!((resumed.spent, resumed.spent_in_run), (spent(6), spent(1)));
    assert_eq!((resumed.budget, resumed.created_at), (more, at(1)));
    assert_eq!(fixture.ledger.update_goal(&update("g"), at(3)).unwrap(), resumed);
}

#[test]
fn every_state_is_read_back() {
    let mut fixture = Fixture::with_task();
    fixture.ledger.create_goal(&goal("g", "t"), at(1)).unwrap();
    for (state, word) in [
        (GoalState::Active, "active"),
        (GoalState::Paused, "paused"),
        (GoalState::Blocked, "blocked"),
        (GoalState::UsageLimited, "usage_limited"),
        (GoalState::BudgetLimited, "budget_limited"),
        (GoalState::Complete, "complete"),
        (GoalState::Cancelled, "cancelled"),
    ] {
        let change = GoalUpdate { state: Some((state, None)), ..update("g") };
        assert_eq!(fixture.ledger.update_goal(&change, at(2)).unwrap().state, state);
        assert_eq!(state.as_str(), word);
    }
    open_raw(&fixture.path()).execute_batch("UPDATE goals SET state = 'dreaming'").unwrap();
    assert_eq!(fixture.ledger.goal("g").unwrap().state, GoalState::Paused);
}

#[test]
fn absurd_amounts_do_not_break_the_totals() {
    let mut fixture = Fixture::with_task();
    fixture.ledger.create_goal(&goal("g", "t"), at(1)).unwrap();
    let absurd = Spending { tokens: i64::MAX, usd: f64::NAN, time: Duration::MAX, turns: i64::MIN };
    for _ in 0..3 {
        let change = GoalUpdate { spent: absurd, ..update("g") };
        fixture.ledger.update_goal(&change, at(2)).unwrap();
    }
    let spent = fixture.ledger.goal("g").unwrap().spent;
    assert_eq!((spent.tokens, spent.usd, spent.turns), (3 << 50, 0.0, 0));
}

#[test]
fn goals_are_listed_and_found_by_the_beginning_of_their_ids() {
    let mut fixture = Fixture::with_task();
    fixture.ledger.create_task(&task("u"), at(0)).unwrap();
    for (seconds, (id, task)) in [("g-1", "t"), ("g-2", "u"), ("h", "t")].into_iter().enumerate() {
        fixture.ledger.create_goal(&goal(id, task), at(seconds as i64)).unwrap();
    }
    let list = |task: Option<&str>| -> Vec<String> {
        fixture.ledger.goals(task).unwrap().into_iter().map(|goal| goal.id).collect()
    };
    assert_eq!(list(None), ["h", "g-2", "g-1"]);
    assert_eq!(list(Some("t")), ["h", "g-1"]);
    assert_eq!(fixture.ledger.resolve_goal("h").unwrap(), "h");
    let ambiguous = fixture.ledger.resolve_goal("g").unwrap_err();
    assert!(
        matches!(ambiguous, LedgerError::Ambiguous { candidates, .. } if candidates.len() == 2)
    );
    assert!(matches!(fixture.ledger.resolve_goal("x"), Err(LedgerError::NoSuchGoal(_))));
    let again = fixture.ledger.create_goal(&goal("h", "t"), at(9));
    assert!(matches!(again, Err(LedgerError::GoalExists(_))));
    let orphan = fixture.ledger.create_goal(&goal("i", "nobody"), at(9));
    assert!(matches!(orphan, Err(LedgerError::NoSuchTask(_))));
    assert!(matches!(fixture.ledger.goal("i"), Err(LedgerError::NoSuchGoal(_))));
}
