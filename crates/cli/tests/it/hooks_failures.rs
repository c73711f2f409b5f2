//! A hook's failures are never fatal and never silent. Secrets and control characters never leak
//! into a hook's output.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::agent::{
    Agent, configure, eventually, everything, hook, hook_with, ledger, noise, rows,
};
use crate::session::{Session, tell_skipped};

fn to_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_failed_checkpoint_is_counted_and_shown() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_files = 2\n");
    for name in ["a", "b", "c"] {
        session.write(name, "1");
    }
    let mut agent = Agent::new(&session, "s1");
    for command in ["make", "make test", "make install"] {
        let call = agent.call("Bash", json!({ "command": command }));
        let said = agent.report(call.event("before_tool"));
        assert!(said.contains("files"), "{said}");
    }
    let said = to_text(&session.output(&["rollback"]).stderr);
    let expected = "the workspace has more than 2 files to capture\n";
    assert!(said.starts_with("warning: 3 checkpoints failed since "), "{said}");
    assert!(said.ends_with(expected), "{said}");
    let said = to_text(&session.output(&["checkpoints"]).stdout);
    assert!(said.contains("\n  ~/project: 3 checkpoints failed since "), "{said}");
    assert!(said.ends_with(expected), "{said}");
    let failures = session.json(&["checkpoints"])["failures"].clone();
    assert_eq!((&failures[0]["count"], failures.as_array().unwrap().len()), (&json!(3), 1));
}

#[test]
fn an_unusable_home_is_reported_and_does_no_harm() {
    let session = Session::new();
    session.write("a", "1");
    fs::write(session.base().join(".takeback"), "in the way").unwrap();
    let mut agent = Agent::new(&session, "s1");
    for event in ["session_start", "turn_start", "turn_end", "session_end"] {
        agent.report(json!({ "event": event, "prompt": "x" }));
    }
    let call = agent.call("Write", json!({ "path": "a" }));
    let said = agent.report(call.event("before_tool"));
    assert!(said.contains("takeback: "), "{said}");
    assert!(agent.report(call.event("after_tool")).contains("takeback: "));
    let event = agent.event(call.event("before_tool"));
    let output = hook(&session.base(), &["hook", "generic", "--strict"], &event);
    assert_eq!((output.status.code(), to_text(&output.stdout)), (Some(1), String::new()));
}

#[test]
fn a_store_that_cannot_be_written_to_is_reported_later() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "2");
    let pack = session.base().join(".takeback/checkpoints/store/objects/pack");
    let aside = session.base().join("aside");
    fs::rename(&pack, &aside).unwrap();
    fs::write(&pack, "in the way").unwrap();
    let call = agent.call("Write", json!({ "path": "a" }));
    session.write("a", "3");
    agent.report(json!({ "event": "turn_start", "prompt": "two" }));
    let said = agent.report(call.event("before_tool"));
    assert!(!said.is_empty(), "the hook reports the failure immediately");
    fs::remove_file(&pack).unwrap();
    fs::rename(&aside, &pack).unwrap();
    let output = session.output(&["rollback"]);
    assert!(to_text(&output.stderr).contains("1 checkpoint failed since"), "{output:?}");
    assert_eq!(rows(&session).len(), 1);
    agent.writes("a", "4");
    assert_eq!(rows(&session).len(), 2);
}

/// A small file system, which only a privileged user can mount.
pub(crate) struct SmallFileSystem(std::path::PathBuf);

impl SmallFileSystem {
    fn mount_at(path: &Path) -> Option<SmallFileSystem> {
        SmallFileSystem::mount_with(path, "1m")
    }

