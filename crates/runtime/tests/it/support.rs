//! A scratch home and project, an agent, and a scripted model.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use takeback_ledger::{Ledger, LedgerOptions, MessageFilter, MessageRecord};
use takeback_runtime::approval::ApprovalMode;
use takeback_runtime::model::{ApiKind, Client, ClientOptions, Prices, Provider};
use takeback_runtime::tools::{ToolSettings, Tools};
use takeback_runtime::{Agent, Answer, FrontEnd, NewSession, Question, Task, TurnEvent};
use takeback_undo::{Destination, OpenOptions, Opened, Request, rollback};

pub(crate) struct Scratch {
    base: tempfile::TempDir,
}

impl Scratch {
    /// Creates the directories, in memory if possible: the tests sync often, and none of them
    /// simulates a power failure.
    pub(crate) fn new() -> Scratch {
        let base = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        fs::create_dir(base.path().join("project")).unwrap();
        Scratch { base }
    }

    pub(crate) fn base(&self) -> &Path {
        self.base.path()
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.base().join("project").canonicalize().unwrap()
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        fs::write(self.project().join(name), content).unwrap();
    }

    /// Reads a file of the project. Returns an empty text if the file does not exist.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.project().join(name)).unwrap_or_default()
    }

    pub(crate) fn ledger(&self) -> Ledger {
        let path = self.base().join("home/state.db");
        Ledger::open(&path, &LedgerOptions::default()).unwrap()
    }

    /// Begins a task whose model is at this address.
    pub(crate) fn begin(&self, url: &str, id: &str) -> Task {
        let new = NewSession { system_prompt: Some("Be brief.".into()), ..NewSession::default() };
        Task::begin(agent(self.base(), url), &self.project(), new, id).unwrap()
    }

    /// Returns the current messages of a session as `role: text` lines.
    pub(crate) fn conversation(&self, session: &str) -> Vec<String> {
        let messages = self.ledger().messages(session, MessageFilter::Current).unwrap();
        messages.iter().map(show_message).collect()
    }

    /// Rolls the project back to a checkpoint in the list.
    pub(crate) fn roll_back(&self, checkpoint: &str) {
        let opened = open(self.base());
        let to = Destination::Checkpoint(checkpoint.to_owned());
        rollback::roll_back(&opened, &Request::new(self.project(), to)).unwrap();
    }
}

fn show_message(message: &MessageRecord) -> String {
    let text = message.content.as_ref().and_then(|content| content.as_str()).unwrap_or_default();
    let calls = message.tool_calls.as_ref().and_then(|calls| calls.as_array());
    let names = calls.into_iter().flatten().filter_map(|call| call["function"]["name"].as_str());
    let names: Vec<&str> = names.collect();
    match names.as_slice() {
        [] => format!("{}: {text}", message.role),
        names => format!("{}: {text} [{}]", message.role, names.join(" ")),
    }
}

pub(crate) fn open(base: &Path) -> Opened {
    let home = base.join("home");
    Opened::new(OpenOptions::new(home))
}

pub(crate) fn provider(url: &str) -> Provider {
    Provider {
        name: "scripted".into(),
        kind: ApiKind::Openai,
        base_url: format!("{url}/v1"),
        key: None,
        model: "m".into(),
        context_window: 100_000,
        max_output: 1_000,
        prices: Some(Prices { input: 1.0, output: 10.0, ..Prices::default() }),
    }
}

pub(crate) fn agent(base: &Path, url: &str) -> Arc<Agent> {
    Arc::new(build_agent(base, url))
}

pub(crate) fn build_agent(base: &Path, url: &str) -> Agent {
    let path = ("PATH".into(), std::env::var_os("PATH").unwrap_or_default());
    let settings = ToolSettings { environment: vec![path], ..ToolSettings::default() };
    Agent {
        opened: Arc::new(open(base)),
        client: Client::new(ClientOptions::default()),
        provider: provider(url),
        fallback: None,
        tools: Tools::standard(&settings),
        approval: ApprovalMode::Effects,
        has_checkpoints: true,
        user_home: None,
        on_follow_up: Box::new(|_, _| {}),
        shared: None,
    }
}

/// A front end that records everything that it is shown, and gives prepared answers.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) shown: Mutex<Vec<String>>,
    pub(crate) answers: Mutex<Vec<Answer>>,
}

impl Recorder {
    pub(crate) fn answering(answer: Answer) -> Recorder {
        Recorder { answers: Mutex::new(vec![answer]), ..Recorder::default() }
    }

    pub(crate) fn text(&self) -> String {
        self.shown.lock().unwrap().join("\n")
    }
}

impl FrontEnd for Recorder {
    fn show(&self, event: &TurnEvent<'_>) {
        self.shown.lock().unwrap().push(format!("{event:?}"));
    }

    fn approve(&self, question: &Question<'_>) -> Answer {
        self.shown.lock().unwrap().push(format!("{question:?}"));
        self.answers.lock().unwrap().pop().unwrap_or(Answer::Later)
    }
}
