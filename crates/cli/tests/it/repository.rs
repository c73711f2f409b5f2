//! The workspace's own repository, checked with git, and diffs that git can apply.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::agent::{Agent, everything, rows};
use crate::session::Session;

/// Runs git in the project and returns its output.
fn git(session: &Session, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=x", "-c", "user.email=x@y", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(session.project())
        .env("HOME", session.base())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Creates a repository with a commit, a staged change and an unstaged change.
fn repository() -> Session {
    let session = Session::new();
    git(&session, &["init", "-q"]);
    session.write("staged", "1\n");
    session.write("plain", "1\n");
    git(&session, &["add", "-A"]);
    git(&session, &["commit", "-q", "-m", "first"]);
    session.write("staged", "2\n");
    git(&session, &["add", "staged"]);
    session.write("plain", "2\n");
    session
}

#[test]
fn staged_changes_come_back_only_on_request() {
    let session = repository();
    let staged = git(&session, &["diff", "--cached"]);
    let mut agent = Agent::new(&session, "s1");
    agent.hears("clean up");
    agent.runs("git -c user.name=x -c user.email=x@y stash -q");
    agent.is_done();
    assert_eq!(session.read("plain"), "1\n");
    let index = fs::read(session.project().join(".git/index")).unwrap();
    let done = session.json(&["rollback", "1"]);
    assert_eq!((session.read("plain"), session.read("staged")), ("2\n".into(), "2\n".into()));
    assert_eq!(done["index"], false);
    assert_eq!(fs::read(session.project().join(".git/index")).unwrap(), index);
    session.output(&["rollback", "undo"]);
    let done = session.json(&["rollback", "1", "--index"]);
    assert_eq!(done["index"], true);
    assert_eq!(git(&session, &["diff", "--cached"]), staged);
    assert_eq!(git(&session, &["status", "--porcelain"]), " M plain\nM  staged\n");
    assert_eq!(git(&session, &["fsck", "--strict"]), "");
    session.output(&["rollback", "undo"]);
    assert_eq!(git(&session, &["diff", "--cached"]), "", "the undo also restores the index");
}

#[test]
fn nothing_else_in_the_repository_is_ever_written() {
    let session = repository();
    session.output(&["checkpoint"]);
    session.write("plain", "3\n");
    let before: Vec<_> = everything(&session.project().join(".git"));
    session.output(&["rollback", "1"]);
    assert!(everything(&session.project().join(".git")) == before);
    session.output(&["rollback", "1", "--index"]);
    let after = everything(&session.project().join(".git"));
    let is_index = |path: &std::path::Path| path.ends_with("index");
    let rest = |all: &[(std::path::PathBuf, u32, Vec<u8>)]| {
        all.iter().filter(|(path, ..)| !is_index(path)).cloned().collect::<Vec<_>>()
    };
    assert!(rest(&after) == rest(&before));
}

#[test]
fn a_rollback_says_that_head_moved_and_how_to_go_back() {
    let session = repository();
    let then = git(&session, &["rev-parse", "HEAD"]).trim().to_owned();
    let mut agent = Agent::new(&session, "s1");
    agent.hears("commit it");
    agent.runs("git -c user.name=x -c user.email=x@y commit -qam second");
    agent.runs("git checkout -q -b other");
    agent.is_done();
    let done = session.json(&["rollback", "1"]);
    assert_eq!(done["repository"]["then"]["commit"], json!(then));
    let command = done["repository"]["command"].as_str().unwrap().to_owned();
    let status = git(&session, &["status", "--porcelain"]);
    assert_eq!(git(&session, &["branch", "--show-current"]), "other\n", "{status}");
    let mut shell = Command::new("/bin/sh");
    assert!(
        shell.args(["-c", &command]).current_dir(session.project()).status().unwrap().success()
    );
    assert_eq!(git(&session, &["rev-parse", "HEAD"]).trim(), then);
    assert_eq!(git(&session, &["branch", "--show-current"]), "main\n");
    assert_eq!((session.read("plain"), session.read("staged")), ("2\n".into(), "2\n".into()));
}

#[test]
fn without_a_repository_there_is_no_index() {
    let mut session = Session::new();
    session.write("a", "1");
    session.output(&["checkpoint"]);
    session.write("a", "2");
    session.takeback(&["rollback", "1", "--index"]);
    assert_eq!(session.read("a"), "2");
    session.assert(
        "
$ takeback rollback 1 --index
! error: checkpoint <id> has no copy of the repository's index
! hint: drop --index
[exit Some(1)]
",
    );
}

#[test]
fn git_applies_the_diff_of_a_checkpoint() {
    let session = repository();
    session.write("gone", "1\n2\n");
    session.write("name with space", "1\n");
    session.output(&["checkpoint"]);
    session.write("plain", "2\nmore\n");
    fs::remove_file(session.project().join("gone")).unwrap();
    session.write("new/file", "no end of line");
    session.write("name with space", "2\n");
    let before = everything(&session.project());
    let diff = session.json(&["rollback", "diff", "1"]);
    assert_eq!((&diff["files_changed"], &diff["left_out"]), (&json!(4), &json!(0)));
    fs::write(session.base().join("patch"), diff["diff"].as_str().unwrap()).unwrap();
    session.output(&["rollback", "1"]);
    git(&session, &["apply", "../patch"]);
    assert!(everything(&session.project()) == before);
}

#[test]
fn a_diff_is_shortened_without_the_option_full() {
    let session = Session::new();
    session.write("a", "");
    session.write("b", "");
    session.output(&["checkpoint"]);
    let many: String = (0..200).map(|number| format!("{number}\n")).collect();
    session.write("a", &many);
    session.write("b", "1\n");
    let text = |arguments: &[&str]| String::from_utf8(session.output(arguments).stdout).unwrap();
    let short = text(&["rollback", "diff", "1"]);
    assert!(short.starts_with("2 files, +201/−0 since "), "{short}");
    assert!(short.lines().count() < 95 && short.contains("--full"), "{short}");
    assert!(text(&["rollback", "diff", "1", "--full"]).contains("\n+199\n"));
    let only = text(&["rollback", "diff", "1", "b"]);
    assert!(only.starts_with("1 file, +1/−0 since ") && !only.contains("a/a"), "{only}");
    assert_eq!(rows(&session).len(), 1, "a diff makes no row");
}

/// As in a rollback, a mistyped path must not make it look as if nothing had changed.
#[test]
fn a_diff_of_an_unknown_path_fails() {
    let session = Session::new();
    session.write("a", "1");
    session.output(&["checkpoint"]);
    session.write("a", "2");
    assert_eq!(session.output(&["rollback", "1", "mistyped"]).status.code(), Some(1));
    assert_eq!(session.output(&["rollback", "diff", "1", "mistyped"]).status.code(), Some(1));
}

/// The checkpoint contains the file only because a call named it: the rules exclude it.
#[test]
fn a_diff_includes_files_that_are_captured_only_because_a_call_named_them() {
    let session = Session::new();
    session.write("node_modules/pkg/x", "1\n");
    let mut agent = Agent::new(&session, "s1");
    agent.writes("node_modules/pkg/x", "2\n");
    let diff = session.json(&["rollback", "diff", "1"]);
    assert_eq!((&diff["insertions"], &diff["deletions"]), (&json!(1), &json!(1)), "{diff}");
    session.output(&["rollback", "1"]);
    assert_eq!(session.read("node_modules/pkg/x"), "1\n");
    session.output(&["rollback", "undo"]);
    assert_eq!(session.read("node_modules/pkg/x"), "2\n");
}

/// In the hook state, the checkpoint that holds the copy of the index is identified only by its
/// number. Once this checkpoint is pruned, another one can get the same number.
#[test]
fn a_pruned_copy_of_the_index_is_stored_again() {
    let session = Session::new();
    git(&session, &["init", "-q"]);
    session.write("a", "1");
    git(&session, &["add", "a"]);
    assert!(session.output(&["checkpoint"]).status.success());
    let workspaces = session.base().join(".takeback/checkpoints/store/workspaces");
    let note = crate::session::first_in(&workspaces).join("notes/index");
    let mut index: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&note).unwrap()).unwrap();
    index["attachment"] = "0123456789012345678901234567890123456789".into();
    std::fs::write(&note, index.to_string()).unwrap();
    assert!(session.output(&["checkpoint"]).status.success());
    assert_eq!(session.json(&["rollback", "1", "--index"])["index"], true);
}