    /// Mounts a file system of this size.
    pub(crate) fn mount_with(path: &Path, size: &str) -> Option<SmallFileSystem> {
        fs::create_dir_all(path).unwrap();
        let mut mount = Command::new("mount");
        let options = format!("size={size},mode=700");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(path);
        if !mount.output().is_ok_and(|output| output.status.success()) {
            tell_skipped("cannot mount: that needs root");
            return None;
        }
        Some(SmallFileSystem(path.to_owned()))
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_failure_because_of_a_full_disk_is_recorded_and_shown() {
    let session = Session::new();
    let Some(_small) = SmallFileSystem::mount_at(&session.base().join(".takeback")) else { return };
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "2");
    fs::write(session.project().join("noise"), noise(1, 3 << 20)).unwrap();
    agent.report(json!({ "event": "turn_start", "prompt": "two" }));
    let call = agent.call("Write", json!({ "path": "a" }));
    for _ in 0..2 {
        let said = agent.report(call.event("before_tool"));
        assert!(said.contains("No space left"), "{said}");
    }
    let output = session.output(&["rollback"]);
    let seen = to_text(&output.stderr);
    assert!(
        seen.contains("2 checkpoints failed since") && seen.contains("No space left"),
        "{seen}"
    );
    assert!(to_text(&session.output(&["checkpoints"]).stdout).contains("No space left"));
    // Earlier checkpoints are intact.
    fs::remove_file(session.project().join("noise")).unwrap();
    assert_eq!(session.json(&["checkpoints", "verify"])["whole"], true);
    session.output(&["rollback", "1"]);
    assert_eq!(session.read("a"), "1");
}

#[test]
fn a_rollback_names_a_repository_that_was_not_saved_because_the_disk_was_full() {
    let session = Session::new();
    let Some(_small) = SmallFileSystem::mount_at(&session.base().join(".takeback")) else { return };
    session.write("vendor/lib/a", "1");
    let git = session.project().join("vendor/lib/.git");
    fs::create_dir_all(git.join("objects")).unwrap();
    fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(git.join("objects/pack"), noise(1, 3 << 20)).unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.hears("tidy up");
    let call = agent.call("Bash", json!({ "command": "rm -rf vendor" }));
    let said = agent.report(call.event("before_tool"));
    assert!(said.contains("No space left"), "{said}");
    fs::remove_dir_all(session.project().join("vendor")).unwrap();
    agent.report(call.event("after_tool"));
    for arguments in [&["rollback", "1", "--dry-run"][..], &["rollback", "1"]] {
        let seen = to_text(&session.output(arguments).stderr);
        let warning = format!("the repository's data {} is missing", git.display());
        assert!(seen.contains(&warning), "{seen}");
    }
    assert_eq!(session.read("vendor/lib/a"), "1");
}

#[test]
fn with_a_broken_configuration_the_defaults_apply_and_the_error_is_shown_later() {
    for text_of_config in ["[checkpoints]\nenabled = 'no'\n", "[checkpoints]\nunknown = 1\n", "{"] {
        let session = Session::new();
        configure(&session, text_of_config);
        session.write("a", "1");
        let mut agent = Agent::new(&session, "s1");
        let call = agent.call("Write", json!({ "path": "a" }));
        let said = agent.report(call.event("before_tool"));
        let line = text_of_config.lines().count();
        assert!(said.contains(&format!("config.toml, line {line}: ")), "{said}");
        let output = session.output(&["rollback"]);
        assert!(to_text(&output.stderr).contains(&format!("config.toml, line {line}: ")));
        fs::remove_file(session.base().join(".takeback/config.toml")).unwrap();
        let output = session.output(&["rollback"]);
        assert!(to_text(&output.stderr).contains("config.toml, line"), "shown later: {output:?}");
        assert_eq!(rows(&session).len(), 1);
    }
}

#[test]
fn a_broken_configuration_is_shown_in_the_workspace_that_the_agent_worked_in() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nunknown = 1\n");
    fs::create_dir_all(session.base().join("other/sub")).unwrap();
    fs::write(session.base().join("other/Makefile"), "").unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.cwd = session.base().join("other/sub");
    let call = agent.call("Write", json!({ "path": "a" }));
    agent.report(call.event("before_tool"));
    agent.report(call.event("after_tool"));
    fs::remove_file(session.base().join(".takeback/config.toml")).unwrap();
    let output = session.output(&["-C", "../other", "rollback"]);
    assert!(to_text(&output.stderr).contains("config.toml, line 2"), "{output:?}");
}

