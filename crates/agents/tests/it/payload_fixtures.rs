//! Parsing every payload that was captured from a real agent, and comparing the result with
//! `expected_payloads.txt`.

use std::fs;
use std::path::{Path, PathBuf};

use takeback_agents::{AGENTS, Agent, ParsedPayload, parse_payload};
use takeback_undo::{ReportedEvent, ToolCall, ToolWork, TurnId};

/// A captured payload, and the event that was its hook's argument.
pub(crate) struct PayloadFixture {
    pub(crate) agent: &'static Agent,
    pub(crate) event: String,
    pub(crate) name: String,
    pub(crate) payload: Vec<u8>,
}

/// Loads all payloads, sorted by agent and name.
pub(crate) fn load_fixtures() -> Vec<PayloadFixture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut all = Vec::new();
    let has_payloads = |agent: &&Agent| agent.name != "generic" && !agent.is_editor();
    for agent in AGENTS.iter().filter(has_payloads) {
        let directory = fs::read_dir(root.join(agent.name)).unwrap();
        let mut paths: Vec<PathBuf> = directory.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            // The name is the event, followed by the tool if there is one.
            let known = agent.events.iter().map(|(event, _)| *event);
            let event = known
                .filter(|event| name == *event || name.starts_with(&format!("{event}.")))
                .max_by_key(|event| event.len());
            let event = event.unwrap_or(&name).to_owned();
            all.push(PayloadFixture { agent, event, name, payload: fs::read(path).unwrap() });
        }
    }
    all
}

/// Shows a parsed payload on one line.
fn show_payload(parsed: &ParsedPayload) -> String {
    let report = match parsed {
        ParsedPayload::Report { report, .. } => report,
        ParsedPayload::Slash { command, directory, .. } => {
            let words = [&[command.command().to_owned()], command.arguments()].concat().join(" ");
            return format!("typed {words} | {}", directory.display());
        }
    };
    let (what, details) = match &report.event {
        ReportedEvent::SessionStart => ("session starts", String::new()),
        ReportedEvent::TurnStart { prompt: None } => ("turn starts", String::new()),
        ReportedEvent::TurnStart { prompt: Some(prompt) } => {
            ("turn starts", format!(" {prompt:?}"))
        }
        ReportedEvent::BeforePrompt { .. } => panic!("only editors announce prompts"),
        ReportedEvent::BeforeTool(call) => ("before", show_call(call)),
        ReportedEvent::AfterTool { call, outcome } => {
            let outcome = outcome.as_deref().unwrap_or("?");
            ("after", format!("{} → {outcome}", show_call(call)))
        }
        ReportedEvent::TurnEnd => ("turn ends", String::new()),
        ReportedEvent::SessionEnd => ("session ends", String::new()),
    };
    let turn = match &report.turn {
        Some(TurnId::Name(name)) => format!(" turn {}", shorten(name)),
        Some(TurnId::Number(number)) => format!(" turn {number}"),
        None => String::new(),
    };
    let model = report.model.as_ref().map(|model| format!(" model {model}")).unwrap_or_default();
    assert_eq!(report.parent, None);
    let session = shorten(&report.session);
    format!("{what}{details} | {session}{turn}{model} {}", report.directory.display())
}

fn show_call(call: &ToolCall) -> String {
    let work = match &call.work {
        ToolWork::Reads => "reads".to_owned(),
        ToolWork::Shell { script, paths } => {
            assert!(paths.is_empty());
            format!("$ {script}")
        }
        ToolWork::Changes { script: None, paths } => format!("{paths:?}"),
        ToolWork::Changes { .. } | ToolWork::Writes { .. } => panic!("{call:?}"),
    };
    format!(" {} {} {work}", call.tool, call.id.as_deref().map_or("-".into(), shorten))
}

/// Shortens a long id to its last characters.
fn shorten(name: &str) -> String {
    match name.char_indices().nth_back(5) {
        Some((at, _)) if name.len() > 12 && !name.starts_with('/') => format!("…{}", &name[at..]),
        _ => name.to_owned(),
    }
}

#[test]
fn every_captured_payload_is_parsed_as_expected() {
    let mut seen = String::new();
    for PayloadFixture { agent, event, name, payload } in load_fixtures() {
        let parsed = parse_payload(agent, Some(&event), &payload, Path::new("/FALLBACK")).unwrap();
        let shown = parsed.as_ref().map_or("nothing".to_owned(), show_payload);
        seen.push_str(&format!("{} {name}: {shown}\n", agent.name));
        let is_of_agent = |parsed| match parsed {
            ParsedPayload::Report { report, .. } => report.agent == agent.name,
            ParsedPayload::Slash { .. } => !agent.answer_events.is_empty(),
        };
        assert!(parsed.is_none_or(is_of_agent));
    }
    let expected = include_str!("expected_payloads.txt");
    for (seen, expected) in seen.lines().zip(expected.lines()) {
        assert_eq!(seen, expected);
    }
    assert_eq!(seen.lines().count(), expected.lines().count());
}

#[test]
fn most_payloads_name_their_event() {
    for PayloadFixture { agent, event, name, payload } in load_fixtures() {
        let alone = parse_payload(agent, None, &payload, Path::new("/"));
        let with_event = parse_payload(agent, Some(&event), &payload, Path::new("/")).unwrap();
        match agent.name {
            "copilot" | "opencode" | "pi" => {
                assert!(alone.is_err() || alone.unwrap() == with_event, "{name}");
            }
            // Cline's payloads have other names for the events.
            "cline" => {
                let report = |parsed: Option<ParsedPayload>| match parsed {
                    Some(ParsedPayload::Report { report, .. }) => report,
                    other => panic!("{other:?}"),
                };
                assert_eq!(report(alone.unwrap()), report(with_event), "{name}");
            }
            _ => assert_eq!(alone.unwrap(), with_event, "{name}"),
        }
    }
}
