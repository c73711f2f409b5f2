//! The targets: the figures that takeback should reach.

use super::cases::{CAPTURE, FLOOR, GIT_RESTORE, GIT_VERSION, GIT4, LIBRARY, PROGRAM};
use super::growth::{NEW, OLD_PACKED};
use super::hook::BEFORE;
use super::measure::Times;
use super::report::Report;
use super::rpc::{APPENDS, SEARCH_MISS, TOOL_BEFORE};

pub(crate) struct Target {
    pub(crate) tree: &'static str,
    pub(crate) case: &'static str,
    pub(crate) goal: Goal,
}

pub(crate) enum Goal {
    /// The first contender is this many times faster than the second.
    Faster(&'static str, &'static str, f64),
    /// The first contender takes at most this many times as long as the second.
    Within(&'static str, &'static str, f64),
    /// The figure is at most this value.
    AtMost(f64),
    /// The figure is at least this value.
    AtLeast(f64),
}

const fn target(tree: &'static str, case: &'static str, goal: Goal) -> Target {
    Target { tree, case, goal }
}

pub(crate) const TARGETS: [Target; 24] = [
    target("10000", "first", Goal::Faster(PROGRAM, GIT4, 10.0)),
    target("10000", "first", Goal::Within(LIBRARY, FLOOR, 1.2)),
    target("50000", "first", Goal::Faster(PROGRAM, GIT4, 7.5)),
    target("50000", "first", Goal::Within(LIBRARY, FLOOR, 1.4)),
    target("10000", "unchanged", Goal::Faster(PROGRAM, GIT4, 3.5)),
    target("50000", "unchanged", Goal::Faster(PROGRAM, GIT4, 3.3)),
    target("50000", "unchanged", Goal::Within(CAPTURE, FLOOR, 1.1)),
    target("10000", "1 changed", Goal::Faster(PROGRAM, GIT4, 3.2)),
    target("50000", "1 changed", Goal::Faster(PROGRAM, GIT4, 3.3)),
    target("10000", "100 changed", Goal::Faster(PROGRAM, GIT4, 4.5)),
    target("50000", "100 changed", Goal::Faster(PROGRAM, GIT4, 4.0)),
    target("10000", "restore 100", Goal::Faster(LIBRARY, GIT_RESTORE, 2.5)),
    target("10000", "objects", Goal::AtMost(0.35)),
    target("1000", "growth", Goal::AtMost(1.5)),
    target("50000", "memory, first capture", Goal::AtMost(100.0)),
    target("50000", "memory, unchanged", Goal::AtMost(100.0)),
    target("1000", "one-shot", Goal::Within(PROGRAM, GIT_VERSION, 4.0)),
    target("1000", "hook", Goal::Within(BEFORE, GIT_VERSION, 6.0)),
    target("10000", "hook beyond 2 × lstat", Goal::AtMost(5.0)),
    target("10000", "hook rpc", Goal::Within(TOOL_BEFORE, FLOOR, 1.1)),
    target("10000", APPENDS, Goal::AtLeast(3_000.0)),
    target("10000", SEARCH_MISS, Goal::AtMost(0.5)),
    target("1000", "unchanged, gc", Goal::Within(OLD_PACKED, NEW, 1.1)),
    target("1000", "1 changed, gc", Goal::Within(OLD_PACKED, NEW, 1.1)),
];

impl Target {
    /// Describes the target in words.
    pub(crate) fn wanted(&self) -> String {
        match self.goal {
            Goal::Faster(who, than, by) => format!("{who} {by} × faster than {than}"),
            Goal::Within(who, of, times) => format!("{who} at most {times} × {of}"),
            Goal::AtMost(limit) => format!("at most {limit}"),
            Goal::AtLeast(limit) => format!("at least {limit}"),
        }
    }

    /// Returns the figure that the target is about, and true if the figure reaches the target.
    /// Returns `None` if the figure was not measured. `of` turns the times of a contender's rounds
    /// into one number.
    pub(crate) fn reached(&self, report: &Report, of: fn(&Times) -> f64) -> Option<(f64, bool)> {
        let time = |who| report.times_of(self.tree, self.case, who).map(of);
        Some(match self.goal {
            Goal::Faster(who, than, by) => {
                let reached = time(than)? / time(who)?;
                (reached, reached >= by)
            }
            Goal::Within(who, of, times) => {
                let reached = time(who)? / time(of)?;
                (reached, reached <= times)
            }
            Goal::AtMost(limit) => {
                let reached = report.figure_value(self.tree, self.case)?;
                (reached, reached <= limit)
            }
            Goal::AtLeast(limit) => {
                let reached = report.figure_value(self.tree, self.case)?;
                (reached, reached >= limit)
            }
        })
    }
}
