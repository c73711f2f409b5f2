//! Beginning a task, and continuing one that another process began.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use takeback_base::paths::canonicalize;
use takeback_ledger::{
    AppendedMessage, Event, Ledger, LedgerError, LoadedTask, ParentKind, SessionRecord,
    SessionSettings, TaskChange, TaskFilter, TaskRecord,
};

use crate::agent::{AGENT, Agent};
use crate::cancel::Cancel;
use crate::conversation::Conversation;
use crate::delegate::SubagentPlan;
use crate::entry::Entry;
use crate::error::TaskError;
use crate::goal_list::pause_goals_of;
use crate::journal::Journal;
use crate::shared::SharedTask;
use crate::state::State;
use crate::task::Task;

/// The text that the model reads in place of a result, if the input of the call was masked in the
/// ledger.
const MASKED: &str = "The agent was restarted, and the input of this call is no longer known, \
    because it contained a secret. Make the call again if it is still needed.";

/// The properties of a new session.
#[derive(Clone, Debug, Default)]
pub struct NewSession {
    /// The instructions for the model.
    pub system_prompt: Option<String>,
    /// The name of the user.
    pub user: Option<String>,
    /// The title of the session.
    pub title: Option<String>,
}

impl Task {
    /// Begins a task in a new session.
    pub fn begin(
        agent: Arc<Agent>,
        directory: &Path,
        new: NewSession,
        id: &str,
    ) -> Result<Task, TaskError> {
        let directory = find_directory(directory)?;
        let session = SessionRecord {
            id: format!("{AGENT}:{id}"),
            source: AGENT.to_owned(),
            user_id: new.user,
            model: Some(agent.provider.model.clone()),
            model_config: Some(describe_provider(&agent)),
            system_prompt: new.system_prompt,
            title: new.title,
            workspace: Some(directory.display().to_string()),
            billing_provider: Some(agent.provider.name.clone()),
            billing_base_url: Some(agent.provider.base_url.clone()),
            ..SessionRecord::default()
        };
        let task = TaskRecord {
            id: id.to_owned(),
            session: session.id.clone(),
            kind: "chat".to_owned(),
            state: "idle".to_owned(),
            workspace: session.workspace.clone(),
            ..TaskRecord::default()
        };
        let mut ledger = agent.opened.durable_ledger()?;
        let now = agent.opened.now();
        ledger.create_session(&session, now)?;
        ledger.create_task(&task, now)?;
        Task::load(agent, ledger, id)
    }

    /// Continues the task of a session. A session without a task, such as a fork or a session of
    /// another agent, gets one.
    pub fn resume(agent: Arc<Agent>, session: &str, new_id: &str) -> Result<Task, TaskError> {
        let mut ledger = agent.opened.durable_ledger()?;
        let record = ledger.session(session)?;
        let filter = TaskFilter { session: Some(session.to_owned()), ..TaskFilter::default() };
        let known = ledger.tasks(&filter)?.into_iter().next();
        let id = match known {
            Some(task) => task.id,
            None => {
                let task = TaskRecord {
                    id: new_id.to_owned(),
                    session: record.id.clone(),
                    kind: "chat".to_owned(),
                    state: "idle".to_owned(),
                    workspace: record.workspace,
                    ..TaskRecord::default()
                };
                ledger.create_task(&task, agent.opened.now())?;
                task.id
            }
        };
        Task::load(agent, ledger, &id)
    }

    /// Continues the task with this id.
    pub fn resume_task(agent: Arc<Agent>, id: &str) -> Result<Task, TaskError> {
        let ledger = agent.opened.durable_ledger()?;
        Task::load(agent, ledger, id)
    }

    pub(crate) fn open_subagent(plan: &SubagentPlan) -> Result<Task, TaskError> {
        let ledger = plan.agent.opened.durable_ledger()?;
        let mut task = Task::load(plan.agent.clone(), ledger, &plan.task)?;
        task.depth = plan.depth;
        task.cancel = plan.cancel.clone();
        Ok(task)
    }

