//! The current version can read a home directory that takeback 0.1 wrote.
//!
//! The script `tests/fixtures/make-home-0.1.sh` created the archive, and the tests check everything
//! that the script did. Only JSON is compared: wording can change, but formats must not.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::agent::{Agent, rows, steps};
use crate::on_disk_sessions::conversation;
use crate::session::Session;

/// The directory in which the archive was created.
pub(crate) const OLD: &str = "/tmp/takeback-fixture";

/// Unpacks the archive unchanged: the history belongs to a directory that no longer exists.
pub(crate) fn unpacked_home() -> Session {
    let session = Session::new();
    let archive =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join("home-0.1.tar.gz");
    let status = Command::new("tar")
        .arg("-xpzf")
        .arg(archive)
        .arg("-C")
        .arg(session.base())
        .status()
        .unwrap();
    assert!(status.success());
    session
}

/// Unpacks the archive and moves the history to the unpacked project.
pub(crate) fn moved_home() -> Session {
    let session = unpacked_home();
    let moved = session.json(&["checkpoints", "move", &format!("{OLD}/project"), "."]);
    let from = format!("{OLD}/project");
    assert_eq!(moved, json!({ "from": from, "to": session.project(), "moved": 23 }));
    session
}

/// Returns the paths and contents of the files in the project, without `.git`. The content of a
/// link is its target; a directory has no content.
fn project_files(session: &Session) -> Vec<(String, String)> {
    fn walk(root: &Path, at: &Path, files: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with(".git") {
                continue;
            }
            let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes();
            let name = name.escape_ascii().to_string();
            if path.is_symlink() {
                files.push((name, fs::read_link(&path).unwrap().display().to_string()));
            } else if path.is_dir() {
                files.push((name + "/", String::new()));
                walk(root, &path, files);
            } else {
                files.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut files = Vec::new();
    walk(&session.project(), &session.project(), &mut files);
    files.sort();
    files
}

/// Returns the files that every state of the project contains, and those in `more`.
fn files_with(more: &[(&str, &str)]) -> Vec<(String, String)> {
    let always = [
        (".gitignore", ".env\n"),
        ("caf\\xe9.txt", "latin\n"),
        ("dist/", ""),
        ("dist/app", "built\n"),
        ("empty/", ""),
        ("large.iso", "not covered"),
        ("link", "src/cart.py"),
        ("run.sh", "#!/bin/sh\n"),
        ("\\xe8\\xaa\\xac\\xe6\\x98\\x8e.txt", "説明\n"),
    ];
    let all = always.iter().chain(more);
    let mut files: Vec<_> =
        all.map(|(path, content)| ((*path).to_owned(), (*content).to_owned())).collect();
    files.sort();
    files
}

/// Returns the files that the archive contains.
fn files_as_packed() -> Vec<(String, String)> {
    files_with(&[
        ("README.md", "# Shop\n\nStaged.\n"),
        ("late.txt", "late\n"),
        ("settings.py", "setting = 1\n"),
        ("src/", ""),
        ("src/cart.py", "total = 1\n"),
        ("src/sum.py", "def sum(): pass\n"),
        ("todo.txt", "mine\n"),
    ])
}

/// Returns the paths whose staged content differs from HEAD.
fn staged_paths(session: &Session) -> Vec<String> {
    let output = Command::new("git")
        .args(["diff", "--cached", "--name-only"])
        .current_dir(session.project())
        .env("HOME", session.base())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Returns the session, turn, prompt, steps, counts and effects of all rows, newest first.
fn expected_rows() -> Value {
    let shell = format!("before Write {OLD}/.zshrc");
    let sed = "before Bash: sed -i s/settei/setting/ settings.py; rm .env";
    json!([
        [
            "mine:s3",
            1,
            "written while the ledger was locked",
            ["before Write late.txt"],
            [1, 1, 0],
            []
        ],
        ["mine:s2", 2, "my shell", [shell], [0, 0, 0], []],
        [
            "mine:s2",
            1,
            "write notes",
            ["before Write notes.md", "before Write README.md"],
            [2, 4, 1],
            []
        ],
        [
            "mine:s1",
            2,
            "clean up",
            ["before Bash: rm -rf src; echo gone > made.txt", "before Bash: git push origin main"],
            [3, 1, 2],
            ["publish"]
        ],
        ["claude:c1", "p1", "設定の名前を変えて", [sed], [2, 1, 1], []],
        [null, null, null, [], [0, 0, 0], []],
        [
            "mine:s1",
            1,
            "add the cart",
            [
                "before Write src/cart.py",
                "before Write src/sum.py",
                "before Bash: psql shop -c 'drop table carts'"
            ],
            [2, 2, 1],
            ["database"]
        ],
    ])
}

#[test]
fn the_old_history_is_listed_in_full() {
    let session = moved_home();
    let rows = rows(&session);
    let view: Vec<_> = rows
        .iter()
        .map(|row| {
            let counts = json!([row["files_changed"], row["insertions"], row["deletions"]]);
            let kinds = row["effects"].as_array().unwrap().iter();
            let kinds: Vec<_> = kinds.map(|effect| effect["kind"].clone()).collect();
            json!([row["session"], row["turn"], row["prompt"], steps(row), counts, kinds])
        })
        .collect();
    assert_eq!(json!(view), expected_rows());
    let manual = &rows[5];
    assert_eq!(manual["reason"], "改名の前");
    assert_eq!((&manual["name"], &manual["pinned"]), (&json!("before-rename"), &json!(true)));
    let uncovered = json!({ "count": 2, "paths": ["dist", "large.iso"] });
    assert!(rows.iter().all(|row| row["uncovered"] == uncovered));
    assert!(rows.iter().all(|row| row["late"] == false));
}

#[test]
fn the_store_and_the_ledger_of_the_old_home_are_intact() {
    let session = moved_home();
    let store = session.json(&["checkpoints", "verify"]);
    assert_eq!((&store["whole"], &store["packs"]), (&json!(true), &json!([])));
    assert_eq!(store["checkpoints"].as_array().unwrap().len(), 26);
    let ledger = session.json(&["sessions", "verify"]);
    assert_eq!(ledger, json!({ "whole": true, "sessions": 9, "messages": 23, "problems": [] }));
    let packs = session.json(&["checkpoints", "gc"]);
    assert_eq!((&packs["objects_dropped"], &packs["packs_after"]), (&json!(0), &json!(1)));
    assert_eq!(session.json(&["checkpoints", "verify"])["whole"], true);
}

#[test]
fn the_status_of_an_old_home_names_workspaces_and_failures() {
    let session = unpacked_home();
    let status = session.json(&["checkpoints"]);
    let workspaces = status["workspaces"].as_array().unwrap().iter();
    let workspaces: Vec<_> = workspaces
        .map(|known| json!([known["path"], known["checkpoints"], known["state"]]))
        .collect();
    assert_eq!(
        json!(workspaces),
        json!([
            [format!("{OLD}/project"), 7, "orphan"],
            [format!("{OLD}/huge/a"), 1, "orphan"],
            [format!("{OLD}/.zshrc"), 1, "orphan"],
        ])
    );
    let failure = &status["failures"][0];
    assert_eq!(failure["workspace"], format!("{OLD}/huge"));
    assert_eq!((&failure["count"], &failure["checkpoint"]), (&json!(1), &json!(true)));
    let settings = session.json(&["config"])["settings"].clone();
    let exclude =
        settings.as_array().unwrap().iter().find(|row| row["key"] == "checkpoints.exclude");
    assert_eq!(exclude.unwrap()["value"], json!(["*.iso"]));
}

#[test]
fn old_checkpoints_can_be_compared_with_the_current_files() {
    let session = moved_home();
    let diff = session.json(&["rollback", "diff", "7"]);
    let changes: Vec<_> = diff["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| format!("{} {}", change["kind"], change["path"]).replace('"', ""))
        .collect();
    assert_eq!(
        changes,
        [
            "deleted .env",
            "added late.txt",
            "modified settings.py",
            "modified src/cart.py",
            "added src/sum.py",
            "added todo.txt",
        ]
    );
    let one = session.json(&["rollback", "diff", "before-rename", "settings.py"]);
    assert_eq!(
        one["diff"],
        "diff --git a/settings.py b/settings.py\nindex a51afcb..4f60a05 100644\n\
         --- a/settings.py\n+++ b/settings.py\n@@ -1 +1 @@\n-settei = 1\n+setting = 1\n"
    );
}

#[test]
fn a_rollback_to_an_old_checkpoint_is_undone_and_redone() {
    let session = moved_home();
    assert_eq!(project_files(&session), files_as_packed());
    let before = files_with(&[
        (".env", "SECRET=1\n"),
        ("README.md", "# Shop\n\nStaged.\n"),
        ("settings.py", "settei = 1\n"),
        ("src/", ""),
        ("src/cart.py", "total = 0\n"),
    ]);
    let done = session.json(&["rollback", "7", "--index"]);
    assert_eq!(done["restored"], json!([".env", "settings.py", "src/cart.py"]));
    assert_eq!(done["deleted"], json!(["late.txt", "src/sum.py", "todo.txt"]));
    assert_eq!((&done["blocked"], &done["index"]), (&json!([]), &json!(true)));
    assert_eq!(done["undone_messages"], 7);
    // The turn also changed a file in the home directory on the machine that created the archive.
    let warning = done["warnings"][0].as_str().unwrap();
    assert!(warning.contains("/.zshrc is left unchanged"), "{warning}");
    assert_eq!(
        done["effects"],
        json!([
            { "kind": "database", "command": "psql shop -c 'drop table carts'" },
            { "kind": "publish", "command": "git push origin main" },
        ])
    );
    assert_eq!(project_files(&session), before);
    assert_eq!(staged_paths(&session), ["README.md"]);
    let mode = fs::metadata(session.project().join("run.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    let live = session.json(&["checkpoints"])["workspaces"][0].clone();
    let here = json!(session.project());
    assert_eq!((&live["path"], &live["state"]), (&here, &json!("live")));

    let undone = session.json(&["rollback", "undo"]);
    assert_eq!((&undone["redone_messages"], &undone["warnings"]), (&json!(7), &json!([])));
    assert_eq!(project_files(&session), files_as_packed());
    assert_eq!(staged_paths(&session), ["README.md", "settings.py", "src/cart.py"]);

    let redone = session.json(&["rollback", "redo"]);
    assert_eq!(redone["undone_messages"], 7);
    assert_eq!(project_files(&session), before);
    assert_eq!(staged_paths(&session), ["README.md"]);
}

#[test]
fn steps_and_names_and_single_paths_of_the_old_history_can_be_restored() {
    let session = moved_home();
    session.json(&["rollback", "before-rename", ".env"]);
    assert_eq!(session.read(".env"), "SECRET=1\n");
    session.json(&["rollback", "3.2", "notes.md"]);
    assert_eq!(session.read("notes.md"), "one\ntwo\nthree\n");
    session.json(&["rollback", "4.2", "--files-only"]);
    assert_eq!(session.read("made.txt"), "gone\n");
    assert!(!session.project().join("src").exists());
}

#[test]
fn a_rollback_and_an_undo_made_by_version_0_1_can_be_undone_and_redone() {
    let session = moved_home();
    session.json(&["rollback", "undo"]);
    let mut undone = files_as_packed();
    undone.retain(|(path, _)| path != "README.md");
    undone.push(("README.md".into(), "# Store\n\nStaged.\n".into()));
    undone.push(("notes.md".into(), "one\ntwo\nthree\n".into()));
    undone.sort();
    assert_eq!(project_files(&session), undone, "the undo is reversed");

    session.json(&["rollback", "undo"]);
    let wrecked = files_with(&[
        ("README.md", "# Shop\n\nStaged.\n"),
        ("made.txt", "gone\n"),
        ("settings.py", "setting = 1\n"),
    ]);
    assert_eq!(project_files(&session), wrecked, "the rollback is reversed");
    assert!(!session.output(&["rollback", "undo"]).status.success());

    session.json(&["rollback", "redo"]);
    assert_eq!(project_files(&session), undone);
    session.json(&["rollback", "redo"]);
    assert_eq!(project_files(&session), files_as_packed());
    assert!(!session.output(&["rollback", "redo"]).status.success());
}

#[test]
fn turns_of_the_old_history_are_undone() {
    let session = moved_home();
    // This undoes the newest turn that changed files and has not been undone yet.
    let undone = session.json(&["undo"]);
    assert_eq!((&undone["deleted"], &undone["restored"]), (&json!(["late.txt"]), &json!([])));
    let undone = session.json(&["undo", "--turn", "5"]);
    assert_eq!(undone["restored"], json!([".env", "settings.py"]));
    assert_eq!((&undone["conflicts"], &undone["uncertain"]), (&Value::Null, &Value::Null));
    assert_eq!(session.read(".env"), "SECRET=1\n");
    assert_eq!(session.read("settings.py"), "settei = 1\n");
    assert_eq!(session.read("todo.txt"), "mine\n");
}

#[test]
fn the_old_history_of_a_single_file_is_known_although_the_file_is_gone() {
    let session = unpacked_home();
    let file = format!("{OLD}/.zshrc");
    let list = session.json(&["-C", &file, "rollback"]);
    assert_eq!(list["checkpoints"][0]["prompt"], "my shell");
    let diff = session.json(&["-C", &file, "rollback", "diff", "1"])["diff"].clone();
    assert!(diff.as_str().unwrap().ends_with("@@ -1 +0,0 @@\n-alias a=b\n"), "{diff}");
}

#[test]
fn an_old_session_can_continue() {
    let session = moved_home();
    let mut agent = Agent::new(&session, "s1");
    agent.turn("and now?", "src/cart.py", "total = 2\n");
    let rows = rows(&session);
    assert_eq!(
        (rows.len(), &rows[0]["prompt"], &rows[0]["turn"]),
        (8, &json!("and now?"), &json!(3))
    );
    session.json(&["rollback", "1"]);
    assert_eq!(project_files(&session), files_as_packed());
    assert_eq!(conversation(&session, "mine:s1").last().unwrap().1, "and now?");
    assert!(conversation(&session, "mine:s1").last().unwrap().2, "it is undone");
}
