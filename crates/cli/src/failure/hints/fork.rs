//! Hints for errors in making forks.

use takeback_tree::CheckoutError;
use takeback_undo::{FindError, ForkError, NearCheckpoint};

use super::{BUSY, VERIFY};
use crate::failure::Failure;
use crate::output;

impl From<ForkError> for Failure {
    fn from(error: ForkError) -> Failure {
        let failure = Failure::of(&error);
        match error {
            ForkError::Unknown(_) => failure.hint(
                "`takeback list` lists the checkpoints; `takeback sessions` lists the sessions",
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
        failure = failure.because_of(&format!("the {which} it: {id}, {time}, {reason}"));
    }
    let near =
        after.or(before).map(|near| format!("{session}@{}` uses that state; `", short(near)));
    let near = near.unwrap_or_default();
    failure.hint(format!(
        "`{near}{session}@now` uses the current files; --chat-only forks only the conversation"
    ))
}
