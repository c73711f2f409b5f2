//! The judgement of single steps, by nothing but plain copies.

use std::collections::BTreeSet;

use super::day::{Day, TurnKey};
use super::files::{Files, PROJECT, blob_id, changed_paths, show_content};
use super::program::{Answer, list_paths};
use crate::Failure;

impl Day<'_> {
    /// Checks that everything that a call destroyed is in the store, or was named as unprotected.
    ///
    /// `captured` are the files when the call was reported, `before` those when it began. An edit of
    /// the user in between can be in no checkpoint.
    pub(super) fn check_protected(
        &self,
        captured: &Files,
        before: &Files,
        answer: &Answer,
    ) -> Result<(), Failure> {
        let after = self.copy();
        let named = list_paths(&answer.json["unprotected"]);
        for path in changed_paths(before, &after) {
            let Some(content) =
                before.get(&path).filter(|content| captured.get(&path) == Some(content))
            else {
                continue;
            };
            let full = self.root.join(&path);
            let is_named = named.iter().any(|named| full.starts_with(named) || named.is_empty());
            if !is_named && !self.is_in_store(content)? {
                return Err(format!(
                    "lost: {path} was destroyed by a call, is not in the store, and was not named as \
                     unprotected\n  it was {}\n  the hook said {}",
                    show_content(Some(content)),
                    answer.text
                ));
            }
        }
        Ok(())
    }

    /// True if git finds a file with this content in the store.
    fn is_in_store(&self, content: &[u8]) -> Result<bool, Failure> {
        let mut git = self.program.command_in_project("git");
        git.arg("--git-dir").arg(self.program.store()).args(["cat-file", "-e"]);
        let status = git.arg(blob_id(content)).status();
        Ok(status.map_err(|error| format!("cannot run git: {error}"))?.success())
    }

    /// Checks that the conversations contain exactly the turns that are in force.
    pub(super) fn check_conversations(&self) -> Result<(), Failure> {
        let sessions: BTreeSet<&str> = self.in_force.iter().map(|(session, _)| *session).collect();
        for session in sessions {
            let found = self.read_prompts(session)?;
            let of_session = |turn: &&TurnKey| turn.0 == session;
            let expected: Vec<String> = self
                .in_force
                .iter()
                .filter(of_session)
                .map(|(_, turn)| format!("prompt {turn}"))
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

    /// Checks that files are exactly as expected.
    pub(super) fn check_files(&self, expected: &Files, what: &str) -> Result<(), Failure> {
        let found = self.copy();
        match changed_paths(expected, &found).first() {
            None => Ok(()),
            Some(path) => Err(format!(
                "{what}: {path} should be {}, but is {}",
                show_content(expected.get(path)),
                show_content(found.get(path))
            )),
        }
    }

    /// Checks that what a command says it did is what it did.
    pub(super) fn check_said(&self, before: &Files, answer: &Answer) -> Result<(), Failure> {
        let after = self.copy();
        let mut said: BTreeSet<String> = BTreeSet::new();
        for key in ["restored", "deleted", "saved", "merged"] {
            let paths = list_paths(&answer.json[key]);
            said.extend(paths.into_iter().map(|path| format!("{PROJECT}/{path}")));
        }
        let changed = changed_paths(before, &after);
        let inside = |path: &&String| path.starts_with(PROJECT);
        if let Some(path) = changed.iter().filter(inside).find(|path| !said.contains(*path)) {
            return Err(format!("{path} was changed, but this was not said: {}", answer.text));
        }
        let is_file = |path: &&String| before.contains_key(*path) || after.contains_key(*path);
        match said.iter().filter(is_file).find(|path| !changed.contains(*path)) {
            None => Ok(()),
            Some(path) => {
                Err(format!("{path} is said to have been changed, but was not: {}", answer.text))
            }
        }
    }

    /// Checks that the store is whole, with git as the referee.
    pub(super) fn check_store(&self) -> Result<(), Failure> {
        if !self.program.store().exists() {
            return Ok(());
        }
        let verified = self.program.run_well(&["checkpoints", "verify"])?;
        if verified["whole"] != true {
            return Err(format!("the store is damaged: {verified}"));
        }
        let mut git = self.program.command_in_project("git");
        git.arg("--git-dir").arg(self.program.store()).args(["fsck", "--strict", "--no-dangling"]);
        let output = git.output().map_err(|error| format!("cannot run git: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("git fsck: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }
}
