//! Ctrl-C in a conversation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use takeback_runtime::{Answer, Cancel, FrontEnd, Question, TurnEvent};

use super::terminal::keyboard::restore_keyboard;
use crate::failure::Failure;

/// Handles Ctrl-C, depending on what the conversation is doing.
#[derive(Clone, Default)]
pub(super) struct Stopper {
    meaning: Arc<Mutex<Meaning>>,
    /// True if Ctrl-C was pressed and has not been handled yet. The signal handler sets it, so the
    /// value is correct even before the thread that handles Ctrl-C has noticed the signal.
    is_pressed: Arc<AtomicBool>,
}

/// The effect of Ctrl-C.
#[derive(Default)]
enum Meaning {
    /// Ctrl-C ends the program.
    #[default]
    End,
    /// The user has entered a prompt, and the turn is about to begin. The first Ctrl-C stops the
    /// turn as soon as it begins, and a second Ctrl-C ends the program.
    BeginTurn { is_pressed: bool },
    /// The first Ctrl-C stops the turn by triggering the [`Cancel`], and a second Ctrl-C ends the
    /// program.
    StopTurn(Cancel),
    /// The turn is over, and the user is about to be asked for the next prompt. The first Ctrl-C
    /// counts as the answer to that prompt. It also triggers `cancel`, because a goal may be about
    /// to begin another turn. A second Ctrl-C ends the program.
    AnswerPrompt { cancel: Cancel, is_pressed: bool },
    /// Ctrl-C has no effect, because the line editor reads it as a key.
    Key,
}

impl Stopper {
    /// Handles Ctrl-C from now on.
    pub(super) fn listen(&self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::new("cannot handle Ctrl-C").because(&error);
        signal_hook::flag::register(SIGINT, self.is_pressed.clone()).map_err(failed)?;
        let mut signals = Signals::new([SIGINT]).map_err(failed)?;
        let stopper = self.clone();
        let wait = move || {
            for signal in signals.forever() {
                if stopper.take_press() && stopper.ends_program() {
                    restore_keyboard();
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
            }
        };
        std::thread::Builder::new().spawn(wait).map_err(failed)?;
        Ok(())
    }

    /// Returns true if a Ctrl-C has to be handled. Each Ctrl-C is handled only once.
    fn take_press(&self) -> bool {
        self.is_pressed.swap(false, Ordering::SeqCst)
    }

    /// Handles one Ctrl-C. Returns true if the program must end.
    fn ends_program(&self) -> bool {
        match &mut *self.meaning() {
            Meaning::End => true,
            Meaning::BeginTurn { is_pressed } => std::mem::replace(is_pressed, true),
            Meaning::StopTurn(cancel) if cancel.is_cancelled() => true,
            Meaning::StopTurn(cancel) => {
                cancel.cancel();
                false
            }
            Meaning::AnswerPrompt { cancel, is_pressed } => {
                cancel.cancel();
                std::mem::replace(is_pressed, true)
            }
            Meaning::Key => false,
        }
    }

    /// Records that a turn is running, and that `cancel` stops it. If the user has already pressed
    /// Ctrl-C, stops the turn immediately.
    pub(super) fn begin_turn(&self, cancel: &Cancel) {
        let mut meaning = self.meaning();
        if matches!(*meaning, Meaning::BeginTurn { is_pressed: true }) {
            cancel.cancel();
        }
        *meaning = Meaning::StopTurn(cancel.clone());
    }

    /// Records that the running turn is over.
    pub(super) fn end_turn(&self) {
        let mut meaning = self.meaning();
        if let Meaning::StopTurn(cancel) = &*meaning {
            let cancel = cancel.clone();
            *meaning = Meaning::AnswerPrompt { cancel, is_pressed: false };
        }
    }

    /// Records that the user is being asked for a prompt, by a line editor or through a pipe.
    /// Returns true if the user has already pressed Ctrl-C since the last turn. With a pipe, always
    /// returns false: the program at its other end cannot know that the turn is over, so its Ctrl-C
    /// is meant for that turn.
    pub(super) fn begin_prompt(&self, has_editor: bool) -> bool {
        let next = if has_editor { Meaning::Key } else { Meaning::End };
        let mut meaning = self.meaning();
        let is_answer = match std::mem::replace(&mut *meaning, next) {
            Meaning::AnswerPrompt { cancel, is_pressed } => {
                cancel.reset();
                // The thread that handles Ctrl-C may not have noticed the last press yet.
                self.take_press() || is_pressed
            }
            Meaning::StopTurn(cancel) => {
                cancel.reset();
                false
            }
            Meaning::End | Meaning::BeginTurn { .. } | Meaning::Key => {
                has_editor && self.take_press()
            }
        };
        has_editor && is_answer
    }

    /// Records that the user has answered.
    pub(super) fn end_prompt(&self) {
        *self.meaning() = Meaning::End;
    }

    /// Records that a turn is about to begin.
    pub(super) fn expect_turn(&self) {
        *self.meaning() = Meaning::BeginTurn { is_pressed: false };
    }

    fn meaning(&self) -> MutexGuard<'_, Meaning> {
        self.meaning.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A front end that notices the end of a turn before the user can see it. If the user then presses
/// Ctrl-C, the turn is known to be over, so Ctrl-C does not count as an attempt to stop it.
pub(super) struct TurnWatch<'a> {
    pub(super) stopper: Stopper,
    pub(super) front: &'a dyn FrontEnd,
}

impl FrontEnd for TurnWatch<'_> {
    fn show(&self, event: &TurnEvent<'_>) {
        if matches!(event, TurnEvent::TurnEnded { .. }) {
            self.stopper.end_turn();
        }
        self.front.show(event);
    }

