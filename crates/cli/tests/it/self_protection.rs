//! Calls that would delete or change takeback's own history, settings or hooks.

use std::fs;

use serde_json::{Value, json};

use crate::agent::{Agent, configure, eventually, everything, hook};
use crate::install::{run_takeback, write_file};
use crate::session::{Session, said};

/// Creates a project with a history, and hooks for Claude Code.
fn with_history() -> Session {
    let session = Session::new();
    write_file(&session, ".claude/settings.json", "{\"model\": \"opus\"}\n");
    run_takeback(&session, &["install", "claude"], 0);
    session.write("a", "one");
    Agent::new(&session, "s1").turn("write", "a", "two");
    session
}

/// Reports a Claude Code call. Returns the exit code and the reason for a refusal.
fn call(session: &Session, tool: &str, input: &Value) -> (Option<i32>, String) {
    let event = json!({
        "hook_event_name": "PreToolUse", "session_id": "c1", "cwd": session.project(),
        "tool_name": tool, "tool_use_id": "t1", "tool_input": input,
    });
    let output = hook(&session.base(), &["hook", "claude"], event.to_string().as_bytes());
    (output.status.code(), said(&output))
}

fn run(session: &Session, script: &str) -> (Option<i32>, String) {
    let script = script.replace("@", session.base().to_str().unwrap());
    call(session, "Bash", &json!({ "command": script }))
}

#[test]
fn a_call_that_deletes_the_history_is_refused_however_it_is_written() {
    let session = with_history();
    for script in [
        "rm -rf ~/.takeback",
        "rm -rf \"$HOME\"/.takeback/",
        "cd ~ && rm -rf .takeback",
        "rm -rf ~/.[a-z]*",
        "rm -rf ../.take*",
        "D=~/.takeback; rm -r \"$D/checkpoints\"",
        "for d in checkpoints state.db; do rm -rf ~/.takeback/$d; done",
        "bash -c 'rm -rf ~/.takeback'",
        "sudo rm -rf @/.takeback",
        "find ~ -maxdepth 1 -name .takeback -exec rm -rf {} +",
        "ls -d ~/.takeback | xargs rm -rf",
        "mv ~/.takeback /tmp/elsewhere",
        "python3 -c \"import shutil; shutil.rmtree('@/.takeback')\"",
        "node -e \"require('fs').rmSync('@/.takeback', {recursive: true})\"",
        "sqlite3 ~/.takeback/state.db 'delete from messages'",
        "echo 'enabled = false' >> ~/.takeback/config.toml",
        "sed -i s/refuse/off/ ~/.takeback/config.toml",
        "chmod -R 000 ~/.takeback",
        "rm -rf ~",
        "ln -sfn ~/.takeback x && rm -rf x/checkpoints",
    ] {
        let (code, said) = run(&session, script);
        assert_eq!(code, Some(2), "{script}: {said}");
        assert!(said.contains("takeback refused this call, because it would "), "{said}");
        assert!(said.contains(".takeback") || said.contains("history"), "{script}: {said}");
    }
    assert!(session.base().join(".takeback/state.db").exists());
}

#[test]
fn takebacks_own_commands_that_delete_the_history_are_refused() {
    let session = with_history();
    for script in [
        "takeback checkpoints clear --yes",
        "takeback --yes checkpoints clear",
        "/usr/local/bin/takeback checkpoints prune --max-size-mb 0",
        "takeback -C /tmp sessions delete claude:1 -y",
        "takeback fleet gc --earlier-stores",
        "takeback checkpoints delete 3 --force",
        "echo '{\"id\": 1, \"method\": \"sessions.clear\"}' | takeback rpc",
        "takeback checkpoints unpin good",
        "takeback checkpoints name 3",
        "takeback checkpoints name 3 ''",
        "N=; takeback checkpoints name good \"$N\"",
        "takeback --home ~/.takeback sessions clear claude:1",
        "takeback --profile work sessions clear claude:1",
        "echo claude:1 | xargs takeback sessions delete",
        "eval 'takeback checkpoints clear'",
        "sh -c \"takeback checkpoints clear-legacy\"",
    ] {
        let (code, said) = run(&session, script);
        assert_eq!(code, Some(2), "{script}: {said}");
        assert!(said.contains("which deletes takeback's history"), "{said}");
    }
}

#[test]
fn takebacks_own_commands_that_remove_the_hooks_are_refused() {
    let session = with_history();
    for script in ["T=takeback; $T uninstall claude", "sudo -u me env A=1 takeback uninstall"] {
        let (code, said) = run(&session, script);
        assert_eq!(code, Some(2), "{script}: {said}");
        assert!(said.contains("uninstall"), "{said}");
        assert!(said.contains("which removes takeback's hooks"), "{said}");
    }
}

#[test]
fn takebacks_own_commands_that_change_the_settings_are_refused() {
    let session = with_history();
    for script in [
        "takeback config set protection.history off",
        "takeback --profile work config unset checkpoints.strict",
        "EDITOR='sed -i s/refuse/off/' takeback config edit",
    ] {
        let (code, said) = run(&session, script);
        assert_eq!(code, Some(2), "{script}: {said}");
        assert!(said.contains("which changes takeback's settings"), "{said}");
    }
    assert_eq!(run(&session, "takeback config show").0, Some(0));
}

