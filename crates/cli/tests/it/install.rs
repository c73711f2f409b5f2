//! `takeback install` and `uninstall`, on realistic configuration files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::agent::{everything, hook, rows};
use crate::session::Session;

const ALL: [&str; 12] = [
    "claude", "codex", "gemini", "opencode", "qwen", "copilot", "droid", "cline", "pi", "cursor",
    "goose", "zed",
];

/// A user's settings: comments, odd spacing, and hooks that belong to other programs.
pub(crate) const SETTINGS: &str = "{\r\n\t// mine\r\n\t\"model\" : \"opus\",\r\n\t\"a\": 1,\r\n\t\"hooks\": {\"Stop\": [{\"hooks\": \
                        [{\"type\": \"command\", \"command\": \"bell\"}]}],},\r\n}";

/// Returns all files in the home directory except takeback's own.
pub(crate) fn home_files(session: &Session) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let own = session.base().join(".takeback");
    everything(&session.base()).into_iter().filter(|(path, ..)| !path.starts_with(&own)).collect()
}

pub(crate) fn write_file(session: &Session, path: &str, content: &str) -> PathBuf {
    let path = session.base().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    path
}

pub(crate) fn run_takeback(session: &Session, arguments: &[&str], code: i32) -> String {
    let output = session.output(arguments);
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

fn read_settings(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn uninstall_restores_every_byte() {
    let session = Session::new();
    write_file(&session, ".claude/settings.json", SETTINGS);
    write_file(&session, ".gemini/settings.json", "");
    write_file(
        &session,
        ".codex/config.toml",
        "# mine\n[[hooks.Stop]]\nhooks = [{ command = 'bell' }]\n",
    );
    let linked = write_file(&session, "dotfiles/qwen.json", "{}\n");
    fs::set_permissions(&linked, fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(session.base().join(".qwen")).unwrap();
    symlink("../dotfiles/qwen.json", session.base().join(".qwen/settings.json")).unwrap();
    let before = home_files(&session);

    let text = run_takeback(&session, &[&["install"], &ALL[..]].concat(), 0);
    assert!(
        text.contains("Claude Code: installed.\n  changed ~/.claude/settings.json\n"),
        "{text}"
    );
    assert!(text.contains("type /hooks"), "{text}");
    let wired = home_files(&session);
    assert_ne!(wired, before);
    assert!(fs::symlink_metadata(session.base().join(".qwen/settings.json")).unwrap().is_symlink());
    assert!(!session.base().join(".codex/hooks.json").exists());
    let states = session.json(&["install"]);
    assert!(
        states.as_array().unwrap().iter().all(|agent| agent["state"] == "installed"),
        "{states}"
    );

    // Installing again changes nothing.
    let text = run_takeback(&session, &[&["install"], &ALL[..]].concat(), 0);
    assert_eq!(text.matches(": already installed.\n").count(), ALL.len());
    assert_eq!(home_files(&session), wired);

    run_takeback(&session, &["uninstall"], 0);
    assert_eq!(home_files(&session), before);
    assert_eq!(run_takeback(&session, &["uninstall"], 0), "Nothing is installed.\n");
    let states = session.json(&["install"]);
    assert!(states.as_array().unwrap().iter().all(|agent| agent["state"] == "absent"), "{states}");
}

#[test]
fn agents_are_installed_and_uninstalled_separately() {
    let session = Session::new();
    let before = home_files(&session);
    for agent in ALL {
        run_takeback(&session, &["install", agent], 0);
        assert_ne!(home_files(&session), before, "{agent}");
        run_takeback(&session, &["uninstall", agent], 0);
        assert_eq!(home_files(&session), before, "{agent}");
    }
}

#[test]
fn later_changes_by_the_user_stay() {
    let session = Session::new();
    let path = write_file(&session, ".claude/settings.json", SETTINGS);
    run_takeback(&session, &["install", "claude"], 0);
    let wired = fs::read_to_string(&path).unwrap();
    fs::write(&path, wired.replace("opus", "haiku")).unwrap();
    // Installing again in between must not mistake the user's change for one of takeback's entries.
    run_takeback(&session, &["install", "claude"], 0);
    run_takeback(&session, &["uninstall", "claude"], 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), SETTINGS.replace("opus", "haiku"));
    assert!(!session.base().join(".claude/commands").exists());
}

#[test]
fn a_file_made_by_install_stays_if_the_user_added_to_it() {
    let session = Session::new();
    run_takeback(&session, &["install", "gemini"], 0);
    let path = session.base().join(".gemini/settings.json");
    let mut now = read_settings(&path);
    now["theme"] = json!("dark");
    fs::write(&path, now.to_string()).unwrap();
    run_takeback(&session, &["uninstall", "gemini"], 0);
    assert_eq!(read_settings(&path), json!({ "theme": "dark" }));
}

/// Runs `install` with a copy of takeback in another directory, as after a move or an update.
/// Returns that directory.
pub(crate) fn install_by_another(session: &Session, agent: &str) -> PathBuf {
    let old = session.base().join("old");
    fs::create_dir_all(&old).unwrap();
    let _ = symlink(env!("CARGO_BIN_EXE_takeback"), old.join("takeback"));
    let install = Command::new(old.join("takeback"))
        .args(["install", agent])
        .current_dir(session.project())
        .env_clear()
        .env("HOME", session.base())
        .env("PATH", &old)
        .output();
    assert!(install.unwrap().status.success());
    old
}

#[test]
fn an_update_keeps_the_original_from_before_the_first_install() {
    let session = Session::new();
    let path = write_file(&session, ".claude/settings.json", SETTINGS);
    let old = install_by_another(&session, "claude");
    let command = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        text.lines().find(|line| line.contains("hook claude")).unwrap().trim().to_owned()
    };
    let line = |program: &str| {
        format!("\"command\": \"[ -x {program} ] || exit 0; exec {program} hook claude\",")
    };
    let by_old = line(&old.join("takeback").display().to_string());
    assert_eq!(command(&path), by_old);
    assert_eq!(session.json(&["install"])[0]["state"], "outdated");
    run_takeback(&session, &["install", "claude"], 0);
    let by_new = line(env!("CARGO_BIN_EXE_takeback"));
    assert_eq!(command(&path), by_new);
    assert!(!fs::read_to_string(&path).unwrap().contains(&by_old));
    assert_eq!(session.json(&["install"])[0]["state"], "installed");
    run_takeback(&session, &["uninstall", "claude"], 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), SETTINGS);
}

