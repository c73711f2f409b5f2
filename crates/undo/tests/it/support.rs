//! A scratch home and workspace, and an agent that reports what it does.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::json;
use takeback_tree::ForbiddenRoots;
use takeback_undo::{
    Deadline, Destination, Handled, OpenOptions, Opened, Planned, Report, ReportedEvent, Request,
    RollbackError, Settings, ToolCall, ToolWork, hook, rollback,
};

pub(crate) struct Scratch {
    base: tempfile::TempDir,
    pub(crate) opened: Opened,
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("project")).unwrap();
        let opened = Scratch::open(base.path());
        Scratch { base, opened }
    }

    /// Opens the home as another process would.
    pub(crate) fn open(base: &Path) -> Opened {
        Scratch::open_with_clock(base, SystemTime::now)
    }

    /// Opens the home as another process with another clock would.
    pub(crate) fn open_with_clock(base: &Path, clock: fn() -> SystemTime) -> Opened {
        let home = base.join("home");
        Opened::new(OpenOptions {
            forbidden: ForbiddenRoots::new(None, Vec::new(), Some(home.clone())),
            home,
            settings: Settings::default(),
            redact: false,
            lock_wait: None,
            clock,
            on_recovery: |_| {},
            resume_hint: |_| None,
        })
    }

    pub(crate) fn base(&self) -> &Path {
        self.base.path()
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.base.path().join("project")
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        fs::write(self.project().join(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.project().join(name)).unwrap()
    }

    /// Reports an event of a session.
    pub(crate) fn report(&self, session: &str, event: ReportedEvent) -> Handled {
        let report = Report {
            agent: "mine".into(),
            session: session.into(),
            parent: None,
            turn: None,
            directory: self.project(),
            model: None,
            event,
        };
        let handled = hook::handle(&self.opened, &report, &Deadline::open());
        assert_eq!(handled.failures, Vec::<String>::new());
        handled
    }

    /// Plays a turn of the session `s` in which the agent writes one file.
    pub(crate) fn play_turn(&self, prompt: &str, name: &str, content: &str) {
        self.play_turn_of("s", prompt, || self.write(name, content));
    }

    /// Plays a turn with one call.
    pub(crate) fn play_turn_of(&self, session: &str, prompt: &str, call_tool: impl FnOnce()) {
        let report = |event| self.report(session, event);
        report(ReportedEvent::TurnStart { prompt: Some(prompt.into()) });
        let call = ToolCall {
            id: Some(prompt.into()),
            tool: "bash".into(),
            input: json!({ "command": "make" }),
            work: ToolWork::run_script("make"),
        };
        report(ReportedEvent::BeforeTool(call.clone()));
        call_tool();
        report(ReportedEvent::AfterTool { call, outcome: None });
        report(ReportedEvent::TurnEnd);
    }

    /// Plans a request, and sends the plan through JSON as a web page or another process would.
    pub(crate) fn plan(&self, to: Destination) -> Planned {
        let planned = rollback::plan(&self.opened, &Request::new(self.project(), to)).unwrap();
        let json = serde_json::to_string(&planned).unwrap();
        let again: Planned = serde_json::from_str(&json).unwrap();
        assert_eq!(again.digest(), planned.digest());
        again
    }

    pub(crate) fn apply(&self, planned: Planned) -> Result<(), RollbackError> {
        rollback::apply(&self.opened, planned).map(drop)
    }
}