/// Removes a part of the first checkpoint's copy of the index from the store.
fn lose_copy_of_index(session: &Session, part: &str) {
    let script = "first=$(git for-each-ref --format='%(objectname)' | head -1)
        lost=$(git rev-parse $first^1$1); old=$(ls objects/pack/*)
        git cat-file --batch-all-objects --batch-check='%(objectname)' | grep -v $lost > tmp/ids
        new=$(git pack-objects -q objects/pack/pack < tmp/ids)
        for file in $old; do case $file in *$new*) ;; *) rm -f $file ;; esac; done; rm tmp/ids";
    let mut command = Command::new("bash");
    command.args(["-euc", script, "bash", part]);
    command.current_dir(session.base().join(".takeback/checkpoints/store"));
    assert!(command.status().unwrap().success());
}

#[test]
fn a_lost_copy_of_the_index_is_stored_again() {
    for part in ["", "^{tree}", ":attachment"] {
        let session = repository();
        let mut agent = Agent::new(&session, "s1");
        agent.hears("first");
        agent.runs("echo 3 > plain");
        lose_copy_of_index(&session, part);
        let said = session.output(&["checkpoints", "verify"]);
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.contains(", the copy of the git index\n"), "{part}: {said}");
        agent.hears("second");
        agent.runs("rm plain staged");
        // The older checkpoints have the same copy, so they are intact again.
        assert_eq!(session.json(&["checkpoints", "verify"])["whole"], true, "{part}");
        assert_eq!(session.json(&["rollback", "1", "--index"])["index"], true);
        assert_eq!(session.read("plain"), "3\n");
    }
}

#[test]
fn a_repository_that_is_gone_is_reported() {
    let session = Session::new();
    git(&session, &["init", "-q"]);
    session.write("a", "0");
    git(&session, &["add", "a"]);
    git(&session, &["commit", "-qm", "first"]);
    let mut agent = Agent::new(&session, "s1");
    agent.hears("start over");
    agent.runs("rm a");
    std::fs::remove_dir_all(session.project().join(".git")).unwrap();
    let done = session.json(&["rollback", "1"]);
    assert_eq!(session.read("a"), "0");
    assert!(done["warnings"][0].as_str().is_some_and(|text| text.contains(".git")), "{done}");
}

#[test]
fn a_command_that_is_meant_to_be_pasted_is_quoted() {
    let session = Session::new();
    git(&session, &["init", "-q"]);
    session.write("a", "0");
    git(&session, &["add", "a"]);
    git(&session, &["commit", "-qm", "first"]);
    git(&session, &["checkout", "-q", "-b", "x;touch${IFS}pasted"]);
    session.output(&["checkpoint"]);
    git(&session, &["checkout", "-q", "main"]);
    let done = session.json(&["rollback", "1"]);
    let command = done["repository"]["command"].as_str().unwrap();
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).current_dir(session.project());
    assert!(shell.status().unwrap().success(), "{command}");
    assert!(!session.project().join("pasted").exists(), "{command}");
}
