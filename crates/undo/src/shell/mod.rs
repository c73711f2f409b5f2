//! Determines, before a shell command runs, whether it may change files.
//!
//! A command is treated as changing files unless every program in it is known to be read-only with
//! the arguments that it is given. The two possible mistakes differ in cost: if a harmful command
//! is mistaken for a harmless one, the user's work is lost, while the opposite mistake costs a
//! millisecond. So everything unknown or unusual is treated as changing files.
//!
//! Effects that no rollback reverses (on a database, on cloud resources, on things that other
//! people see) are recognized by program and verb. They are reported whether or not files change.
//!
//! - `parser` parses a script into the tree defined in `syntax`, and `analyzer` walks that tree.
//! - `read_only` lists the programs that only read, each with the arguments that keep it read-only.
//!   For example, `read_only/sed.rs` recognizes that `sed -i` changes files.
//! - `nested_commands` finds the commands inside other commands, such as those after `sudo`,
//!   `xargs` and `bash -c`.
//! - `effects` recognizes the commands with effects that no rollback reverses.
//! - `plain_commands` lists the commands of a simple script by program and verb, for users who
//!   allow a command for the rest of a task.
//! - `targets` finds the paths that a script changes or deletes. It walks the tree a second time,
//!   tracks the values of variables, and expands words against the file system.

mod analyzer;
mod effects;
mod nested_commands;
mod parser;
mod plain_commands;
mod read_only;
mod syntax;
mod targets;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use serde::Serialize;

/// The directories that matter for the analysis of a script.
#[derive(Clone, Copy, Debug)]
pub struct ScriptContext<'a> {
    /// The current directory.
    pub directory: &'a Path,
    /// The root of the workspace.
    pub workspace: &'a Path,
    /// The user's home directory, if it is known.
    pub home: Option<&'a Path>,
}

/// The expected consequences of running a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScriptAnalysis {
    /// True if the script may change files.
    pub mutates: bool,
    /// The reason for the value of `mutates`, as a clause to show to the user.
    pub because: String,
    /// The effects on things other than files.
    pub effects: Vec<Effect>,
    /// The paths that the script may change or delete, inside and outside the workspace. They are
    /// absolute, and patterns are expanded against the file system. A word that cannot be expanded
    /// is represented by the directory before its first unknown part.
    #[serde(serialize_with = "serialize_lossy")]
    pub paths: Vec<PathBuf>,
    /// The members of `paths` that are outside the workspace.
    #[serde(serialize_with = "serialize_lossy")]
    pub outside: Vec<PathBuf>,
    /// The members of `paths` that the script may delete or rename, with everything in them.
    #[serde(skip)]
    pub deleted: Vec<PathBuf>,
    /// The directories in which the script may delete or overwrite files without naming them, as
    /// `git clean` and `make clean` do.
    #[serde(serialize_with = "serialize_lossy")]
    pub sweeps: Vec<PathBuf>,
    /// True if the script may also delete the repositories in `sweeps`. `git clean` spares them
    /// unless `-f` is given twice.
    #[serde(skip)]
    pub sweeps_repositories: bool,
    /// The commands, as written, that delete or overwrite files that cannot be determined before
    /// the commands run.
    pub unknown: Vec<String>,
    /// The takeback commands that delete takeback's own history or hooks, or change its settings.
    pub history: Vec<HistoryCommand>,
    /// True if the script is known to change no files other than `paths`.
    pub bounded: bool,
}

/// A takeback command that deletes takeback's own history or hooks, or changes its settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HistoryCommand {
    /// The command as written, shortened.
    pub command: String,
    /// The directory that the command names with `--home`; `None` if it names none, or if the
    /// directory is unknown.
    #[serde(skip)]
    pub home: Option<PathBuf>,
    /// The harm that the command does.
    #[serde(skip)]
    pub harm: HistoryHarm,
}

/// The ways in which a takeback command can end the protection of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryHarm {
    /// The command deletes checkpoints or conversations.
    Deletes,
    /// The command removes hooks.
    RemovesHooks,
    /// The command changes settings, which may switch the protection off.
    ChangesSettings,
}

/// An effect that no rollback reverses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// The kind of thing that is affected.
    pub kind: EffectKind,
    /// The command that has the effect, as written.
    pub command: String,
}

/// A kind of thing, other than files, that a command can affect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    /// Data in a database.
    Database,
    /// Another machine, to which data is sent.
    Network,
    /// Containers, clusters, infrastructure.
    Cloud,
    /// Something that other people can see: a push, a release, a comment.
    Publish,
    /// References, HEAD or the stash of a repository.
    Repository,
}

impl EffectKind {
    /// Returns the name of the kind in JSON.
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

/// A command in a plain list of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainCommand {
    /// The command as written.
    pub text: String,
    /// The program and its verb, such as `git push`. `None` if these words alone do not describe
    /// the command: the program has no verbs, or an option comes first, or the output goes to a
    /// file.
    pub prefix: Option<String>,
    /// True if the command may change files.
    pub mutates: bool,
}

/// Lists the commands of a script that is nothing but a list of commands. Returns `None` if
/// anything in the script could change the meaning of its words, such as an assignment, a function
/// or a substitution. Also returns `None` if a command runs other commands, as `sudo` and `bash -c`
/// do.
///
/// ```
/// use std::path::Path;
///
/// use takeback_undo::shell::{ScriptContext, list_plain_commands};
///
/// let shop = Path::new("/srv/shop");
/// let context = ScriptContext { directory: shop, workspace: shop, home: None };
/// let commands = list_plain_commands("git push origin main; ls", &context).unwrap();
/// assert_eq!(commands[0].prefix.as_deref(), Some("git push"));
/// assert!(!commands[1].mutates);
/// assert_eq!(list_plain_commands("$(cat script)", &context), None);
/// ```
pub fn list_plain_commands(script: &str, context: &ScriptContext<'_>) -> Option<Vec<PlainCommand>> {
    plain_commands::list_commands(script, context)
}

/// Analyzes a script for bash or zsh. A script that cannot be parsed may change files.
///
/// ```
/// use std::path::Path;
///
/// use takeback_undo::shell::{EffectKind, ScriptContext, analyze_script};
///
/// let shop = Path::new("/srv/shop");
/// let context = ScriptContext { directory: shop, workspace: shop, home: None };
/// assert!(!analyze_script("git status && grep -r cart src", &context).mutates);
/// let analysis = analyze_script("rm src/cart.rs && git push", &context);
/// assert!(analysis.mutates);
/// assert_eq!(analysis.paths, [shop.join("src/cart.rs")]);
/// assert_eq!(analysis.effects[0].kind, EffectKind::Publish);
/// ```
pub fn analyze_script(script: &str, context: &ScriptContext<'_>) -> ScriptAnalysis {
    analyzer::Analyzer::new(context).analyze(script)
}

fn serialize_lossy<S: serde::Serializer>(
    paths: &[PathBuf],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}
