//! Every payload that was captured from a real agent, and what it becomes.

use std::fs;
use std::path::{Path, PathBuf};

use takeback_agents::{AGENTS, Agent, Heard, parse};
use takeback_undo::{ReportedEvent, ToolCall, ToolWork, TurnId};

/// A captured payload: its agent, what its hook is started with, its name and its bytes.
pub(crate) struct Fixture {
    pub(crate) agent: &'static Agent,
    pub(crate) event: String,
    pub(crate) name: String,
    pub(crate) payload: Vec<u8>,
}

/// All of them, by agent and name.
pub(crate) fn fixtures() -> Vec<Fixture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut all = Vec::new();
    for agent in AGENTS.iter().filter(|agent| agent.name != "generic") {
        let directory = fs::read_dir(root.join(agent.name)).unwrap();
        let mut paths: Vec<PathBuf> = directory.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            // After the event comes the tool.
            let known = agent.events.iter().map(|(event, _)| *event);
            let event = known
                .filter(|event| name == *event || name.starts_with(&format!("{event}.")))
                .max_by_key(|event| event.len());
            let event = event.unwrap_or(&name).to_owned();
            all.push(Fixture { agent, event, name, payload: fs::read(path).unwrap() });
        }
    }
    all
}

/// What there is to see, on one line.
fn shown(heard: &Heard) -> String {
    let report = match heard {
        Heard::Report { report, .. } => report,
        Heard::Slash { slash, directory } => {
            let words = [&[slash.command().to_owned()], slash.rest()].concat().join(" ");
            return format!("typed {words} | {}", directory.display());
        }
    };
    let (what, details) = match &report.event {
        ReportedEvent::SessionStart => ("session starts", String::new()),
        ReportedEvent::TurnStart { prompt: None } => ("turn starts", String::new()),
        ReportedEvent::TurnStart { prompt: Some(prompt) } => {
            ("turn starts", format!(" {prompt:?}"))
        }
        ReportedEvent::BeforeTool(call) => ("before", shown_call(call)),
        ReportedEvent::AfterTool { call, outcome } => {
            let outcome = outcome.as_deref().unwrap_or("?");
            ("after", format!("{} → {outcome}", shown_call(call)))
        }
        ReportedEvent::TurnEnd => ("turn ends", String::new()),
        ReportedEvent::SessionEnd => ("session ends", String::new()),
    };
    let turn = match &report.turn {
        Some(TurnId::Name(name)) => format!(" turn {}", short(name)),
        Some(TurnId::Number(number)) => format!(" turn {number}"),
        None => String::new(),
    };
    let model = report.model.as_ref().map(|model| format!(" model {model}")).unwrap_or_default();
    assert_eq!(report.parent, None);
    let session = short(&report.session);
    format!("{what}{details} | {session}{turn}{model} {}", report.directory.display())
}

fn shown_call(call: &ToolCall) -> String {
    let work = match &call.work {
        ToolWork::Reads => "reads".to_owned(),
        ToolWork::Shell { script, paths } => {
            assert!(paths.is_empty());
            format!("$ {script}")
        }
        ToolWork::Changes { script: None, paths } => format!("{paths:?}"),
        ToolWork::Changes { .. } => panic!("{call:?}"),
    };
    format!(" {} {} {work}", call.tool, call.id.as_deref().map_or("-".into(), short))
}

/// Enough of a long name to know it.
fn short(name: &str) -> String {
    match name.char_indices().nth_back(5) {
        Some((at, _)) if name.len() > 12 && !name.starts_with('/') => format!("…{}", &name[at..]),
        _ => name.to_owned(),
    }
}

#[test]
fn every_captured_payload_is_understood() {
    let mut seen = String::new();
    for Fixture { agent, event, name, payload } in fixtures() {
        let heard = parse(agent, Some(&event), &payload, Path::new("/FALLBACK")).unwrap();
        let shown = heard.as_ref().map_or("nothing".to_owned(), shown);
        seen.push_str(&format!("{} {name}: {shown}\n", agent.name));
        let is_theirs = |heard| match heard {
            Heard::Report { report, .. } => report.agent == agent.name,
            Heard::Slash { .. } => !agent.answers_on.is_empty(),
        };
        assert!(heard.is_none_or(is_theirs));
    }
    let expected = include_str!("expected.txt");
    for (seen, expected) in seen.lines().zip(expected.lines()) {
        assert_eq!(seen, expected);
    }
    assert_eq!(seen.lines().count(), expected.lines().count());
}

/// What says itself which event it is needs no argument.
#[test]
fn most_payloads_say_what_they_are() {
    for Fixture { agent, event, name, payload } in fixtures() {
        let alone = parse(agent, None, &payload, Path::new("/"));
        let told = parse(agent, Some(&event), &payload, Path::new("/")).unwrap();
        match agent.name {
            "copilot" | "opencode" | "pi" => {
                assert!(alone.is_err() || alone.unwrap() == told, "{name}");
            }
            // Its payloads have other names for them.
            "cline" => {
                let report = |heard: Option<Heard>| match heard {
                    Some(Heard::Report { report, .. }) => report,
                    other => panic!("{other:?}"),
                };
                assert_eq!(report(alone.unwrap()), report(told), "{name}");
            }
            _ => assert_eq!(alone.unwrap(), told, "{name}"),
        }
    }
}
