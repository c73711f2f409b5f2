//! Files that turns changed outside the workspace are taken back together with the turns.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::agent::Agent;
use crate::session::{Session, tell_skipped};

/// Creates a session whose agent changed a file in the project, a file in the home directory, and
/// another project.
fn worked_outside() -> (Session, Agent) {
    let session = Session::new();
    fs::write(session.base().join(".bashrc"), "1").unwrap();
    fs::create_dir_all(session.base().join("other/.git")).unwrap();
    fs::write(session.base().join("other/lib"), "1").unwrap();
    fs::write(session.base().join("other/mine"), "1").unwrap();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s");
    agent.hears("change everything");
    agent.writes("a", "2");
    agent.writes("../.bashrc", "2");
    agent.writes("../other/lib", "2");
    agent.is_done();
    // The user also works in the other project.
    fs::write(session.base().join("other/mine"), "the user's").unwrap();
    (session, agent)
}

#[track_caller]
fn assert_is(session: &Session, a: &str, bashrc: &str, lib: &str) {
    let read = |path: &str| fs::read_to_string(session.base().join(path)).unwrap();
    let seen = (session.read("a"), read(".bashrc"), read("other/lib"), read("other/mine"));
    assert_eq!(seen, (a.into(), bashrc.into(), lib.into(), "the user's".into()));
}

#[test]
fn a_rollback_restores_files_that_the_turn_changed_outside_the_workspace() {
    let (session, _) = worked_outside();
    let plan = session.json(&["rollback", "1", "--dry-run"]);
    let mut restored: Vec<_> = plan["elsewhere"].as_array().unwrap().iter().collect();
    restored.sort_by_key(|group| group["workspace"].to_string());
    assert_eq!(restored.len(), 2, "{plan:#}");
    assert_eq!(restored[0]["restored"], json!([".bashrc"]));
    assert_eq!(restored[1]["restored"], json!(["lib"]));
    session.json(&["rollback", "1"]);
    assert_is(&session, "1", "1", "1");
    session.json(&["rollback", "undo"]);
    assert_is(&session, "2", "2", "2");
    session.json(&["rollback", "redo"]);
    assert_is(&session, "1", "1", "1");
    session.json(&["rollback", "undo"]);
    assert_is(&session, "2", "2", "2");
}

