//! The keyboard while a turn runs.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::output;

/// The terminal's settings before takeback changed them.
static USUAL: Mutex<Option<Termios>> = Mutex::new(None);

/// A mode of the keyboard in which typed keys do not appear on the screen, where they would disturb
/// the live lines. The next prompt gets these keys. Ctrl-C still stops the turn.
pub(crate) struct QuietKeyboard(());

impl QuietKeyboard {
    /// Turns off the echo of typed keys until the returned value is dropped. Does nothing without a
    /// terminal.
    pub(crate) fn start() -> QuietKeyboard {
        if io::stdin().is_terminal()
            && let Ok(usual) = tcgetattr(io::stdin())
        {
            let mut quiet = usual.clone();
            quiet.local_modes.remove(LocalModes::ECHO);
            *USUAL.lock().unwrap_or_else(PoisonError::into_inner) = Some(usual);
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &quiet);
        }
        QuietKeyboard(())
    }
}

/// A mode of the keyboard in which Ctrl-C arrives as an ordinary key press instead of causing a
/// signal. The line editor reads this key press even if it happened just before the editor started.
pub(crate) struct InterruptKey(());

impl InterruptKey {
    /// Makes Ctrl-C arrive as an ordinary key press until the returned value is dropped.
    pub(crate) fn start() -> InterruptKey {
        if let Ok(usual) = tcgetattr(io::stdin()) {
            let mut single = usual.clone();
            single.local_modes.remove(LocalModes::ISIG);
            *USUAL.lock().unwrap_or_else(PoisonError::into_inner) = Some(usual);
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &single);
        }
        InterruptKey(())
    }
}

impl Drop for InterruptKey {
    fn drop(&mut self) {
        restore_keyboard();
    }
}

/// Asks a question, and waits for one key, which does not appear on the screen. Ctrl-C still causes
/// a signal. Returns `None` if there is no terminal.
pub(crate) fn ask_for_key(question: &str) -> Option<u8> {
    let usual = tcgetattr(io::stdin()).ok()?;
    let mut single = usual.clone();
    single.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
    *USUAL.lock().unwrap_or_else(PoisonError::into_inner) = Some(usual);
    // Keys that were pressed before the question appeared are not an answer to it.
    let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &single);
    output::ask(question);
    let mut key = [0];
    // This bypasses the buffer of standard input, because the buffer could take more than one key.
    let count = rustix::io::retry_on_intr(|| rustix::io::read(io::stdin(), &mut key));
    restore_keyboard();
    count.is_ok_and(|count| count == 1).then_some(key[0])
}

impl Drop for QuietKeyboard {
    fn drop(&mut self) {
        restore_keyboard();
    }
}

/// Restores the usual settings of the terminal. A process that is about to end because of a signal
/// must call this function itself.
pub(crate) fn restore_keyboard() {
    if let Some(usual) = USUAL.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &usual);
    }
}
