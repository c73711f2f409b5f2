//! Finding an agent's logs, and naming them for bookmarks.

use std::fs;
use std::path::{Path, PathBuf};

use super::{LogError, LogFormat, LogShape, opencode};

/// The maximum depth of the directories that are searched for logs.
const MAX_DEPTH: usize = 8;

/// The minimum length at which an id, or a prefix of an id, is unlikely to occur in an unrelated
/// name.
const MIN_UNIQUE_LENGTH: usize = 8;

/// The identity of a log: a file, or one session in a database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct LogRef {
    pub path: PathBuf,
    /// The id of the session, if the file contains several sessions.
    pub session: Option<String>,
}

impl LogRef {
    /// Returns the name by which a bookmark refers to the log.
    pub fn name(&self) -> String {
        match &self.session {
            None => self.path.display().to_string(),
            Some(session) => database_log_name(&self.path, session),
        }
    }

    /// Parses the name by which a bookmark refers to a log.
    pub fn from_name(format: &LogFormat, name: &str) -> LogRef {
        match (&format.shape, name.rsplit_once('#')) {
            (LogShape::Database, Some((path, session))) => {
                LogRef { path: path.into(), session: Some(session.to_owned()) }
            }
            _ => LogRef { path: name.into(), session: None },
        }
    }
}

/// Returns the name of the log for one session in a database.
pub(super) fn database_log_name(path: &Path, session: &str) -> String {
    format!("{}#{session}", path.display())
}

impl LogFormat {
    /// Finds all logs in a directory or in a single file. The logs are sorted by name, so that a
    /// conversation that spans several files is read in order.
    pub fn find_logs(&self, path: &Path) -> Result<Vec<LogRef>, LogError> {
        let mut logs = Vec::new();
        for path in self.find_files(path)? {
            match self.shape {
                LogShape::Database => {
                    let sessions = opencode::list_sessions(&path)?.into_iter();
                    logs.extend(
                        sessions
                            .map(|session| LogRef { path: path.clone(), session: Some(session) }),
                    );
                }
                _ => logs.push(LogRef { path, session: None }),
            }
        }
        Ok(logs)
    }

    /// Finds all log files in a directory, without opening them. If the path is a file, returns it.
    pub fn find_files(&self, path: &Path) -> Result<Vec<PathBuf>, LogError> {
        let failed = |source| LogError::Io { path: path.to_owned(), source };
        let metadata = fs::metadata(path).map_err(failed)?;
        if !metadata.is_dir() {
            return Ok(vec![path.to_owned()]);
        }
        let mut files = Vec::new();
        self.walk_directory(path, MAX_DEPTH, &mut files);
        files.sort();
        Ok(files)
    }

    /// Collects the log files under a directory. Directories that cannot be listed are skipped.
    fn walk_directory(&self, directory: &Path, depth: usize, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type());
            match kind {
                Ok(kind) if kind.is_dir() && depth > 0 => {
                    self.walk_directory(&path, depth - 1, files);
                }
                Ok(kind) if kind.is_file() && self.is_log(&path) => files.push(path),
                _ => {}
            }
        }
    }

    fn is_log(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_chat = || path.components().any(|component| component.as_os_str() == "chats");
        self.endings.iter().any(|ending| name.ends_with(ending))
            // Gemini CLI and Qwen Code keep other files with the same endings outside `chats`.
            && (!matches!(self.agent, "gemini" | "qwen") || is_chat())
    }

    /// Finds the logs of one session and of its subagents. `named` is the log that the hook's
    /// payload names. If it is `None`, searches `directory`. In a database, finds only the session
    /// itself.
    pub fn logs_of_session(
        &self,
        session: &str,
        named: Option<&Path>,
        directory: &Path,
    ) -> Vec<LogRef> {
        let session = session.split('/').next().unwrap_or(session);
        if let LogShape::Database = self.shape {
            let path = directory.join(self.endings[0]);
            let session = Some(session.to_owned());
            return if path.is_file() { vec![LogRef { path, session }] } else { Vec::new() };
        }
        let mut files = Vec::new();
        match named {
            Some(path) => {
                files.push(path.to_owned());
                // Claude Code keeps the logs of subagents in `<log>/subagents`, and Gemini CLI in a
                // directory next to the log, named after the session.
                let below = path.with_extension("").join("subagents");
                let beside = path.with_file_name(session);
                self.walk_directory(&below, 1, &mut files);
                self.walk_directory(&beside, 1, &mut files);
            }
            None => {
                self.walk_directory(directory, MAX_DEPTH, &mut files);
                // Gemini CLI names a log after the beginning of the id.
                let named = match (self.agent, session.get(..MIN_UNIQUE_LENGTH)) {
                    ("gemini", Some(beginning)) => beginning,
                    _ => session,
                };
                files.retain(|path| is_named_after(path, named));
            }
        }
        files.sort();
        files.dedup();
        files.into_iter().map(|path| LogRef { path, session: None }).collect()
    }
}

/// True if the name of a log file, or of one of the two directories above it, contains the session
/// id.
fn is_named_after(path: &Path, session: &str) -> bool {
    let has_id = |name: &str| {
        let stem = name.split('.').next().unwrap_or(name);
        stem == session || (session.len() >= MIN_UNIQUE_LENGTH && name.contains(session))
    };
    path.iter().rev().take(3).filter_map(|name| name.to_str()).any(has_id)
}
