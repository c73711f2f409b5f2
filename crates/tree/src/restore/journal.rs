//! The journal of a restore: what it is going to do, written before it does it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::fault;
use crate::files;
use crate::path::RelPath;
use crate::restore::{Plan, Step};

const VERSION: u32 = 1;

/// Everything that is needed to finish or to revert a restore.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    version: u32,
    /// In the names of the temporary files.
    pub(super) id: String,
    pub(super) steps: Vec<Step>,
    pub(super) loosened: Vec<(RelPath, u32)>,
}

/// How far a restore got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Temporary files are being written; nothing else was touched.
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
    pub(super) fn begin(plan: &Plan, directory: &Path, temporary: &Path) -> io::Result<Journal> {
        let journal = Journal {
            version: VERSION,
            id: files::random_name()[..8].to_owned(),
            steps: plan.steps.clone(),
            loosened: plan.loosened.clone(),
        };
        let text = serde_json::to_vec(&journal).expect("plain data becomes JSON");
        fault::point("journal")?;
        files::replace(temporary, &Phase::Staging.path(directory), &text, true)?;
        Ok(journal)
    }

    /// From here on the restore is finished if it is cut off.
    pub(super) fn start_moving(directory: &Path) -> io::Result<()> {
        fault::point("journal moves")?;
        fs::rename(Phase::Staging.path(directory), Phase::Moving.path(directory))?;
        files::sync_directory(directory)
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
        Ok(())
    }

    /// The journal of a restore that was cut off. One that cannot be read is set aside.
    pub(super) fn load(directory: &Path) -> io::Result<Option<(Journal, Phase)>> {
        for phase in [Phase::Moving, Phase::Staging] {
            let path = phase.path(directory);
            let text = match fs::read(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                text => text?,
            };
            return match serde_json::from_slice::<Journal>(&text) {
                Ok(journal) if journal.version == VERSION => Ok(Some((journal, phase))),
                Ok(journal) => Err(io::Error::other(format!(
                    "a restore was interrupted by another version of takeback (journal {})",
                    journal.version
                ))),
                Err(error) => {
                    fs::rename(&path, directory.join("journal.damaged"))?;
                    Err(io::Error::new(io::ErrorKind::InvalidData, error))
                }
            };
        }
        Ok(None)
    }

    /// The name of the temporary file of a step.
    pub(super) fn temporary(&self, number: usize) -> Vec<u8> {
        format!(".takeback-{}-{number}", self.id).into_bytes()
    }
}
