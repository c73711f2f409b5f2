//! Where logs are.

use std::fs;
use std::path::{Path, PathBuf};

use super::{LogError, LogFormat, Shape, opencode};

/// A log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// The file.
    pub path: PathBuf,
    /// The session in it, where a file has many.
    pub session: Option<String>,
}

/// Deeper than this nobody keeps logs.
const DEPTH: usize = 8;

impl Found {
    /// What its bookmark calls it.
    pub fn name(&self) -> String {
        match &self.session {
            None => self.path.display().to_string(),
            Some(session) => database_log(&self.path, session),
        }
    }

    /// The log that a bookmark is of.
    pub fn named(format: &LogFormat, name: &str) -> Found {
        match (&format.shape, name.rsplit_once('#')) {
            (Shape::Database, Some((path, session))) => {
                Found { path: path.into(), session: Some(session.to_owned()) }
            }
            _ => Found { path: name.into(), session: None },
        }
    }
}

/// The name of the log of one session in a database.
pub(super) fn database_log(path: &Path, session: &str) -> String {
    format!("{}#{session}", path.display())
}

impl LogFormat {
    /// All logs in a directory, or the one that is named. Names are sorted, so that what is in many
    /// parts comes in in their order.
    pub fn find(&self, place: &Path) -> Result<Vec<Found>, LogError> {
        let mut found = Vec::new();
        for path in self.files(place)? {
            match self.shape {
                Shape::Database => {
                    let sessions = opencode::sessions(&path)?.into_iter();
                    found.extend(
                        sessions
                            .map(|session| Found { path: path.clone(), session: Some(session) }),
                    );
                }
                _ => found.push(Found { path, session: None }),
            }
        }
        Ok(found)
    }

    /// The files that they are in. None of them is opened.
    pub fn files(&self, place: &Path) -> Result<Vec<PathBuf>, LogError> {
        let failed = |source| LogError::Io { path: place.to_owned(), source };
        let metadata = fs::metadata(place).map_err(failed)?;
        if !metadata.is_dir() {
            return Ok(vec![place.to_owned()]);
        }
        let mut files = Vec::new();
        self.walk(place, DEPTH, &mut files);
        files.sort();
        Ok(files)
    }

    fn walk(&self, directory: &Path, depth: usize, files: &mut Vec<PathBuf>) {
        // What cannot be listed has no logs for us.
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type());
            match kind {
                Ok(kind) if kind.is_dir() && depth > 0 => self.walk(&path, depth - 1, files),
                Ok(kind) if kind.is_file() && self.is_log(&path) => files.push(path),
                _ => {}
            }
        }
    }

    fn is_log(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_chat = || path.components().any(|component| component.as_os_str() == "chats");
        self.endings.iter().any(|ending| name.ends_with(ending))
            // Beside them are files of other kinds that end alike.
            && (!matches!(self.agent, "gemini" | "qwen") || is_chat())
    }

    /// The logs of one session: the one that its hook named, or what is found in the agent's own
    /// directory, and those of its subagents.
    pub fn of_session(&self, session: &str, named: Option<&Path>, place: &Path) -> Vec<Found> {
        let session = session.split('/').next().unwrap_or(session);
        if let Shape::Database = self.shape {
            let path = place.join(self.endings[0]);
            let session = Some(session.to_owned());
            return if path.is_file() { vec![Found { path, session }] } else { Vec::new() };
        }
        let mut files = Vec::new();
        match named {
            Some(path) => {
                files.push(path.to_owned());
                // Claude keeps those of subagents below, Gemini beside.
                let below = path.with_extension("").join("subagents");
                let beside = path.with_file_name(session);
                self.walk(&below, 1, &mut files);
                self.walk(&beside, 1, &mut files);
            }
            None => {
                self.walk(place, DEPTH, &mut files);
                files.retain(|path| is_of(path, session));
            }
        }
        files.sort();
        files.dedup();
        files.into_iter().map(|path| Found { path, session: None }).collect()
    }
}

/// Whether a log's path has the name of a session in it: a file's, or that of a directory above.
fn is_of(path: &Path, session: &str) -> bool {
    // A short one may be part of any name.
    const LONG: usize = 8;
    let is_it = |name: &str| {
        let stem = name.split('.').next().unwrap_or(name);
        stem == session || (session.len() >= LONG && name.contains(session))
    };
    path.iter().rev().take(3).filter_map(|name| name.to_str()).any(is_it)
}
