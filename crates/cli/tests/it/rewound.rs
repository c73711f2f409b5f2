//! Rollbacks that take back the agent's own conversation as well.

use std::fs;

use serde_json::{Value, json};

use crate::agent::eventually;
use crate::logs::Claude;
use crate::session::Session;

/// A conversation of two turns, each of which writes a file.
fn with_two_turns(session: &Session) -> Claude<'_> {
    let mut claude = Claude::new(session);
    for (prompt, path) in [("add a file", "a.txt"), ("add another", "b.txt")] {
        claude.hears(prompt);
        claude.writes(prompt, path, path);
        claude.says(&format!("Wrote {path}."));
        claude.stops();
    }
    eventually("the last answer is in the ledger", || {
        session.json(&["search", "\"Wrote b.txt.\""])["total"] == 1
    });
    claude
}

fn ask(claude: &Claude<'_>, session: &str) -> String {
    let event =
        json!({ "hook_event_name": "UserPromptSubmit", "prompt": "and now?", "prompt_id": "p9" });
    claude.tell_as(session, event)
}

/// Rolls back, and returns the only conversation that moved.
fn moved_by(session: &Session, arguments: &[&str]) -> Value {
    let view = session.json(arguments);
    assert_eq!(view["sessions"].as_array().unwrap().len(), 1, "{view:#}");
    view["sessions"][0].clone()
}

#[test]
fn the_agents_own_conversation_goes_back_and_forward_with_the_files() {
    let session = Session::new();
    let claude = with_two_turns(&session);
    let original = fs::read(&claude.log).unwrap();
    let moved = moved_by(&session, &["rollback", "1", "--yes"]);
    assert_eq!(moved["undone_turns"], 1);
    let resume = &moved["resume"];
    let new = resume["session"].as_str().unwrap();
    assert_eq!(resume["argv"], json!(["claude", "--resume", new]));
    assert_eq!(resume["typed"], json!(format!("/resume {new}")));
    assert_eq!(resume["cwd"], json!(session.project()));
    let copy = fs::read_to_string(claude.log.with_file_name(format!("{new}.jsonl"))).unwrap();
    assert!(copy.contains("Wrote a.txt.") && !copy.contains("another"), "{copy}");
    assert_eq!(fs::read(&claude.log).unwrap(), original);

    let back = moved_by(&session, &["rollback", "undo", "--yes"]);
    assert_eq!(back["resume"]["argv"], json!(["claude", "--resume", "live"]));
    assert!(session.exists("b.txt"));
    assert_eq!(fs::read(&claude.log).unwrap(), original);
}

#[test]
fn the_copy_is_a_fork_whose_messages_are_found_once() {
    let session = Session::new();
    with_two_turns(&session);
    let moved = moved_by(&session, &["rollback", "1", "--yes"]);
    let new = format!("claude:{}", moved["resume"]["session"].as_str().unwrap());
    let messages = session.json(&["sessions", "show", &new])["messages"].as_array().unwrap().len();
    assert_eq!(messages, 4);
    // Reading all logs again adds nothing.
    let report = session.json(&["sessions", "import", "--from", "claude"]);
    assert_eq!(report["messages"], 0, "{report}");
    assert_eq!(session.json(&["search", "\"Wrote a.txt.\""])["total"], 1);
    let tree = session.json(&["sessions", "tree", "claude:live"]);
    assert!(tree.to_string().contains(&new), "{tree:#}");
}

#[test]
fn each_session_is_told_what_it_does_not_know() {
    let session = Session::new();
    let claude = with_two_turns(&session);
    let moved = moved_by(&session, &["rollback", "1", "--yes"]);
    let new = moved["resume"]["session"].as_str().unwrap();
    assert_eq!(ask(&claude, new), "", "the copy knows nothing of what was taken back");
    let told = ask(&claude, "live");
    assert!(
        told.contains("The user took back the prompt “add another” with all you did"),
        "{told}"
    );
    assert!(told.contains("Treat these messages as never sent"), "{told}");
}

