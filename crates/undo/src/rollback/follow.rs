//! Moves the agents' own conversations to the point that a rollback returned to.

use takeback_base::errors::error_chain;
use takeback_ledger::LedgerError;
use takeback_tree::Workspace;

use super::notices;
use super::planned::{MovedSession, RollbackView};
use crate::Opened;

/// Moves the agents' own conversations to the point that a rollback returned to. A conversation
/// that cannot be moved stays as it is, and the reason is added to the view. This never fails,
/// because the files have already been restored.
pub(super) fn follow_sessions(opened: &Opened, workspace: &Workspace<'_>, view: &mut RollbackView) {
    let Some(follow) = opened.conversations.follow else { return };
    let mut moved = std::mem::take(&mut view.sessions);
    for session in &mut moved {
        match follow(opened, &session.session) {
            Ok(resume) => session.resume = resume,
            Err(reason) => session.stays = Some(reason),
        }
    }
    for session in &moved {
        // If the user typed the command in this conversation, the conversation is not taken back
        // until later.
        let is_back = session.resume.as_ref().is_some_and(|resume| resume.in_place)
            && opened.typed_in() != Some(&session.session);
        if is_back && let Err(error) = notices::leave_in_place(opened, &session.session) {
            let error = error_chain(&error);
            view.warnings
                .push(format!("cannot update the notice for {}: {error}", session.session));
        }
        let Some(new) = copied_session(session) else { continue };
        match notices::leave_for_rewound(opened, &new, workspace.path(), view) {
            // The agent gives the copy another id when it opens the copy.
            Ok(()) | Err(LedgerError::NoSuchSession(_)) => {}
            Err(error) => {
                let error = error_chain(&error);
                view.warnings.push(format!("cannot notify the agent of {new}: {error}"));
            }
        }
    }
    view.sessions = moved;
}

/// Returns the id of the copy that continues in place of a session that was moved. Returns `None`
/// if the session itself continues.
fn copied_session(moved: &MovedSession) -> Option<String> {
    let resume = moved.resume.as_ref()?;
    let new = format!("{}:{}", resume.agent, resume.session.as_ref()?);
    (new != moved.session).then_some(new)
}

/// Moves the agents' own conversations of these sessions to the point that a rollback returned to,
/// and tells the user how to continue these conversations. This is called after an interrupted
/// rollback has been finished. Does nothing unless a user is waiting.
pub(crate) fn follow_after_recovery(opened: &Opened, sessions: &[String]) {
    let (Some(follow), true) = (opened.conversations.follow, opened.is_attended()) else { return };
    for session in sessions {
        if let (Ok(Some(resume)), Some(tell)) =
            (follow(opened, session), opened.conversations.on_recovery)
        {
            tell(&resume);
        }
    }
}
