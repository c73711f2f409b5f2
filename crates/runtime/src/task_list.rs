//! The tasks of all sessions: listing them, and stopping one.

use std::sync::Arc;

use serde::Serialize;
use takeback_ledger::{Event, Ledger, LedgerError, TaskChange, TaskFilter, TaskRecord, Time};
use takeback_undo::Opened;

use crate::cancel::Cancel;
use crate::entry::Entry;
use crate::error::TaskError;
use crate::front_end::TurnOutcome;
use crate::journal::{Journal, STOPPING};
use crate::open::fold;
use crate::shared::{SharedJournal, SharedTask};

/// A task, as it appears in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct TaskView {
    pub id: String,
    pub session: String,
    /// `running`, `stopping`, `waiting` (for the user's answer), `interrupted` (its process ended
    /// in the middle of a turn), or `idle` (the last turn is over).
    pub state: String,
    /// `chat` or `subagent`.
    pub kind: String,
    /// The task that a subagent works for.
    pub parent: Option<String>,
    pub workspace: Option<String>,
    pub updated_at: Time,
}

/// The result of cancelling a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelledTask {
    /// Another process is working on the task, and will stop at its next step.
    Stopping,
    /// The interrupted turn was ended.
    Ended,
    /// There was no turn to stop.
    Idle,
}

/// Lists tasks, starting with the one that changed last.
pub fn list_tasks(ledger: &Ledger, filter: &TaskFilter) -> Result<Vec<TaskView>, LedgerError> {
    // The tasks are read first. Otherwise, a task that begins in between would be listed as
    // interrupted.
    let tasks = ledger.tasks(filter)?;
    let running = ledger.running_tasks()?;
    Ok(tasks.into_iter().map(|task| view_task(running.contains(&task.id), task)).collect())
}

/// Lists the tasks that have an open turn but no process working on it, starting with the task that
/// changed last. The tasks of subagents are left out, because they belong to other tasks.
pub fn list_open_tasks(opened: &Opened, filter: TaskFilter) -> Result<Vec<TaskView>, TaskError> {
    let Some(ledger) = opened.ledger()? else { return Ok(Vec::new()) };
    let states = ["running", STOPPING, "waiting"].map(str::to_owned).to_vec();
    let mut tasks = list_tasks(&ledger, &TaskFilter { states, ..filter })?;
    let is_open = |task: &TaskView| matches!(task.state.as_str(), "interrupted" | "waiting");
    let running = ledger.running_tasks()?;
    tasks.retain(|task| is_open(task) && task.parent.is_none() && !running.contains(&task.id));
    Ok(tasks)
}

fn view_task(is_running: bool, task: TaskRecord) -> TaskView {
    let state = match (task.state.as_str(), is_running) {
        ("running" | STOPPING, false) => "interrupted".to_owned(),
        _ => task.state,
    };
    let TaskRecord { id, session, kind, parent, workspace, updated_at, .. } = task;
    TaskView { id, session, state, kind, parent, workspace, updated_at }
}

/// Stops a task. Everything that the task has done is kept. In a fleet, `shared` is the journal
/// that the machines share.
pub fn cancel_task(
    opened: &Arc<Opened>,
    shared: Option<&Arc<SharedJournal>>,
    id: &str,
) -> Result<CancelledTask, TaskError> {
    let mut ledger = opened.durable_ledger()?;
    let mut lease = match ledger.take_lease(id, opened.now()) {
        Ok(lease) => lease,
        Err(LedgerError::TaskRunning(_)) => {
            ledger.set_task_state(id, STOPPING, opened.now())?;
            return Ok(CancelledTask::Stopping);
        }
        Err(error) => return Err(error.into()),
    };
    let loaded = ledger.load_task(id)?;
    let (state, snapshot_seq) = fold(&loaded)?;
    if state.turn.is_none() {
        return Ok(CancelledTask::Idle);
    }
    let shared = match shared.filter(|_| loaded.task.parent.is_none()) {
        Some(shared) => {
            let directory = loaded.task.workspace.clone().unwrap_or_default();
            let place = (directory.into(), Cancel::default());
            Some(SharedTask::take(shared, &mut ledger, &mut lease, place)?)
        }
        None => None,
    };
    let events = [Event::TurnEnd { session: loaded.task.session }];
    let last_seq = loaded.task.last_seq;
    let mut journal = Journal::new(opened.clone(), ledger, lease, last_seq, snapshot_seq);
    if let Some(shared) = shared {
        journal.share(shared, &state)?;
    }
    let change = TaskChange { events: &events, state: Some("idle"), ..TaskChange::default() };
    let ended = Entry::TurnEnded { outcome: TurnOutcome::Cancelled };
    journal.append(&change, |_| vec![ended], opened.now())?;
    Ok(CancelledTask::Ended)
}
