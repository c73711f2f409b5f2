//! Hints for errors in the maintenance of the store and its mirror, and for errors of the hooks and
//! the web server.

use takeback_agents::InstallError;
use takeback_import::ImportError;
use takeback_tree::{GcError, MirrorError, MoveError, RepairError};
use takeback_undo::{MoveHistoryError, PruneError, StatusError, UpdateMirrorError};
#[cfg(not(fuzzing))]
use takeback_web::CertificateError;

use super::{LATER, SPACE};
use crate::failure::Failure;

impl From<GcError> for Failure {
    fn from(error: GcError) -> Failure {
        match error {
            GcError::Store(error) => error.into(),
            GcError::Damaged { .. } => {
                Failure::of(&error).hint("run `takeback checkpoints repair` first")
            }
            GcError::Busy => Failure::of(&error).hint(LATER),
        }
    }
}

impl From<RepairError> for Failure {
    fn from(error: RepairError) -> Failure {
        match error {
            RepairError::Store(error) => error.into(),
            RepairError::Busy => Failure::of(&error).hint(LATER),
        }
    }
}

impl From<PruneError> for Failure {
    fn from(error: PruneError) -> Failure {
        match error {
            PruneError::Store(error) => error.into(),
            PruneError::Gc(error) => error.into(),
            PruneError::Io(_) => Failure::of(&error).hint(SPACE),
        }
    }
}

impl From<StatusError> for Failure {
    fn from(error: StatusError) -> Failure {
        match error {
            StatusError::Store(error) => error.into(),
            StatusError::Io(_) => Failure::of(&error).hint(SPACE),
        }
    }
}

impl From<MoveHistoryError> for Failure {
    fn from(error: MoveHistoryError) -> Failure {
        let failure = Failure::of(&error);
        match error {
            MoveHistoryError::Workspace(error) => error.into(),
            MoveHistoryError::Store(error) | MoveHistoryError::Move(MoveError::Store(error)) => {
                error.into()
            }
            MoveHistoryError::Pin(error) => error.into(),
            MoveHistoryError::NoHistory(_) => failure.hint(
                "`takeback checkpoints` lists the workspaces that have checkpoints; name the old path first",
            ),
            MoveHistoryError::Move(MoveError::Unfinished(_)) => {
                failure.hint("move the directory back, run `takeback checkpoint` there, and repeat")
            }
            MoveHistoryError::Ledger(_) | MoveHistoryError::Open(_) => {
                failure.hint("fix the problem, then run the command again")
            }
            MoveHistoryError::OtherName(_) => {
                failure.hint("name the file by its old name; only its directory may differ")
            }
            MoveHistoryError::SamePlace(_) | MoveHistoryError::Move(_) => failure,
        }
    }
}

impl From<UpdateMirrorError> for Failure {
    fn from(error: UpdateMirrorError) -> Failure {
        let failure = Failure::of(&error);
        match error {
            UpdateMirrorError::Inside { .. } => {
                failure.hint("choose another directory for `mirror` in config.toml")
            }
            UpdateMirrorError::OpenToOthers => {
                failure.hint("run `chmod go-w` on it, or choose another directory")
            }
            UpdateMirrorError::Mirror(MirrorError::OtherStore { .. }) => failure.hint(
                "look at it with `takeback --home DIR list`; move it away to start a new mirror",
            ),
            UpdateMirrorError::Store(error) => error.into(),
            UpdateMirrorError::Prune(error) => error.into(),
            UpdateMirrorError::Io(_)
            | UpdateMirrorError::Mirror(_)
            | UpdateMirrorError::Ledger(_)
            | UpdateMirrorError::OpenLedger(_) => failure,
        }
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Failure {
        match error {
            ImportError::Store(error) => error.into(),
            ImportError::Pin(error) => error.into(),
            ImportError::Adopt(_) => Failure::of(&error),
        }
    }
}

impl From<InstallError> for Failure {
    fn from(error: InstallError) -> Failure {
        Failure::of(&error)
    }
}

#[cfg(not(fuzzing))]
impl From<CertificateError> for Failure {
    fn from(error: CertificateError) -> Failure {
        Failure::of(&error).hint("both files must be in PEM format, and belong together")
    }
}
