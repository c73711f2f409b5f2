//! Decides, before a shell command runs, whether it may change files.
//!
//! A command counts as changing files unless every program in it is known to be read-only with
//! exactly these arguments. The two possible mistakes differ in cost: mistaking a harmful command
//! for a harmless one loses the user's work, while the opposite mistake costs a millisecond. So
//! everything unknown or unusual counts as changing files.
//!
//! Effects that no checkpoint can undo (in a database, in the cloud, on things that other people
//! see) are recognized by program and verb. They are reported whether or not files change.
//!
//! - `parser` reads a script into the tree of `syntax`, and `analyzer` goes through that tree.
//! - `read_only` knows the programs that only read, and with which arguments. For example,
//!   `read_only/sed.rs` decides that `sed -i` changes files.
//! - `nested_commands` finds the commands that a program runs in turn: `sudo`, `xargs`, `bash -c`.
//! - `effects` recognizes effects.
//! - `targets` finds what a script changes or deletes: it goes through the tree once more, with the
//!   values of variables, and expands words against the file system.

mod analyzer;
mod effects;
mod nested_commands;
mod parser;
mod read_only;
mod syntax;
mod targets;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use serde::Serialize;

/// The directories that matter for a script.
#[derive(Clone, Copy, Debug)]
pub struct ScriptContext<'a> {
    /// The current directory.
    pub directory: &'a Path,
    /// The directory that is captured in checkpoints.
    pub workspace: &'a Path,
    /// The user's home directory, if it is known.
    pub home: Option<&'a Path>,
}

/// The expected consequences of running a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScriptAnalysis {
    /// True if the script may change files.
    pub mutates: bool,
    /// The reason for `mutates`, as a clause for people.
    pub because: String,
    /// The effects on anything but files.
    pub effects: Vec<Effect>,
    /// The paths that the script may change or delete, inside and outside of the workspace:
    /// absolute, and expanded against the file system. Where a word cannot be expanded, the
    /// directory before its first unknown part.
    #[serde(serialize_with = "serialize_lossy")]
    pub paths: Vec<PathBuf>,
    /// The paths among `paths` that are outside of the workspace.
    #[serde(serialize_with = "serialize_lossy")]
    pub outside: Vec<PathBuf>,
    /// The directories in which the script deletes files that git does not track, without naming
    /// them: `git clean`, `make clean`.
    #[serde(serialize_with = "serialize_lossy")]
    pub sweeps: Vec<PathBuf>,
    /// The commands, as written, that certainly delete or overwrite files that cannot be told
    /// before they run.
    pub unknown: Vec<String>,
    /// True if the script is known to change no other files than `paths`.
    pub bounded: bool,
}

/// An effect that a checkpoint cannot undo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// The thing that is affected.
    pub kind: EffectKind,
    /// The command that has the effect, as it was written.
    pub command: String,
}

/// A thing that a command can affect besides files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    /// Data in a database.
    Database,
    /// Another machine that is sent something.
    Network,
    /// Containers, clusters, infrastructure.
    Cloud,
    /// Something that other people can see: a push, a release, a comment.
    Publish,
    /// References, HEAD or the stash of a repository.
    Repository,
}

impl EffectKind {
    /// Returns its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            EffectKind::Database => "database",
            EffectKind::Network => "network",
            EffectKind::Cloud => "cloud",
            EffectKind::Publish => "publish",
            EffectKind::Repository => "repository",
        }
    }
}

/// Analyzes a script for bash or zsh. A script that cannot be parsed may change files.
pub fn analyze_script(script: &str, context: &ScriptContext<'_>) -> ScriptAnalysis {
    analyzer::Analyzer::new(context).analyze(script)
}

fn serialize_lossy<S: serde::Serializer>(
    paths: &[PathBuf],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}
