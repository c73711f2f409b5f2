//! The source of a fork: the conversation and the checkpoint that the fork begins with.

use std::path::{Path, PathBuf};
use std::time::Duration;

use takeback_ledger::{ConversationPoint, Ledger, LedgerError, Turn};

use super::turn_end::{EndState, find_end_state};
use super::{ForkError, ForkPoint, NearCheckpoint, SessionPoint};
use crate::history::record::{Checkpoint, Kind, Record};
use crate::history::workspace::WorkspaceRef;
use crate::history::{
    FoundCheckpoint, History, find_workspace, find_workspace_with, new_record, open_workspace,
    pin_tree,
};
use crate::rollback::find_point_of_session;
use crate::{LedgerGuard, Opened};

/// The longest time that a fork waits for the ledger to be up to date.
const LEDGER_WAIT: Duration = Duration::from_secs(5);

/// The conversation and the files that a fork begins with.
pub(super) struct ForkSource {
    pub(super) conversation: Option<ForkedConversation>,
    /// The checkpoint with the files; `None` if they were not requested.
    pub(super) checkpoint: Option<Checkpoint>,
    /// The workspace that the files come from. Its directory need not exist.
    pub(super) workspace: Option<PathBuf>,
    pub(super) warnings: Vec<String>,
}

/// A conversation, up to the point at which it is forked.
pub(super) struct ForkedConversation {
    pub(super) session: String,
    /// The point; `None` means the end of the conversation.
    pub(super) point: Option<ConversationPoint>,
}

/// Finds the conversation at the given point and, on request, the files as they were then.
pub(super) fn find_source(
    opened: &Opened,
    from: &ForkPoint,
    wants_files: bool,
) -> Result<ForkSource, ForkError> {
    match from {
        ForkPoint::Checkpoint { directory, checkpoint } => {
            let workspace = find_workspace_with(opened, directory, checkpoint)?;
            find_at_checkpoint(opened, &workspace, checkpoint, None)
        }
        ForkPoint::Session { session, at } => {
            let ledger = open_ledger(opened)?;
            let ledger = ledger.ok_or_else(|| LedgerError::NoSuchSession(session.clone()))?;
            let session = ledger.resolve(session)?;
            match at {
                SessionPoint::Checkpoint(checkpoint) => {
                    let path = workspace_of(&ledger, &session)?;
                    drop(ledger);
                    let workspace = find_workspace(opened, Path::new(&path))?;
                    find_at_checkpoint(opened, &workspace, checkpoint, Some(session))
                }
                SessionPoint::Now => {
                    let path = wants_files.then(|| workspace_of(&ledger, &session)).transpose()?;
                    drop(ledger);
                    find_present(opened, session, path.as_deref())
                }
                SessionPoint::Turn(turn) => {
                    find_at_turn(opened, ledger, session, Some(*turn), wants_files)
                }
                SessionPoint::LastTurn => find_at_turn(opened, ledger, session, None, wants_files),
            }
        }
    }
}

/// Opens the ledger and adds all events that hooks have reported. Returns `None` if there is no
/// ledger.
fn open_ledger(opened: &Opened) -> Result<Option<LedgerGuard<'_>>, ForkError> {
    let Some(mut ledger) = opened.ledger()? else { return Ok(None) };
    ledger.set_wait(LEDGER_WAIT);
    match ledger.catch_up()? {
        true => Ok(Some(ledger)),
        false => Err(ForkError::Incomplete),
    }
}

/// Returns the workspace that a session works in.
fn workspace_of(ledger: &Ledger, session: &str) -> Result<String, ForkError> {
    let workspace = ledger.session(session)?.workspace;
    workspace.ok_or_else(|| ForkError::NoWorkspace(session.to_owned()))
}

/// Finds the files of a checkpoint, and the point that a session's conversation had reached when
/// the checkpoint was taken. If no session is given, uses the session that the checkpoint belongs
/// to, if any.
fn find_at_checkpoint(
    opened: &Opened,
    workspace: &WorkspaceRef<'_>,
    text: &str,
    session: Option<String>,
) -> Result<ForkSource, ForkError> {
    let history = History::read(workspace.store, &workspace.id)?;
    let found = history.find(workspace.store, text)?;
    let mut warnings = Vec::new();
    let own = found.checkpoint.record.call.as_ref().map(|call| call.session.clone());
    let conversation = match (session, own) {
        (Some(session), _) => find_conversation(opened, &history, &found, session)?,
        (None, Some(own)) => match find_conversation(opened, &history, &found, own) {
            Err(ForkError::Ledger(LedgerError::NoSuchSession(session))) => {
                warnings.push(format!("the conversation is not in the ledger: {session}"));
                None
            }
            found => found?,
        },
        (None, None) => None,
    };
    if found.checkpoint.record.late {
        warnings.push(
            "the checkpoint was completed late: it may contain changes that its call made"
                .to_owned(),
        );
    }
    let checkpoint = Some(found.checkpoint.clone());
    Ok(ForkSource { conversation, checkpoint, workspace: Some(workspace.path.clone()), warnings })
}

/// Finds the point that a session's conversation had reached when a checkpoint was taken. Returns
/// `None` if there is no ledger.
fn find_conversation(
    opened: &Opened,
    history: &History,
    found: &FoundCheckpoint<'_>,
    session: String,
) -> Result<Option<ForkedConversation>, ForkError> {
    let Some(ledger) = open_ledger(opened)? else { return Ok(None) };
    let has_messages = ledger.session(&session)?.message_count > 0;
    let point = find_point_of_session(&ledger, history, found, &session)?;
    let Some(point) = point else {
        // A conversation without messages has only one point.
        return match has_messages {
            true => Err(ForkError::PointUnknown(session)),
            false => Ok(Some(ForkedConversation { session, point: None })),
        };
    };
    Ok(Some(ForkedConversation { session, point }))
}

