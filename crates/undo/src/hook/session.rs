//! The reporting session: where it works, which turn it is in, and which session it works for.

use std::iter;
use std::path::{Path, PathBuf};

use serde_json::Value;
use takeback_base::errors::error_chain;
use takeback_base::paths::canonicalize;
use takeback_ledger::{Event as LedgerEvent, MessageRecord};
use takeback_tree::{AnyPath, WorkspaceError};

use super::Handled;
use super::follow_up::FollowUp;
use super::report::Report;
use super::state::{SessionState, Turn};
use crate::Opened;

/// The directory and workspace that a report is about, resolved once.
pub(super) struct Workplace {
    /// The directory that the agent works in: canonical, or as reported if it no longer exists.
    pub(super) directory: PathBuf,
    /// The root of the session's workspace if the directory is inside it, otherwise the root of the
    /// workspace that the directory belongs to.
    pub(super) root: PathBuf,
    /// True if the root is not one of the forbidden roots.
    pub(super) is_workspace: bool,
}

/// The state of the reporting session: the current state, and the stored one.
pub(super) struct ReportingSession {
    pub(super) state: SessionState,
    stored: Option<SessionState>,
}

/// Finds the directory and workspace of a report, and the state of its session.
pub(super) fn resolve(
    opened: &Opened,
    report: &Report,
    handled: &mut Handled,
) -> (Workplace, ReportingSession) {
    let id = report.session_id();
    let parent = report.parent.as_ref().map(|parent| format!("{}:{parent}", report.agent));
    let directory = canonicalize(&report.directory);
    let is_gone = directory.is_err();
    let directory = directory.unwrap_or_else(|_| report.directory.clone());
    let stored = opened.session_state(&id);
    let Some(mut state) = stored.clone() else {
        let root = find_first_root(opened, report, &directory, handled);
        let workplace = Workplace::new(opened, directory, root.clone());
        let turns = last_turn(opened, &id);
        let state = SessionState::new(id, AnyPath(root), parent, turns);
        return (workplace, ReportingSession { state, stored });
    };
    state.parent = state.parent.or(parent);
    let known = &state.workspace.0;
    let root = if directory.starts_with(known) && opened.forbidden.refusal(known).is_none() {
        known.clone()
    } else if is_gone {
        directory.clone()
    } else {
        opened.find_root(&directory).unwrap_or_else(|_| directory.clone())
    };
    (Workplace::new(opened, directory, root), ReportingSession { state, stored })
}

impl Workplace {
    fn new(opened: &Opened, directory: PathBuf, root: PathBuf) -> Workplace {
        let is_workspace = opened.forbidden.refusal(&root).is_none();
        Workplace { directory, root, is_workspace }
    }
}

/// Finds the workspace of a session that has no stored state yet.
fn find_first_root(
    opened: &Opened,
    report: &Report,
    directory: &Path,
    handled: &mut Handled,
) -> PathBuf {
    opened.find_root(directory).unwrap_or_else(|source| {
        if !report.event.ends_turn() {
            let path = report.directory.clone();
            let error = WorkspaceError::Open { path, source };
            handled.fail(opened, &report.directory, &error_chain(&error));
        }
        report.directory.clone()
    })
}

/// Returns the number of a session's last turn according to the ledger. A state file is not enough,
/// because a session may be resumed after its state file has been removed.
fn last_turn(opened: &Opened, session: &str) -> i64 {
    let ledger = opened.ledger().ok().flatten();
    let turns = ledger.and_then(|ledger| ledger.turns(session).ok());
    turns.and_then(|turns| Some(turns.last()?.turn)).unwrap_or(0)
}

/// Returns the turn that a report is part of. Returns `None` if the session has no stored state
/// yet.
pub fn current_turn(opened: &Opened, report: &Report) -> Option<Turn> {
    Some(find_owner(opened, &opened.session_state(&report.session_id())?).current_turn())
}

/// Finds the session that owns the given session's work. For a subagent, this is the parent
/// session.
pub(super) fn find_owner(opened: &Opened, session: &SessionState) -> SessionState {
    const MAX_DEPTH: usize = 8;
    let parent = |state: &SessionState| opened.session_state(state.parent.as_ref()?);
    let ancestors = iter::successors(Some(session.clone()), parent).take(MAX_DEPTH);
    ancestors.last().expect("a session is its own first ancestor")
}

/// Begins the turn that a report announces, and records the prompt. If the session had ended,
/// resumes it.
pub(super) fn start_turn(
    opened: &Opened,
    report: &Report,
    session: &mut SessionState,
    prompt: Option<&str>,
) -> Vec<LedgerEvent> {
    // Some agents report the same turn twice.
    if report.turn.is_some() && report.turn == session.turn && !session.over {
        return Vec::new();
    }
    session.begin_turn(report.turn.clone());
    let resumed = LedgerEvent::SessionResumed { session: session.session.clone() };
    let Some(prompt) = prompt else { return vec![resumed] };
    session.prompted = Some(opened.now());
    let message = MessageRecord {
        role: "user".into(),
        content: Some(Value::from(prompt)),
        timestamp: session.prompted,
        ..MessageRecord::default()
    };
    let session = session.session.clone();
    vec![resumed, LedgerEvent::Messages { session, messages: vec![message] }]
}

/// Begins a turn if the call belongs to no known turn.
pub(super) fn start_turn_of_call(
    report: &Report,
    session: &mut SessionState,
) -> Option<LedgerEvent> {
    let is_another = report.turn.is_some() && report.turn != session.turn;
    if !(session.over || is_another || session.turns == 0) {
        return None;
    }
    session.begin_turn(report.turn.clone());
    Some(LedgerEvent::SessionResumed { session: session.session.clone() })
}

impl ReportingSession {
    /// Stores the state of the session if it changed.
    pub(super) fn store(&self, opened: &Opened, handled: &mut Handled) {
        if self.stored.as_ref() != Some(&self.state)
            && let Err(error) = opened.set_session_state(&self.state)
        {
            let message = format!("cannot record the turn: {error}");
            handled.fail(opened, &self.state.workspace.0, &message);
        }
    }

    /// Ends the current turn.
    pub(super) fn end_turn(&mut self, opened: &Opened, handled: &mut Handled) {
        self.state.over = true;
        self.store(opened, handled);
        handled.follow_up = Some(FollowUp::tend(opened, &self.state));
    }
}