#[test]
fn a_rollback_restores_workspaces_in_which_a_later_state_was_pruned() {
    let (session, _) = worked_outside();
    session.json(&["rollback", "1"]);
    session.json(&["rollback", "undo"]);
    // Only the newest row and the newest safety checkpoint of each workspace are left.
    session.json(&["checkpoints", "prune", "--max-size-mb", "0"]);
    let output = session.output(&["rollback", "1"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_is(&session, "1", "1", "1");
}

#[test]
fn a_rollback_limited_to_the_workspace_does_not_change_other_workspaces() {
    let (session, _) = worked_outside();
    session.json(&["rollback", "1", "--workspace-only"]);
    assert_is(&session, "1", "2", "2");
}

#[test]
fn an_undo_restores_files_outside_the_workspace_and_keeps_later_edits() {
    let (session, _) = worked_outside();
    fs::write(session.base().join(".bashrc"), "the user's").unwrap();
    let done = session.json(&["undo"]);
    assert_is(&session, "1", "the user's", "1");
    let groups = done["elsewhere"].as_array().unwrap();
    assert!(groups.iter().any(|group| group["left"] == json!([".bashrc"])), "{done:#}");
    session.json(&["rollback", "undo"]);
    assert_is(&session, "2", "the user's", "2");
}

#[test]
fn a_rollback_names_later_edits_outside_the_workspace() {
    let (session, _) = worked_outside();
    fs::write(session.base().join(".bashrc"), "the user's").unwrap();
    let plan = session.json(&["rollback", "1", "--dry-run"]);
    let groups = plan["elsewhere"].as_array().unwrap();
    assert!(groups.iter().any(|group| group["others"] == json!([".bashrc"])), "{plan:#}");
    session.json(&["rollback", "1"]);
    assert_is(&session, "1", "1", "1");
    session.json(&["rollback", "undo"]);
    assert_is(&session, "2", "the user's", "2");
}

#[test]
fn a_rollback_keeps_changes_by_earlier_turns_outside_the_workspace() {
    let (session, mut agent) = worked_outside();
    agent.hears("once more");
    agent.writes("a", "3");
    agent.writes("../.bashrc", "3");
    agent.is_done();
    session.json(&["rollback", "1"]);
    assert_is(&session, "2", "2", "2");
    session.json(&["rollback", "2"]);
    assert_is(&session, "1", "1", "1");
}

#[test]
fn a_rollback_into_a_turn_takes_back_only_the_later_changes_outside_the_workspace() {
    let session = Session::new();
    let (before, after) = (session.base().join(".bashrc"), session.base().join(".profile"));
    fs::write(&before, "1").unwrap();
    fs::write(&after, "1").unwrap();
    session.write("a", "1");
    session.write("b", "1");
    let mut agent = Agent::new(&session, "s");
    agent.hears("change files outside");
    agent.writes("a", "2");
    agent.writes("../.bashrc", "2");
    let mut other = Agent::new(&session, "other");
    other.turn("change b", "b", "2");
    // The second call adds no checkpoint of the workspace, because nothing there has changed since
    // the first call.
    agent.pretends("touch b");
    agent.writes("../.profile", "2");
    agent.is_done();
    let state = || {
        let read = |path| fs::read_to_string(path).unwrap();
        [session.read("a"), session.read("b"), read(&before), read(&after)].join("")
    };
    session.json(&["rollback", "1"]);
    assert_eq!(state(), "2121");
    session.json(&["rollback", "undo"]);
    assert_eq!(state(), "2222");
    session.json(&["rollback", "2"]);
    assert_eq!(state(), "1111");
}

#[test]
fn a_call_that_was_cut_off_outside_the_workspace_ends_with_its_turn() {
    let session = Session::new();
    session.write("a", "1");
    let note = session.base().join("note");
    fs::write(&note, "1").unwrap();
    let mut cut_off = Agent::new(&session, "s1");
    cut_off.hears("change it");
    cut_off.begins("Bash", json!({ "command": "echo 2 > ../note" }));
    fs::write(&note, "2").unwrap();
    cut_off.is_done();
    // The process that `turn_end` started may not have run yet, so do its work here.
    let tend = ["checkpoints", "tend", "--session", "mine:s1", "--ended", "0"];
    assert!(session.output(&tend).status.success());
    let mut agent = Agent::new(&session, "s2");
    agent.hears("change it again");
    agent.runs("echo 3 > ../note");
    agent.is_done();
    let done = session.json(&["rollback", "1"]);
    assert_eq!(fs::read_to_string(&note).unwrap(), "2", "{done:#}");
    session.json(&["rollback", "2"]);
    assert_eq!(fs::read_to_string(&note).unwrap(), "1");
}

#[test]
fn a_subagents_call_that_was_cut_off_outside_the_workspace_ends_with_the_next_turn() {
    let session = Session::new();
    session.write("a", "1");
    let note = session.base().join("note");
    fs::write(&note, "1").unwrap();
    let mut parent = Agent::new(&session, "s1");
    parent.hears("delegate");
    let mut cut_off = Agent::new(&session, "s1-sub");
    cut_off.fields["parent"] = json!("s1");
    cut_off.hears("change it");
    cut_off.begins("Bash", json!({ "command": "echo 2 > ../note" }));
    fs::write(&note, "2").unwrap();
    parent.is_done();
    parent.turn("go on", "a", "2");
    // The process that `turn_end` started may not have run yet, so do its work here.
    let tend = ["checkpoints", "tend", "--session", "mine:s1", "--ended", "0"];
    assert!(session.output(&tend).status.success());
    let mut agent = Agent::new(&session, "s2");
    agent.hears("change it again");
    agent.runs("echo 3 > ../note");
    agent.is_done();
    let done = session.json(&["rollback", "1"]);
    assert_eq!(fs::read_to_string(&note).unwrap(), "2", "{done:#}");
}

#[test]
fn a_deleted_directory_outside_the_workspace_is_restored() {
    let session = Session::new();
    session.write("a", "1");
    fs::create_dir_all(session.base().join("data/inner")).unwrap();
    fs::write(session.base().join("data/inner/file"), "1").unwrap();
    let mut agent = Agent::new(&session, "s");
    agent.hears("delete it");
    agent.writes("a", "2");
    agent.runs("rm -rf ../data");
    agent.is_done();
    assert!(!session.base().join("data").exists());
    session.json(&["rollback", "1"]);
    assert_eq!(fs::read_to_string(session.base().join("data/inner/file")).unwrap(), "1");
}

#[test]
fn a_file_whose_directory_no_longer_exists_is_named_and_not_recreated() {
    let session = Session::new();
    session.write("a", "1");
    fs::create_dir_all(session.base().join("disk")).unwrap();
    fs::write(session.base().join("disk/notes"), "1").unwrap();
    let mut agent = Agent::new(&session, "s");
    agent.hears("change it");
    agent.writes("a", "2");
    agent.writes("../disk/notes", "2");
    agent.is_done();
    fs::rename(session.base().join("disk"), session.base().join("unmounted")).unwrap();
    let done = session.json(&["rollback", "1"]);
    assert_eq!(session.read("a"), "1");
    let warning = done["warnings"][0].as_str().unwrap();
    assert!(warning.contains("disk/notes is left unchanged"), "{warning}");
    assert!(!session.base().join("disk").exists());
}

#[test]
fn a_deleted_repository_outside_the_workspace_comes_back_with_its_history() {
    let session = Session::new();
    session.write("a", "1");
    let other = session.base().join("other");
    fs::create_dir(&other).unwrap();
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.arg("--git-dir").arg(other.join(".git")).args(arguments).current_dir(&other);
        git.output().unwrap().status.success()
    };
    assert!(git(&["init", "-q"]));
    fs::write(other.join("code"), "1").unwrap();
    let mut agent = Agent::new(&session, "s");
    agent.hears("delete it");
    agent.runs("rm -rf ../other");
    agent.is_done();
    assert!(!other.exists());
    for way_back in [["rollback", "1"], ["rollback", "redo"]] {
        let done = session.json(&way_back);
        assert!(git(&["fsck"]), "{done:#}");
        assert_eq!(fs::read_to_string(other.join("code")).unwrap(), "1");
        session.json(&["rollback", "undo"]);
        assert!(!other.join(".git").exists() && !other.join("code").exists());
    }
}

#[test]
fn a_turn_that_changed_only_files_outside_the_workspace_can_be_undone() {
    let session = Session::new();
    session.write("a", "1");
    let notes = session.base().join("notes");
    fs::write(&notes, "1").unwrap();
    let mut agent = Agent::new(&session, "s");
    agent.turn("change it", "a", "2");
    agent.hears("delete the notes");
    agent.runs("rm ../notes");
    agent.is_done();
    session.json(&["undo"]);
    assert_eq!((fs::read_to_string(&notes).unwrap(), session.read("a")), ("1".into(), "2".into()));
    // The next undo takes back the previous turn.
    session.json(&["undo"]);
    assert_eq!(session.read("a"), "1");
    session.json(&["rollback", "undo"]);
    session.json(&["rollback", "undo"]);
    assert!(!notes.exists());
    // This time, the user has already restored the notes before the undo.
    fs::write(&notes, "1").unwrap();
    session.json(&["undo"]);
    assert_eq!(session.read("a"), "1");
}

#[test]
fn a_deleted_and_recreated_file_returns_to_its_state_at_the_checkpoint() {
    let session = Session::new();
    session.write("a", "1");
    let note = session.base().join("note");
    fs::write(&note, "the user's").unwrap();
    let mut agent = Agent::new(&session, "s");
    agent.turn("change a", "a", "2");
    for command in ["rm ../note", "echo 2 > ../note", "rm ../note"] {
        agent.hears(command);
        agent.runs(command);
        agent.is_done();
    }
    let read = || fs::read_to_string(&note).ok();
    // Row 2 is the turn with the second command. Just before that turn, the file was missing.
    for (to, content) in [("2", None), ("3", Some("the user's")), ("1", Some("2\n"))] {
        let done = session.json(&["rollback", to]);
        assert_eq!(read().as_deref(), content, "{to}: {done:#}");
        session.json(&["rollback", "undo"]);
        assert_eq!(read(), None, "{to}");
    }
}

#[test]
fn edits_by_the_user_outside_the_workspace_during_a_call_are_kept() {
    for (tool, input) in [
        ("Edit", json!({ "path": "../other/lib" })),
        ("Bash", json!({ "command": "echo 2 > ../other/lib" })),
    ] {
        let session = Session::new();
        fs::create_dir_all(session.base().join("other/.git")).unwrap();
        for name in ["other/lib", "other/mine"] {
            fs::write(session.base().join(name), "1").unwrap();
        }
        let mut agent = Agent::new(&session, "s");
        agent.hears("change the other project");
        let call = agent.begins(tool, input);
        fs::write(session.base().join("other/mine"), "the user's").unwrap();
        fs::write(session.base().join("other/lib"), "2").unwrap();
        agent.finishes(&call);
        agent.is_done();
        let read = |path: &str| fs::read_to_string(session.base().join(path)).unwrap();
        for command in [&["undo"][..], &["rollback", "1"]] {
            let done = session.json(command);
            assert_eq!(done["elsewhere"][0]["restored"], json!(["lib"]), "{tool}: {done:#}");
            assert_eq!((read("other/lib"), read("other/mine")), ("1".into(), "the user's".into()));
            session.json(&["rollback", "undo"]);
            assert_eq!((read("other/lib"), read("other/mine")), ("2".into(), "the user's".into()));
        }
    }
}

#[test]
fn a_users_file_stays_even_if_the_agent_created_its_directory() {
    let session = Session::new();
    fs::create_dir_all(session.base().join("other/.git")).unwrap();
    let mut agent = Agent::new(&session, "s");
    agent.hears("make a directory");
    agent.writes("../other/new/lib", "1");
    agent.is_done();
    let mine = session.base().join("other/new/mine");
    fs::write(&mine, "the user's").unwrap();
    for command in [&["undo"][..], &["rollback", "1"]] {
        let done = session.json(command);
        assert_eq!(fs::read_to_string(&mine).unwrap(), "the user's", "{done:#}");
        assert!(!session.base().join("other/new/lib").exists(), "{done:#}");
        assert_eq!(done["elsewhere"][0]["left"], json!(["new/mine"]), "{done:#}");
        session.json(&["rollback", "undo"]);
        assert!(session.base().join("other/new/lib").exists());
    }
}

#[test]
fn an_undo_takes_back_a_turn_that_worked_only_outside_the_workspace() {
    let session = Session::new();
    session.write("a", "1");
    let bashrc = session.base().join(".bashrc");
    fs::write(&bashrc, "1").unwrap();
    let mut agent = Agent::new(&session, "s");
    agent.turn("change a", "a", "2");
    agent.turn("change .bashrc", "../.bashrc", "2");
    assert_eq!(session.json(&["undo"])["row"], 1);
    assert_eq!((session.read("a"), fs::read_to_string(&bashrc).unwrap()), ("2".into(), "1".into()));
    assert_eq!(session.json(&["undo"])["row"], 2);
    assert_eq!(session.read("a"), "1");
    session.json(&["rollback", "undo"]);
    session.json(&["rollback", "undo"]);
    assert_eq!((session.read("a"), fs::read_to_string(&bashrc).unwrap()), ("2".into(), "2".into()));
    // The newest turn that changed the workspace itself is row 2.
    assert_eq!(session.json(&["undo", "--workspace-only"])["row"], 2);
    assert_eq!((session.read("a"), fs::read_to_string(&bashrc).unwrap()), ("1".into(), "2".into()));
}

#[test]
fn rollbacks_back_and_forth_also_change_files_outside_the_workspace() {
    let session = Session::new();
    session.write("a", "0");
    let bashrc = session.base().join(".bashrc");
    fs::write(&bashrc, "0").unwrap();
    let mut agent = Agent::new(&session, "s");
    for number in ["1", "2"] {
        agent.hears(number);
        agent.writes("a", number);
        agent.writes("../.bashrc", number);
        agent.is_done();
    }
    agent.turn("3", "a", "3");
    let state = || (session.read("a"), fs::read_to_string(&bashrc).unwrap());
    session.json(&["rollback", "3"]);
    assert_eq!(state(), ("0".into(), "0".into()));
    for (to, content) in [("1", "2"), ("2", "1"), ("1", "2"), ("3", "0"), ("2", "1")] {
        let done = session.json(&["rollback", to]);
        assert_eq!(state(), (content.into(), content.into()), "{to}: {done:#}");
        let groups = done["elsewhere"].as_array().unwrap();
        assert!(groups.iter().all(|group| group["others"].is_null()), "{done:#}");
    }
    for content in ["0", "2", "1", "2", "0"] {
        session.json(&["rollback", "undo"]);
        assert_eq!(state(), (content.into(), content.into()));
    }
    session.json(&["rollback", "undo"]);
    assert_eq!(state(), ("3".into(), "2".into()));
}

/// A file that is mounted onto itself, so that it cannot be replaced. It is unmounted at the end.
struct NailedDown(std::path::PathBuf);

impl NailedDown {
    fn mount(path: std::path::PathBuf) -> Option<NailedDown> {
        let output = Command::new("mount").arg("--bind").arg(&path).arg(&path).output();
        if !output.is_ok_and(|output| output.status.success()) {
            tell_skipped("cannot mount: that needs root");
            return None;
        }
        Some(NailedDown(path))
    }
}

impl Drop for NailedDown {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_rollback_says_what_to_do_if_it_fails_outside_the_workspace() {
    let (session, _) = worked_outside();
    let Some(nailed) = NailedDown::mount(session.base().join(".bashrc")) else { return };
    let output = session.output(&["rollback", "1"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_is(&session, "1", "2", "1");
    assert!(said.contains("error: ~/.bashrc is left unchanged"), "{said}");
    let hint = said.split_once("then `takeback ").unwrap().1.split_once('`').unwrap().0;
    // Once the cause is gone, the command that the hint names restores the rest.
    drop(nailed);
    let arguments: Vec<&str> = hint.split(' ').collect();
    let done = session.json(&arguments);
    assert_is(&session, "1", "1", "1");
    assert!(done["elsewhere"][0]["error"].is_null(), "{done:#}");
}

#[test]
fn undoing_a_rollback_says_what_to_do_if_it_fails_outside_the_workspace() {
    let (session, _) = worked_outside();
    session.json(&["rollback", "1"]);
    let Some(nailed) = NailedDown::mount(session.base().join(".bashrc")) else { return };
    let output = session.output(&["rollback", "undo"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_is(&session, "2", "1", "2");
    drop(nailed);
    let hint = said.split_once("then `takeback ").unwrap().1.split_once('`').unwrap().0;
    let arguments: Vec<&str> = hint.split(' ').collect();
    session.json(&arguments);
    assert_is(&session, "2", "2", "2");
}
