//! Known ways in which Hermes and Myrm lose checkpoint data. Each test shows that takeback avoids
//! one of them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::agent::{Agent, configure, everything, hook_with, ledger, rows};
use crate::session::{Session, first_in};

fn git(directory: &Path, arguments: &[&str]) {
    let status = Command::new("git").args(arguments).current_dir(directory).status().unwrap();
    assert!(status.success(), "git {arguments:?}");
}

fn mode(session: &Session, path: &str) -> u32 {
    fs::metadata(session.project().join(path)).unwrap().permissions().mode() & 0o7777
}

/// In Hermes, when the snapshot before a rollback failed, the rollback continued anyway, overwrote
/// everything and reported that a snapshot had been saved.
#[test]
fn a_rollback_whose_safety_checkpoint_cannot_be_taken_changes_nothing() {
    let session = Session::new();
    session.write("a", "1");
    session.output(&["checkpoint"]);
    for name in ["a", "b", "c", "d", "e"] {
        session.write(name, "precious");
    }
    let before = everything(&session.project());
    // With this limit on the size of files, nothing can be written.
    let script = format!("trap '' XFSZ; ulimit -f 0; exec {}", env!("CARGO_BIN_EXE_takeback"));
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", &format!("{script} rollback 1")]).current_dir(session.project());
    let output = shell.env_clear().env("HOME", session.base()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("Done"));
    assert_eq!(everything(&session.project()), before);
}

/// In Hermes, a repository inside the project was stored as a bare link, so its files were neither
/// captured nor restored. A repository without a commit made every checkpoint fail.
#[test]
fn a_nested_repository_is_captured_like_any_other_directory() {
    let session = Session::new();
    session.write("vendor/lib/code", "1");
    git(&session.project().join("vendor/lib"), &["init", "-q"]);
    session.output(&["checkpoint"]);
    fs::remove_file(session.project().join("vendor/lib/code")).unwrap();
    let before = everything(&session.project().join("vendor/lib/.git"));
    session.output(&["rollback", "1"]);
    assert_eq!(session.read("vendor/lib/code"), "1");
    assert_eq!(everything(&session.project().join("vendor/lib/.git")), before);
}

/// In Hermes, files that were ignored, excluded by default or too large were silently not restored.
#[test]
fn uncovered_files_are_reported_and_secrets_are_captured() {
    let mut session = Session::new();
    configure(&session, "[checkpoints]\nmax_file_size_mb = 1\n");
    session.write(".gitignore", ".env\n*.log\nout/\n");
    session.write(".env", "KEY=1");
    session.write("x.log", "1");
    session.write("node_modules/x", "1");
    session.write("large", &"x".repeat((1 << 20) + 1));
    session.takeback(&["checkpoint"]);
    session.assert(
        "
$ takeback checkpoint
Checkpoint <id> of 3 files.
Not covered:
  large  (too large (1.0 MB))
  node_modules  (excluded)
",
    );
    fs::remove_file(session.project().join(".env")).unwrap();
    fs::remove_file(session.project().join("x.log")).unwrap();
    session.takeback(&["rollback"]);
    session.takeback(&["rollback", "1", "-v"]);
    session.assert(
        "
$ takeback rollback
Checkpoints for ~/project
  ●  1  <id>  <age>  taken by hand

● now
Not covered: large, node_modules (`takeback show 1` says why)
takeback rollback 1  return files and conversation to the state before a row
takeback diff 1      show what changed since then
takeback undo        take back only the last turn, and keep your edits
$ takeback rollback 1 -v
Restored:
  .env
  x.log
Not covered by the checkpoint:
  large  (too large (1.0 MB))
  node_modules  (excluded)
Restored 2 files. `takeback rollback undo` takes this back.
",
    );
    assert_eq!(session.read(".env"), "KEY=1");
}

/// In Hermes, the project's and the user's git attributes, and git's environment variables, changed
/// bytes or broke the store.
#[test]
fn bytes_are_restored_exactly_whatever_git_is_configured_to_do() {
    let session = Session::new();
    fs::write(session.base().join(".gitconfig"), "[core]\nautocrlf = true\n[broken").unwrap();
    session.write(".gitattributes", "* text=auto eol=crlf ident\n*.bin -text\n");
    let content = "$Id$\r\nmixed\nends\r\n";
    session.write("a", content);
    fs::write(session.project().join("b.bin"), [0, 13, 10, 255]).unwrap();
    let environment = [
        ("GIT_DIR", "/nonexistent"),
        ("GIT_INDEX_FILE", "/nonexistent"),
        ("GIT_OBJECT_DIRECTORY", "/nonexistent"),
        ("GIT_CONFIG_COUNT", "x"),
    ];
    let base = session.base();
    assert!(hook_with(&base, &["checkpoint"], b"", &environment).status.success());
    let before = everything(&session.project());
    for name in ["a", "b.bin", ".gitattributes"] {
        fs::remove_file(session.project().join(name)).unwrap();
    }
    assert!(hook_with(&base, &["rollback", "1"], b"", &environment).status.success());
    assert_eq!(everything(&session.project()), before);
}