#[test]
fn a_switched_off_hook_touches_no_file() {
    for variable in [None, Some("0"), Some("false"), Some("off"), Some("no"), Some("FALSE")] {
        let session = Session::new();
        session.write("a", "1");
        let environment: Vec<_> =
            variable.iter().map(|value| ("TAKEBACK_CHECKPOINTS", *value)).collect();
        let environment = &environment[..];
        if variable.is_none() {
            configure(&session, "[checkpoints]\nenabled = false\n");
        }
        let before = everything(&session.base());
        let mut agent = Agent::new(&session, "s1");
        let call = agent.call("Write", json!({ "path": "a" }));
        let mut events = vec![call.event("before_tool"), call.event("after_tool")];
        for event in ["session_start", "turn_start", "turn_end", "session_end", "nonsense"] {
            events.push(json!({ "event": event, "prompt": "x" }));
        }
        for event in events {
            let event = agent.event(event);
            let output =
                hook_with(&session.base(), &["hook", "generic", "--strict"], &event, environment);
            assert_eq!((output.status.code(), to_text(&output.stdout)), (Some(0), String::new()));
            assert_eq!(to_text(&output.stderr), "");
        }
        let run = ["run", "--", "/bin/sh", "-c", "exit 3"];
        assert_eq!(hook_with(&session.base(), &run, b"", environment).status.code(), Some(3));
        let refused = hook_with(&session.base(), &["checkpoint"], b"", environment);
        assert!(to_text(&refused.stderr).contains("checkpoints are switched off"));
        assert_eq!(everything(&session.base()), before);
    }
}

#[test]
fn a_list_creates_nothing_while_checkpoints_are_switched_off() {
    let session = Session::new();
    for command in ["rollback", "checkpoints", "config"] {
        hook_with(&session.base(), &[command], b"", &[("TAKEBACK_CHECKPOINTS", "0")]);
        assert!(!session.base().join(".takeback").exists(), "{command}");
    }
}

#[test]
fn malformed_events_are_harmless_except_in_strict_mode() {
    let session = Session::new();
    let long = "x".repeat(1 << 20);
    for (input, is_wrong) in [
        ("", true),
        ("{", true),
        ("[]", true),
        ("{\"event\": 7}", true),
        ("{\"event\": \"before_tool\", \"session\": {}}", false),
        ("{\"event\": \"something_new\"}", true),
        (&*format!("{{\"event\": \"turn_start\", \"prompt\": \"{long}\"}}"), false),
        ("{\"event\": \"before_tool\", \"input\": [1], \"call\": 7, \"turn\": 3}", false),
        ("{\"event\": \"after_tool\", \"outcome\": {\"a\": 1}}", false),
        ("{\"event\": \"before_tool\", \"cwd\": \"/nonexistent/place\"}", true),
        ("{\"event\": \"before_tool\", \"cwd\": \"/\"}", true),
    ] {
        let start = &input[..input.len().min(60)];
        let output = hook(&session.base(), &["hook", "generic"], input.as_bytes());
        assert_eq!(output.status.code(), Some(0), "{start}");
        assert!(output.stdout.is_empty(), "{start}");
        assert_eq!(!output.stderr.is_empty(), is_wrong, "{start}: {}", to_text(&output.stderr));
        let output = hook(&session.base(), &["hook", "generic", "--strict"], input.as_bytes());
        assert_eq!(output.status.code(), Some(i32::from(is_wrong)), "{start}");
        assert!(output.stdout.is_empty(), "{start}");
    }
}

