//! The ways back of a day: rollbacks, undone turns, their reversals, and kills in the middle.

use std::time::Duration;

use super::day::{Day, Moment, is_inside};
use super::files::{Files, PROJECT, changed_paths, marked_lines, show_content};
use super::program::{Answer, list_paths};
use crate::Failure;

/// The keys of an answer that name paths which were left as they are.
const LEFT: [&str; 6] = ["uncovered", "kept", "guarded", "blocked", "conflicts", "uncertain"];

impl Day<'_> {
    /// Returns to a random checkpoint, and often back again.
    pub(super) fn roll_back(&mut self) -> Result<(), Failure> {
        let Some((id, moment)) = self.choose_moment()? else { return Ok(()) };
        self.end_all_turns()?;
        self.log.push(format!("rollback {id}"));
        let before = self.copy();
        let planned = self.program.run(&["rollback", &id, "--dry-run"])?;
        let answer = self.program.run(&["rollback", &id])?;
        if !answer.succeeded {
            let is_untouched = self.check_files(&before, "a rollback that failed");
            return is_untouched.map_err(|failure| format!("{failure}: {}", answer.text));
        }
        for key in ["restored", "deleted"] {
            if planned.json[key] != answer.json[key] {
                let (planned, done) = (&planned.json[key], &answer.json[key]);
                return Err(format!("planned to have {key} {planned}, but did {done}"));
            }
        }
        self.check_returned(&before, &moment, &answer)?;
        self.check_said(&before, &answer)?;
        let in_force = self.in_force.clone();
        self.follow_rollback(&moment)?;
        // A rollback that changed nothing is not recorded.
        if self.random.below(2) == 0 && answer.json["safety_checkpoint"].is_string() {
            self.reverse(&before)?;
            self.in_force = in_force;
            self.check_conversations()?;
        }
        Ok(())
    }

    /// Chooses a checkpoint that is still there.
    fn choose_moment(&mut self) -> Result<Option<(String, Moment)>, Failure> {
        let present = self.list_checkpoints()?;
        let known: Vec<String> = present
            .into_iter()
            .map(|(id, _)| id)
            .filter(|id| self.moments.contains_key(id))
            .collect();
        if known.is_empty() {
            return Ok(None);
        }
        let id = known[self.random.below(known.len())].clone();
        Ok(Some((id.clone(), self.moments[&id].clone())))
    }

    /// Checks that each file is as it was then, or is named as left and was left.
    fn check_returned(
        &self,
        before: &Files,
        then: &Moment,
        answer: &Answer,
    ) -> Result<(), Failure> {
        let now = self.copy();
        let left: Vec<String> =
            LEFT.iter().flat_map(|key| list_paths(&answer.json[*key])).collect();
        for path in changed_paths(&then.files, &now) {
            let is_same = now.get(&path) == before.get(&path);
            let below = path.strip_prefix(PROJECT).unwrap_or(&path).trim_start_matches('/');
            let is_named = left.iter().any(|left| is_within(below, left));
            if is_same && (is_named || !is_inside(&path)) {
                continue;
            }
            // The days are lived below the temporary directory. A file that a call makes there,
            // outside the workspace, is not followed: it has nothing to lose.
            if !is_inside(&path) && !then.files.contains_key(&path) {
                continue;
            }
            return Err(format!(
                "rollback: {path} should be {}, but is {}, and was {}\n  {}",
                show_content(then.files.get(&path)),
                show_content(now.get(&path)),
                show_content(before.get(&path)),
                answer.text
            ));
        }
        Ok(())
    }

    /// Reverses the last way back, which must lead exactly to the files before it.
    fn reverse(&mut self, before: &Files) -> Result<(), Failure> {
        self.log.push("rollback undo".into());
        let answer = self.program.run(&["rollback", "undo"])?;
        if !answer.succeeded {
            return Err(format!("rollback undo failed: {}", answer.text));
        }
        self.check_files(before, "rollback undo")
            .map_err(|failure| format!("{failure}\n  {}", answer.text))
    }

    /// Undoes the last turn, which keeps every line of the user's.
    pub(super) fn undo_turn(&mut self) -> Result<(), Failure> {
        self.end_all_turns()?;
        self.log.push("undo".into());
        let before = self.copy();
        let answer = self.program.run(&["undo"])?;
        let now = self.copy();
        if answer.json["error"].is_object() {
            return self.check_files(&before, "an undo that failed");
        }
        for (path, content) in before.iter().filter(|(path, _)| is_inside(path)) {
            let kept = now.get(path).cloned().unwrap_or_default();
            let kept = marked_lines(&kept, "user");
            let is_mixed_up = |line: &&String| {
                let mut words = line.split(' ');
                let mark = [words.next(), words.next()].map(Option::unwrap_or_default).join(" ");
                self.mixed_up.contains(&mark)
            };
            let lines = marked_lines(content, "user");
            if let Some(line) = lines.difference(&kept).find(|line| !is_mixed_up(line)) {
                return Err(format!(
                    "undo lost the user's line {line:?} of {path}: {}",
                    answer.text
                ));
            }
        }
        self.check_said(&before, &answer)?;
        if self.random.below(2) == 0 && answer.json["safety_checkpoint"].is_string() {
            return self.reverse(&before);
        }
        self.follow_conversations()
    }

    /// Takes over from the ledger which turns are in force. An undone turn may leave its
    /// conversation, if the conversation went on.
    fn follow_conversations(&mut self) -> Result<(), Failure> {
        let mut kept = self.in_force.clone();
        for session in ["one", "two"] {
            if !self.in_force.iter().any(|(of, _)| *of == session) {
                continue;
            }
            let prompts = self.read_prompts(session)?;
            kept.retain(|(of, turn)| *of != session || prompts.contains(&format!("prompt {turn}")));
        }
        self.in_force = kept;
        Ok(())
    }

    /// Kills a rollback in the middle. The next command finishes or reverts it.
    pub(super) fn kill_rollback(&mut self) -> Result<(), Failure> {
        let Some((id, moment)) = self.choose_moment()? else { return Ok(()) };
        self.end_all_turns()?;
        let after = Duration::from_micros(200 * self.random.below(400) as u64);
        self.log.push(format!("rollback {id}, killed after {after:?}"));
        let before = self.copy();
        self.program.run_and_kill(&["rollback", &id], after)?;
        // Whatever the kill left is settled by the next command that takes the lock.
        self.program.run_well(&["checkpoint", "--reason", "after a kill"])?;
        let now = self.copy();
        let is_untouched = changed_paths(&before, &now).is_empty();
        if !is_untouched {
            let left = changed_paths(&moment.files, &now);
            let wrong = left.iter().find(|path| now.get(*path) != before.get(*path));
            if let Some(path) = wrong {
                let content = show_content(now.get(path));
                return Err(format!("a killed rollback left {path} as {content}"));
            }
        }
        self.follow_kill(&moment, is_untouched)?;
        self.learn_moments(&now, None)
    }

    fn follow_kill(&mut self, moment: &Moment, is_untouched: bool) -> Result<(), Failure> {
        if is_untouched {
            // If the files were the same anyway, the conversation may have gone back.
            if self.check_conversations().is_ok() {
                return Ok(());
            }
        }
        self.follow_rollback(moment)
    }

    /// Checks that the conversations returned to a moment, too.
    fn follow_rollback(&mut self, moment: &Moment) -> Result<(), Failure> {
        self.in_force = moment.in_force.clone();
        for (session, turn) in &moment.begun {
            if !self.read_prompts(session)?.contains(&format!("prompt {turn}")) {
                self.in_force.remove(&(*session, *turn));
            }
        }
        self.check_conversations()
    }
}

/// True if a path is another one, or below it.
fn is_within(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
