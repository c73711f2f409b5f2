//! Rollbacks that are killed in the middle.

use std::time::Duration;

use super::day::{Day, Moment, TurnKey};
use super::files::{Files, changed_paths, is_inside, is_within, show_file};
use super::program::Answer;
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
            self.check_finished(&before, &moment, &now, &planned)?;
        }
        self.follow_kill(moment, is_untouched, next)?;
        self.learn_moments(&now, None)
    }

    /// Checks that a killed rollback was finished: each path is as it was at the given moment, or
    /// it differs for a reason that would also apply if the rollback had not been killed.
    fn check_finished(
        &self,
        before: &Files,
        then: &Moment,
        now: &Files,
        planned: &Answer,
    ) -> Result<(), Failure> {
        let named = self.list_answered(&planned.json, &LEFT);
        let changed = self.list_answered(&planned.json, &["restored", "deleted", "saved"]);
        let uncovered = self.list_answered(&planned.json, &["uncovered"]);
        for path in &changed_paths(&then.files, now) {
            let is_right = if now.get(path) == before.get(path) {
                // Outside the workspace, a path may be unchanged only if the plan does not change
                // it.
                is_inside(path)
                    || !then.files.contains_key(path)
                    || self.lost.contains(path)
                    || named.iter().any(|named| is_within(path, named))
                    || self.may_stay(path, then, now)
            } else {
                // The content that the rollback replaced is in its safety checkpoint.
                let is_kept = match before.get(path) {
                    Some(file) => self.is_in_store(&file.content)?,
                    None => true,
                };
                changed.contains(path) && is_kept && self.may_differ(path, then, now, &uncovered)
            };
            if !is_right {
                return Err(format!(
                    "a killed rollback left {path} as {}; it was {}, and should be {}\n  the plan was \
                     {}",
                    show_file(now.get(path)),
                    show_file(before.get(path)),
                    show_file(then.files.get(path)),
                    planned.text
                ));
            }
        }
        Ok(())
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
