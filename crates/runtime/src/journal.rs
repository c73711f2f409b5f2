//! The journal of a task that this process holds.

use std::sync::Arc;

use takeback_ledger::{
    AppendedMessage, GoalRecord, Lease, Ledger, LedgerError, LogContent, OpenError, TaskChange,
    TaskStep, Time,
};
use takeback_undo::Opened;

use crate::adopt::set_aside;
use crate::entry::Entry;
use crate::error::TaskError;
use crate::fault;
use crate::shared::SharedTask;
use crate::state::State;

/// The number of entries after which the state is stored, so that loading a long task stays fast.
const ENTRIES_PER_SNAPSHOT: i64 = 64;

/// The state that the ledger shows for a task after another process has asked the task's process to
/// stop.
pub(crate) const STOPPING: &str = "stopping";

/// The right to continue a task, and the connection through which the task's steps are written.
pub(crate) struct Journal {
    opened: Arc<Opened>,
    /// The connection to the ledger; `None` while the task is idle, so that the front end can close
    /// the connection.
    ledger: Option<Ledger>,
    lease: Lease,
    last_seq: i64,
    /// The number of the last entry that the stored state includes.
    snapshot_seq: i64,
    /// The task in the journal that several machines share.
    shared: Option<SharedTask>,
}

/// The result of an append.
pub(crate) struct Appended {
    pub(crate) entries: Vec<Entry>,
    pub(crate) messages: Vec<AppendedMessage>,
    /// The goal after its change.
    pub(crate) goal: Option<GoalRecord>,
    /// True if another process has asked this one to stop.
    pub(crate) is_stopping: bool,
}

impl Journal {
    pub(crate) fn new(
        opened: Arc<Opened>,
        ledger: Ledger,
        lease: Lease,
        last_seq: i64,
        snapshot_seq: i64,
    ) -> Journal {
        Journal { opened, ledger: Some(ledger), lease, last_seq, snapshot_seq, shared: None }
    }

    /// Writes the whole task into the shared journal, and shares all later entries with other
    /// machines.
    pub(crate) fn share(&mut self, mut shared: SharedTask, state: &State) -> Result<(), TaskError> {
        shared.write_base(self.ledger()?, state)?;
        self.shared = Some(shared);
        Ok(())
    }

    /// Writes the whole task into the shared journal, if there is one, because another process has
    /// changed the conversation.
    pub(crate) fn share_again(&mut self, state: &State) -> Result<(), TaskError> {
        self.ledger()?;
        match (&mut self.shared, &self.ledger) {
            (Some(shared), Some(ledger)) => shared.write_base(ledger, state),
            _ => Ok(()),
        }
    }

    /// Returns the id of the task.
    pub(crate) fn task(&self) -> &str {
        self.lease.task()
    }

    /// Returns the number that the next entry gets.
    pub(crate) fn next_seq(&self) -> i64 {
        self.last_seq + 1
    }

    /// Returns the connection to the ledger.
    pub(crate) fn ledger(&mut self) -> Result<&mut Ledger, OpenError> {
        if self.ledger.is_none() {
            self.ledger = Some(self.opened.durable_ledger()?);
        }
        Ok(self.ledger.as_mut().expect("it was just opened"))
    }

    /// Appends entries together with the writes in `change`. `build` receives the messages that
    /// these writes add.
    pub(crate) fn append(
        &mut self,
        change: &TaskChange<'_>,
        build: impl FnOnce(&[AppendedMessage]) -> Vec<Entry>,
        now: Time,
    ) -> Result<Appended, TaskError> {
        self.ledger()?;
        let Journal { ledger, lease, .. } = self;
        let ledger = ledger.as_mut().expect("it was just opened");
        let mut entries = Vec::new();
        let build_json = |messages: &[AppendedMessage]| {
            entries = build(messages);
            entries.iter().map(Entry::to_json).collect()
        };
        fault::pass_point();
        let outcome = ledger.append_journal(lease, change, build_json, now);
        let outcome = outcome.map_err(|error| match error {
            LedgerError::Fenced { .. } => TaskError::Fenced,
            error => TaskError::Ledger(error),
        })?;
        fault::pass_point();
        if let Some(shared) = &mut self.shared {
            let step = TaskStep::new(change, &outcome, now);
            shared
                .write(LogContent::Step(Box::new(step)))
                .map_err(|error| keep_own_steps(error, ledger, lease, now))?;
        }
        self.last_seq += entries.len() as i64;
        let is_stopping = outcome.previous_state == STOPPING;
        Ok(Appended { entries, messages: outcome.messages, goal: outcome.goal, is_stopping })
    }

    /// Stores the state if many entries have been added since it was last stored.
    pub(crate) fn keep_snapshot(&mut self, state: &State, now: Time) -> Result<(), TaskError> {
        if self.last_seq - self.snapshot_seq < ENTRIES_PER_SNAPSHOT {
            return Ok(());
        }
        let json = serde_json::to_value(state).expect("plain data becomes JSON");
        let Journal { ledger, lease, last_seq, .. } = self;
        if let Some(ledger) = ledger {
            ledger.write_snapshot(lease, *last_seq, &json, now)?;
            self.snapshot_seq = *last_seq;
        }
        Ok(())
    }

    /// Gives up the connection until the next step.
    pub(crate) fn rest(&mut self) {
        if let Some(ledger) = self.ledger.take() {
            self.opened.keep_ledger(ledger);
        }
    }
}

/// If another machine has taken over the task, keeps the steps that exist only on this machine in a
/// separate session.
fn keep_own_steps(
    error: TaskError,
    ledger: &mut Ledger,
    lease: &mut Lease,
    now: Time,
) -> TaskError {
    match error {
        TaskError::TakenOver { machine, .. } => {
            let kept = set_aside(ledger, lease, now).ok();
            TaskError::TakenOver { machine, kept }
        }
        error => error,
    }
}