    fn approve(&self, question: &Question<'_>) -> Answer {
        self.front.approve(question)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ctrl_c_in_a_turn_stops_it_and_the_second_ends_the_program() {
        let (stopper, cancel) = (Stopper::default(), Cancel::default());
        stopper.begin_turn(&cancel);
        assert!(!stopper.ends_program());
        assert!(cancel.is_cancelled());
        assert!(stopper.ends_program());
    }

    #[test]
    fn ctrl_c_between_a_turn_and_the_next_prompt_answers_the_prompt() {
        let (stopper, cancel) = (Stopper::default(), Cancel::default());
        stopper.begin_turn(&cancel);
        assert!(!stopper.ends_program(), "it stops the turn");
        stopper.end_turn();
        assert!(!stopper.ends_program(), "the turn is over");
        assert!(stopper.begin_prompt(true), "it answers the prompt");
        assert!(!cancel.is_cancelled(), "it does not stop the next turn");
        assert!(!stopper.ends_program(), "the line editor reads it as a key");
        // The answer counts only once.
        assert!(!stopper.begin_prompt(true));
    }

    #[test]
    fn ctrl_c_that_no_thread_has_handled_yet_answers_the_prompt() {
        let (stopper, cancel) = (Stopper::default(), Cancel::default());
        stopper.begin_turn(&cancel);
        stopper.end_turn();
        stopper.is_pressed.store(true, Ordering::SeqCst);
        assert!(stopper.begin_prompt(true));
        assert!(!stopper.take_press(), "it is handled once");
    }

    #[test]
    fn two_ctrl_c_between_a_turn_and_the_next_prompt_end_the_program() {
        let (stopper, cancel) = (Stopper::default(), Cancel::default());
        stopper.begin_turn(&cancel);
        stopper.end_turn();
        assert!(!stopper.ends_program());
        assert!(cancel.is_cancelled(), "a goal does not begin another turn");
        assert!(stopper.ends_program());
    }

    #[test]
    fn ctrl_c_just_after_a_turn_does_not_end_a_program_that_reads_a_pipe() {
        let (stopper, cancel) = (Stopper::default(), Cancel::default());
        stopper.begin_turn(&cancel);
        stopper.end_turn();
        assert!(!stopper.ends_program());
        assert!(!stopper.begin_prompt(false), "it was meant for the turn");
        assert!(!cancel.is_cancelled());
    }

    #[test]
    fn ctrl_c_just_after_a_prompt_stops_its_turn() {
        let (stopper, cancel) = (Stopper::default(), Cancel::default());
        stopper.begin_prompt(true);
        stopper.end_prompt();
        stopper.expect_turn();
        assert!(!stopper.ends_program());
        stopper.begin_turn(&cancel);
        assert!(cancel.is_cancelled());
        assert!(stopper.ends_program(), "a second one ends the program");
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
