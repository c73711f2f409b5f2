//! Hermes Agent: its database of sessions and its repositories of checkpoints.

mod checkpoints;
mod sessions;

pub use checkpoints::{
    CheckpointReport, HermesCheckpoint, HermesProject, ImportedProject, ProjectHistories,
    ProjectSurvey, ReadProblem, RepositoryHistory, find_projects, import_checkpoints,
    import_project, read_project,
};
pub use sessions::{HermesDatabase, HermesError, Transcripts};
