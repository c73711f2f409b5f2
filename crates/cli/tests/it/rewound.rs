//! Rollbacks that take back the agent's own conversation as well.

use std::fs;

use serde_json::{Value, json};

use crate::agent::{eventually, ledger};
use crate::logs::{Claude, claude_logs};
use crate::rpc_client::Client;
use crate::serve;
use crate::session::Session;

/// A conversation of two turns, each of which writes a file.
fn with_two_turns(session: &Session) -> Claude<'_> {
    work_for_two_turns(session, Claude::new(session))
}

fn work_for_two_turns<'s>(session: &'s Session, mut claude: Claude<'s>) -> Claude<'s> {
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

/// Runs a command that rolls back, or that reverses a rollback. Returns the only conversation that
/// was rewound or restored.
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
fn only_the_original_session_is_told_about_the_rollback_and_not_its_copy() {
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
fn a_rollback_to_before_the_first_prompt_leaves_no_conversation() {
    let session = Session::new();
    let claude = with_two_turns(&session);
    let moved = moved_by(&session, &["rollback", "2", "--yes"]);
    assert_eq!(moved["resume"]["session"], Value::Null);
    assert_eq!(moved["resume"]["argv"], json!(["claude"]));
    let logs = fs::read_dir(claude.log.parent().unwrap()).unwrap().count();
    assert_eq!(logs, 1, "no copy is written");
}

#[test]
fn a_log_that_cannot_be_copied_is_left_unchanged_and_the_reason_is_shown() {
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
fn an_undo_of_the_last_turn_also_rewinds_the_agents_own_conversation() {
    let session = Session::new();
    let claude = with_two_turns(&session);
    session.write("mine.txt", "by the user");
    let moved = moved_by(&session, &["undo", "--yes"]);
    assert_eq!(moved["undone_turns"], 1);
    let new = moved["resume"]["session"].as_str().unwrap();
    let copy = fs::read_to_string(claude.log.with_file_name(format!("{new}.jsonl"))).unwrap();
    assert!(copy.contains("Wrote a.txt.") && !copy.contains("another"), "{copy}");
    assert!(session.exists("mine.txt") && !session.exists("b.txt"));
    let back = moved_by(&session, &["rollback", "undo", "--yes"]);
    assert_eq!(back["resume"]["session"], "live");
    assert!(session.exists("b.txt"));
}

#[test]
fn an_undo_leaves_the_conversation_unchanged_if_later_turns_follow_or_the_user_asks_for_that() {
    for arguments in [&["undo", "--turn", "2", "--yes"][..], &["undo", "--files-only", "--yes"]] {
        let session = Session::new();
        with_two_turns(&session);
        let view = session.json(arguments);
        assert!(view["sessions"].is_null(), "{view:#}");
        assert!(!(session.exists("a.txt") && session.exists("b.txt")), "{view:#}");
    }
}

#[test]
fn the_option_resume_starts_the_agent_in_the_rewound_conversation() {
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
fn any_session_can_be_continued_in_its_directory_from_its_end_or_an_earlier_turn() {
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

#[test]
fn a_fork_also_copies_the_agents_own_conversation() {
    let session = Session::new();
    let claude = with_two_turns(&session);
    let original = fs::read(&claude.log).unwrap();
    let fork = session.base().join("try.it");
    let made = session.json(&["fork", "1", fork.to_str().unwrap()]);
    let new = made["resume"]["session"].as_str().unwrap();
    assert_eq!(made["resume"]["argv"], json!(["claude", "--resume", new]));
    assert_eq!(made["resume"]["cwd"], json!(fork));
    assert_eq!(made["session"], json!(format!("claude:{new}")));
    assert!(fork.join("a.txt").exists() && !fork.join("b.txt").exists());
    let log = claude_logs(&session, &fork).join(format!("{new}.jsonl"));
    let copy = fs::read_to_string(&log).unwrap();
    assert!(copy.contains("Wrote a.txt.") && !copy.contains("another"), "{copy}");
    assert!(copy.contains(&format!("\"cwd\":{}", json!(fork))), "{copy}");
    assert_eq!(fs::read(&claude.log).unwrap(), original);
    assert_eq!(session.json(&["sessions", "import", "--from", "claude"])["messages"], 0);
    assert_eq!(session.json(&["search", "\"Wrote a.txt.\""])["total"], 1);
    let tree = session.json(&["sessions", "tree", "claude:live"]);
    assert!(tree.to_string().contains(new), "{tree:#}");
    let told = ask(&claude, new);
    assert!(told.contains("This conversation is a fork: it now works in"), "{told}");
    let again = session.json(&["resume", new]);
    assert_eq!(again["argv"], made["resume"]["argv"], "the fork has its log already");
}

#[test]
fn a_fork_from_the_end_of_a_session_has_the_whole_conversation() {
    let session = Session::new();
    with_two_turns(&session);
    let fork = session.base().join("try");
    let made = session.json(&["fork", "live@now", fork.to_str().unwrap()]);
    let new = made["resume"]["session"].as_str().unwrap();
    let log = claude_logs(&session, &fork).join(format!("{new}.jsonl"));
    let copy = fs::read_to_string(&log).unwrap();
    assert!(copy.contains("Wrote a.txt.") && copy.contains("Wrote b.txt."), "{copy}");
}

#[test]
fn a_fork_is_continued_by_the_sessions_own_agent_or_by_takebacks_agent() {
    let session = Session::new();
    with_two_turns(&session);
    let fork = session.base().join("try");
    let fork = fork.to_str().unwrap();
    let output = session.output(&["fork", "1", fork, "--agent", "codex"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("codex cannot continue claude:live"), "{text}");
    let made = session.json(&["fork", "1", fork, "--agent", "takeback"]);
    assert!(made["session"].as_str().unwrap().starts_with("takeback:"), "{made:#}");
    assert!(made["resume"].is_null(), "{made:#}");
}

#[test]
fn two_forks_are_compared() {
    let session = Session::new();
    with_two_turns(&session);
    let forks = ["one", "two"].map(|name| session.base().join(name));
    for fork in &forks {
        session.json(&["fork", "1", fork.to_str().unwrap()]);
    }
    fs::write(forks[1].join("idea.txt"), "a\nb\n").unwrap();
    let [one, two] = forks.each_ref().map(|fork| fork.to_str().unwrap());
    let compared = session.json(&["compare", one, two, "--test", "test -e idea.txt"]);
    assert_eq!(compared["files_changed"], 1, "{compared:#}");
    assert_eq!(compared["changes"][0]["path"], "idea.txt");
    assert_eq!(compared["insertions"], 2);
    let [first, second] = [0, 1].map(|index| &compared["directories"][index]);
    assert_eq!(
        (&first["test"]["passed"], &second["test"]["passed"]),
        (&json!(false), &json!(true))
    );
    assert_eq!((&first["sessions"], &first["turns"]), (&json!(1), &json!(0)), "{first:#}");
    let output = session.output(&["compare", one, one]);
    assert!(!output.status.success());
}

#[test]
fn doctor_lists_the_copies() {
    let session = Session::new();
    with_two_turns(&session);
    let moved = moved_by(&session, &["rollback", "1", "--yes"]);
    let new = format!("claude:{}", moved["resume"]["session"].as_str().unwrap());
    let output = session.output(&["doctor", "--json"]);
    let view: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(view["copies"][0]["session"], json!(new), "{view:#}");
    assert_eq!(view["copies"][0]["parent"], "claude:live");
}

/// Types a slash command in a session, as an agent's plugin does.
fn type_in(session: &Session, name: &str, arguments: &str) -> Value {
    let output = session.output(&["slash", "--session", name, "rollback", arguments]);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_plugin_learns_which_conversation_it_should_show() {
    let session = Session::new();
    with_two_turns(&session);
    let back = type_in(&session, "claude:live", "1");
    let new = back["resume"]["session"].as_str().unwrap();
    assert!(
        back["text"].as_str().unwrap().contains("messages) taken back. Continue with `"),
        "{back:#}"
    );
    assert!(back["resume"]["file"].as_str().unwrap().ends_with(&format!("{new}.jsonl")));
    let copy = format!("claude:{new}");
    let forward = type_in(&session, &copy, "undo");
    assert_eq!(forward["resume"]["session"], "live", "{forward:#}");
    let list = type_in(&session, &copy, "");
    assert!(list["resume"].is_null() && list["text"].as_str().unwrap().contains("Checkpoints"));
}

#[test]
fn each_session_whose_turns_were_taken_back_has_its_own_line() {
    let session = Session::new();
    with_two_turns(&session);
    let mut second = Claude::called(&session, "second");
    for (prompt, path) in [("make c", "c.txt"), ("make d", "d.txt")] {
        second.hears(prompt);
        second.writes(prompt, path, path);
        second.says(&format!("Wrote {path}."));
        second.stops();
    }
    eventually("the last answer is in the ledger", || {
        session.json(&["search", "\"Wrote d.txt.\""])["total"] == 1
    });
    // This returns to the state before the second turn of the first session.
    let view = session.json(&["rollback", "3", "--yes"]);
    let moved = view["sessions"].as_array().unwrap();
    assert_eq!(moved.len(), 2, "{view:#}");
    let resume = |name: &str| {
        let found = moved.iter().find(|moved| moved["session"] == name).unwrap();
        found["resume"].clone()
    };
    assert_ne!(resume("claude:live")["session"], "live");
    assert_eq!(resume("claude:second")["session"], Value::Null, "nothing is left of it");
    assert_eq!(resume("claude:second")["argv"], json!(["claude"]));
}

#[test]
fn a_copy_that_was_continued_is_taken_back_to_where_it_began() {
    let session = Session::new();
    let claude = with_two_turns(&session);
    let moved = moved_by(&session, &["rollback", "1", "--yes"]);
    let new = moved["resume"]["session"].as_str().unwrap().to_owned();
    // The agent continues the copy with a turn that writes a file.
    let log = claude.log.with_file_name(format!("{new}.jsonl"));
    let path = session.project().join("e.txt");
    let input = json!({ "file_path": path, "content": "e" });
    let call = json!({ "hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": input,
        "tool_use_id": "te", "prompt_id": "p8" });
    claude.tell_as(
        &new,
        json!({ "hook_event_name": "UserPromptSubmit", "prompt": "make e",
        "prompt_id": "p8" }),
    );
    claude.tell_as(&new, call);
    fs::write(&path, "e").unwrap();
    let mut lines = fs::read_to_string(&log).unwrap();
    for (uuid, parent, role, content) in [
        ("f1", "e4", "user", json!("make e")),
        (
            "f2",
            "f1",
            "assistant",
            json!([{ "type": "tool_use", "id": "te", "name": "Write", "input": input }]),
        ),
        (
            "f3",
            "f2",
            "user",
            json!([{ "type": "tool_result", "tool_use_id": "te", "content": "ok" }]),
        ),
        ("f4", "f3", "assistant", json!([{ "type": "text", "text": "Wrote e.txt." }])),
    ] {
        let now = takeback_ledger::Time::from(std::time::SystemTime::now()).rfc3339();
        let line = json!({ "type": role, "uuid": uuid, "parentUuid": parent, "sessionId": new,
            "version": "2.1.325", "isSidechain": false, "timestamp": now,
            "cwd": session.project(), "message": { "role": role, "content": content } });
        lines.push_str(&format!("{line}\n"));
    }
    fs::write(&log, lines).unwrap();
    claude.tell_as(&new, json!({ "hook_event_name": "Stop" }));
    eventually("the answer is in the ledger", || {
        session.json(&["search", "\"Wrote e.txt.\""])["total"] == 1
    });
    let view = session.json(&["rollback", "1", "--yes"]);
    let moved = view["sessions"].as_array().unwrap();
    let own = moved.iter().find(|moved| moved["session"] == json!(format!("claude:{new}")));
    let resume = &own.unwrap()["resume"];
    let third = resume["session"].as_str().unwrap_or_else(|| panic!("{view:#}"));
    let copy = fs::read_to_string(claude.log.with_file_name(format!("{third}.jsonl"))).unwrap();
    assert!(copy.contains("Wrote a.txt.") && !copy.contains("make e"), "{copy}");
}

/// Claude Code finds a conversation only in the directory that the conversation was started in.
#[test]
fn a_session_that_was_started_below_the_workspace_is_continued_there() {
    let session = Session::new();
    session.write(".git/HEAD", "ref: refs/heads/main\n");
    session.write("sub/own.txt", "x");
    let below = session.project().join("sub");
    let claude = Claude::started_in(&session, "live", below.clone());
    let claude = work_for_two_turns(&session, claude);
    let text = String::from_utf8(session.output(&["rollback", "1", "--yes"]).stdout).unwrap();
    let command = format!("`cd {} && claude --resume ", below.display());
    assert!(text.contains(&command), "{text}");
    let now = session.json(&["resume", "live"]);
    assert_eq!(now["cwd"], json!(below), "{now:#}");
    let new = now["session"].as_str().unwrap();
    assert!(claude.log.with_file_name(format!("{new}.jsonl")).exists());
    let back = moved_by(&session, &["rollback", "undo", "--yes"]);
    assert_eq!(
        (&back["resume"]["session"], &back["resume"]["cwd"]),
        (&json!("live"), &json!(below))
    );
    let fork = session.base().join("try");
    let made = session.json(&["fork", "1", fork.to_str().unwrap()]);
    assert_eq!(made["resume"]["cwd"], json!(fork.join("sub")), "{made:#}");
    let new = made["resume"]["session"].as_str().unwrap();
    assert!(claude_logs(&session, &fork.join("sub")).join(format!("{new}.jsonl")).exists());
    let first = session.json(&["rollback", "2", "--yes"]);
    let resume = &first["sessions"][0]["resume"];
    assert_eq!((&resume["session"], &resume["cwd"]), (&Value::Null, &json!(below)), "{first:#}");
}

#[test]
fn a_rollback_in_the_browser_also_rewinds_the_agents_own_conversation() {
    let session = Session::new();
    let claude = with_two_turns(&session);
    let list = session.json(&["list"]);
    let workspace = session.workspace_directory();
    let workspace = workspace.file_name().unwrap().to_str().unwrap();
    let (_served, link) = serve::start(&session, &[]);
    let asked = json!({ "workspace": workspace, "checkpoint": list["checkpoints"][0]["id"] });
    let planned = serve::post(&link, "plan", asked);
    let done = serve::post(&link, "apply", json!({ "digest": planned["digest"] }));
    let resume = &done["sessions"][0]["resume"];
    let new = resume["session"].as_str().unwrap_or_else(|| panic!("{done:#}"));
    assert_eq!(resume["argv"], json!(["claude", "--resume", new]));
    let copy = fs::read_to_string(claude.log.with_file_name(format!("{new}.jsonl"))).unwrap();
    assert!(copy.contains("Wrote a.txt.") && !copy.contains("another"), "{copy}");
    let undone = serve::post(&link, "undo", json!({ "workspace": workspace }));
    assert_eq!(undone["sessions"][0]["resume"]["session"], "live", "{undone:#}");
}

#[test]
fn a_rollback_that_is_finished_after_a_kill_also_rewinds_the_agents_own_conversation() {
    let session = Session::new();
    let claude = with_two_turns(&session);
    let logs = || fs::read_dir(claude.log.parent().unwrap()).unwrap().count();
    for _ in 0..50 {
        // The rollback restores the files, and then waits for the ledger.
        let busy = ledger(&session);
        busy.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut child = session.start(&["rollback", "1", "--yes"]);
        eventually("the files are restored", || !session.exists("b.txt"));
        child.kill().unwrap();
        child.wait().unwrap();
        busy.execute_batch("ROLLBACK").unwrap();
        assert_eq!(logs(), 1);
        let next = session.output(&["list"]);
        if session.exists("b.txt") {
            // The rollback was killed before it had restored everything, so it was reverted.
            continue;
        }
        let text = String::from_utf8(next.stderr).unwrap();
        let (_, rest) = text.split_once("continue with `claude --resume ").unwrap();
        let (new, _) = rest.split_once('`').unwrap();
        let copy = fs::read_to_string(claude.log.with_file_name(format!("{new}.jsonl"))).unwrap();
        assert!(copy.contains("Wrote a.txt.") && !copy.contains("another"), "{copy}");
        assert!(session.output(&["list"]).stderr.is_empty());
        return;
    }
    panic!("no rollback was killed in time");
}

#[test]
fn a_fork_over_rpc_also_copies_the_agents_own_conversation() {
    let session = Session::new();
    with_two_turns(&session);
    let mut client = Client::new(&session);
    let made = client.call("fork", json!({ "from": 1, "directory": "../try" }));
    let fork = session.base().join("try");
    let new = made["resume"]["session"].as_str().unwrap_or_else(|| panic!("{made:#}"));
    assert_eq!(made["resume"]["cwd"], json!(fork));
    assert!(claude_logs(&session, &fork).join(format!("{new}.jsonl")).exists());
    let other = json!({ "from": 1, "directory": "../own", "agent": "takeback" });
    let other = client.call("fork", other);
    assert!(other["session"].as_str().unwrap().starts_with("takeback:"), "{other:#}");
    assert!(client.end().success());
}
