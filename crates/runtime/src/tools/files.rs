//! Reading and replacing single files, and the rule that the model must know what it replaces.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use takeback_base::durable::rename_new;
use takeback_base::owners::{adopt_owner, keep_owner};
use takeback_base::{foreign, hex};
use takeback_undo::ToolWork;

use super::paths::{describe_missing, show_path};
use super::{IntendedWrite, KnownFile, KnownFiles, ToolContext};

/// The maximum size of a file that can be edited, in bytes. The model cannot know the content of a
/// larger file.
pub(super) const MAX_EDITED: u64 = 64 << 20;

/// A file as it was when it was read.
pub(super) struct FileContent {
    pub(super) bytes: Vec<u8>,
    pub(super) digest: String,
    metadata: Metadata,
}

/// Content that is planned for a file, but not written yet.
pub(super) struct PlannedWrite {
    pub(super) path: PathBuf,
    /// The content that is to be replaced; `None` if the file does not exist.
    pub(super) before: Option<FileContent>,
    pub(super) after: Vec<u8>,
}

/// Describes the effect of a call that changes exactly these files. A call without paths fails, so
/// it changes nothing.
pub(super) fn work_on(paths: Vec<PathBuf>) -> ToolWork {
    match paths.is_empty() {
        true => ToolWork::Reads,
        false => ToolWork::Writes { paths },
    }
}

/// Returns the SHA-256 of this content, in hexadecimal.
pub(super) fn digest(content: &[u8]) -> String {
    hex::encode(&Sha256::digest(content))
}

/// Describes a system error as a clause, without the error number.
pub(super) fn describe_error(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Opens a regular file for reading. Never opens anything else, such as a pipe or a device. The
/// error explains to the model what is wrong with the path.
pub(super) fn open_file(path: &Path, directory: &Path) -> Result<File, String> {
    let name = show_path(path, directory);
    let found = fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if fs::symlink_metadata(path).is_ok() => {
            format!("{name} is a link to a file that does not exist")
        }
        io::ErrorKind::NotFound => describe_missing(path, directory),
        io::ErrorKind::NotADirectory => describe_missing(path, directory),
        _ => format!("cannot read {name}: {}", describe_error(&error)),
    })?;
    if !found.is_file() {
        return Err(format!("{name} is {}, not a file", describe_kind(&found)));
    }
    foreign::open_regular(path)
        .map_err(|error| format!("cannot read {name}: {}", describe_error(&error)))
}

fn describe_kind(found: &Metadata) -> &'static str {
    let kind = found.file_type();
    match () {
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    }
}

