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
        let totals = fixture.ledger.usage_by(by, &day, &|_, _| None).unwrap();
        totals.into_iter().map(|row| (row.key, row.sessions, row.tokens.input)).collect()
    };
    let row = |key: &str, sessions, tokens| (key.to_owned(), sessions, tokens);
    assert_eq!(by(UsageBy::Model), [row("big", 1, 110), row("small", 2, 3)]);
    assert_eq!(by(UsageBy::Source), [row("x", 1, 111), row("y", 1, 2)]);
    assert_eq!(by(UsageBy::Workspace), [row("/w", 2, 113)]);
    assert_eq!(by(UsageBy::Day), [row("2023-11-15", 1, 2), row("2023-11-14", 1, 111)]);
    assert_eq!(by(UsageBy::Session), [row("a", 1, 111), row("b", 1, 2)]);
}

#[test]
fn costs_are_estimated_from_prices_and_unknown_prices_are_counted() {
    let mut fixture = Fixture::new();
    let usage = |model: &str, tokens, actual| UsageRecord {
        model: model.into(),
        tokens: Tokens { input: tokens, ..Tokens::default() },
        actual_cost_usd: actual,
        ..UsageRecord::default()
    };
    for (id, models) in [
        ("cheap", vec![usage("known", 10, None)]),
        ("mixed", vec![usage("known", 100, None), usage("unknown", 7, None)]),
        ("billed", vec![usage("unknown", 5, Some(3.0))]),
        ("unused", vec![]),
    ] {
        fixture.create_session(id);
        for usage in models {
            fixture.ledger.record_usage(id, &usage, at(1)).unwrap();
        }
    }
    let price = |model: &str, tokens: Tokens| (model == "known").then_some(tokens.input as f64);
    let totals = |by| -> Vec<(String, f64, f64, usize)> {
        let totals = fixture.ledger.usage_by(by, &|_| String::new(), &price).unwrap();
        let row = |total: takeback_ledger::UsageTotal| {
            (total.key, total.estimated_cost_usd, total.actual_cost_usd, total.unpriced_sessions)
        };
        totals.into_iter().map(row).collect()
    };
    let row =
        |key: &str, estimated, actual, unpriced| (key.to_owned(), estimated, actual, unpriced);
    assert_eq!(
        totals(UsageBy::Session),
        [
            row("mixed", 100.0, 0.0, 1),
            row("cheap", 10.0, 0.0, 0),
            row("billed", 0.0, 3.0, 0),
            row("unused", 0.0, 0.0, 0),
        ]
    );
    assert_eq!(
        totals(UsageBy::Model),
        [row("known", 110.0, 0.0, 0), row("unknown", 0.0, 3.0, 1), row("", 0.0, 0.0, 0)]
    );
    assert_eq!(totals(UsageBy::Day), [row("", 110.0, 3.0, 1)]);
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
