//! When the hooks of an agent last ran: the time of a file, which costs next to nothing.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use takeback_ledger::Time;

fn path(home: &Path, agent: &str) -> PathBuf {
    home.join("fired").join(agent)
}

/// Remembers that one runs now. It is no harm if that fails.
pub(crate) fn now(home: &Path, agent: &str) {
    let path = path(home, agent);
    let open = || File::options().write(true).create(true).truncate(false).open(&path);
    let file = open().or_else(|_| {
        // Nobody else has any business in takeback's own directory.
        DirBuilder::new().recursive(true).mode(0o700).create(home.join("fired"))?;
        open()
    });
    let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
}

/// When one last ran.
pub(crate) fn last(home: &Path, agent: &str) -> Option<Time> {
    fs::metadata(path(home, agent)).and_then(|metadata| metadata.modified()).ok().map(Time::from)
}
