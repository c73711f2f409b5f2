//! The keyboard while a turn runs.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// The settings of the terminal before the keyboard became quiet.
static USUAL: Mutex<Option<Termios>> = Mutex::new(None);

/// A keyboard whose keys do not appear on the screen, where they would disturb the live lines. The
/// next prompt gets them. Ctrl-C still stops the turn.
pub(crate) struct QuietKeyboard(());

impl QuietKeyboard {
    /// Makes the keyboard quiet until the value is dropped. Does nothing without a terminal.
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

impl Drop for QuietKeyboard {
    fn drop(&mut self) {
        restore_keyboard();
    }
}

/// Shows keys on the screen again. A process that is about to end because of a signal must call
/// this itself.
pub(crate) fn restore_keyboard() {
    if let Some(usual) = USUAL.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &usual);
    }
}
