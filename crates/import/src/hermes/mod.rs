//! Hermes Agent: its database of sessions and its repositories of checkpoints.

mod checkpoints;
mod sessions;

pub use checkpoints::{
    CheckpointReport, History, ImportedProject, Problem, Project, ProjectHistories, Snapshot,
    Survey, find_projects, import_checkpoints, import_project, read_project,
};
pub use sessions::{HermesDatabase, HermesError, Transcripts};
