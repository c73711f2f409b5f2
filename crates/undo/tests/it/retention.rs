//! Pruning by age while the clock jumps.

use std::cell::Cell;
use std::time::{Duration, SystemTime};

use takeback_undo::retention::{PruneOptions, PruneReport, prune};
use takeback_undo::{Opened, history};

use crate::support::Scratch;

thread_local! {
    /// The number of days that the clock is ahead.
    static AHEAD: Cell<u64> = const { Cell::new(0) };
}

fn jumping_clock() -> SystemTime {
    SystemTime::now() + Duration::from_secs(AHEAD.get() * 86_400)
}

fn count_rows(scratch: &Scratch) -> usize {
    history::list_checkpoints(&scratch.opened, &scratch.project()).unwrap().checkpoints.len()
}

/// Prunes as a process on a later day would.
fn prune_on(scratch: &Scratch, day: u64) -> PruneReport {
    AHEAD.set(day);
    let opened: Opened = Scratch::open_with_clock(scratch.base(), jumping_clock);
    prune(&opened, &PruneOptions::default()).unwrap()
}

#[test]
fn nothing_is_pruned_if_the_clock_jumps_ahead() {
    let scratch = Scratch::new();
    scratch.play_turn("write", "a", "1\n");
    assert_eq!(prune_on(&scratch, 0).clock_jump, None);
    let jumped = prune_on(&scratch, 400);
    assert_eq!((jumped.workspaces.len(), count_rows(&scratch)), (0, 1));
    assert!(!jumped.clock_jump.unwrap().is_back());
    let back = prune_on(&scratch, 1);
    assert_eq!((back.workspaces.len(), count_rows(&scratch)), (0, 1));
    assert!(back.clock_jump.unwrap().is_back(), "the jump is noticed");
    // Seven days on which the clock jumps wildly are still not a month.
    for day in [10, 9_000, 2, 700, 3, 20_000, 4] {
        prune_on(&scratch, day);
    }
    assert_eq!(count_rows(&scratch), 1);
}

#[test]
fn an_unused_workspace_is_pruned_after_enough_days_on_which_takeback_ran() {
    let scratch = Scratch::new();
    scratch.play_turn("write", "a", "1\n");
    for day in 1..30 {
        prune_on(&scratch, day);
        assert_eq!(count_rows(&scratch), 1, "on day {day}");
    }
    prune_on(&scratch, 31);
    prune_on(&scratch, 32);
    assert_eq!(count_rows(&scratch), 0);
}
