//! `takeback doctor`: the problems that it reports, and the bundle that it writes.

use std::fs;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::agent::{Agent, configure, hook};
use crate::session::Session;

fn find_agent<'a>(view: &'a Value, agent: &str) -> Option<&'a Value> {
    view["agents"].as_array().unwrap().iter().find(|view| view["agent"] == agent)
}

fn problem_messages(view: &Value) -> Vec<&str> {
    let problems = view["problems"].as_array().unwrap();
    problems.iter().map(|problem| problem["message"].as_str().unwrap()).collect()
}

#[test]
fn an_empty_machine_has_no_problems_and_stays_empty() {
    let session = Session::new();
    let output = session.output(&["doctor"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("No agent was found on this machine.\n"), "{text}");
    assert!(text.contains("No problems found.\n"), "{text}");
    assert!(!session.base().join(".takeback").exists());
}

#[test]
fn an_installed_agent_is_checked() {
    let session = Session::new();
    fs::create_dir(session.base().join(".claude")).unwrap();
    let view = session.json(&["doctor"]);
    assert_eq!(find_agent(&view, "claude").unwrap()["user"], "absent");
    assert_eq!(problem_messages(&view), ["Claude Code: hooks not installed"]);
    assert_eq!(view["problems"][0]["hint"], "`takeback install claude` installs them");
    assert_eq!(session.output(&["doctor"]).status.code(), Some(1));
    assert_eq!(session.json(&["status"])["problems"], 1);
    assert!(find_agent(&view, "codex").is_none());
    session.output(&["install", "claude"]);
    let view = session.json(&["doctor"]);
    let claude = find_agent(&view, "claude").unwrap();
    assert_eq!((&claude["user"], &claude["last_fired"]), (&json!("installed"), &Value::Null));
    let event =
        json!({ "session_id": "s", "hook_event_name": "SessionStart", "cwd": session.project() });
    hook(&session.base(), &["hook", "claude"], event.to_string().as_bytes());
    let view = session.json(&["doctor", "claude"]);
    assert!(find_agent(&view, "claude").unwrap()["last_fired"].as_str().unwrap().starts_with("20"));
    assert!(problem_messages(&view).is_empty(), "{view}");
    // The user removes a hook by hand.
    let path = session.base().join(".claude/settings.json");
    let mut settings: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    settings["hooks"].as_object_mut().unwrap().remove("PreToolUse");
    fs::write(&path, settings.to_string()).unwrap();
    let output = session.output(&["doctor"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("the hooks in Claude Code are from another version"), "{text}");
    fs::write(&path, "{").unwrap();
    let view = session.json(&["doctor"]);
    assert_eq!(find_agent(&view, "claude").unwrap()["user"], "unreadable");
}

#[test]
fn unreviewed_codex_hooks_are_reported() {
    let session = Session::new();
    session.output(&["install", "codex"]);
    let view = session.json(&["doctor"]);
    assert_eq!(find_agent(&view, "codex").unwrap()["reviewed"], json!([0, 8]));
    assert!(problem_messages(&view)[0].contains("Codex skips 8 of 8 hooks"), "{view}");
    // Codex writes this when the user trusts a hook.
    let path = session.base().join(".codex/hooks.json");
    let program = env!("CARGO_BIN_EXE_takeback");
    let command = format!("[ -x {program} ] || exit 0; exec {program} hook codex");
    let hook = json!({
        "event_name": "stop",
        "hooks": [{ "async": false, "command": command, "timeout": 120, "type": "command" }],
    });
    let hash: String =
        Sha256::digest(hook.to_string()).iter().map(|byte| format!("{byte:02x}")).collect();
    let state = format!(
        "[hooks.state.\"{}:stop:0:0\"]\ntrusted_hash = \"sha256:{hash}\"\n",
        path.display()
    );
    fs::write(session.base().join(".codex/config.toml"), state).unwrap();
    let view = session.json(&["doctor"]);
    assert_eq!(find_agent(&view, "codex").unwrap()["reviewed"], json!([1, 8]));
}

#[test]
fn hooks_that_are_disabled_or_run_twice_are_reported() {
    let session = Session::new();
    session.output(&["install", "claude"]);
    session.output(&["install", "claude", "--project"]);
    let view = session.json(&["doctor"]);
    assert_eq!(problem_messages(&view), ["the hooks in Claude Code run twice in this project"]);
    session.output(&["uninstall", "claude", "--project"]);
    assert!(problem_messages(&session.json(&["doctor"])).is_empty());
    let path = session.base().join(".claude/settings.json");
    let mut settings: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    settings["disableAllHooks"] = json!(true);
    fs::write(&path, settings.to_string()).unwrap();
    let view = session.json(&["doctor"]);
    assert_eq!(
        problem_messages(&view),
        ["Claude Code runs no hooks: disableAllHooks disables them"]
    );
}

#[test]
fn problems_in_the_store_and_the_ledger_and_the_configuration_are_reported() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "2");
    let view = session.json(&["doctor"]);
    assert!(problem_messages(&view).is_empty(), "{view}");
    assert_eq!(view["store"]["checkpoints"], 1);
    assert_eq!(view["ledger"]["sessions"], 1);
    assert!(view["hook"]["hook_ms"].as_f64().unwrap() > 0.0);
    configure(&session, "[checkpoints]\nenabled = false\n");
    assert_eq!(problem_messages(&session.json(&["doctor"])), ["checkpoints are switched off"]);
    configure(&session, "[checkpoints]\nwrong = 1\n");
    assert!(problem_messages(&session.json(&["doctor"]))[0].contains("config.toml, line 2"));
    fs::remove_file(session.base().join(".takeback/config.toml")).unwrap();
    fs::write(session.base().join(".takeback/state.db"), "no database").unwrap();
    // The write-ahead log may still hold the whole database, so remove the log as well.
    let _ = fs::remove_file(session.base().join(".takeback/state.db-wal"));
    assert_eq!(problem_messages(&session.json(&["doctor"])).len(), 1);
}

