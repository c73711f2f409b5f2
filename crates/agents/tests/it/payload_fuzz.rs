//! Random and damaged payloads: parsing must end, and must not panic.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use takeback_agents::{AGENTS, Agent, ParsedPayload, Signal, parse_payload};

use crate::payload_fixtures::load_fixtures;

/// Strings that have a meaning in some payloads.
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

/// Generates arbitrary JSON that contains meaningful strings.
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

/// Replaces or removes the field or list element with the number `at`. Nested fields and elements
/// are counted, too.
pub(crate) fn mutate_value(value: &mut Value, at: &mut usize, with: Option<&Value>) -> bool {
    let mut removed = None;
    match value {
        Value::Object(fields) => {
            for (key, field) in fields.iter_mut() {
                if *at == 0 {
                    match with {
                        Some(with) => *field = with.clone(),
                        None => removed = Some(key.clone()),
                    }
                    *at = usize::MAX;
                    break;
                }
                *at -= 1;
                if mutate_value(field, at, with) {
                    return true;
                }
            }
            if let Some(key) = removed {
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
                if mutate_value(item, at, with) {
                    return true;
                }
            }
        }
        _ => {}
    }
    *at == usize::MAX
}

/// Checks that only typed commands are answered, and that no notice is printed where it would do
/// harm.
fn check_harmless(
    agent: &Agent,
    parsed: Option<&ParsedPayload>,
    payload: &str,
) -> Result<(), TestCaseError> {
    match parsed {
        Some(ParsedPayload::Slash { .. }) => {
            prop_assert!(!agent.answer_events.is_empty());
            prop_assert!(payload.contains("rollback") || payload.contains("undo"), "{}", payload);
        }
        Some(ParsedPayload::Report { event, .. }) => {
            let signal = agent.events.iter().find(|(known, _)| known == event).unwrap().1;
            let ends = matches!(signal, Signal::TurnEnd | Signal::SessionEnd | Signal::ChildEnd);
            prop_assert!(
                !ends || agent.notice_output(event, "text").is_none(),
                "{} {}",
                agent.name,
                event
            );
        }
        None => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn parsing_any_payload_ends_without_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        value in any_json(),
        which in any::<proptest::sample::Index>(),
    ) {
        for agent in AGENTS {
            let (event, _) = agent.events[which.index(agent.events.len())];
            let _ = parse_payload(agent, Some(event), &bytes, Path::new("/"));
            let _ = parse_payload(agent, Some(event), value.to_string().as_bytes(), Path::new("/"));
            let _ = parse_payload(agent, None, value.to_string().as_bytes(), Path::new("/"));
        }
    }

    #[test]
    fn a_payload_with_an_odd_field_is_understood(
        which in any::<proptest::sample::Index>(),
        changes in proptest::collection::vec((0usize..60, proptest::option::of(any_json())), 1..5),
    ) {
        let all = load_fixtures();
        let fixture = which.get(&all);
        let mut payload: Value = serde_json::from_slice(&fixture.payload).unwrap();
        for (at, with) in &changes {
            mutate_value(&mut payload, &mut at.clone(), with.as_ref());
        }
        // The hook's argument names the event, so parsing never fails.
        let payload = payload.to_string();
        for agent in AGENTS {
            let parsed = parse_payload(agent, Some(&fixture.event), payload.as_bytes(), Path::new("/")).unwrap();
            check_harmless(agent, parsed.as_ref(), &payload)?;
        }
    }

    #[test]
    fn parsing_a_damaged_payload_ends_without_a_panic(
        which in any::<proptest::sample::Index>(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
        length in any::<proptest::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let all = load_fixtures();
        let fixture = which.get(&all);
        let mut payload = fixture.payload.clone();
        for (at, byte) in damage {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        if is_cut {
            payload.truncate(length.index(payload.len()));
        }
        let _ = parse_payload(fixture.agent, Some(&fixture.event), &payload, Path::new("/"));
    }
}
