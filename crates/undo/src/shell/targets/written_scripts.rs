//! Scripts that the script itself writes before it runs them: `echo 'rm x' > s.sh; bash s.sh`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{Finder, Stream};
use crate::shell::syntax::{Redirect, RedirectOperator};

/// The maximum number of different contents that are kept for one file.
const MAX_TEXTS: usize = 8;

/// The files that the script writes, with their contents.
#[derive(Default)]
pub(super) struct WrittenScripts(HashMap<PathBuf, WrittenScript>);

/// A file that the script writes.
struct WrittenScript {
    /// The strings that commands write into the file. Which of them are in the file when it is run
    /// depends on the branches that the script takes.
    texts: Vec<String>,
    /// True if the file cannot contain any other text.
    is_known: bool,
}

impl WrittenScripts {
    /// Records that a command changes a path in an unknown way.
    pub(super) fn doubt(&mut self, path: &Path) {
        for (known, script) in &mut self.0 {
            script.is_known &= !known.starts_with(path);
        }
    }
}

impl Finder<'_> {
    /// Finds the files to which redirections send the output of a command.
    pub(super) fn find_output_files(&mut self, redirects: &[Redirect]) -> Vec<PathBuf> {
        let is_output = |redirect: &&Redirect| {
            redirect.operator == RedirectOperator::Write && redirect.descriptor == 1
        };
        let targets: Vec<_> = redirects.iter().filter(is_output).collect();
        let mut files = Vec::new();
        for redirect in targets {
            for value in self.expand_word(&redirect.target) {
                let paths = value.text().and_then(|file| self.absolute_paths(file));
                for path in paths.unwrap_or_default() {
                    files.push(self.file_system.resolve(&path));
                }
            }
        }
        files
    }

    /// Calls `visit` to visit a command whose output goes to these files, and keeps the output as
    /// the text of the files.
    pub(super) fn keep_written(
        &mut self,
        files: Vec<PathBuf>,
        visit: impl FnOnce(&mut Self) -> Stream,
    ) -> Stream {
        if files.is_empty() {
            return visit(self);
        }
        // The entries are removed while the command is visited, so that the redirection itself does
        // not make the earlier content uncertain.
        let before: Vec<_> =
            files.into_iter().map(|path| (self.written.0.remove(&path), path)).collect();
        let wants_output = std::mem::replace(&mut self.wants_output, true);
        let output = visit(self);
        self.wants_output = wants_output;
        for (known, path) in before {
            let mut script = known.unwrap_or(WrittenScript { texts: Vec::new(), is_known: true });
            match &output.text {
                Some(text) if script.texts.len() < MAX_TEXTS && self.spend(text.len()) => {
                    script.texts.push(text.clone());
                }
                _ => script.is_known = false,
            }
            self.written.0.insert(path, script);
        }
        output
    }

    /// Returns the strings that the script may have written into a file, and true if there can be
    /// no others. Returns `None` if the script does not redirect output to the file.
    pub(super) fn find_written(&self, path: &Path) -> Option<(Vec<String>, bool)> {
        let script = self.written.0.get(path)?;
        Some((script.texts.clone(), script.is_known))
    }
}
