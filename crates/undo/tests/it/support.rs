//! A scratch home and workspace, and an agent that reports its actions.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::json;
use takeback_base::lock_wait::LockWait;
use takeback_undo::{
    Deadline, Destination, FollowSession, FollowUp, Handled, OpenOptions, Opened, OwnConversations,
    Planned, Report, ReportedEvent, Request, RollbackError, RollbackView, ToolCall, ToolWork,
    TurnUndo, hook, rollback,
};

thread_local! {
    static SHIFT: Cell<i64> = const { Cell::new(0) };
}

/// Sets the clock of this test forward or back by a number of seconds.
pub(crate) fn shift_clock(seconds: i64) {
    SHIFT.set(SHIFT.get() + seconds);
}

fn shifted_clock() -> SystemTime {
    let shift = SHIFT.get();
    let by = Duration::from_secs(shift.unsigned_abs());
    if shift < 0 { SystemTime::now() - by } else { SystemTime::now() + by }
}

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

    /// Creates a scratch home whose ledger masks secrets.
    pub(crate) fn with_masking() -> Scratch {
        let mut scratch = Scratch::new();
        let options = Scratch::options(scratch.base());
        scratch.opened = Opened::new(OpenOptions { redact: true, ..options });
        scratch
    }

    /// Creates a scratch home in which all agents are known to report the ends of their calls.
    pub(crate) fn with_reported_ends() -> Scratch {
        let mut scratch = Scratch::new();
        let options = Scratch::options(scratch.base());
        scratch.opened = Opened::new(OpenOptions { reports_ends: |_| true, ..options });
        scratch
    }

    /// Opens the home as another process would.
    pub(crate) fn open(base: &Path) -> Opened {
        Opened::new(Scratch::options(base))
    }

    /// Opens the home as another process with another clock would.
    pub(crate) fn open_with_clock(base: &Path, clock: fn() -> SystemTime) -> Opened {
        Opened::new(OpenOptions { clock, ..Scratch::options(base) })
    }

    /// Opens the home for a process that waits for other processes in the given way.
    pub(crate) fn open_waiting(base: &Path, wait: LockWait) -> Opened {
        Opened::new(OpenOptions { lock_wait: Some(wait), ..Scratch::options(base) })
    }

    /// Opens the home for a process that keeps the agents' own conversations in step with
    /// rollbacks.
    pub(crate) fn open_following(base: &Path, follow: FollowSession) -> Opened {
        let conversations = OwnConversations { follow: Some(follow), ..Default::default() };
        Opened::new(OpenOptions { conversations, ..Scratch::options(base) })
    }

    /// Opens the home for a process that keeps the agents' own conversations in step with
    /// rollbacks, and that has a user who is waiting.
    pub(crate) fn open_following_attended(base: &Path, follow: FollowSession) -> Opened {
        let conversations = OwnConversations { follow: Some(follow), ..Default::default() };
        let wait = LockWait { limit: Duration::from_secs(60), on_wait: |_| {} };
        Opened::new(OpenOptions { conversations, lock_wait: Some(wait), ..Scratch::options(base) })
    }

    pub(crate) fn options(base: &Path) -> OpenOptions {
        let home = base.join("home");
        OpenOptions { clock: shifted_clock, reports_ends: |_| false, ..OpenOptions::new(home) }
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

    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.project().join(name)).unwrap();
    }

    /// Reports an event in a session.
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
        if report.event.ends_turn() {
            hook::conclude_unended_calls(&self.opened, &report.session_id()).unwrap();
        }
        handled
    }

    /// Plays a turn in the session `s` in which the agent writes one file.
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

    /// Begins a call to a tool that names the files it changes.
    pub(crate) fn begin_edit(
        &self,
        session: &str,
        tool: &str,
        id: &str,
        names: &[&str],
    ) -> ToolCall {
        let paths = names.iter().map(PathBuf::from).collect();
        let call = ToolCall {
            id: Some(id.into()),
            tool: tool.into(),
            input: json!({ "id": id }),
            work: ToolWork::Changes { script: None, paths },
        };
        self.report(session, ReportedEvent::BeforeTool(call.clone()));
        call
    }

    /// Begins a call that runs a script.
    pub(crate) fn begin_script(&self, session: &str, id: &str, script: &str) -> ToolCall {
        let call = ToolCall {
            id: Some(id.into()),
            tool: "bash".into(),
            input: json!({ "command": script }),
            work: ToolWork::run_script(script),
        };
        self.report(session, ReportedEvent::BeforeTool(call.clone()));
        call
    }

    pub(crate) fn end_call(&self, session: &str, call: ToolCall) {
        self.report(session, ReportedEvent::AfterTool { call, outcome: None });
    }

    pub(crate) fn begin_turn(&self, session: &str, prompt: &str) {
        self.follow_up(session, ReportedEvent::TurnStart { prompt: Some(prompt.into()) });
    }

    pub(crate) fn end_turn(&self, session: &str) {
        self.follow_up(session, ReportedEvent::TurnEnd);
    }

    /// Reports an event, and does its follow-up work.
    fn follow_up(&self, session: &str, event: ReportedEvent) {
        self.do_follow_up(self.report(session, event));
    }

    /// Does the work that was put off until no agent is waiting.
    pub(crate) fn do_follow_up(&self, handled: Handled) {
        if let Some(FollowUp::Tend { workspace, session, time }) = handled.follow_up {
            hook::tend_workspace(&self.opened, &workspace, &session, time).unwrap();
        }
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.project().join(name).exists()
    }

    /// Returns to a checkpoint in the list.
    pub(crate) fn roll_back(&self, to: &str) -> RollbackView {
        self.carry_out(Destination::Checkpoint(to.into()))
    }

    /// Undoes the last turn.
    pub(crate) fn undo(&self) -> RollbackView {
        self.carry_out(Destination::WithoutTurn(TurnUndo::default()))
    }

    pub(crate) fn carry_out(&self, to: Destination) -> RollbackView {
        rollback::roll_back(&self.opened, &Request::new(self.project(), to)).unwrap()
    }

    /// Returns the prompts that are part of a session's conversation.
    pub(crate) fn prompts(&self, session: &str) -> Vec<String> {
        let ledger = self.opened.ledger().unwrap().unwrap();
        let session = format!("mine:{session}");
        let turns = ledger.turns(&session).unwrap();
        let left = turns.iter().filter(|turn| !turn.undone);
        left.map(|turn| ledger.prompt(&session, turn.first_seq).unwrap().unwrap()).collect()
    }

    /// Plans a request. Converts the plan to JSON and back, as a web page or another process would.
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
