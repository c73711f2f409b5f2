//! Shapes that the captured payloads do not have.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use takeback_agents::{Heard, agent, parse};
use takeback_undo::{Report, ReportedEvent, ToolWork};

fn heard(name: &str, event: &str, payload: &Value) -> Option<Report> {
    let payload = payload.to_string();
    let heard = parse(agent(name).unwrap(), Some(event), payload.as_bytes(), Path::new("/here"));
    match heard.unwrap()? {
        Heard::Report { report, .. } => Some(*report),
        Heard::Slash { .. } => None,
    }
}

fn work(name: &str, event: &str, payload: &Value) -> ToolWork {
    match heard(name, event, payload).unwrap().event {
        ReportedEvent::BeforeTool(call) | ReportedEvent::AfterTool { call, .. } => call.work,
        event => panic!("{event:?}"),
    }
}

#[test]
fn a_subagent_is_a_session_of_its_own_with_a_parent() {
    for event in ["SubagentStart", "PreToolUse", "SubagentStop"] {
        let payload = json!({ "session_id": "s", "agent_id": "a1", "cwd": "/p" });
        let report = heard("claude", event, &payload).unwrap();
        assert_eq!((report.session.as_str(), report.parent.as_deref()), ("s/a1", Some("s")));
    }
    assert_eq!(heard("claude", "SubagentStop", &json!({ "session_id": "s" })), None);
    let payload = json!({
        "taskId": "t", "sessionContext": { "rootSessionId": "r" }, "agent_id": "a2",
        "parent_agent_id": "a1", "tool_call": { "name": "editor" },
    });
    let report = heard("cline", "PreToolUse", &payload).unwrap();
    assert_eq!((report.session.as_str(), report.parent.as_deref()), ("r/a2", Some("r")));
    let info = json!({ "id": "child", "parentID": "parent", "directory": "/p" });
    let payload = json!({ "type": "session.created", "properties": { "info": info } });
    let report = heard("opencode", "event", &payload).unwrap();
    assert_eq!((report.session.as_str(), report.parent.as_deref()), ("child", Some("parent")));
    assert_eq!(report.directory, PathBuf::from("/p"));
}

#[test]
fn qwen_saying_nothing_in_the_users_name_is_no_turn() {
    for prompt in [json!(""), json!(" \n"), json!(null)] {
        let payload = json!({ "session_id": "s", "prompt": prompt, "prompt_id": "s########0" });
        assert_eq!(heard("qwen", "UserPromptSubmit", &payload), None);
        assert!(heard("claude", "UserPromptSubmit", &payload).is_some());
    }
}

#[test]
fn compaction_and_permissions_are_nothing() {
    for (name, event) in [
        ("claude", "PreCompact"),
        ("gemini", "PreCompress"),
        ("codex", "PermissionRequest"),
        ("copilot", "permissionRequest"),
        ("cline", "PreCompact"),
        ("pi", "turn_end"),
    ] {
        assert_eq!(heard(name, event, &json!({ "session_id": "s" })), None, "{name} {event}");
    }
}

#[test]
fn copilots_arguments_may_be_text() {
    let call =
        |arguments: Value| json!({ "sessionId": "s", "toolName": "bash", "toolArgs": arguments });
    let shell = ToolWork::run_script("rm x");
    assert_eq!(work("copilot", "preToolUse", &call(json!({ "command": "rm x" }))), shell);
    assert_eq!(work("copilot", "preToolUse", &call(json!("{\"command\": \"rm x\"}"))), shell);
    // Whatever the form, it is the same call.
    let input = |arguments: Value| match heard("copilot", "preToolUse", &call(arguments)) {
        Some(Report { event: ReportedEvent::BeforeTool(call), .. }) => call.input,
        report => panic!("{report:?}"),
    };
    assert_eq!(input(json!({ "command": "rm x" })), input(json!("{\"command\": \"rm x\"}")));
}

#[test]
fn codexs_patches_name_their_files() {
    let patch =
        "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** Delete File: /c\n*** End Patch";
    let payload = json!({ "tool_name": "apply_patch", "tool_input": { "command": patch } });
    let paths = ["a", "b", "/c"].map(PathBuf::from).to_vec();
    assert_eq!(work("codex", "PreToolUse", &payload), ToolWork::Changes { script: None, paths });
}

#[test]
fn clines_commands_are_one_script() {
    let input = json!({ "commands": ["cd src", "rm x"] });
    let payload = json!({ "tool_call": { "name": "run_commands", "input": input } });
    assert_eq!(work("cline", "PreToolUse", &payload), ToolWork::run_script("cd src\nrm x"));
    // The editor's extension, and a list in a text.
    let parameters = json!({ "commands": "[\"cd src\",\"rm x\"]" });
    let payload = json!({ "preToolUse": { "toolName": "run_commands", "parameters": parameters } });
    assert_eq!(work("cline", "PreToolUse", &payload), ToolWork::run_script("cd src\nrm x"));
    let report =
        heard("cline", "UserPromptSubmit", &json!({ "userPromptSubmit": { "prompt": "hi" } }));
    assert_eq!(report.unwrap().event, ReportedEvent::TurnStart { prompt: Some("hi".into()) });
}

#[test]
fn tools_only_read_if_the_table_says_so() {
    let call =
        |tool: &str| json!({ "tool_name": tool, "tool_input": { "command": "ls", "path": "a" } });
    assert_eq!(work("claude", "PreToolUse", &call("Read")), ToolWork::Reads);
    // In other agents it may be something else.
    for tool in ["read", "mcp__files__Read", "Task", ""] {
        assert!(
            matches!(work("claude", "PreToolUse", &call(tool)), ToolWork::Changes { .. }),
            "{tool}"
        );
    }
}

#[test]
fn opencode_going_on_by_itself_is_no_turn() {
    let message =
        |parts: Value| json!({ "input": { "sessionID": "s" }, "output": { "parts": parts } });
    let text = |text: &str, synthetic: bool| json!({ "type": "text", "text": text, "synthetic": synthetic });
    let said = |parts: Value| heard("opencode", "chat.message", &message(parts)).map(|it| it.event);
    assert_eq!(said(json!([text("go on", true)])), None);
    let mixed = said(json!([text("a", false), text("(file)", true), { "type": "file" }]));
    assert_eq!(mixed, Some(ReportedEvent::TurnStart { prompt: Some("a".into()) }));
}

#[test]
fn without_a_directory_or_a_session_there_is_still_something() {
    for name in ["claude", "gemini", "copilot", "cline", "opencode", "pi", "cursor", "goose"] {
        let agent = agent(name).unwrap();
        let (event, _) = agent.events.iter().find(|(event, _)| event.contains("ool")).unwrap();
        let report = heard(name, event, &json!({ "cwd": "" })).unwrap();
        assert_eq!(report.directory, PathBuf::from("/here"), "{name}");
        assert_eq!(report.session, "/here", "{name}");
    }
    let report = heard("generic", "turn_start", &json!({})).unwrap();
    assert_eq!((report.session.as_str(), report.agent.as_str()), ("default", "generic"));
}

#[test]
fn what_says_nothing_is_an_error() {
    let parse =
        |input: &str| parse(agent("claude").unwrap(), None, input.as_bytes(), Path::new("/"));
    let error = parse("{}").unwrap_err().to_string();
    assert_eq!(error, "the event on standard input cannot be read: it does not say which it is");
    assert!(parse("[]").is_err() && parse("").is_err());
    assert!(parse(r#"{"hook_event_name": "FromTheFuture"}"#).unwrap().is_none());
}
