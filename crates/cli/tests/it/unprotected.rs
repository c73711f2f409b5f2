//! Paths that a command names are protected regardless of the rules. Unprotected paths are reported
//! immediately.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::agent::{Agent, configure, eventually, hook, noise, rows};
use crate::session::Session;

fn run_git(directory: &Path, arguments: &[&str]) {
    let mut git = Command::new("git");
    git.args([
        "-c",
        "user.name=me",
        "-c",
        "user.email=me@example.org",
        "-c",
        "init.defaultBranch=main",
    ]);
    let output = git.args(arguments).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Creates a repository with one commit.
fn make_repository(directory: &Path) {
    fs::create_dir_all(directory).unwrap();
    run_git(directory, &["init", "-q"]);
    fs::write(directory.join("code"), "1").unwrap();
    run_git(directory, &["add", "-A"]);
    run_git(directory, &["commit", "-qm", "one"]);
}

/// Lists the workspaces that have checkpoints, as paths relative to the project.
fn protected_places(session: &Session) -> Vec<String> {
    let status = session.json(&["checkpoints"]);
    let workspaces = status["workspaces"].as_array().unwrap();
    let paths = workspaces.iter().map(|known| known["path"].as_str().unwrap().to_owned());
    let project = session.project();
    let relative = |path: String| match Path::new(&path).strip_prefix(&project) {
        Ok(inner) => inner.display().to_string(),
        Err(_) => path,
    };
    let mut places: Vec<String> = paths.map(relative).collect();
    places.sort();
    places
}

#[test]
fn paths_that_a_command_names_are_restored_regardless_of_the_rules() {
    let session = Session::new();
    session.write(".gitignore", "uploads/\n*.bin\n*.sqlite\n");
    session.write("uploads/photo", "mine");
    fs::write(session.project().join("model.bin"), noise(1, 11 << 20)).unwrap();
    fs::write(session.project().join("dev.sqlite"), noise(2, 3 << 19)).unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.hears("tidy up");
    agent.runs("rm -rf uploads model.bin dev.sqlite");
    agent.is_done();
    session.json(&["rollback", "1"]);
    assert_eq!(session.read("uploads/photo"), "mine");
    assert!(fs::read(session.project().join("model.bin")).unwrap() == noise(1, 11 << 20));
    assert!(fs::read(session.project().join("dev.sqlite")).unwrap() == noise(2, 3 << 19));
}

#[test]
fn paths_that_a_later_call_names_are_restored_by_a_rollback_to_before_the_turn() {
    let session = Session::new();
    session.write(".gitignore", "uploads/\n*.bin\n");
    session.write("uploads/photo", "mine");
    session.write("uploads/deep/film", "mine");
    let model = session.project().join("model.bin");
    fs::write(&model, noise(1, 11 << 20)).unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.hears("begin");
    agent.writes("a", "1");
    agent.is_done();
    agent.hears("tidy up");
    agent.writes("b", "1");
    agent.writes("uploads/new", "the agent's");
    agent.writes("model.bin", "the agent's");
    agent.runs("rm -rf uploads");
    agent.writes("c", "1");
    agent.is_done();
    for row in ["1", "2"] {
        let dry = session.json(&["rollback", row, "--dry-run"]);
        assert!(dry["restored"].as_array().unwrap().contains(&json!("uploads/deep/film")), "{dry}");
        session.json(&["rollback", row]);
        assert_eq!(session.read("uploads/photo"), "mine");
        assert_eq!(session.read("uploads/deep/film"), "mine");
        assert!(fs::read(&model).unwrap() == noise(1, 11 << 20));
        assert!(!session.exists("uploads/new"), "the agent created it in the turn");
        session.json(&["rollback", "undo"]);
        assert!(!session.exists("uploads/photo"));
        assert_eq!(fs::read(&model).unwrap(), b"the agent's");
    }
}

#[test]
fn files_that_a_later_call_sweeps_are_restored_by_a_rollback_to_before_the_turn() {
    let session = Session::new();
    make_repository(&session.project());
    session.write(".gitignore", "uploads/\n");
    session.write("uploads/photo", "mine");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("tidy up");
    agent.writes("a", "1");
    agent.runs("git clean -fdxq");
    agent.is_done();
    assert!(!session.exists("uploads/photo"));
    session.json(&["rollback", "1"]);
    assert_eq!(session.read("uploads/photo"), "mine");
}

#[test]
fn an_ignored_file_that_an_earlier_rollback_changed_returns_to_the_chosen_moment() {
    let session = Session::new();
    session.write(".gitignore", "out/\n");
    session.write("a", "1");
    session.write("out/x", "1");
    let mut agent = Agent::new(&session, "s");
    agent.turn("change x", "out/x", "2");
    agent.turn("change a", "a", "2");
    let rows = rows(&session);
    let id = |row: usize| rows[row]["id"].as_str().unwrap();
    // So far, only the checkpoints of the first turn contain the ignored file.
    session.json(&["rollback", id(1)]);
    assert_eq!((session.read("a"), session.read("out/x")), ("1".into(), "1".into()));
    agent.turn("change x again", "out/x", "3");
    let done = session.json(&["rollback", id(0)]);
    assert_eq!(session.read("out/x"), "2", "{done:#}");
    session.json(&["rollback", "undo"]);
    assert_eq!(session.read("out/x"), "3");
}

#[test]
fn a_rollback_to_before_a_call_does_not_restore_an_ignored_file_that_the_call_created() {
    let session = Session::new();
    let mut agent = Agent::new(&session, "s1");
    agent.hears("build it");
    agent.writes("dist/first", "the agent's");
    session.write("mine", "1");
    agent.writes("dist/second", "the agent's");
    agent.writes("a", "1");
    agent.is_done();
    let rows = session.json(&["list", "--steps"]);
    let before_second = rows["checkpoints"][0]["steps"][1]["id"].as_str().unwrap();
    session.json(&["rollback", "1"]);
    let answer = session.json(&["rollback", before_second]);
    assert!(!session.exists("a"), "{answer}");
    assert!(!session.exists("dist/second"), "{answer}");
}

#[test]
fn a_file_that_exceeded_the_budget_is_restored_if_a_later_call_captured_it() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_named_mb = 1\ntimeout_ms = 600000\n");
    session.write(".gitignore", "uploads/\n");
    let large = "x".repeat(700 << 10);
    for name in ["first", "second"] {
        session.write(&format!("uploads/{name}"), &large);
    }
    let mut agent = Agent::new(&session, "s1");
    agent.hears("tidy up");
    // The budget has room for only one of the files. The call fails, and both files remain.
    let call = agent.call("Bash", json!({ "command": "rm -rf uploads" }));
    agent.report(call.event("before_tool"));
    agent.tell(call.event("after_tool"));
    for name in ["first", "second"] {
        agent.runs(&format!("rm uploads/{name}"));
    }
    agent.is_done();
    session.json(&["rollback", "1"]);
    assert_eq!(session.read("uploads/first"), large);
    assert_eq!(session.read("uploads/second"), large);
}

