//! Rollbacks that are killed in the middle.

use std::time::Duration;

use super::day::{Day, Moment, TurnKey};
use super::files::{changed_paths, is_inside, is_within, show_file};
use super::way_back::LEFT;
use crate::Failure;

impl Day<'_> {
    /// Kills a rollback in the middle. The next command finishes or reverts it.
    pub(super) fn kill_rollback(&mut self) -> Result<(), Failure> {
        let Some((id, moment)) = self.choose_moment()? else { return Ok(()) };
        self.end_all_turns()?;
        let after = Duration::from_micros(200 * self.random.below(400) as u64);
        self.log.push(format!("rollback {id}, killed after {after:?}"));
        let before = self.copy();
        let planned = self.program.run(&["rollback", &id, "--dry-run"])?;
        self.program.run_and_kill(&["rollback", &id], after)?;
        // The next command that takes the lock, or the next turn, finishes or reverts the rollback.
        let mut next = None;
        match self.random.below(3) {
            0 => drop(self.program.run_well(&["checkpoint", "--reason", "after a kill"])?),
            1 => drop(self.program.run_well(&["list"])?),
            _ => next = Some(("one", self.ensure_turn("one")?)),
        }
        // A process that maintains the workspace in the background may have taken the lock first.
        self.program.wait_for_background()?;
        let now = self.copy();
        let is_untouched = changed_paths(&before, &now).is_empty();
        if !is_untouched {
            let left = changed_paths(&moment.files, &now);
            let named = self.list_answered(&planned.json, &LEFT);
            // Outside the workspace, a path may be unchanged only if the plan does not change it.
            let is_forgotten = |path: &str| {
                let is_followed = moment.files.contains_key(path) && !self.lost.contains(path);
                !is_inside(path)
                    && is_followed
                    && !named.iter().any(|named| is_within(path, named))
                    && !self.may_stay(path, &moment, &now)
            };
            let wrong =
                left.iter().find(|path| now.get(*path) != before.get(*path) || is_forgotten(path));
            if let Some(path) = wrong {
                let content = show_file(now.get(path));
                return Err(format!("a killed rollback left {path} as {content}"));
            }
        }
        self.follow_kill(moment, is_untouched, next)?;
        self.learn_moments(&now, None)
    }

    fn follow_kill(
        &mut self,
        mut moment: Moment,
        is_untouched: bool,
        next: Option<TurnKey>,
    ) -> Result<(), Failure> {
        if is_untouched {
            // Even if the rollback had no files to change, it may have moved the conversation.
            if self.check_conversations().is_ok() {
                return Ok(());
            }
        }
        moment.in_force.extend(next);
        self.follow_rollback(&moment)
    }
}
