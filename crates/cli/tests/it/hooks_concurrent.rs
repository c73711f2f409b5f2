//! Many agents at the same time, a busy or broken ledger, and unusual paths to a workspace.

use std::fs;
use std::os::unix::fs::symlink;
use std::thread;

use serde_json::json;

use crate::agent::{Agent, eventually, hook, ledger, rows, steps};
use crate::session::Session;

fn count_rows(session: &Session, sql: &str) -> i64 {
    ledger(session).query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn many_concurrent_agents_get_all_their_rows() {
    let session = Session::new();
    for number in 0..50 {
        session.write(&format!("f{number}"), "1");
    }
    thread::scope(|scope| {
        for number in 0..6 {
            let mut agent = Agent::new(&session, &format!("s{number}"));
            scope.spawn(move || {
                for turn in 0..3 {
                    agent.turn(
                        &format!("{number} {turn}"),
                        &format!("f{number}"),
                        &turn.to_string(),
                    );
                }
            });
        }
    });
    let rows = rows(&session);
    assert_eq!(rows.len(), 18);
    assert!(rows.iter().all(|row| row["prompt"].is_string()));
    assert_eq!(session.json(&["checkpoints"])["failures"], json!([]));
    assert_eq!(session.json(&["checkpoints", "verify"])["whole"], true);
    assert_eq!(count_rows(&session, "SELECT count(*) FROM messages"), 18);
    // Each agent changed one file while the others were also working.
    let wrong: Vec<_> = rows.iter().filter(|row| row["files_changed"] != 1).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// The calls overlap and name the files that they change. No turn ends, so nothing runs in the
/// background.
#[test]
fn overlapping_calls_that_name_their_files_are_distinguished() {
    let session = Session::new();
    for number in 0..50 {
        session.write(&format!("f{number}"), "1");
    }
    thread::scope(|scope| {
        for number in 0..6 {
            let mut agent = Agent::new(&session, &format!("s{number}"));
            scope.spawn(move || {
                for turn in 0..3 {
                    agent.fields["turn"] = json!(turn);
                    agent.writes(&format!("f{number}"), &format!("changed {turn}"));
                }
            });
        }
    });
    let rows = rows(&session);
    let wrong: Vec<_> = rows.iter().filter(|row| row["files_changed"] != 1).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    for row in &rows {
        let undone = session.json(&["undo", "--turn", &row["number"].to_string(), "--dry-run"]);
        assert_eq!(undone["uncertain"], json!(null), "{row}");
    }
}

#[test]
fn nothing_is_lost_while_the_ledger_is_busy() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "2");
    let other = ledger(&session);
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    agent.hears("two");
    agent.writes("a", "3");
    agent.pretends("git push");
    agent.is_done();
    other.execute_batch("COMMIT").unwrap();
    // The hook for the next event adds the events in the spool to the ledger.
    agent.tell(json!({ "event": "session_start" }));
    eventually("both prompts", || count_rows(&session, "SELECT count(*) FROM messages") == 2);
    let rows = rows(&session);
    assert_eq!((&rows[0]["prompt"], steps(&rows[0]).len()), (&json!("two"), 2));
    let done = session.json(&["rollback", "1"]);
    assert_eq!((session.read("a"), &done["undone_messages"]), ("2".into(), &json!(1)));
    assert_eq!(done["effects"][0]["command"], "git push");
}

#[test]
fn with_a_broken_ledger_the_conversation_is_lost_but_no_file_is() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "2");
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(session.base().join(format!(".takeback/state.db{end}")));
    }
    fs::write(session.base().join(".takeback/state.db"), "x".repeat(10_000)).unwrap();
    let call = agent.call("Write", json!({ "path": "a" }));
    agent.report(json!({ "event": "turn_start", "prompt": "two" }));
    agent.report(call.event("before_tool"));
    session.write("a", "3");
    agent.report(call.event("after_tool"));
    assert_eq!(rows(&session).len(), 2);
    let output = session.output(&["rollback", "1"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(session.read("a"), "2");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the conversation is left unchanged"), "{said}");
    session.output(&["undo", "--turn", "2"]);
    assert_eq!(session.read("a"), "1");
}

#[test]
fn with_a_deleted_session_the_conversation_is_lost_but_no_file_is() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "2");
    assert!(session.output(&["sessions", "delete", "mine:s1", "--yes"]).status.success());
    assert_eq!(rows(&session)[0]["prompt"], json!(null));
    let done = session.json(&["rollback", "1"]);
    assert_eq!((session.read("a"), &done["undone_messages"]), ("1".into(), &json!(0)));
}

