//! Wiring takeback into agents' configurations, and out of them again.
//!
//! First a plan: which file becomes what. Then it is carried out, file by file, each replaced as a
//! whole; what was there before is kept, and comes back byte for byte when takeback goes, unless
//! somebody changed the file meanwhile: then only what is ours goes.

mod apply;
mod entry;
mod json;
mod package;
mod plan;
mod record;
mod review;
mod toml;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

pub use self::package::{PackageFile, package};
pub use self::review::Review;

use self::entry::Mark;
use self::record::Book;
use crate::spec::{AGENTS, Agent};
use crate::wiring::{Program, Wiring};

/// What wires agents.
pub struct Installer<'a> {
    /// Takeback's own directory.
    pub own: &'a Path,
    /// The user's home directory.
    pub home: &'a Path,
    /// Variables of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// What runs takeback.
    pub program: Program,
}

/// For whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum For {
    /// For the user, wherever they work.
    User,
    /// For everybody who works in a directory.
    Project(PathBuf),
}

/// What is to become of the files of one agent.
#[derive(Debug)]
pub struct Plan {
    /// Whose they are.
    pub agent: &'static Agent,
    /// For whom.
    pub whom: For,
    /// Those that change.
    pub changes: Vec<Change>,
    /// Those that stay as they are, although something should be done about them, and why.
    pub left: Vec<(PathBuf, String)>,
}

/// What is to become of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which file.
    pub path: PathBuf,
    /// What it is; nothing if it is not there.
    pub before: Option<Vec<u8>>,
    /// What it becomes; nothing if it goes.
    pub after: Option<Vec<u8>>,
    /// What comes back when takeback goes; nothing if the file goes then.
    original: Option<Vec<u8>>,
    executable: bool,
}

/// How an agent is wired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wired {
    /// As this version would do it.
    Current,
    /// As far as the user's own files allow it.
    Partly,
    /// Otherwise: in part, or as another version or another program did it.
    Outdated,
    /// Not at all.
    Absent,
}

/// Why a plan could not be made or carried out.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The file is not what the agent would read.
    #[error("{path} cannot be understood, so it is left as it is: {reason}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {error}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// What was written where is not known.
    #[error(
        "{path} cannot be read: {error}; once it is moved away, entries are taken out one by one"
    )]
    Record {
        /// Which file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Somebody else wrote it while the plan was made.
    #[error("{0} was changed by somebody else in this moment: try again")]
    Changed(PathBuf),
}

/// Why a text could not be edited.
#[derive(Debug)]
struct Unreadable(String);

impl InstallError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> InstallError {
        move |error| InstallError::Io { path: path.to_owned(), error }
    }

    fn unreadable(path: &Path) -> impl FnOnce(Unreadable) -> InstallError {
        move |Unreadable(reason)| InstallError::Unreadable { path: path.to_owned(), reason }
    }
}

impl Installer<'_> {
    /// Where an agent's configuration is; `None` if it cannot be wired.
    pub fn directory(&self, agent: &Agent, whom: &For) -> Option<PathBuf> {
        let wiring = agent.wiring?;
        Some(match whom {
            For::Project(project) => project.join(wiring.project),
            For::User => self.user_directory(wiring),
        })
    }

    fn user_directory(&self, wiring: &Wiring) -> PathBuf {
        let named = wiring.variable.and_then(|(variable, below)| {
            let value = (self.variable)(variable).filter(|value| !value.is_empty())?;
            Some(PathBuf::from(value).join(below)).filter(|path| path.is_absolute())
        });
        named.unwrap_or_else(|| self.home.join(wiring.user))
    }

    /// Whether an agent seems to be on this machine: its program, or its configuration.
    pub fn is_found(&self, agent: &Agent) -> bool {
        let Some(wiring) = agent.wiring else { return false };
        let path = (self.variable)("PATH").unwrap_or_default();
        let is_there = |name: &&str| std::env::split_paths(&path).any(|at| at.join(name).is_file());
        wiring.programs.iter().any(is_there) || self.user_directory(wiring).is_dir()
    }

    /// Everything that was ever wired and is not removed yet.
    pub fn installed(&self) -> Result<Vec<(&'static Agent, For)>, InstallError> {
        let book = self.book()?;
        let mut found: Vec<(&'static Agent, For)> = Vec::new();
        for (_, kept) in book.all() {
            let Some(agent) = AGENTS.iter().find(|agent| agent.name == kept.agent) else {
                continue;
            };
            let whom = kept.project.clone().map_or(For::User, For::Project);
            if !found.iter().any(|(other, by)| other.name == agent.name && *by == whom) {
                found.push((agent, whom));
            }
        }
        Ok(found)
    }

    /// Where the agent is told to run no hooks at all, if it is.
    pub fn switched_off(&self, agent: &Agent, whom: &For) -> Option<(PathBuf, &'static str)> {
        let (file, pointer, off) = agent.wiring?.switch?;
        let path = self.directory(agent, whom)?.join(file);
        let text = read_text(&path).ok()??;
        let value = if is_toml(&path) { toml::value(&text) } else { json::value_of(&text) };
        let is_off = value.ok()?.pointer(pointer)?.as_bool() == Some(off);
        is_off.then(|| (path, pointer.trim_start_matches('/')))
    }

    fn mark(&self, agent: &Agent) -> Mark<'_> {
        Mark { agent: agent.name, program: self.program.name() }
    }

    fn record_directory(&self) -> PathBuf {
        self.own.join("installed")
    }

    fn book(&self) -> Result<Book, InstallError> {
        let directory = self.record_directory();
        Book::open(&directory)
            .map_err(|error| InstallError::Record { path: directory.join("record.json"), error })
    }
}

impl For {
    fn project(&self) -> Option<&Path> {
        match self {
            For::User => None,
            For::Project(project) => Some(project),
        }
    }
}

fn read_text(path: &Path) -> Result<Option<String>, InstallError> {
    // Reading a pipe would never end, and replacing a device would be its end.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        let reason = "it is not a regular file".into();
        return Err(InstallError::Unreadable { path: path.to_owned(), reason });
    }
    match fs::read(path) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| InstallError::Unreadable {
            path: path.to_owned(),
            reason: "it is not UTF-8".into(),
        }),
        Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => Ok(None),
        Err(error) => Err(InstallError::io(path)(error)),
    }
}

fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml")
}
