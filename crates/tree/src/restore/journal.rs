//! The journal of a restore: its steps, written to disk before the first of them is performed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use takeback_base::durable::{self, Durability};
use takeback_base::hex;

use super::{Plan, Step};
use crate::beneath::Root;
use crate::fault;
use crate::path::RelPath;

const VERSION: u32 = 1;

/// Everything needed to finish or revert a restore.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    version: u32,
    /// The device and inode of the workspace's root. They are needed because the path may later
    /// lead to another directory.
    root: (u64, u64),
    /// An id that is part of the names of the temporary files.
    pub(super) id: String,
    pub(super) steps: Vec<Step>,
    pub(super) loosened: Vec<(RelPath, u32)>,
    /// The pin whose message shows whether the restore happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) safety: Option<JournalPin>,
}

/// The safety pin of a restore, with its message before and after the restore.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct JournalPin {
    pub(super) seq: u64,
    pub(super) attempt: String,
    pub(super) done: String,
}

/// The one field that every version of a journal has.
#[derive(Deserialize)]
struct JournalVersion {
    version: u32,
}

/// The phase that a restore is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Temporary files are being written and no other file has been touched, or the restore is
    /// being reverted. A restore that is interrupted in this phase is reverted.
    Staging,
    /// Files are being moved. A restore that is interrupted in this phase is finished or, if that
    /// fails, reverted.
    Moving,
    /// All files are restored, but other work that belongs to the restore remains to be done.
    Restored,
}

impl Phase {
    /// All phases, in the order in which their journals are looked for.
    const ALL: [Phase; 3] = [Phase::Moving, Phase::Staging, Phase::Restored];

    fn path(self, directory: &Path) -> PathBuf {
        directory.join(match self {
            Phase::Staging => "journal.staging",
            Phase::Moving => "journal",
            Phase::Restored => "journal.restored",
        })
    }
}

impl Journal {
    /// Writes the journal of a plan, durably.
    pub(super) fn begin(
        plan: &Plan,
        safety: Option<JournalPin>,
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
            safety,
        };
        let text = serde_json::to_vec(&journal).expect("plain data serializes to JSON");
        fault::point("journal")?;
        durable::replace_file_through(
            temporary,
            &Phase::Staging.path(directory),
            &text,
            Durability::Synced,
        )?;
        Ok(journal)
    }

    /// Enters the phase in which files are moved. If the restore is interrupted in this phase, the
    /// next process that takes the lock finishes it.
    pub(super) fn start_moving(directory: &Path) -> io::Result<()> {
        fault::point("journal moves")?;
        fs::rename(Phase::Staging.path(directory), Phase::Moving.path(directory))?;
        durable::sync_directory(directory)
    }

    /// Returns to the first phase, to revert the restore. If the restore is interrupted in this
    /// phase, the next process that takes the lock reverts it.
    pub(super) fn start_reverting(directory: &Path) -> io::Result<()> {
        fault::point("journal reverts")?;
        let renamed = fs::rename(Phase::Moving.path(directory), Phase::Staging.path(directory));
        durable::ignore_missing(renamed)?;
        durable::sync_directory(directory)
    }

    /// Enters the last phase, in which no process touches the files again. This only renames the
    /// journal, so it needs no disk space.
    pub(super) fn keep_open(directory: &Path) -> io::Result<()> {
        let renamed = fs::rename(Phase::Moving.path(directory), Phase::Restored.path(directory));
        durable::ignore_missing(renamed)?;
        durable::sync_directory(directory)
    }

    /// Removes the journal of a restore that was finished or reverted.
    pub(super) fn end(directory: &Path) -> io::Result<()> {
        fault::point("journal ends")?;
        for phase in Phase::ALL {
            durable::ignore_missing(fs::remove_file(phase.path(directory)))?;
        }
        durable::sync_directory(directory)
    }

    /// Reads the journal of an interrupted restore. Fails if the journal cannot be used. Sets the
    /// journal aside if it is damaged or belongs to another directory.
    pub(super) fn load(root: &Root, directory: &Path) -> io::Result<Option<(Journal, Phase)>> {
        for phase in Phase::ALL {
            let path = phase.path(directory);
            let Some(text) = durable::if_exists(fs::read(&path))? else { continue };
            // In another version, all other fields may differ.
            let version = serde_json::from_slice::<JournalVersion>(&text);
            if version.is_ok_and(|journal| journal.version != VERSION) {
                return Err(io::Error::other("another version of takeback wrote it"));
            }
            let journal = serde_json::from_slice::<Journal>(&text);
            return match journal {
                Ok(journal) if journal.root == root.identity()? => Ok(Some((journal, phase))),
                Ok(_) => {
                    fs::rename(&path, directory.join("journal.foreign"))?;
                    Err(io::Error::other("the workspace is now a different directory"))
                }
                Err(error) => {
                    fs::rename(&path, directory.join("journal.damaged"))?;
                    Err(io::Error::new(io::ErrorKind::InvalidData, error))
                }
            };
        }
        Ok(None)
    }

    /// True if there is a journal of an interrupted restore.
    pub(super) fn exists(directory: &Path) -> bool {
        // If the check fails, a journal is assumed to exist.
        let exists = |phase: Phase| phase.path(directory).try_exists().unwrap_or(true);
        Phase::ALL.into_iter().any(exists)
    }

    /// Returns the name of the temporary file of a step.
    pub(super) fn temporary_name(&self, number: usize) -> Vec<u8> {
        format!(".takeback-{}-{number}", self.id).into_bytes()
    }
}
