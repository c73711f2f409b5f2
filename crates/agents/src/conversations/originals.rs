//! Copies of whole logs, for agents that may delete a log.
//!
//! Whenever Gemini CLI resumes a session, it leaves an empty log with the same id. The next time it
//! starts, it may take that one for the session, and then deletes both. Without a copy, nothing
//! would be left to go forward to after a rollback.

use std::io;
use std::path::{Path, PathBuf};

use takeback_base::durable::{self, Durability};
use takeback_base::foreign;
use takeback_undo::Opened;

use super::notes::own_directory;
use crate::logs::LogRef;
use crate::rewind::MAX_LOG;

/// Keeps a copy of the whole log of a session. Such logs only grow, so a copy that the log no longer
/// begins with comes from a log that was deleted, and is kept as it is.
pub(super) fn keep_original(opened: &Opened, id: &str, log: &LogRef) -> io::Result<()> {
    let path = original_path(opened, id);
    if log.path == path {
        return Ok(());
    }
    let content = foreign::read_regular(&log.path, MAX_LOG)?;
    let kept = durable::if_exists(foreign::read_regular(&path, MAX_LOG))?.unwrap_or_default();
    if kept == content || !content.starts_with(&kept) {
        return Ok(());
    }
    durable::create_directory(path.parent().unwrap_or(Path::new("/")))?;
    durable::replace_file(&path, &content, Durability::Synced)
}

/// Finds the copy of the whole log of a session.
pub(super) fn find_original(opened: &Opened, id: &str) -> Option<LogRef> {
    let path = original_path(opened, id);
    path.is_file().then_some(LogRef { path, session: None })
}

fn original_path(opened: &Opened, id: &str) -> PathBuf {
    own_directory(opened).join("originals").join(format!("{id}.jsonl"))
}
