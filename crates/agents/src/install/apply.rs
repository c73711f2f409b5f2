//! Carrying a plan out.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::record::{Book, Kept, digest};
use super::{Change, InstallError, Installer, Plan};

impl Installer<'_> {
    /// Does what a plan to wire an agent says.
    pub fn install(&self, plan: &Plan) -> Result<(), InstallError> {
        let (_lock, mut book) = self.locked_book()?;
        for change in &plan.changes {
            let done = if change.is_removal() {
                take_back(&mut book, change)
            } else {
                write(&mut book, plan, change)
            };
            done.map_err(InstallError::io(&change.path))??;
        }
        book.tidy().map_err(InstallError::io(&self.record_directory()))
    }

    /// Does what a plan to remove takeback says.
    pub fn uninstall(&self, plan: &Plan) -> Result<(), InstallError> {
        let (_lock, mut book) = self.locked_book()?;
        for change in &plan.changes {
            take_back(&mut book, change).map_err(InstallError::io(&change.path))??;
        }
        // What is known of files that have nothing of ours any more, whoever removed it. A project
        // that is not there may only be away.
        let left = self.plan_uninstall(plan.agent, &plan.whom)?;
        let project = plan.whom.project();
        let is_away = project.is_some_and(|project| !project.exists());
        let known = if is_away { Vec::new() } else { book.of(plan.agent.name, project) };
        for path in known.iter().filter(|path| !left.names(path)) {
            let _ = fs::remove_file(temporary(&target(path).unwrap_or(path.clone())));
            book.forget(path).map_err(InstallError::io(path))?;
        }
        let swept = book.sweep().and_then(|()| book.tidy());
        swept.map_err(InstallError::io(&self.record_directory()))
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
    if read(&target(&change.path)?)? != change.before {
        return Ok(Err(InstallError::Changed(change.path.clone())));
    }
    let parent = change.path.parent().unwrap_or(Path::new("/"));
    let known = book.kept(&change.path).zip(change.before.as_deref());
    let replaced =
        known.filter(|(kept, before)| kept.is_as_written(before)).map(|(_, before)| digest(before));
    let original = change.original.as_deref().map(|bytes| book.keep(bytes)).transpose()?;
    let kept = Kept {
        agent: plan.agent.name.to_owned(),
        project: plan.whom.project().map(Path::to_owned),
        original,
        written: book.keep(change.after.as_deref().unwrap_or_default())?,
        replaced,
    };
    book.put(&change.path, kept, &missing(parent))?;
    fs::create_dir_all(parent)?;
    replace(change)
}

/// The directories on a path that are not there.
fn missing(directory: &Path) -> Vec<PathBuf> {
    directory.ancestors().take_while(|path| !path.exists()).map(Path::to_owned).collect()
}

/// Puts a file back and forgets it.
fn take_back(book: &mut Book, change: &Change) -> io::Result<Result<(), InstallError>> {
    let replaced = replace(change)?;
    if replaced.is_ok() {
        book.forget(&change.path)?;
    }
    Ok(replaced)
}

/// A link stays, and what it leads to is replaced.
fn target(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(path.to_owned()),
        target => target,
    }
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        bytes => bytes.map(Some),
    }
}

/// Always the same name, so that what is left of a process that was cut off is found.
fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.takeback"))
}

/// Replaces a file as a whole, unless it is not what the plan saw.
fn replace(change: &Change) -> io::Result<Result<(), InstallError>> {
    let path = target(&change.path)?;
    if read(&path)? != change.before {
        return Ok(Err(InstallError::Changed(change.path.clone())));
    }
    let temporary = temporary(&path);
    let _ = fs::remove_file(&temporary);
    let Some(after) = &change.after else {
        fs::remove_file(&path)?;
        return Ok(Ok(()));
    };
    // One that is there keeps its mode; a new one gets the user's usual one.
    let mode = fs::metadata(&path).ok().map(|metadata| metadata.permissions());
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