/// In Hermes, empty directories were lost, and the mode 0600 came back as 0644.
#[test]
fn empty_directories_and_all_permission_bits_come_back() {
    let session = Session::new();
    session.write("secret", "1");
    session.write("tool", "1");
    for (path, mode) in [("secret", 0o600), ("tool", 0o751)] {
        fs::set_permissions(session.project().join(path), Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir_all(session.project().join("empty/deep")).unwrap();
    fs::set_permissions(session.project().join("empty"), Permissions::from_mode(0o700)).unwrap();
    session.output(&["checkpoint"]);
    let before = everything(&session.project());
    fs::remove_dir_all(session.project().join("empty")).unwrap();
    fs::remove_file(session.project().join("secret")).unwrap();
    fs::set_permissions(session.project().join("tool"), Permissions::from_mode(0o644)).unwrap();
    session.output(&["rollback", "1"]);
    assert_eq!(everything(&session.project()), before);
    assert_eq!((mode(&session, "secret"), mode(&session, "tool")), (0o600, 0o751));
}

/// In Hermes, if the process that took a checkpoint was killed, it left a lock file behind. All
/// later checkpoints failed silently: 1,666 times in five weeks.
#[test]
fn a_killed_checkpoint_does_not_block_the_next_one() {
    let session = Session::new();
    for number in 0..1500 {
        session.write(&format!("d{}/f{number}", number % 30), &format!("{number}\n"));
    }
    let mut agent = Agent::new(&session, "s1");
    for tries in 0..8 {
        let mut child = session.start(&["checkpoint"]);
        // Kill it after different delays, from before it begins until after it ends.
        for _ in 0..tries * 2000 {
            std::hint::black_box(std::process::id());
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    agent.turn("one", "a", "1");
    assert!(session.output(&["checkpoint"]).status.success());
    assert_eq!(session.json(&["checkpoints", "verify"])["whole"], true);
    assert_eq!(session.json(&["checkpoints"])["failures"], json!([]));
}

/// In Hermes, a restore that was killed left a mixture of old and new files.
#[test]
fn a_killed_restore_is_finished_or_reverted() {
    let session = Session::new();
    let names: Vec<String> = (0..1500).map(|n| format!("d{}/f{n}", n % 30)).collect();
    for name in &names {
        session.write(name, "old");
    }
    session.output(&["checkpoint", "--name", "old"]);
    for name in &names {
        session.write(name, "new");
    }
    session.output(&["checkpoint", "--name", "new"]);
    let workspace = first_in(&session.base().join(".takeback/checkpoints/store/workspaces"));
    let mut interrupted = 0;
    for (round, target) in ["old", "new", "old", "new"].into_iter().enumerate() {
        let mut child = session.start(&["rollback", target]);
        while !workspace.join("journal").exists() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        for _ in 0..round * 300 {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let next = session.output(&["rollback", target, "--dry-run"]);
        interrupted += usize::from(String::from_utf8_lossy(&next.stderr).contains("interrupted"));
        let first = session.read(&names[0]);
        assert!(names.iter().all(|name| session.read(name) == first), "a mixed tree");
        assert!(!workspace.join("journal").exists());
        session.output(&["rollback", target]);
        assert_eq!(session.read(&names[7]), target);
    }
    assert!(interrupted > 0, "no restore was killed in time");
}

/// In Hermes, a single unreadable file prevented every checkpoint.
#[test]
fn an_unreadable_file_does_not_affect_other_files() {
    let session = Session::new();
    session.write("a", "1");
    session.write("locked", "1");
    fs::set_permissions(session.project().join("locked"), Permissions::from_mode(0o000)).unwrap();
    // Root can read every file.
    for path in ["", "project", "project/a", "project/locked"] {
        let _ = chown(session.base().join(path), Some(65534), Some(65534));
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_takeback"));
    command.args(["checkpoint", "--json"]).current_dir(session.project());
    command.env_clear().env("HOME", session.base());
    if fs::read(session.project().join("locked")).is_ok() {
        command.uid(65534).gid(65534);
    }
    let output = command.output().unwrap();
    let taken: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(taken["files"], 1);
    assert_eq!(taken["uncovered"][0]["path"], "locked");
    assert_eq!(taken["uncovered"][0]["reason"], "unreadable");
}

/// In Hermes, a stray project marker in the home directory turned the home directory into the
/// project, and Hermes then refused to capture it.
#[test]
fn a_marker_in_the_home_directory_does_not_make_it_a_project() {
    let session = Session::new();
    fs::create_dir(session.base().join(".git")).unwrap();
    fs::write(session.base().join("package.json"), "{}").unwrap();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "2");
    assert_eq!(session.json(&["rollback"])["workspace"], json!(session.project()));
    assert_eq!(rows(&session).len(), 1);
}

/// In Hermes and Myrm, files created after the checkpoint survived a restore.
#[test]
fn a_rollback_makes_the_tree_equal_to_the_checkpoint_except_for_uncovered_files() {
    let session = Session::new();
    session.write("a", "1");
    session.output(&["checkpoint"]);
    session.write("made/since", "1");
    session.write("node_modules/never/seen", "1");
    session.write(".gitignore", "kept\n");
    session.write("kept", &"x".repeat(2 << 20));
    session.output(&["rollback", "1"]);
    assert!(!session.exists("made") && !session.exists(".gitignore"));
    assert!(session.exists("node_modules/never/seen") && session.exists("kept"));
}

/// In Hermes, once the limit was reached, the oldest checkpoint could not be restored, because the
/// snapshot before the restore pruned it.
#[test]
fn the_oldest_checkpoint_at_the_limit_can_be_restored() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_snapshots = 3\nmin_interval_hours = 0\n");
    for content in ["1", "2", "3", "4", "5"] {
        session.write("a", content);
        session.output(&["checkpoint"]);
    }
    session.output(&["checkpoints", "prune"]);
    assert_eq!(rows(&session).len(), 3);
    assert!(session.output(&["rollback", "3"]).status.success());
    assert_eq!(session.read("a"), "3");
    session.output(&["rollback", "undo"]);
    assert_eq!(session.read("a"), "5");
}

/// In Hermes, pruning rewrote all commits, so earlier ids became invalid and dates changed.
#[test]
fn ids_and_times_survive_pruning() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_snapshots = 2\n");
    for content in ["1", "2", "3"] {
        session.write("a", content);
        session.output(&["checkpoint"]);
    }
    let before = rows(&session);
    session.output(&["checkpoints", "prune"]);
    session.output(&["checkpoints", "gc"]);
    let after = rows(&session);
    assert_eq!(after.len(), 2);
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((&before["id"], &before["time"]), (&after["id"], &after["time"]));
    }
    session.output(&["rollback", &before[1]["id"].as_str().unwrap()[..10]]);
    assert_eq!(session.read("a"), "2");
}

/// In Hermes, the hash of another project's checkpoint was accepted, and that project's files were
/// written into the current one.
#[test]
fn a_checkpoint_of_another_workspace_is_refused() {
    let session = Session::new();
    session.write("a", "1");
    session.output(&["checkpoint"]);
    let id = rows(&session)[0]["id"].as_str().unwrap().to_owned();
    fs::create_dir(session.base().join("other")).unwrap();
    for id in [&id[..], &id[..7]] {
        let output = session.output(&["-C", "../other", "rollback", id]);
        assert_eq!(output.status.code(), Some(1));
        let diff = session.output(&["-C", "../other", "rollback", "diff", id]);
        assert_eq!(diff.status.code(), Some(1));
    }
    assert_eq!(fs::read_dir(session.base().join("other")).unwrap().count(), 0);
}

/// In Hermes, the file name `*.py` was treated as a pattern.
#[test]
fn a_file_name_that_looks_like_a_pattern_is_taken_literally() {
    let session = Session::new();
    session.write("*.py", "1");
    session.write("a.py", "1");
    session.output(&["checkpoint"]);
    session.write("*.py", "2");
    session.write("a.py", "2");
    session.output(&["rollback", "1", "*.py"]);
    assert_eq!((session.read("*.py"), session.read("a.py")), ("1".into(), "2".into()));
    std::fs::remove_file(session.project().join("*.py")).unwrap();
    session.output(&["rollback", "1", "*.py"]);
    assert_eq!((session.read("*.py"), session.read("a.py")), ("1".into(), "2".into()));
    let missing = session.output(&["rollback", "1", "?.js"]);
    assert_eq!(missing.status.code(), Some(1));
}

/// In Hermes, a checkpoint of an empty tree could not be restored.
#[test]
fn a_checkpoint_of_an_empty_directory_can_be_restored() {
    let session = Session::new();
    session.output(&["checkpoint"]);
    session.write("a/b", "1");
    assert!(session.output(&["rollback", "1"]).status.success());
    assert_eq!(fs::read_dir(session.project()).unwrap().count(), 0);
}

/// In Hermes, an interrupted garbage collection left temporary packs behind, and the store grew to
/// 24 GB.
#[test]
fn leftovers_of_an_interrupted_gc_are_removed() {
    let session = Session::new();
    for number in 0..20 {
        let content = crate::agent::noise(number, 100_000);
        fs::write(session.project().join("a"), content).unwrap();
        session.output(&["checkpoint"]);
    }
    for tries in 0..6 {
        let mut child = session.start(&["checkpoints", "gc"]);
        for _ in 0..tries * 1500 {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    session.output(&["checkpoints", "gc"]);
    let store = session.base().join(".takeback/checkpoints/store");
    let packs = fs::read_dir(store.join("objects/pack")).unwrap();
    let mut ends: Vec<_> =
        packs.map(|entry| entry.unwrap().path().extension().map(ToOwned::to_owned)).collect();
    ends.sort();
    assert_eq!(ends, [None, Some("idx".into()), Some("pack".into())]);
    assert!(session.json(&["checkpoints"])["store_bytes"].as_u64().unwrap() < 2_300_000);
    assert_eq!(session.json(&["checkpoints", "verify"])["whole"], true);
}

/// In Hermes, `/rollback` said "none" even if other directories had checkpoints.
#[test]
fn an_empty_list_names_the_workspaces_that_have_checkpoints() {
    let mut session = Session::new();
    session.write("a", "1");
    session.output(&["checkpoint"]);
    fs::create_dir(session.base().join("other")).unwrap();
    session.takeback(&["-C", "../other", "rollback"]);
    session.assert(
        "
$ takeback -C ../other rollback
No checkpoints for ~/other yet. They appear before an agent's next change.
`takeback install` adds takeback to your agents; `takeback checkpoint` takes one now.
Other workspaces have checkpoints:
  ~/project
",
    );
}

/// In Hermes, restoring a single file also took back the conversation.
#[test]
fn restoring_a_single_file_keeps_the_conversation() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "2");
    let done = session.json(&["rollback", "1", "a"]);
    assert_eq!((session.read("a"), &done["undone_messages"]), ("1".into(), &json!(0)));
    let left: i64 = ledger(&session)
        .query_row("SELECT count(*) FROM messages WHERE NOT undone", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 1);
}

/// In Hermes, every model call counted as a "turn", although its documentation says that every user
/// message counts as one.
#[test]
fn a_turn_is_one_user_message_with_all_the_work_that_follows_it() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "s1");
    agent.hears("one message");
    for number in 0..5 {
        agent.writes("a", &number.to_string());
    }
    agent.is_done();
    assert_eq!(rows(&session).len(), 1);
    session.output(&["rollback", "1"]);
    assert!(!session.exists("a"));
}