#[test]
fn uninstall_works_without_its_record() {
    let session = Session::new();
    let path = write_file(&session, ".claude/settings.json", SETTINGS);
    run_takeback(&session, &["install", "claude", "cline"], 0);
    fs::remove_dir_all(session.base().join(".takeback")).unwrap();
    run_takeback(&session, &["uninstall", "claude", "cline"], 0);
    // After entries have been removed one by one, the spacing may differ.
    let words = |text: &str| text.split_whitespace().collect::<String>();
    assert_eq!(words(&fs::read_to_string(&path).unwrap()), words(SETTINGS));
    assert!(!session.base().join(".cline/hooks/PreToolUse.sh").exists());
}

#[test]
fn a_malformed_file_is_left_unchanged() {
    let session = Session::new();
    let path = write_file(&session, ".claude/settings.json", "{\"hooks\": ");
    write_file(&session, ".gemini/settings.json", "{\"hooks\": []}");
    let text = run_takeback(&session, &["install", "claude", "gemini", "pi"], 1);
    assert!(text.contains(".claude/settings.json, so it was left unchanged"));
    assert!(text.contains(".gemini/settings.json, so it was left unchanged"), "{text}");
    assert!(text.contains("pi: installed."), "{text}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"hooks\": ");
    assert!(!session.base().join(".claude/commands").exists());
    let states = session.json(&["install"]);
    assert_eq!(states[0]["state"], "unreadable");
}

