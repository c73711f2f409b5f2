//! A simulated user in front of the screen, and an agent that works in the same workspace.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use serde_json::json;
use takeback_tree::Oid;
use takeback_undo::history::{open_workspace, take_checkpoint};
use takeback_undo::{
    CheckpointOptions, Deadline, OpenOptions, Opened, Report, ReportedEvent, ToolCall, ToolWork,
    hook,
};

use crate::host::{Error, Host, Problem};
use crate::input::{Input, Key};
use crate::message::{Command, Message, Read};
use crate::model::Model;
use crate::theme::{Colors, Theme};
use crate::update::update;
use crate::view::draw;
use crate::work::{Job, Work};

/// The colors and characters that most tests use.
pub(super) const PLAIN: Theme = Theme { colors: Colors::None, is_unicode: true };

/// The time at which each test begins: 12:00 on a Wednesday.
const NOON: u64 = 1_795_003_200;

thread_local! {
    /// The seconds that have passed since noon.
    static PASSED: Cell<u64> = const { Cell::new(0) };
}

fn clock() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(NOON + PASSED.get())
}

pub(super) struct TestHost {
    pub(super) opened: Arc<Opened>,
    directory: PathBuf,
    pub(super) messages: Mutex<Vec<String>>,
}

impl Host for TestHost {
    fn open(&self) -> Result<Arc<Opened>, Problem> {
        Ok(self.opened.clone())
    }

    fn catch_up(&self) {}

    fn explain(&self, error: Error) -> Problem {
        Problem::of(&error)
    }

    fn render_markdown(&self, text: &str, _columns: usize) -> Vec<String> {
        text.lines().map(|line| format!("\u{1b}[1m{line}\u{1b}[0m")).collect()
    }

    fn find_resume_command(&self, session: &str) -> Result<String, Problem> {
        Ok(format!("mine --resume {session}"))
    }

    fn take_checkpoint(&self, reason: Option<&str>) -> Result<String, Problem> {
        let options = CheckpointOptions { reason: reason.map(str::to_owned), ..Default::default() };
        let workspace = open_workspace(&self.opened, &self.directory);
        let workspace = workspace.map_err(|error| Problem::of(&error))?;
        let taken = take_checkpoint(&self.opened, &workspace, &options);
        taken.map(|_| "Took a checkpoint.".to_owned()).map_err(|error| Problem::of(&error))
    }

    fn page_diff(&self, _checkpoint: &Oid) -> Result<(), Problem> {
        Ok(())
    }

    fn take_messages(&self) -> Vec<String> {
        std::mem::take(&mut self.messages.lock().unwrap())
    }
}

/// A simulated user in front of the screen.
pub(super) struct Player {
    base: tempfile::TempDir,
    pub(super) host: Arc<TestHost>,
    work: Work,
    pub(super) model: Model,
    seen: Option<SystemTime>,
    /// The commands that the player does not carry out, such as quitting, as text.
    pub(super) done: Vec<String>,
    /// The requests for plans that a test answers later. `None` if plans are made immediately.
    pub(super) held: Option<Vec<Command>>,
}

impl Player {
    /// Creates an empty workspace, and a screen of the given size.
    pub(super) fn new(columns: u16, rows: u16) -> Player {
        PASSED.set(0);
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().canonicalize().unwrap().join("shop");
        fs::create_dir(&directory).unwrap();
        let home = base.path().join("home");
        let opened = Opened::new(OpenOptions { clock, ..OpenOptions::new(home) });
        let messages = Mutex::default();
        let host =
            Arc::new(TestHost { opened: Arc::new(opened), directory: directory.clone(), messages });
        let work = Work::new(host.clone(), directory, false);
        let now = Timestamp::try_from(clock()).unwrap();
        let model = Model::new("~/shop".into(), TimeZone::UTC, now, (columns, rows));
        Player { base, host, work, model, seen: None, done: Vec::new(), held: None }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.base.path().canonicalize().unwrap().join("shop").join(name)
    }

