//! Hermes Agent: its sessions database and its checkpoint repositories.

mod checkpoints;
mod sessions;

pub use checkpoints::{
    CheckpointReport, HermesCheckpoint, HermesProject, ImportedProject, ProjectHistories,
    ProjectSurvey, ReadProblem, RepositoryHistory, find_projects, import_checkpoints,
    import_project, read_project,
};
pub use sessions::{HermesDatabase, HermesError, Transcripts};