#[test]
fn a_step_with_the_only_copy_of_a_path_is_pruned_only_together_with_its_turn() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_snapshots = 2\n");
    session.write(".gitignore", "uploads/\n");
    session.write("uploads/photo", "mine");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("tidy up");
    agent.writes("a", "1");
    agent.runs("rm -rf uploads");
    agent.writes("a", "2");
    agent.is_done();
    agent.hears("go on");
    for content in ["3", "4", "5", "6"] {
        agent.writes("a", content);
    }
    agent.is_done();
    session.json(&["checkpoints", "prune"]);
    assert_eq!(rows(&session).len(), 2);
    session.json(&["rollback", "2"]);
    assert_eq!(session.read("uploads/photo"), "mine");
}

#[test]
fn a_small_regenerable_directory_is_restored_if_it_is_named() {
    let session = Session::new();
    session.write("build/notes", "mine");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("tidy up");
    agent.runs("rm -rf build");
    session.json(&["rollback", "1"]);
    assert_eq!(session.read("build/notes"), "mine");
}

#[test]
fn repositories_below_a_named_directory_are_protected() {
    let session = Session::new();
    make_repository(&session.project().join("lib"));
    make_repository(&session.project().join("vendor/deep/other"));
    let mut agent = Agent::new(&session, "s1");
    agent.hears("tidy up");
    agent.begins("Bash", json!({ "command": "ls lib && touch lib/x" }));
    assert_eq!(protected_places(&session), [""]);
    agent.begins("Bash", json!({ "command": "rm -rf lib vendor" }));
    assert_eq!(protected_places(&session), ["", "lib/.git", "vendor/deep/other/.git"]);
}

