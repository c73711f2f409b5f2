//! Ctrl-C in a conversation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use takeback_runtime::Cancel;

use super::terminal::keyboard::restore_keyboard;
use crate::failure::Failure;

/// Handles Ctrl-C, depending on what the conversation is doing.
#[derive(Clone, Default)]
pub(super) struct Stopper {
    meaning: Arc<Mutex<Meaning>>,
}

/// The effect of Ctrl-C.
#[derive(Default)]
enum Meaning {
    /// Ctrl-C ends the program.
    #[default]
    End,
    /// The first Ctrl-C uses this switch to stop the turn, and a second Ctrl-C ends the program.
    /// This stays in effect until the next prompt, so that a Ctrl-C just after the turn does not
    /// end the program.
    StopTurn(Cancel),
    /// Ctrl-C has no effect, because the line editor reads it as a key.
    Key,
}

impl Stopper {
    /// Handles Ctrl-C from now on.
    pub(super) fn listen(&self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::new("cannot handle Ctrl-C").because(&error);
        let mut signals = Signals::new([SIGINT]).map_err(failed)?;
        let stopper = self.clone();
        let wait = move || {
            for signal in signals.forever() {
                if stopper.ends_program() {
                    restore_keyboard();
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
            }
        };
        std::thread::Builder::new().spawn(wait).map_err(failed)?;
        Ok(())
    }

    /// Stops the running turn, if there is one. Returns true if the program has to end instead.
    fn ends_program(&self) -> bool {
        match &*self.meaning() {
            Meaning::End => true,
            Meaning::StopTurn(cancel) if cancel.is_cancelled() => true,
            Meaning::StopTurn(cancel) => {
                cancel.cancel();
                false
            }
            Meaning::Key => false,
        }
    }

    /// Records that a turn is running, and that this switch stops it.
    pub(super) fn begin_turn(&self, cancel: &Cancel) {
        *self.meaning() = Meaning::StopTurn(cancel.clone());
    }

    /// Records that the user is being asked for a prompt, by a line editor or through a pipe.
    pub(super) fn begin_prompt(&self, has_editor: bool) {
        let mut meaning = self.meaning();
        if let Meaning::StopTurn(cancel) = &*meaning {
            cancel.reset();
        }
        *meaning = if has_editor { Meaning::Key } else { Meaning::End };
    }

    /// Records that the user has answered.
    pub(super) fn end_prompt(&self) {
        *self.meaning() = Meaning::End;
    }

    fn meaning(&self) -> MutexGuard<'_, Meaning> {
        self.meaning.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctrl_c_just_after_a_turn_does_not_end_the_program() {
        let (stopper, cancel) = (Stopper::default(), Cancel::default());
        stopper.begin_turn(&cancel);
        // The turn may be over by now, but the user has not been asked for the next prompt yet.
        assert!(!stopper.ends_program());
        assert!(cancel.is_cancelled());
        assert!(stopper.ends_program(), "a second one ends the program");
        stopper.begin_prompt(true);
        assert!(!stopper.ends_program(), "the line editor reads it as a key");
        assert!(!cancel.is_cancelled(), "it does not stop the next turn");
    }

    #[test]
    fn ctrl_c_outside_of_turns_ends_the_program() {
        let stopper = Stopper::default();
        assert!(stopper.ends_program());
        stopper.begin_prompt(false);
        assert!(stopper.ends_program(), "a pipe has no keys");
        stopper.begin_prompt(true);
        stopper.end_prompt();
        assert!(stopper.ends_program());
    }
}