#[test]
fn a_prompt_that_was_restored_is_not_reported_as_taken_back() {
    let session = Session::new();
    let claude = with_two_turns(&session);
    moved_by(&session, &["rollback", "1", "--yes"]);
    moved_by(&session, &["rollback", "undo", "--yes"]);
    let told = ask(&claude, "live");
    assert!(!told.contains("took back the prompt"), "{told}");
}

#[test]
fn nothing_is_left_before_the_first_prompt() {
    let session = Session::new();
    let claude = with_two_turns(&session);
    let moved = moved_by(&session, &["rollback", "2", "--yes"]);
    assert_eq!(moved["resume"]["session"], Value::Null);
    assert_eq!(moved["resume"]["argv"], json!(["claude"]));
    let logs = fs::read_dir(claude.log.parent().unwrap()).unwrap().count();
    assert_eq!(logs, 1, "no copy is written");
}

#[test]
fn a_log_that_cannot_be_copied_stays_and_the_reason_is_shown() {
    let session = Session::new();
    let claude = with_two_turns(&session);
    let unknown = fs::read_to_string(&claude.log).unwrap().replace("2.1.325", "9.9.9");
    fs::write(&claude.log, &unknown).unwrap();
    let output = session.output(&["rollback", "1", "--yes"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && !session.exists("b.txt"), "{text}");
    assert!(text.contains("The agent's own copy stays as it is: its log has a format"), "{text}");
    assert!(text.contains("press Esc twice and choose the prompt"), "{text}");
    assert_eq!(fs::read_to_string(&claude.log).unwrap(), unknown);
}

#[test]
fn a_rollback_of_files_alone_does_not_change_the_conversation() {
    let session = Session::new();
    let claude = with_two_turns(&session);
    let view = session.json(&["rollback", "1", "--yes", "--files-only"]);
    assert!(view["sessions"].is_null(), "{view:#}");
    assert_eq!(fs::read_dir(claude.log.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn the_agent_is_started_in_the_rewound_conversation() {
    use std::os::unix::fs::PermissionsExt;
    let session = Session::new();
    with_two_turns(&session);
    let programs = session.base().join("programs");
    fs::create_dir_all(&programs).unwrap();
    let program = programs.join("claude");
    fs::write(&program, "#!/bin/sh\necho \"started $* in $(pwd)\"\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = session.command(&["rollback", "1", "--yes", "--resume"]);
    let path = std::env::var("PATH").unwrap();
    let output = command.env("PATH", format!("{}:{path}", programs.display())).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let started = text.lines().last().unwrap();
    let here = session.project().canonicalize().unwrap();
    assert!(started.starts_with("started --resume "), "{text}");
    assert!(started.ends_with(&format!(" in {}", here.display())), "{text}");
}

#[test]
fn any_session_is_continued_in_its_directory_now_or_at_an_earlier_turn() {
    let session = Session::new();
    let claude = with_two_turns(&session);
    let now = session.json(&["resume", "live"]);
    assert_eq!(now["argv"], json!(["claude", "--resume", "live"]));
    assert_eq!(now["cwd"], json!(session.project()));
    let then = session.json(&["resume", "live", "--at", "1"]);
    let new = then["session"].as_str().unwrap();
    assert_ne!(new, "live");
    let copy = fs::read_to_string(claude.log.with_file_name(format!("{new}.jsonl"))).unwrap();
    assert!(copy.contains("Wrote a.txt.") && !copy.contains("another"), "{copy}");
    let printed = session.output(&["resume", new, "--print"]);
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert_eq!(
        printed.trim_end(),
        format!("cd {} && claude --resume {new}", session.project().display())
    );
    assert!(session.exists("b.txt"), "no file is changed");
}

#[test]
fn a_session_that_cannot_be_continued_is_refused_with_a_reason() {
    let session = Session::new();
    with_two_turns(&session);
    for (arguments, reason) in
        [(&["resume"][..], "no session is given"), (&["resume", "none-such"], "no session")]
    {
        let output = session.output(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.contains(reason), "{text}");
    }
}
