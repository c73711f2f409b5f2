//! Taking back changes in a simulated day: rollbacks, undone turns, and their reversals.

use std::collections::BTreeSet;

use super::day::{Day, ListedCheckpoint, Moment, TurnKey};
use super::disk::Mount;
use super::files::{
    FileCopy, Files, below_project, changed_paths, is_history, is_inside, is_within, marked_lines,
    show_file,
};
use super::judge::name_prompt;
use super::program::Answer;
use crate::Failure;

/// The keys under which an answer lists the paths that were left unchanged.
pub(super) const LEFT: [&str; 8] =
    ["uncovered", "kept", "guarded", "blocked", "skipped", "conflicts", "uncertain", "left"];

impl Day<'_> {
    /// Rolls back to a random checkpoint, and often reverses the rollback.
    pub(super) fn roll_back(&mut self) -> Result<(), Failure> {
        let Some((id, moment)) = self.choose_moment()? else { return Ok(()) };
        self.end_all_turns()?;
        self.log.push(format!("rollback {id}"));
        let before = self.copy();
        let known = self.list_checkpoints()?;
        let planned = self.program.run(&["rollback", &id, "--dry-run"])?;
        let answer = match self.random.below(6) {
            0 => self.roll_back_around_an_obstacle(&id, &moment, &before)?,
            _ => self.program.run(&["rollback", &id])?,
        };
        let failed = list_failed_parts(&answer);
        if !answer.succeeded && failed.is_empty() {
            return self.check_untouched(&before, &answer);
        }
        self.check_planned(&known, &planned, &answer)?;
        self.check_returned(&before, &moment, None, &answer)?;
        self.check_said(&before, &answer)?;
        self.free_disk()?;
        let in_force = self.in_force.clone();
        self.follow_rollback(&moment)?;
        if !failed.is_empty() {
            return self.repeat_rollback(&id, &moment);
        }
        // A rollback that changed nothing is not recorded.
        if self.random.below(2) == 0 && answer.json["safety_checkpoint"].is_string() {
            let in_force = std::mem::replace(&mut self.in_force, in_force);
            self.reverse(&before, Some(&in_force))?;
        }
        Ok(())
    }

    /// Checks that a rollback did exactly what its plan had announced. `known` lists the
    /// checkpoints that existed before the plan was made.
    fn check_planned(
        &self,
        known: &[ListedCheckpoint],
        planned: &Answer,
        answer: &Answer,
    ) -> Result<(), Failure> {
        let is_whole = answer.succeeded && answer.json["skipped"].is_null();
        let is_same = |key: &&str| planned.json[key] == answer.json[key];
        let Some(key) = ["restored", "deleted"].into_iter().find(|key| !is_same(key)) else {
            return Ok(());
        };
        // At the end of a turn, checkpoints are pruned in the background. Files that only a pruned
        // checkpoint named are no longer captured, so a later rollback leaves them unchanged and
        // says so.
        let present = self.list_checkpoints()?;
        let is_pruned = known.iter().any(|checkpoint| !present.contains(checkpoint));
        if !planned.succeeded || !is_whole || is_pruned {
            return Ok(());
        }
        let (planned, done) = (&planned.json[key], &answer.json[key]);
        Err(format!("{key} is {planned} in the plan, but {done} in the rollback"))
    }

    /// Repeats a rollback that failed outside the workspace. The disk has space again by now.
    fn repeat_rollback(&mut self, id: &str, moment: &Moment) -> Result<(), Failure> {
        self.log.push(format!("rollback {id} again"));
        let before = self.copy();
        let answer = self.program.run(&["rollback", id])?;
        if !answer.succeeded {
            return Err(format!("rollback {id} fails again: {}", answer.text));
        }
        self.check_returned(&before, moment, None, &answer)?;
        self.check_said(&before, &answer)
    }

    /// Rolls back while a file cannot be replaced. The first attempt fails, and the second skips
    /// the file.
    fn roll_back_around_an_obstacle(
        &mut self,
        id: &str,
        moment: &Moment,
        before: &Files,
    ) -> Result<Answer, Failure> {
        let changed = changed_paths(&moment.files, before).into_iter();
        let mut there = changed.filter(|path| before.get(path).is_some_and(|file| !file.is_link));
        let obstacle = there.find(|path| is_inside(path) && !is_history(path));
        let nailed = obstacle.and_then(|path| {
            self.log.push(format!("{path} cannot be replaced"));
            Mount::nail_down(&self.root.join(path))
        });
        let answer = self.program.run(&["rollback", id])?;
        if nailed.is_none() || answer.succeeded {
            return Ok(answer);
        }
        self.check_untouched(before, &answer)?;
        self.program.run(&["rollback", id, "--skip-blocked"])
    }

    /// Restores one file or directory from a checkpoint. All other files and the conversation must
    /// stay unchanged.
    pub(super) fn roll_back_path(&mut self) -> Result<(), Failure> {
        let Some((id, moment)) = self.choose_moment()? else { return Ok(()) };
        self.end_all_turns()?;
        let before = self.copy();
        let paths = moment.files.keys().chain(before.keys());
        let paths: Vec<&String> =
            paths.filter(|path| is_inside(path) && !is_history(path)).collect();
        let mut path = paths[self.random.below(paths.len())].clone();
        if let Some((directory, _)) = path.rsplit_once('/').filter(|_| self.random.below(3) == 0) {
            path = directory.to_owned();
        }
        let named = Some(below_project(&path)).filter(|path| !path.is_empty()).unwrap_or(".");
        self.log.push(format!("rollback {id} {named:?}"));
        let answer = self.program.run(&["rollback", &id, named])?;
        if !answer.succeeded {
            return self.check_untouched(&before, &answer);
        }
        self.check_returned(&before, &moment, Some(&path), &answer)?;
        self.check_said(&before, &answer)?;
        self.check_conversations()?;
        if self.random.below(2) == 0 && answer.json["safety_checkpoint"].is_string() {
            let in_force = self.in_force.clone();
            self.reverse(&before, Some(&in_force))?;
        }
        Ok(())
    }

    /// Checks that a failed rollback or undo reports an error and has changed nothing.
    fn check_untouched(&self, before: &Files, answer: &Answer) -> Result<(), Failure> {
        if !answer.json["error"].is_object() {
            return Err(format!("failed without an error: {}", answer.text));
        }
        let is_untouched = self.check_files(before, "a failed rollback or undo");
        is_untouched.map_err(|failure| format!("{failure}: {}", answer.text))?;
        if self.is_full {
            return Ok(());
        }
        self.check_conversations()
    }

    /// Chooses a checkpoint that still exists.
    pub(super) fn choose_moment(&mut self) -> Result<Option<(String, Moment)>, Failure> {
        let present = self.list_checkpoints()?;
        let known: Vec<String> = present
            .into_iter()
            .map(|listed| listed.id)
            .filter(|id| self.moments.contains_key(id))
            .collect();
        if known.is_empty() {
            return Ok(None);
        }
        let id = known[self.random.below(known.len())].clone();
        Ok(Some((id.clone(), self.moments[&id].clone())))
    }

    /// Checks that each file is as it was at the given moment, or that it was left unchanged and is
    /// reported as such. If `only` is given, all files outside that path must be unchanged.
    fn check_returned(
        &self,
        before: &Files,
        then: &Moment,
        only: Option<&str>,
        answer: &Answer,
    ) -> Result<(), Failure> {
        let now = self.copy();
        let left = self.list_answered(&answer.json, &LEFT);
        let failed = list_failed_parts(answer);
        if let Some(place) = failed.first().filter(|_| !self.is_full) {
            return Err(format!("{place} was not restored: {}", answer.text));
        }
        for path in changed_paths(&then.files, &now) {
            let is_same = now.get(&path) == before.get(&path);
            let is_named = left.iter().any(|left| is_within(&path, left));
            let is_asked = only.is_none_or(|only| is_within(&path, only));
            if is_same && (is_named || !is_asked || self.may_stay(&path, then, &now)) {
                continue;
            }
            let uncovered = self.list_answered(&answer.json, &["uncovered"]);
            if self.may_differ(&path, then, &now, &uncovered) {
                continue;
            }
            // On a full disk, files outside the workspace may stay unchanged if the answer says so.
            let full = self.root.join(&path);
            let is_said = failed.iter().any(|place| full.starts_with(place));
            let is_elsewhere = !is_inside(&path) || is_history(&path);
            if is_elsewhere && is_same && self.is_full && is_said {
                continue;
            }
            return Err(format!(
                "rollback: {path} should be {}, but is {}, and was {}\n  {}",
                show_file(then.files.get(&path)),
                show_file(now.get(&path)),
                show_file(before.get(&path)),
                answer.text
            ));
        }
        let is_other = |path: &&String| only.is_some_and(|only| !is_within(path, only));
        match changed_paths(before, &now).iter().find(is_other) {
            None => Ok(()),
            Some(path) => {
                Err(format!("{path} was changed, but the rollback was not asked to change it"))
            }
        }
    }

    /// True if a rollback may leave a path unchanged: the path is outside the workspace or in a
    /// repository's history, no turn that is taken back wrote to it, and it is not missing.
    pub(super) fn may_stay(&self, path: &str, then: &Moment, now: &Files) -> bool {
        let is_elsewhere = !is_inside(path) || is_history(path);
        let lines = |file: Option<&FileCopy>| -> BTreeSet<String> {
            file.map(|file| marked_lines(&file.content, "agent")).unwrap_or_default()
        };
        let is_in_force = |line: &String| {
            then.in_force.iter().any(|(_, turn)| line.starts_with(&format!("agent t{turn} ")))
        };
        let is_missing = !now.contains_key(path) && lines(then.files.get(path)).is_empty();
        is_elsewhere && !is_missing && lines(now.get(path)).iter().all(is_in_force)
    }

    /// Reverses the last rollback or undo. Afterwards, the files must be exactly those in `before`.
    /// Sometimes redoes the reversed step, which must restore exactly the files from before the
    /// reversal. `after` holds the turns that are in force after the redo, if they are known.
    fn reverse(
        &mut self,
        before: &Files,
        after: Option<&BTreeSet<TurnKey>>,
    ) -> Result<(), Failure> {
        let in_between = self.copy();
        self.run_reversal("undo", before)?;
        if after.is_some() {
            self.check_conversations()?;
        }
        if self.random.below(2) == 0 {
            self.run_reversal("redo", &in_between)?;
            match after {
                Some(after) => self.in_force = after.clone(),
                None => return self.follow_conversations(),
            }
            self.check_conversations()?;
        }
        Ok(())
    }

    fn run_reversal(&mut self, verb: &str, expected: &Files) -> Result<(), Failure> {
        self.log.push(format!("rollback {verb}"));
        let before = self.copy();
        let answer = self.program.run(&["rollback", verb])?;
        if !list_failed_parts(&answer).is_empty() && self.is_full {
            self.free_disk()?;
            // A rollback to the checkpoint that the answer names restores the rest.
            let id = answer.json["checkpoint"].as_str().unwrap_or_default();
            self.log.push(format!("rollback {id} after a rollback {verb} that partly failed"));
            self.program.run_well(&["rollback", id])?;
            return self.check_files(expected, &format!("rollback {verb} and rollback {id}"));
        }
        if !answer.succeeded && self.is_full {
            self.check_untouched(&before, &answer)?;
            // The reversal is possible as soon as there is space.
            self.free_disk()?;
            return self.run_reversal(verb, expected);
        }
        if !answer.succeeded {
            return Err(format!("rollback {verb} failed: {}", answer.text));
        }
        self.check_files(expected, &format!("rollback {verb}"))
            .map_err(|failure| format!("{failure}\n  {}", answer.text))?;
        self.check_said(&before, &answer)
    }

    /// Undoes the last turn. This must keep every line that the user wrote.
    pub(super) fn undo_turn(&mut self) -> Result<(), Failure> {
        self.end_all_turns()?;
        self.log.push("undo".into());
        let before = self.copy();
        let answer = self.program.run(&["undo"])?;
        let now = self.copy();
        if answer.json["error"].is_object() {
            return self.check_untouched(&before, &answer);
        }
        self.check_users_lines(&before, &now, &answer)?;
        self.check_said(&before, &answer)?;
        self.free_disk()?;
        if self.random.below(2) == 0 && answer.json["safety_checkpoint"].is_string() {
            return self.reverse(&before, None);
        }
        self.follow_conversations()
    }

    /// Checks that every line that the user wrote still exists, even if the undo of a rename has
    /// moved it to another file.
    fn check_users_lines(
        &self,
        before: &Files,
        now: &Files,
        answer: &Answer,
    ) -> Result<(), Failure> {
        let warnings = answer.json["warnings"].as_array().into_iter().flatten();
        let mut warnings = warnings.filter_map(|warning| warning.as_str());
        let is_assumed = warnings.any(|warning| warning.contains("does not report when calls end"));
        let is_mixed_up = |line: &&String| {
            let mark = mark_of(line);
            self.mixed_up.contains(&mark) || (is_assumed && self.edited_meanwhile.contains(&mark))
        };
        let kept = users_lines(now);
        match users_lines(before).difference(&kept).find(|line| !is_mixed_up(line)) {
            None => Ok(()),
            Some(line) => Err(format!("undo lost the user's line {line:?}: {}", answer.text)),
        }
    }

    /// Reads from the ledger which turns are still in force. An undone turn may or may not remain
    /// in its conversation.
    fn follow_conversations(&mut self) -> Result<(), Failure> {
        let mut kept = self.in_force.clone();
        for session in self.sessions.clone() {
            let prompts = self.read_prompts(session)?;
            kept.retain(|(of, turn)| *of != session || prompts.contains(&name_prompt(*turn)));
        }
        self.in_force = kept;
        Ok(())
    }

    /// Records that the turns of an earlier moment are in force again, and checks that the
    /// conversations contain exactly these turns.
    pub(super) fn follow_rollback(&mut self, moment: &Moment) -> Result<(), Failure> {
        self.in_force = moment.in_force.clone();
        for (session, turn) in &moment.begun {
            if !self.read_prompts(session)?.contains(&name_prompt(*turn)) {
                self.in_force.remove(&(*session, *turn));
            }
        }
        self.check_conversations()
    }
}

/// Lists the directories and files outside the workspace that a rollback could not restore.
fn list_failed_parts(answer: &Answer) -> Vec<String> {
    let groups = answer.json["elsewhere"].as_array().into_iter().flatten();
    let failed = groups.filter(|group| group["error"].is_string());
    failed.filter_map(|group| group["workspace"].as_str().map(str::to_owned)).collect()
}

/// Lists the user's lines in all files of the workspace.
pub(super) fn users_lines(files: &Files) -> BTreeSet<String> {
    let inside = files.iter().filter(|(path, _)| is_inside(path));
    inside.flat_map(|(_, file)| marked_lines(&file.content, "user")).collect()
}

/// Returns the mark of the edit that wrote a line.
pub(super) fn mark_of(line: &str) -> String {
    let mut words = line.split(' ');
    [words.next(), words.next()].map(Option::unwrap_or_default).join(" ")
}
