//! A directory in memory for temporary files. The tests sync thousands of files, and waiting for a
//! disk would take most of their time.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{StatVfsMountFlags, statvfs};

/// The usual file system in memory.
const MEMORY: &str = "/dev/shm";

/// The maximum space that the tests may need, in bytes.
const NEEDED: u64 = 4 << 30;

/// A directory for temporary files. It is removed at the end.
pub(crate) struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    /// Creates a directory in memory, or on disk if there is not enough memory or if programs cannot
    /// be run from there. Its name is short, because takeback shortens long paths.
    pub(crate) fn create(suffix: &str) -> std::io::Result<ScratchDirectory> {
        let base =
            if is_suitable(Path::new(MEMORY)) { MEMORY.into() } else { std::env::temp_dir() };
        let path = base.join(format!("tb{}{suffix}", std::process::id()));
        fs::create_dir_all(&path)?;
        // Some tests run as another user.
        fs::set_permissions(&path, Permissions::from_mode(0o1777))?;
        Ok(ScratchDirectory(path))
    }

    /// Makes a program put its temporary files into this directory.
    pub(crate) fn give_to<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("TMPDIR", &self.0)
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn is_suitable(directory: &Path) -> bool {
    statvfs(directory).is_ok_and(|found| {
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        free >= NEEDED && !found.f_flag.contains(StatVfsMountFlags::NOEXEC)
    })
}
