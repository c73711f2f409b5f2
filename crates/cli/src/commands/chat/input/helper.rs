//! Completion of slash commands and paths, and the color of the prompt.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use takeback_base::text::is_armed;

use crate::output::{Style, paint};
use crate::slash::SlashNames;

/// The maximum number of paths that are offered as completions.
const MAX_PATHS: usize = 200;

pub(super) struct InputHelper {
    /// The directory that paths are relative to.
    directory: PathBuf,
    commands: SlashNames,
}

impl InputHelper {
    pub(super) fn new(directory: &Path, commands: SlashNames) -> InputHelper {
        InputHelper { directory: directory.to_owned(), commands }
    }

    /// Sets the directory whose paths are completed.
    pub(super) fn set_directory(&mut self, directory: &Path) {
        directory.clone_into(&mut self.directory);
    }

    /// Returns the start of the word to replace, and the possible replacements.
    pub(super) fn find_completions(&self, before: &str) -> (usize, Vec<Pair>) {
        if let Some(begun) = before.strip_prefix('/').filter(|begun| !begun.contains(' ')) {
            return (0, self.find_commands(begun));
        }
        let start = before.rfind([' ', '\n']).map_or(0, |at| at + 1);
        match before[start..].strip_prefix('@') {
            Some(begun) => (start, self.find_paths(begun)),
            None => (before.len(), Vec::new()),
        }
    }

    fn find_commands(&self, begun: &str) -> Vec<Pair> {
        let found = self.commands.iter().filter(|(name, _)| name.starts_with(begun));
        let pair = |(name, about): &(&str, &str)| Pair {
            display: format!("/{name}  {about}"),
            replacement: format!("/{name} "),
        };
        found.map(pair).collect()
    }

    fn find_paths(&self, begun: &str) -> Vec<Pair> {
        let (parent, name) = begun
            .rsplit_once('/')
            .map_or(("", begun), |(parent, name)| (&begun[..=parent.len()], name));
        let entries = fs::read_dir(self.directory.join(parent));
        let mut names: Vec<String> = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let found = entry.file_name().into_string().ok()?;
                // Hidden files are offered only if the typed name begins with a dot.
                let is_wanted = found.starts_with(name)
                    && (!found.starts_with('.') || name.starts_with('.'))
                    && !found.contains(|letter: char| letter.is_whitespace() || is_armed(letter));
                let is_directory = is_wanted && entry.path().is_dir();
                is_wanted.then(|| format!("{found}{}", if is_directory { "/" } else { "" }))
            })
            .collect();
        names.sort_unstable();
        names.truncate(MAX_PATHS);
        let pair = |name: String| Pair { replacement: format!("@{parent}{name}"), display: name };
        names.into_iter().map(pair).collect()
    }
}

impl Helper for InputHelper {}

impl Completer for InputHelper {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        Ok(self.find_completions(&line[..position]))
    }
}

impl Highlighter for InputHelper {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        paint(Style::Label, prompt).into()
    }
}

impl Hinter for InputHelper {
    type Hint = String;
}

impl Validator for InputHelper {}