#[test]
fn the_repository_of_the_workspace_is_protected_if_it_is_named() {
    let session = Session::new();
    make_repository(&session.project());
    // The name of this branch matches a built-in exclude pattern.
    run_git(&session.project(), &["branch", "build/one"]);
    let mut agent = Agent::new(&session, "s1");
    agent.hears("start again");
    agent.begins("Bash", json!({ "command": "git status && touch x" }));
    assert_eq!(protected_places(&session), [""]);
    agent.begins("Bash", json!({ "command": "rm -rf .git" }));
    assert_eq!(protected_places(&session), ["", ".git"]);
    let store = session.base().join(".takeback/checkpoints/store");
    let listed = Command::new("git")
        .args(["--git-dir"])
        .arg(&store)
        .args(["log", "--all", "--format=%T"])
        .output()
        .unwrap();
    let trees = String::from_utf8(listed.stdout).unwrap();
    let has_branch = trees.lines().any(|tree| {
        let mut git = Command::new("git");
        git.arg("--git-dir").arg(&store).args(["ls-tree", "-r", "--name-only", tree]);
        let names = String::from_utf8(git.output().unwrap().stdout).unwrap();
        names.lines().any(|name| name == "refs/heads/build/one")
    });
    assert!(has_branch, "{trees}");
}

/// Creates a project whose repository is too large for the budget.
fn with_large_repository() -> Session {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_named_mb = 0\n");
    make_repository(&session.project());
    session
}

#[test]
fn unprotected_paths_are_reported_once_per_session_and_cause() {
    let session = with_large_repository();
    let mut agent = Agent::new(&session, "s1");
    let call = agent.call("Bash", json!({ "command": "rm -rf .git" }));
    let said = agent.report(call.event("before_tool"));
    let expected = "/.git: this repository does not fit into max_named_mb (0 MiB)\n";
    assert!(said.starts_with("takeback: ") && said.ends_with(expected), "{said}");
    let call = agent.call("Bash", json!({ "command": "rm -rf .git" }));
    assert_eq!(agent.report(call.event("before_tool")), "");
    let mut other = Agent::new(&session, "s2");
    let call = other.call("Bash", json!({ "command": "rm -rf .git" }));
    assert!(!other.report(call.event("before_tool")).is_empty());
    // The warning is also recorded as a failure, which `status` shows.
    let status = String::from_utf8(session.output(&["status"]).stdout).unwrap();
    assert!(status.contains("not protected: "), "{status}");
}

#[test]
fn in_strict_mode_an_unprotected_call_is_refused_every_time() {
    let session = with_large_repository();
    let mut agent = Agent::new(&session, "s1");
    for _ in 0..2 {
        let call = agent.call("Bash", json!({ "command": "rm -rf .git" }));
        let event = agent.event(call.event("before_tool"));
        let output = hook(&session.base(), &["hook", "generic", "--strict"], &event);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8(output.stderr).unwrap().contains("max_named_mb"));
    }
}

