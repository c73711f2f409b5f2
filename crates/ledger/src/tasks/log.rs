//! A journal that several machines share.
//!
//! A task's steps are first written to the ledger. A task log is a second copy outside this ledger,
//! from which another machine can continue the task. The log also contains the lease that all
//! machines respect. This module describes the log and its records; another crate stores them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AppendOutcome, GoalRecord, JournalEntry, TaskChange};
use crate::event::mask_if;
use crate::tasks::goals::mask_goal;
use crate::tasks::journal::mask_value;
use crate::{Event, Time, Transcript};

/// A record in the log of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogRecord {
    /// The id of the workspace's tree after this record, if it is known from a checkpoint.
    #[serde(default)]
    pub tree: Option<String>,
    /// The change.
    #[serde(flatten)]
    pub content: LogContent,
}

/// The change that a record describes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogContent {
    /// The whole task. Earlier records are no longer needed.
    Base(Box<TaskBase>),
    /// One append to the journal.
    Step(Box<TaskStep>),
}

/// A task with everything that is needed to continue it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct TaskBase {
    pub kind: String,
    pub state: String,
    pub workspace: Option<String>,
    /// The number of the last journal entry; 0 if there is none.
    pub seq: i64,
    /// The epoch of the last journal entry; 0 if there is none.
    pub epoch: i64,
    pub time: Time,
    /// The state of the task after its last journal entry.
    pub snapshot: Value,
    /// True if secrets in the snapshot were masked.
    pub masked: bool,
    /// The session of the task, preceded by the sessions whose summaries it continues. Their usage
    /// is left out: it belongs to the machine where it arose.
    pub sessions: Vec<Transcript>,
    pub goals: Vec<GoalRecord>,
}

/// An append to the journal of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct TaskStep {
    pub time: Time,
    pub entries: Vec<JournalEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// The sessions and numbers of the messages that the events add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<(String, i64)>,
    /// The new state of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The session in which the task continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The goal after its change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<GoalRecord>,
}

impl TaskStep {
    /// Describes an append that this ledger has made. Secrets are masked. Subagents are left out,
    /// because they are not continued on another machine.
    pub fn new(change: &TaskChange<'_>, outcome: &AppendOutcome, now: Time) -> TaskStep {
        let is_subagent = |event: &Event| match event {
            Event::Session { record } => {
                change.new_tasks.iter().any(|task| task.session == record.id)
            }
            _ => false,
        };
        let events: Vec<Event> =
            change.events.iter().filter(|event| !is_subagent(event)).cloned().collect();
        let mut entries = outcome.entries.clone();
        for entry in &mut entries {
            entry.masked |= mask_value(&mut entry.entry);
        }
        let numbers = outcome.messages.iter().map(|added| (added.session.clone(), added.seq));
        let mut goal = outcome.goal.clone();
        goal.iter_mut().for_each(mask_goal);
        TaskStep {
            time: now,
            entries,
            events: mask_if(true, &events).into_owned(),
            messages: numbers.collect(),
            state: change.state.map(str::to_owned),
            session: change.session.map(str::to_owned),
            goal,
        }
    }
}

/// The right of one machine to continue a task, and the position in the task's log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct LogLease {
    pub task: String,
    pub epoch: i64,
    /// The number of the last record; 0 if the log is empty.
    pub position: i64,
    /// The number of the last journal entry in the log.
    pub seq: i64,
    /// The epoch of the last journal entry in the log.
    pub entry_epoch: i64,
    /// The name of the machine that wrote the last record, if it is not this machine.
    pub written_by: Option<String>,
    /// The number and the epoch of the last entry before the task moved to the machine that wrote
    /// the last record; both 0 if the task never moved.
    pub from: (i64, i64),
}

/// A task in the list of all machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct LoggedTask {
    pub id: String,
    pub session: String,
    /// `running`, `idle`, or `interrupted` if the lease has ended in the middle of a turn.
    pub state: String,
    pub workspace: Option<String>,
    /// The name of the machine that has or had the lease.
    pub machine: String,
    /// True if that machine is this one.
    pub is_this: bool,
    /// The number of seconds until another machine can take the lease, by the clock of the log; 0
    /// if the lease has ended.
    pub lease_seconds: i64,
    pub updated_at: Time,
}

/// The reason why a task log cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum LogError {
    #[error("machine {machine} is working on this task; its lease ends in {seconds} seconds")]
    Held { machine: String, seconds: i64 },
    #[error("machine {machine} has taken over this task")]
    Fenced { machine: String },
    #[error("no task {0:?} in the fleet")]
    NoSuchTask(String),
    /// The log cannot be reached now, but may be available again later.
    #[error("the fleet's journal cannot be reached")]
    Away(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the fleet's journal cannot be used")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A log that several machines share. Only the log's own clock decides when a lease ends.
pub trait TaskLog: Send + Sync {
    /// Takes the lease of a task, with an epoch of at least `epoch`. Earlier leases are fenced:
    /// writes under them change nothing. Fails with [`LogError::Held`] while another machine has
    /// the lease. The lease is renewed until it is released or the process ends.
    fn take(&self, task: &str, epoch: i64) -> Result<LogLease, LogError>;

    /// Writes the next record. Fails with [`LogError::Fenced`], and writes nothing, if another
    /// machine has taken the lease. If the record arrives but the confirmation is lost, the record
    /// is not written again.
    fn write(&self, lease: &mut LogLease, record: &LogRecord) -> Result<(), LogError>;

    /// Gives a lease back, so that another machine need not wait until the lease ends.
    fn release(&self, lease: &LogLease);

    /// Reads the last base of a task and the steps after it.
    fn read(&self, task: &str) -> Result<Vec<LogRecord>, LogError>;

    /// Lists the tasks of all machines, starting with the one that changed last.
    fn list(&self) -> Result<Vec<LoggedTask>, LogError>;
}