#[test]
fn a_workspace_has_the_same_history_if_it_is_reached_through_a_link() {
    let session = Session::new();
    session.write("a", "1");
    symlink(session.project(), session.base().join("link")).unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.cwd = session.base().join("link");
    agent.hears("one");
    let path = session.base().join("link/a").display().to_string();
    agent.writes(&path, "2");
    assert_eq!(rows(&session).len(), 1);
    let status = session.json(&["checkpoints"])["workspaces"].clone();
    assert_eq!(status.as_array().unwrap().len(), 1, "{status}");
    session.output(&["undo"]);
    assert_eq!(session.read("a"), "1");
}

#[test]
fn a_sessions_workspace_wins_over_repositories_inside_it() {
    let session = Session::new();
    fs::create_dir(session.project().join(".git")).unwrap();
    session.write("vendor/lib/code", "1");
    fs::create_dir(session.project().join("vendor/lib/.git")).unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.tell(json!({ "event": "session_start" }));
    agent.cwd = session.project().join("vendor/lib");
    agent.writes("code", "2");
    assert_eq!(rows(&session).len(), 1);
    session.output(&["rollback", "1"]);
    assert_eq!(session.read("vendor/lib/code"), "1");
}

#[test]
fn a_workspace_is_found_from_a_subdirectory() {
    let session = Session::new();
    session.write("package.json", "{}");
    session.write("src/deep/a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.cwd = session.project().join("src/deep");
    agent.writes("a", "2");
    assert_eq!(session.json(&["rollback"])["workspace"], json!(session.project()));
    let done = session.json(&["-C", "src/deep", "rollback", "1", "a"]);
    assert_eq!(
        (session.read("src/deep/a"), &done["restored"]),
        ("1".into(), &json!(["src/deep/a"]))
    );
}

/// A home directory is never captured as a whole, no matter what an agent reports.
#[test]
fn files_named_by_a_call_in_the_home_directory_are_protected() {
    let session = Session::new();
    fs::write(session.base().join("notes.txt"), "1").unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.cwd = session.base();
    let call = agent.call("Write", json!({ "path": "notes.txt" }));
    agent.report(call.event("before_tool"));
    fs::write(session.base().join("notes.txt"), "2").unwrap();
    agent.report(call.event("after_tool"));
    let there = session.json(&["-C", "../notes.txt", "rollback"]);
    assert_eq!(there["checkpoints"].as_array().map(Vec::len), Some(1), "{there}");
    session.output(&["-C", "../notes.txt", "rollback", "1"]);
    assert_eq!(fs::read_to_string(session.base().join("notes.txt")).unwrap(), "1");
}

/// If an agent that works in `~` names `project/a`, that project is protected.
#[test]
fn projects_named_by_a_call_in_the_home_directory_are_protected() {
    let session = Session::new();
    session.write("Makefile", "");
    session.write("src/a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.cwd = session.base();
    for (tool, input) in [
        ("Write", json!({ "path": "project/src/a" })),
        ("Bash", json!({ "command": "rm -rf project/src" })),
    ] {
        let call = agent.call(tool, input);
        agent.report(json!({ "event": "turn_start", "prompt": tool }));
        agent.report(call.event("before_tool"));
    }
    assert_eq!(rows(&session).len(), 2);
}

/// The work after the end of a turn runs in the background, and may not be finished when the next
/// turn begins.
#[test]
fn late_work_at_the_end_of_a_turn_does_not_affect_the_next_turn() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "b", "1");
    agent.hears("two");
    let ended = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let ended = (ended.as_millis() - 1).to_string();
    let call = agent.begins("Write", json!({ "path": "a" }));
    // Pretend that the process that `turn_end` started has not run until now.
    let tend = ["checkpoints", "tend", "--session", "mine:s1", "--ended", &ended];
    assert!(session.output(&tend).status.success());
    session.write("a", "2");
    agent.finishes(&call);
    let undone = session.json(&["undo"]);
    assert_eq!((session.read("a"), &undone["uncertain"]), ("1".into(), &json!(null)), "{undone}");
}

