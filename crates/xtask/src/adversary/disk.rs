//! A small disk that can be filled, and files that cannot be replaced.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::run::is_success;

/// The size of the disk, in megabytes. A simulated day needs less than half of it.
const MEGABYTES: u32 = 48;

/// A mount that is unmounted on drop.
pub(crate) struct Mount(PathBuf);

impl Mount {
    /// Mounts a small disk. Returns `None` if this user cannot mount one.
    pub(crate) fn small_disk(path: &Path) -> Option<Mount> {
        fs::create_dir_all(path).ok()?;
        let mut mount = Command::new("mount");
        let size = format!("size={MEGABYTES}m,mode=755");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(path);
        is_success(&mut mount).then(|| Mount(path.to_owned()))
    }

    /// Mounts a file onto itself, so that it cannot be replaced.
    pub(crate) fn nail_down(path: &Path) -> Option<Mount> {
        let mut mount = Command::new("mount");
        mount.arg("--bind").arg(path).arg(path);
        is_success(&mut mount).then(|| Mount(path.to_owned()))
    }

    /// Fills the disk, except for the given number of bytes.
    pub(crate) fn fill(&self, spare: usize) -> Result<(), Failure> {
        let failed = |error| format!("cannot fill {}: {error}", self.0.display());
        let room = self.0.join("room");
        fs::write(&room, vec![0; spare]).map_err(failed)?;
        let mut filler = File::create(self.filler()).map_err(failed)?;
        while filler.write_all(&[0; 4096]).is_ok() {}
        fs::remove_file(room).map_err(failed)
    }

    /// Frees the space that `fill` took.
    pub(crate) fn free(&self) {
        let _ = fs::remove_file(self.filler());
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Background processes may still be using the disk. The disk disappears when the last of
        // these processes ends.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
