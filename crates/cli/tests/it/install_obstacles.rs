//! `takeback install` and `uninstall` when something is in the way: odd files, other programs'
//! commands, interrupted updates, damaged records.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use crate::install::{SETTINGS, home_files, install_by_another, run_takeback, write_file};
use crate::session::{Session, tell_skipped};

/// Lists the copies of file contents that takeback keeps.
fn kept_copies(session: &Session) -> Vec<OsString> {
    let entries = fs::read_dir(session.base().join(".takeback/installed")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    names.filter(|name| name != "record.json").collect()
}

#[test]
fn user_settings_that_mention_takeback_stay() {
    let session = Session::new();
    let texts = [
        "{\n  // Installed by takeback: see the wiki\n  \"a\": 1\n}\n",
        "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"command\": \"lint && takeback hook claude\"}]}]}}",
        "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"command\": \"nice takeback hook claude\"}]}]}}",
    ];
    for text in texts {
        let path = write_file(&session, ".claude/settings.json", text);
        run_takeback(&session, &["install", "claude"], 0);
        let installed = fs::read_to_string(&path).unwrap();
        for theirs in ["see the wiki", "lint && takeback", "nice takeback"] {
            assert_eq!(installed.contains(theirs), text.contains(theirs), "{installed}");
        }
        run_takeback(&session, &["uninstall", "claude"], 0);
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        // If the file was changed, takeback's entries are removed from it one by one.
        fs::write(&path, installed.replacen('{', "{ \"mine\": 2,", 1)).unwrap();
        run_takeback(&session, &["uninstall", "claude"], 0);
        let left = fs::read_to_string(&path).unwrap();
        assert!(left.contains("mine") && !left.contains("takeback hook claude\",\n"), "{left}");
        assert_eq!(left.contains("lint && takeback"), text.contains("lint && takeback"));
    }
}

#[test]
fn a_file_with_a_duplicate_hooks_key_is_left_unchanged() {
    let session = Session::new();
    for text in ["{\"hooks\": {}, \"hooks\": {}}", "{\"hooks\": {\"Stop\": [], \"Stop\": []}}"] {
        let path = write_file(&session, ".claude/settings.json", text);
        let output = run_takeback(&session, &["install", "claude"], 1);
        assert!(output.contains("duplicate key"), "{output}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn a_pipe_is_neither_read_nor_replaced() {
    let session = Session::new();
    let path = write_file(&session, ".claude/settings.json", "");
    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let output = run_takeback(&session, &["install", "claude"], 1);
    assert!(output.contains("not a regular file"), "{output}");
    run_takeback(&session, &["doctor", "claude"], 1);
    run_takeback(&session, &["uninstall", "claude"], 0);
    assert!(!path.is_file() && path.exists());
}

#[test]
fn an_interrupted_update_can_be_uninstalled() {
    let session = Session::new();
    let path = write_file(&session, ".claude/settings.json", "{\"a\":1}");
    let before = home_files(&session);
    let old = install_by_another(&session, "claude");
    let commands = session.base().join(".claude/commands");
    let by_old = [path.clone(), commands.join("rollback.md")].map(|path| {
        let text = fs::read(&path).unwrap();
        (path, text)
    });
    run_takeback(&session, &["install", "claude"], 0);
    // Pretend that the record was written, but that the files were written only partly or not at
    // all.
    for (path, text) in by_old {
        fs::write(path, text).unwrap();
    }
    fs::write(session.base().join(".claude/.settings.json.takeback"), "{ half").unwrap();
    fs::write(commands.join(".rollback.md.takeback"), "half").unwrap();
    run_takeback(&session, &["uninstall", "claude"], 0);
    fs::remove_dir_all(old).unwrap();
    assert_eq!(home_files(&session), before);
    assert!(kept_copies(&session).is_empty());
}

#[test]
fn files_that_the_user_removed_are_forgotten() {
    let session = Session::new();
    let path = write_file(&session, ".claude/settings.json", SETTINGS);
    run_takeback(&session, &["install", "claude", "pi"], 0);
    fs::write(&path, SETTINGS).unwrap();
    fs::remove_dir_all(session.base().join(".claude/commands")).unwrap();
    fs::remove_dir_all(session.base().join(".pi")).unwrap();
    run_takeback(&session, &["uninstall"], 0);
    assert!(kept_copies(&session).is_empty());
    assert_eq!(run_takeback(&session, &["uninstall"], 0), "Nothing is installed.\n");
}

#[test]
fn uninstall_leaves_a_broken_file_unchanged_and_cleans_up_the_others() {
    let session = Session::new();
    let path = write_file(&session, ".claude/settings.json", SETTINGS);
    run_takeback(&session, &["install", "claude"], 0);
    fs::write(&path, "{ takeback").unwrap();
    let output = run_takeback(&session, &["uninstall", "claude"], 1);
    assert!(
        output.contains("settings.json: cannot be parsed, so it was left unchanged"),
        "{output}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "{ takeback");
    assert!(!session.base().join(".claude/commands").exists());
    // A broken file that contains no takeback entries is not reported.
    write_file(&session, ".codex/config.toml", "a = \n");
    run_takeback(&session, &["install", "codex"], 0);
    run_takeback(&session, &["uninstall", "codex"], 0);
    assert!(!session.base().join(".codex/hooks.json").exists());
}

#[test]
fn codex_hooks_stay_in_the_file_that_has_hooks() {
    let session = Session::new();
    let hooks = "# mine\r\n[[hooks.Stop]]\r\n[[hooks.Stop.hooks]]\r\ncommand = \"bell\"\r\n";
    let toml = write_file(&session, ".codex/config.toml", hooks);
    run_takeback(&session, &["install", "codex"], 0);
    let installed = fs::read_to_string(&toml).unwrap();
    assert!(installed.contains("hook codex"));
    assert!(!installed.replace("\r\n", "").contains('\n'), "{installed:?}");
    let json = write_file(&session, ".codex/hooks.json", "{}\n");
    run_takeback(&session, &["install", "codex"], 0);
    assert_eq!(fs::read_to_string(&toml).unwrap(), hooks);
    assert!(fs::read_to_string(&json).unwrap().contains("hook codex"));
    run_takeback(&session, &["uninstall"], 0);
    assert_eq!(fs::read_to_string(&toml).unwrap(), hooks);
    assert_eq!(fs::read_to_string(&json).unwrap(), "{}\n");
}

#[test]
fn an_error_in_a_file_is_reported_without_the_text_of_the_file() {
    let session = Session::new();
    write_file(&session, ".codex/hooks.json", "{}");
    write_file(&session, ".codex/config.toml", "a = 1\npass = correct horse\n");
    run_takeback(&session, &["install", "codex"], 0);
    let output = run_takeback(&session, &["doctor", "--bundle", "-", "codex"], 0);
    assert!(output.contains("line 2: ") && !output.contains("horse"), "{output}");
}

#[test]
fn user_changes_in_an_installed_file_survive_an_update() {
    let session = Session::new();
    install_by_another(&session, "droid");
    let command = session.base().join(".factory/commands/rollback");
    let changed = fs::read_to_string(&command).unwrap() + "echo mine\n";
    fs::write(&command, &changed).unwrap();
    let output = run_takeback(&session, &["install", "droid"], 1);
    assert!(
        output.contains("rollback: you changed this file, so takeback leaves it alone"),
        "{output}"
    );
    assert_eq!(fs::read_to_string(&command).unwrap(), changed);
}

#[test]
fn a_handwritten_hook_stays() {
    let session = Session::new();
    let own = "#!/bin/sh\ntakeback hook cline PreToolUse\n";
    let path = write_file(&session, ".cline/hooks/PreToolUse.sh", own);
    run_takeback(&session, &["install", "cline"], 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), own);
    run_takeback(&session, &["uninstall", "cline"], 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), own);
}

#[test]
fn uninstall_works_with_a_damaged_record_or_copy() {
    let session = Session::new();
    let path = write_file(&session, ".claude/settings.json", SETTINGS);
    run_takeback(&session, &["install", "claude"], 0);
    let own = session.base().join(".takeback/installed");
    for entry in fs::read_dir(&own).unwrap() {
        let copy = entry.unwrap().path();
        if copy.extension().is_none() {
            fs::write(copy, "damaged").unwrap();
        }
    }
    let words = |text: &str| text.split_whitespace().collect::<String>();
    run_takeback(&session, &["uninstall", "claude"], 0);
    assert_eq!(words(&fs::read_to_string(&path).unwrap()), words(SETTINGS));
    fs::write(&path, SETTINGS).unwrap();
    run_takeback(&session, &["install", "claude"], 0);
    let wired = fs::read_to_string(&path).unwrap();
    fs::write(own.join("record.json"), "{").unwrap();
    let text = run_takeback(&session, &["uninstall", "claude"], 1);
    assert!(
        text.contains("move this file away, and takeback will remove its entries one by one"),
        "{text}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), wired);
    fs::remove_file(own.join("record.json")).unwrap();
    run_takeback(&session, &["uninstall", "claude"], 0);
    assert_eq!(words(&fs::read_to_string(&path).unwrap()), words(SETTINGS));
}

#[test]
fn files_keep_their_owner_and_group_and_mode() {
    let session = Session::new();
    let settings = write_file(&session, ".claude/settings.json", SETTINGS);
    let base = session.base();
    let owned = [base.clone(), base.join(".claude"), settings.clone()];
    if owned.iter().any(|path| chown(path, Some(4321), Some(4322)).is_err()) {
        return tell_skipped("only root can give files to another user");
    }
    fs::set_permissions(&settings, fs::Permissions::from_mode(0o640)).unwrap();
    // Root installs takeback into another user's home directory.
    run_takeback(&session, &["install", "claude", "codex"], 0);
    let owner = |path: &Path| {
        let found = fs::symlink_metadata(path).unwrap();
        (found.uid(), found.gid())
    };
    let is_kept = || {
        let found = fs::metadata(&settings).unwrap();
        assert_eq!((owner(&settings), found.mode() & 0o7777), ((4321, 4322), 0o640));
    };
    is_kept();
    // New files and directories belong to the owner of the directory that they are in.
    for new in [".codex", ".claude/commands", ".takeback", ".takeback/installed/record.json"] {
        assert_eq!(owner(&base.join(new)), (4321, 4322), "{new}");
    }
    for entry in fs::read_dir(base.join(".codex")).unwrap() {
        assert_eq!(owner(&entry.unwrap().path()), (4321, 4322));
    }
    run_takeback(&session, &["uninstall", "claude", "codex"], 0);
    is_kept();
}

#[test]
fn project_hooks_are_not_written_outside_the_project() {
    let session = Session::new();
    let elsewhere = session.base().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for name in ["settings.json", "other.json"] {
        fs::write(elsewhere.join(name), SETTINGS).unwrap();
    }
    let project = session.project();
    let links =
        [(".claude", elsewhere.clone()), (".gemini/settings.json", elsewhere.join("other.json"))];
    for ((link, target), agent) in links.iter().zip(["claude", "gemini"]) {
        let link = project.join(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(target, &link).unwrap();
        let said = run_takeback(&session, &["install", "--project", agent], 1);
        let real = format!("resolves to {}", target.display());
        assert!(said.contains(&real) && said.contains("outside the project"), "{said}");
    }
    assert_eq!(fs::read_to_string(elsewhere.join("settings.json")).unwrap(), SETTINGS);
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 2);
    // A link whose target is in the project is followed.
    fs::remove_file(project.join(".claude")).unwrap();
    fs::create_dir(project.join("config")).unwrap();
    symlink("config", project.join(".claude")).unwrap();
    run_takeback(&session, &["install", "--project", "claude"], 0);
    assert!(project.join("config/settings.json").exists());
}
