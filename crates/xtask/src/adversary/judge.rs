//! Judging single steps, based only on plain copies of files.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::day::{Day, Moment, TurnKey};
use super::files::{
    FileCopy, Files, PROJECT, blob_id, changed_paths, is_history, is_inside, is_within, lines_of,
    show_file,
};
use super::program::{Answer, list_paths};
use crate::Failure;

/// Returns the prompt of a turn.
pub(super) fn name_prompt(turn: usize) -> String {
    format!("prompt {turn}")
}

/// True if a path may have a different state after a rollback than it had at the given moment,
/// because the store does not contain the old state.
fn may_differ(
    path: &str,
    then: &Files,
    now: &Files,
    is_lost: bool,
    is_uncovered: bool,
    replaced: &BTreeSet<Vec<u8>>,
) -> bool {
    // The simulated days take place in the temporary directory. If a call creates a new file there,
    // outside the workspace, its path is not captured, because there was no content to lose. If a
    // later call changes the file, a rollback restores the content from before that later call. A
    // file outside the workspace that could not be protected may differ, too.
    let is_followed = then.contains_key(path) && !is_lost;
    if !is_inside(path) && !is_followed {
        return true;
    }
    // A repository's history is in only one checkpoint: the one before the call that deletes the
    // repository.
    if is_history(path) && is_lost && !now.contains_key(path) {
        return true;
    }
    // If the answer says that the checkpoint does not cover a path, the rollback restores the path
    // as it was when it was first captured. Of the lines that the file had at the given moment,
    // only those that the user has replaced may be missing.
    let lines = |file: Option<&FileCopy>| file.map(|file| lines_of(&file.content));
    let (then, now) = (lines(then.get(path)), lines(now.get(path)).unwrap_or_default());
    let mut then = then.unwrap_or_default().into_iter();
    is_uncovered
        && is_inside(path)
        && then.all(|line| now.contains(&line) || replaced.contains(&line))
}

