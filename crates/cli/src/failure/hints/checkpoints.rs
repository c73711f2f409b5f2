//! Hints for errors in taking, labeling, finding and comparing checkpoints.

use takeback_tree::{DiffError, StoreError};
use takeback_undo::{
    CompareError, DeleteError, FindError, LabelError, NameError, ShowError, TakeError,
};

use super::{LATER, LIST};
use crate::failure::Failure;

impl From<TakeError> for Failure {
    fn from(error: TakeError) -> Failure {
        match error {
            TakeError::Workspace(error) => error.into(),
            TakeError::Store(error) => error.into(),
            TakeError::Capture(error) => error.into(),
            TakeError::Pin(error) => error.into(),
            TakeError::Name(error) => error.into(),
        }
    }
}

impl From<NameError> for Failure {
    fn from(error: NameError) -> Failure {
        let hint = match error {
            NameError::Invalid(..) => "use letters, digits and dashes, as in `before-refactoring`",
            NameError::Taken(_) => "choose another name",
        };
        Failure::of(&error).hint(hint)
    }
}

impl From<LabelError> for Failure {
    fn from(error: LabelError) -> Failure {
        match error {
            LabelError::Find(error) => error.into(),
            LabelError::Name(error) => error.into(),
            LabelError::Store(error) => error.into(),
            LabelError::Busy => Failure::of(&error).hint(format!("nothing was changed; {LATER}")),
        }
    }
}

impl From<DeleteError> for Failure {
    fn from(error: DeleteError) -> Failure {
        let failure = Failure::of(&error);
        match error {
            DeleteError::Find(error) => error.into(),
            DeleteError::Prune(error) => error.into(),
            DeleteError::Protected(id) => failure.hint(format!(
                "`takeback checkpoints unpin {id}` and `takeback checkpoints name {id}` release it"
            )),
            DeleteError::Needed(_) => failure.hint("try again when the call has ended"),
            DeleteError::Busy => failure.hint(format!("nothing was deleted; {LATER}")),
        }
    }
}

impl From<FindError> for Failure {
    fn from(error: FindError) -> Failure {
        let failure = Failure::of(&error);
        match error {
            FindError::Store(error) => error.into(),
            FindError::NoSuchRow { rows: 0, .. } => failure.hint("`takeback checkpoint` takes one"),
            FindError::NoSuchRow { .. } | FindError::Unknown(_) => failure.hint(LIST),
            FindError::NoSuchStep { .. } => failure.hint("`takeback list --steps` lists the steps"),
            FindError::NotACheckpoint(_) => {
                failure.hint("give a number from the list, a name, or at least 6 digits of an id")
            }
            FindError::Ambiguous(_) => failure.hint("give more digits of the id"),
            FindError::Elsewhere { id, workspace } => failure.hint(format!(
                "nothing was changed; to restore it there: `takeback -C {} rollback {id}`",
                workspace.display()
            )),
        }
    }
}

impl From<ShowError> for Failure {
    fn from(error: ShowError) -> Failure {
        match error {
            ShowError::Take(error) => error.into(),
            ShowError::Find(error) => error.into(),
            ShowError::Store(error) => error.into(),
        }
    }
}

impl From<CompareError> for Failure {
    fn from(error: CompareError) -> Failure {
        match error {
            CompareError::NoSuchPath(_) | CompareError::InNeither(_) => Failure::of(&error),
            CompareError::Open(error) => error.into(),
            CompareError::Store(error) => error.into(),
            CompareError::Diff(DiffError::Capture(error)) => error.into(),
            CompareError::Diff(DiffError::Object(error)) => StoreError::from(error).into(),
        }
    }
}