#[test]
fn the_agent_shows_unprotected_paths() {
    let session = with_large_repository();
    let payload = |command: &str| {
        json!({
            "session_id": "s", "hook_event_name": "PreToolUse", "cwd": session.project(),
            "tool_name": "Bash", "tool_use_id": command, "tool_input": { "command": command },
        })
    };
    let run = |command: &str| {
        let event = payload(command).to_string();
        let output = hook(&session.base(), &["hook", "claude"], event.as_bytes());
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(run("touch x"), "");
    let answer: Value = serde_json::from_str(&run("rm -rf .git")).unwrap();
    let shown = answer["systemMessage"].as_str().unwrap();
    assert!(shown.starts_with("takeback cannot take back everything"), "{shown}");
    assert!(shown.contains("max_named_mb"), "{shown}");
    assert_eq!(answer.as_object().unwrap().len(), 1, "{answer}");
    assert_eq!(run("rm -rf .git"), "");
}

#[test]
fn with_too_many_files_only_named_paths_are_protected_and_the_user_is_told() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_files = 5\n");
    for number in 0..8 {
        session.write(&format!("f{number}"), "mine");
    }
    session.write(".gitignore", "uploads/\n");
    session.write("uploads/photo", "mine");
    let mut agent = Agent::new(&session, "s1");
    // A file tool changes only the file that it names.
    agent.begins("Write", json!({ "path": "f1", "content": "" }));
    assert_eq!(rows(&session).len(), 1);
    let call = agent.call("Bash", json!({ "command": "rm -rf uploads f2" }));
    let said = agent.report(call.event("before_tool"));
    assert!(said.contains("more than 5 files"), "{said}");
    fs::remove_dir_all(session.project().join("uploads")).unwrap();
    fs::remove_file(session.project().join("f2")).unwrap();
    configure(&session, "");
    session.write("f1", "the agent's");
    session.json(&["rollback", "1"]);
    assert_eq!((session.read("uploads/photo"), session.read("f2")), ("mine".into(), "mine".into()));
    assert_eq!(session.read("f1"), "mine");
}

#[test]
fn named_paths_are_protected_even_if_the_workspace_exceeds_the_size_cap() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_total_size_mb = 1\n");
    let other = session.base().join("other");
    fs::create_dir(&other).unwrap();
    for number in ["1", "2", "3"] {
        fs::write(other.join("a"), number).unwrap();
        session.json(&["-C", "../other", "checkpoint"]);
    }
    for number in 0..3 {
        fs::write(session.project().join(format!("n{number}")), noise(number, 1 << 20)).unwrap();
    }
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("work");
    // A file tool changes only the file that it names.
    agent.begins("Write", json!({ "path": "a", "content": "" }));
    assert_eq!(rows(&session).len(), 1);
    let mut run = |command: &str| {
        let call = agent.call("Bash", json!({ "command": command }));
        agent.report(call.event("before_tool"))
    };
    let said = run("make && rm a");
    assert!(said.contains("need more than 1 MiB, the limit for the whole store"), "{said}");
    fs::remove_file(session.project().join("a")).unwrap();
    session.json(&["checkpoints", "prune"]);
    assert_eq!(
        session.json(&["-C", "../other", "list"])["checkpoints"].as_array().unwrap().len(),
        3
    );
    session.json(&["rollback", "1"]);
    assert_eq!(session.read("a"), "1");
}

#[test]
fn files_that_a_sweep_deletes_are_restored_unless_they_can_be_regenerated() {
    let session = Session::new();
    make_repository(&session.project());
    session.write(".gitignore", "uploads/\n*.bin\nnode_modules/\n");
    session.write("uploads/photo", "mine");
    fs::write(session.project().join("model.bin"), noise(1, 11 << 20)).unwrap();
    session.write("node_modules/x/index.js", "theirs");
    session.write("untracked", "mine");
    let mut agent = Agent::new(&session, "s1");
    agent.report(json!({ "event": "turn_start", "prompt": "tidy up" }));
    let call = agent.call("Bash", json!({ "command": "git clean -fdxq" }));
    let said = agent.report(call.event("before_tool"));
    assert!(
        said.contains("/node_modules: no copy is kept, because it can be regenerated"),
        "{said}"
    );
    run_git(&session.project(), &["clean", "-fdxq"]);
    agent.finishes(&call);
    assert!(!session.exists("uploads") && !session.exists("untracked"));
    session.json(&["rollback", "1"]);
    assert_eq!(
        (session.read("uploads/photo"), session.read("untracked")),
        ("mine".into(), "mine".into())
    );
    assert!(fs::read(session.project().join("model.bin")).unwrap() == noise(1, 11 << 20));
    assert!(!session.exists("node_modules"));
}

