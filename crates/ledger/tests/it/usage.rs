//! Usage: tokens and cost.

use takeback_ledger::{SessionRecord, Tokens, UsageBy, UsageRecord};

use crate::support::{Fixture, at, session};

#[test]
fn usage_adds_up() {
    let mut fixture = Fixture::new();
    for (id, source, workspace) in [("a", "x", "/w"), ("b", "y", "/w")] {
        let session = SessionRecord {
            source: source.into(),
            workspace: Some(workspace.into()),
            started_at: Some(at(if id == "a" { 0 } else { 86_400 })),
            ..session(id)
        };
        fixture.ledger.create_session(&session, at(0)).unwrap();
    }
    let usage = |model: &str, tokens| UsageRecord {
        model: model.into(),
        api_call_count: 1,
        tokens: Tokens { input: tokens, output: 1, ..Tokens::default() },
        estimated_cost_usd: Some(0.25),
        ..UsageRecord::default()
    };
    fixture.ledger.record_usage("a", &usage("big", 100), at(1)).unwrap();
    fixture.ledger.record_usage("a", &usage("big", 10), at(2)).unwrap();
    fixture.ledger.record_usage("a", &usage("small", 1), at(3)).unwrap();
    fixture.ledger.record_usage("b", &usage("small", 2), at(4)).unwrap();
    let a = fixture.ledger.session("a").unwrap();
    assert_eq!((a.api_call_count, a.tokens.input, a.estimated_cost_usd), (3, 111, Some(0.75)));
    assert_eq!(a.actual_cost_usd, None, "an unknown cost is not zero");
    let rows = fixture.ledger.transcript("a").unwrap().usage;
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (rows[0].tokens.input, rows[0].first_seen, rows[0].last_seen),
        (110, Some(at(1)), Some(at(2)))
    );
    let by = |by| -> Vec<(String, usize, i64)> {
        let day = |time: takeback_ledger::Time| time.rfc3339()[..10].to_owned();
        let totals = fixture.ledger.usage_by(by, &day).unwrap();
        totals.into_iter().map(|row| (row.key, row.sessions, row.tokens.input)).collect()
    };
    let row = |key: &str, sessions, tokens| (key.to_owned(), sessions, tokens);
    assert_eq!(by(UsageBy::Model), [row("big", 1, 110), row("small", 2, 3)]);
    assert_eq!(by(UsageBy::Source), [row("x", 1, 111), row("y", 1, 2)]);
    assert_eq!(by(UsageBy::Workspace), [row("/w", 2, 113)]);
    assert_eq!(by(UsageBy::Day), [row("2023-11-15", 1, 2), row("2023-11-14", 1, 111)]);
}

#[test]
fn costs_are_stored_to_the_last_digit() {
    let mut cost = 0.1_f64;
    for number in 0..2_000 {
        cost = (cost * 1.618_033 + 0.377_1).fract() * 10_f64.powi(number % 20 - 10) + 1e-12;
        let session = SessionRecord { estimated_cost_usd: Some(cost), ..session("s") };
        let json = serde_json::to_string(&session).unwrap();
        let read: SessionRecord = serde_json::from_str(&json).unwrap();
        assert_eq!(read.estimated_cost_usd, Some(cost), "{json}");
    }
}