/// Returns true if there is nothing at a path, not even a link.
pub(super) fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Reads a file that is to be edited. Returns `None` if it does not exist.
pub(super) fn read_content(path: &Path, directory: &Path) -> Result<Option<FileContent>, String> {
    if is_missing(path) {
        return Ok(None);
    }
    let file = open_file(path, directory)?;
    let fail = |error: io::Error| {
        format!("cannot read {}: {}", show_path(path, directory), describe_error(&error))
    };
    let metadata = file.metadata().map_err(fail)?;
    let mut bytes = Vec::new();
    file.take(MAX_EDITED + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > MAX_EDITED {
        return Err(format!(
            "{} is larger than {} MiB: change it with a command",
            show_path(path, directory),
            MAX_EDITED >> 20
        ));
    }
    Ok(Some(FileContent { digest: digest(&bytes), bytes, metadata }))
}

/// Checks that the model knows the current content of a file. Otherwise, the model would overwrite
/// changes that it has never seen.
pub(super) fn check_known(
    path: &Path,
    current: Option<&FileContent>,
    context: &ToolContext<'_>,
) -> Result<(), String> {
    let name = show_path(path, context.directory);
    let known_files: &KnownFiles = context.known_files;
    match (known_files.get(path), current) {
        (None | Some(None), None) => Ok(()),
        (None, Some(_)) => Err(format!(
            "nothing was written: {name} exists and you have not read it; read it first"
        )),
        (Some(Some(_)), None) => Err(format!(
            "nothing was written: {name} was deleted since you last read it; read it again"
        )),
        (Some(known), Some(current)) if known.as_deref() == Some(&current.digest) => Ok(()),
        (Some(_), Some(_)) => Err(format!(
            "nothing was written: {name} changed since you last read it; read it again"
        )),
    }
}

impl PlannedWrite {
    /// Describes the write for the journal.
    pub(super) fn to_intended(&self) -> IntendedWrite {
        IntendedWrite {
            path: self.path.clone(),
            before: self.before.as_ref().map(|before| before.digest.clone()),
            after: Some(digest(&self.after)),
        }
    }

    /// Describes the file as the model knows it after the write.
    pub(super) fn to_known(&self) -> KnownFile {
        KnownFile { path: self.path.clone(), digest: Some(digest(&self.after)) }
    }

    /// Replaces the file, or creates it together with its directories. After an error, nothing has
    /// changed.
    pub(super) fn apply(&self, directory: &Path) -> Result<(), String> {
        let mut created = Vec::new();
        let result = create_parents(&self.path, &mut created).and_then(|()| self.write());
        if result.is_err() {
            // A directory that is not empty is kept.
            created.iter().rev().for_each(|parent| drop(fs::remove_dir(parent)));
        }
        let name = show_path(&self.path, directory);
        match result {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(format!("nothing was written: {name} changed just now; read it again"))
            }
            Err(error) => {
                Err(format!("nothing was written: cannot write {name}: {}", describe_error(&error)))
            }
        }
    }

    /// Writes the content beside the file and renames it into place, so that the file always has
    /// either its old or its new content. Hard links to the old file keep the old content.
    fn write(&self) -> io::Result<()> {
        let replaced = self.before.as_ref().map(|before| &before.metadata);
        let mut staged = StagedFile::create(&self.path, replaced.is_none())?;
        staged.file.write_all(&self.after)?;
        if let Some(replaced) = replaced {
            let is_kept = keep_owner(&staged.file, replaced).is_ok();
            // If the owner changes, the setuid and setgid bits are dropped. With them, the file
            // would run with the new owner's rights.
            let mask = if is_kept { 0o7777 } else { 0o777 };
            staged.file.set_permissions(fs::Permissions::from_mode(replaced.mode() & mask))?;
        } else {
            adopt_owner(&staged.path)?;
        }
        staged.file.sync_data()?;
        match &self.before {
            Some(before) => {
                // The user may have saved the file since it was read.
                let current = foreign::read_regular(&self.path, MAX_EDITED)?;
                if current != before.bytes {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                fs::rename(&staged.path, &self.path)?;
            }
            None => rename_new(&staged.path, &self.path)?,
        }
        staged.is_renamed = true;
        Ok(())
    }
}

/// Creates the missing directories above a file, and adds them to `created`, topmost first.
fn create_parents(path: &Path, created: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut missing: Vec<&Path> =
        path.ancestors().skip(1).take_while(|above| fs::symlink_metadata(above).is_err()).collect();
    missing.reverse();
    for directory in missing {
        match fs::create_dir(directory) {
            // Another call has just created the directory for a file of its own.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => {}
            result => {
                result?;
                created.push(directory.to_owned());
                adopt_owner(directory)?;
            }
        }
    }
    Ok(())
}

/// A new file beside the one that it will replace.
///
/// Its name depends only on the path. If the process is killed, the next write to the path removes
/// the leftover file.
struct StagedFile {
    file: File,
    path: PathBuf,
    is_renamed: bool,
}

impl StagedFile {
    fn create(destination: &Path, is_new: bool) -> io::Result<StagedFile> {
        const ATTEMPTS: usize = 10;
        let id = digest(takeback_base::paths::as_bytes(destination));
        let path = destination.with_file_name(format!(".takeback-{}.tmp", &id[..16]));
        // A new file gets the user's default mode. When a file is replaced, its new content must
        // not be readable by more users than its old content.
        let mode = Mode::from_raw_mode(if is_new { 0o666 } else { 0o600 });
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        for _ in 0..ATTEMPTS {
            match rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode) {
                Ok(file) => {
                    let file = File::from(file);
                    if try_lock(&file)? && is_at(&file, &path) {
                        return Ok(StagedFile { file, path, is_renamed: false });
                    }
                }
                Err(Errno::EXIST) => {
                    let left = File::from(rustix::fs::open(&path, flags, mode)?);
                    // A file that no process has locked was left behind by a killed process.
                    if !try_lock(&left)? {
                        return Err(io::Error::other("another call is writing to it"));
                    }
                    if is_at(&left, &path) {
                        fs::remove_file(&path)?;
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other("other calls are writing to it"))
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if !self.is_renamed {
            // If this fails, the next write to the path removes the file.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Locks a file. Returns false if another process or thread has locked it.
fn try_lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        // Some file systems have no locks. On these, nothing prevents two calls from writing the
        // same file at once.
        Err(Errno::NOSYS | Errno::NOTSUP | Errno::NOLCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Returns true if the open file is still at this path.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |found: Metadata| (found.dev(), found.ino());
    let at_path = fs::symlink_metadata(path).map(identity).ok();
    at_path.is_some() && at_path == file.metadata().map(identity).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_at_the_last_moment_is_not_overwritten() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("file");
        fs::write(&path, "one").unwrap();
        let before = read_content(&path, scratch.path()).unwrap();
        let plan = PlannedWrite { path: path.clone(), before, after: b"two".to_vec() };
        fs::write(&path, "the user's").unwrap();
        let error = plan.apply(scratch.path()).unwrap_err();
        assert_eq!(error, "nothing was written: file changed just now; read it again");
        assert_eq!(fs::read_to_string(&path).unwrap(), "the user's");

        let new = scratch.path().join("directory/new");
        let plan = PlannedWrite { path: new.clone(), before: None, after: b"two".to_vec() };
        fs::create_dir(new.parent().unwrap()).unwrap();
        fs::write(&new, "the user's").unwrap();
        assert!(plan.apply(scratch.path()).unwrap_err().contains("changed just now"));
        assert_eq!(fs::read_to_string(&new).unwrap(), "the user's");
        assert_eq!(fs::read_dir(new.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_no_directories_behind() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("a/b").join("x".repeat(300));
        let plan = PlannedWrite { path, before: None, after: Vec::new() };
        assert!(plan.apply(scratch.path()).is_err());
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}
