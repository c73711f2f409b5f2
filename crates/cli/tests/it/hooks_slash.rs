//! `/rollback` and `/undo` inside an agent, in a prompt that the user may not have written.

use std::fs;
use std::process::Output;

use serde_json::{Value, json};

use crate::agent::{Agent, hook_with};
use crate::session::Session;

/// Creates a project with a checkpoint, and a directory outside the project. A store that came with
/// the project holds a checkpoint of that directory.
fn hostile_project() -> Session {
    let session = Session::new();
    session.write("a", "0");
    Agent::new(&session, "s1").turn("make it 1", "a", "1");
    let keys = session.base().join("keys");
    fs::create_dir(&keys).unwrap();
    fs::write(keys.join("authorized_keys"), "of the attacker").unwrap();
    let foreign = ["--home", ".cache-data", "-C", "../keys"];
    let output = session.output(&[&foreign[..], &["checkpoint"]].concat());
    assert!(output.status.success(), "{output:?}");
    fs::write(keys.join("authorized_keys"), "mine").unwrap();
    session
}

fn authorized_keys(session: &Session) -> String {
    fs::read_to_string(session.base().join("keys/authorized_keys")).unwrap()
}

/// Sends a prompt to an agent's hook.
fn send_prompt(
    session: &Session,
    agent: &str,
    mut event: Value,
    environment: &[(&str, &str)],
) -> Output {
    event["session_id"] = json!("s");
    event["cwd"] = json!(session.project());
    let event = event.to_string();
    hook_with(&session.base(), &["hook", agent], event.as_bytes(), environment)
}

/// Returns the hook's answer, which the model does not see.
fn answer(output: &Output) -> String {
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["decision"], "block");
    answer["reason"].as_str().unwrap().to_owned()
}

const HOSTILE: &str = "--home .cache-data -C ../keys 1";

#[test]
fn a_prompt_cannot_choose_another_store_or_directory() {
    let session = hostile_project();
    for event in [
        json!({ "hook_event_name": "UserPromptSubmit", "prompt": format!("/rollback {HOSTILE}") }),
        json!({ "hook_event_name": "UserPromptExpansion", "command_name": "rollback",
            "command_args": HOSTILE, "prompt": format!("/rollback {HOSTILE}") }),
    ] {
        let text = answer(&send_prompt(&session, "claude", event, &[]));
        assert_eq!(
            text,
            "/rollback does not accept `--home` inside an agent. Nothing was changed. Run \
             `takeback rollback` in a terminal to use all of its options."
        );
        assert_eq!(authorized_keys(&session), "mine");
    }
    // Without the slash, the prompt is treated like any other prompt.
    let prompt = format!("takeback rollback {HOSTILE}");
    let event = json!({ "hook_event_name": "UserPromptSubmit", "prompt": prompt });
    assert_eq!(send_prompt(&session, "claude", event, &[]).stdout, b"");
    assert_eq!(authorized_keys(&session), "mine");
}

#[test]
fn a_command_file_cannot_choose_another_store_or_directory() {
    let session = hostile_project();
    let words: Vec<&str> = HOSTILE.split(' ').collect();
    for words in [&words[..], &[HOSTILE]] {
        let output = session.output(&[&["slash", "rollback"], words].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("/rollback does not accept `--home` inside an agent"), "{text}");
        assert_eq!(authorized_keys(&session), "mine");
    }
}

#[test]
fn a_prompt_cannot_name_paths_outside_the_workspace() {
    let session = hostile_project();
    let outside = session.base().join("keys/authorized_keys");
    for path in ["../keys/authorized_keys", outside.to_str().unwrap()] {
        for verb in ["", "diff "] {
            let prompt = format!("/rollback {verb}1 {path}");
            let event = json!({ "hook_event_name": "UserPromptSubmit", "prompt": prompt });
            let text = answer(&send_prompt(&session, "claude", event, &[]));
            assert!(text.contains("is outside"), "{prompt}: {text}");
        }
    }
    assert_eq!(authorized_keys(&session), "mine");
}

#[test]
fn without_a_user_a_prompt_can_only_list_checkpoints() {
    let session = hostile_project();
    let log = session.base().join("rollout.jsonl");
    let first = json!({ "type": "session_meta", "payload": { "originator": "codex_exec" } });
    fs::write(&log, format!("{first}\n")).unwrap();
    let script = [("CLAUDE_CODE_ENTRYPOINT", "sdk-cli")];
    for (agent, environment) in [("claude", &script[..]), ("codex", &[])] {
        let send = |prompt: &str| {
            let event = json!({ "hook_event_name": "UserPromptSubmit", "prompt": prompt,
                "transcript_path": log });
            answer(&send_prompt(&session, agent, event, environment))
        };
        for prompt in ["/rollback 1", "/rollback 1 a", "/undo", "takeback rollback 1"] {
            let text = send(prompt);
            let why = "Nothing was changed: the agent runs without a user.";
            assert!(text.starts_with(why) && text.contains("make it 1"), "{prompt}: {text}");
            assert_eq!(session.read("a"), "1");
        }
        assert!(send("/rollback diff 1").contains("-0"));
    }
    let output = session.output(&["slash", "--list-only", "rollback", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("Nothing was changed") && session.read("a") == "1", "{text}");
}

#[test]
fn a_user_at_an_agents_terminal_can_roll_back() {
    let session = hostile_project();
    let log = session.base().join("rollout.jsonl");
    let first = json!({ "type": "session_meta", "payload": { "originator": "codex_tui" } });
    fs::write(&log, format!("{first}\n")).unwrap();
    let send = |agent: &str, prompt: &str| {
        let event = json!({ "hook_event_name": "UserPromptSubmit", "prompt": prompt,
            "transcript_path": log });
        let terminal = [("CLAUDE_CODE_ENTRYPOINT", "cli")];
        answer(&send_prompt(&session, agent, event, &terminal))
    };
    send("claude", "/rollback 1");
    assert_eq!(session.read("a"), "0");
    send("codex", "/rollback undo");
    assert_eq!(session.read("a"), "1");
}
