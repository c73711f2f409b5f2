//! Tasks that were left open: which commands show them, and how they continue.

use std::process::Stdio;

use serde_json::{Value, json};
use takeback_script::{Reply, Request, Server};

use crate::agent::eventually;
use crate::scripted_model::{
    StuckModel, chat, chat_output, last_session, list_tasks, text_of, use_model, with_model, writer,
};
use crate::session::Session;

/// Prepares a chat that was killed after its first call.
fn killed_chat() -> (StuckModel, Session) {
    let model = StuckModel::start(writer, |request| request.last_result().is_some());
    let session = with_model(&model.server);
    model.kill_when_stuck(&session, &["chat", "-p", "write"]);
    model.release();
    (model, session)
}

fn only_id(session: &Session) -> String {
    list_tasks(session)[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn interrupted_conversations_continue_without_a_question_if_the_settings_say_so() {
    let (model, session) = killed_chat();
    // Without `auto_resume`, the task is not continued, and the user is told what to type.
    let output = chat(&session, &["chat"]).stdin(Stdio::null()).output().unwrap();
    let said = text_of(&output);
    let id = only_id(&session);
    assert!(output.status.success() && said.contains("was interrupted in the middle"), "{said}");
    assert!(said.contains(&format!("`takeback tasks resume {id}` continues it.")), "{said}");
    assert_eq!(list_tasks(&session)[0]["state"], "interrupted");
    use_model(&session, &model.server, "auto_resume = true");
    // `-p` is for scripts: it runs a single turn and does not continue another conversation.
    chat_output(&session, &["chat", "-p", "hi"]);
    assert_eq!(list_tasks(&session)[1]["state"], "interrupted");
    let output = chat(&session, &["chat"]).stdin(Stdio::null()).output().unwrap();
    let said = text_of(&output);
    assert!(said.contains("I wrote the **note**."), "{said}");
    assert!(list_tasks(&session).iter().all(|task| task["state"] == "idle"));
}

#[test]
fn status_and_doctor_show_what_was_left_open() {
    let (_, session) = killed_chat();
    let (id, name) = (only_id(&session), last_session(&session));
    let line = format!("{name} was interrupted; continue it with `takeback tasks resume {id}`");
    for command in ["status", "doctor"] {
        let said = text_of(&session.output(&[command]));
        let unwrapped = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(unwrapped.contains(&line), "{command}: {said}");
        let view = session.json(&[command]);
        let expected = json!([{
            "kind": "chat", "id": id, "session": name, "state": "interrupted",
            "command": format!("takeback tasks resume {id}"),
        }]);
        assert_eq!(view["tasks"], expected, "{command}");
    }
    assert!(session.output(&["tasks", "cancel", &id]).status.success());
    assert_eq!(session.json(&["status"])["tasks"], json!([] as [Value; 0]));
}

#[test]
fn the_refusal_to_resume_or_cancel_a_task_says_why() {
    let model = StuckModel::start(writer, |request| request.last_text() == "stall");
    let session = with_model(&model.server);
    chat_output(&session, &["chat", "-p", "write"]);
    let (id, name) = (only_id(&session), last_session(&session));
    let fails = |arguments: &[&str], message: &str, hint: &str| {
        let output = chat(&session, arguments).output().unwrap();
        let said = text_of(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert_eq!(said, format!("error: {message}\nhint: {hint}\n"), "{arguments:?}");
    };
    let (unknown, all) = ("no task \"nothing\"", "`takeback tasks --all` lists the tasks");
    fails(&["tasks", "resume", "nothing"], unknown, all);
    fails(&["tasks", "cancel", "nothing"], unknown, all);
    fails(
        &["goal", "show", "nothing"],
        "no goal \"nothing\"",
        "`takeback goal list` lists the goals",
    );
    fails(
        &["tasks", "resume", &id],
        &format!("the last turn of task {id} is over"),
        &format!("`takeback chat --resume {name}` continues its conversation"),
    );
    fails(
        &["tasks", "cancel", &id],
        &format!("task {id} has no turn to stop: its last one is over"),
        &format!("`takeback sessions show {name}` shows the conversation"),
    );
    let mut command = chat(&session, &["chat", "--resume", "-p", "stall"]);
    let mut live = command.stdout(Stdio::null()).spawn().unwrap();
    model.reached.recv().unwrap();
    let stop = format!("continue there, or stop its turn with `takeback tasks cancel {id}`");
    let busy = format!("another process is working on task {id}");
    fails(&["tasks", "resume", &id], &busy, &stop);
    fails(&["chat", "--resume", "-p", "hi"], &busy, &stop);
    assert_eq!(session.json(&["tasks", "cancel", &id])["state"], "stopping");
    live.kill().unwrap();
    live.wait().unwrap();
    assert_eq!(session.json(&["tasks", "cancel", &id])["state"], "idle");
}

/// Works on a goal: only answers in the first turn, and reports in the next turn that the goal is
/// reached.
fn worker(request: &Request) -> Reply {
    let finish = json!({ "status": "reached", "summary": "it works" });
    match (request.last_text(), request.last_result()) {
        (_, Some(_)) => Reply::text("That was it."),
        ("make it work", None) => Reply::text("One step is done."),
        (_, None) => Reply::call("finish_goal", finish),
    }
}

#[test]
fn a_goal_whose_process_was_killed_continues_when_a_chat_begins() {
    let model = StuckModel::start(worker, |request| request.last_text() != "make it work");
    let session = with_model(&model.server);
    model.kill_when_stuck(&session, &["goal", "start", "make it work", "--turns", "5"]);
    let goal = session.json(&["goal", "list"])["goals"][0].clone();
    assert_eq!((&goal["state"], &goal["reason"]), (&json!("paused"), &json!("its process ended")));
    let id = goal["id"].as_str().unwrap();
    let said = text_of(&session.output(&["status"]));
    assert!(said.contains(&format!("`takeback goal resume {id}`")), "{said}");
    let output = chat(&session, &["tasks", "resume", goal["task"].as_str().unwrap()]).output();
    let said = text_of(&output.unwrap());
    assert!(said.contains("works on a goal") && said.contains("takeback goal resume"), "{said}");
    model.release();
    let output = chat(&session, &["chat"]).stdin(Stdio::null()).output().unwrap();
    let said = text_of(&output);
    assert!(said.contains("(“make it work”) continues in the background"), "{said}");
    let show = || session.json(&["goal", "show", id]);
    eventually("the goal is reached", || show()["state"] == "complete");
    // The turn that ran before the process was killed still counts.
    assert_eq!(show()["spent_in_run"]["turns"], 2);
}

#[test]
fn a_goal_that_needs_approval_waits_for_the_user() {
    let server = Server::start(|request: &Request| match request.last_result() {
        None => Reply::call("terminal", json!({ "command": "git push" })),
        Some(_) => worker(request),
    })
    .unwrap();
    let session = with_model(&server);
    let output = chat(&session, &["goal", "start", "publish it"]).output().unwrap();
    assert!(text_of(&output).contains("blocked: a call waits for approval"), "{output:?}");
    let goal = session.json(&["goal", "list"])["goals"][0].clone();
    let (id, task) = (goal["id"].as_str().unwrap(), goal["task"].as_str().unwrap());
    let said = text_of(&session.output(&["status"]));
    assert!(said.contains(&format!("goal {id} is waiting for your answer")), "{said}");
    let said = text_of(&chat(&session, &["tasks", "resume", task]).output().unwrap());
    assert!(said.contains(&format!("`takeback goal resume {id}` continues it")), "{said}");
    let output = chat(&session, &["chat"]).stdin(Stdio::null()).output().unwrap();
    let said = text_of(&output);
    let told = format!("Goal {id} (“publish it”) is waiting for your answer: /goal resume {id}");
    assert!(said.contains(&told), "{said}");
    assert_eq!(session.json(&["goal", "show", id])["state"], "blocked");
}
