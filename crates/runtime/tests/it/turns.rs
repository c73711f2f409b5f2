//! Turns from the prompt to the answer.

use serde_json::json;
use takeback_runtime::{
    Answer, Cancel, FrontEnd, NewSession, Pause, Question, Task, TaskError, TurnEvent, TurnOutcome,
};
use takeback_script::{Reply, Request, Server};
use takeback_undo::history::list_checkpoints;

use crate::support::{Recorder, Scratch, agent, open};

const COMPLETE: Pause = Pause::TurnEnded(TurnOutcome::Complete);

/// Plays a model that writes the prompt's last word into `note.txt`, once per prompt.
fn note_taker(request: &Request) -> Reply {
    match request.last_result() {
        Some(_) => Reply::text("Done."),
        None => {
            let word = request.last_text().rsplit(' ').next().unwrap_or_default().to_owned();
            if request.messages.iter().all(|message| message.results.is_empty()) {
                return Reply::call("write_file", json!({ "path": "note.txt", "content": word }));
            }
            let edits = json!([{ "old": "one", "new": word }]);
            Reply::call("patch", json!({ "path": "note.txt", "edits": edits }))
        }
    }
}

#[test]
fn a_turn_writes_a_file_and_is_recorded_completely() {
    let scratch = Scratch::new();
    let server = Server::start(note_taker).unwrap();
    let mut task = scratch.begin(&server.url(), "t1");
    let front = Recorder::default();
    assert_eq!(task.prompt("write one", &front).unwrap(), COMPLETE);
    assert_eq!(scratch.read("note.txt"), "one");
    let conversation = scratch.conversation("takeback:t1");
    assert_eq!(
        conversation,
        [
            "user: write one",
            "assistant:  [write_file]",
            "tool: created note.txt (1 line)",
            "assistant: Done.",
        ]
    );
    let session = scratch.ledger().session("takeback:t1").unwrap();
    assert_eq!(session.source, "takeback");
    assert_eq!(session.model.as_deref(), Some("m"));
    assert_eq!(session.system_prompt.as_deref(), Some("Be brief."));
    assert_eq!((session.api_call_count, session.tokens.input), (2, 200));
    let cost = session.estimated_cost_usd.unwrap();
    assert!((cost - (200.0 * 1.0 + 40.0 * 10.0) / 1e6).abs() < 1e-9, "{cost}");
    assert!(front.text().contains("Text(\"Done.\")") || front.text().contains("Text(\"Do"));
    let project = scratch.project();
    let calls = scratch.ledger().changing_calls("takeback:t1", Some(1), project.to_str().unwrap());
    assert_eq!(calls.unwrap().len(), 1);
    let list = list_checkpoints(&open(scratch.base()), &project).unwrap();
    assert_eq!(list.checkpoints[0].reason, "before write_file note.txt");
}

/// Counts the open files of the ledger.
#[cfg(target_os = "linux")]
fn count_open_files(scratch: &Scratch) -> usize {
    let ledger = scratch.base().join("home/state.db");
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.filter(|target| *target == ledger).count()
}

#[test]
#[cfg(target_os = "linux")]
fn the_ledger_stays_open_between_turns_until_the_front_end_closes_it() {
    let scratch = Scratch::new();
    let server = Server::start(note_taker).unwrap();
    let agent = agent(scratch.base(), &server.url());
    let mut task =
        Task::begin(agent.clone(), &scratch.project(), NewSession::default(), "t1").unwrap();
    task.prompt("write one", &Recorder::default()).unwrap();
    assert_ne!(count_open_files(&scratch), 0);
    agent.opened.close_ledger();
    assert_eq!(count_open_files(&scratch), 0);
    assert_eq!(task.prompt("write two", &Recorder::default()).unwrap(), COMPLETE);
    assert_eq!(scratch.read("note.txt"), "two");
}

#[test]
fn a_rollback_takes_back_the_file_and_the_turn_and_tells_the_model() {
    let scratch = Scratch::new();
    let server = Server::start(note_taker).unwrap();
    let mut task = scratch.begin(&server.url(), "t1");
    let front = Recorder::default();
    task.prompt("write one", &front).unwrap();
    task.prompt("write two", &front).unwrap();
    assert_eq!(scratch.read("note.txt"), "two");
    scratch.roll_back("1");
    assert_eq!(scratch.read("note.txt"), "one");
    task.prompt("write three", &front).unwrap();
    let requests = server.requests();
    let last = serde_json::to_string(&requests.last().unwrap().body).unwrap();
    assert!(last.contains("write one") && last.contains("write three"), "{last}");
    assert!(!last.contains("write two"), "{last}");
    assert!(last.contains("takeback restored this file"), "{last}");
}

#[test]
fn a_file_that_the_user_has_since_changed_is_not_overwritten() {
    let scratch = Scratch::new();
    let server = Server::start(note_taker).unwrap();
    let mut task = scratch.begin(&server.url(), "t1");
    let front = Recorder::default();
    task.prompt("write one", &front).unwrap();
    scratch.write("note.txt", "one, and my own words");
    task.prompt("write two", &front).unwrap();
    assert_eq!(scratch.read("note.txt"), "one, and my own words");
    let conversation = scratch.conversation("takeback:t1").join("\n");
    assert!(conversation.contains("changed since you last read it"), "{conversation}");
}

