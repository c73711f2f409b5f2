//! Records the time at which one of an agent's hooks last ran, as the modification time of an empty
//! file.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use takeback_ledger::Time;

fn file_path(home: &Path, agent: &str) -> PathBuf {
    home.join("fired").join(agent)
}

/// Records that one of an agent's hooks is running now. Errors are ignored.
pub(crate) fn record_run(home: &Path, agent: &str) {
    let path = file_path(home, agent);
    let open = || File::options().write(true).create(true).truncate(false).open(&path);
    let file = open().or_else(|_| {
        // Takeback's home is private to the user.
        DirBuilder::new().recursive(true).mode(0o700).create(home.join("fired"))?;
        open()
    });
    let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
}

/// Returns the time at which one of an agent's hooks last ran.
pub(crate) fn last_run(home: &Path, agent: &str) -> Option<Time> {
    fs::metadata(file_path(home, agent))
        .and_then(|metadata| metadata.modified())
        .ok()
        .map(Time::from)
}
