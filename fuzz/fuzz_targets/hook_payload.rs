//! Hook payloads: a byte for the agent, a byte for the event, and the JSON.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use takeback_agents::{AGENTS, Agent, ParsedPayload, parse_payload};

fuzz_target!(|bytes: &[u8]| {
    let [agent, event, payload @ ..] = bytes else { return };
    let agent = &AGENTS[usize::from(*agent) % AGENTS.len()];
    let event = agent.events.get(usize::from(*event)).map(|(name, _)| *name);
    match parse_payload(agent, event, payload, Path::new("/fallback")) {
        Ok(Some(parsed)) => check(agent, parsed),
        Ok(None) => {}
        Err(error) => {
            let text = error.to_string();
            assert!(!text.chars().any(char::is_control), "{text:?}");
        }
    }
});

fn check(agent: &Agent, parsed: ParsedPayload) {
    match parsed {
        ParsedPayload::Report { report, event, .. } => {
            assert!(report.directory.is_absolute());
            let text = format!("{report:?}");
            for output in [
                agent.combined_output(event, Some(&text), Some(&text)),
                agent.refusal_output(&text).0,
            ] {
                let json = output.filter(|output| output.starts_with('{'));
                json.map(|json| serde_json::from_str::<serde_json::Value>(&json).expect("JSON"));
            }
        }
        ParsedPayload::Slash { command, directory, .. } => {
            assert!(directory.is_absolute());
            let (_, _) = (command.check(), command.is_changing());
        }
    }
}