#[test]
fn only_event_files_count_as_spooled() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "1");
    let spool = session.base().join(".takeback/spool");
    fs::create_dir_all(&spool).unwrap();
    fs::write(spool.join("lock"), "").unwrap();
    assert_eq!(session.json(&["doctor"])["ledger"]["spool"], 0);
}

#[test]
fn a_bundle_with_json_prints_json() {
    let session = Session::new();
    let printed = session.json(&["doctor", "--bundle", "report.json"]);
    assert_eq!(printed, json!({ "file": session.project().join("report.json") }));
}

#[test]
fn a_bundle_that_reports_problems_is_still_a_success() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_files = \"many\"\n");
    assert_eq!(session.output(&["doctor"]).status.code(), Some(1));
    assert_eq!(session.output(&["doctor", "--bundle", "report.json"]).status.code(), Some(0));
    let report: Value = serde_json::from_str(&session.read("report.json")).unwrap();
    assert_eq!(report["takeback"]["problems"].as_array().unwrap().len(), 1, "{report:#}");
    // An existing report is not overwritten.
    assert_eq!(session.output(&["doctor", "--bundle", "report.json"]).status.code(), Some(1));
}

#[test]
fn a_bundle_masks_names_and_paths_and_secrets() {
    let session = Session::new();
    session.write("a", "1");
    let secret = "ghp_Q7hf72Kd02mVn41bXc9sLw83TzRp65AyEu1G";
    let excluded = format!("exclude = [\"{secret}\", \"/acquisition-of-rivals/**\"]");
    let provider = "[providers.work]\nbase_url = 'https://models.rivals.example/v1'\n";
    configure(
        &session,
        &format!("[checkpoints]\n# For the merger.\n{excluded}\nmax_files = 9000\n{provider}"),
    );
    session.output(&["install", "claude"]);
    // There is a malformed configuration file, and a workspace that never had a checkpoint.
    fs::create_dir(session.base().join(".codex")).unwrap();
    let broken = "password = hunter2-correct-horse\n";
    fs::write(session.base().join(".codex/config.toml"), broken).unwrap();
    fs::create_dir(session.base().join("secret-client")).unwrap();
    fs::write(session.base().join("secret-client/.git"), "").unwrap();
    let mut odd = Agent::new(&session, "s2");
    odd.cwd = session.base().join("secret-client");
    odd.report(json!({ "event": "before_tool", "tool": "Write", "input": 7, "call": [] }));
    let mut agent = Agent::new(&session, "s1");
    agent.turn("a prompt that is private", "a", "2");
    let output = session.output(&["doctor", "--bundle", "report.json"]);
    assert!(output.status.success(), "{output:?}");
    let report = session.read("report.json");
    let parsed: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(parsed["takeback"]["store"]["workspaces"], 2);
    assert!(parsed["git"].is_string() || parsed["git"].is_null());
    let base = session.base();
    for private in [
        base.to_str().unwrap(),
        secret,
        "a prompt that is private",
        "hunter2",
        "secret-client",
        "rivals",
    ] {
        assert!(!report.contains(private), "{private}: {report}");
    }
    assert!(!report.contains("acquisition") && !report.contains("merger"), "{report}");
    assert_eq!(parsed["config"]["checkpoints"]["max_files"], 9000);
    assert_eq!(parsed["config"]["checkpoints"]["exclude"], json!(["<pattern 1>", "<pattern 2>"]));
    // An existing file is not overwritten.
    let again = session.output(&["doctor", "--bundle", "report.json"]);
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(session.read("report.json"), report);
}