#[test]
fn swept_files_are_deleted_again_when_their_restore_is_undone() {
    for way_back in [&["rollback", "1"][..], &["undo"]] {
        let session = Session::new();
        make_repository(&session.project());
        session.write(".gitignore", "uploads/\n*.bin\n");
        session.write("uploads/more/photo", "mine");
        session.write("uploads/list", "mine");
        session.write("model.bin", "mine");
        let mut agent = Agent::new(&session, "s1");
        agent.hears("tidy up");
        agent.runs("git clean -fdxq");
        agent.is_done();
        let back = session.json(way_back);
        assert_eq!(session.read("uploads/more/photo"), "mine", "{back:#}");
        session.write("uploads/new", "written since");
        let undone = session.json(&["rollback", "undo"]);
        assert!(!session.exists("uploads/more") && !session.exists("uploads/list"), "{undone:#}");
        assert!(!session.exists("model.bin"), "{undone:#}");
        assert_eq!(session.read("uploads/new"), "written since");
        session.json(&["rollback", "redo"]);
        assert_eq!(session.read("uploads/more/photo"), "mine");
        assert_eq!(
            (session.read("uploads/list"), session.read("model.bin")),
            ("mine".into(), "mine".into())
        );
    }
}

#[test]
fn files_spared_by_a_sweep_stay_when_the_restore_is_undone() {
    let session = Session::new();
    make_repository(&session.project());
    session.write(".gitignore", "*.bin\n");
    run_git(&session.project(), &["add", ".gitignore"]);
    fs::write(session.project().join("model.bin"), noise(1, 2 << 20)).unwrap();
    session.write("untracked", "mine");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("tidy up");
    agent.runs("git clean -fdxq -e model.bin");
    agent.is_done();
    for arguments in [["rollback", "1"], ["rollback", "undo"], ["rollback", "redo"]] {
        let done = session.json(&arguments);
        assert!(session.exists("model.bin"), "{done:#}");
    }
    assert_eq!(session.read("untracked"), "mine");
}

#[test]
fn ignored_files_that_git_overwrites_come_back() {
    for command in ["git checkout -q other", "git merge -q other", "git reset -q --hard other"] {
        let session = Session::new();
        let project = session.project();
        make_repository(&project);
        session.write(".gitignore", "*.local\n");
        run_git(&project, &["add", ".gitignore"]);
        run_git(&project, &["commit", "-qm", "rules"]);
        run_git(&project, &["checkout", "-qb", "other"]);
        session.write("settings.local", "theirs");
        run_git(&project, &["add", "-f", "settings.local"]);
        run_git(&project, &["commit", "-qm", "theirs"]);
        run_git(&project, &["checkout", "-q", "-"]);
        session.write("settings.local", "mine");
        session.write("also.local", "mine");
        let mut agent = Agent::new(&session, "s1");
        agent.hears("switch");
        agent.runs(command);
        agent.is_done();
        assert_eq!(session.read("settings.local"), "theirs", "{command}");
        session.write("also.local", "edited since");
        let back = session.json(&["rollback", "1"]);
        assert_eq!(session.read("settings.local"), "mine", "{command}: {back:#}");
        assert_eq!(session.read("also.local"), "edited since");
        session.json(&["rollback", "undo"]);
        assert_eq!(session.read("settings.local"), "theirs", "{command}");
    }
}

#[test]
fn a_repository_that_a_sweep_deletes_is_restored() {
    let session = Session::new();
    make_repository(&session.project());
    make_repository(&session.project().join("lib"));
    let mut agent = Agent::new(&session, "s1");
    agent.hears("tidy up");
    agent.runs("git clean -ffdxq");
    agent.is_done();
    assert!(!session.exists("lib"));
    session.json(&["rollback", "1"]);
    run_git(&session.project().join("lib"), &["--git-dir", ".git", "fsck", "--strict"]);
    assert_eq!(protected_places(&session), ["", "lib/.git"]);
}

