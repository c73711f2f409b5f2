//! Ways to lose files: files that became covered, workspaces that are gone, and calls that were not
//! protected.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::agent::{Agent, configure, hook, noise, rows};
use crate::session::Session;

fn exists(session: &Session, path: &str) -> bool {
    fs::symlink_metadata(session.project().join(path)).is_ok()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn kept(view: &Value) -> Vec<&str> {
    view["kept"].as_array().unwrap().iter().map(|kept| kept["path"].as_str().unwrap()).collect()
}

#[test]
fn what_came_into_view_was_not_made_by_the_turn() {
    let session = Session::new();
    session.write("data/x", "mine");
    session.write(".gitignore", "data/\n");
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("clean up");
    agent.runs(": > .gitignore; echo 1 > a");
    agent.is_done();
    let undone = session.json(&["undo"]);
    assert_eq!((session.read("a"), session.read(".gitignore")), ("0".into(), "data/\n".into()));
    assert_eq!((session.read("data/x"), &undone["deleted"]), ("mine".into(), &json!([])));
    assert!(kept(&undone).contains(&"data/x"), "{undone}");
}

#[test]
fn what_went_out_of_view_was_not_deleted_by_the_turn() {
    let session = Session::new();
    session.write("notes/x", "first");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("ignore my notes");
    agent.runs("echo notes/ > .gitignore");
    agent.is_done();
    session.write("notes/x", "second");
    session.json(&["undo"]);
    assert_eq!((session.read("notes/x"), exists(&session, ".gitignore")), ("second".into(), false));
}

#[test]
fn limits_that_change_during_a_call_make_and_delete_nothing() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_file_size_mb = 1\n");
    fs::write(session.project().join("large"), noise(1, 2_000_000)).unwrap();
    session.write("a", "0");
    for limit in ["", "[checkpoints]\nmax_file_size_mb = 1\n"] {
        let mut agent = Agent::new(&session, "s1");
        agent.hears("change a");
        let call = agent.begins("Write", json!({ "path": "a" }));
        session.write("a", "1");
        configure(&session, limit);
        agent.finishes(&call);
        agent.is_done();
        let undone = session.json(&["undo"]);
        assert_eq!((&undone["restored"], &undone["deleted"]), (&json!(["a"]), &json!([])));
        assert_eq!(fs::read(session.project().join("large")).unwrap(), noise(1, 2_000_000));
    }
}

#[test]
fn a_file_that_was_too_large_before_the_turn_is_not_deleted() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_file_size_mb = 1\n");
    fs::write(session.project().join("large"), noise(1, 2_000_000)).unwrap();
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("shorten it");
    agent.runs("echo short > large; echo 1 > a");
    agent.is_done();
    let undone = session.json(&["undo"]);
    assert_eq!((session.read("large"), session.read("a")), ("short\n".into(), "0".into()));
    assert!(kept(&undone).contains(&"large"), "{undone}");
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
    assert!(!file.exists(), "a dry run makes nothing");
    session.json(&["-C", "../.zshrc", "rollback", "1"]);
    assert_eq!(read(&file), "mine");
}

/// The agent runs `rm -rf` on the project that it works in.
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
    assert!(!gone.exists(), "looking makes nothing");
    let done = session.json(&["-C", name, "rollback", "1"]);
    assert_eq!(
        (&done["restored"], read(&gone.join("src/lib.rs"))),
        (&planned["restored"], "mine".into())
    );
    // The restored workspace can be used as before.
    agent.turn("once more", "src/lib.rs", "yours");
    session.json(&["-C", name, "undo"]);
    assert_eq!(read(&gone.join("src/lib.rs")), "mine");
}

