//! `takeback undo` inside one file: the turn's changes are taken back, and changes by others are
//! kept.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::agent::Agent;
use crate::session::Session;

const TEN: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";

/// Creates a session with a turn in which the agent changed one line of ten.
fn changed() -> Session {
    let session = Session::new();
    session.write("a", TEN);
    let mut agent = Agent::new(&session, "s1");
    agent.turn("change line 2", "a", &TEN.replace("2\n", "agent\n"));
    session
}

#[test]
fn the_lines_of_the_user_stay() {
    let session = changed();
    session.write("a", &session.read("a").replace("9\n", "person\n"));
    let output = session.output(&["undo"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(session.read("a"), TEN.replace("9\n", "person\n"));
}

#[test]
fn the_lines_of_another_agent_stay() {
    let session = changed();
    let mut other = Agent::new(&session, "s2");
    other.turn("change line 8", "a", &session.read("a").replace("8\n", "other\n"));
    session.output(&["undo", "--turn", "2"]);
    assert_eq!(session.read("a"), TEN.replace("8\n", "other\n"));
    session.output(&["rollback", "undo"]);
    session.output(&["undo", "--turn", "1"]);
    assert_eq!(session.read("a"), TEN.replace("2\n", "agent\n"));
}

#[test]
fn lines_that_the_user_adds_between_calls_stay() {
    let session = Session::new();
    session.write("a", TEN);
    let mut agent = Agent::new(&session, "s1");
    agent.hears("two lines");
    agent.runs("sed -i s/^2$/agent/ a");
    session.write("a", &session.read("a").replace("6\n", "person\n"));
    agent.runs("sed -i s/^9$/agent/ a");
    agent.is_done();
    session.output(&["undo"]);
    assert_eq!(session.read("a"), TEN.replace("6\n", "person\n"));
}

#[test]
fn changes_to_the_same_lines_are_a_conflict() {
    let mut session = changed();
    session.write("b", "untouched");
    let mine = session.read("a").replace("agent\n", "person\n");
    session.write("a", &mine);
    session.takeback(&["undo"]);
    assert_eq!(session.read("a"), mine);
    session.assert(
        "
$ takeback undo
Conflicts, not changed: edited since the turn (choose --theirs, --ours or --markers):
  a  (changed by the turn and again since, in the same lines)
Nothing was changed.
[exit Some(1)]
",
    );
}

#[test]
fn a_conflict_is_resolved_as_requested() {
    for (option, expected) in
        [("--theirs", TEN.to_owned()), ("--ours", TEN.replace("2\n", "person\n"))]
    {
        let session = changed();
        session.write("a", &session.read("a").replace("agent\n", "person\n"));
        let output = session.output(&["undo", option]);
        assert!(output.status.success(), "{option}");
        assert_eq!(session.read("a"), expected, "{option}");
    }
}

#[test]
fn markers_show_both_sides() {
    let session = changed();
    session.write("a", &session.read("a").replace("agent\n", "person\n"));
    session.output(&["undo", "--markers"]);
    let expected = "1\n<<<<<<< now\nperson\n=======\n2\n>>>>>>> before the turn\n3\n";
    assert!(session.read("a").starts_with(expected), "{}", session.read("a"));
}

#[test]
fn the_option_theirs_keeps_edits_outside_of_conflicts() {
    let session = changed();
    let mine = session.read("a").replace("agent\n", "person\n").replace("9\n", "person too\n");
    session.write("a", &mine);
    session.output(&["undo", "--theirs"]);
    assert_eq!(session.read("a"), TEN.replace("9\n", "person too\n"));
}

#[test]
fn clean_files_are_undone_although_others_conflict() {
    let session = Session::new();
    session.write("a", TEN);
    session.write("b", TEN);
    let mut agent = Agent::new(&session, "s1");
    agent.hears("both");
    agent.writes("a", "agent");
    agent.writes("b", &TEN.replace("2\n", "agent\n"));
    agent.is_done();
    session.write("a", "person");
    session.write("b", &session.read("b").replace("9\n", "person\n"));
    let undone = session.json(&["undo"]);
    assert_eq!(undone["restored"], json!(["b"]));
    assert_eq!(undone["conflicts"][0]["path"], "a");
    assert_eq!(
        (session.read("a"), session.read("b")),
        ("person".into(), TEN.replace("9\n", "person\n"))
    );
}

/// `git merge-file` merges the same three versions, and must get the same result.
#[test]
fn merges_equal_those_of_git() {
    let before = (1..=40).map(|number| format!("line {number}\n")).collect::<String>();
    let after = before.replace("line 5\n", "").replace("line 20\n", "line 20\nadded\n");
    let now = after.replace("line 12\n", "by hand\n").replace("line 40\n", "line 40\nend");
    let session = Session::new();
    session.write("a", &before);
    let mut agent = Agent::new(&session, "s1");
    agent.turn("edit", "a", &after);
    session.write("a", &now);
    session.output(&["undo"]);
    let base = session.base();
    for (name, content) in [("now", &now), ("base", &after), ("before", &before)] {
        fs::write(base.join(name), content).unwrap();
    }
    let merged = Command::new("git")
        .args(["merge-file", "-p", "now", "base", "before"])
        .current_dir(&base)
        .output()
        .unwrap();
    assert!(merged.status.success());
    assert_eq!(session.read("a"), String::from_utf8(merged.stdout).unwrap());
}