#[test]
fn undo_restores_directories_and_links_and_modes() {
    use std::os::unix::fs::PermissionsExt;
    let session = Session::new();
    session.write("dir/x", "1");
    session.write("script", "#!/bin/sh\n");
    session.write("target", "1");
    symlink("target", session.project().join("link")).unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.hears("mess");
    agent.runs("rm -r dir && mkdir -p made/deep && echo 1 > made/deep/y && chmod 755 script");
    agent.runs("rm link && echo file > link && mkdir empty");
    agent.is_done();
    session.write("made/mine", "a person's");
    let output = session.output(&["undo"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(
        (session.read("dir/x"), session.read("made/mine")),
        ("1".into(), "a person's".into())
    );
    assert!(!session.project().join("made/deep").exists());
    assert!(!session.project().join("empty").exists());
    assert_eq!(fs::read_link(session.project().join("link")).unwrap().to_str(), Some("target"));
    let mode = fs::metadata(session.project().join("script")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
}

#[test]
fn undo_does_not_touch_files_that_changed_after_the_turn_created_or_deleted_them() {
    let mut session = Session::new();
    session.write("moved", "1\n");
    session.write("gone", "1\n");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("rename");
    agent.runs("mv moved renamed; rm gone");
    agent.is_done();
    session.write("renamed", "1\nmine\n");
    session.write("gone", "anew\n");
    session.takeback(&["undo"]);
    session.assert(
        "
$ takeback undo
Restored:
  moved
Conflicts, not changed: edited since the turn (choose --theirs, --ours or --markers):
  gone  (deleted by the turn, recreated since)
  renamed  (created by the turn, changed since)
Restored 1 file. `takeback rollback undo` takes this back.
[exit Some(1)]
",
    );
    session.output(&["undo", "--theirs"]);
    assert_eq!((session.read("moved"), session.read("gone")), ("1\n".into(), "1\n".into()));
    assert!(!session.project().join("renamed").exists());
}

#[test]
fn a_session_that_resumes_after_its_end_starts_a_new_turn() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "1");
    agent.tell(json!({ "event": "session_end" }));
    agent.tell(json!({ "event": "session_start" }));
    agent.turn("two", "a", "2");
    let rows = rows(&session);
    let turns: Vec<_> = rows.iter().map(|row| (&row["turn"], &row["prompt"])).collect();
    assert_eq!(turns, [(&json!(2), &json!("two")), (&json!(1), &json!("one"))]);
}

/// Any report of new work reopens a session that has ended.
#[test]
fn a_resumed_session_no_longer_counts_as_ended() {
    let session = Session::new();
    let ended = || -> bool {
        let sql = "SELECT ended_at IS NOT NULL FROM sessions WHERE id = 'mine:s1'";
        ledger(&session).query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let mut agent = Agent::new(&session, "s1");
    agent.turn("one", "a", "1");
    agent.tell(json!({ "event": "session_end" }));
    assert!(ended());
    agent.hears("two");
    assert!(!ended());
    agent.tell(json!({ "event": "session_end" }));
    assert!(ended());
    // Not every agent reports prompts, so a tool call also reopens the session.
    agent.writes("a", "2");
    assert!(!ended());
    agent.tell(json!({ "event": "session_end" }));
    agent.tell(json!({ "event": "session_start" }));
    assert!(!ended(), "the session was resumed");
}

#[test]
fn a_session_without_prompts_starts_a_new_turn_when_it_resumes_after_its_end() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "s1");
    for content in ["1", "2"] {
        agent.writes("a", content);
        agent.is_done();
        agent.tell(json!({ "event": "session_end" }));
    }
    assert_eq!(rows(&session).len(), 2, "two turns, two rows");
}