/// Recreated by hand, the directory is no longer a project, but one above it is.
#[test]
fn a_workspace_that_is_known_by_its_path_is_meant_by_it() {
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

/// People start agents in `~` and go somewhere else.
#[test]
fn a_session_that_began_in_the_home_directory_is_protected_where_it_works() {
    let session = Session::new();
    session.write("a", "mine");
    let mut agent = Agent::new(&session, "s1");
    agent.cwd = session.base();
    agent.report(json!({ "event": "session_start" }));
    agent.report(json!({ "event": "turn_start", "prompt": "hello" }));
    agent.cwd = session.project();
    agent.runs("rm a");
    session.json(&["rollback", "1"]);
    assert_eq!(session.read("a"), "mine");
}

#[test]
fn a_session_in_a_place_that_is_too_large_is_protected_in_its_projects() {
    let session = Session::new();
    configure(&session, "[checkpoints]\nmax_files = 10\n");
    for number in 0..12 {
        session.write(&number.to_string(), "");
    }
    session.write("inner/Makefile", "");
    session.write("inner/a", "mine");
    let mut agent = Agent::new(&session, "s1");
    agent.report(json!({ "event": "session_start" }));
    agent.report(json!({ "event": "turn_start", "prompt": "hello" }));
    agent.cwd = session.project().join("inner");
    let call = agent.call("Bash", json!({ "command": "rm a" }));
    assert!(agent.report(call.event("before_tool")).contains("more than 10 files"));
    fs::remove_file(session.project().join("inner/a")).unwrap();
    session.json(&["-C", "inner", "rollback", "1"]);
    assert_eq!(session.read("inner/a"), "mine");
}

#[test]
fn whoever_writes_to_a_link_writes_to_what_it_leads_to() {
    let session = Session::new();
    let notes = session.base().join("notes.txt");
    fs::write(&notes, "mine").unwrap();
    std::os::unix::fs::symlink(&notes, session.project().join("link")).unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.hears("write it down");
    agent.writes("link", "yours");
    assert_eq!(read(&notes), "yours");
    session.json(&["-C", "../notes.txt", "rollback", "1"]);
    assert_eq!(read(&notes), "mine");
}

#[test]
fn a_field_of_an_unexpected_type_costs_no_checkpoint() {
    for (field, value) in [
        ("model", "5"),
        ("prompt", "{}"),
        ("turn", "1.5"),
        ("turn", "-1"),
        ("turn", "\"\""),
        ("turn", "18446744073709551616"),
        ("tool", "7"),
        ("agent", "3"),
        ("session", "[]"),
        ("call", "{}"),
        ("parent", "[1]"),
        ("input", "\"text\""),
        ("input", "{\"content\": \"half of \\ud83d\"}"),
        ("to_come", "[[]]"),
    ] {
        let session = Session::new();
        session.write("a", "1");
        let event = format!("\u{feff}{{\"event\": \"before_tool\", \"{field}\": {value}}}");
        let output = hook(&session.base(), &["hook", "generic", "--strict"], event.as_bytes());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*said), (Some(0), ""), "{event}");
        assert_eq!(rows(&session).len(), 1, "{event}");
    }
}

#[test]
fn what_cannot_be_taken_back_keeps_nothing_else_from_it() {
    let session = Session::new();
    session.write("d/x", "1");
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("away with d");
    agent.runs("rm -r d; echo 1 > a");
    agent.is_done();
    session.write("d", "a file of the person");
    let undone = session.json(&["undo"]);
    assert_eq!((session.read("a"), session.read("d")), ("0".into(), "a file of the person".into()));
    assert_eq!(undone["conflicts"][0]["path"], "d/x", "{undone}");
}

#[test]
fn directories_that_the_turn_made_go_with_it() {
    let session = Session::new();
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("make some");
    agent.runs("mkdir -p d x/y/z mixed; echo 1 > d/f; echo 1 > mixed/f");
    agent.is_done();
    session.write("mixed/mine", "1");
    session.json(&["undo"]);
    assert!(!exists(&session, "d") && !exists(&session, "x") && !exists(&session, "mixed/f"));
    assert_eq!(session.read("mixed/mine"), "1");
}

#[test]
fn what_a_call_named_in_an_excluded_directory_is_undone() {
    let session = Session::new();
    session.write("build/x", "old");
    let mut agent = Agent::new(&session, "s1");
    agent.turn("write it", "build/x", "new");
    let undone = session.json(&["undo"]);
    assert_eq!((session.read("build/x"), &undone["restored"]), ("old".into(), &json!(["build/x"])));
}

/// After `cd ../other && …` in a persistent shell, the end of the call is reported from another
/// directory.
#[test]
fn a_call_ends_where_it_began() {
    let session = Session::new();
    let other = session.base().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("Makefile"), "").unwrap();
    session.write("a", "0");
    fs::write(other.join("a"), "0").unwrap();
    let mut agent = Agent::new(&session, "s1");
    agent.hears("both");
    let call = agent.begins("Bash", json!({ "command": "echo 1 > a; cd ../other && echo 1 > a" }));
    session.write("a", "1");
    fs::write(other.join("a"), "1").unwrap();
    agent.cwd = other.clone();
    agent.finishes(&call);
    agent.is_done();
    let undone = session.json(&["undo"]);
    assert_eq!((session.read("a"), &undone["uncertain"]), ("0".into(), &json!(null)), "{undone}");
    session.json(&["-C", "../other", "undo"]);
    assert_eq!(read(&other.join("a")), "0");
}

/// A file that the turn created and the user has removed since is no obstacle.
#[test]
fn what_the_turn_made_and_is_gone_since_is_in_nobodys_way() {
    let session = Session::new();
    session.write("a", "0");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("make some");
    agent.runs("echo 1 > a; echo 1 > new; mkdir d; echo 1 > d/x");
    agent.is_done();
    fs::remove_file(session.project().join("new")).unwrap();
    fs::remove_dir_all(session.project().join("d")).unwrap();
    let undone = session.json(&["undo"]);
    assert_eq!((session.read("a"), &undone["restored"]), ("0".into(), &json!(["a"])), "{undone}");
}
