//! Errors on their way to a person: one place decides hints and exit codes.

use std::error::Error;
use std::process::ExitCode;

use takeback_tree::{
    CaptureError, GcError, PinError, PlanError, RepairError, RestoreError, StoreError,
    WorkspaceError,
};

use crate::output;

/// Something went wrong, and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), causes: Vec::new(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// Adds an error and the errors behind it.
    pub(crate) fn because(mut self, error: &dyn Error) -> Failure {
        let mut next = Some(error);
        while let Some(error) = next {
            self.causes.push(error.to_string());
            next = error.source();
        }
        self.causes.dedup();
        self
    }

    fn of(error: &dyn Error) -> Failure {
        let failure = Failure::new(error.to_string());
        match error.source() {
            Some(source) => failure.because(source),
            None => failure,
        }
    }

    /// Says what is wrong on standard error and gives the exit code.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        if json {
            let value = serde_json::json!({
                "error": { "message": self.message, "causes": self.causes, "hint": self.hint }
            });
            println!("{value}");
        } else {
            eprintln!("error: {}", output::disarm(&self.message));
            self.causes.iter().for_each(|cause| eprintln!("  because: {}", output::disarm(cause)));
            self.hint.iter().for_each(|hint| eprintln!("hint: {}", output::disarm(hint)));
        }
        ExitCode::FAILURE
    }
}

/// An error and the errors behind it, in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let failure = Failure::of(error);
    std::iter::once(failure.message).chain(failure.causes).collect::<Vec<_>>().join(": ")
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", output::disarm(&self.message))?;
        self.causes.iter().try_for_each(|cause| write!(f, ": {}", output::disarm(cause)))
    }
}

const REPAIR: &str = "run `takeback checkpoints verify` to see what is affected";

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        let failure = Failure::of(&error);
        match error {
            StoreError::Object(_) => failure.hint(REPAIR),
            StoreError::Io { .. } => {
                failure.hint("check the permissions and the free space of takeback's directory")
            }
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
                .hint("is this the directory of one project? list what can be made again in its .gitignore"),
            CaptureError::Workspace(_) | CaptureError::Write { .. } => Failure::of(&error),
        }
    }
}

impl From<PinError> for Failure {
    fn from(error: PinError) -> Failure {
        match error {
            PinError::Store(error) => error.into(),
            PinError::Message | PinError::Write { .. } => Failure::of(&error),
        }
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Failure {
        match error {
            PlanError::Capture(error) => error.into(),
            PlanError::Target(_) => Failure::of(&error).hint(REPAIR),
            PlanError::Unfinished => {
                Failure::of(&error).hint("put right what is said above and run the command again")
            }
            PlanError::NoSuchPath(_) | PlanError::Io { .. } => Failure::of(&error),
        }
    }
}

impl From<RestoreError> for Failure {
    fn from(error: RestoreError) -> Failure {
        let failure = Failure::of(&error);
        match error {
            RestoreError::Changed(_) => {
                failure.hint("nothing was restored; look again with `takeback rollback` and repeat")
            }
            RestoreError::NotReverted { .. } => {
                failure.hint("free space or fix the permissions; the next takeback command goes on")
            }
            RestoreError::Object(_) => failure.hint(REPAIR),
            RestoreError::Io { .. } | RestoreError::Unverified(_) => {
                failure.hint("nothing was changed")
            }
            _ => failure,
        }
    }
}

impl From<GcError> for Failure {
    fn from(error: GcError) -> Failure {
        match error {
            GcError::Store(error) => error.into(),
            GcError::Damaged { .. } => {
                Failure::of(&error).hint("run `takeback checkpoints repair` first")
            }
            GcError::Busy => Failure::of(&error).hint("wait for it and repeat"),
        }
    }
}

impl From<RepairError> for Failure {
    fn from(error: RepairError) -> Failure {
        match error {
            RepairError::Store(error) => error.into(),
            RepairError::Busy => Failure::of(&error).hint("wait for it and repeat"),
        }
    }
}