/// Finds the end of a turn: its last message, and the files after its last call. Without a number,
/// finds the end of the session's last turn that has not been taken back.
fn find_at_turn(
    opened: &Opened,
    ledger: LedgerGuard<'_>,
    session: String,
    number: Option<i64>,
    wants_files: bool,
) -> Result<ForkSource, ForkError> {
    let turns = ledger.turns(&session)?;
    let turn = match number {
        Some(number) => {
            let missing = || ForkError::NoSuchTurn {
                session: session.clone(),
                turn: number,
                turns: turns.len(),
            };
            Some(turns.iter().find(|turn| turn.turn == number).ok_or_else(missing)?)
        }
        None => turns.iter().rev().find(|turn| !turn.undone),
    };
    let mut source =
        ForkSource { conversation: None, checkpoint: None, workspace: None, warnings: Vec::new() };
    let mut point = None;
    if let Some(turn) = turn {
        let end = ledger.end_of_turn(&session, turn)?;
        if end.is_cut && wants_files {
            return Err(ForkError::PartlyTakenBack { session, turn: turn.turn });
        }
        point = Some(ConversationPoint::AfterMessage(end.seq));
    }
    if wants_files {
        let path = workspace_of(&ledger, &session)?;
        let is_without_turns = turns.is_empty();
        let (workspace, checkpoint) =
            find_files(opened, ledger, &session, turn.filter(|_| !is_without_turns), &path)?;
        (source.workspace, source.checkpoint) = (Some(workspace), Some(checkpoint));
    }
    source.conversation = Some(ForkedConversation { session, point });
    Ok(source)
}

/// Finds the checkpoint that holds the files as they were at the end of a turn.
fn find_files(
    opened: &Opened,
    ledger: LedgerGuard<'_>,
    session: &str,
    turn: Option<&Turn>,
    path: &str,
) -> Result<(PathBuf, Checkpoint), ForkError> {
    let unknown = |before: Option<&Checkpoint>, after: Option<&Checkpoint>| {
        let near =
            |known: Option<&Checkpoint>| known.map(|known| Box::new(NearCheckpoint::of(known)));
        let (session, turn) = (session.to_owned(), turn.map(|turn| turn.turn));
        ForkError::FilesUnknown { session, turn, before: near(before), after: near(after) }
    };
    // A missing directory without a history gives the same error as any other unknown state.
    let Ok(workspace) = find_workspace(opened, Path::new(path)) else {
        return Err(unknown(None, None));
    };
    let history = History::read(workspace.store, &workspace.id)?;
    let name = workspace.path.display().to_string();
    let end = find_end_state(&ledger, &history, session, turn, &name)?;
    // Locking the workspace may need the ledger, so the ledger is released first.
    drop(ledger);
    let found = match end {
        EndState::Known(known) => known,
        EndState::IfUnchanged(known) if is_unchanged(opened, &workspace.path, known) => known,
        EndState::IfUnchanged(known) => return Err(unknown(Some(known), None)),
        EndState::Unknown(before, after) => return Err(unknown(before, after)),
    };
    Ok((workspace.path, found.clone()))
}

/// Returns true if the files of a workspace are now as they were at a checkpoint.
fn is_unchanged(opened: &Opened, path: &Path, checkpoint: &Checkpoint) -> bool {
    let capture = || -> Result<_, ForkError> {
        let workspace = open_workspace(opened, path)?;
        let named: Vec<_> = checkpoint.record.named_paths().cloned().collect();
        let mut lock = opened.lock(&workspace)?;
        let capture = lock.capture(&opened.capture_options(workspace.path(), &named))?;
        lock.finish(opened.system_time())?;
        Ok(capture.tree)
    };
    capture().is_ok_and(|tree| tree == checkpoint.pin.tree)
}

/// Finds the end of a conversation, and captures the current files.
fn find_present(
    opened: &Opened,
    session: String,
    path: Option<&str>,
) -> Result<ForkSource, ForkError> {
    let conversation = Some(ForkedConversation { session, point: None });
    let warnings = Vec::new();
    let Some(path) = path else {
        return Ok(ForkSource { conversation, checkpoint: None, workspace: None, warnings });
    };
    let workspace = open_workspace(opened, Path::new(path))?;
    let history = History::read(workspace.store(), workspace.id())?;
    let mut lock = opened.lock(&workspace)?;
    lock.forget_limit();
    let capture =
        lock.capture(&opened.capture_options(workspace.path(), &history.named_paths()))?;
    opened.note_findings(workspace.path(), &capture);
    let tree = capture.tree;
    let newest = history.all.last().filter(|newest| newest.pin.tree == tree).cloned();
    let checkpoint = match newest {
        Some(newest) => newest,
        // The pin keeps the files in the store while they are being copied.
        None => {
            let record: Record = new_record(opened, &mut lock, Kind::State, "forked")?;
            pin_tree(opened, &mut lock, tree, record.with_capture(capture))?
        }
    };
    lock.finish(opened.system_time())?;
    let workspace = Some(workspace.subject());
    Ok(ForkSource { conversation, checkpoint: Some(checkpoint), workspace, warnings })
}
