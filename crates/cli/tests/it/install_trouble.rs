//! Wiring agents where something is in the way: odd files, other people's commands, processes that
//! were cut off.

use std::ffi::OsString;
use std::fs;
use std::process::Command;

use crate::install::{SETTINGS, home, install_by_another, put, run};
use crate::session::Session;

/// What is kept of files that were written.
fn kept(session: &Session) -> Vec<OsString> {
    let entries = fs::read_dir(session.base().join(".takeback/installed")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    names.filter(|name| name != "record.json").collect()
}

#[test]
fn settings_that_speak_of_takeback_are_the_users_all_the_same() {
    let session = Session::new();
    let texts = [
        "{\n  // Installed by takeback: see the wiki\n  \"a\": 1\n}\n",
        "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"command\": \"lint && takeback hook claude\"}]}]}}",
        "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"command\": \"nice takeback hook claude\"}]}]}}",
    ];
    for text in texts {
        let path = put(&session, ".claude/settings.json", text);
        run(&session, &["install", "claude"], 0);
        let installed = fs::read_to_string(&path).unwrap();
        for theirs in ["see the wiki", "lint && takeback", "nice takeback"] {
            assert_eq!(installed.contains(theirs), text.contains(theirs), "{installed}");
        }
        run(&session, &["uninstall", "claude"], 0);
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        // The same if it has to go entry by entry.
        fs::write(&path, installed.replacen('{', "{ \"mine\": 2,", 1)).unwrap();
        run(&session, &["uninstall", "claude"], 0);
        let left = fs::read_to_string(&path).unwrap();
        assert!(left.contains("mine") && !left.contains("takeback hook claude\",\n"), "{left}");
        assert_eq!(left.contains("lint && takeback"), text.contains("lint && takeback"));
    }
}

#[test]
fn hooks_that_are_there_twice_are_left_alone() {
    let session = Session::new();
    for text in ["{\"hooks\": {}, \"hooks\": {}}", "{\"hooks\": {\"Stop\": [], \"Stop\": []}}"] {
        let path = put(&session, ".claude/settings.json", text);
        let output = run(&session, &["install", "claude"], 1);
        assert!(output.contains("duplicate key"), "{output}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn what_is_not_a_regular_file_is_neither_read_nor_replaced() {
    let session = Session::new();
    let path = put(&session, ".claude/settings.json", "");
    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let output = run(&session, &["install", "claude"], 1);
    assert!(output.contains("not a regular file"), "{output}");
    run(&session, &["doctor", "claude"], 1);
    run(&session, &["uninstall", "claude"], 0);
    assert!(!path.is_file() && path.exists());
}

#[test]
fn an_update_that_was_cut_off_can_be_taken_back() {
    let session = Session::new();
    let path = put(&session, ".claude/settings.json", "{\"a\":1}");
    let before = home(&session);
    let old = install_by_another(&session, "claude");
    let commands = session.base().join(".claude/commands");
    let by_old = [path.clone(), commands.join("rollback.md")].map(|path| {
        let text = fs::read(&path).unwrap();
        (path, text)
    });
    run(&session, &["install", "claude"], 0);
    // It was noted what would be written, and then nothing was, or half of it.
    for (path, text) in by_old {
        fs::write(path, text).unwrap();
    }
    fs::write(session.base().join(".claude/.settings.json.takeback"), "{ half").unwrap();
    fs::write(commands.join(".rollback.md.takeback"), "half").unwrap();
    run(&session, &["uninstall", "claude"], 0);
    fs::remove_dir_all(old).unwrap();
    assert_eq!(home(&session), before);
    assert!(kept(&session).is_empty());
}

#[test]
fn what_somebody_else_removed_is_forgotten() {
    let session = Session::new();
    let path = put(&session, ".claude/settings.json", SETTINGS);
    run(&session, &["install", "claude", "pi"], 0);
    fs::write(&path, SETTINGS).unwrap();
    fs::remove_dir_all(session.base().join(".claude/commands")).unwrap();
    fs::remove_dir_all(session.base().join(".pi")).unwrap();
    run(&session, &["uninstall"], 0);
    assert!(kept(&session).is_empty());
    assert_eq!(run(&session, &["uninstall"], 0), "Nothing is installed.\n");
}

#[test]
fn a_file_that_broke_since_keeps_no_other_from_going() {
    let session = Session::new();
    let path = put(&session, ".claude/settings.json", SETTINGS);
    run(&session, &["install", "claude"], 0);
    fs::write(&path, "{ takeback").unwrap();
    let output = run(&session, &["uninstall", "claude"], 1);
    assert!(
        output.contains("settings.json: cannot be parsed, so it was left unchanged"),
        "{output}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "{ takeback");
    assert!(!session.base().join(".claude/commands").exists());
    // One that never had anything of ours is no reason to complain.
    put(&session, ".codex/config.toml", "a = \n");
    run(&session, &["install", "codex"], 0);
    run(&session, &["uninstall", "codex"], 0);
    assert!(!session.base().join(".codex/hooks.json").exists());
}

#[test]
fn codex_has_hooks_in_one_of_its_two_files() {
    let session = Session::new();
    let hooks = "# mine\r\n[[hooks.Stop]]\r\n[[hooks.Stop.hooks]]\r\ncommand = \"bell\"\r\n";
    let toml = put(&session, ".codex/config.toml", hooks);
    run(&session, &["install", "codex"], 0);
    let installed = fs::read_to_string(&toml).unwrap();
    assert!(installed.contains("hook codex"));
    assert!(!installed.replace("\r\n", "").contains('\n'), "{installed:?}");
    let json = put(&session, ".codex/hooks.json", "{}\n");
    run(&session, &["install", "codex"], 0);
    assert_eq!(fs::read_to_string(&toml).unwrap(), hooks);
    assert!(fs::read_to_string(&json).unwrap().contains("hook codex"));
    run(&session, &["uninstall"], 0);
    assert_eq!(fs::read_to_string(&toml).unwrap(), hooks);
    assert_eq!(fs::read_to_string(&json).unwrap(), "{}\n");
}

#[test]
fn what_is_wrong_with_a_file_is_said_without_its_text() {
    let session = Session::new();
    put(&session, ".codex/hooks.json", "{}");
    put(&session, ".codex/config.toml", "a = 1\npass = correct horse\n");
    run(&session, &["install", "codex"], 0);
    let output = run(&session, &["doctor", "--bundle", "-", "codex"], 0);
    assert!(output.contains("line 2: ") && !output.contains("horse"), "{output}");
}

#[test]
fn what_the_user_changed_in_a_file_of_ours_survives_an_update() {
    let session = Session::new();
    install_by_another(&session, "droid");
    let command = session.base().join(".factory/commands/rollback");
    let changed = fs::read_to_string(&command).unwrap() + "echo mine\n";
    fs::write(&command, &changed).unwrap();
    let output = run(&session, &["install", "droid"], 1);
    assert!(
        output.contains("rollback: you changed this file, so takeback leaves it alone"),
        "{output}"
    );
    assert_eq!(fs::read_to_string(&command).unwrap(), changed);
}

#[test]
fn a_hook_that_was_written_by_hand_stays() {
    let session = Session::new();
    let own = "#!/bin/sh\ntakeback hook cline PreToolUse\n";
    let path = put(&session, ".cline/hooks/PreToolUse.sh", own);
    run(&session, &["install", "cline"], 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), own);
    run(&session, &["uninstall", "cline"], 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), own);
}

#[test]
fn a_damaged_record_or_copy_keeps_nobody_from_uninstalling() {
    let session = Session::new();
    let path = put(&session, ".claude/settings.json", SETTINGS);
    run(&session, &["install", "claude"], 0);
    let own = session.base().join(".takeback/installed");
    for entry in fs::read_dir(&own).unwrap() {
        let copy = entry.unwrap().path();
        if copy.extension().is_none() {
            fs::write(copy, "damaged").unwrap();
        }
    }
    let words = |text: &str| text.split_whitespace().collect::<String>();
    run(&session, &["uninstall", "claude"], 0);
    assert_eq!(words(&fs::read_to_string(&path).unwrap()), words(SETTINGS));
    fs::write(&path, SETTINGS).unwrap();
    run(&session, &["install", "claude"], 0);
    let wired = fs::read_to_string(&path).unwrap();
    fs::write(own.join("record.json"), "{").unwrap();
    let text = run(&session, &["uninstall", "claude"], 1);
    assert!(
        text.contains("move this file away, and takeback will remove its entries one by one"),
        "{text}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), wired);
    fs::remove_file(own.join("record.json")).unwrap();
    run(&session, &["uninstall", "claude"], 0);
    assert_eq!(words(&fs::read_to_string(&path).unwrap()), words(SETTINGS));
}