#[test]
fn the_users_own_commands_stay() {
    let session = Session::new();
    let command = write_file(&session, ".claude/commands/rollback.md", "my own\n");
    let hook = write_file(&session, ".cline/hooks/PreToolUse.sh", "#!/bin/sh\nexit 0\n");
    let text = run_takeback(&session, &["install", "claude", "cline"], 1);
    assert!(text.contains("rollback.md: you already have a file with this name"), "{text}");
    assert!(text.contains("hooks/PreToolUse.sh: you already have a file with this name"), "{text}");
    let states = session.json(&["install"]);
    assert_eq!(states[0]["state"], "partly");
    run_takeback(&session, &["uninstall", "claude", "cline"], 0);
    assert_eq!(fs::read_to_string(command).unwrap(), "my own\n");
    assert_eq!(fs::read_to_string(hook).unwrap(), "#!/bin/sh\nexit 0\n");
}

#[test]
fn a_hook_command_that_the_user_changed_stays_and_is_reported() {
    let session = Session::new();
    run_takeback(&session, &["install", "claude"], 0);
    let command = session.base().join(".claude/commands/rollback.md");
    let changed = fs::read_to_string(&command).unwrap() + "And sing.\n";
    fs::write(&command, &changed).unwrap();
    // Neither an update nor uninstalling removes the changed command.
    for word in ["install", "uninstall"] {
        let text = run_takeback(&session, &[word, "claude"], 1);
        assert!(
            text.contains("rollback.md: you changed this file, so takeback leaves it alone"),
            "{text}"
        );
        assert_eq!(fs::read_to_string(&command).unwrap(), changed);
    }
}