#[test]
fn a_call_that_removes_the_hooks_is_refused() {
    let session = with_history();
    let settings = session.base().join(".claude/settings.json");
    for script in [
        "rm ~/.claude/settings.json",
        "rm -rf ~/.claude",
        "sed -i /takeback/d ~/.claude/settings.json",
        "jq 'del(.hooks)' ~/.claude/settings.json > x && mv x ~/.claude/settings.json",
        "echo '{}' > ~/.claude/settings.json",
    ] {
        let (code, said) = run(&session, script);
        assert_eq!(code, Some(2), "{script}: {said}");
        assert!(said.contains("settings.json, which holds takeback's hooks"), "{said}");
    }
    let hooks = fs::read_to_string(&settings).unwrap();
    let commented = format!("// {}\n{{}}", hooks.replace('\n', " "));
    let edits = [
        ("Write", json!({ "file_path": settings, "content": "{}" })),
        ("Write", json!({ "file_path": settings, "content": commented })),
        (
            "Edit",
            json!({ "file_path": settings, "old_string": "takeback hook", "new_string": "true" }),
        ),
        (
            "Edit",
            json!({
                "file_path": settings,
                "old_string": "{",
                "new_string": "{\"disableAllHooks\": true,",
            }),
        ),
    ];
    for (tool, input) in edits {
        let (code, said) = call(&session, tool, &input);
        assert_eq!(code, Some(2), "{input}: {said}");
    }
}

#[test]
fn other_calls_are_not_refused() {
    let session = with_history();
    let settings = session.base().join(".claude/settings.json");
    fs::create_dir_all(session.base().join("other")).unwrap();
    for script in [
        "takeback list",
        "takeback rollback 1 --yes",
        "takeback checkpoints prune --dry-run",
        "takeback checkpoints clear --help",
        "echo '{\"id\": 1, \"method\": \"sessions.list\"}' | takeback rpc",
        "takeback --home ~/other checkpoints clear --yes",
        "cat ~/.takeback/config.toml",
        "cp -r ~/.takeback /tmp/copy-of-it",
        "rm -rf build a",
        "touch ~/notes.txt",
        "git commit -m 'describe ~/.takeback and takeback uninstall'",
        "echo 'rm -rf ~/.takeback' > notes.md",
    ] {
        let (code, said) = run(&session, script);
        assert_eq!((code, said.as_str()), (Some(0), ""), "{script}");
    }
    let kept = fs::read_to_string(&settings).unwrap().replace("opus", "haiku");
    let edits = [
        ("Write", json!({ "file_path": settings, "content": kept })),
        ("Edit", json!({ "file_path": settings, "old_string": "opus", "new_string": "haiku" })),
        ("Read", json!({ "file_path": settings })),
    ];
    for (tool, input) in edits {
        let (code, said) = call(&session, tool, &input);
        assert_eq!((code, said.as_str()), (Some(0), ""), "{input}");
    }
    // In general, an unknown tool could change files, but the name of this tool suggests that it
    // only lists them.
    let (code, _) = call(&session, "mcp__files__tree", &json!({ "path": session.base() }));
    assert_eq!(code, Some(0));
}

#[test]
fn a_refused_call_is_protected_in_case_the_agent_runs_it_anyway() {
    let session = with_history();
    let (code, _) = run(&session, "rm -rf a ~/.takeback");
    assert_eq!(code, Some(2));
    fs::remove_file(session.project().join("a")).unwrap();
    session.json(&["rollback", "1"]);
    assert_eq!(session.read("a"), "two");
}

#[test]
fn a_refusal_does_not_wait_for_a_capture() {
    let session = with_history();
    configure(&session, "[checkpoints]\ntimeout_ms = 1\n");
    let lock = session.lock_workspace();
    let (code, said) = run(&session, "rm -rf ~/.takeback");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("takeback refused this call"), "{said}");
    drop(lock);
}

#[test]
fn with_history_set_to_warn_each_call_runs_and_the_user_is_told() {
    let session = with_history();
    configure(&session, "[protection]\nhistory = \"warn\"\n");
    for _ in 0..2 {
        let event = json!({
            "hook_event_name": "PreToolUse", "session_id": "c1", "cwd": session.project(),
            "tool_name": "Bash", "tool_input": { "command": "takeback checkpoints clear" },
        });
        let output = hook(&session.base(), &["hook", "claude"], event.to_string().as_bytes());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let text = answer["systemMessage"].as_str().unwrap();
        assert!(text.contains("damage takeback's history") && text.contains("clear"), "{text}");
    }
    configure(&session, "[protection]\nhistory = \"off\"\n");
    assert_eq!(run(&session, "takeback checkpoints clear"), (Some(0), String::new()));
}

