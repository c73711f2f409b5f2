//! Parsing payloads with fields that the captured payloads do not have.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use takeback_agents::{ParsedPayload, find_agent, parse_payload};
use takeback_undo::{Report, ReportedEvent, ToolWork};

fn parse_report(name: &str, event: &str, payload: &Value) -> Option<Report> {
    let (agent, payload) = (find_agent(name).unwrap(), payload.to_string());
    let parsed = parse_payload(agent, Some(event), payload.as_bytes(), Path::new("/here"));
    match parsed.unwrap()? {
        ParsedPayload::Report { report, .. } => Some(*report),
        ParsedPayload::Slash { .. } => None,
    }
}

fn parse_work(name: &str, event: &str, payload: &Value) -> ToolWork {
    match parse_report(name, event, payload).unwrap().event {
        ReportedEvent::BeforeTool(call) | ReportedEvent::AfterTool { call, .. } => call.work,
        event => panic!("{event:?}"),
    }
}

#[test]
fn a_subagent_has_a_separate_session_with_a_parent() {
    for event in ["SubagentStart", "PreToolUse", "SubagentStop"] {
        let payload = json!({ "session_id": "s", "agent_id": "a1", "cwd": "/p" });
        let report = parse_report("claude", event, &payload).unwrap();
        assert_eq!((report.session.as_str(), report.parent.as_deref()), ("s/a1", Some("s")));
    }
    assert_eq!(parse_report("claude", "SubagentStop", &json!({ "session_id": "s" })), None);
    let payload = json!({
        "taskId": "t", "sessionContext": { "rootSessionId": "r" }, "agent_id": "a2",
        "parent_agent_id": "a1", "tool_call": { "name": "editor" },
    });
    let report = parse_report("cline", "PreToolUse", &payload).unwrap();
    assert_eq!((report.session.as_str(), report.parent.as_deref()), ("r/a2", Some("r")));
    let info = json!({ "id": "child", "parentID": "parent", "directory": "/p" });
    let payload = json!({ "type": "session.created", "properties": { "info": info } });
    let report = parse_report("opencode", "event", &payload).unwrap();
    assert_eq!((report.session.as_str(), report.parent.as_deref()), ("child", Some("parent")));
    assert_eq!(report.directory, PathBuf::from("/p"));
}

#[test]
fn an_empty_prompt_from_qwen_starts_no_turn() {
    for prompt in [json!(""), json!(" \n"), json!(null)] {
        let payload = json!({ "session_id": "s", "prompt": prompt, "prompt_id": "s########0" });
        assert_eq!(parse_report("qwen", "UserPromptSubmit", &payload), None);
        assert!(parse_report("claude", "UserPromptSubmit", &payload).is_some());
    }
}

#[test]
fn compaction_and_permission_events_are_ignored() {
    for (name, event) in [
        ("claude", "PreCompact"),
        ("gemini", "PreCompress"),
        ("codex", "PermissionRequest"),
        ("copilot", "permissionRequest"),
        ("cline", "PreCompact"),
        ("pi", "turn_end"),
    ] {
        assert_eq!(
            parse_report(name, event, &json!({ "session_id": "s" })),
            None,
            "{name} {event}"
        );
    }
}

#[test]
fn copilot_arguments_can_be_a_string() {
    let call =
        |arguments: Value| json!({ "sessionId": "s", "toolName": "bash", "toolArgs": arguments });
    let shell = ToolWork::run_script("rm x");
    assert_eq!(parse_work("copilot", "preToolUse", &call(json!({ "command": "rm x" }))), shell);
    assert_eq!(parse_work("copilot", "preToolUse", &call(json!("{\"command\": \"rm x\"}"))), shell);
    // Both forms result in the same call.
    let input = |arguments: Value| match parse_report("copilot", "preToolUse", &call(arguments)) {
        Some(Report { event: ReportedEvent::BeforeTool(call), .. }) => call.input,
        report => panic!("{report:?}"),
    };
    assert_eq!(input(json!({ "command": "rm x" })), input(json!("{\"command\": \"rm x\"}")));
}