/// In Hermes, a regular expression for destructive commands missed 38 of 50 real destructive
/// commands. Myrm's expression missed all commands whose names do not reveal what they do.
#[test]
fn commands_missed_by_the_patterns_of_other_tools_get_checkpoints() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "s1");
    let missed = [
        "git stash",
        "git restore .",
        "find . -name '*.tmp' -delete",
        "sed -Ei s/a/b/ x",
        "echo x | tee y",
        "bash -c 'rm x'",
        "/bin/rm x",
        "python gen.py",
        "npm install",
        "cargo fmt",
        "cp a b",
        "git pull",
        "perl -pi -e s/a/b/ x",
    ];
    for command in missed {
        agent.hears(command);
        agent.pretends(command);
        agent.is_done();
    }
    let mut reasons: Vec<_> = rows(&session).iter().map(|row| row["reason"].clone()).collect();
    reasons.reverse();
    assert_eq!(reasons, missed.map(|command| json!(format!("before Bash: {command}"))));
}

/// In Hermes and Myrm, harmless commands were mistaken for destructive ones.
#[test]
fn harmless_commands_get_no_checkpoint() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "s1");
    for command in ["ls 2>/dev/null", "make --version 2>&1 | head -1", "grep -r rm . 2>&1"] {
        agent.hears(command);
        agent.pretends(command);
    }
    let reasons: Vec<_> = rows(&session).iter().map(|row| row["reason"].clone()).collect();
    assert!(reasons.iter().all(|reason| reason.as_str().unwrap().contains("make")), "{reasons:?}");
}