#[test]
fn a_hook_does_not_wait_forever_for_the_rest_of_an_event() {
    let session = Session::new();
    let mut command = session.command(&["hook", "claude", "PreToolUse"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut hook = command.spawn().unwrap();
    let mut input = hook.stdin.take().unwrap();
    input.write_all(b"{\"hook_event_name\": \"PreToolUse\", ").unwrap();
    let output = hook.wait_with_output().unwrap();
    drop(input);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        to_text(&output.stderr),
        "takeback: cannot read the event: the rest of it did not arrive within 3000 ms\n"
    );
}

/// A hook may run without HOME, or in a directory that the agent has removed.
#[test]
fn a_hook_succeeds_wherever_it_is_started() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "s1");
    let call = agent.call("Bash", json!({ "command": "make" }));
    fs::write(session.base().join("event"), agent.event(call.event("before_tool"))).unwrap();
    let program = env!("CARGO_BIN_EXE_takeback");
    for script in [
        format!("unset HOME; exec {program} hook generic < event"),
        format!("mkdir gone; cd gone; rmdir ../gone; exec {program} hook generic < $HOME/event"),
        format!("exec {program} hook generic < event >&-"),
        format!("exec {program} hook generic < event 2>/dev/full"),
        format!("exec {program} hook generic <&-"),
    ] {
        let output = Command::new("/bin/sh")
            .args(["-c", &script])
            .current_dir(session.base())
            .env_clear()
            .env("PATH", "/bin:/usr/bin")
            .env("HOME", session.base())
            .output()
            .unwrap();
        assert_eq!(
            (output.status.code(), to_text(&output.stdout)),
            (Some(0), String::new()),
            "{script}"
        );
    }
}

/// Exit code 2 would make agents such as Claude Code refuse the tool call.
#[test]
fn a_hook_command_from_another_version_blocks_no_tool() {
    let session = Session::new();
    for arguments in [&["hook", "an-agent-to-come"][..], &["hook", "generic", "--to-come"]] {
        let output = hook(&session.base(), arguments, b"{}");
        assert_eq!((output.status.code(), to_text(&output.stdout)), (Some(0), String::new()));
        assert!(!output.stderr.is_empty());
    }
}

/// Creates a project whose capture takes longer than a millisecond.
fn large_project() -> Session {
    let session = Session::new();
    configure(&session, "[checkpoints]\ntimeout_ms = 1\n");
    for number in 0..3000 {
        session.write(&format!("d{}/f{number}", number % 50), &format!("{number}\n"));
    }
    session
}

#[test]
fn a_hook_stops_waiting_after_its_time_limit_and_the_checkpoint_is_late() {
    let session = large_project();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    let call = agent.call("Write", json!({ "path": "a" }));
    let said = agent.report(call.event("before_tool"));
    assert!(said.contains("not done within 1 ms"), "{said}");
    eventually("a checkpoint", || rows(&session).len() == 1);
    let row = &rows(&session)[0];
    assert_eq!((&row["late"], &row["steps"][0]["late"]), (&json!(true), &json!(true)));
    let listed = to_text(&session.output(&["rollback"]).stdout);
    assert!(listed.lines().any(|line| line.ends_with("before Write a  late")), "{listed}");
    session.write("a", "2");
    configure(&session, "");
    agent.finishes(&call);
    let undone = session.json(&["undo"]);
    assert_eq!((&undone["uncertain"], &undone["restored"]), (&json!(["a"]), &json!([])));
    assert_eq!(session.read("a"), "2");
}

#[test]
fn in_strict_mode_a_late_checkpoint_is_a_failure() {
    let session = large_project();
    let mut agent = Agent::new(&session, "s1");
    let call = agent.call("Write", json!({ "path": "a" }));
    let event = agent.event(call.event("before_tool"));
    let output = hook(&session.base(), &["hook", "generic", "--strict"], &event);
    assert_eq!((output.status.code(), to_text(&output.stdout)), (Some(1), String::new()));
    eventually("a checkpoint", || rows(&session).len() == 1);
}