#[test]
fn a_codex_patch_names_its_files() {
    let patch =
        "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** Delete File: /c\n*** End Patch";
    let payload = json!({ "tool_name": "apply_patch", "tool_input": { "command": patch } });
    let paths = ["a", "b", "/c"].map(PathBuf::from).to_vec();
    assert_eq!(
        parse_work("codex", "PreToolUse", &payload),
        ToolWork::Changes { script: None, paths }
    );
}

#[test]
fn cline_commands_become_one_script() {
    let input = json!({ "commands": ["cd src", "rm x"] });
    let payload = json!({ "tool_call": { "name": "run_commands", "input": input } });
    assert_eq!(parse_work("cline", "PreToolUse", &payload), ToolWork::run_script("cd src\nrm x"));
    // The editor extension sends the list as a string.
    let parameters = json!({ "commands": "[\"cd src\",\"rm x\"]" });
    let payload = json!({ "preToolUse": { "toolName": "run_commands", "parameters": parameters } });
    assert_eq!(parse_work("cline", "PreToolUse", &payload), ToolWork::run_script("cd src\nrm x"));
    let report = parse_report(
        "cline",
        "UserPromptSubmit",
        &json!({ "userPromptSubmit": { "prompt": "hi" } }),
    );
    assert_eq!(report.unwrap().event, ReportedEvent::TurnStart { prompt: Some("hi".into()) });
}

#[test]
fn a_tool_counts_as_reading_only_if_the_table_says_so() {
    let call =
        |tool: &str| json!({ "tool_name": tool, "tool_input": { "command": "ls", "path": "a" } });
    assert_eq!(parse_work("claude", "PreToolUse", &call("Read")), ToolWork::Reads);
    // Only exact names count, because a similar name may mean a different tool in another agent.
    for tool in ["read", "mcp__files__Read", "Task", ""] {
        assert!(
            matches!(parse_work("claude", "PreToolUse", &call(tool)), ToolWork::Changes { .. }),
            "{tool}"
        );
    }
}

#[test]
fn no_turn_starts_when_opencode_continues_on_its_own() {
    let message =
        |parts: Value| json!({ "input": { "sessionID": "s" }, "output": { "parts": parts } });
    let text = |text: &str, synthetic: bool| json!({ "type": "text", "text": text, "synthetic": synthetic });
    let event_of =
        |parts: Value| parse_report("opencode", "chat.message", &message(parts)).map(|it| it.event);
    assert_eq!(event_of(json!([text("go on", true)])), None);
    let mixed = event_of(json!([text("a", false), text("(file)", true), { "type": "file" }]));
    assert_eq!(mixed, Some(ReportedEvent::TurnStart { prompt: Some("a".into()) }));
}

#[test]
fn a_missing_directory_or_session_has_a_default() {
    for name in ["claude", "gemini", "copilot", "cline", "opencode", "pi", "cursor", "goose"] {
        let agent = find_agent(name).unwrap();
        let (event, _) = agent.events.iter().find(|(event, _)| event.contains("ool")).unwrap();
        let report = parse_report(name, event, &json!({ "cwd": "" })).unwrap();
        assert_eq!(report.directory, PathBuf::from("/here"), "{name}");
        assert_eq!(report.session, "/here", "{name}");
    }
    let report = parse_report("generic", "turn_start", &json!({})).unwrap();
    assert_eq!((report.session.as_str(), report.agent.as_str()), ("default", "generic"));
}

#[test]
fn a_payload_without_an_event_is_an_error() {
    let parse = |input: &str| {
        parse_payload(find_agent("claude").unwrap(), None, input.as_bytes(), Path::new("/"))
    };
    let error = parse("{}").unwrap_err().to_string();
    assert_eq!(error, "cannot read the event on standard input: missing event name");
    assert!(parse("[]").is_err() && parse("").is_err());
    assert!(parse(r#"{"hook_event_name": "FromTheFuture"}"#).unwrap().is_none());
}
