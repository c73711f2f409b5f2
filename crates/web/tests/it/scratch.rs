//! A scratch home and workspace, an agent that works there, and a running server.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use serde_json::json;
use takeback_undo::{
    Deadline, OpenOptions, Opened, Report, ReportedEvent, ToolCall, ToolWork, hook,
};
use takeback_web::{Certificate, Error, Home, Problem, Reach, Server, ServerOptions, Stopper};
use takeback_web::{CheckedAgent, Checkup, Finding};

use crate::chat_host::TestChat;
use crate::client::Client;

pub(crate) const TOKEN: &str = "test-token";
const COOKIE: &str = "test-cookie";

struct TestHome(Arc<Opened>);

impl Home for TestHome {
    fn price(&self, _model: &str, _tokens: takeback_ledger::Tokens) -> Option<f64> {
        None
    }

    fn open(&self) -> Result<Arc<Opened>, Problem> {
        Ok(self.0.clone())
    }

    fn catch_up(&self) {}

    fn check_up(&self, is_thorough: bool) -> Result<Checkup, Problem> {
        let agent = CheckedAgent {
            title: "Claude Code".into(),
            state: "hooks not installed".into(),
            ..CheckedAgent::default()
        };
        let finding = Finding { message: "a <b>finding</b>".into(), hint: "run `takeback`".into() };
        let findings = if is_thorough { vec![finding] } else { Vec::new() };
        Ok(Checkup { is_thorough, agents: vec![agent], findings })
    }

    fn explain(&self, error: Error) -> Problem {
        Problem::of(&error).hint("a hint of the commands")
    }
}

/// A home with a workspace, and a server for it.
pub(crate) struct Scratch {
    base: tempfile::TempDir,
    opened: Arc<Opened>,
    link: String,
    stopper: Stopper,
    server: Option<JoinHandle<()>>,
    url: String,
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        Scratch::start("http://127.0.0.1:9", None)
    }

    /// Starts a server whose connections are encrypted, if there is a certificate.
    pub(crate) fn with_certificate(certificate: Option<Certificate>) -> Scratch {
        Scratch::start("http://127.0.0.1:9", certificate)
    }

    /// Starts a server whose agent asks the model at this address.
    pub(crate) fn with_model(url: &str) -> Scratch {
        Scratch::start(url, None)
    }

    fn start(url: &str, certificate: Option<Certificate>) -> Scratch {
        let base = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        fs::create_dir(base.path().join("project")).unwrap();
        let home = base.path().join("home");
        let opened = Arc::new(Opened::new(OpenOptions::new(home)));
        let project = base.path().join("project").canonicalize().unwrap();
        let chat = TestChat { opened: opened.clone(), url: url.to_owned(), directory: project };
        let (stopper, link, server) = serve(&opened, chat, certificate);
        Scratch { base, opened, link, stopper, server: Some(server), url: url.to_owned() }
    }

    /// Stops the server, and starts another one on the same home.
    pub(crate) fn restart(&mut self) {
        self.stop();
        let (opened, directory) = (self.opened.clone(), self.project());
        let chat = TestChat { opened, url: self.url.clone(), directory };
        let (stopper, link, server) = serve(&self.opened, chat, None);
        (self.stopper, self.link, self.server) = (stopper, link, Some(server));
    }

    pub(crate) fn opened(&self) -> &Opened {
        &self.opened
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.base.path().canonicalize().unwrap().join("project")
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.project().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.project().join(name)).unwrap()
    }

    pub(crate) fn has(&self, name: impl AsRef<Path>) -> bool {
        self.project().join(name).exists()
    }

    /// Reports an event of the session `claude:s1`.
    fn report(&self, event: ReportedEvent) {
        let report = Report {
            agent: "claude".into(),
            session: "s1".into(),
            parent: None,
            turn: None,
            directory: self.project(),
            model: None,
            event,
        };
        let handled = hook::handle(&self.opened, &report, &Deadline::open());
        assert_eq!(handled.failures, Vec::<String>::new());
    }

    /// Runs a command as the agent. `act` makes the changes of the command.
    pub(crate) fn run_call(&self, command: &str, act: impl FnOnce()) {
        let call = ToolCall {
            id: Some(command.into()),
            tool: "Bash".into(),
            input: json!({ "command": command }),
            work: ToolWork::run_script(command),
        };
        self.report(ReportedEvent::BeforeTool(call.clone()));
        act();
        self.report(ReportedEvent::AfterTool { call, outcome: None });
    }

    /// Plays a turn of an agent. `act` does the work of the turn.
    pub(crate) fn play_whole_turn(&self, prompt: &str, act: impl FnOnce()) {
        self.report(ReportedEvent::TurnStart { prompt: Some(prompt.into()) });
        act();
        self.report(ReportedEvent::TurnEnd);
    }

    /// Plays a turn of an agent that runs one command.
    pub(crate) fn play_turn(&self, prompt: &str, command: &str, act: impl FnOnce()) {
        self.play_whole_turn(prompt, || self.run_call(command, act));
    }

    /// Returns the id of the workspace, as it appears in addresses.
    pub(crate) fn workspace(&self) -> String {
        self.opened.store().unwrap().workspace_id(&self.project()).to_string()
    }

    /// Returns a browser that has opened the link.
    pub(crate) fn browser(&self) -> Client {
        let cookie = format!("takeback_{}={COOKIE}", self.port());
        Client::new(self.port()).header("cookie", &cookie)
    }

    /// Returns a client without the token.
    pub(crate) fn stranger(&self) -> Client {
        Client::new(self.port())
    }

    pub(crate) fn link(&self) -> &str {
        &self.link
    }

    pub(crate) fn port(&self) -> u16 {
        let rest = self.link.rsplit_once(':').unwrap().1;
        rest.split('/').next().unwrap().parse().unwrap()
    }

    /// Stops the server and waits until it has ended.
    pub(crate) fn stop(&mut self) {
        self.stopper.stop();
        if let Some(server) = self.server.take() {
            server.join().unwrap();
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts a server on a home.
fn serve(
    opened: &Arc<Opened>,
    chat: TestChat,
    certificate: Option<Certificate>,
) -> (Stopper, String, JoinHandle<()>) {
    let server = Server::bind(ServerOptions {
        address: ([127, 0, 0, 1], 0).into(),
        reach: Reach::Loopback,
        certificate,
        token: TOKEN.into(),
        cookie: COOKIE.into(),
        home: Arc::new(TestHome(opened.clone())),
        chat: Arc::new(chat),
        zone: jiff::tz::TimeZone::UTC,
        user_home: None,
    })
    .unwrap();
    let (link, stopper) = (server.link(), server.stopper());
    (stopper, link, thread::spawn(move || server.run().unwrap()))
}
