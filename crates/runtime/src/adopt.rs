//! Taking over a task that another machine of the fleet was working on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use takeback_base::paths::canonicalize;
use takeback_ledger::{
    Event, Lease, Ledger, LedgerError, LogContent, LogLease, LogRecord, LoggedTask, TaskBase,
    TaskChange, Time,
};
use takeback_undo::history::{CheckpointOptions, open_workspace, take_checkpoint};

use crate::agent::Agent;
use crate::entry::Entry;
use crate::error::TaskError;
use crate::front_end::TurnOutcome;
use crate::shared::{SharedJournal, includes};

/// The choices of a user who continues another machine's task.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdoptOptions<'a> {
    /// The directory to work in; the task's own directory by default.
    pub directory: Option<&'a Path>,
    /// True to continue even if the files differ from those that the task was working on.
    pub accepts_files: bool,
}

/// A task that this machine can now continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdoptedTask {
    /// The machine that made the last step; `None` if it was this machine.
    pub from: Option<String>,
    /// The session that keeps the steps that existed only on this machine, if there were any.
    pub kept: Option<String>,
}

/// Lists the tasks that the machines of a fleet share. Returns `None` if the agent's tasks are not
/// shared.
pub fn list_shared_tasks(agent: &Agent) -> Result<Option<Vec<LoggedTask>>, TaskError> {
    let tasks = agent.shared.as_ref().map(|shared| shared.log.list());
    tasks.transpose().map_err(TaskError::Log)
}

/// Copies a task from the shared journal into the ledger of this machine, so that
/// [`crate::Task::resume_task`] continues it. Fails if another machine is working on the task. Also
/// fails if the files in the directory differ from those in the task's last checkpoint, unless
/// `options.accepts_files` is true.
pub fn adopt_task(
    agent: &Agent,
    id: &str,
    options: AdoptOptions<'_>,
) -> Result<AdoptedTask, TaskError> {
    let shared = agent.shared.as_ref().ok_or(TaskError::NotShared)?;
    let mut ledger = agent.opened.durable_ledger()?;
    let mut held = match ledger.take_lease(id, agent.opened.now()) {
        Ok(lease) => Some(lease),
        Err(LedgerError::NoSuchTask(_)) => None,
        Err(LedgerError::TaskRunning(task)) => return Err(TaskError::Live(task)),
        Err(error) => return Err(error.into()),
    };
    let records = shared.log.read(id).map_err(TaskError::Log)?;
    let epoch = held.as_ref().map_or(1, Lease::epoch);
    let lease = shared.log.take(id, epoch).map_err(TaskError::Log)?;
    let adoption = Adoption { agent, shared, ledger: &mut ledger, lease: &lease };
    let result = adoption.run(held.as_mut(), &records, options);
    shared.log.release(&lease);
    result
}

struct Adoption<'a> {
    agent: &'a Agent,
    shared: &'a Arc<SharedJournal>,
    ledger: &'a mut Ledger,
    lease: &'a LogLease,
}

impl Adoption<'_> {
    fn run(
        self,
        held: Option<&mut Lease>,
        read: &[LogRecord],
        options: AdoptOptions<'_>,
    ) -> Result<AdoptedTask, TaskError> {
        let id = self.lease.task.clone();
        let from = self.lease.written_by.clone();
        let mut adopted = AdoptedTask { from, kept: None };
        if held.is_some() && includes(self.ledger, self.lease)? {
            return Ok(adopted);
        }
        // The machine that had the lease may have written since the first read.
        let read_again;
        let records = match list_entries(read).any(|entry| entry == self.last()) {
            true => read,
            false => {
                read_again = self.shared.log.read(&id).map_err(TaskError::Log)?;
                read_again.as_slice()
            }
        };
        let Some((base, steps)) = divide(records) else {
            return Err(TaskError::Ledger(LedgerError::NoSuchEntry { task: id, seq: 1 }));
        };
        let directory = self.check_files(base, records, options)?;
        if let Some(held) = held {
            let last = self.ledger.task(&id)?.last_seq;
            let last = (last, self.ledger.entry_epoch(&id, last)?.unwrap_or(0));
            let mut shared = list_entries(records).chain([self.lease.from]);
            if last.0 > 0 && !shared.any(|entry| entry == last) {
                adopted.kept = Some(set_aside(self.ledger, held, self.agent.opened.now())?);
            }
        }
        let workspace = directory.display().to_string();
        self.ledger.adopt_task(&id, base, &workspace, self.agent.opened.now())?;
        for record in steps {
            if let LogContent::Step(step) = &record.content {
                self.ledger.replay_step(&id, step)?;
            }
        }
        Ok(adopted)
    }

    /// Returns the number and the epoch of the last entry in the shared journal.
    fn last(&self) -> (i64, i64) {
        (self.lease.seq, self.lease.entry_epoch)
    }

    /// Takes a checkpoint of the directory to work in, and returns the directory's path. Fails if
    /// the files differ from those in the task's last checkpoint, unless `options.accepts_files` is
    /// true.
    fn check_files(
        &self,
        base: &TaskBase,
        records: &[LogRecord],
        options: AdoptOptions<'_>,
    ) -> Result<PathBuf, TaskError> {
        let known = base.workspace.as_deref().unwrap_or_default();
        let directory = options.directory.unwrap_or(Path::new(known));
        let directory = canonicalize(directory)
            .map_err(|source| TaskError::Directory { path: directory.to_owned(), source })?;
        let expected = records.iter().rev().find_map(|record| record.tree.clone());
        let opened = &self.agent.opened;
        let workspace = open_workspace(opened, &directory)?;
        let reason = format!("before continuing task {}", self.lease.task);
        let reason = CheckpointOptions { reason: Some(reason), ..CheckpointOptions::default() };
        let tree = take_checkpoint(opened, &workspace, &reason)?.checkpoint.pin.tree.to_string();
        if expected.as_ref() != Some(&tree) && !options.accepts_files {
            return Err(TaskError::OtherFiles { directory, expected });
        }
        self.shared.note_tree(&directory, tree);
        Ok(directory)
    }
}

/// Divides records into the last base and the steps after it.
fn divide(records: &[LogRecord]) -> Option<(&TaskBase, &[LogRecord])> {
    match records.split_first()? {
        (LogRecord { content: LogContent::Base(base), .. }, steps) => Some((base, steps)),
        _ => None,
    }
}

/// Lists the numbers and epochs of all entries in the records.
fn list_entries(records: &[LogRecord]) -> impl Iterator<Item = (i64, i64)> {
    records.iter().flat_map(|record| match &record.content {
        LogContent::Base(base) => vec![(base.seq, base.epoch)],
        LogContent::Step(step) => {
            step.entries.iter().map(|entry| (entry.seq, entry.epoch)).collect()
        }
    })
}

/// Gives new ids to the task and its session to keep the steps that exist only on this machine.
/// Also ends the open turn. Returns the new id of the session.
pub(crate) fn set_aside(
    ledger: &mut Ledger,
    lease: &mut Lease,
    now: Time,
) -> Result<String, TaskError> {
    let kept = format!("{}-kept-{}", lease.task(), lease.epoch());
    let session = ledger.set_task_aside(lease, &kept)?;
    let events = [Event::TurnEnd { session: session.clone() }];
    let change = TaskChange { events: &events, state: Some("idle"), ..TaskChange::default() };
    let ended = Entry::TurnEnded { outcome: TurnOutcome::Cancelled };
    ledger.append_journal(lease, &change, |_| vec![ended.to_json()], now)?;
    Ok(session)
}
