//! The journal of a restore: what it is going to do, written before it does it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use takeback_base::durable::{self, Durability};
use takeback_base::hex;

use crate::beneath::Root;
use crate::fault;
use crate::path::RelPath;
use crate::restore::{Plan, Step};

const VERSION: u32 = 1;

/// Everything that is needed to finish or to revert a restore.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    version: u32,
    /// The device and inode of the workspace's root: the same path may be another directory later.
    root: (u64, u64),
    /// In the names of the temporary files.
    pub(super) id: String,
    pub(super) steps: Vec<Step>,
    pub(super) loosened: Vec<(RelPath, u32)>,
}

/// What every version of a journal has.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// How far a restore got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Temporary files are being written and nothing else was touched, or everything is being put
    /// back.
    Staging,
    /// Files are being moved.
    Moving,
}

impl Phase {
    fn path(self, directory: &Path) -> PathBuf {
        directory.join(match self {
            Phase::Staging => "journal.staging",
            Phase::Moving => "journal",
        })
    }
}

impl Journal {
    /// Writes the journal of a plan, durably.
    pub(super) fn begin(
        plan: &Plan,
        root: &Root,
        directory: &Path,
        temporary: &Path,
    ) -> io::Result<Journal> {
        let journal = Journal {
            version: VERSION,
            root: root.identity()?,
            id: hex::random_digits(8),
            steps: plan.steps.iter().map(|planned| planned.step.clone()).collect(),
            loosened: plan.loosened.clone(),
        };
        let text = serde_json::to_vec(&journal).expect("plain data becomes JSON");
        fault::point("journal")?;
        durable::replace_file_through(
            temporary,
            &Phase::Staging.path(directory),
            &text,
            Durability::Synced,
        )?;
        Ok(journal)
    }

    /// From here on the restore is finished if it is cut off.
    pub(super) fn start_moving(directory: &Path) -> io::Result<()> {
        fault::point("journal moves")?;
        fs::rename(Phase::Staging.path(directory), Phase::Moving.path(directory))?;
        durable::sync_directory(directory)
    }

    /// From here on the restore is reverted if it is cut off.
    pub(super) fn start_reverting(directory: &Path) -> io::Result<()> {
        fault::point("journal reverts")?;
        let renamed = fs::rename(Phase::Moving.path(directory), Phase::Staging.path(directory));
        durable::ignore_missing(renamed)?;
        durable::sync_directory(directory)
    }

    /// The restore is over, one way or the other.
    pub(super) fn end(directory: &Path) -> io::Result<()> {
        fault::point("journal ends")?;
        for phase in [Phase::Moving, Phase::Staging] {
            match fs::remove_file(phase.path(directory)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        durable::sync_directory(directory)
    }

    /// The journal of a restore that was cut off. One that cannot be read is set aside.
    pub(super) fn load(root: &Root, directory: &Path) -> io::Result<Option<(Journal, Phase)>> {
        for phase in [Phase::Moving, Phase::Staging] {
            let path = phase.path(directory);
            let text = match fs::read(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                text => text?,
            };
            // Another version may look different in everything else.
            let version = serde_json::from_slice::<Version>(&text).map(|found| found.version);
            if version.as_ref().is_ok_and(|version| *version != VERSION) {
                return Err(io::Error::other("it is of another version of takeback"));
            }
            let journal = serde_json::from_slice::<Journal>(&text);
            return match journal {
                Ok(journal) if journal.root == root.identity()? => Ok(Some((journal, phase))),
                Ok(_) => {
                    fs::rename(&path, directory.join("journal.foreign"))?;
                    Err(io::Error::other("the workspace is another directory than it was then"))
                }
                Err(error) => {
                    fs::rename(&path, directory.join("journal.damaged"))?;
                    Err(io::Error::new(io::ErrorKind::InvalidData, error))
                }
            };
        }
        Ok(None)
    }

    /// Whether there is the journal of a restore that was cut off.
    pub(super) fn is_there(directory: &Path) -> bool {
        // What cannot be looked at might be one.
        let is_there = |phase: Phase| phase.path(directory).try_exists().unwrap_or(true);
        [Phase::Moving, Phase::Staging].into_iter().any(is_there)
    }

    /// The name of the temporary file of a step.
    pub(super) fn temporary(&self, number: usize) -> Vec<u8> {
        format!(".takeback-{}-{number}", self.id).into_bytes()
    }
}