    /// Takes the lease of a task, and computes its state from its journal.
    fn load(agent: Arc<Agent>, mut ledger: Ledger, id: &str) -> Result<Task, TaskError> {
        let mut lease = ledger.take_lease(id, agent.opened.now()).map_err(|error| match error {
            LedgerError::TaskRunning(task) => TaskError::Live(task),
            error => TaskError::Ledger(error),
        })?;
        pause_goals_of(&mut ledger, id, agent.opened.now())?;
        let record = ledger.task(id)?;
        let session = ledger.session(&record.session)?;
        let directory = PathBuf::from(session.workspace.clone().unwrap_or_default());
        let cancel = Cancel::default();
        // A subagent's steps stay on this machine.
        let shared = match agent.shared.as_ref().filter(|_| record.parent.is_none()) {
            Some(shared) => {
                let place = (directory.clone(), cancel.clone());
                Some(SharedTask::take(shared, &mut ledger, &mut lease, place)?)
            }
            None => None,
        };
        if let Some(adopted) = shared.as_ref().and_then(SharedTask::adoption) {
            let build = |_: &[AppendedMessage]| vec![adopted.to_json()];
            ledger.append_journal(&lease, &TaskChange::default(), build, agent.opened.now())?;
        }
        let loaded = ledger.load_task(id)?;
        let (state, snapshot_seq) = fold(&loaded)?;
        let last_seq = loaded.task.last_seq;
        let depth = count_ancestors(&ledger, &loaded.task)?;
        // Note the state of the session before the task is shared. If the session changes in the
        // meantime, the shared copy may lack the change, but the change is noticed later.
        let conversation = Conversation::note(&ledger, &session.id)?;
        let mut journal = Journal::new(agent.opened.clone(), ledger, lease, last_seq, snapshot_seq);
        if let Some(shared) = shared {
            journal.share(shared, &state)?;
        }
        let mut task = Task {
            agent,
            journal,
            session,
            directory,
            depth,
            state,
            conversation,
            cancel,
            goal: None,
            prepared: None,
            ended: None,
        };
        match task.is_interrupted() {
            true => task.refresh()?,
            // The conversation may be long, so it is not read until the next turn.
            false => task.return_to_old_session()?,
        }
        Ok(task)
    }

    /// Describes the session and the task of a subagent, which are created together.
    pub(crate) fn describe_subagent(&self, id: &str) -> (Event, TaskRecord) {
        let record = SessionRecord {
            id: format!("{AGENT}:{id}"),
            source: AGENT.to_owned(),
            user_id: self.session.user_id.clone(),
            model: Some(self.agent.provider.model.clone()),
            model_config: Some(describe_provider(&self.agent)),
            system_prompt: self.session.system_prompt.clone(),
            parent_session_id: Some(self.session.id.clone()),
            parent_kind: Some(ParentKind::Subagent),
            workspace: self.session.workspace.clone(),
            ..SessionRecord::default()
        };
        let task = TaskRecord {
            id: id.to_owned(),
            session: record.id.clone(),
            parent: Some(self.id().to_owned()),
            kind: "subagent".to_owned(),
            state: "running".to_owned(),
            workspace: self.session.workspace.clone(),
            ..TaskRecord::default()
        };
        (Event::Session { record: Box::new(record) }, task)
    }
}

/// Adapts a session that does not have a task yet, such as a fork. Its system prompt may name
/// another directory, or the tools of another agent.
pub fn adopt_session(agent: &Agent, session: &str, new: &NewSession) -> Result<(), TaskError> {
    let filter = TaskFilter { session: Some(session.to_owned()), ..TaskFilter::default() };
    let mut ledger = agent.opened.ledger_or_new()?;
    if !ledger.tasks(&filter)?.is_empty() {
        return Ok(());
    }
    let settings = SessionSettings {
        user_id: new.user.clone(),
        model: Some(agent.provider.model.clone()),
        system_prompt: new.system_prompt.clone(),
        model_config: None,
    };
    Ok(ledger.update_session(session, &settings)?)
}

fn find_directory(directory: &Path) -> Result<PathBuf, TaskError> {
    canonicalize(directory)
        .map_err(|source| TaskError::Directory { path: directory.to_owned(), source })
}

fn describe_provider(agent: &Agent) -> serde_json::Value {
    json!({ "provider": agent.provider.name, "max_output": agent.provider.max_output })
}

/// Computes the state of a task from its journal. Also returns the number of the last entry that
/// the snapshot covers.
pub(crate) fn fold(loaded: &LoadedTask) -> Result<(State, i64), TaskError> {
    let (mut state, seq) = match &loaded.snapshot {
        Some(snapshot) => match serde_json::from_value(snapshot.state.clone()) {
            Ok(state) => (state, snapshot.seq),
            Err(error) => return Err(crate::entry::EntryError::Damaged(error).into()),
        },
        None => (State::default(), 0),
    };
    if loaded.snapshot.as_ref().is_some_and(|snapshot| snapshot.masked) {
        state.forget_calls(MASKED);
    }
    for entry in &loaded.entries {
        state.apply(&Entry::from_json(&entry.entry)?);
        if entry.masked {
            state.forget_calls(MASKED);
        }
    }
    Ok((state, seq))
}

/// Counts the ancestors of a task.
fn count_ancestors(ledger: &Ledger, task: &TaskRecord) -> Result<usize, LedgerError> {
    let mut count = 0;
    let mut parent = task.parent.clone();
    while let Some(id) = parent {
        count += 1;
        parent = ledger.task(&id)?.parent;
    }
    Ok(count)
}