#[test]
fn events_without_a_session_belong_to_one_session() {
    let session = Session::new();
    let cwd = session.project();
    for event in [
        json!({ "event": "turn_start", "prompt": "hello", "cwd": cwd }),
        json!({ "event": "before_tool", "tool": "x", "cwd": cwd }),
    ] {
        let output = hook(&session.base(), &["hook", "generic"], event.to_string().as_bytes());
        assert!(output.status.success() && output.stderr.is_empty());
    }
    let row = &rows(&session)[0];
    assert_eq!((&row["session"], &row["prompt"]), (&json!("generic:default"), &json!("hello")));
}

/// A path that a call names is captured even if the rules exclude it.
#[test]
fn a_path_named_by_a_call_is_protected_despite_the_rules() {
    let session = Session::new();
    session.write(".gitignore", ".env\ndata/\n");
    for path in [".env", "data/x", "node_modules/pkg/x"] {
        session.write(path, "1");
    }
    let mut agent = Agent::new(&session, "s1");
    agent.hears("change them");
    for path in [".env", "data/x", "node_modules/pkg/x"] {
        agent.writes(path, "2");
    }
    agent.is_done();
    session.write("mine", "1");
    let output = session.output(&["undo"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    for path in [".env", "data/x", "node_modules/pkg/x"] {
        assert_eq!(session.read(path), "1", "{path}");
    }
    assert_eq!(session.read("mine"), "1");
    session.output(&["rollback", "undo"]);
    for path in [".env", "data/x", "node_modules/pkg/x"] {
        assert_eq!(session.read(path), "2", "{path}");
    }
}

/// A patch in the generic format names its files. They are protected even if they are ignored or
/// outside the workspace, and an undo changes only these files.
#[test]
fn undoing_a_patch_restores_only_the_files_that_the_patch_names() {
    let patch = "*** Begin Patch\n*** Delete File: up/a\n*** Update File: ../notes.md\n@@\n-1\n+2\n*** End Patch\n";
    for (tool, input) in [
        ("apply_patch", json!({ "input": patch })),
        ("Bash", json!({ "command": format!("apply_patch <<'EOF'\n{patch}EOF") })),
        ("shell", json!({ "command": ["apply_patch", patch] })),
    ] {
        let session = Session::new();
        session.write(".gitignore", "up/\n");
        session.write("up/a", "1");
        session.write("mine", "1");
        session.write("../notes.md", "1");
        let mut agent = Agent::new(&session, "s1");
        agent.hears("patch it");
        let call = agent.call(tool, input);
        agent.tell(call.event("before_tool"));
        fs::remove_file(session.project().join("up/a")).unwrap();
        session.write("../notes.md", "2");
        session.write("mine", "the user's");
        agent.tell(call.event("after_tool"));
        agent.is_done();
        let output = session.output(&["undo"]);
        assert!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!((session.read("up/a"), session.read("../notes.md")), ("1".into(), "1".into()));
        assert_eq!(session.read("mine"), "the user's", "{tool}");
    }
}

#[test]
fn a_call_is_recorded_even_if_only_its_end_is_reported() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("one");
    let call = agent.call("Bash", json!({ "command": "git push" }));
    agent.tell(call.event("after_tool"));
    agent.is_done();
    assert!(rows(&session).is_empty());
    // The start of the call was not reported, so its effects are recorded when it ends.
    assert_eq!(count_rows(&session, "SELECT count(*) FROM effects"), 1);
}

#[test]
fn counts_include_paths_that_are_captured_only_because_a_call_named_them() {
    let session = Session::new();
    session.write("node_modules/pkg/x", "1\n");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("both");
    agent.writes("node_modules/pkg/x", "2\n");
    agent.runs("echo another > b");
    agent.is_done();
    let row = &rows(&session)[0];
    let counts = [&row["files_changed"], &row["insertions"], &row["deletions"]];
    assert_eq!(counts, [&json!(2), &json!(2), &json!(1)]);
}
