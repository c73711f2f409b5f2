//! Lists of sessions, and sums of usage.

use takeback_ledger::{ListOptions, SessionRecord, Tokens, UsageBy, UsageRecord};

use super::{Backend, at, create_session, message, session};

pub(crate) fn lists_have_previews_and_begin_with_the_latest(backend: &mut dyn Backend) {
    for (id, source, workspace) in [("a", "x", "/w"), ("b", "y", "/w"), ("c", "x", "/v")] {
        let session = SessionRecord {
            source: source.into(),
            workspace: Some(workspace.into()),
            ..session(id)
        };
        backend.ledger().create_session(&session, at(0)).unwrap();
    }
    let say = |backend: &mut dyn Backend, id: &str, text: &str, seconds| {
        backend.ledger().append(id, &[message("user", text)], at(seconds)).unwrap();
    };
    say(backend, "a", "first\n\n  thing", 5);
    say(backend, "b", &"é".repeat(64), 4);
    say(backend, "c", &"é".repeat(63), 3);
    say(backend, "a", "second thing", 6);
    let list = |backend: &mut dyn Backend, options: &ListOptions| -> Vec<String> {
        backend.sessions(options).into_iter().map(|row| row.session.id).collect()
    };
    let all = backend.sessions(&ListOptions::default());
    assert_eq!(list(backend, &ListOptions::default()), ["a", "b", "c"]);
    assert_eq!(all[0].preview, "first thing");
    assert_eq!(all[0].last_activity, at(6));
    assert_eq!(all[1].preview, format!("{}…", "é".repeat(62)));
    assert_eq!(all[2].preview, "é".repeat(63));
    let sources = ListOptions { sources: vec!["x".into()], ..ListOptions::default() };
    assert_eq!(list(backend, &sources), ["a", "c"]);
    let workspace = ListOptions { workspace: Some("/w".into()), ..ListOptions::default() };
    assert_eq!(list(backend, &workspace), ["a", "b"]);
    let limit = ListOptions { limit: Some(1), ..ListOptions::default() };
    assert_eq!(list(backend, &limit), ["a"]);
    backend.ledger().archive_session("a", true).unwrap();
    assert_eq!(list(backend, &ListOptions::default()), ["b", "c"]);
    let archived = ListOptions { archived: true, ..ListOptions::default() };
    assert_eq!(list(backend, &archived).len(), 3);
}

pub(crate) fn usage_adds_up(backend: &mut dyn Backend) {
    for (id, source, workspace) in [("a", "x", "/w"), ("b", "y", "/w")] {
        let session = SessionRecord {
            source: source.into(),
            workspace: Some(workspace.into()),
            started_at: Some(at(if id == "a" { 0 } else { 86_400 })),
            ..session(id)
        };
        backend.ledger().create_session(&session, at(0)).unwrap();
    }
    let usage = |model: &str, tokens| UsageRecord {
        model: model.into(),
        api_call_count: 1,
        tokens: Tokens { input: tokens, output: 1, ..Tokens::default() },
        estimated_cost_usd: Some(0.25),
        ..UsageRecord::default()
    };
    backend.ledger().record_usage("a", &usage("big", 100), at(1)).unwrap();
    backend.ledger().record_usage("a", &usage("big", 10), at(2)).unwrap();
    backend.ledger().record_usage("a", &usage("small", 1), at(3)).unwrap();
    backend.ledger().record_usage("b", &usage("small", 2), at(4)).unwrap();
    let a = backend.ledger().session("a").unwrap();
    assert_eq!((a.api_call_count, a.tokens.input, a.estimated_cost_usd), (3, 111, Some(0.75)));
    assert_eq!(a.actual_cost_usd, None, "an unknown cost is not zero");
    let rows = backend.ledger().transcript("a").unwrap().usage;
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (rows[0].tokens.input, rows[0].first_seen, rows[0].last_seen),
        (110, Some(at(1)), Some(at(2)))
    );
    let mut by = |by| -> Vec<(String, usize, i64)> {
        let day = |time: takeback_ledger::Time| time.rfc3339()[..10].to_owned();
        let totals = backend.usage_by(by, &day, &|_, _| None);
        totals.into_iter().map(|row| (row.key, row.sessions, row.tokens.input)).collect()
    };
    let row = |key: &str, sessions, tokens| (key.to_owned(), sessions, tokens);
    assert_eq!(by(UsageBy::Model), [row("big", 1, 110), row("small", 2, 3)]);
    assert_eq!(by(UsageBy::Source), [row("x", 1, 111), row("y", 1, 2)]);
    assert_eq!(by(UsageBy::Workspace), [row("/w", 2, 113)]);
    assert_eq!(by(UsageBy::Day), [row("2023-11-15", 1, 2), row("2023-11-14", 1, 111)]);
    assert_eq!(by(UsageBy::Session), [row("a", 1, 111), row("b", 1, 2)]);
}

pub(crate) fn costs_are_estimated_from_prices_and_unknown_prices_are_counted(
    backend: &mut dyn Backend,
) {
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
        create_session(backend, id);
        for usage in models {
            backend.ledger().record_usage(id, &usage, at(1)).unwrap();
        }
    }
    let price = |model: &str, tokens: Tokens| (model == "known").then_some(tokens.input as f64);
    let mut totals = |by| -> Vec<(String, f64, f64, usize)> {
        let totals = backend.usage_by(by, &|_| String::new(), &price);
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
