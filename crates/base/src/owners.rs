//! Owners of files that takeback writes for a user, possibly as root.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, fchown, lchown};
use std::path::Path;

/// Gives a file the owner and group of the file that it replaces.
pub fn keep_owner(file: &File, replaced: &Metadata) -> io::Result<()> {
    let found = file.metadata()?;
    if (found.uid(), found.gid()) == (replaced.uid(), replaced.gid()) {
        return Ok(());
    }
    fchown(file, Some(replaced.uid()), Some(replaced.gid()))
}

/// If this process runs as root, gives a new file or directory to the owner of its parent
/// directory. A user can then use the files that root creates in the user's home directory.
pub fn adopt_owner(path: &Path) -> io::Result<()> {
    let Some(directory) = path.parent() else { return Ok(()) };
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let (above, found) = (fs::metadata(directory)?, fs::symlink_metadata(path)?);
    if found.uid() == 0 && above.uid() != 0 {
        lchown(path, Some(above.uid()), Some(above.gid()))?;
    }
    Ok(())
}
