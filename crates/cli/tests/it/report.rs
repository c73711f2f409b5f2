//! `takeback report`: what agents did on a day or in a week.

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::session::{Session, said};

/// Simulates two turns of an agent, and takes back one of them.
fn worked() -> Session {
    let session = Session::new();
    session.write("a.py", "1\n");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("tidy up the imports");
    agent.writes("a.py", "2\n3\n");
    agent.is_done();
    agent.hears("publish <b>it</b>");
    agent.writes("b.py", "1\n");
    agent.pretends("git push origin main");
    agent.is_done();
    assert!(session.output(&["rollback", "1", "--yes"]).status.success());
    session
}

fn printed(session: &Session, arguments: &[&str]) -> String {
    String::from_utf8(session.output(arguments).stdout).unwrap()
}

#[test]
fn a_report_adds_up_turns_and_files_and_effects_and_what_was_taken_back() {
    let session = worked();
    let report = session.json(&["report"]);
    let [project] = report["projects"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!(project["workspace"], json!(session.project()));
    let keys = ["turns", "taken_back", "files_changed", "insertions", "sessions"];
    let numbers: Vec<&Value> = keys.iter().map(|key| &project[*key]).collect();
    assert_eq!(numbers, [&json!(2), &json!(1), &json!(2), &json!(3), &json!(1)], "{project}");
    assert_eq!(project["effects"]["publish"], 1, "{project}");
    assert_eq!(report["totals"]["turns"], 2);
    let prompts = project["prompts"].as_array().unwrap();
    let prompts: Vec<(&Value, &Value)> =
        prompts.iter().map(|turn| (&turn["prompt"], &turn["taken_back"])).collect();
    assert_eq!(
        prompts,
        [
            (&json!("publish <b>it</b>"), &json!(true)),
            (&json!("tidy up the imports"), &json!(false)),
        ]
    );
}

#[test]
fn a_report_is_written_as_text_and_as_markdown() {
    let session = worked();
    let text = printed(&session, &["report"]);
    for part in
        ["What agents did on ", "~/project  (mine)", "2 turns, 1 taken back", "(taken back)"]
    {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    let markdown = printed(&session, &["report", "--week", "--markdown"]);
    for part in ["# What agents did from ", "## ~/project", "- 2 turns, 1 taken back", "  - ~~"] {
        assert!(markdown.contains(part), "{part} is missing:\n{markdown}");
    }
    assert!(!markdown.contains("<b>"), "a prompt does not become markup:\n{markdown}");
}

#[test]
fn a_report_says_if_there_was_no_work_and_refuses_an_invalid_day() {
    let session = worked();
    let text = printed(&session, &["report", "--day", "2001-02-03"]);
    assert!(text.contains("No agent did anything that takeback knows of."), "{text}");
    let wrong = session.output(&["report", "--day", "someday"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(said(&wrong).contains("give today, yesterday, or a date"), "{wrong:?}");
    let empty = Session::new();
    assert_eq!(empty.json(&["report"])["projects"], json!([]));
    assert!(!empty.base().join(".takeback").exists());
}
