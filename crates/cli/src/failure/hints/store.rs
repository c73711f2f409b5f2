//! Hints for the errors of the store and of captures.

use takeback_tree::{CaptureError, PinError, StoreError, WorkspaceError};

use super::{LATER, SPACE, VERIFY};
use crate::failure::Failure;

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        let failure = Failure::of(&error);
        match error {
            StoreError::Object(_) => failure.hint(VERIFY),
            StoreError::Io { .. } => failure.hint(SPACE),
            StoreError::Busy { .. } => failure.hint(format!("nothing was changed; {LATER}")),
            StoreError::TooNew { .. } | StoreError::Damaged { .. } => failure,
        }
    }
}

impl From<WorkspaceError> for Failure {
    fn from(error: WorkspaceError) -> Failure {
        match error {
            WorkspaceError::Store(error) => error.into(),
            WorkspaceError::Refused { .. } => Failure::of(&error)
                .hint("change to the directory of a project, or name one with -C DIR"),
            WorkspaceError::Open { .. } => Failure::of(&error),
        }
    }
}

impl From<CaptureError> for Failure {
    fn from(error: CaptureError) -> Failure {
        match error {
            CaptureError::Store(error) => error.into(),
            CaptureError::TooManyFiles { .. } => Failure::of(&error)
                .hint("is this the directory of one project? add build output to .gitignore, or raise max_files"),
            CaptureError::TooLarge { .. } => Failure::of(&error).hint(
                "add files that can be regenerated to .gitignore, or raise max_total_size_mb",
            ),
            CaptureError::Write { .. } => Failure::of(&error).hint(SPACE),
            CaptureError::Workspace(_) => Failure::of(&error),
        }
    }
}

impl From<PinError> for Failure {
    fn from(error: PinError) -> Failure {
        match error {
            PinError::Store(error) => error.into(),
            PinError::Write { .. } => Failure::of(&error).hint(SPACE),
            PinError::Message | PinError::TooLarge(_) => Failure::of(&error),
        }
    }
}
