//! The agents' own conversations follow a rollback.

use takeback_base::errors::error_chain;
use takeback_ledger::LedgerError;
use takeback_tree::Workspace;

use super::notices;
use super::planned::{MovedSession, RollbackView};
use crate::Opened;
use crate::history::record::RollbackRecord;

/// Returns the agents' own conversations to where a rollback has led. A conversation that cannot be
/// moved stays as it is, and the reason is added to the view. The files have been restored by now,
/// so nothing here fails.
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
        let Some(new) = copied_session(session) else { continue };
        match notices::leave_for_rewound(opened, &new, workspace.path(), view) {
            // The agent gives the copy another id when it opens it.
            Ok(()) | Err(LedgerError::NoSuchSession(_)) => {}
            Err(error) => {
                let error = error_chain(&error);
                view.warnings.push(format!("cannot notify the agent of {new}: {error}"));
            }
        }
    }
    view.sessions = moved;
}

/// Returns the session that continues in place of a session that was moved, if it is another one.
fn copied_session(moved: &MovedSession) -> Option<String> {
    let resume = moved.resume.as_ref()?;
    let new = format!("{}:{}", resume.agent, resume.session.as_ref()?);
    (new != moved.session).then_some(new)
}

/// Does the same after an interrupted rollback was finished, and tells the user. An agent that is
/// about to continue the old conversation does not wait for this.
pub(super) fn follow_after_recovery(opened: &Opened, done: &RollbackRecord) {
    let (Some(follow), true) = (opened.conversations.follow, opened.is_attended()) else { return };
    for chat in done.chats() {
        if let (Ok(Some(resume)), Some(tell)) =
            (follow(opened, &chat.session), opened.conversations.on_recovery)
        {
            tell(&resume);
        }
    }
}
