//! Hints for errors in rollbacks.

use takeback_tree::{BlockedPath, PlanError, RestoreError};
use takeback_undo::{IndexError, RollbackError};

use super::{LIST, VERIFY};
use crate::failure::Failure;
use crate::output;

const SKIP: &str = "--skip-blocked restores everything else";

/// The maximum number of paths that an error names.
const MAX_NAMED: usize = 5;

impl From<RollbackError> for Failure {
    fn from(error: RollbackError) -> Failure {
        let failure = Failure::of(&error);
        match error {
            RollbackError::Take(error) => error.into(),
            RollbackError::Find(error) => error.into(),
            RollbackError::Outside { .. } => failure.hint("give paths inside the workspace"),
            RollbackError::NoMatch(_) => failure.hint(
                "`takeback diff CHECKPOINT` lists what has changed; a pattern such as '*.py' or \
                 'src/**/test_?.py' is relative to the current directory",
            ),
            RollbackError::NothingLeft => failure
                .hint("a path after `:!` or `:^` is left out; `takeback diff CHECKPOINT` lists what has changed"),
            RollbackError::Plan(error) => error.into(),
            RollbackError::Restore(RestoreError::Blocked(paths)) => {
                name_paths(failure, &paths).hint(format!("nothing was changed; {SKIP}"))
            }
            RollbackError::Restore(RestoreError::Left { failure: cause, .. }) => {
                name_paths(failure, &cause.blocked_paths())
                    .hint(format!("everything else is unchanged; {SKIP}"))
            }
            RollbackError::Restore(error) => error.into(),
            RollbackError::Pin(error) => error.into(),
            RollbackError::Store(error) => error.into(),
            RollbackError::Capture(error) => error.into(),
            RollbackError::Ledger(error) => error.into(),
            RollbackError::Open(error) => error.into(),
            RollbackError::Changed(paths) if paths.is_empty() => {
                failure.hint("--dry-run shows the new plan")
            }
            RollbackError::Changed(paths) => name_paths(failure, &paths)
                .hint(format!("--dry-run shows the new plan, and {SKIP}")),
            RollbackError::NoChat(_) => {
                failure.hint("only the checkpoints of an agent's turns belong to a conversation")
            }
            RollbackError::NoIndex(_) => failure.hint("drop --index"),
            RollbackError::Index(IndexError::Busy(_)) => failure.hint(
                "nothing was changed; wait for git, or remove the file if git is not running",
            ),
            RollbackError::IndexNotRestored(_) => {
                failure.hint("fix the problem, then repeat with --index")
            }
            RollbackError::NoTurn | RollbackError::NotATurn(_) => failure.hint(LIST),
            RollbackError::TurnLost(..) => {
                failure.hint("`takeback rollback` returns the whole workspace to a checkpoint")
            }
            RollbackError::Parts(_) => {
                failure.hint("nothing was changed; `--workspace-only` restores the workspace alone")
            }
            RollbackError::NothingToUndo
            | RollbackError::NothingToRedo
            | RollbackError::Edit(_)
            | RollbackError::Index(_) => failure,
        }
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Failure {
        match error {
            PlanError::Capture(error) => error.into(),
            PlanError::Target(_) => Failure::of(&error).hint(VERIFY),
            PlanError::Unfinished => {
                Failure::of(&error).hint("fix the problem above, then run the command again")
            }
            PlanError::NoSuchPath(_) | PlanError::Io { .. } => Failure::of(&error),
        }
    }
}

impl From<RestoreError> for Failure {
    fn from(error: RestoreError) -> Failure {
        let failure = Failure::of(&error);
        match error {
            RestoreError::Changed(_) | RestoreError::Outdated => {
                failure.hint("nothing was restored; --dry-run shows the new plan")
            }
            RestoreError::NotReverted { .. } => failure.hint(
                "free disk space or fix the permissions; the next takeback command continues",
            ),
            RestoreError::Object(_) => failure.hint(VERIFY),
            RestoreError::Io { .. } | RestoreError::Unverified(_) => {
                failure.hint(format!("nothing was changed; {SKIP}"))
            }
            _ => failure,
        }
    }
}

fn name_paths(mut failure: Failure, paths: &[BlockedPath]) -> Failure {
    for path in paths.iter().take(MAX_NAMED) {
        failure = failure.because_of(&output::blocked_line(path));
    }
    match paths.len().saturating_sub(MAX_NAMED) {
        0 => failure,
        more => failure.because_of(&format!("{more} more")),
    }
}
