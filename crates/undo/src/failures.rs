//! Checkpoints that could not be taken: remembered until somebody looks.
//!
//! The file has its full length from the start and is written in place, because the usual reason
//! is a full disk.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use takeback_ledger::Time;
use takeback_tree::AnyPath;

/// The length of the file.
const LENGTH: usize = 16 << 10;

/// Something that went wrong, and how often in a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Where.
    pub workspace: AnyPath,
    /// Whether a checkpoint is missing because of it.
    pub checkpoint: bool,
    /// What.
    pub message: String,
    /// The first time.
    pub since: Time,
    /// The last time.
    pub until: Time,
    /// How often.
    pub count: u64,
}

/// The list of failures.
pub(crate) struct Failures {
    path: PathBuf,
}

impl Failures {
    pub(crate) fn in_directory(checkpoints: &Path) -> Failures {
        Failures { path: checkpoints.join("failures") }
    }

    /// Makes room for the list while there is some.
    pub(crate) fn prepare(&self) {
        if !self.path.exists() {
            let _ = self.write(&[]);
        }
    }

    pub(crate) fn all(&self) -> Vec<Failure> {
        fs::File::open(&self.path).and_then(|file| read(&file)).unwrap_or_default()
    }

    /// Adds one. The same again in the same place only counts.
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
        let mut failures = read(&file).unwrap_or_default();
        let workspace = AnyPath(workspace.to_owned());
        match failures
            .iter_mut()
            .find(|known| known.workspace == workspace && known.message == message)
        {
            Some(known) => (known.until, known.count) = (now, known.count + 1),
            None => {
                failures.push(Failure {
                    workspace,
                    checkpoint,
                    message,
                    since: now,
                    until: now,
                    count: 1,
                });
            }
        }
        write_all(&file, failures)
    }

    /// Takes one back: it is put right.
    pub(crate) fn withdraw(&self, workspace: &Path, message: &str) -> io::Result<()> {
        let file = self.open()?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        let mut failures = read(&file).unwrap_or_default();
        for known in &mut failures {
            if known.workspace.0 == workspace && known.message == message {
                known.count -= 1;
            }
        }
        failures.retain(|failure| failure.count > 0);
        write_all(&file, failures)
    }

    /// Forgets what was last seen before a time, or all of it.
    pub(crate) fn forget(&self, before: Time) -> io::Result<()> {
        if !self.path.exists() {
            return Ok(());
        }
        let file = self.open()?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        let mut failures = read(&file).unwrap_or_default();
        failures.retain(|failure| failure.until >= before);
        write_all(&file, failures)
    }

    fn open(&self) -> io::Result<fs::File> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        match options.open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let directory = self.path.parent().expect("the list is in a directory");
                fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
                options.open(&self.path)
            }
            file => file,
        }
    }

    fn write(&self, failures: &[Failure]) -> io::Result<()> {
        write_all(&self.open()?, failures.to_vec())
    }
}

fn read(mut file: &fs::File) -> io::Result<Vec<Failure>> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(serde_json::from_str(text.trim_end()).unwrap_or_default())
}

/// The oldest go if there are too many.
fn write_all(file: &fs::File, mut failures: Vec<Failure>) -> io::Result<()> {
    loop {
        let mut text = serde_json::to_vec(&failures).expect("plain data becomes JSON");
        if text.len() <= LENGTH {
            text.resize(LENGTH, b' ');
            return file.write_all_at(&text, 0);
        }
        failures.remove(0);
    }
}

/// An error and the errors behind it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}
