//! Undoing a rollback, and redoing it.

use std::fs;

use crate::session::Session;

#[test]
fn repeated_undos_of_rollbacks_go_further_back() {
    let session = Session::new();
    for content in ["1", "2", "3"] {
        session.write("file", content);
        session.output(&["checkpoint"]);
    }
    session.write("file", "4");
    session.output(&["rollback", "1"]);
    session.output(&["rollback", "3"]);
    assert_eq!(session.read("file"), "1");
    session.output(&["rollback", "undo"]);
    assert_eq!(session.read("file"), "3");
    session.output(&["rollback", "undo"]);
    assert_eq!(session.read("file"), "4");
}

#[test]
fn undoing_the_rollback_of_a_guarded_file_restores_it() {
    let session = Session::new();
    session.write(".gitignore", ".env\n");
    session.write(".env", "1");
    session.output(&["checkpoint"]);
    session.write(".env", "2");
    session.output(&["rollback", "1", ".env"]);
    assert_eq!(session.read(".env"), "1");
    session.output(&["rollback", "undo"]);
    assert_eq!(session.read(".env"), "2");
}

/// Runs takeback and returns the word that follows `takeback rollback` in the last line of its
/// output.
fn named_reverse(session: &Session, arguments: &[&str]) -> String {
    let text = String::from_utf8(session.output(arguments).stdout).unwrap();
    let line = text.lines().last().unwrap();
    let (_, word) = line.split_once(". `takeback rollback ").unwrap();
    word.split('`').next().unwrap().to_owned()
}

#[test]
fn the_command_named_by_an_undo_reverses_the_undo() {
    let session = Session::new();
    session.write("a", "1");
    session.output(&["checkpoint"]);
    session.write("a", "2");
    session.output(&["rollback", "1"]);
    session.write("a", "two hours of work");
    let back = named_reverse(&session, &["rollback", "undo"]);
    assert_eq!(session.read("a"), "2");
    session.output(&["rollback", &back]);
    assert_eq!(session.read("a"), "two hours of work");
}

#[test]
fn undoing_a_rollback_passes_over_a_failed_rollback() {
    let session = Session::new();
    session.write("a", "1");
    session.write("thing", "1");
    session.output(&["checkpoint"]);
    session.write("a", "2");
    session.output(&["rollback", "1", "a"]);
    // Something that no rollback can replace is now in the way.
    fs::remove_file(session.project().join("thing")).unwrap();
    session.write("thing/.git/HEAD", "x");
    assert!(!session.output(&["rollback", "1"]).status.success());
    fs::remove_dir_all(session.project().join("thing")).unwrap();
    session.output(&["rollback", "undo"]);
    assert_eq!(session.read("a"), "2");
}

#[test]
fn an_undo_with_nothing_left_to_do_still_counts() {
    let session = Session::new();
    session.write("a", "1");
    session.write("b", "1");
    session.output(&["checkpoint"]);
    session.write("a", "2");
    session.write("b", "2");
    session.output(&["rollback", "1", "a"]);
    session.output(&["rollback", "1", "b"]);
    session.write("b", "2");
    session.output(&["rollback", "undo"]);
    session.output(&["rollback", "undo"]);
    assert_eq!((session.read("a"), session.read("b")), ("2".into(), "2".into()));
}

#[test]
fn an_undo_continues_without_a_file_that_was_removed_since() {
    let session = Session::new();
    session.write("a", "1");
    session.write("b", "1");
    session.output(&["checkpoint"]);
    fs::remove_file(session.project().join("a")).unwrap();
    session.write("b", "2");
    session.output(&["rollback", "1", "a", "b"]);
    fs::remove_file(session.project().join("a")).unwrap();
    session.output(&["rollback", "undo"]);
    assert_eq!(session.read("b"), "2");
}

#[test]
fn an_undo_restores_a_file_that_is_now_guarded() {
    let session = Session::new();
    session.write("notes.txt", "v1");
    session.output(&["checkpoint"]);
    session.write(".gitignore", "notes.txt\n");
    session.write("notes.txt", "v2");
    session.output(&["rollback", "1"]);
    assert_eq!(session.read("notes.txt"), "v1");
    session.output(&["rollback", "undo"]);
    assert_eq!(session.read("notes.txt"), "v2");
}
