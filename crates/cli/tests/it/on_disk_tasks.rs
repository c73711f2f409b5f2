//! The current version can continue the tasks and goals in a home that an earlier version wrote.
//!
//! `make_home_with_tasks` created the archive, and the tests check everything that this function
//! did. The function need not be run again: if the format changes, another archive is added.
//!
//! ```text
//! unshare --uts sh -c 'hostname fixture; cargo nextest run -p takeback --run-ignored only make_home_with_tasks'
//! ```

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use takeback_script::{Reply, Request, Server};

use crate::scripted_model::{
    StuckModel, chat, chat_output, list_tasks, text_of, use_model, writer,
};
use crate::session::Session;

/// The directory in which the archive was made.
const OLD: &str = "/tmp/takeback-fixture-tasks";

fn archive() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/home-0.1-tasks.tar.gz")
}

/// Answers as [`writer`] does. In addition, the prompt `delegate` makes a subagent write a file,
/// and a goal is reached in its second turn.
fn answer(request: &Request) -> Reply {
    let finish = json!({ "status": "reached", "summary": "it works" });
    match (request.last_text(), request.last_result()) {
        (_, Some(_)) => Reply::text("That is done."),
        ("delegate", None) => Reply::call("subagent", json!({ "prompt": "add by-subagent.txt" })),
        ("make it work", None) => Reply::text("One step is done."),
        ("Continue working on the goal.", None) => Reply::call("finish_goal", finish),
        (_, None) => writer(request),
    }
}

#[test]
#[ignore = "creates the archive, which is normally not created again"]
fn make_home_with_tasks() {
    // The paths become part of the archive, so they must be the same on every machine.
    let session = Session::at(Path::new(OLD));
    let use_server = |server: &Server| use_model(&session, server, "");
    // Create a conversation that is long enough for a snapshot of its state.
    let server = Server::start(answer).unwrap();
    use_server(&server);
    let mut command = chat(&session, &["chat", "--yes"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let prompts: String = (1..=12).map(|number| format!("write {number}\n")).collect();
    let lines = prompts + "/title The long one\n";
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    // Kill a turn after its call, and kill another turn after a call of its subagent.
    let model = StuckModel::start(answer, |request| request.last_result().is_some());
    use_server(&model.server);
    model.kill_when_stuck(&session, &["chat", "-p", "add killed.txt"]);
    model.kill_when_stuck(&session, &["chat", "-p", "delegate"]);
    // Kill the process of a goal in the goal's second turn.
    let model = StuckModel::start(answer, |request| request.last_text().starts_with("Continue"));
    use_server(&model.server);
    model.kill_when_stuck(&session, &["goal", "start", "make it work", "--turns", "5"]);
    // Reach another goal, and leave a call waiting for approval.
    use_server(&server);
    chat_output(&session, &["goal", "start", "make it work", "--usd", "2"]);
    let waiting = chat(&session, &["chat", "-p", "publish"]).output().unwrap();
    assert_eq!(waiting.status.code(), Some(1), "{}", text_of(&waiting));
    // This command waits for exclusive access to the store. When it ends, the background work of
    // the last turns is done.
    session.output(&["checkpoints", "gc"]);
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--format=gnu", "-czf"]).arg(archive());
    assert!(tar.args([".takeback", "project"]).current_dir(OLD).status().unwrap().success());
    fs::remove_dir_all(OLD).unwrap();
}

/// Unpacks the archive, moves its history to the unpacked project, and configures takeback to use
/// the model of this server.
fn unpacked_home(server: &Server) -> Session {
    let session = Session::new();
    let mut tar = Command::new("tar");
    let status = tar.arg("-xpzf").arg(archive()).arg("-C").arg(session.base()).status();
    assert!(status.unwrap().success());
    session.json(&["checkpoints", "move", &format!("{OLD}/project"), "."]);
    use_model(&session, server, "");
    session
}

/// Finds the task of the session that begins with this prompt.
fn find_task(session: &Session, prompt: &str) -> Value {
    let has_prompt = |task: &&Value| {
        let shown = session.json(&["sessions", "show", task["session"].as_str().unwrap()]);
        shown["messages"][0]["content"] == prompt
    };
    let tasks = list_tasks(session);
    tasks.iter().find(has_prompt).unwrap_or_else(|| panic!("{prompt}: {tasks:#?}")).clone()
}

#[test]
fn tasks_of_an_earlier_version_continue_where_they_were() {
    let server = Server::start(answer).unwrap();
    let session = unpacked_home(&server);
    assert!(session.output(&["sessions", "verify"]).status.success());
    let tasks = list_tasks(&session);
    assert!(tasks.iter().all(|task| task["workspace"] == json!(session.project())), "{tasks:#?}");
    let resume = |prompt: &str, state: &str| {
        let task = find_task(&session, prompt);
        assert_eq!(task["state"], state, "{prompt}");
        chat_output(&session, &["tasks", "resume", task["id"].as_str().unwrap(), "--yolo"]);
        assert_eq!(find_task(&session, prompt)["state"], "idle", "{prompt}");
    };
    // A finished step is not repeated.
    fs::remove_file(session.project().join("killed.txt")).unwrap();
    resume("add killed.txt", "interrupted");
    assert!(!session.exists("killed.txt"));
    resume("delegate", "interrupted");
    assert_eq!(session.read("by-subagent.txt"), "new\n");
    resume("publish", "waiting");
    // The state of the long conversation comes from a snapshot.
    chat_output(&session, &["chat", "--resume", "The long one", "-p", "add more.txt"]);
    assert_eq!(session.read("more.txt"), "new\n");
    let requests = server.requests();
    let request = requests.iter().rev().find(|request| request.last_text() == "add more.txt");
    assert_eq!(request.unwrap().count_text("write 1"), 4, "1, 10, 11 and 12 are there");
}

#[test]
fn goals_of_an_earlier_version_continue_where_they_were() {
    let server = Server::start(answer).unwrap();
    let session = unpacked_home(&server);
    let goals = session.json(&["goal", "list"])["goals"].clone();
    let goals = goals.as_array().unwrap();
    let find = |state: &str| goals.iter().find(|goal| goal["state"] == state).unwrap();
    assert_eq!((goals.len(), &find("complete")["reason"]), (2, &json!("it works")));
    let paused = find("paused");
    assert_eq!(
        (&paused["reason"], &paused["spent"]["turns"]),
        (&json!("its process ended"), &json!(1))
    );
    chat_output(&session, &["goal", "resume", paused["id"].as_str().unwrap()]);
    let goal = session.json(&["goal", "show", paused["id"].as_str().unwrap()]);
    assert_eq!((&goal["state"], &goal["spent"]["turns"]), (&json!("complete"), &json!(2)));
}