#[test]
fn a_damaged_store_and_a_damaged_ledger_are_reported() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "2");
    let verified = session.json(&["checkpoints", "verify"]);
    let counted = session.json(&["doctor"])["store"]["checkpoints"].clone();
    assert_eq!((&verified["rows"], &verified["whole"]), (&counted, &json!(true)));
    let connection = crate::agent::ledger(&session);
    connection.execute("UPDATE sessions SET message_count = 77", []).unwrap();
    let packs = session.base().join(".takeback/checkpoints/store/objects/pack");
    for entry in fs::read_dir(packs).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "pack") {
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0xff;
            let mut permissions = fs::metadata(&path).unwrap().permissions();
            std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
            fs::set_permissions(&path, permissions).unwrap();
            fs::write(&path, bytes).unwrap();
        }
    }
    let view = session.json(&["doctor"]);
    let messages = problem_messages(&view).join("\n");
    assert!(messages.contains("checkpoints and steps are damaged"), "{messages}");
    assert!(messages.contains("the ledger has 1 problem"), "{messages}");
    assert_eq!(session.output(&["doctor"]).status.code(), Some(1));
}

#[test]
fn following_the_hint_from_doctor_clears_a_failure() {
    let session = Session::new();
    let agent = Agent::new(&session, "s1");
    let fail = || {
        configure(&session, "[checkpoints]\nmax_files = 1\n");
        agent.report(json!({ "event": "turn_start", "prompt": "x" }));
        agent.report(json!({ "event": "before_tool", "tool": "Bash", "call": "c",
                             "input": { "command": "make" } }));
        configure(&session, "");
        let view = session.json(&["doctor"]);
        let hint = view["problems"][0]["hint"].as_str().unwrap().to_owned();
        assert!(hint.contains("`takeback checkpoint` there"), "{view}");
        assert!(hint.contains("`takeback doctor --clear`"), "{view}");
    };
    for name in ["a", "b", "c"] {
        session.write(name, "1");
    }
    fail();
    assert!(session.output(&["checkpoint"]).status.success());
    assert!(problem_messages(&session.json(&["doctor"])).is_empty());
    session.write("a", "2");
    fail();
    assert_eq!(session.output(&["doctor", "--clear"]).status.code(), Some(0));
    assert!(problem_messages(&session.json(&["doctor"])).is_empty());
}

#[test]
fn the_list_warns_about_a_damaged_ledger() {
    let session = Session::new();
    session.write("a", "1");
    Agent::new(&session, "s1").turn("one", "a", "2");
    fs::write(session.base().join(".takeback/state.db"), "no database").unwrap();
    let _ = fs::remove_file(session.base().join(".takeback/state.db-wal"));
    let output = session.output(&["list"]);
    assert!(output.status.success());
    let said = crate::session::said(&output);
    assert!(said.contains("prompts and effects are missing"), "{said}");
    assert!(session.json(&["list"])["ledger_error"].is_string());
}
