//! Adding takeback to agents' configurations, and removing it.
//!
//! A plan says what each file will contain. Applying the plan replaces whole files and keeps the
//! originals. Uninstalling restores an original byte for byte, or, if the file has changed since,
//! removes only takeback's entries.

mod apply;
mod codex_review;
#[cfg(test)]
mod edit_tests;
mod hook_entry;
mod json_hooks;
mod json_servers;
mod kept_hooks;
mod package;
mod plan;
mod record;
mod toml_hooks;

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use takeback_base::paths;

pub use self::codex_review::HookReview;
pub use self::package::{PackageFile, build_package};

use takeback_base::foreign;
use takeback_undo::HookFile;

use self::hook_entry::CommandMark;
use self::kept_hooks::keeps_hooks;
use self::record::InstallRecord;
use crate::agent::Agent;
use crate::agent_table::AGENTS;
use crate::wiring::{OffSwitch, Program, Wiring};

/// The directory in takeback's home that holds the install record.
const RECORD_DIRECTORY: &str = "installed";

/// Lists the agents' files that contain takeback's hooks, according to the record in takeback's
/// home.
pub fn find_hook_files(takeback_home: &Path) -> Vec<HookFile> {
    let Ok(record) = InstallRecord::open(&takeback_home.join(RECORD_DIRECTORY)) else {
        return Vec::new();
    };
    let mut files = Vec::new();
    for (path, _) in record.files() {
        let is_own = record::is_own_file(path);
        let named = paths::canonicalize_parent(path);
        // Some users keep a settings file elsewhere, and have only a link to it here.
        let target = paths::canonicalize(path).ok().filter(|target| *target != named);
        let both = [Some(named), target].into_iter().flatten();
        files.extend(both.map(|path| HookFile { path, is_own, keeps_hooks }));
    }
    files
}

/// The environment of an installation: directories, variables, and the program to run.
pub struct Installer<'a> {
    /// Takeback's home directory.
    pub takeback_home: &'a Path,
    /// The user's home directory.
    pub user_home: &'a Path,
    /// The function that reads an environment variable.
    pub env_var: &'a dyn Fn(&str) -> Option<OsString>,
    /// The program and options that run takeback.
    pub program: Program,
}

/// The users for whom takeback is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstallScope {
    /// The current user, in all projects.
    User,
    /// Everyone who works in one project.
    Project(PathBuf),
}

/// The changes to the files of one agent.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct InstallPlan {
    pub agent: &'static Agent,
    pub scope: InstallScope,
    pub changes: Vec<FileChange>,
    /// Files that need a change but are skipped, each with the reason.
    pub skipped: Vec<(PathBuf, String)>,
}

/// A change to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct FileChange {
    pub path: PathBuf,
    /// The current content; `None` if the file does not exist.
    pub before: Option<Vec<u8>>,
    /// The content after the change; `None` if the file is deleted.
    pub after: Option<Vec<u8>>,
    /// The content that uninstalling restores; `None` if uninstalling deletes the file.
    original: Option<Vec<u8>>,
    executable: bool,
}

/// The state of takeback's entries and files in an agent's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WiringState {
    /// Everything matches what this version installs.
    Current,
    /// Everything is current, except where a user's file is in the way.
    Partial,
    /// A part is missing, or was written by another version or copy of takeback.
    Outdated,
    /// Takeback is not installed.
    Absent,
}

/// The reason why a plan could not be made or applied.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum InstallError {
    /// A user's file is not in the format that the agent reads.
    #[error("cannot parse {path}, so it was left unchanged: {reason}")]
    Unreadable { path: PathBuf, reason: String },
    /// Reading or writing a file failed.
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: io::Error },
    /// The install record cannot be read.
    #[error(
        "cannot read {path}: {error}; move this file away, and takeback will remove its entries one \
         by one"
    )]
    Record { path: PathBuf, error: io::Error },
    /// A path in the project resolves to a path outside it, because of a symbolic link.
    #[error("{path} resolves to {real}, outside the project; nothing was changed")]
    Outside { path: PathBuf, real: PathBuf },
    /// Another program wrote to the file after the plan was made.
    #[error("{0} changed while takeback was working on it; run the command again")]
    Changed(PathBuf),
}

/// The reason why the text of a file could not be edited.
#[derive(Debug)]
struct EditError(String);

impl EditError {
    fn new(reason: impl Into<String>) -> EditError {
        EditError(reason.into())
    }
}

impl InstallError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> InstallError {
        move |error| InstallError::Io { path: path.to_owned(), error }
    }

    fn unreadable(path: &Path) -> impl FnOnce(EditError) -> InstallError {
        move |EditError(reason)| InstallError::Unreadable { path: path.to_owned(), reason }
    }
}

