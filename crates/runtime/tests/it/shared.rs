//! The journal that several machines share, kept in memory.

use std::sync::{Arc, Mutex};

use serde_json::json;
use takeback_ledger::{LogContent, LogError, LogLease, LogRecord, LoggedTask, TaskLog};
use takeback_runtime::{Agent, NewSession, SharedJournal, Task};
use takeback_script::{Reply, Request, Server};

use crate::support::{Recorder, Scratch, build_agent};

/// A log with the records of one task. Only one machine uses the log.
#[derive(Default)]
struct MemoryLog(Mutex<Vec<LogRecord>>);

impl TaskLog for MemoryLog {
    fn take(&self, task: &str, epoch: i64) -> Result<LogLease, LogError> {
        let (position, seq, entry_epoch) = (0, 0, 0);
        let task = task.to_owned();
        Ok(LogLease { task, epoch, position, seq, entry_epoch, written_by: None, from: (0, 0) })
    }

    fn write(&self, _: &mut LogLease, record: &LogRecord) -> Result<(), LogError> {
        self.0.lock().unwrap().push(record.clone());
        Ok(())
    }

    fn release(&self, _: &LogLease) {}

    fn read(&self, _: &str) -> Result<Vec<LogRecord>, LogError> {
        Ok(self.0.lock().unwrap().clone())
    }

    fn list(&self) -> Result<Vec<LoggedTask>, LogError> {
        Ok(Vec::new())
    }
}

fn note_taker(request: &Request) -> Reply {
    match request.last_result() {
        Some(_) => Reply::text("Done."),
        None => {
            let word = request.last_text().rsplit(' ').next().unwrap_or_default().to_owned();
            Reply::call("terminal", json!({ "command": format!("echo {word} > note.txt") }))
        }
    }
}

/// Creates an agent whose tasks are shared through this log.
fn sharing_agent(scratch: &Scratch, server: &Server, log: &Arc<MemoryLog>) -> Arc<Agent> {
    let shared = SharedJournal::new(log.clone(), Box::new(|_| {}));
    let agent = build_agent(scratch.base(), &server.url());
    Arc::new(Agent { shared: Some(Arc::new(shared)), ..agent })
}

/// Lists the prompts in the last copy of the whole task. Each is paired with a flag, which is true
/// if the prompt was taken back.
fn list_prompts(log: &MemoryLog) -> Vec<(String, bool)> {
    let records = log.read("t1").unwrap();
    let mut bases = records.iter().rev().filter_map(|record| match &record.content {
        LogContent::Base(base) => Some(base),
        LogContent::Step(_) => None,
    });
    let session = bases.next().unwrap().sessions.last().unwrap();
    let prompts = session.messages.iter().filter(|message| message.role == "user");
    let text = |content: &serde_json::Value| content.as_str().unwrap_or_default().to_owned();
    prompts.map(|it| (it.content.as_ref().map(text).unwrap_or_default(), it.undone)).collect()
}

/// A resumed task reads its conversation only when its next turn begins.
#[test]
fn a_rollback_between_resuming_and_the_next_prompt_reaches_the_other_machines() {
    let scratch = Scratch::new();
    let server = Server::start(note_taker).unwrap();
    let mut task = scratch.begin(&server.url(), "t1");
    task.prompt("write one", &Recorder::default()).unwrap();
    task.prompt("write two", &Recorder::default()).unwrap();
    drop(task);
    let log = Arc::new(MemoryLog::default());
    let mut task = Task::resume_task(sharing_agent(&scratch, &server, &log), "t1").unwrap();
    scratch.roll_back("1");
    assert_eq!(scratch.read("note.txt"), "one\n");
    task.prompt("write three", &Recorder::default()).unwrap();
    assert_eq!(list_prompts(&log), [("write one".into(), false), ("write two".into(), true)]);
}

#[test]
fn a_rollback_to_a_point_before_a_summary_reaches_the_other_machines() {
    let scratch = Scratch::new();
    let server = Server::start(|request: &Request| {
        let is_turn = request.last_result().is_some() || request.last_text().starts_with("write");
        if is_turn { note_taker(request) } else { Reply::text("A summary.") }
    })
    .unwrap();
    let log = Arc::new(MemoryLog::default());
    let agent = sharing_agent(&scratch, &server, &log);
    let mut task = Task::begin(agent, &scratch.project(), NewSession::default(), "t1").unwrap();
    let front = Recorder::default();
    for prompt in ["write one", "write two", "write three"] {
        task.prompt(prompt, &front).unwrap();
    }
    let first = task.session_id().to_owned();
    assert!(task.compress_now(&front).unwrap());
    assert_ne!(task.session_id(), first);
    task.prompt("write four", &front).unwrap();
    scratch.roll_back("2");
    assert_eq!(scratch.read("note.txt"), "two\n");
    task.prompt("write five", &front).unwrap();
    assert_eq!(task.session_id(), first);
    let expected = [("write one", false), ("write two", false), ("write three", true)];
    assert_eq!(list_prompts(&log), expected.map(|(text, undone)| (text.to_owned(), undone)));
}
