//! Histories from elsewhere become histories of ours; histories of ours move.

use std::path::{Path, PathBuf};

use serde::Serialize;
use takeback_ledger::{LedgerError, OpenError, Time};
use takeback_tree::{AnyPath, Filter, MoveError, Pin, Progress, Rules, StoreError, WorkspaceError};

use crate::import::{self, ImportError, Imported, Options};
use crate::keeper::Keeper;
use crate::record::{Kind, Record, tidy};

/// What an import brought.
#[derive(Debug, Default, Serialize)]
pub struct ImportReport {
    /// By project.
    pub projects: Vec<ImportedProject>,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// What came of one project.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "the names are those of SPEC.md")]
pub struct ImportedProject {
    pub path: AnyPath,
    /// New ones.
    pub checkpoints: usize,
    /// Those that were here already.
    pub known: usize,
    /// Those that could not be brought in, and why.
    pub skipped: Vec<String>,
}

/// A workspace that was moved.
#[derive(Debug)]
pub struct Moved {
    /// Where its history was.
    pub from: PathBuf,
    /// Where it is.
    pub to: PathBuf,
    /// How many checkpoints, of all kinds.
    pub checkpoints: u64,
}

/// The history of a workspace did not move.
#[derive(Debug, thiserror::Error)]
pub enum MoveWorkspaceError {
    /// Nothing is known of the old place.
    #[error("there are no checkpoints for {}", .0.display())]
    NoHistory(PathBuf),
    /// It is the same place.
    #[error("{} is the same place", .0.display())]
    SamePlace(PathBuf),
    /// The new place cannot be one.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The pins.
    #[error(transparent)]
    Move(#[from] MoveError),
    /// The checkpoints are moved; what the ledger knows is not.
    #[error("the checkpoints are moved, but the ledger does not know it")]
    Ledger(#[source] LedgerError),
    /// Likewise.
    #[error("the checkpoints are moved, but the ledger does not know it")]
    Open(#[source] OpenError),
}

impl Keeper {
    /// Brings in all checkpoints of another program that are in a directory. Doing it twice adds
    /// nothing.
    pub fn import(&self, path: &Path, progress: Progress<'_>) -> Result<ImportReport, ImportError> {
        let survey = import::find(path);
        let mut report = ImportReport::default();
        let tell =
            |problem: &import::Problem| format!("{}: {}", problem.path.display(), problem.reason);
        report.problems.extend(survey.problems.iter().map(tell));
        let store = self.store()?;
        for found in &survey.projects {
            let mut project = import::read(found);
            report.problems.extend(project.problems.iter().map(tell));
            for snapshot in &mut project.checkpoints {
                snapshot.reason = tidy(&snapshot.reason);
            }
            let directory = project.directory.clone();
            let mut message =
                |new: &Imported, seq: u64| imported_record(&directory, new, seq).message();
            let mut options = Options {
                now: self.system_time(),
                reason: &reason_of_imported,
                message: &mut message,
                progress,
            };
            let outcome = import::bring_in(store, &project, &mut options)?;
            let skipped = outcome.skipped.iter();
            report.projects.push(ImportedProject {
                path: AnyPath(project.directory),
                checkpoints: outcome.pins.len(),
                known: outcome.known,
                skipped: skipped
                    .map(|skipped| format!("{}: {}", skipped.snapshot.id, skipped.problem))
                    .collect(),
            });
        }
        Ok(report)
    }

    /// The archives that the first start over an older layout made.
    pub fn legacy_directories(&self) -> Vec<PathBuf> {
        let archives = self.legacy_archives().unwrap_or_default();
        archives.iter().map(|archive| self.checkpoints_directory().join(&archive.name)).collect()
    }

    /// A workspace was moved: its history follows. If the new place has one already, the old one
    /// comes before it.
    pub fn move_workspace(&self, old: &Path, new: &Path) -> Result<Moved, MoveWorkspaceError> {
        let store = self.store()?;
        let to = store.workspace(&self.root(new)?, &self.places)?;
        let from =
            self.known_path(old)?.ok_or_else(|| MoveWorkspaceError::NoHistory(old.to_owned()))?;
        if from == to.path() {
            return Err(MoveWorkspaceError::SamePlace(from));
        }
        let checkpoints = store.move_workspace(&store.workspace_id(&from), &to)?;
        if let Some(mut ledger) = self.ledger().map_err(MoveWorkspaceError::Open)? {
            let (from, to) = (from.display().to_string(), to.path().display().to_string());
            ledger.move_workspace(&from, &to).map_err(MoveWorkspaceError::Ledger)?;
        }
        Ok(Moved { from, to: to.path().to_owned(), checkpoints })
    }
}

fn imported_record(directory: &Path, new: &Imported, seq: u64) -> Record {
    let rules = Rules { exclude: new.exclude.clone(), ..Rules::default() };
    let reason = if new.reason.is_empty() { "imported" } else { &new.reason };
    Record {
        imported: Some(new.id),
        files: Some(new.files),
        filter: Filter { rules, tracked: Vec::new() },
        uncovered: new.uncovered.clone(),
        ..Record::new(directory.into(), seq, Time(new.time * 1000), Kind::Manual, reason)
    }
}

fn reason_of_imported(pin: &Pin) -> Option<String> {
    let record = Record::parse(&pin.message).ok()?;
    record.imported.map(|_| record.reason)
}