#[test]
fn an_agent_over_rpc_and_a_generic_agent_also_learn_of_a_refusal() {
    let session = with_history();
    let agent = Agent::new(&session, "s9");
    let event = json!({
        "event": "before_tool", "tool": "bash", "input": { "command": "rm -rf ~/.takeback" },
    });
    let output = hook(&session.base(), &["hook", "generic", "--json"], &agent.event(event));
    assert_eq!(output.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["refused"], true);
    assert!(
        answer["tampering"][0].as_str().unwrap().ends_with("which is part of takeback's history")
    );
    let request = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tool.before",
        "params": {
            "agent": "mine", "session": "s9", "tool": "bash",
            "input": { "command": "takeback uninstall" },
        },
    });
    let line = format!("{request}\n");
    let output =
        hook(&session.base(), &["-C", session.project().to_str().unwrap(), "rpc"], line.as_bytes());
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["result"]["refused"], true, "{answer}");
}

/// Waits until the mirror has as many checkpoints as the store.
fn wait_for_mirror(session: &Session) {
    let count = |home: &str| {
        let refs = session.base().join(home).join("checkpoints/store/refs/takeback");
        everything(&refs).len()
    };
    eventually("the mirror is up to date", || {
        let mirror = session.base().join("mirror/checkpoints/.updated");
        mirror.exists() && count("mirror") == count(".takeback")
    });
}

#[test]
fn a_mirror_keeps_files_and_conversation_when_the_home_is_deleted() {
    let session = Session::new();
    configure(&session, "[protection]\nmirror = \"~/mirror\"\n");
    session.write("a", "one");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("write two", "a", "two");
    agent.turn("write three", "a", "three");
    wait_for_mirror(&session);
    let before = session.json(&["list"])["checkpoints"].clone();
    // A background process may still be writing to the home, so rename it instead of deleting its
    // files one by one.
    fs::rename(session.base().join(".takeback"), session.base().join("deleted")).unwrap();
    let mirror = session.base().join("mirror");
    let mirror = mirror.to_str().unwrap();
    let after = session.json(&["--home", mirror, "list"])["checkpoints"].clone();
    let of_each = |list: &Value, key: &str| -> Vec<Value> {
        list.as_array().unwrap().iter().map(|row| row[key].clone()).collect()
    };
    for key in ["id", "reason"] {
        assert_eq!(of_each(&after, key), of_each(&before, key));
    }
    let found = session.json(&["--home", mirror, "search", "write"]);
    assert_eq!(found["results"][0]["session"], "mine:s1", "{found}");
    session.json(&["--home", mirror, "rollback", "2"]);
    assert_eq!(session.read("a"), "one");
}

#[test]
fn a_mirror_keeps_cleared_checkpoints_and_is_not_overwritten_by_a_new_store() {
    let session = Session::new();
    configure(&session, "[protection]\nmirror = \"~/mirror\"\n");
    session.write("a", "one");
    run_takeback(&session, &["checkpoint", "--reason", "first"], 0);
    let said = run_takeback(&session, &["checkpoints", "mirror"], 0);
    assert_eq!(said, "Copied 1 checkpoint or step to ~/mirror.\n");
    let said = run_takeback(&session, &["checkpoints", "clear", "--force"], 0);
    assert!(said.contains("the mirror in ~/mirror still has its copies"), "{said}");
    session.write("a", "two");
    run_takeback(&session, &["checkpoint", "--reason", "second"], 0);
    run_takeback(&session, &["checkpoints", "mirror"], 0);
    let mirror = session.base().join("mirror");
    let mirror = mirror.to_str().unwrap();
    let reasons = |home: &str| -> Vec<String> {
        let list = session.json(&["--home", home, "list"]);
        let rows = list["checkpoints"].as_array().unwrap().clone();
        rows.iter().map(|row| row["reason"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(reasons(mirror), ["second", "first"]);
    // A new store must not replace the only copy of the old one.
    let checkpoints = session.base().join(".takeback/checkpoints");
    fs::rename(&checkpoints, session.base().join("deleted")).unwrap();
    run_takeback(&session, &["checkpoint", "--reason", "third"], 0);
    let said = run_takeback(&session, &["checkpoints", "mirror"], 1);
    assert!(said.contains("holds the checkpoints of another store"), "{said}");
    assert_eq!(reasons(mirror), ["second", "first"]);
    let said = run_takeback(&session, &["checkpoints"], 0);
    assert!(said.contains("the mirror is not up to date"), "{said}");
}

#[test]
fn a_mirror_in_an_unsuitable_directory_is_refused() {
    let session = Session::new();
    session.write("a", "one");
    run_takeback(&session, &["checkpoint"], 0);
    let said = run_takeback(&session, &["checkpoints", "mirror"], 1);
    assert!(said.contains("no mirror is configured"), "{said}");
    for (mirror, problem) in [
        ("~/project/mirror", "the mirror must not be in"),
        ("~/.takeback/mirror", "the mirror must not be in"),
        ("mirror", "mirror must be an absolute path"),
    ] {
        configure(&session, &format!("[protection]\nmirror = \"{mirror}\"\n"));
        let said = run_takeback(&session, &["checkpoints", "mirror"], 1);
        assert!(said.contains(problem), "{said}");
        assert!(!session.exists("mirror"));
    }
}
