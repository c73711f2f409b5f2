//! The journal that several machines share, kept in memory.

use std::sync::{Arc, Mutex};

use takeback_ledger::{LogContent, LogError, LogLease, LogRecord, LoggedTask, TaskLog};
use takeback_runtime::{Agent, SharedJournal, Task};
use takeback_script::{Reply, Request, Server};

use serde_json::json;

use crate::support::{Recorder, Scratch, build_agent};

/// The records of one task. Only one machine uses it.
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
    let shared = SharedJournal::new(log.clone(), Box::new(|_| {}));
    let agent =
        Agent { shared: Some(Arc::new(shared)), ..build_agent(scratch.base(), &server.url()) };
    let mut task = Task::resume_task(Arc::new(agent), "t1").unwrap();
    scratch.roll_back("1");
    assert_eq!(scratch.read("note.txt"), "one\n");
    task.prompt("write three", &Recorder::default()).unwrap();

    let records = log.read("t1").unwrap();
    let base = records.iter().rev().find_map(|record| match &record.content {
        LogContent::Base(base) => Some(base),
        LogContent::Step(_) => None,
    });
    let messages = &base.unwrap().sessions.last().unwrap().messages;
    let is_undone = |text: &str| {
        let found = messages.iter().find(|it| it.content == Some(text.into()));
        found.map(|message| message.undone)
    };
    assert_eq!((is_undone("write one"), is_undone("write two")), (Some(false), Some(true)));
}