impl Installer<'_> {
    /// Returns an agent's configuration directory, or `None` if `install` does not support the
    /// agent.
    pub fn config_directory(&self, agent: &Agent, scope: &InstallScope) -> Option<PathBuf> {
        let wiring = agent.wiring?;
        Some(match scope {
            InstallScope::Project(project) => project.join(wiring.project_directory),
            InstallScope::User => self.user_directory(wiring),
        })
    }

    fn user_directory(&self, wiring: &Wiring) -> PathBuf {
        let from_environment = wiring.env_var.and_then(|(name, below)| {
            let value = (self.env_var)(name).filter(|value| !value.is_empty())?;
            Some(PathBuf::from(value).join(below)).filter(|path| path.is_absolute())
        });
        from_environment.unwrap_or_else(|| self.user_home.join(wiring.user_directory))
    }

    /// True if an agent's program or configuration exists on this machine.
    pub fn is_agent_present(&self, agent: &Agent) -> bool {
        let Some(wiring) = agent.wiring else { return false };
        let path = (self.env_var)("PATH").unwrap_or_default();
        let has_program =
            |name: &&str| std::env::split_paths(&path).any(|at| at.join(name).is_file());
        wiring.programs.iter().any(has_program) || self.user_directory(wiring).is_dir()
    }

    /// Lists all installations in the record.
    pub fn installations(&self) -> Result<Vec<(&'static Agent, InstallScope)>, InstallError> {
        let record = self.open_record()?;
        let mut installations: Vec<(&'static Agent, InstallScope)> = Vec::new();
        for (_, file) in record.files() {
            let Some(agent) = AGENTS.iter().find(|agent| agent.name == file.agent) else {
                continue;
            };
            let scope = file.project.clone().map_or(InstallScope::User, InstallScope::Project);
            let is_listed = installations
                .iter()
                .any(|(other, listed)| other.name == agent.name && *listed == scope);
            if !is_listed {
                installations.push((agent, scope));
            }
        }
        Ok(installations)
    }

    /// Finds the setting that disables all of the agent's hooks. Returns its file and key, or
    /// `None` if hooks are not disabled.
    pub fn find_off_switch(
        &self,
        agent: &Agent,
        scope: &InstallScope,
    ) -> Option<(PathBuf, &'static str)> {
        let OffSwitch { file, pointer, off_value } = agent.wiring?.off_switch?;
        let path = self.config_directory(agent, scope)?.join(file);
        let value = parse_config(&path, &read_text(&path).ok()??);
        let is_off = value.ok()?.pointer(pointer)?.as_bool() == Some(off_value);
        is_off.then(|| (path, pointer.trim_start_matches('/')))
    }

    fn command_mark(&self, agent: &Agent) -> CommandMark<'_> {
        CommandMark { agent: agent.name, program: self.program.name() }
    }

    fn record_directory(&self) -> PathBuf {
        self.takeback_home.join(RECORD_DIRECTORY)
    }

    fn open_record(&self) -> Result<InstallRecord, InstallError> {
        let directory = self.record_directory();
        InstallRecord::open(&directory).map_err(|error| InstallError::Record {
            path: directory.join(record::FILE_NAME),
            error,
        })
    }
}

impl InstallScope {
    /// Fails if the path resolves to a path outside the project, because of a symbolic link.
    fn check_file(&self, path: &Path) -> Result<(), InstallError> {
        let Some(project) = self.project() else { return Ok(()) };
        let real = paths::canonicalize_existing(path);
        match real.starts_with(paths::canonicalize_existing(project)) {
            true => Ok(()),
            false => Err(InstallError::Outside { path: path.to_owned(), real }),
        }
    }

    fn project(&self) -> Option<&Path> {
        match self {
            InstallScope::User => None,
            InstallScope::Project(project) => Some(project),
        }
    }
}

/// Reads a configuration file. Returns `None` if it does not exist.
fn read_text(path: &Path) -> Result<Option<String>, InstallError> {
    match foreign::read_regular(path, foreign::MAX_TEXT) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| InstallError::Unreadable {
            path: path.to_owned(),
            reason: "not UTF-8".into(),
        }),
        Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => Ok(None),
        // Replacing a device would destroy it.
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            let reason = "not a regular file".into();
            Err(InstallError::Unreadable { path: path.to_owned(), reason })
        }
        Err(error) => Err(InstallError::io(path)(error)),
    }
}

/// Parses a configuration file as JSON or TOML, depending on its name.
fn parse_config(path: &Path, text: &str) -> Result<serde_json::Value, InstallError> {
    let value = match is_toml(path) {
        true => toml_hooks::parse_value(text),
        false => json_hooks::parse_value(text),
    };
    value.map_err(InstallError::unreadable(path))
}

fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml")
}
