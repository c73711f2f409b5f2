//! What a shell command may do, told before it runs.
//!
//! A command counts as changing something unless every program in it is known to only read with
//! just these arguments. One that changes something and is taken for harmless costs people their
//! work; the reverse costs a millisecond. So whatever is unknown or odd changes something.
//!
//! Effects that no checkpoint can take back (a database, a cloud, what was published) are found by
//! program and verb, and told whether or not files change.

mod builtins;
mod effects;
mod git;
mod options;
mod outside;
mod parse;
mod programs;
mod scripts;
mod syntax;
#[cfg(test)]
mod tests;
mod variables;
mod walk;
mod wrappers;

use std::path::{Path, PathBuf};

use serde::Serialize;

/// Where a command runs.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The current directory.
    pub directory: &'a Path,
    /// The directory that checkpoints are made of.
    pub workspace: &'a Path,
    /// The home directory, if it is known.
    pub home: Option<&'a Path>,
}

/// What a command may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Analysis {
    /// Whether it may change files.
    pub mutates: bool,
    /// Why, in a sentence for people.
    pub because: String,
    /// What it does elsewhere than in files.
    pub effects: Vec<Effect>,
    /// What it may change that lies outside of the workspace, as far as it is named.
    #[serde(serialize_with = "lossy")]
    pub outside: Vec<PathBuf>,
}

/// Something that a checkpoint does not take back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// What is affected.
    pub kind: EffectKind,
    /// The command that does it, as it was written.
    pub command: String,
}

/// What is affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    /// Data in a database.
    Database,
    /// Another machine that was sent something.
    Network,
    /// Containers, clusters, infrastructure.
    Cloud,
    /// What others can see: a push, a release, a comment.
    Publish,
    /// References, HEAD or the stash of a repository.
    Repository,
}

impl EffectKind {
    /// As it is written in JSON.
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

/// What a script for bash or zsh may do. Never fails: what cannot be parsed changes something.
pub fn analyse(script: &str, surroundings: &Surroundings<'_>) -> Analysis {
    walk::Walk::new(surroundings).script(script)
}

fn lossy<S: serde::Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}
