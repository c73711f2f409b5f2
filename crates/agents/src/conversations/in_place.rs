//! Takes back a conversation inside the open agent, under its own id. Codex can do this, because a
//! daemon holds its conversations. The daemon leaves the old log unchanged, and begins another log
//! for everything that follows. For Cline, see `hidden`.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use takeback_undo::rollback::leave_in_place;
use takeback_undo::{Opened, Resume};

use super::{Conversation, ConversationError, find_logs, hidden, notes};
use crate::rewind::{Daemon, InPlace, Rewind, ThreadStatus, find_rewind};

/// The maximum time to wait for the end of the turn in which the user typed the command.
const PATIENCE: Duration = Duration::from_secs(60);

/// A point to which the daemon can take an open conversation back.
struct Point {
    daemon: Daemon,
    status: ThreadStatus,
    /// The agent's own id for the first turn to take back.
    turn: String,
}

/// Takes back the conversation of a session inside the open agent. Returns `None` if this is
/// impossible and a copy is needed.
pub(super) fn take_back(opened: &Opened, session: &str) -> Option<Resume> {
    let rewind = find_rewind(session.split_once(':')?.0)?;
    match rewind.in_place {
        InPlace::Never => None,
        InPlace::Daemon => ask_daemon(opened, rewind, session),
        InPlace::Plugin => {
            // Cline does not say in which of its sessions the user typed the command.
            let is_typed_here = opened.typed_in() == Some(rewind.agent);
            let is_hidden = is_typed_here && hidden::update(opened, rewind, session).is_ok();
            is_hidden.then(|| stay(opened, rewind, session)).flatten()
        }
    }
}

/// Has the daemon take back the conversation of a session, if the conversation is open and no turn
/// is running. If the user typed the command in this conversation, the turn in which it was typed
/// is still running. In that case, this function takes nothing back, and [`take_back_when_idle`]
/// must follow.
fn ask_daemon(opened: &Opened, rewind: &Rewind, session: &str) -> Option<Resume> {
    let is_typed_here = opened.typed_in() == Some(session);
    let point = find_point(opened, rewind, session).ok()??;
    match point.status {
        ThreadStatus::Idle if !is_typed_here => revert(opened, rewind, session, point).ok()?,
        ThreadStatus::Idle | ThreadStatus::Active if is_typed_here => {}
        _ => return None,
    }
    stay(opened, rewind, session)
}

/// Returns the instructions for continuing a conversation that was taken back in place.
fn stay(opened: &Opened, rewind: &Rewind, session: &str) -> Option<Resume> {
    let (_, id) = session.split_once(':')?;
    let log = find_logs(opened, rewind.agent, id).into_iter().next()?;
    let record = opened.ledger_or_new().ok()?.session(session).ok()?;
    Some(Resume {
        agent: rewind.agent.to_owned(),
        session: Some(id.to_owned()),
        argv: rewind.command(id, &log.path),
        cwd: super::find_directory(rewind, [&log]).or(record.workspace),
        typed: None,
        file: Some(log.path.display().to_string()),
        in_place: true,
    })
}

/// Takes back the conversation of a session once the turn in which the user typed the command has
/// ended, and settles the notices about it. Returns false if the conversation was not changed.
pub fn take_back_when_idle(opened: &Opened, session: &str) -> Result<bool, ConversationError> {
    let (agent, _) = session.split_once(':').unwrap_or_default();
    let Some(rewind) = find_rewind(agent) else { return Ok(false) };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let Some(point) = find_point(opened, rewind, session)? else { return Ok(false) };
        match point.status {
            ThreadStatus::Idle => {
                revert(opened, rewind, session, point)?;
                leave_in_place(opened, session)?;
                return Ok(true);
            }
            ThreadStatus::Active if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(50));
            }
            _ => return Ok(false),
        }
    }
}

/// Finds the point to which a conversation is to be taken back. Returns `None` if there is nothing
/// to take back, if the conversation is not open, or if its log has messages that the ledger does
/// not know, such as a prompt after the rollback.
fn find_point(
    opened: &Opened,
    rewind: &Rewind,
    session: &str,
) -> Result<Option<Point>, ConversationError> {
    let (agent, id) = session.split_once(':').unwrap_or_default();
    let directory = opened.log_directory(agent).and_then(Path::parent);
    let Some(directory) = directory.filter(|_| rewind.in_place == InPlace::Daemon) else {
        return Ok(None);
    };
    let Ok(mut daemon) = Daemon::connect(directory) else { return Ok(None) };
    let Ok(status) = daemon.thread_status(id) else { return Ok(None) };
    let conversation = Conversation::read(opened, session, None)?;
    let is_prompt = conversation.first_gone().is_some_and(|gone| gone.is_prompt);
    let logs = find_logs(opened, agent, id);
    let Some(log) = logs.first().filter(|_| is_prompt && status != ThreadStatus::Absent) else {
        return Ok(None);
    };
    let (kept, own) = (conversation.kept(), notes::own_directory(opened));
    let known: BTreeSet<&str> =
        conversation.messages.iter().filter_map(|message| message.origin.as_deref()).collect();
    if rewind.is_at(log, &kept, &own)? || !rewind.has_only(log, &known, &own)? {
        return Ok(None);
    }
    let turn = rewind.find_turn(&conversation.request(opened, log, &kept, &own))?;
    Ok(Some(Point { daemon, status, turn }))
}

/// Takes a conversation back to a point, and checks that its newest log ends there.
fn revert(
    opened: &Opened,
    rewind: &Rewind,
    session: &str,
    mut point: Point,
) -> Result<(), ConversationError> {
    let (agent, id) = session.split_once(':').unwrap_or_default();
    let failed = |error| ConversationError::Daemon(error);
    point.daemon.revert_thread(id, &point.turn).map_err(failed)?;
    let kept = Conversation::read(opened, session, None)?.kept();
    let logs = find_logs(opened, agent, id);
    let newest = logs.first().ok_or(ConversationError::NoLog)?;
    match rewind.is_at(newest, &kept, &notes::own_directory(opened))? {
        true => Ok(()),
        false => Err(ConversationError::Daemon(std::io::ErrorKind::InvalidData.into())),
    }
}
