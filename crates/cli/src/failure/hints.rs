//! Converts the errors of the other crates into failures, and adds hints.

use takeback_agents::LogError;
use takeback_import::ImportError;
use takeback_import::hermes::HermesError;
use takeback_ledger::{
    ExchangeError, LedgerError, OpenError, RepairError as LedgerRepairError, TitleError,
};
use takeback_tree::{
    BlockedPath, CaptureError, CheckoutError, DiffError, GcError, MirrorError, MoveError, PinError,
    PlanError, RepairError, RestoreError, StoreError, WorkspaceError,
};
use takeback_undo::{
    CompareError, DeleteError, FindError, ForkError, IndexError, LabelError, MoveHistoryError,
    NameError, NearCheckpoint, PruneError, RollbackError, ShowError, StatusError, TakeError,
    UpdateMirrorError,
};
#[cfg(not(fuzzing))]
use takeback_web::CertificateError;

use super::Failure;
use super::task_hints::hint_task;
use crate::output;

impl From<takeback_agents::InstallError> for Failure {
    fn from(error: takeback_agents::InstallError) -> Failure {
        Failure::of(&error)
    }
}

const VERIFY: &str = "`takeback checkpoints verify` shows what is affected";
pub(super) const SPACE: &str = "check the permissions and the free space of takeback's directory";
const LATER: &str = "try again when that process is done";
const LIST: &str = "`takeback list` lists the checkpoints of this workspace";

const SKIP: &str = "--skip-blocked restores everything else";

/// The maximum number of paths that an error names.
const MAX_NAMED: usize = 5;

/// Names the paths that blocked a rollback.
fn name_paths(mut failure: Failure, paths: &[BlockedPath]) -> Failure {
    for path in paths.iter().take(MAX_NAMED) {
        failure = failure.because_of(&output::blocked_line(path));
    }
    match paths.len().saturating_sub(MAX_NAMED) {
        0 => failure,
        more => failure.because_of(&format!("{more} more")),
    }
}

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

impl From<ShowError> for Failure {
    fn from(error: ShowError) -> Failure {
        match error {
            ShowError::Take(error) => error.into(),
            ShowError::Find(error) => error.into(),
            ShowError::Store(error) => error.into(),
        }
    }
}

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

