//! The deadline of a report: agents do not wait forever.

use std::sync::atomic::{AtomicBool, Ordering};

use super::state::Turn;

/// Tells whether an agent still waits for its report to be handled. A capture that completes after
/// the deadline is late: the call may have begun before it.
#[derive(Debug, Default)]
pub struct Deadline {
    passed: AtomicBool,
    late_turn: Option<Turn>,
}

impl Deadline {
    /// Makes a deadline that passes when [`Deadline::pass`] is called, if it is.
    pub fn open() -> Deadline {
        Deadline::default()
    }

    /// Makes a deadline that passed before the report is handled. `turn` is what
    /// [`current_turn`](super::current_turn) returned when the agent went on.
    pub fn passed_in(turn: Turn) -> Deadline {
        Deadline { passed: AtomicBool::new(true), late_turn: Some(turn) }
    }

    /// Lets the deadline pass: the agent goes on.
    pub fn pass(&self) {
        self.passed.store(true, Ordering::SeqCst);
    }

    /// Returns true once the agent has gone on. A capture that completes before this returns true
    /// is not late: the agent was still waiting.
    pub fn has_passed(&self) -> bool {
        self.passed.load(Ordering::SeqCst)
    }

    /// The turn that the call was part of, if the agent had gone on before.
    pub(super) fn late_turn(&self) -> Option<&Turn> {
        self.late_turn.as_ref()
    }
}