/// `timeout_ms` limits only the captures around calls. It does not apply to a prompt, so no second
/// process records the prompt again.
#[test]
fn prompts_are_recorded_once_even_if_the_time_limit_is_zero() {
    let session = Session::new();
    configure(&session, "[checkpoints]\ntimeout_ms = 0\n");
    let agent = Agent::new(&session, "s1");
    for number in 0..80 {
        agent.report(json!({ "event": "turn_start", "prompt": format!("prompt {number}") }));
    }
    configure(&session, "");
    let count = |sql: &str| -> i64 {
        let rows = ledger(&session).query_row(sql, [], |row| row.get(0));
        rows.unwrap_or(0)
    };
    eventually("all prompts", || {
        agent.tell(json!({ "event": "after_tool", "tool": "Read" }));
        count("SELECT count(DISTINCT content) FROM messages") == 80
    });
    assert_eq!(count("SELECT count(*) FROM messages"), 80);
}

/// A hook that runs out of time may still finish its work while another process repeats it.
#[test]
fn a_late_process_that_repeats_finished_work_adds_nothing() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("drop it");
    let call = agent.call("Bash", json!({ "command": "psql shop -c 'drop table x' > a" }));
    let event = agent.event(call.event("before_tool"));
    for late in [&[][..], &["--late", r#"{"id": 1, "number": 1}"#]] {
        let arguments = [&["hook", "generic"], late].concat();
        assert_eq!(hook(&session.base(), &arguments, &event).status.code(), Some(0));
    }
    let count = |table: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        ledger(&session).query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(["messages", "turns", "calls", "effects"].map(count), [1, 1, 1, 1]);
    assert_eq!(session.json(&["list", "--steps"])["checkpoints"][0]["steps"][1], json!(null));
    assert_eq!(rows(&session).len(), 1);
}

/// An invalid setting must not switch off another setting that protects the user.
#[test]
fn strict_mode_survives_every_error_in_the_configuration() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "s1");
    let call = agent.call("Write", json!({ "path": "/nonexistent/place/a" }));
    let is_refused = |config: &str| {
        configure(&session, config);
        let mut event = call.event("before_tool");
        event["cwd"] = json!("/nonexistent/place");
        hook(&session.base(), &["hook", "generic"], &agent.event(event)).status.code() == Some(1)
    };
    for valid in [
        "[checkpoints]\nstrict\t=\ttrue\n",
        "checkpoints.strict = true\n",
        "checkpoints = { max_files = 9, strict = true }\n",
        "[checkpoints]\n\"strict\"=true # so that nothing is lost\n",
    ] {
        assert!(is_refused(valid), "{valid}");
        for error in ["what\n", "what = [\n", "[ledger\n", "\"\"\"\n"] {
            assert!(is_refused(&format!("{error}{valid}")), "{error}{valid}");
            assert!(is_refused(&format!("{valid}{error}")), "{valid}{error}");
        }
    }
    for lax in [
        "[checkpoints]\nstrict = false\nwhat\n",
        "[checkpoints]\n# strict = true\nwhat\n",
        "[checkpoints]\nunstrict = true\nwhat\n",
        "what\n",
    ] {
        assert!(!is_refused(lax), "{lax}");
    }
}

#[test]
fn secrets_are_masked_even_if_the_configuration_is_malformed() {
    let session = Session::new();
    let secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    for (number, config) in [
        "[ledger]\nredact = true\n[checkpoints]\nmax_files = \"many\"\n",
        "[checkpoints]\nexclude = [\n[ledger]\nredact = true\n",
        "ledger.redact = yes\n",
    ]
    .iter()
    .enumerate()
    {
        configure(&session, config);
        let agent = Agent::new(&session, &format!("s{number}"));
        agent.report(json!({ "event": "turn_start", "prompt": format!("use {secret}") }));
    }
    let connection = ledger(&session);
    let mut statement = connection.prepare("SELECT content FROM messages").unwrap();
    let prompts = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let prompts: Vec<String> = prompts.map(Result::unwrap).collect();
    assert_eq!(prompts.len(), 3);
    assert!(!prompts.concat().contains(secret), "{prompts:?}");
}

