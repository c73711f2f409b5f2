//! Searching: filters, order and forks.

use takeback_ledger::{SearchOptions, SessionRecord};

use super::{Backend, at, create_session, find, message, say, session};

pub(crate) fn a_search_filters_and_shows_the_messages_around_a_match(backend: &mut dyn Backend) {
    for (id, source) in [("a", "x"), ("b", "y")] {
        let session = SessionRecord {
            source: source.into(),
            model: Some("m".into()),
            started_at: Some(at(0)),
            ..session(id)
        };
        backend.ledger().create_session(&session, at(0)).unwrap();
        let long = "z".repeat(500);
        for (seconds, role, text) in [
            (1, "user", long.as_str()),
            (2, "assistant", "The needle is HERE"),
            (3, "user", "thanks"),
        ] {
            backend.ledger().append(id, &[message(role, text)], at(seconds)).unwrap();
        }
    }
    let outcome = backend.search("needle", &SearchOptions::default());
    assert_eq!((outcome.total, outcome.more), (2, false));
    let hit = &outcome.results[0];
    assert_eq!((hit.session.as_str(), hit.message, hit.role.as_str()), ("b", 2, "assistant"));
    assert_eq!(hit.snippet, "The >>>needle<<< is HERE");
    assert_eq!(hit.before.as_deref(), Some("z".repeat(200).as_str()));
    assert_eq!(hit.after.as_deref(), Some("thanks"));
    assert_eq!((hit.source.as_str(), hit.model.as_deref()), ("y", Some("m")));
    assert_eq!((hit.time, hit.session_started), (at(2), at(0)));

    let total = |backend: &mut dyn Backend, options: SearchOptions| {
        backend.search("needle OR thanks", &options).total
    };
    let base = SearchOptions::default();
    assert_eq!(total(backend, base.clone()), 4);
    assert_eq!(total(backend, SearchOptions { sources: vec!["x".into()], ..base.clone() }), 2);
    let excluding = SearchOptions { exclude_sources: vec!["x".into(), "y".into()], ..base.clone() };
    assert_eq!(total(backend, excluding), 0);
    assert_eq!(total(backend, SearchOptions { roles: vec!["user".into()], ..base.clone() }), 2);
    assert_eq!(total(backend, SearchOptions { since: Some(at(3)), ..base.clone() }), 2);
    let here = |path: &str| SearchOptions { workspace: Some(path.into()), ..base.clone() };
    assert_eq!(total(backend, here("/nowhere")), 0);
}

pub(crate) fn on_request_only_the_sessions_of_a_workspace_are_searched(backend: &mut dyn Backend) {
    for (id, workspace) in [("a", "/shop"), ("b", "/blog")] {
        let session = SessionRecord { workspace: Some(workspace.into()), ..super::session(id) };
        backend.ledger().create_session(&session, at(0)).unwrap();
        say(backend, id, "user", "needle");
    }
    let options = SearchOptions { workspace: Some("/blog".into()), ..SearchOptions::default() };
    for _ in 0..2 {
        let found = backend.search("needle", &options).results;
        assert_eq!(found.iter().map(|hit| hit.session.as_str()).collect::<Vec<_>>(), ["b"]);
        // In the second round, the ledger searches its index. The result must be the same.
        backend.ledger().optimize(&|_| {}).unwrap();
    }
}

pub(crate) fn results_of_tools_come_after_messages(backend: &mut dyn Backend) {
    create_session(backend, "s");
    say(backend, "s", "tool", "migrate migrate migrate");
    say(backend, "s", "assistant", &format!("{} migrate", "other words ".repeat(50)));
    let order: Vec<i64> = find(backend, "migrate").into_iter().map(|hit| hit.1).collect();
    assert_eq!(order, [2, 1]);
}

pub(crate) fn the_better_match_comes_first(backend: &mut dyn Backend) {
    create_session(backend, "s");
    say(backend, "s", "user", "rust rust rust");
    say(backend, "s", "user", &format!("{} rust", "other words ".repeat(50)));
    say(backend, "s", "user", "rust");
    let order: Vec<i64> = find(backend, "rust").into_iter().map(|hit| hit.1).collect();
    assert_eq!(order, [1, 3, 2]);
    let many = SearchOptions { limit: 1, ..SearchOptions::default() };
    let outcome = backend.search("rust", &many);
    assert_eq!((outcome.results.len(), outcome.total), (1, 3));
}

pub(crate) fn pasted_text_of_any_length_is_a_query(backend: &mut dyn Backend) {
    create_session(backend, "s");
    let words = |count: usize| (0..count).map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ");
    say(backend, "s", "user", &words(256));
    assert_eq!(find(backend, &words(256)).len(), 1);
    assert_eq!(find(backend, &words(100_000)).len(), 1, "the words beyond the limit are ignored");
}

pub(crate) fn a_search_finds_a_message_of_a_fork_once(backend: &mut dyn Backend) {
    create_session(backend, "s");
    for turn in 1..=3 {
        say(backend, "s", "user", &format!("ask{turn}"));
        say(backend, "s", "assistant", &format!("answer{turn}"));
    }
    backend.ledger().fork("s", 4, "f", at(20)).unwrap();
    say(backend, "f", "user", "ask2 differently");
    let find = |backend: &mut dyn Backend, text: &str| {
        let found = backend.search(text, &SearchOptions::default());
        let mut found: Vec<(String, i64)> =
            found.results.into_iter().map(|hit| (hit.session, hit.message)).collect();
        found.sort();
        found
    };
    let hits = |hits: &[(&str, i64)]| -> Vec<(String, i64)> {
        hits.iter().map(|(session, seq)| ((*session).to_owned(), *seq)).collect()
    };
    assert_eq!(find(backend, "ask2"), hits(&[("f", 5), ("s", 3)]));
    // The message is taken back in the parent, but the fork still has it.
    backend.ledger().rewind_turns("s", 2, at(30)).unwrap();
    assert_eq!(find(backend, "ask2"), hits(&[("f", 3), ("f", 5)]));
    assert_eq!(find(backend, "ask1"), hits(&[("s", 1)]));
    backend.ledger().delete_session("s").unwrap();
    assert_eq!(find(backend, "ask1"), hits(&[("f", 1)]));
}
