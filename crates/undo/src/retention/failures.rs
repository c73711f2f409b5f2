//! The log of failures, such as missed checkpoints. It keeps failures until they are cleared or
//! pruned. A missed checkpoint stays in the log even after the user has cleared it, because the
//! checkpoint would have recorded the ends of calls, and these are still missing.
//!
//! The file has its full length from the start and is written in place, because the usual reason
//! for a failure is a full disk.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use takeback_base::durable;
use takeback_ledger::Time;
use takeback_tree::AnyPath;

/// The fixed length of the file, in bytes.
const FILE_LENGTH: usize = 16 << 10;

/// A failure, and how often it has occurred.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Failure {
    pub workspace: AnyPath,
    /// True if a checkpoint is missing because of the failure.
    pub checkpoint: bool,
    pub message: String,
    /// The time of the first occurrence.
    pub since: Time,
    /// The time of the last occurrence.
    pub until: Time,
    pub count: u64,
    /// True if the user has cleared the failure, so that it is no longer shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_cleared: bool,
}

/// The file that holds the log.
pub(crate) struct FailureLog {
    path: PathBuf,
}

impl FailureLog {
    pub(crate) fn in_directory(checkpoints: &Path) -> FailureLog {
        FailureLog { path: checkpoints.join("failures") }
    }

    /// Writes an empty log of full length while the disk still has room.
    pub(crate) fn reserve_space(&self) {
        if !self.path.exists() {
            let _ = self.write_log(&[]);
        }
    }

    /// Returns the failures that have not been cleared.
    pub(crate) fn all(&self) -> Vec<Failure> {
        let mut failures = self.with_cleared();
        failures.retain(|failure| !failure.is_cleared);
        failures
    }

    /// Returns true if a checkpoint of a workspace was missed, even if the failure was cleared.
    pub(crate) fn has_missed(&self, workspace: &Path) -> bool {
        let mut failures = self.with_cleared().into_iter();
        failures.any(|failure| failure.checkpoint && failure.workspace.0 == workspace)
    }

    fn with_cleared(&self) -> Vec<Failure> {
        fs::File::open(&self.path).and_then(|file| read_log(&file)).unwrap_or_default()
    }

    /// Adds a failure. If the log already has the same failure for the workspace, increments its
    /// count.
    pub(crate) fn add(
        &self,
        workspace: &Path,
        checkpoint: bool,
        message: &str,
        now: Time,
    ) -> io::Result<()> {
        let message: String = message.chars().take(500).collect();
        let file = self.open()?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        let mut failures = read_log(&file).unwrap_or_default();
        let workspace = AnyPath(workspace.to_owned());
        match failures
            .iter_mut()
            .find(|known| known.workspace == workspace && known.message == message)
        {
            Some(known) if known.is_cleared => {
                let (since, until, count, is_cleared) = (now, now, 1, false);
                *known = Failure { since, until, count, is_cleared, ..known.clone() };
            }
            // A damaged log may contain any number.
            Some(known) => (known.until, known.count) = (now, known.count.saturating_add(1)),
            None => {
                failures.push(Failure {
                    workspace,
                    checkpoint,
                    message,
                    since: now,
                    until: now,
                    count: 1,
                    is_cleared: false,
                });
            }
        }
        write_padded(&file, failures)
    }

    /// Removes one occurrence of a failure, because the checkpoint was taken after all.
    pub(crate) fn withdraw(&self, workspace: &Path, message: &str) -> io::Result<()> {
        let file = self.open()?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        let mut failures = read_log(&file).unwrap_or_default();
        for known in &mut failures {
            if known.workspace.0 == workspace && known.message == message {
                known.count = known.count.saturating_sub(1);
            }
        }
        failures.retain(|failure| failure.count > 0);
        write_padded(&file, failures)
    }

    /// Clears the failures of one workspace, or of all workspaces.
    pub(crate) fn clear_failures(&self, workspace: Option<&Path>) -> io::Result<()> {
        let is_of = |failure: &Failure| workspace.is_none_or(|path| failure.workspace.0 == path);
        if !self.all().iter().any(is_of) {
            return Ok(());
        }
        let file = self.open()?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        let mut failures = read_log(&file).unwrap_or_default();
        failures.retain(|failure| !is_of(failure) || failure.checkpoint);
        failures.iter_mut().filter(|failure| is_of(failure)).for_each(|failure| {
            failure.is_cleared = true;
        });
        write_padded(&file, failures)
    }

    /// Forgets the failures that last occurred before the given time.
    pub(crate) fn forget_before(&self, before: Time) -> io::Result<()> {
        if !self.path.exists() {
            return Ok(());
        }
        let file = self.open()?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        let mut failures = read_log(&file).unwrap_or_default();
        failures.retain(|failure| failure.until >= before);
        write_padded(&file, failures)
    }

    fn open(&self) -> io::Result<fs::File> {
        durable::with_directory(&self.path, || durable::open_file(&self.path))
    }

    fn write_log(&self, failures: &[Failure]) -> io::Result<()> {
        write_padded(&self.open()?, failures.to_vec())
    }
}

fn read_log(mut file: &fs::File) -> io::Result<Vec<Failure>> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(serde_json::from_str(text.trim_end()).unwrap_or_default())
}

/// Writes the log at its full length. If there are too many failures, drops the oldest ones,
/// beginning with those that have been cleared.
fn write_padded(file: &fs::File, mut failures: Vec<Failure>) -> io::Result<()> {
    loop {
        let mut text = serde_json::to_vec(&failures).expect("plain data becomes JSON");
        if text.len() <= FILE_LENGTH {
            text.resize(FILE_LENGTH, b' ');
            return file.write_all_at(&text, 0);
        }
        let cleared = failures.iter().position(|failure| failure.is_cleared);
        failures.remove(cleared.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_count_in_the_log_does_no_harm() {
        let scratch = tempfile::tempdir().unwrap();
        let log = FailureLog::in_directory(scratch.path());
        let path = Path::new("/w");
        for count in [0, u64::MAX] {
            let workspace = AnyPath(path.to_owned());
            let (message, since, until) = ("m".to_owned(), Time(1), Time(1));
            let (checkpoint, is_cleared) = (true, false);
            let failure =
                Failure { workspace, checkpoint, message, since, until, count, is_cleared };
            log.write_log(&[failure]).unwrap();
            if count > 0 {
                log.add(path, true, "m", Time(2)).unwrap();
                assert_eq!(log.all()[0].count, u64::MAX);
            }
            log.withdraw(path, "m").unwrap();
            assert_eq!(log.all().len(), usize::from(count > 0));
        }
    }
}
