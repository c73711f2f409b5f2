//! Carrying a plan out.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::record::{Book, Kept};
use super::{Change, InstallError, Installer, Plan};

impl Installer<'_> {
    /// Does what a plan to wire an agent says.
    pub fn install(&self, plan: &Plan) -> Result<(), InstallError> {
        let (_lock, mut book) = self.locked_book()?;
        for change in &plan.changes {
            self.write(&mut book, plan, change).map_err(InstallError::io(&change.path))??;
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
        book.sweep().map_err(InstallError::io(&self.record_directory()))
    }

    fn locked_book(&self) -> Result<(File, Book), InstallError> {
        let directory = self.record_directory();
        let lock = Book::lock(&directory).map_err(InstallError::io(&directory))?;
        Ok((lock, self.book()?))
    }

    /// First what was there is kept, then what is about to be there is noted, then it is written:
    /// whatever is the last of these that happens, it can be put back.
    fn write(
        &self,
        book: &mut Book,
        plan: &Plan,
        change: &Change,
    ) -> io::Result<Result<(), InstallError>> {
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
}

/// The directories on a path that are not there.
fn missing(directory: &Path) -> Vec<PathBuf> {
    directory.ancestors().take_while(|path| !path.exists()).map(Path::to_owned).collect()
}

/// Replaces a file as a whole, unless it is not what the plan saw. A link stays, and what it leads
/// to is replaced.
fn replace(change: &Change) -> io::Result<Result<(), InstallError>> {
    let path = match fs::canonicalize(&change.path) {
        Err(error) if error.kind() == ErrorKind::NotFound => change.path.clone(),
        path => path?,
    };
    let now = match fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        now => Some(now?),
    };
    if now != change.before {
        return Ok(Err(InstallError::Changed(change.path.clone())));
    }
    let Some(after) = &change.after else {
        fs::remove_file(&path)?;
        return Ok(Ok(()));
    };
    let mode = match fs::metadata(&path) {
        Ok(metadata) => metadata.permissions(),
        Err(_) if change.executable => Permissions::from_mode(0o755),
        Err(_) => Permissions::from_mode(0o644),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.takeback.{}", std::process::id()));
    let written = write(&temporary, after, mode).and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.map(Ok)
}

fn write(path: &Path, bytes: &[u8], mode: Permissions) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.set_permissions(mode)?;
    file.sync_all()
}