#[test]
fn a_user_command_that_also_runs_takeback_stays() {
    let session = Session::new();
    let text = "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \
                \"audit.sh; takeback hook claude\"}]}]}}";
    let path = write_file(&session, ".claude/settings.json", text);
    run_takeback(&session, &["install", "claude"], 0);
    assert_eq!(read_settings(&path)["hooks"]["Stop"].as_array().unwrap().len(), 2);
    run_takeback(&session, &["uninstall", "claude"], 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn hooks_of_codex_are_written_to_one_file_only() {
    let session = Session::new();
    let config = write_file(
        &session,
        ".codex/config.toml",
        "[[hooks.Stop]]\nhooks = [{ command = 'bell' }]\n",
    );
    run_takeback(&session, &["install", "codex"], 0);
    assert!(fs::read_to_string(&config).unwrap().contains("hook codex"));
    let hooks = write_file(&session, ".codex/hooks.json", "{}\n");
    run_takeback(&session, &["install", "codex"], 0);
    assert!(!fs::read_to_string(&config).unwrap().contains("hook codex"));
    assert!(fs::read_to_string(&hooks).unwrap().contains("hook codex"));
    run_takeback(&session, &["uninstall", "codex"], 0);
    assert_eq!(fs::read_to_string(&hooks).unwrap(), "{}\n");
    assert_eq!(
        fs::read_to_string(&config).unwrap(),
        "[[hooks.Stop]]\nhooks = [{ command = 'bell' }]\n"
    );
}

#[test]
fn files_that_are_gone_are_forgotten() {
    let session = Session::new();
    run_takeback(&session, &["install", "opencode"], 0);
    fs::remove_file(session.base().join(".config/opencode/plugins/takeback.js")).unwrap();
    run_takeback(&session, &["uninstall"], 0);
    assert_eq!(run_takeback(&session, &["uninstall"], 0), "Nothing is installed.\n");
    assert!(!session.base().join(".config/opencode").exists());
}

#[test]
fn hooks_do_nothing_where_takeback_is_missing() {
    let session = Session::new();
    let program = session.base().join("bin of mine/takeback");
    fs::create_dir(program.parent().unwrap()).unwrap();
    fs::hard_link(env!("CARGO_BIN_EXE_takeback"), &program)
        .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_takeback"), &program).map(drop))
        .unwrap();
    let install = Command::new(&program)
        .args(["install", "claude", "cline"])
        .current_dir(session.project())
        .env_clear()
        .env("HOME", session.base())
        .output();
    assert!(install.unwrap().status.success());
    // Another copy of takeback recognizes that takeback wrote these files.
    run_takeback(&session, &["install", "cline", "--dry-run"], 0);
    fs::remove_file(&program).unwrap();
    let settings = read_settings(&session.base().join(".claude/settings.json"));
    let command = settings["hooks"]["Stop"][0]["hooks"][0]["command"].clone();
    let script = session.base().join(".cline/hooks/PreToolUse.sh");
    let mut shell = Command::new("/bin/sh");
    let output = shell.args(["-c", command.as_str().unwrap()]).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
    let output = Command::new(script).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
    fs::remove_dir_all(session.base().join(".takeback")).unwrap();
    run_takeback(&session, &["uninstall", "claude", "cline"], 0);
    assert!(!session.base().join(".cline/hooks/PreToolUse.sh").exists());
}

#[test]
fn other_home_and_configuration_directories_are_respected() {
    let session = Session::new();
    let run_with = |variable: &str, value: &Path, words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_takeback"))
            .args(words)
            .current_dir(session.project())
            .env_clear()
            .env("HOME", session.base())
            .env(variable, value)
            .output();
        assert!(output.unwrap().status.success());
    };
    let elsewhere = session.base().join("elsewhere");
    run_with("GEMINI_CLI_HOME", &elsewhere, &["install", "gemini"]);
    assert!(elsewhere.join(".gemini/settings.json").exists());
    run_with("QWEN_HOME", &elsewhere.join("q"), &["install", "qwen"]);
    assert!(elsewhere.join("q/settings.json").exists());
    // An agent may be started without TAKEBACK_HOME in its environment.
    run_with("TAKEBACK_HOME", &elsewhere.join("t b"), &["install", "claude"]);
    let settings = read_settings(&session.base().join(".claude/settings.json"));
    let command = settings["hooks"]["Stop"][0]["hooks"][0]["command"].as_str().unwrap().to_owned();
    assert!(command.contains(&format!("--home '{}' hook claude", elsewhere.join("t b").display())));
}

#[test]
fn new_files_respect_the_umask() {
    let session = Session::new();
    let script =
        format!("umask 077; exec '{}' install cline claude", env!("CARGO_BIN_EXE_takeback"));
    let shell = Command::new("/bin/sh").args(["-c", &script]).env("HOME", session.base()).output();
    assert!(shell.unwrap().status.success());
    let mode =
        |path: &str| fs::metadata(session.base().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(".cline/hooks/PreToolUse.sh"), 0o700);
    assert_eq!(mode(".claude/settings.json"), 0o600);
    assert_eq!(mode(".takeback"), 0o700);
}

#[test]
fn dry_runs_and_lists_write_nothing() {
    let session = Session::new();
    write_file(&session, ".claude/settings.json", SETTINGS);
    let before = everything(&session.base());
    let text = run_takeback(&session, &["install", "--dry-run", "claude", "codex"], 0);
    assert!(text.contains("takeback hook claude"), "{text}");
    assert!(text.contains("Claude Code: 3 files would change."), "{text}");
    run_takeback(&session, &["install"], 0);
    run_takeback(&session, &["uninstall", "--dry-run", "claude"], 0);
    assert_eq!(everything(&session.base()), before);
}

#[test]
fn agents_on_this_machine_are_found() {
    let session = Session::new();
    fs::create_dir(session.base().join(".factory")).unwrap();
    let states = session.json(&["install"]);
    let found = states.as_array().unwrap().iter().filter(|agent| agent["found"] == true);
    assert_eq!(found.map(|agent| &agent["agent"]).collect::<Vec<_>>(), ["droid"]);
    let text = run_takeback(&session, &["install"], 0);
    assert!(
        text.contains("  droid  Droid  not installed: run `takeback install droid`\n"),
        "{text}"
    );
    let text = run_takeback(&session, &["install", "emacs"], 1);
    assert!(text.contains("takeback cannot be installed into \"emacs\""), "{text}");
}

#[test]
fn options_for_installing_require_an_agent() {
    let session = Session::new();
    for option in ["--dry-run", "--import"] {
        assert_eq!(session.output(&["install", option]).status.code(), Some(2), "{option}");
    }
}

/// Hooks in `/` or the home directory would apply to every directory below it.
#[test]
fn a_directory_that_is_not_a_project_gets_no_project_hooks() {
    let session = Session::new();
    for (directory, reason) in [("/", "the root of the file system"), ("..", "the home directory")]
    {
        for arguments in [&["install", "--project", "claude"][..], &["install", "--project"]] {
            let output = session.output(&[&["-C", directory, "-y"], arguments].concat());
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains(&format!("is not a project: it is {reason}")), "{said}");
        }
    }
    assert!(!session.base().join(".claude").exists());
}

