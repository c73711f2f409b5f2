//! Copies of whole logs, for agents that may delete a log.
//!
//! Whenever Gemini CLI resumes a session, it leaves behind an empty log with the same id. The next
//! time it starts, it may mistake the empty log for the session, and then delete both. Without a
//! copy of the log, a rollback could no longer be reversed.

use std::io;
use std::path::{Path, PathBuf};

use takeback_base::durable::{self, Durability};
use takeback_base::foreign;
use takeback_undo::Opened;

use super::notes::own_directory;
use crate::logs::{LogRef, PROJECT_ROOT, find_project_root};
use crate::rewind::MAX_LOG;

/// Keeps a copy of a session's whole log, and the path of the session's working directory. Gemini
/// CLI's logs only grow. So if the log does not begin with the content of an earlier copy, that
/// copy was made from a log that has been deleted, and is kept unchanged.
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
    let directory = path.parent().unwrap_or(Path::new("/"));
    durable::create_directory(directory)?;
    if let Some(root) = find_project_root(&log.path) {
        durable::replace_file(&directory.join(PROJECT_ROOT), root.as_bytes(), Durability::Synced)?;
    }
    durable::replace_file(&path, &content, Durability::Synced)
}

/// Finds the copy of the whole log of a session.
pub(super) fn find_original(opened: &Opened, id: &str) -> Option<LogRef> {
    let path = original_path(opened, id);
    path.is_file().then_some(LogRef { path, session: None })
}

fn original_path(opened: &Opened, id: &str) -> PathBuf {
    own_directory(opened).join("originals").join(id).join(format!("{id}.jsonl"))
}
