//! `takeback export --html`, and naming, pinning and deleting single checkpoints.

use crate::agent::with_two_turns;
use crate::session::Session;

/// Runs a command that must succeed, and returns what it prints.
fn say(session: &Session, arguments: &[&str]) -> String {
    let output = session.output(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_turn_and_a_whole_day_can_be_exported_to_a_file() {
    let session = with_two_turns();
    for subject in ["1", "today"] {
        let said = say(&session, &["export", "--html", subject, "-o", "page.html"]);
        assert!(said.contains("page.html") && said.contains("Secrets are masked."), "{said}");
        let page = session.read("page.html");
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"), "{subject}");
        assert!(!page.contains("<script"), "{subject}");
        std::fs::remove_file(session.project().join("page.html")).unwrap();
    }
    let piped = say(&session, &["export", "--html", "1"]);
    assert!(piped.starts_with("<!DOCTYPE html>"), "{piped}");
    let refused = session.command(&["export", "--html", "nothing-like-this"]).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("not a turn, session or day"), "{said}");
}

#[test]
fn a_checkpoint_can_be_named_then_pinned_and_later_deleted() {
    let session = with_two_turns();
    let said = say(&session, &["checkpoints", "name", "2", "good"]);
    assert!(said.contains("is called good"), "{said}");
    assert!(say(&session, &["show", "good"]).contains("good"));
    let refused = session.command(&["checkpoints", "delete", "good", "--force"]).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("checkpoints unpin"));
    assert!(say(&session, &["checkpoints", "pin", "good"]).contains("never pruned"));
    say(&session, &["checkpoints", "unpin", "2"]);
    assert!(say(&session, &["checkpoints", "name", "2"]).contains("has no name"));
    let unasked = session.command(&["checkpoints", "delete", "2"]).output().unwrap();
    assert!(!unasked.status.success(), "a deletion is confirmed");
    let said = say(&session, &["checkpoints", "delete", "2", "--force"]);
    assert!(said.contains("Deleted"), "{said}");
    assert!(!session.command(&["show", "2"]).output().unwrap().status.success());
}