#[test]
fn project_hooks_do_nothing_without_takeback() {
    let session = Session::new();
    run_takeback(&session, &["install", "--project", "claude"], 0);
    let path = session.project().join(".claude/settings.json");
    let command = read_settings(&path)["hooks"]["PreToolUse"][0]["hooks"][0]["command"].clone();
    let output = Command::new("/bin/sh")
        .args(["-c", command.as_str().unwrap()])
        .env("PATH", "/nothing/here")
        .output()
        .unwrap();
    assert_eq!((output.status.code(), output.stdout.len(), output.stderr.len()), (Some(0), 0, 0));
    run_takeback(&session, &["uninstall", "--user", "claude"], 0);
    assert!(path.exists());
    run_takeback(&session, &["uninstall"], 0);
    assert!(!session.project().join(".claude").exists());
}

#[test]
fn the_installed_hook_command_protects_the_workspace() {
    let session = Session::new();
    session.write("a.txt", "one\n");
    run_takeback(&session, &["install", "claude"], 0);
    let path = session.base().join(".claude/settings.json");
    let command = read_settings(&path)["hooks"]["PreToolUse"][0]["hooks"][0]["command"].clone();
    let payload = json!({
        "session_id": "s", "hook_event_name": "PreToolUse", "cwd": session.project(),
        "tool_name": "Write", "tool_input": { "file_path": "a.txt" }, "tool_use_id": "1",
    });
    let script = format!("echo '{payload}' | ( {} )", command.as_str().unwrap());
    let shell = Command::new("/bin/sh").args(["-c", &script]).env("HOME", session.base()).output();
    let output = shell.unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert_eq!(rows(&session).len(), 1);
}