impl Day<'_> {
    /// Checks that everything that a call destroyed is in the store, unless it was reported as
    /// unprotected or the checkpoint was late.
    ///
    /// `captured` holds the files from the time when the call was reported, and `before` those from
    /// the time when it began. The edits that the user made in between cannot be in any checkpoint.
    pub(super) fn check_protected(
        &mut self,
        captured: &Files,
        before: &Files,
        answer: &Answer,
    ) -> Result<(), Failure> {
        let after = self.copy();
        let named = list_paths(&answer.json["unprotected"]);
        let is_late = answer.json["late"] == true;
        for path in changed_paths(before, &after) {
            let Some(file) = before.get(&path).filter(|file| captured.get(&path) == Some(file))
            else {
                continue;
            };
            let full = self.root.join(&path);
            let is_named = named.iter().any(|named| full.starts_with(named) || named.is_empty());
            if !is_named && !is_late && !self.is_in_store(&file.content)? {
                return Err(format!(
                    "lost: {path} was destroyed by a call, is not in the store, and was not named as \
                     unprotected\n  it was {}\n  the hook said {}",
                    show_file(Some(file)),
                    answer.text
                ));
            }
            if is_named || is_late {
                self.lost.insert(path);
            }
        }
        Ok(())
    }

    /// True if git finds a file with this content in the store.
    pub(super) fn is_in_store(&self, content: &[u8]) -> Result<bool, Failure> {
        let mut git = self.program.command_in_project("git");
        git.arg("--git-dir").arg(self.program.store()).args(["cat-file", "-e"]);
        let status = git.arg(blob_id(content)).status();
        Ok(status.map_err(|error| format!("cannot run git: {error}"))?.success())
    }

    /// True if a path may have a different state after a rollback than it had at the given moment.
    /// `uncovered` lists the paths that, according to the answer, the checkpoint does not cover.
    pub(super) fn may_differ(
        &self,
        path: &str,
        then: &Moment,
        now: &Files,
        uncovered: &BTreeSet<String>,
    ) -> bool {
        let is_uncovered = uncovered.iter().any(|uncovered| is_within(path, uncovered));
        let replaced = self.replaced.get(path).cloned().unwrap_or_default();
        may_differ(path, &then.files, now, self.lost.contains(path), is_uncovered, &replaced)
    }

    /// Checks that the conversations contain exactly the turns that are in force. Ignores turns
    /// without a checkpoint, because no rollback can return to them.
    pub(super) fn check_conversations(&self) -> Result<(), Failure> {
        for session in &self.sessions {
            let mut found = self.read_prompts(session)?;
            let idle = |prompt: &String| {
                !self.worked.iter().any(|(_, turn)| *prompt == name_prompt(*turn))
            };
            found.retain(|prompt| !idle(prompt));
            let of_session = |turn: &&TurnKey| turn.0 == *session;
            let expected: Vec<String> = self
                .in_force
                .iter()
                .filter(of_session)
                .filter(|turn| self.worked.contains(*turn))
                .map(|(_, turn)| name_prompt(*turn))
                .collect();
            if found != expected {
                return Err(format!(
                    "files and conversation disagree: session {session} has {found:?}, but its \
                     files are those after {expected:?}"
                ));
            }
        }
        Ok(())
    }

    pub(super) fn read_prompts(&self, session: &str) -> Result<Vec<String>, Failure> {
        let shown = self.program.run_well(&["sessions", "show", &format!("generic:{session}")])?;
        let messages = shown["messages"].as_array().cloned().unwrap_or_default();
        let current = messages.iter().filter(|message| message["undone"] == false);
        let prompts = current.filter(|message| message["role"] == "user");
        Ok(prompts.filter_map(|message| message["content"].as_str().map(str::to_owned)).collect())
    }

    /// Checks that the files are exactly as expected.
    pub(super) fn check_files(&self, expected: &Files, what: &str) -> Result<(), Failure> {
        let found = self.copy();
        match changed_paths(expected, &found).first() {
            None => Ok(()),
            Some(path) => Err(format!(
                "{what}: {path} should be {}, but is {}",
                show_file(expected.get(path)),
                show_file(found.get(path))
            )),
        }
    }

    /// Checks that a command changed exactly the files that it claims to have changed.
    pub(super) fn check_said(&self, before: &Files, answer: &Answer) -> Result<(), Failure> {
        let after = self.copy();
        let said = self.list_said(&answer.json);
        let changed = changed_paths(before, &after);
        if let Some(path) = changed.iter().find(|path| !said.contains(*path)) {
            return Err(format!(
                "{path} was changed, but the answer does not list it: {}",
                answer.text
            ));
        }
        let is_file = |path: &&String| before.contains_key(*path) || after.contains_key(*path);
        match said.iter().filter(is_file).find(|path| !changed.contains(*path)) {
            None => Ok(()),
            Some(path) => {
                Err(format!("the answer lists {path} as changed, but it was not: {}", answer.text))
            }
        }
    }

    /// Lists all paths that an answer reports as changed, in the workspace and elsewhere.
    fn list_said(&self, answer: &Value) -> BTreeSet<String> {
        self.list_answered(answer, &["restored", "deleted", "saved"])
    }

    /// Lists the paths under the given keys of an answer, in the workspace and elsewhere.
    pub(super) fn list_answered(&self, answer: &Value, keys: &[&str]) -> BTreeSet<String> {
        let root = self.root.join(PROJECT);
        let mut groups = vec![(root.as_path(), answer)];
        for group in answer["elsewhere"].as_array().into_iter().flatten() {
            groups.push((Path::new(group["workspace"].as_str().unwrap_or_default()), group));
        }
        let mut listed = BTreeSet::new();
        for (workspace, group) in groups {
            for path in keys.iter().flat_map(|key| list_paths(&group[*key])) {
                // If the workspace is a single file, the answer gives the file's own name.
                let is_itself = workspace.ends_with(&path) && !workspace.is_dir();
                let path = match is_itself {
                    true => workspace.to_owned(),
                    false => workspace.join(path),
                };
                let below = path.strip_prefix(&self.root).unwrap_or(&path);
                listed.insert(below.to_string_lossy().into_owned());
            }
        }
        listed
    }

    /// Checks that all commands report the same number of checkpoints. Background processes may
    /// still be pruning, so the counts have a few seconds to agree.
    pub(super) fn check_counts(&self) -> Result<(), Failure> {
        let mut counts = (Vec::new(), Vec::new());
        for _ in 0..20 {
            counts = self.count_checkpoints()?;
            let is_one = |counts: &[u64]| counts.iter().all(|count| *count == counts[0]);
            if is_one(&counts.0) && is_one(&counts.1) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(250));
        }
        Err(format!(
            "counts differ: in this workspace, `list` and `status` have {:?}; in all workspaces, \
             `checkpoints status`, `verify` and `doctor` have {:?}",
            counts.0, counts.1
        ))
    }

    fn count_checkpoints(&self) -> Result<(Vec<u64>, Vec<u64>), Failure> {
        let number = |value: &Value| value.as_u64().unwrap_or(u64::MAX);
        let list = self.program.run_well(&["list"])?["checkpoints"].as_array().map_or(0, Vec::len);
        let here = number(&self.program.run_well(&["status"])?["checkpoints"]);
        let store = self.program.run_well(&["checkpoints", "status"])?;
        let workspaces = store["workspaces"].as_array().into_iter().flatten();
        let all = workspaces.map(|workspace| number(&workspace["checkpoints"])).sum();
        let verified = number(&self.program.run_well(&["checkpoints", "verify"])?["rows"]);
        let doctor = self.program.run(&["doctor"])?;
        let doctor = number(&doctor.json["store"]["checkpoints"]);
        Ok((vec![list as u64, here], vec![all, verified, doctor]))
    }

    /// Checks that both takeback and git find the store intact.
    pub(super) fn check_store(&self) -> Result<(), Failure> {
        if !self.program.store().exists() {
            return Ok(());
        }
        let verified = self.program.run_well(&["checkpoints", "verify"])?;
        if verified["whole"] != true {
            return Err(format!("the store is damaged: {verified}"));
        }
        // Git takes no lock, so a background process could replace packs while git is reading them.
        self.program.wait_for_background()?;
        let mut git = self.program.command_in_project("git");
        git.arg("--git-dir").arg(self.program.store());
        git.args(["fsck", "--strict", "--no-dangling"]);
        let output = git.output().map_err(|error| format!("cannot run git: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let said = [output.stdout, output.stderr].concat();
                Err(format!("git fsck: {}", String::from_utf8_lossy(&said)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(path: &str, content: &str) -> Files {
        let copy = FileCopy { content: content.into(), ..FileCopy::default() };
        Files::from([(path.to_owned(), copy)])
    }

    #[test]
    fn only_states_that_the_store_does_not_contain_may_differ() {
        let replaced = BTreeSet::from([b"replaced".to_vec()]);
        let may_differ = |path: &str, then: &Files, now: &Files, is_lost, is_uncovered| {
            may_differ(path, then, now, is_lost, is_uncovered, &replaced)
        };
        let note = "elsewhere/note.txt";
        let (then, now) = (files(note, "user 1"), files(note, "agent t9"));
        assert!(!may_differ(note, &then, &now, false, false));
        assert!(may_differ(note, &then, &now, true, false));
        // The file was missing at the given moment, and was created without being captured.
        assert!(may_differ(note, &Files::new(), &now, false, false));

        let inside = "project/a.txt";
        let (then, now) = (files(inside, "1\n2"), files(inside, "1\n2\n3"));
        assert!(!may_differ(inside, &then, &now, true, false));
        assert!(may_differ(inside, &then, &now, false, true));
        assert!(!may_differ(inside, &now, &then, false, true));
        let then = files(inside, "1\nreplaced\n2");
        assert!(may_differ(inside, &then, &now, false, true));
        assert!(!may_differ(inside, &then, &now, false, false));

        let history = "project/vendor/lib/.git/HEAD";
        let then = files(history, "1");
        assert!(may_differ(history, &then, &Files::new(), true, false));
        assert!(!may_differ(history, &then, &Files::new(), false, false));
        assert!(!may_differ(history, &then, &files(history, "2"), true, false));
    }
}