#[cfg(not(fuzzing))]
impl From<CertificateError> for Failure {
    fn from(error: CertificateError) -> Failure {
        Failure::of(&error).hint("both files must be in PEM format, and belong together")
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

impl From<RollbackError> for Failure {
    fn from(error: RollbackError) -> Failure {
        let failure = Failure::of(&error);
        match error {
            RollbackError::Take(error) => error.into(),
            RollbackError::Find(error) => error.into(),
            RollbackError::Outside { .. } => failure.hint("give paths inside the workspace"),
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

impl From<ForkError> for Failure {
    fn from(error: ForkError) -> Failure {
        let failure = Failure::of(&error);
        match error {
            ForkError::Unknown(_) => failure.hint(
                "`takeback list` lists the checkpoints, `takeback sessions` lists the sessions",
            ),
            ForkError::Ambiguous(_) => {
                failure.hint("name the checkpoint by its number, or the session by its id")
            }
            ForkError::NoPoint(_) => {
                failure.hint("write SESSION@TURN, SESSION@CHECKPOINT or SESSION@now")
            }
            ForkError::NoSuchTurn { session, .. } => {
                failure.hint(format!("`takeback sessions show {session}` shows the conversation"))
            }
            ForkError::NoConversation(id) => failure.hint(format!(
                "name the session: `takeback fork SESSION@{}`",
                &id.to_string()[..7]
            )),
            ForkError::PointUnknown(session) => {
                failure.hint(format!("fork from a turn instead: `takeback fork {session}@TURN`"))
            }
            ForkError::OtherAgent(..) => failure
                .hint("drop --agent; `--agent takeback` continues it with takeback's own agent"),
            ForkError::NoWorkspace(_) => failure.hint("--chat-only forks only the conversation"),
            ForkError::FilesUnknown { session, before, after, .. } => {
                hint_near_checkpoints(failure, &session, before.as_deref(), after.as_deref())
            }
            ForkError::PartlyTakenBack { session, .. } => {
                failure.hint(format!("`takeback fork {session}@now` forks it as it is now"))
            }
            ForkError::NotEmpty(_) => {
                failure.hint("nothing was changed; name a directory that does not exist yet")
            }
            ForkError::Inside(_) => failure.hint(
                "name a directory outside the workspace: a rollback of the workspace would delete \
                 the fork",
            ),
            ForkError::Refused { .. } => failure.hint("name another directory"),
            ForkError::Create { .. } => {
                failure.hint("check the permissions and the free space there")
            }
            ForkError::Incomplete => failure.hint(BUSY),
            ForkError::Checkout(CheckoutError::Io { .. }) => {
                failure.hint("nothing is left of the fork; check the free space there")
            }
            ForkError::Checkout(CheckoutError::Object(_)) => failure.hint(VERIFY),
            ForkError::Checkout(CheckoutError::Store(error)) => error.into(),
            ForkError::Find(FindError::Elsewhere { id, workspace }) => failure
                .hint(format!("to fork from it: `takeback -C {} fork {id}`", workspace.display())),
            ForkError::Find(error) => error.into(),
            ForkError::Take(error) => error.into(),
            ForkError::Capture(error) => error.into(),
            ForkError::Pin(error) => error.into(),
            ForkError::Store(error) => error.into(),
            ForkError::Ledger(error) => error.into(),
            ForkError::Open(error) => error.into(),
        }
    }
}

/// Names the checkpoints before and after the end of a turn whose files are not known.
fn hint_near_checkpoints(
    mut failure: Failure,
    session: &str,
    before: Option<&NearCheckpoint>,
    after: Option<&NearCheckpoint>,
) -> Failure {
    let short = |near: &NearCheckpoint| near.id.to_string()[..7].to_owned();
    for (near, which) in [(before, "last state before"), (after, "first state after")] {
        let Some(near) = near else { continue };
        let (id, time) = (short(near), output::local_time(&near.time));
        let reason = &near.reason;
        failure = failure.because_of(&format!("the {which} it is {id}, {time}, {reason}"));
    }
    let near =
        after.or(before).map(|near| format!("{session}@{}` uses that state, `", short(near)));
    let near = near.unwrap_or_default();
    failure.hint(format!(
        "`{near}{session}@now` uses the current files, --chat-only forks only the conversation"
    ))
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

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Failure {
        match error {
            ImportError::Store(error) => error.into(),
            ImportError::Pin(error) => error.into(),
            ImportError::Adopt(_) => Failure::of(&error),
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

impl From<StatusError> for Failure {
    fn from(error: StatusError) -> Failure {
        match error {
            StatusError::Store(error) => error.into(),
            StatusError::Io(_) => Failure::of(&error).hint(SPACE),
        }
    }
}

pub(super) const REPAIR_LEDGER: &str =
    "`takeback sessions repair` recovers what is readable and keeps the damaged file";
const BUSY: &str = "other processes are writing; try again when they are done";

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Failure {
        let failure = Failure::of(&error);
        match error {
            OpenError::Io { .. } | OpenError::Sqlite { .. } => failure.hint(SPACE),
            OpenError::TooNew { .. } => failure.hint("nothing was changed; update takeback"),
            OpenError::Foreign { .. } => failure
                .hint("move that file out of the way, or choose another directory with --home"),
            OpenError::Damaged { .. } => failure.hint(REPAIR_LEDGER),
            OpenError::Unfinished { .. } => failure.hint("`takeback sessions repair` finishes it"),
            OpenError::Network { .. } => failure.hint(
                "stop the other takeback processes and retry, or choose a local directory with \
                 --home",
            ),
        }
    }
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Failure {
        let failure = Failure::of(&error);
        match error {
            LedgerError::Busy { .. } => failure.hint(BUSY),
            LedgerError::NoSuchSession(_) => {
                failure.hint("`takeback sessions list` lists the sessions")
            }
            LedgerError::Ambiguous { .. } => failure.hint("give more of the id"),
            LedgerError::NoSuchMessage { session, .. } => failure.hint(format!(
                "`takeback sessions show {session}` shows the numbers of its messages"
            )),
            LedgerError::Title(TitleError::Taken { .. }) => {
                failure.hint("choose another title, or rename the other session first")
            }
            LedgerError::WentOn(_) => {
                failure.hint("`takeback sessions show` still shows them, marked as undone")
            }
            LedgerError::Open(error) => error.into(),
            LedgerError::Damaged(_) => failure.hint(REPAIR_LEDGER),
            LedgerError::Sqlite(_) => failure.hint(SPACE),
            error => hint_task(failure, &error),
        }
    }
}

impl From<ExchangeError> for Failure {
    fn from(error: ExchangeError) -> Failure {
        match error {
            ExchangeError::Ledger(error) => error.into(),
            ExchangeError::Io(_) | ExchangeError::LongLine => Failure::of(&error),
        }
    }
}

impl From<LedgerRepairError> for Failure {
    fn from(error: LedgerRepairError) -> Failure {
        match error {
            LedgerRepairError::Open(error) => error.into(),
            LedgerRepairError::Ledger(error) => error.into(),
            LedgerRepairError::InUse => {
                Failure::of(&error).hint("stop the agents that use it, then try again")
            }
            LedgerRepairError::Io { .. } => Failure::of(&error).hint(SPACE),
        }
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Failure {
        match error {
            LogError::Ledger(error) => error.into(),
            error => Failure::of(&error),
        }
    }
}

impl From<HermesError> for Failure {
    fn from(error: HermesError) -> Failure {
        let failure = Failure::of(&error);
        match error {
            HermesError::Missing { .. } => failure
                .hint("name Hermes's directory: `takeback sessions import --from hermes DIR`"),
            HermesError::Copy { .. } | HermesError::Refused { .. } | HermesError::Sqlite { .. } => {
                failure.hint("nothing was imported; check where the file comes from")
            }
            _ => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_busy_ledger_says_what_to_do() {
        let failure = Failure::from(LedgerError::Busy { waited: Duration::from_secs(60) });
        assert_eq!(failure.message, "other processes kept the ledger locked for 60s");
        assert_eq!(failure.hint.as_deref(), Some(BUSY));
    }
}