    pub(super) fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, minutes: u64) {
        PASSED.set(PASSED.get() + minutes * 60);
        self.model.now = Timestamp::try_from(clock()).unwrap();
    }

    pub(super) fn report(&self, session: &str, event: ReportedEvent) {
        let (agent, session) = session.split_once(':').unwrap();
        let report = Report {
            agent: agent.into(),
            session: session.into(),
            parent: None,
            turn: None,
            directory: self.path(""),
            model: None,
            event,
        };
        let handled = hook::handle(&self.host.opened, &report, &Deadline::open());
        assert_eq!(handled.failures, Vec::<String>::new());
    }

    /// Reports the beginning of a call that writes files.
    pub(super) fn begin_call(&self, session: &str, id: &str, paths: &[&str]) -> ToolCall {
        let call = ToolCall {
            id: Some(id.into()),
            tool: "Write".into(),
            input: json!({ "path": paths.first() }),
            work: ToolWork::Changes {
                script: None,
                paths: paths.iter().map(|path| self.path(path)).collect(),
            },
        };
        self.report(session, ReportedEvent::BeforeTool(call.clone()));
        call
    }

    /// Plays a turn in which an agent writes files, and lets a minute pass.
    pub(super) fn play_turn(&mut self, session: &str, prompt: &str, files: &[(&str, &str)]) {
        self.report(session, ReportedEvent::TurnStart { prompt: Some(prompt.into()) });
        for (number, (path, content)) in files.iter().enumerate() {
            let call = self.begin_call(session, &format!("{prompt}-{number}"), &[path]);
            self.write(path, content);
            self.report(session, ReportedEvent::AfterTool { call, outcome: None });
        }
        self.report(session, ReportedEvent::TurnEnd);
        self.pass(1);
    }

    /// Plays the turns that most tests begin with, and opens the screen.
    pub(super) fn with_story(columns: u16, rows: u16) -> Player {
        let mut player = Player::new(columns, rows);
        player.write("src/cart.py", "class Cart:\n    items = []\n");
        player.play_turn(
            "claude:a1",
            "add a discount",
            &[
                ("src/cart.py", "class Cart:\n    items = []\n    discount = 10\n"),
                ("tests/test_cart.py", "def test():\n    assert True\n"),
            ],
        );
        player.play_turn("codex:b2", "write the changelog", &[("CHANGES.md", "- one\n- two\n")]);
        player.open();
        player
    }

    /// Opens the screen.
    pub(super) fn open(&mut self) {
        self.run(vec![Command::Read(Read::Newest)]);
    }

    /// Presses keys. `\n` is Enter, `\t` is Tab, `\u{1b}` is Escape, and `<` and `>` are Left and
    /// Right.
    pub(super) fn press(&mut self, keys: &str) {
        for character in keys.chars() {
            self.press_key(match character {
                '\n' => Key::Enter,
                '\t' => Key::Tab,
                '\u{1b}' => Key::Escape,
                '\u{8}' => Key::Backspace,
                '<' => Key::Left,
                '>' => Key::Right,
                character => Key::Char(character),
            });
        }
    }

    pub(super) fn press_key(&mut self, key: Key) {
        self.send(Message::Input(Input::Key(key)));
    }

    /// Handles a message, and carries out all commands that follow from it.
    pub(super) fn send(&mut self, message: Message) {
        let commands = update(&mut self.model, message);
        self.run(commands);
    }

    pub(super) fn run(&mut self, commands: Vec<Command>) {
        let mut waiting = VecDeque::from(commands);
        while let Some(command) = waiting.pop_front() {
            let message = match command {
                Command::MakePlan(..) if self.held.is_some() => {
                    self.held.get_or_insert_default().push(command);
                    None
                }
                Command::Read(read) => self.work.read(&read, &mut self.seen, &|| false),
                Command::MakePlan(number, wanted) => {
                    Some(self.work.act(Job::MakePlan(number, wanted)))
                }
                Command::Apply(plan) => Some(self.work.act(Job::Apply(plan))),
                Command::Label(id, change) => Some(self.work.act(Job::Label(id, change))),
                Command::TakeCheckpoint(reason) => Some(self.work.act(Job::TakeCheckpoint(reason))),
                Command::FindResume(session) => Some(self.work.act(Job::FindResume(session))),
                other => {
                    self.done.push(format!("{other:?}"));
                    None
                }
            };
            if let Some(message) = message {
                waiting.extend(update(&mut self.model, message));
            }
        }
    }

    /// Draws the screen with the colors and characters of a theme.
    pub(super) fn draw(&self, theme: Theme) -> Buffer {
        let (columns, rows) = self.model.size;
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| draw(&self.model, theme, frame.buffer_mut())).unwrap();
        terminal.backend().buffer().clone()
    }

    /// Returns the screen as text, without spaces at the ends of lines.
    pub(super) fn screen(&self) -> String {
        text_of(&self.draw(PLAIN))
    }

    /// Compares the screen with the expected one.
    #[track_caller]
    pub(super) fn expect(&self, expected: &str) {
        let screen = self.screen();
        assert_eq!(screen, expected.trim_matches('\n'), "\n{screen}\n");
    }

    #[track_caller]
    pub(super) fn expect_part(&self, part: &str) {
        let screen = self.screen();
        assert!(screen.contains(part), "{part:?} is not on the screen:\n{screen}");
    }

    #[track_caller]
    pub(super) fn expect_no(&self, part: &str) {
        let screen = self.screen();
        assert!(!screen.contains(part), "{part:?} is on the screen:\n{screen}");
    }
}

/// Returns the text of a buffer.
pub(super) fn text_of(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width);
    let mut lines = Vec::new();
    for row in buffer.content.chunks(width) {
        let mut line = String::new();
        let mut skipped = 0;
        for cell in row {
            // A wide character is followed by an empty cell.
            if skipped > 0 {
                skipped -= 1;
                continue;
            }
            line.push_str(cell.symbol());
            skipped = takeback_base::columns::width_of(cell.symbol()).saturating_sub(1);
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n").trim_end_matches('\n').to_owned()
}
