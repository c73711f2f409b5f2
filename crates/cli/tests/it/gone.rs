//! Deleted files and workspaces come back.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::agent::Agent;
use crate::session::Session;

fn read_file(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_single_file_that_is_gone_comes_back() {
    let session = Session::new();
    let file = session.base().join(".zshrc");
    fs::write(&file, "mine").unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.hears("away with it");
    agent.runs("rm ~/.zshrc");
    let there = session.json(&["-C", "../.zshrc", "rollback"]);
    assert_eq!(there["checkpoints"].as_array().map(Vec::len), Some(1), "{there}");
    session.json(&["-C", "../.zshrc", "rollback", "1", "--dry-run"]);
    assert!(!file.exists(), "a dry run creates nothing");
    session.json(&["-C", "../.zshrc", "rollback", "1"]);
    assert_eq!(read_file(&file), "mine");
}

/// The agent runs `rm -rf` on the project that it works in. This is the case that takeback exists
/// for.
#[test]
fn a_workspace_that_is_gone_comes_back() {
    let session = Session::new();
    let gone = session.base().join("gone");
    fs::create_dir_all(gone.join("src")).unwrap();
    fs::write(gone.join("src/lib.rs"), "mine").unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.cwd = gone.clone();
    agent.hears("start over");
    agent.runs("rm -rf ../gone");
    agent.is_done();
    let name = gone.to_str().unwrap();
    let listed = session.json(&["-C", name, "rollback"]);
    assert_eq!(listed["checkpoints"][0]["prompt"], "start over", "{listed}");
    assert_eq!(listed["failures"], json!(null), "nothing failed");
    let planned = session.json(&["-C", name, "rollback", "1", "--dry-run"]);
    let changes = session.json(&["-C", name, "rollback", "diff", "1"]);
    assert_eq!(changes["deletions"], 1, "{changes}");
    assert!(!gone.exists(), "reading creates nothing");
    let done = session.json(&["-C", name, "rollback", "1"]);
    assert_eq!(
        (&done["restored"], read_file(&gone.join("src/lib.rs"))),
        (&planned["restored"], "mine".into())
    );
    // The agent continues to work in the restored directory.
    agent.turn("once more", "src/lib.rs", "yours");
    session.json(&["-C", name, "undo"]);
    assert_eq!(read_file(&gone.join("src/lib.rs")), "mine");
}

/// A directory that was recreated by hand is empty, so it is no longer a project of its own. The
/// directory above it is a project.
#[test]
fn a_recreated_directory_has_its_old_history() {
    let session = Session::new();
    session.write("package.json", "{}");
    session.write("inner/Makefile", "");
    session.write("inner/a", "mine");
    let mut agent = Agent::new(&session, "s1");
    agent.cwd = session.project().join("inner");
    agent.hears("start over");
    agent.runs("rm -rf ../inner");
    fs::create_dir(session.project().join("inner")).unwrap();
    session.json(&["-C", "inner", "rollback", "1"]);
    assert_eq!(session.read("inner/a"), "mine");
}

#[test]
fn the_old_history_of_a_subdirectory_does_not_hide_the_history_of_the_project() {
    let session = Session::new();
    session.write("sub/a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.cwd = session.project().join("sub");
    agent.turn("before", "a", "1");
    let git = |arguments: &[&str]| {
        let mut git = std::process::Command::new("git");
        assert!(git.args(arguments).current_dir(session.project()).status().unwrap().success());
    };
    git(&["init", "-q"]);
    let mut agent = Agent::new(&session, "s2");
    agent.cwd = session.project().join("sub");
    agent.turn("after", "a", "2");
    let inside = |arguments: &[&str]| {
        let mut command = session.command(arguments);
        let output = command.current_dir(session.project().join("sub")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let list: serde_json::Value = serde_json::from_str(&inside(&["list", "--json"])).unwrap();
    assert_eq!(list["workspace"], serde_json::json!(session.project()), "{list}");
    assert_eq!(list["checkpoints"][0]["prompt"], "after", "{list}");
    assert_eq!(list["inner"]["workspace"], serde_json::json!(session.project().join("sub")));
    assert_eq!(list["inner"]["checkpoints"][0]["prompt"], "before", "{list}");
    let text = inside(&["list"]);
    assert!(text.contains("Older checkpoints for ~/project/sub alone"), "{text}");
    let older = list["inner"]["checkpoints"][0]["id"].as_str().unwrap();
    assert!(inside(&["diff", "1"]).contains("sub/a"));
    assert!(inside(&["diff", older]).contains("1 file, +1/−1"));
    assert!(inside(&["show", "1"]).contains("after"));
    assert!(inside(&["show", older]).contains("before\nSteps"));
    inside(&["rollback", "1"]);
    assert_eq!(session.read("sub/a"), "1");
    inside(&["rollback", older]);
    assert_eq!(session.read("sub/a"), "0");
    inside(&["rollback", "undo"]);
    assert_eq!(session.read("sub/a"), "1");
    inside(&["rollback", "undo"]);
    assert_eq!(session.read("sub/a"), "2");
    inside(&["rollback", "redo"]);
    assert_eq!(session.read("sub/a"), "1");
    inside(&["rollback", "redo"]);
    assert_eq!(session.read("sub/a"), "0");
}
