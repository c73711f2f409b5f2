//! Sets up the terminal, draws the screen, and restores the terminal at the end.

use std::io::{self, IsTerminal, Stdout, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{
    self, DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use ratatui::layout::Rect;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::stdio::dup2_stdin;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};

use crate::host::Host;
use crate::input::{self, Input};
use crate::message::{Command, Message, Read};
use crate::model::{Model, Note, NoteKind};
use crate::theme::{Colors, Theme};
use crate::update::update;
use crate::view::draw;
use crate::work::Workers;

/// The time between two checks of the keyboard while a worker is busy.
const BUSY: Duration = Duration::from_millis(15);

/// The time between two checks of the history for changes.
const TICK: Duration = Duration::from_secs(1);

/// The time that the first screen waits for its rows before it is drawn. Without this wait, the
/// screen would flicker; with a longer one, it would seem stuck.
const FIRST: Duration = Duration::from_millis(40);

/// The screens that the program can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScreenKind {
    /// The history of a workspace.
    History,
    /// The sessions of all agents.
    Sessions,
}

/// The values that the program provides to the screen.
pub struct Options {
    /// The screen to show.
    pub screen: ScreenKind,
    /// The directory whose workspace is shown.
    pub directory: PathBuf,
    /// The path of the directory, as the screen shows it.
    pub place: String,
    /// The user's time zone.
    pub zone: TimeZone,
    /// The colors and characters that the terminal can show.
    pub theme: Theme,
    /// A function that returns the current time.
    pub clock: fn() -> Timestamp,
}

/// Shows a screen until the user closes it. Returns lines to print afterwards.
pub fn run(host: Arc<dyn Host>, options: Options) -> io::Result<Vec<String>> {
    let has_colors = options.theme.colors != Colors::None;
    let workers = Workers::start(host.clone(), options.directory, has_colors)?;
    let signals = Signals::register()?;
    watch_terminal(signals.end.clone())?;
    restore_on_panic();
    let screen = Screen::open()?;
    let model = Model::new(options.place, options.zone, (options.clock)(), size()?);
    let model = match options.screen {
        ScreenKind::History => model,
        ScreenKind::Sessions => model.with_sessions(),
    };
    let mut shown = Shown { host, workers, screen, model, theme: options.theme };
    let result = shown.follow(options.clock, &signals);
    let Shown { workers, screen, mut model, .. } = shown;
    // Restore the terminal first, because it may take a while to finish a change that has begun.
    drop(screen);
    for message in workers.stop() {
        model.add_last_words(message);
    }
    result.map(|()| model.last_words)
}

/// The signals that the screen handles. In raw mode, keys do not send them, but other programs may.
struct Signals {
    /// True once the screen must be closed.
    end: Arc<AtomicBool>,
    /// True if the process must be suspended.
    suspend: Arc<AtomicBool>,
    /// True if the process was resumed, and another program may have used the terminal in the
    /// meantime.
    resumed: Arc<AtomicBool>,
}

impl Signals {
    fn register() -> io::Result<Signals> {
        let flag = || Arc::new(AtomicBool::new(false));
        let signals = Signals { end: flag(), suspend: flag(), resumed: flag() };
        for signal in [SIGTERM, SIGHUP, SIGINT] {
            signal_hook::flag::register(signal, signals.end.clone())?;
        }
        signal_hook::flag::register(SIGTSTP, signals.suspend.clone())?;
        signal_hook::flag::register(SIGCONT, signals.resumed.clone())?;
        Ok(signals)
    }
}

/// Closes the screen when its terminal is closed. Otherwise, the library that reads the keyboard
/// would read the end of its input again and again, without ever returning.
fn watch_terminal(end: Arc<AtomicBool>) -> io::Result<()> {
    if !io::stdin().is_terminal() {
        return Ok(());
    }
    // An input that never receives data and never ends.
    let (silent, other_end) = UnixStream::pair()?;
    silent.set_nonblocking(true)?;
    let watch = move || {
        let stdin = io::stdin();
        // `poll` reports that the terminal was closed, even if no event is requested.
        let mut watched = [PollFd::new(&stdin, PollFlags::empty())];
        while watched[0].revents().is_empty() {
            let _ = poll(&mut watched, None);
        }
        // macOS cannot watch some kinds of terminals.
        if watched[0].revents().contains(PollFlags::NVAL) {
            return;
        }
        end.store(true, Ordering::Relaxed);
        let _ = dup2_stdin(&silent);
        // The thread lasts as long as the process, and keeps the other end open.
        loop {
            std::thread::park();
            let _ = &other_end;
        }
    };
    std::thread::Builder::new().name("terminal".into()).spawn(watch).map(drop)
}

/// Makes a panic of this thread restore the terminal before the message is printed.
fn restore_on_panic() {
    let ours = std::thread::current().id();
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // Panics of workers become messages on the screen.
        if std::thread::current().id() == ours {
            restore();
            print(info);
        }
    }));
}

