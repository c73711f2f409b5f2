//! Whatever comes in: no panic, and an end.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use takeback_agents::{AGENTS, Agent, Heard, Signal, parse};

use crate::fixtures::fixtures;

/// Texts that mean something somewhere.
const WORDS: &[&str] = &[
    "Bash",
    "apply_patch",
    "run_commands",
    "*** Begin Patch\n*** Add File: a\n*** Move to: \n",
    "[\"ls\", 7]",
    "{\"command\": \"rm x\"}",
    "{\"success\": false}",
    "Exit code: 7\n[Process exited with code 99999999999999999999]",
    "/",
    "..",
    "\u{0}",
    "\u{feff}",
    "",
];

/// Any JSON, with texts that mean something here and there.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        ".{0,12}".prop_map(Value::from),
        proptest::sample::select(WORDS).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((".{0,8}", inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Puts something else in the `at`th place of a value, or removes it.
pub(crate) fn mutate(value: &mut Value, at: &mut usize, with: Option<&Value>) -> bool {
    let mut is_gone = None;
    match value {
        Value::Object(fields) => {
            for (key, field) in fields.iter_mut() {
                if *at == 0 {
                    match with {
                        Some(with) => *field = with.clone(),
                        None => is_gone = Some(key.clone()),
                    }
                    *at = usize::MAX;
                    break;
                }
                *at -= 1;
                if mutate(field, at, with) {
                    return true;
                }
            }
            if let Some(key) = is_gone {
                fields.remove(&key);
            }
        }
        Value::Array(items) => {
            for item in items {
                if *at == 0 {
                    *item = with.cloned().unwrap_or_default();
                    *at = usize::MAX;
                    break;
                }
                *at -= 1;
                if mutate(item, at, with) {
                    return true;
                }
            }
        }
        _ => {}
    }
    *at == usize::MAX
}

/// Nothing is answered that nobody typed, and nothing is told where that does harm.
fn must_be_harmless(
    agent: &Agent,
    heard: Option<&Heard>,
    payload: &str,
) -> Result<(), TestCaseError> {
    match heard {
        Some(Heard::Slash { .. }) => {
            prop_assert!(!agent.answers_on.is_empty());
            prop_assert!(payload.contains("rollback") || payload.contains("undo"), "{}", payload);
        }
        Some(Heard::Report { event, .. }) => {
            let signal = agent.events.iter().find(|(known, _)| known == event).unwrap().1;
            let ends = matches!(signal, Signal::TurnEnd | Signal::SessionEnd | Signal::ChildEnd);
            prop_assert!(!ends || agent.say(event, "told").is_none(), "{} {}", agent.name, event);
        }
        None => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn anything_at_all(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        value in any_json(),
        which in any::<proptest::sample::Index>(),
    ) {
        for agent in AGENTS {
            let (event, _) = agent.events[which.index(agent.events.len())];
            let _ = parse(agent, Some(event), &bytes, Path::new("/"));
            let _ = parse(agent, Some(event), value.to_string().as_bytes(), Path::new("/"));
            let _ = parse(agent, None, value.to_string().as_bytes(), Path::new("/"));
        }
    }

    #[test]
    fn fixtures_in_which_something_is_odd(
        which in any::<proptest::sample::Index>(),
        changes in proptest::collection::vec((0usize..60, proptest::option::of(any_json())), 1..5),
    ) {
        let all = fixtures();
        let fixture = which.get(&all);
        let mut payload: Value = serde_json::from_slice(&fixture.payload).unwrap();
        for (at, with) in &changes {
            mutate(&mut payload, &mut at.clone(), with.as_ref());
        }
        // It says what it is, or that is said besides: so something is always understood.
        let payload = payload.to_string();
        for agent in AGENTS {
            let heard = parse(agent, Some(&fixture.event), payload.as_bytes(), Path::new("/")).unwrap();
            must_be_harmless(agent, heard.as_ref(), &payload)?;
        }
    }

    #[test]
    fn fixtures_that_are_damaged(
        which in any::<proptest::sample::Index>(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
        length in any::<proptest::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let all = fixtures();
        let fixture = which.get(&all);
        let mut payload = fixture.payload.clone();
        for (at, byte) in damage {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        if is_cut {
            payload.truncate(length.index(payload.len()));
        }
        let _ = parse(fixture.agent, Some(&fixture.event), &payload, Path::new("/"));
    }
}