#[test]
fn files_over_the_budget_are_reported() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_named_mb = 1\n");
    session.write(".gitignore", "uploads/\n");
    fs::create_dir(session.project().join("uploads")).unwrap();
    fs::write(session.project().join("uploads/large"), noise(1, 2 << 20)).unwrap();
    session.write("uploads/small", "mine");
    let mut agent = Agent::new(&session, "s1");
    let call = agent.call("Bash", json!({ "command": "rm -rf uploads" }));
    let said = agent.report(call.event("before_tool"));
    assert!(
        said.contains("uploads/large: it is 2 MiB, and max_named_mb allows 1 per call"),
        "{said}"
    );
    assert!(!said.contains("small"), "{said}");
    // This file cannot be regenerated, so the call is refused.
    let event = agent.event(call.event("before_tool"));
    let output = hook(&session.base(), &["hook", "generic", "--strict"], &event);
    assert_eq!(output.status.code(), Some(1));
    fs::remove_dir_all(session.project().join("uploads")).unwrap();
    session.json(&["rollback", "1"]);
    assert_eq!(session.read("uploads/small"), "mine");
}

#[test]
fn a_call_that_names_too_many_files_is_reported() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_files = 5\n");
    session.write(".gitignore", "uploads/\n");
    for number in 0..70 {
        session.write(&format!("uploads/{number}"), "mine");
    }
    let mut agent = Agent::new(&session, "s1");
    let call = agent.call("Bash", json!({ "command": "rm -rf uploads" }));
    let said = agent.report(call.event("before_tool"));
    let expected = "in total, the call names more than max_named_mb (512 MiB) or max_files (5)";
    assert_eq!(said.matches(expected).count(), 50, "{said}");
    assert!(said.ends_with("takeback: and 15 more\n"), "{said}");
}

