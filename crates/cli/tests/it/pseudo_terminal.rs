//! A program in a pseudo-terminal, and the screen that a user would see.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// The longest time that a test waits for the program.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program in a pseudo-terminal.
pub(crate) struct PseudoTerminal {
    child: Child,
    /// The side of the terminal that the user types into.
    keyboard: File,
    shown: Arc<Shown>,
}

/// The output so far, shared with the thread that reads it.
struct Shown {
    state: Mutex<ShownState>,
    changed: Condvar,
}

struct ShownState {
    screen: vt100::Parser,
    /// All output, including control sequences.
    output: Vec<u8>,
    is_over: bool,
}

impl PseudoTerminal {
    /// Starts a program in a terminal of this size. Returns `None` if `setsid`, which gives the
    /// program a terminal of its own, is not installed.
    pub(crate) fn start(command: &Command, columns: u16, rows: u16) -> Option<PseudoTerminal> {
        let (child, keyboard) = spawn(command, columns, rows)?;
        let number = |number| NonZero::new(number).unwrap();
        let screen = vt100::Parser::new(number(rows), number(columns), 10_000);
        let state = Mutex::new(ShownState { screen, output: Vec::new(), is_over: false });
        let shown = Arc::new(Shown { state, changed: Condvar::new() });
        let (reader, target) = (keyboard.try_clone().unwrap(), shown.clone());
        std::thread::spawn(move || target.follow(reader));
        Some(PseudoTerminal { child, keyboard, shown })
    }

    /// Starts a program in a terminal, and closes the terminal once the program has written this
    /// text. Returns the program's exit status.
    #[allow(dead_code, reason = "the unit tests, which share this file, do not need it")]
    pub(crate) fn close_after(command: &Command, text: &str) -> Option<ExitStatus> {
        let (mut child, mut keyboard) = spawn(command, 100, 30)?;
        let (mut output, mut buffer) = (Vec::new(), [0; 4096]);
        while !String::from_utf8_lossy(&output).contains(text) {
            let count = keyboard.read(&mut buffer).unwrap();
            output.extend_from_slice(&buffer[..count]);
        }
        drop(keyboard);
        let id = rustix::process::Pid::from_child(&child);
        let (sender, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait().unwrap()));
        let status = ended.recv_timeout(PATIENCE);
        if status.is_err() {
            rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
        }
        Some(status.expect("the program has not ended"))
    }

    /// Types text or presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Changes the size of the terminal, and notifies the program.
    #[allow(dead_code, reason = "the unit tests, which share this file, do not need it")]
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        let number = |number| NonZero::new(number).unwrap();
        let mut state = self.shown.state.lock().unwrap();
        state.screen.screen_mut().set_size(number(rows), number(columns));
        drop(state);
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.keyboard, size).unwrap();
    }

    /// Waits until the screen contains `text`, and returns the screen.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) -> String {
        self.wait_until(&format!("{text:?}"), |screen| screen.contains(text))
    }

    /// Waits until a condition holds for the text on the screen, and returns the screen.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        let mut state = self.shown.state.lock().unwrap();
        loop {
            let screen = state.screen.screen().contents();
            if holds(&screen) {
                return screen;
            }
            let left = PATIENCE.saturating_sub(start.elapsed());
            assert!(!state.is_over && !left.is_zero(), "{what} never appeared:\n{screen}");
            state = self.shown.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    /// Sends a signal to the program itself.
    #[allow(dead_code, reason = "the unit tests, which share this file, do not need it")]
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        // `setsid` replaces itself with the program or, if it has to fork, waits for the program.
        let own = self.child.id();
        let name = std::fs::read_to_string(format!("/proc/{own}/comm")).unwrap();
        let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
        let program = match name.trim() {
            "setsid" => children.unwrap().trim().parse().unwrap(),
            _ => own,
        };
        let program = rustix::process::Pid::from_raw(program as i32).unwrap();
        rustix::process::kill_process(program, signal).unwrap();
    }

    /// Waits until the program is stopped, so that a signal to continue does not arrive too early.
    #[allow(dead_code, reason = "the unit tests, which share this file, do not need it")]
    pub(crate) fn wait_for_stop(&self) {
        // Here, `setsid` has replaced itself with the program, because `setsid` does not lead a
        // process group.
        let program = rustix::process::Pid::from_child(&self.child);
        let options = rustix::process::WaitOptions::UNTRACED;
        let status = rustix::process::waitpid(Some(program), options).unwrap();
        assert!(status.is_some_and(|(_, status)| status.stopped()), "{status:?}");
    }

    /// Kills the program with SIGKILL, and waits until it has ended. The terminal stays open until
    /// then.
    #[allow(dead_code, reason = "the unit tests, which share this file, do not need it")]
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until the program has ended. Returns its status, the screen, and all its output.
    #[track_caller]
    pub(crate) fn wait_for_end(mut self) -> (ExitStatus, String, String) {
        let state = self.shown.state.lock().unwrap();
        let is_running = |state: &mut ShownState| !state.is_over;
        let waited = self.shown.changed.wait_timeout_while(state, PATIENCE, is_running).unwrap();
        let (screen, output) = (waited.0.screen.screen().contents(), waited.0.output.clone());
        assert!(!waited.1.timed_out(), "the program never ended:\n{screen}");
        drop(waited);
        let status = self.child.wait().unwrap();
        (status, screen, String::from_utf8_lossy(&output).into_owned())
    }
}

impl Drop for PseudoTerminal {
    fn drop(&mut self) {
        // If a test has failed, the program may still be running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Shown {
    /// Reads the output until the terminal is closed.
    fn follow(&self, mut reader: File) {
        let mut buffer = [0; 4096];
        loop {
            // Reading fails once the program has closed the terminal.
            let count = reader.read(&mut buffer).unwrap_or(0);
            let Ok(mut state) = self.state.lock() else { return };
            state.output.extend_from_slice(&buffer[..count]);
            state.screen.process(&buffer[..count]);
            state.is_over = count == 0;
            self.changed.notify_all();
            if count == 0 {
                return;
            }
        }
    }
}

/// Starts a program in a new terminal. Returns the side of the terminal that the user types into.
fn spawn(command: &Command, columns: u16, rows: u16) -> Option<(Child, File)> {
    let (keyboard, screen) = open_terminal(columns, rows);
    let mut started = Command::new("setsid");
    started.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
    started.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    started.env("TERM", "xterm");
    for (name, value) in command.get_envs() {
        value.map(|value| started.env(name, value));
    }
    if let Some(directory) = command.get_current_dir() {
        started.current_dir(directory);
    }
    let stream = || Stdio::from(screen.try_clone().unwrap());
    let child = started.stdin(stream()).stdout(stream()).stderr(stream()).spawn();
    let Ok(child) = child else {
        let _ = writeln!(std::io::stderr(), "skipped: the program `setsid` is not installed");
        return None;
    };
    // The reader reaches the end of the output only after every process has closed the program's
    // side of the terminal, including this process.
    drop((started, screen));
    Some((child, keyboard))
}

/// Creates a pseudo-terminal. Returns the side that the user types into, and the side for the
/// program.
fn open_terminal(columns: u16, rows: u16) -> (File, File) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let user: OwnedFd = openpt(flags).unwrap();
    grantpt(&user).unwrap();
    unlockpt(&user).unwrap();
    let path = ptsname(&user, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let program = rustix::fs::open(path, flags, Mode::empty()).unwrap();
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&user, size).unwrap();
    (File::from(user), File::from(program))
}