#[test]
fn a_rollback_typed_inside_an_agent_is_answered_without_asking_the_model() {
    let session = Session::new();
    session.write("a.txt", "one\n");
    let tell = |agent: &str, event: Value| {
        let mut event = event;
        event["session_id"] = json!("s");
        event["cwd"] = json!(session.project());
        let output = hook(&session.base(), &["hook", agent], event.to_string().as_bytes());
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    };
    let write = |content: &str| {
        tell("claude", json!({ "hook_event_name": "UserPromptSubmit", "prompt": content }));
        tell(
            "claude",
            json!({ "hook_event_name": "PreToolUse", "tool_name": "Write",
            "tool_use_id": content, "tool_input": { "file_path": "a.txt" } }),
        );
        session.write("a.txt", content);
        tell(
            "claude",
            json!({ "hook_event_name": "PostToolUse", "tool_name": "Write",
            "tool_use_id": content, "tool_input": { "file_path": "a.txt" } }),
        );
    };
    write("two\n");
    let answer = |agent: &str, event: Value| {
        let answer: Value = serde_json::from_str(&tell(agent, event)).unwrap();
        assert_eq!(answer["decision"], "block");
        answer["reason"].as_str().unwrap().to_owned()
    };
    let expanded = |arguments: &str| {
        json!({ "hook_event_name": "UserPromptExpansion", "command_name": "rollback",
            "command_args": arguments, "prompt": format!("/rollback {arguments}") })
    };
    let list = answer("claude", expanded(""));
    assert!(list.contains("Checkpoints for ~/project") && list.contains("  ●  1  "), "{list}");
    let diff = answer("claude", expanded("diff 1"));
    assert!(diff.contains("-one\n+two"), "{diff}");
    let done = answer("claude", expanded("1 'a.txt'"));
    assert!(done.contains("Restored:\n  a.txt\n"), "{done}");
    assert_eq!(session.read("a.txt"), "one\n");
    // Codex sends the command as a prompt.
    let prompt = |prompt: &str| json!({ "hook_event_name": "UserPromptSubmit", "prompt": prompt });
    let done = answer("codex", prompt("takeback rollback undo"));
    assert!(done.contains("Restored:\n  a.txt\n"), "{done}");
    assert_eq!(session.read("a.txt"), "two\n");
    let done = answer("codex", prompt("/undo"));
    assert!(done.contains("Restored:\n  a.txt\n"), "{done}");
    assert_eq!(session.read("a.txt"), "one\n");
    let wrong = answer("claude", expanded("99"));
    assert!(wrong.contains("error: "), "{wrong}");
    // Takeback does not answer other programs' commands, and none of the commands above began a
    // turn.
    let other = json!({ "hook_event_name": "UserPromptExpansion", "command_name": "review" });
    assert_eq!(tell("claude", other), "");
    let turns: i64 = crate::agent::ledger(&session)
        .query_row("select count(*) from messages where role = 'user'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(turns, 1);
}

#[test]
fn slash_accepts_separate_words_and_a_single_string() {
    let session = Session::new();
    session.write("a b.txt", "one\n");
    run_takeback(&session, &["checkpoint"], 0);
    session.write("a b.txt", "two\n");
    let text = run_takeback(&session, &["slash", "rollback", "1 'a b.txt' --dry-run"], 0);
    assert!(text.contains("Would restore:\n  a b.txt\n"), "{text}");
    let text = run_takeback(&session, &["slash", "rollback", ""], 0);
    assert!(text.contains("Checkpoints for"), "{text}");
    let text = run_takeback(&session, &["slash", "takeback-rollback", "1", "a b.txt"], 0);
    assert!(text.contains("Restored:\n  a b.txt\n"), "{text}");
    let text = run_takeback(&session, &["slash", "rollback", "99"], 0);
    assert!(text.contains("error: "), "{text}");
    run_takeback(&session, &["slash", "format-disk"], 1);
}

#[test]
fn past_conversations_are_offered_and_imported() {
    let session = Session::new();
    let log = include_str!("../../../agents/tests/fixtures/logs/claude/real.jsonl");
    write_file(&session, ".claude/projects/-PROJECT/one.jsonl", log);
    let text = run_takeback(&session, &["install", "claude"], 0);
    let offer = "Found 1 log of past conversations. Run `takeback sessions import --from claude`";
    assert!(text.contains(offer), "{text}");
    assert_eq!(session.json(&["sessions"])["sessions"], json!([]));
    let done = session.json(&["install", "claude", "--import"]);
    assert_eq!(done[0]["imported"]["new_sessions"], 1, "{done}");
    assert_eq!(session.json(&["sessions"])["sessions"].as_array().unwrap().len(), 1);
    // For an agent without logs, no import is offered.
    assert!(!run_takeback(&session, &["install", "codex", "--import"], 0).contains("Past"));
}

#[test]
fn installing_adds_agents_to_zed_and_uninstalling_restores_every_byte() {
    let session = Session::new();
    let settings = "// mine\n{\n  \"theme\": \"One Dark\",\n  \"agent_servers\": { \"Other\": { \"type\": \"registry\" }, },\n}\n";
    write_file(&session, ".config/zed/settings.json", settings);
    let before = home_files(&session);
    let text = run_takeback(&session, &["install", "--dry-run", "zed"], 0);
    assert!(text.contains("Claude Code (takeback)"), "{text}");
    assert_eq!(home_files(&session), before);
    let text = run_takeback(&session, &["install", "zed"], 0);
    assert!(text.contains("Zed: installed.") && text.contains("agent panel"), "{text}");
    let wired = fs::read_to_string(session.base().join(".config/zed/settings.json")).unwrap();
    for expected in ["\"acp\"", "codex-acp", "\"gemini\"", "// mine", "\"registry\""] {
        assert!(wired.contains(expected), "{expected}: {wired}");
    }
    let doctor = session.json(&["doctor", "zed"]);
    assert_eq!(doctor["agents"][0]["user"], "installed", "{doctor}");
    assert!(run_takeback(&session, &["install", "zed"], 0).contains("Zed"), "nothing to do");
    run_takeback(&session, &["uninstall", "zed"], 0);
    assert_eq!(home_files(&session), before);
    let refused = run_takeback(&session, &["install", "--project", "zed"], 1);
    assert!(refused.contains("reads agents only from your own settings"), "{refused}");
}