#[test]
fn a_file_that_is_too_large_is_reported_even_outside_the_workspace() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_named_mb = 1\n");
    session.write("a", "1");
    let film = session.base().join("film");
    fs::write(&film, noise(1, 11 << 20)).unwrap();
    let mut agent = Agent::new(&session, "s1");
    let call = agent.call("Bash", json!({ "command": "rm ../film" }));
    let said = agent.report(call.event("before_tool"));
    assert!(said.contains("/film: it is 11 MiB, and max_named_mb allows 1 per call"), "{said}");
    let event = agent.event(call.event("before_tool"));
    let output = hook(&session.base(), &["hook", "generic", "--strict"], &event);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn strict_mode_lets_calls_delete_regenerable_files() {
    let session = Session::new();
    session.write(".gitignore", "node_modules/\n");
    session.write("Makefile", "");
    session.write("node_modules/x/index.js", "theirs");
    let mut agent = Agent::new(&session, "s1");
    let call = agent.call("Bash", json!({ "command": "git clean -fdx" }));
    let event = agent.event(call.event("before_tool"));
    let output = hook(&session.base(), &["hook", "generic", "--strict"], &event);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn the_list_names_repositories_inside_the_workspace() {
    let session = Session::new();
    make_repository(&session.project());
    make_repository(&session.project().join("lib"));
    let mut agent = Agent::new(&session, "s1");
    agent.tell(json!({ "event": "session_start" }));
    agent.turn("one", "a", "1");
    eventually("the workspace is warm", || {
        session.json(&["list"])["repositories"] == json!(["lib"])
    });
    let listed = String::from_utf8(session.output(&["list"]).stdout).unwrap();
    assert!(listed.contains("Nested repositories") && listed.contains("  lib"), "{listed}");
}

#[test]
fn a_command_that_deletes_unknown_files_is_reported() {
    let session = Session::new();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    let call = agent.call("Bash", json!({ "command": "rm -rf \"$DIR\"" }));
    let said = agent.report(call.event("before_tool"));
    assert!(
        said.contains("the files that `rm -rf \"$DIR\"` deletes are not known in advance"),
        "{said}"
    );
    let event = agent.event(call.event("before_tool"));
    let output = hook(&session.base(), &["hook", "generic", "--strict"], &event);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn files_in_one_directory_outside_the_workspace_are_protected_together() {
    let session = Session::new();
    let photos = session.base().join("photos");
    fs::create_dir(&photos).unwrap();
    for number in 0..40 {
        fs::write(photos.join(format!("{number}.jpg")), number.to_string()).unwrap();
    }
    fs::write(photos.join("other"), "stays").unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.hears("tidy up");
    agent.runs("rm ~/photos/*.jpg");
    agent.is_done();
    assert_eq!(fs::read_dir(&photos).unwrap().count(), 1);
    let back = session.json(&["-C", photos.to_str().unwrap(), "rollback", "1"]);
    assert_eq!(fs::read_dir(&photos).unwrap().count(), 41, "{back}");
    assert_eq!(fs::read_to_string(photos.join("7.jpg")).unwrap(), "7");
}

#[test]
fn large_and_ignored_files_in_a_named_directory_outside_the_workspace_are_restored() {
    let session = Session::new();
    let media = session.base().join("media");
    fs::create_dir_all(media.join("raw")).unwrap();
    fs::write(media.join(".gitignore"), "raw\n").unwrap();
    fs::write(media.join("raw/photo"), "mine").unwrap();
    fs::write(media.join("film"), noise(1, 11 << 20)).unwrap();
    session.write("new/film", "theirs");
    session.write("new/raw/photo", "theirs");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("unpack it");
    agent.runs("tar -cf new.tar -C new . && tar -xf new.tar -C ../media");
    agent.is_done();
    assert_eq!(fs::read_to_string(media.join("film")).unwrap(), "theirs");
    session.json(&["rollback", "1"]);
    assert!(fs::read(media.join("film")).unwrap() == noise(1, 11 << 20));
    assert_eq!(fs::read_to_string(media.join("raw/photo")).unwrap(), "mine");
}

#[test]
fn the_link_from_a_submodule_to_its_repository_is_reported() {
    let session = Session::new();
    make_repository(&session.project());
    session.write("sub/.git", "gitdir: ../.git/modules/sub\n");
    session.write("sub/code", "1");
    let mut agent = Agent::new(&session, "s1");
    let call = agent.call("Bash", json!({ "command": "rm -rf sub" }));
    let said = agent.report(call.event("before_tool"));
    assert!(said.contains("/sub/.git: this file only points to the repository"), "{said}");
    assert!(said.contains("write `gitdir: ../.git/modules/sub`"), "{said}");
}

#[test]
fn repositories_beyond_the_limit_are_reported() {
    let session = Session::new();
    // On a busy machine, the capture may take longer than an agent usually waits.
    configure(&session, "[checkpoints]\ntimeout_ms = 60000\n");
    for number in 0..18 {
        session.write(&format!("lib/{number}/.git/HEAD"), "ref: refs/heads/main\n");
    }
    let mut agent = Agent::new(&session, "s1");
    let call = agent.call("Bash", json!({ "command": "rm -rf lib" }));
    let said = agent.report(call.event("before_tool"));
    assert_eq!(said.matches("the call deletes more than 16 repositories").count(), 2, "{said}");
}

#[test]
fn the_history_of_a_deleted_repository_is_restored() {
    let session = Session::new();
    let places = [session.project(), session.project().join("lib")];
    let log = |place: &Path| {
        let mut git = Command::new("git");
        git.args(["log", "--all", "--format=%H %D"]).current_dir(place);
        String::from_utf8(git.output().unwrap().stdout).unwrap()
    };
    for place in &places {
        make_repository(place);
        run_git(place, &["branch", "build/one"]);
    }
    let logs = places.each_ref().map(|place| log(place));
    let mut agent = Agent::new(&session, "s1");
    agent.hears("start again");
    agent.runs("rm -rf .git lib");
    agent.is_done();
    let done = session.json(&["rollback", "1"]);
    assert_eq!((&done["repository"], &done["warnings"]), (&Value::Null, &json!([])), "{done:#}");
    assert_eq!(done["effects"], json!([]));
    assert_eq!(places.each_ref().map(|place| log(place)), logs);
    for place in &places {
        run_git(place, &["fsck", "--strict"]);
    }
    let back = session.json(&["rollback", "undo"]);
    assert_eq!((&back["kept"], &back["deleted"]), (&json!([]), &json!(["lib", "lib/code"])));
    assert!(!session.project().join(".git").exists() && !session.project().join("lib").exists());
    session.json(&["undo"]);
    assert_eq!(places.each_ref().map(|place| log(place)), logs);
}

/// The text of these calls does not say that they delete or move a directory.
#[test]
fn the_history_of_a_repository_is_restored_after_a_hidden_deletion() {
    for script in [
        "sh wipe",
        "make tidy",
        "python3 -c \"import shutil; shutil.move('lib', '../gone')\"",
        "python3 -u wipe.py",
        "npx del-cli lib",
    ] {
        let session = Session::new();
        session.write("wipe", "rm -rf lib\n");
        session.write("wipe.py", "import shutil\nshutil.rmtree('lib')\n");
        session.write("Makefile", "tidy:\n\trm -rf lib\n");
        let lib = session.project().join("lib");
        make_repository(&lib);
        let mut agent = Agent::new(&session, "s1");
        agent.hears("start again");
        let call = agent.call("Bash", json!({ "command": script }));
        agent.tell(call.event("before_tool"));
        fs::remove_dir_all(&lib).unwrap();
        agent.tell(call.event("after_tool"));
        agent.is_done();
        session.json(&["rollback", "1"]);
        run_git(&lib, &["fsck", "--strict"]);
        run_git(&lib, &["log", "-1"]);
    }
}

#[test]
fn a_plan_names_directories_that_are_deleted_with_their_repositories() {
    let session = Session::new();
    make_repository(&session.project().join("vendor/lib"));
    let mut agent = Agent::new(&session, "s1");
    agent.hears("start again");
    agent.runs("rm -rf vendor");
    agent.is_done();
    session.json(&["rollback", "1"]);
    let planned = session.json(&["rollback", "undo", "--dry-run"]);
    let back = session.json(&["rollback", "undo"]);
    let expected = json!(["vendor", "vendor/lib", "vendor/lib/code"]);
    assert_eq!((&back["kept"], &back["deleted"]), (&json!([]), &expected), "{back:#}");
    assert_eq!((&planned["kept"], &planned["deleted"]), (&json!([]), &expected), "{planned:#}");
    assert!(!session.project().join("vendor").exists());
}

#[test]
fn restoring_one_directory_also_restores_its_deleted_repository() {
    let session = Session::new();
    for place in ["lib", "other"] {
        make_repository(&session.project().join(place));
    }
    let mut agent = Agent::new(&session, "s1");
    agent.hears("start again");
    agent.runs("rm -rf lib other");
    agent.is_done();
    let done = session.json(&["rollback", "1", "lib"]);
    assert_eq!(done["elsewhere"].as_array().map(Vec::len), Some(1), "{done:#}");
    run_git(&session.project().join("lib"), &["fsck", "--strict"]);
    assert!(!session.project().join("other").exists());
    session.json(&["rollback", "undo"]);
    assert!(!session.project().join("lib").exists());
}

#[test]
fn an_agent_over_rpc_is_told_about_unprotected_paths() {
    let session = Session::new();
    session.write("a", "1");
    let request = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tool.before", "params": {
            "agent": "mine", "session": "1", "call": "c", "tool": "bash",
            "input": { "command": "rm -rf \"$DIR\"" },
        },
    });
    let output = hook(&session.base(), &["rpc"], format!("{request}\n").as_bytes());
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = json!([{
        "path": session.project(),
        "reason": "the files that `rm -rf \"$DIR\"` deletes are not known in advance",
        "replaceable": false,
    }]);
    assert_eq!(answer["result"]["unprotected"], expected, "{answer}");
}

#[test]
fn agents_that_read_json_are_told_that_strict_mode_refuses_a_call() {
    let session = Session::new();
    session.write("a", "1");
    configure(&session, "[checkpoints]\nstrict = true\n");
    for (number, (command, is_refused)) in
        [("rm -rf \"$DIR\"", true), ("rm -rf node_modules", false), ("touch b", false)]
            .into_iter()
            .enumerate()
    {
        let mut params = json!({
            "agent": "mine", "session": "1", "call": number, "tool": "bash",
            "input": { "command": command },
        });
        let request =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tool.before", "params": params });
        let output = hook(&session.base(), &["rpc"], format!("{request}\n").as_bytes());
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["result"]["refused"], is_refused, "{command}: {answer}");

        params["event"] = "before_tool".into();
        params["cwd"] = json!(session.project());
        let event = params.to_string();
        let output = hook(&session.base(), &["hook", "generic", "--json"], event.as_bytes());
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["refused"], is_refused, "{command}: {answer}");
        assert_eq!(output.status.code(), Some(i32::from(is_refused)), "{command}");
    }
}
