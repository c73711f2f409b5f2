//! Carrying a plan out.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::record::{Book, Kept};
use super::{Change, InstallError, Installer, Plan};

impl Installer<'_> {
    /// Does what a plan to wire an agent says.
    pub fn install(&self, plan: &Plan) -> Result<(), InstallError> {
        let (_lock, mut book) = self.locked_book()?;
        for change in &plan.changes {
            check(change).map_err(InstallError::io(&change.path))??;
            write(&mut book, plan, change).map_err(InstallError::io(&change.path))??;
        }
        Ok(())
    }

    /// Does what a plan to remove takeback says.
    pub fn uninstall(&self, plan: &Plan) -> Result<(), InstallError> {
        let (_lock, mut book) = self.locked_book()?;
        for change in &plan.changes {
            replace(change).map_err(InstallError::io(&change.path))??;
            book.forget(&change.path).map_err(InstallError::io(&change.path))?;
        }
        for path in &plan.forgotten {
            book.forget(path).map_err(InstallError::io(path))?;
        }
        book.sweep().map_err(InstallError::io(&self.record_directory()))
    }

    fn locked_book(&self) -> Result<(File, Book), InstallError> {
        let directory = self.record_directory();
        let lock = Book::lock(&directory).map_err(InstallError::io(&directory))?;
        Ok((lock, self.book()?))
    }
}

/// First what was there is kept, then what is about to be there is noted, then it is written:
/// whatever is the last of these that happens, it can be put back.
fn write(book: &mut Book, plan: &Plan, change: &Change) -> io::Result<Result<(), InstallError>> {
    let parent = change.path.parent().unwrap_or(Path::new("/"));
    let original = change.original.as_deref().map(|bytes| book.keep(bytes)).transpose()?;
    let kept = Kept {
        agent: plan.agent.name.to_owned(),
        project: plan.whom.project().map(Path::to_owned),
        original,
        written: book.keep(change.after.as_deref().unwrap_or_default())?,
    };
    book.put(&change.path, kept, &missing(parent))?;
    fs::create_dir_all(parent)?;
    replace(change)
}

/// The directories on a path that are not there.
fn missing(directory: &Path) -> Vec<PathBuf> {
    directory.ancestors().take_while(|path| !path.exists()).map(Path::to_owned).collect()
}

/// Whether a file is still what the plan saw.
fn check(change: &Change) -> io::Result<Result<(), InstallError>> {
    let now = match fs::read(&change.path) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        now => Some(now?),
    };
    let is_same = now == change.before;
    Ok(if is_same { Ok(()) } else { Err(InstallError::Changed(change.path.clone())) })
}

/// Replaces a file as a whole, unless it is not what the plan saw. A link stays, and what it leads
/// to is replaced.
fn replace(change: &Change) -> io::Result<Result<(), InstallError>> {
    if let Err(changed) = check(change)? {
        return Ok(Err(changed));
    }
    let path = match fs::canonicalize(&change.path) {
        Err(error) if error.kind() == ErrorKind::NotFound => change.path.clone(),
        path => path?,
    };
    let Some(after) = &change.after else {
        fs::remove_file(&path)?;
        return Ok(Ok(()));
    };
    // One that is there keeps its mode; a new one gets the user's usual one.
    let mode = fs::metadata(&path).ok().map(|metadata| metadata.permissions());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.takeback.{}", std::process::id()));
    let written = write_new(&temporary, after, mode, change.executable)
        .and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.map(Ok)
}

fn write_new(
    path: &Path,
    bytes: &[u8],
    mode: Option<Permissions>,
    executable: bool,
) -> io::Result<()> {
    let first = match (&mode, executable) {
        // Until it has that of the other file, nobody else reads it.
        (Some(_), _) => 0o600,
        (None, true) => 0o777,
        (None, false) => 0o666,
    };
    let mut file = File::options().write(true).create_new(true).mode(first).open(path)?;
    file.write_all(bytes)?;
    mode.map(|mode| file.set_permissions(mode)).transpose()?;
    file.sync_all()
}
