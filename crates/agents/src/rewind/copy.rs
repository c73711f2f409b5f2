//! Writes the files of a copy.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use takeback_base::durable::{self, Temporary};
use takeback_ledger::LogPage;

use super::opencode::Import;
use super::{Copy, RewindError};
use crate::fault::pass_point;
use crate::logs::LogRef;

/// A copy that has been checked, but not written yet.
#[derive(Debug)]
pub struct PreparedCopy {
    /// The agent's own id for the new session.
    pub session: String,
    /// The log of the new session.
    pub log: LogRef,
    /// The content of the new log, in the form in which the ledger records it.
    pub pages: Vec<LogPage>,
    /// A map from the new id of an entry to its id in the original, if the two differ.
    pub origins: BTreeMap<String, String>,
    /// The files. The log comes last: once it is in place, the copy exists.
    files: Vec<(PathBuf, Vec<u8>)>,
    /// The session to import, if the agent itself has to import it. In that case, there are no
    /// files.
    import: Option<Import>,
}

impl PreparedCopy {
    pub(super) fn of_files(session: String, copy: Copy, pages: Vec<LogPage>) -> PreparedCopy {
        let log = LogRef { path: copy.log.clone(), session: None };
        let mut files = copy.others;
        files.push((copy.log, copy.content));
        PreparedCopy { session, log, pages, origins: copy.origins, files, import: None }
    }

    pub(super) fn of_import(
        session: String,
        log: LogRef,
        origins: BTreeMap<String, String>,
        pages: Vec<LogPage>,
        import: Import,
    ) -> PreparedCopy {
        PreparedCopy { session, log, pages, origins, files: Vec::new(), import: Some(import) }
    }

    /// Returns the paths of the files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// Writes the files under temporary names, and moves them into place. No existing file is
    /// replaced. If this fails, some of the files may have been written.
    pub fn place(&self) -> Result<(), RewindError> {
        for (path, content) in &self.files {
            let directory = path.parent().unwrap_or(Path::new("/"));
            durable::create_directory(directory)?;
            pass_point();
            let mut file = Temporary::create_at(temporary_name(path))?;
            file.write_all(content)?;
            file.sync_all()?;
            pass_point();
            file.persist_new(path)?;
            pass_point();
            durable::sync_directory(directory)?;
        }
        match &self.import {
            Some(import) => import.run(),
            None => Ok(()),
        }
    }
}

/// Returns the name of a file while it is being written. No other file has this name, because the
/// name of a copy is random.
fn temporary_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".takeback-{name}.tmp"))
}

/// Lists the directories that have to be created for a file, the innermost first.
pub(crate) fn missing_directories(path: &Path) -> Vec<PathBuf> {
    let above = path.ancestors().skip(1);
    above.take_while(|directory| !directory.exists()).map(Path::to_owned).collect()
}

/// Removes the temporary files of a copy.
pub(crate) fn remove_temporary_files(files: &[PathBuf]) -> io::Result<()> {
    files.iter().try_for_each(|path| durable::ignore_missing(fs::remove_file(temporary_name(path))))
}

/// Removes the files of a copy. Also removes the directories that were created for these files,
/// except those that now contain other files.
pub(crate) fn remove_copy(files: &[PathBuf], directories: &[PathBuf]) -> io::Result<()> {
    remove_temporary_files(files)?;
    files.iter().rev().try_for_each(|path| durable::ignore_missing(fs::remove_file(path)))?;
    for directory in directories {
        let _ = fs::remove_dir(directory);
    }
    Ok(())
}