#[test]
fn a_resumed_task_knows_the_last_answer_and_sends_the_whole_conversation() {
    let scratch = Scratch::new();
    let server = Server::start(|request: &Request| {
        Reply::text(format!("You said: {}", request.last_text()))
    })
    .unwrap();
    let mut task = scratch.begin(&server.url(), "t1");
    assert_eq!(task.prompt("one", &Recorder::default()).unwrap(), COMPLETE);
    drop(task);
    let mut task = Task::resume_task(agent(scratch.base(), &server.url()), "t1").unwrap();
    assert_eq!(task.last_answer().unwrap(), "You said: one");
    drop(task);
    let mut task = Task::resume_task(agent(scratch.base(), &server.url()), "t1").unwrap();
    assert_eq!(task.prompt("two", &Recorder::default()).unwrap(), COMPLETE);
    let last = server.requests().pop().unwrap();
    let texts: Vec<&str> = last.messages.iter().map(|message| message.text.as_str()).collect();
    assert_eq!(texts, ["one", "You said: one", "two"]);
}

#[test]
fn a_call_with_effects_waits_for_the_user() {
    let scratch = Scratch::new();
    let server = Server::start(|request: &Request| match request.last_result() {
        Some(result) => Reply::text(format!("It said: {}", result.text)),
        None => Reply::call("terminal", json!({ "command": "git push origin main" })),
    })
    .unwrap();
    let mut task = scratch.begin(&server.url(), "t1");
    let front = Recorder::default();
    assert_eq!(task.prompt("publish it", &front).unwrap(), Pause::Waiting);
    drop(task);
    // Another process continues the turn, beginning with the question.
    let mut task = Task::resume(agent(scratch.base(), &server.url()), "takeback:t1", "x").unwrap();
    assert!(task.is_interrupted());
    let front = Recorder::answering(Answer::Deny("not today".into()));
    assert_eq!(task.proceed(&front).unwrap(), COMPLETE);
    let conversation = scratch.conversation("takeback:t1");
    assert_eq!(conversation[2], "tool: the user refused this call: not today");
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_remembered_approval_holds_for_the_rest_of_its_task() {
    let scratch = Scratch::new();
    let server = Server::start(|request: &Request| match request.last_result() {
        Some(_) => Reply::text("Done."),
        None => Reply::call("terminal", json!({ "command": "git push origin main" })),
    })
    .unwrap();
    let mut task = scratch.begin(&server.url(), "t1");
    let front = Recorder::answering(Answer::AllowAlways);
    assert_eq!(task.prompt("publish it", &front).unwrap(), COMPLETE);
    assert_eq!(task.prompt("publish it again", &Recorder::default()).unwrap(), COMPLETE);
    drop(task);
    let mut task = Task::resume(agent(scratch.base(), &server.url()), "takeback:t1", "x").unwrap();
    assert_eq!(task.prompt("and again", &Recorder::default()).unwrap(), COMPLETE);

    let mut other = scratch.begin(&server.url(), "t2");
    assert_eq!(other.prompt("publish it", &Recorder::default()).unwrap(), Pause::Waiting);
}

#[test]
fn the_model_is_told_about_unusable_calls_and_repeated_ones_end_the_turn() {
    let scratch = Scratch::new();
    let server =
        Server::start(|_: &Request| Reply::call("fly", json!({ "to": "the moon" }))).unwrap();
    let mut task = scratch.begin(&server.url(), "t1");
    let pause = task.prompt("go", &Recorder::default()).unwrap();
    assert!(matches!(pause, Pause::TurnEnded(TurnOutcome::Blocked { .. })), "{pause:?}");
    let conversation = scratch.conversation("takeback:t1");
    assert!(conversation[2].starts_with("tool: no tool named \"fly\""), "{conversation:?}");
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn a_task_belongs_to_one_process_at_a_time() {
    let scratch = Scratch::new();
    let server = Server::start(note_taker).unwrap();
    let task = scratch.begin(&server.url(), "t1");
    let again = Task::resume(agent(scratch.base(), &server.url()), "takeback:t1", "x");
    assert!(matches!(again, Err(TaskError::Live(_))));
    drop(task);
    assert!(Task::resume(agent(scratch.base(), &server.url()), "takeback:t1", "x").is_ok());
}

/// A front end that suspends the turn after its first call.
struct SuspendAfterCall(Cancel);

impl FrontEnd for SuspendAfterCall {
    fn show(&self, event: &TurnEvent<'_>) {
        if matches!(event, TurnEvent::CallEnded { .. }) {
            self.0.suspend();
        }
    }

    fn approve(&self, _: &Question<'_>) -> Answer {
        Answer::Later
    }
}

#[test]
fn a_suspended_turn_stays_open_and_no_step_is_repeated() {
    let scratch = Scratch::new();
    let server = Server::start(note_taker).unwrap();
    let mut task = scratch.begin(&server.url(), "t1");
    let front = SuspendAfterCall(task.cancel().clone());
    assert_eq!(task.prompt("write one", &front).unwrap(), Pause::Suspended);
    assert!(task.is_interrupted());
    drop(task);
    assert_eq!(server.requests().len(), 1);
    let mut task = Task::resume(agent(scratch.base(), &server.url()), "takeback:t1", "x").unwrap();
    assert_eq!(task.proceed(&Recorder::default()).unwrap(), COMPLETE);
    assert_eq!(server.requests().len(), 2);
    assert_eq!(scratch.conversation("takeback:t1").len(), 4);
}
