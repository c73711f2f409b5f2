//! A machine on which takeback's own agent works.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use takeback_fleet::{FleetJournal, FleetSettings, JoinOptions};
use takeback_ledger::{MessageFilter, TaskLog};
use takeback_runtime::approval::ApprovalMode;
use takeback_runtime::model::{ApiKind, Client, ClientOptions, Provider};
use takeback_runtime::tools::{ToolSettings, Tools};
use takeback_runtime::{
    AdoptOptions, AdoptedTask, Agent, Answer, FrontEnd, NewSession, Question, SharedJournal, Task,
    TaskError, TurnEvent,
};
use takeback_undo::{OpenOptions, Opened};

use crate::machine::{Machine, open_fleet};

/// A machine with a project directory, and an agent whose model is at `url`.
pub(crate) struct Worker {
    pub(crate) machine: Machine,
    pub(crate) project: PathBuf,
    _place: tempfile::TempDir,
    url: String,
}

impl Worker {
    /// Creates a machine that belongs to the fleet. The call for the first machine creates the
    /// fleet and returns its key. The other calls pass this key.
    pub(crate) fn join(
        name: &str,
        address: &str,
        url: &str,
        key: Option<&str>,
    ) -> (Worker, String) {
        let mut machine = Machine::new(name, address);
        let key = key.map(str::to_owned);
        let joined = machine.join(&JoinOptions { key: key.clone(), ..JoinOptions::default() });
        let key = joined.unwrap().new_key.or(key).unwrap();
        let place = tempfile::tempdir().unwrap();
        let project = place.path().canonicalize().unwrap();
        fs::write(project.join("readme"), "the same on all machines").unwrap();
        (Worker { machine, project, _place: place, url: url.to_owned() }, key)
    }

    /// Builds an agent with a connection of its own.
    pub(crate) fn agent(&self) -> Arc<Agent> {
        self.watched_agent(&Arc::default())
    }

    /// Builds an agent that adds the reason for each wait to `waits`.
    pub(crate) fn watched_agent(&self, waits: &Arc<Mutex<Vec<String>>>) -> Arc<Agent> {
        let waits = waits.clone();
        let on_wait = move |because: &str| waits.lock().unwrap().push(because.to_owned());
        build_agent(self.machine.home(), &self.machine.settings, &self.url, on_wait)
    }

    pub(crate) fn begin(&self, id: &str) -> Task {
        Task::begin(self.agent(), &self.project, NewSession::default(), id).unwrap()
    }

    /// Takes over a task, to work in the project of this machine.
    pub(crate) fn adopt(&self, id: &str, accepts_files: bool) -> Result<AdoptedTask, TaskError> {
        let options = AdoptOptions { directory: Some(&self.project), accepts_files };
        takeback_runtime::adopt_task(&self.agent(), id, options)
    }

    pub(crate) fn resume(&self, id: &str) -> Result<Task, TaskError> {
        Task::resume_task(self.agent(), id)
    }

    /// Returns the current messages of a session as `role: text` lines.
    pub(crate) fn conversation(&self, session: &str) -> Vec<String> {
        let messages = self.machine.ledger.messages(session, MessageFilter::Current).unwrap();
        let text = |content: &serde_json::Value| content.as_str().unwrap_or_default().to_owned();
        let show = |message: &takeback_ledger::MessageRecord| {
            format!("{}: {}", message.role, message.content.as_ref().map(text).unwrap_or_default())
        };
        messages.iter().map(show).collect()
    }
}

pub(crate) fn build_agent(
    home: &Path,
    settings: &FleetSettings,
    url: &str,
    on_wait: impl Fn(&str) + Send + Sync + 'static,
) -> Arc<Agent> {
    let path = ("PATH".into(), std::env::var_os("PATH").unwrap_or_default());
    let log = FleetJournal::new(open_fleet(home, settings)).unwrap();
    let log: Arc<dyn TaskLog> = Arc::new(log);
    Arc::new(Agent {
        opened: Arc::new(Opened::new(OpenOptions::new(home.to_owned()))),
        client: Client::new(ClientOptions::default()),
        provider: Provider {
            name: "scripted".into(),
            kind: ApiKind::Openai,
            base_url: format!("{url}/v1"),
            key: None,
            model: "m".into(),
            context_window: 100_000,
            max_output: 1_000,
            prices: None,
        },
        fallback: None,
        tools: Tools::standard(&ToolSettings {
            environment: vec![path],
            ..ToolSettings::default()
        }),
        approval: ApprovalMode::Auto,
        has_checkpoints: true,
        user_home: None,
        on_follow_up: Box::new(|_, _| {}),
        shared: Some(Arc::new(SharedJournal::new(log, Box::new(on_wait)))),
    })
}

/// A front end that shows nothing, and allows every call.
pub(crate) struct Silent;

impl FrontEnd for Silent {
    fn show(&self, _: &TurnEvent<'_>) {}

    fn approve(&self, _: &Question<'_>) -> Answer {
        Answer::Allow
    }
}
