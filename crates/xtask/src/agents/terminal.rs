//! An agent in a pseudo-terminal, and the screen that its user sees.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::Failure;

/// The longest time that a test waits for something on the screen.
const PATIENCE: Duration = Duration::from_secs(120);
/// The time after which the keys that answer a question are pressed again.
const AGAIN: Duration = Duration::from_secs(5);
/// The time after which Return is pressed again if a line has had no effect.
const LATER: Duration = Duration::from_secs(15);
const ROWS: u16 = 50;
const COLUMNS: u16 = 140;

/// Questions that programs ask the terminal, and the answers that a plain terminal gives.
const QUESTIONS: [(&str, &str); 3] = [
    ("\u{1b}[6n", "\u{1b}[1;1R"),
    ("\u{1b}[c", "\u{1b}[?62;c"),
    ("\u{1b}]11;?", "\u{1b}]11;rgb:0000/0000/0000\u{7}"),
];

/// A program in a pseudo-terminal. Dropping this value ends the program.
pub(crate) struct Terminal {
    child: Child,
    /// The side of the terminal that the user types into.
    keyboard: File,
    shown: Arc<Shown>,
}

/// The screen, shared with the thread that updates it.
struct Shown {
    state: Mutex<ShownState>,
    changed: Condvar,
}

struct ShownState {
    screen: vt100::Parser,
    is_over: bool,
}

impl Terminal {
    /// Starts a program in a terminal of its own. The output is also written to a file.
    pub(crate) fn start(command: &Command, log: File) -> Result<Terminal, Failure> {
        let failed = |error: std::io::Error| format!("cannot start it in a terminal: {error}");
        let (keyboard, screen) = open_terminal().map_err(failed)?;
        let mut started = Command::new("setsid");
        started.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        started.env_clear();
        for (name, value) in command.get_envs() {
            value.map(|value| started.env(name, value));
        }
        started.env("TERM", "xterm-256color");
        if let Some(directory) = command.get_current_dir() {
            started.current_dir(directory);
        }
        let stream = || Ok(Stdio::from(screen.try_clone()?));
        started.stdin(stream().map_err(failed)?).stdout(stream().map_err(failed)?);
        let child = started.stderr(stream().map_err(failed)?).spawn().map_err(failed)?;
        // The reader would never reach the end of the output if this process kept the program's
        // side open.
        drop((started, screen));
        let size = |number| NonZero::new(number).expect("the size is not zero");
        let screen = vt100::Parser::new(size(ROWS), size(COLUMNS), 0);
        let state = Mutex::new(ShownState { screen, is_over: false });
        let shown = Arc::new(Shown { state, changed: Condvar::new() });
        let (reader, target) = (keyboard.try_clone().map_err(failed)?, shown.clone());
        thread::spawn(move || target.follow(reader, log));
        Ok(Terminal { child, keyboard, shown })
    }

    /// Types a line, and sends it. Some programs treat fast input as pasted text, in which Return
    /// begins a new line, so Return is pressed after a pause.
    pub(crate) fn type_line(&mut self, line: &str) -> Result<(), Failure> {
        self.press(line)?;
        let beginning: String = line.chars().take(40).collect();
        self.wait_until(&format!("{beginning:?} in the input"), |screen| {
            screen.contains(&beginning)
        })?;
        thread::sleep(Duration::from_millis(500));
        self.press("\r")
    }

    /// Types a line, sends it, and waits until `find` finds the effect of the line. Presses Return
    /// again if the program may have treated it as part of pasted text.
    pub(crate) fn submit<T>(
        &mut self,
        line: &str,
        find: impl Fn() -> Option<T>,
    ) -> Result<T, Failure> {
        self.type_line(line)?;
        let start = Instant::now();
        let mut pressed = start;
        loop {
            if let Some(found) = find() {
                return Ok(found);
            }
            if start.elapsed() > PATIENCE {
                let screen = self.wait(Duration::ZERO, "", |_| true)?;
                return Err(format!("{line:?} had no effect:\n{screen}"));
            }
            if pressed.elapsed() > LATER {
                self.press("\r")?;
                pressed = Instant::now();
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Presses keys, one after the other.
    pub(crate) fn press(&mut self, keys: &str) -> Result<(), Failure> {
        self.keyboard.write_all(keys.as_bytes()).map_err(|error| format!("cannot type: {error}"))
    }

    /// Waits until a condition holds for the text on the screen, and returns this text.
    pub(crate) fn wait_until(
        &self,
        what: &str,
        holds: impl Fn(&str) -> bool,
    ) -> Result<String, Failure> {
        self.wait(PATIENCE, what, holds)
    }

    /// Presses keys until a question disappears. A program that has only just asked may not notice
    /// the first keys.
    pub(crate) fn answer_question(&mut self, question: &str, keys: &str) -> Result<(), Failure> {
        let start = Instant::now();
        loop {
            self.press(keys)?;
            match self.wait(AGAIN, "the next screen", |screen| !screen.contains(question)) {
                Err(failure) if start.elapsed() > PATIENCE => return Err(failure),
                Err(_) => {}
                Ok(_) => return Ok(()),
            }
        }
    }

    fn wait(
        &self,
        patience: Duration,
        what: &str,
        holds: impl Fn(&str) -> bool,
    ) -> Result<String, Failure> {
        let start = Instant::now();
        let mut state = self.shown.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let screen = state.screen.screen().contents();
            if holds(&screen) {
                return Ok(screen);
            }
            let left = patience.saturating_sub(start.elapsed());
            if state.is_over || left.is_zero() {
                return Err(format!("{what} never appeared:\n{screen}"));
            }
            let waited = self.shown.changed.wait_timeout(state, left.min(Duration::from_secs(1)));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // `setsid` has one child, which leads a group of its own.
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let children = fs::read_to_string(children).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)) {
            let _ = kill_process_group(child, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Shown {
    /// Reads the output until the terminal is closed, and answers the questions in it.
    fn follow(&self, mut terminal: File, mut log: File) {
        let mut buffer = [0; 65_536];
        loop {
            // The error at the end means that the program has closed the terminal.
            let count = terminal.read(&mut buffer).unwrap_or(0);
            let _ = log.write_all(&buffer[..count]);
            let text = String::from_utf8_lossy(&buffer[..count]);
            for (question, answer) in QUESTIONS {
                if text.contains(question) {
                    let _ = terminal.write_all(answer.as_bytes());
                }
            }
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.screen.process(&buffer[..count]);
            state.is_over = count == 0;
            self.changed.notify_all();
            if count == 0 {
                return;
            }
        }
    }
}

/// Creates a pseudo-terminal. Returns the user's side and the program's side of it.
fn open_terminal() -> std::io::Result<(File, File)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let user: OwnedFd = openpt(flags)?;
    grantpt(&user)?;
    unlockpt(&user)?;
    let path = ptsname(&user, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let program = rustix::fs::open(path, flags, Mode::empty())?;
    let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&user, size)?;
    Ok((File::from(user), File::from(program)))
}