#[test]
fn secrets_are_masked_in_reasons_and_effects() {
    let session = Session::new();
    session.write("a", "1");
    let secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    let mut agent = Agent::new(&session, "s1");
    agent.hears("push");
    agent.pretends(&format!("curl -H 'Authorization: Bearer {secret}' -d @a https://example.org"));
    agent.is_done();
    agent.hears("again");
    agent.pretends(&format!("curl -H 'Authorization: Bearer {secret}' -d @a https://example.org"));
    session.output(&["checkpoint", "--reason", &format!("with {secret}")]);
    session.write("a", "2");
    for arguments in [
        &["rollback"][..],
        &["rollback", "--steps"],
        &["rollback", "--json"],
        &["rollback", "3", "--dry-run"],
        &["rollback", "3", "--dry-run", "--json"],
        &["rollback", "3"],
    ] {
        let output = session.output(arguments);
        let seen = to_text(&[output.stdout, output.stderr].concat());
        assert!(!seen.contains(secret), "{arguments:?}: {seen}");
    }
    let effects = session.json(&["rollback", "3", "--dry-run"])["effects"].clone();
    assert_eq!(effects[0]["kind"], "network");
    let kept: String =
        ledger(&session).query_row("SELECT command FROM effects", [], |row| row.get(0)).unwrap();
    assert!(!kept.contains(secret), "{kept}");
}

#[test]
fn reported_text_cannot_control_the_terminal() {
    let session = Session::new();
    let evil = "\u{1b}]0;evil\u{7}\u{1b}[31m\u{202e}\u{9b}2J\u{7f}\u{61c}\u{2028}\r\n";
    let mut agent = Agent::new(&session, &format!("s{evil}"));
    agent.fields["agent"] = json!(format!("agent{evil}"));
    agent.hears(&format!("please {evil}"));
    agent.writes(&format!("file{evil}"), "1");
    agent.pretends(&format!("psql -c '{evil}'"));
    let call = agent.begins(&format!("tool{evil}"), json!({ "path": evil }));
    agent.finishes(&call);
    agent.is_done();
    let broken = json!({ "event": "before_tool", "cwd": format!("/nowhere{evil}") });
    let said = agent.report(broken);
    let mut seen = vec![said.into_bytes()];
    for arguments in [
        &["rollback", "--steps"][..],
        &["rollback", "--json"],
        &["rollback", "diff", "1"],
        &["checkpoints"],
        &["rollback", "1", "--dry-run"],
        &["undo", "--dry-run"],
        &["undo"],
        &["rollback", "undo"],
        &["rollback", "1", "-v"],
        &["explain", evil],
        &["-C", evil, "rollback"],
        &["rollback", evil, "--json"],
    ] {
        let output = session.output(arguments);
        seen.extend([output.stdout, output.stderr]);
    }
    for text in seen.iter().map(|bytes| to_text(bytes)) {
        let is_armed = |c: char| {
            (c.is_control() && c != '\n') || matches!(c, '\u{61c}' | '\u{2028}' | '\u{202e}')
        };
        assert!(!text.contains(is_armed), "{text:?}");
    }
}

#[test]
fn strict_mode_refuses_only_calls() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nstrict = true\n");
    for (event, is_refused) in [("PreToolUse", true), ("TaskStart", false)] {
        let output = hook(&session.base(), &["hook", "cline", event], b"{");
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(!output.stdout.is_empty(), is_refused, "{event}");
    }
}
