//! Applying an installation plan.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use takeback_base::durable::{self, FileLock};
use takeback_base::foreign;
use takeback_base::owners::{adopt_owner, keep_owner};

use super::record::{InstallRecord, InstalledFile, content_digest};
use super::{FileChange, InstallError, InstallPlan, Installer};

impl Installer<'_> {
    /// Applies a plan to install takeback.
    pub fn install(&self, plan: &InstallPlan) -> Result<(), InstallError> {
        let (_lock, mut record) = self.lock_record()?;
        for change in &plan.changes {
            let done = if change.is_removal() {
                restore_file(&mut record, change)
            } else {
                install_file(&mut record, plan, change)
            };
            done.map_err(InstallError::io(&change.path))??;
        }
        let done = record.remove_unused_copies().and_then(|()| self.adopt_record());
        done.map_err(InstallError::io(&self.record_directory()))
    }

    /// Applies a plan to remove takeback.
    pub fn uninstall(&self, plan: &InstallPlan) -> Result<(), InstallError> {
        let (_lock, mut record) = self.lock_record()?;
        for change in &plan.changes {
            restore_file(&mut record, change).map_err(InstallError::io(&change.path))??;
        }
        // Remove files from the record once they contain nothing from takeback. If the whole
        // project is missing, keep its files in the record: its disk may only be unmounted.
        let remaining = self.plan_uninstall(plan.agent, &plan.scope)?;
        let project = plan.scope.project();
        let is_missing = project.is_some_and(|project| !project.exists());
        let known = match is_missing {
            true => Vec::new(),
            false => record.files_of_agent(plan.agent.name, project),
        };
        for path in known.iter().filter(|path| !remaining.has_path(path)) {
            let _ = fs::remove_file(temporary_path(&resolve_link(path).unwrap_or(path.clone())));
            record.forget_file(path).map_err(InstallError::io(path))?;
        }
        let cleaned =
            record.remove_empty_directories().and_then(|()| record.remove_unused_copies());
        let done = cleaned.and_then(|()| self.adopt_record());
        done.map_err(InstallError::io(&self.record_directory()))
    }

    /// Gives takeback's home and the record to the user if root created them. Otherwise the user
    /// could not use takeback.
    fn adopt_record(&self) -> io::Result<()> {
        let directory = self.record_directory();
        adopt_owner(self.takeback_home)?;
        adopt_owner(&directory)?;
        fs::read_dir(&directory)?.try_for_each(|entry| adopt_owner(&entry?.path()))
    }

    fn lock_record(&self) -> Result<(FileLock, InstallRecord), InstallError> {
        let directory = self.record_directory();
        let lock = InstallRecord::lock(&directory).map_err(InstallError::io(&directory))?;
        Ok((lock, self.open_record()?))
    }
}

/// Writes a file. First keeps a copy of the original and records what is about to be written, so
/// that the file can be restored no matter when takeback is killed.
fn install_file(
    record: &mut InstallRecord,
    plan: &InstallPlan,
    change: &FileChange,
) -> io::Result<Result<(), InstallError>> {
    if read_file(&resolve_link(&change.path)?)? != change.before {
        return Ok(Err(InstallError::Changed(change.path.clone())));
    }
    let parent = change.path.parent().unwrap_or(Path::new("/"));
    let known = record.file(&change.path).zip(change.before.as_deref());
    let replaced = known
        .filter(|(file, before)| file.is_as_written(before))
        .map(|(_, before)| content_digest(before));
    let original = change.original.as_deref().map(|bytes| record.keep_copy(bytes)).transpose()?;
    let file = InstalledFile {
        agent: plan.agent.name.to_owned(),
        project: plan.scope.project().map(Path::to_owned),
        original,
        written: record.keep_copy(change.after.as_deref().unwrap_or_default())?,
        replaced,
    };
    record.add_file(&change.path, file, &missing_directories(parent))?;
    create_directories(parent)?;
    replace_file(change)
}

fn create_directories(directory: &Path) -> io::Result<()> {
    let missing = missing_directories(directory);
    fs::create_dir_all(directory)?;
    missing.iter().rev().try_for_each(|created| adopt_owner(created))
}

/// Lists the missing directories in a path, innermost first.
fn missing_directories(directory: &Path) -> Vec<PathBuf> {
    directory.ancestors().take_while(|path| !path.exists()).map(Path::to_owned).collect()
}

/// Restores a file and removes it from the record.
fn restore_file(
    record: &mut InstallRecord,
    change: &FileChange,
) -> io::Result<Result<(), InstallError>> {
    let replaced = replace_file(change)?;
    if replaced.is_ok() {
        record.forget_file(&change.path)?;
    }
    Ok(replaced)
}

/// Follows a symbolic link, so that the file that it points to is replaced, and not the link
/// itself.
fn resolve_link(path: &Path) -> io::Result<PathBuf> {
    Ok(durable::if_exists(fs::canonicalize(path))?.unwrap_or_else(|| path.to_owned()))
}

fn read_file(path: &Path) -> io::Result<Option<Vec<u8>>> {
    durable::if_exists(foreign::read_regular(path, foreign::MAX_TEXT))
}

/// Returns the name under which a new version of a file is prepared. The name is always the same,
/// so that the next run finds what a killed run left behind.
fn temporary_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.takeback"))
}

/// Replaces or deletes a file, unless it has changed since the plan was made.
fn replace_file(change: &FileChange) -> io::Result<Result<(), InstallError>> {
    let path = resolve_link(&change.path)?;
    if read_file(&path)? != change.before {
        return Ok(Err(InstallError::Changed(change.path.clone())));
    }
    let temporary = temporary_path(&path);
    let _ = fs::remove_file(&temporary);
    let Some(after) = &change.after else {
        fs::remove_file(&path)?;
        return Ok(Ok(()));
    };
    let replaced = fs::metadata(&path).ok();
    let written = create_file(&temporary, after, replaced.as_ref(), change.executable)
        .and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.map(Ok)
}

/// Creates a file with the owner, group and mode of the file that it replaces. If it replaces no
/// file, the umask determines the mode.
fn create_file(
    path: &Path,
    bytes: &[u8],
    replaced: Option<&Metadata>,
    executable: bool,
) -> io::Result<()> {
    let initial_mode = match (replaced, executable) {
        // Other users must not be able to read the file before it has its final mode.
        (Some(_), _) => 0o600,
        (None, true) => 0o777,
        (None, false) => 0o666,
    };
    let mut file = File::options().write(true).create_new(true).mode(initial_mode).open(path)?;
    file.write_all(bytes)?;
    match replaced {
        Some(replaced) => {
            keep_owner(&file, replaced)?;
            file.set_permissions(replaced.permissions())?;
        }
        None => adopt_owner(path)?,
    }
    file.sync_all()
}
