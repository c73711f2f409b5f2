//! The deadline for handling a report: agents do not wait forever.

use std::sync::atomic::{AtomicBool, Ordering};

use super::state::Turn;

/// The moment at which an agent stops waiting for its report to be handled. A capture that
/// completes after the deadline is late: the call may have begun before the capture was complete.
#[derive(Debug, Default)]
pub struct Deadline {
    passed: AtomicBool,
    late_turn: Option<Turn>,
    is_announced: bool,
}

impl Deadline {
    /// Creates a deadline that passes when [`Deadline::pass`] is called, if ever.
    pub fn open() -> Deadline {
        Deadline::default()
    }

    /// Creates the deadline for a call that the agent only announces. The agent does not wait, so
    /// the call may already have changed files. In that case, the call is treated as if it had
    /// begun right after the newest checkpoint.
    pub fn announced() -> Deadline {
        Deadline { is_announced: true, ..Deadline::default() }
    }

    /// Creates a deadline that has already passed. `turn` is the turn that
    /// [`current_turn`](super::current_turn) returned when the agent moved on.
    pub fn passed_in(turn: Turn) -> Deadline {
        Deadline { passed: AtomicBool::new(true), late_turn: Some(turn), is_announced: false }
    }

    /// Lets the deadline pass: the agent stops waiting.
    pub fn pass(&self) {
        self.passed.store(true, Ordering::SeqCst);
    }

    /// Returns true once the agent has moved on. A capture that is completed while this still
    /// returns false is not late.
    pub fn has_passed(&self) -> bool {
        self.passed.load(Ordering::SeqCst)
    }

    /// Returns true if the agent only announced the call, and may already have begun it.
    pub(super) fn is_announced(&self) -> bool {
        self.is_announced
    }

    /// Returns the turn that the call was part of, if the agent had moved on before the report was
    /// handled.
    pub(super) fn late_turn(&self) -> Option<&Turn> {
        self.late_turn.as_ref()
    }
}