/// Restores the terminal to its earlier state.
fn restore() {
    let mut out = io::stdout();
    let _ = execute!(out, DisableBracketedPaste, DisableMouseCapture, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Takes over the terminal, and makes it mark pasted text. Unmarked text would arrive as keys, and
/// could answer questions.
fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture, EnableBracketedPaste)
}

/// The alternate screen of the terminal. Dropping this value restores the terminal.
struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    fn open() -> io::Result<Screen> {
        let screen = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        // From here on, the terminal is restored even after an error.
        match enter() {
            Ok(()) => Ok(Screen(screen)),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Everything that belongs to the running screen.
struct Shown {
    host: Arc<dyn Host>,
    workers: Workers,
    screen: Screen,
    model: Model,
    theme: Theme,
}

impl Shown {
    /// Handles messages until the screen is closed.
    fn follow(&mut self, clock: fn() -> Timestamp, signals: &Signals) -> io::Result<()> {
        if !self.model.is_reader_only {
            self.workers.take(Command::Read(Read::Newest));
        }
        self.handle(Message::Tick(clock()))?;
        // An empty screen that is visible for only a few milliseconds would look like a flicker.
        if let Some(message) = self.workers.receive(FIRST) {
            self.handle(message)?;
        }
        let mut last_tick = Instant::now();
        loop {
            self.draw()?;
            let message = self.wait(last_tick)?;
            if signals.end.load(Ordering::Relaxed) {
                return Ok(());
            }
            if signals.suspend.swap(false, Ordering::Relaxed) {
                self.suspend()?;
                signals.resumed.store(false, Ordering::Relaxed);
            }
            if signals.resumed.swap(false, Ordering::Relaxed) {
                self.leave(|_| None)?;
            }
            let message = match message {
                Some(message) => message,
                None if last_tick.elapsed() < TICK => continue,
                None => {
                    last_tick = Instant::now();
                    Message::Tick(clock())
                }
            };
            if self.handle(message)? {
                return Ok(());
            }
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        // The terminal's size may already have changed. The model learns of that only later.
        let (columns, rows) = self.model.size;
        let mut drawn = Buffer::empty(Rect::new(0, 0, columns, rows));
        draw(&self.model, self.theme, &mut drawn);
        self.screen.0.draw(|frame| {
            let shown = frame.area().intersection(drawn.area);
            for position in shown.positions() {
                frame.buffer_mut()[position] = drawn[position].clone();
            }
        })?;
        Ok(())
    }

    /// Waits for a key or for a worker, but not beyond the next tick.
    fn wait(&mut self, last_tick: Instant) -> io::Result<Option<Message>> {
        if let Some(message) = self.workers.receive(Duration::ZERO) {
            return Ok(Some(message));
        }
        let wait = match self.workers.is_busy() {
            true => BUSY,
            false => TICK.saturating_sub(last_tick.elapsed()),
        };
        match event::poll(wait) {
            Ok(true) => Ok(input::convert(&event::read()?).map(Message::Input)),
            Ok(false) => Ok(None),
            // A signal interrupted the wait.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Handles a message, and carries out the commands that follow from it. Returns true if the
    /// screen must be closed.
    fn handle(&mut self, message: Message) -> io::Result<bool> {
        for command in update(&mut self.model, message) {
            match self.workers.take(command) {
                None => {}
                Some(Command::Quit) => return Ok(true),
                Some(Command::Copy(text)) => copy(&text)?,
                Some(Command::Redraw) => self.redraw()?,
                Some(Command::Suspend) => self.suspend()?,
                Some(Command::PageDiff(id)) => {
                    self.leave(|host| host.page_diff(&id).err().map(|problem| problem.line()))?;
                }
                Some(other) => unreachable!("the workers take {other:?}"),
            }
        }
        Ok(false)
    }

    /// Makes the next draw write every cell again.
    fn redraw(&mut self) -> io::Result<()> {
        // `clear` would ask the terminal for the position of its cursor, and wait for the answer.
        let (columns, rows) = size()?;
        self.screen.0.resize(Rect::new(0, 0, columns, rows))
    }

    /// Restores the terminal, and suspends the process until it is resumed.
    fn suspend(&mut self) -> io::Result<()> {
        self.leave(|_| {
            // The default action of the signal suspends the process.
            let _ = signal_hook::low_level::emulate_default_handler(SIGTSTP);
            None
        })
    }

    /// Closes the screen while another program uses the terminal, and then opens it again.
    fn leave(&mut self, work: impl FnOnce(&dyn Host) -> Option<String>) -> io::Result<()> {
        restore();
        let problem = work(self.host.as_ref());
        enter()?;
        self.redraw()?;
        if let Some(text) = problem {
            self.model.note = Some(Note { text, kind: NoteKind::Warning });
        }
        let (columns, rows) = size()?;
        self.handle(Message::Input(Input::Resize(columns, rows))).map(drop)
    }
}

/// Copies text to the clipboard of the user's terminal, even over a remote connection.
fn copy(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout();
    write!(stdout, "\u{1b}]52;c;{}\u{7}", STANDARD.encode(text))?;
    stdout.flush()
}
