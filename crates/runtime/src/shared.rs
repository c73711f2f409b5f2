//! The journal that several machines share.
//!
//! A step is first appended to the ledger of this machine, and then to the shared journal. It
//! counts only once both journals contain it; until then, the task does not continue. So no machine
//! can continue the task from a state that this machine has already left, and no machine takes a
//! step whose announcement could still be refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use takeback_base::errors::error_messages;
use takeback_ledger::{Lease, Ledger, LogContent, LogError, LogLease, LogRecord, TaskLog};

use crate::cancel::Cancel;
use crate::entry::Entry;
use crate::error::TaskError;
use crate::state::State;

/// The first and the longest wait before another attempt to reach the shared journal.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A function that tells the user that the task is waiting for the shared journal.
type OnWait = Box<dyn Fn(&str) + Send + Sync>;

/// The journal that the machines of a fleet share, as one agent uses it.
pub struct SharedJournal {
    pub(crate) log: Arc<dyn TaskLog>,
    on_wait: OnWait,
    /// The last known trees of workspaces, by the directory that the agent works in.
    trees: Mutex<BTreeMap<PathBuf, String>>,
}

impl SharedJournal {
    /// Wraps the log. `on_wait` is called with the reason each time a task begins to wait.
    pub fn new(log: Arc<dyn TaskLog>, on_wait: OnWait) -> SharedJournal {
        SharedJournal { log, on_wait, trees: Mutex::default() }
    }

    /// Remembers the tree of a workspace for the next record.
    pub(crate) fn note_tree(&self, directory: &Path, tree: String) {
        let mut trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        trees.insert(directory.to_owned(), tree);
    }

    fn tree(&self, directory: &Path) -> Option<String> {
        let trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        trees.get(directory).cloned()
    }
}

/// A task in the shared journal, with its lease.
pub(crate) struct SharedTask {
    shared: Arc<SharedJournal>,
    lease: LogLease,
    directory: PathBuf,
    cancel: Cancel,
    /// True if the ledger has a step that the shared journal lacks and may never get. From then on,
    /// nothing more is written.
    is_cut_off: bool,
}

impl SharedTask {
    /// Takes the lease of a task in the shared journal. The epoch of the ledger's lease is set to
    /// that of the shared journal, so that both journals have the same entries.
    pub(crate) fn take(
        shared: &Arc<SharedJournal>,
        ledger: &mut Ledger,
        lease: &mut Lease,
        place: (PathBuf, Cancel),
    ) -> Result<SharedTask, TaskError> {
        let taken = shared.log.take(lease.task(), lease.epoch()).map_err(TaskError::Log)?;
        let (directory, cancel) = place;
        let shared = shared.clone();
        let task = SharedTask { shared, lease: taken, directory, cancel, is_cut_off: false };
        ledger.raise_lease(lease, task.lease.epoch)?;
        if !includes(ledger, &task.lease)? {
            let machine = task.lease.written_by.clone();
            return Err(TaskError::Elsewhere { machine: machine.unwrap_or_default() });
        }
        Ok(task)
    }

    /// Returns the entry that begins the work of this machine, if another machine made the last
    /// step.
    pub(crate) fn adoption(&self) -> Option<Entry> {
        self.lease.written_by.clone().map(|from| Entry::Adopted { from })
    }

    /// Writes the whole task.
    pub(crate) fn write_base(&mut self, ledger: &Ledger, state: &State) -> Result<(), TaskError> {
        let json = serde_json::to_value(state).expect("plain data becomes JSON");
        let base = ledger.describe_task(&self.lease.task, &json)?;
        self.write(LogContent::Base(Box::new(base)))
    }

    /// Writes a record. While the shared journal cannot be reached, waits and tries again, until
    /// the user cancels the turn.
    pub(crate) fn write(&mut self, content: LogContent) -> Result<(), TaskError> {
        if self.is_cut_off {
            let cause = "an earlier step of this process did not arrive".into();
            return Err(TaskError::Away(LogError::Away(cause)));
        }
        let record = LogRecord { tree: self.shared.tree(&self.directory), content };
        self.is_cut_off = true;
        let mut wait = FIRST_WAIT;
        let mut is_told = false;
        loop {
            match self.shared.log.write(&mut self.lease, &record) {
                Ok(()) => break,
                Err(error @ LogError::Away(_)) => {
                    if !std::mem::replace(&mut is_told, true) {
                        (self.shared.on_wait)(&error_messages(&error).join(": "));
                    }
                    if !self.cancel.wait(wait) {
                        return Err(TaskError::Away(error));
                    }
                    wait = (wait * 2).min(LONGEST_WAIT);
                }
                Err(LogError::Fenced { machine }) => {
                    return Err(TaskError::TakenOver { machine, kept: None });
                }
                Err(error) => return Err(TaskError::Log(error)),
            }
        }
        self.is_cut_off = false;
        Ok(())
    }
}

impl Drop for SharedTask {
    fn drop(&mut self) {
        self.shared.log.release(&self.lease);
    }
}

/// Returns true if the ledger has the last entry of the shared journal. It may also have later
/// entries.
pub(crate) fn includes(ledger: &Ledger, lease: &LogLease) -> Result<bool, TaskError> {
    let known = ledger.entry_epoch(&lease.task, lease.seq)?;
    Ok(lease.seq == 0 || known == Some(lease.entry_epoch))
}
