//! The agents' own conversations, and how to continue each of them from its end or from an earlier
//! point.
//!
//! The ledger says which messages a conversation has. If the agent's log has exactly these
//! messages, the agent continues its own session. Otherwise `rewind` makes a copy of the log with
//! exactly these messages, and the ledger records the copy as a fork. `notes` remembers every copy,
//! so that if a process is killed while it makes a copy, a later process can finish or remove the
//! copy. `originals` keeps copies of whole logs that the agent may delete. `in_place` takes back
//! conversations inside the open agent, and `hidden` does so with the help of takeback's plugin.

mod hidden;
mod in_place;
mod notes;
mod originals;

use std::collections::BTreeSet;
use std::path::Path;

use takeback_base::errors::error_chain;
use takeback_ledger::{LedgerError, LogFact, MessageOrigin, OpenError, ParentKind, SessionRecord};
use takeback_undo::{Opened, Resume};

use self::notes::CopyNote;
use crate::logs::{LogRef, log_format};
use crate::rewind::{
    GoneMessage, MovedDirectory, PreparedCopy, Rewind, RewindError, RewindRequest, count_messages,
    find_rewind, read_pages,
};

pub use self::hidden::count_hidden;
pub use self::in_place::take_back_when_idle;
pub use self::notes::{MadeCopy, finish_copies, list_copies};

/// The maximum number of copies that are compared with the conversation before a new copy is made.
const MAX_COMPARED: usize = 16;

/// The reason why an agent's own conversation cannot be continued.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the variants")]
pub enum ConversationError {
    #[error("takeback does not know how to continue conversations of {0}")]
    UnknownAgent(String),
    #[error("its log was not found")]
    NoLog,
    #[error(transparent)]
    Rewind(#[from] RewindError),
    #[error("takeback's note about the copy cannot be written")]
    Note(#[source] std::io::Error),
    #[error("the agent did not take it back")]
    Daemon(#[source] std::io::Error),
    #[error("cannot keep a copy of its log")]
    Original(#[source] std::io::Error),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Determines how the agent can continue its own conversation after a rollback, from the point to
/// which the ledger rewound the session. See [`OwnConversations`](takeback_undo::OwnConversations).
pub fn follow_session(opened: &Opened, session: &str) -> Result<Option<Resume>, String> {
    let (agent, id) = session.split_once(':').unwrap_or_default();
    // A subagent's conversation is part of its parent's.
    if find_rewind(agent).is_none() || id.contains('/') {
        return Ok(None);
    }
    if let Some(resume) = in_place::take_back(opened, session) {
        return Ok(Some(resume));
    }
    continue_session(opened, session, None).map(Some).map_err(|error| error_chain(&error))
}

/// Generates an id for a fork that the session's own agent can continue. See
/// [`OwnConversations`](takeback_undo::OwnConversations).
pub fn name_fork(session: &str) -> Option<String> {
    let (agent, _) = session.split_once(':')?;
    Some(format!("{agent}:{}", find_rewind(agent)?.new_session()))
}

/// Determines how to continue the agent's own conversation of a session, from its current end or
/// from the end of an earlier turn. Makes a copy of the agent's log if the log continues beyond
/// that point.
pub fn continue_session(
    opened: &Opened,
    session: &str,
    at: Option<i64>,
) -> Result<Resume, ConversationError> {
    finish_copies(opened);
    let (agent, id) = session.split_once(':').unwrap_or_default();
    let rewind =
        find_rewind(agent).ok_or_else(|| ConversationError::UnknownAgent(agent.to_owned()))?;
    if at.is_none() {
        hidden::refresh(opened, rewind, session);
    }
    let record = opened.ledger_or_new()?.session(session)?;
    let logs = find_logs(opened, agent, id);
    let find_cwd = |log: Option<&LogRef>| {
        let directory = find_directory(rewind, log.into_iter().chain(&logs));
        directory.or_else(|| record.workspace.clone())
    };
    let way = |id: &str, log: &LogRef| Resume {
        agent: rewind.agent.to_owned(),
        session: Some(id.to_owned()),
        argv: rewind.command(id, &log.path),
        cwd: find_cwd(Some(log)),
        typed: rewind.typed(id, opened.log_directory(agent)),
        file: log.session.is_none().then(|| log.path.display().to_string()),
        in_place: false,
    };
    let conversation = Conversation::read(opened, session, at)?;
    if conversation.is_empty() {
        let (agent, argv) = (rewind.agent.to_owned(), rewind.new_command());
        let cwd = find_cwd(None);
        return Ok(Resume {
            agent,
            session: None,
            argv,
            cwd,
            typed: None,
            file: None,
            in_place: false,
        });
    }
    if let Some(log) = find_log_at(opened, rewind, &logs, &conversation.kept()) {
        return Ok(way(id, log));
    }
    if let Some((id, log)) = find_copy_at(opened, rewind, &conversation)? {
        return Ok(way(&id, &log));
    }
    let copy = match logs.is_empty() {
        false => copy_logs(opened, rewind, &conversation, &logs, None)?,
        // The agent has no log of this fork yet: make one from the log of an ancestor.
        true => fill_fork(opened, rewind, &conversation, &record)?,
    };
    Ok(way(&copy.session, &copy.log))
}

/// A part of a session: its messages, up to the point where it is to be continued.
struct Conversation {
    session: String,
    messages: Vec<MessageOrigin>,
    /// The numbers of the messages to keep.
    kept: BTreeSet<i64>,
}

impl Conversation {
    fn read(opened: &Opened, session: &str, at: Option<i64>) -> Result<Self, ConversationError> {
        let messages = opened.ledger_or_new()?.message_origins(session)?;
        let is_kept = |message: &&MessageOrigin| {
            !message.undone && at.is_none_or(|turn| message.turn <= turn)
        };
        let kept = messages.iter().filter(is_kept).map(|message| message.seq).collect();
        Ok(Conversation { session: session.to_owned(), messages, kept })
    }

    /// Returns the part of an ancestor's conversation that this one shares.
    fn of_ancestor(&self, opened: &Opened, ancestor: &str) -> Result<Self, ConversationError> {
        let messages = opened.ledger_or_new()?.message_origins(ancestor)?;
        Ok(Conversation { session: ancestor.to_owned(), messages, kept: self.kept.clone() })
    }

    fn kept_messages(&self) -> impl DoubleEndedIterator<Item = &MessageOrigin> {
        self.messages.iter().filter(|message| self.kept.contains(&message.seq))
    }

    /// Returns the agent's own ids for the messages to keep.
    fn kept(&self) -> BTreeSet<String> {
        self.kept_messages().filter_map(|message| message.origin.clone()).collect()
    }

    /// Returns the agent's own ids for the messages that must be left out although later messages
    /// are kept.
    fn undone(&self) -> BTreeSet<String> {
        let is_undone = |message: &&MessageOrigin| {
            message.seq < self.last() && !self.kept.contains(&message.seq)
        };
        let undone = self.messages.iter().filter(is_undone);
        undone.filter_map(|message| message.origin.clone()).collect()
    }

    /// Returns true if none of the messages to keep are in the agent's log.
    fn is_empty(&self) -> bool {
        self.kept_messages().all(|message| message.origin.is_none() && !message.inherited)
    }

    /// Returns the number of the last message to keep, or 0.
    fn last(&self) -> i64 {
        self.kept.last().copied().unwrap_or(0)
    }

    /// Returns the request to copy a log up to the point where this conversation ends. `kept` is
    /// the result of [`Conversation::kept`].
    fn request<'a>(
        &'a self,
        opened: &Opened,
        log: &'a LogRef,
        kept: &'a BTreeSet<String>,
        own_directory: &'a Path,
    ) -> RewindRequest<'a> {
        let (_, id) = self.session.split_once(':').unwrap_or_default();
        let last = self.kept_messages().rev().find_map(|message| message.origin.as_deref());
        RewindRequest {
            log,
            session: id,
            new: None,
            kept,
            last: last.unwrap_or_default(),
            gone: self.first_gone(),
            undone: self.undone(),
            moved: None,
            own_directory,
            now: opened.now(),
        }
    }

    /// Returns the first message in the agent's log that comes after the last message to keep.
    fn first_gone(&self) -> Option<GoneMessage<'_>> {
        let gone = self.messages.iter().filter(|message| message.seq > self.last());
        gone.filter_map(|message| {
            let origin = message.origin.as_deref()?;
            Some(GoneMessage { origin, is_prompt: message.role == "user" })
        })
        .next()
    }
}

/// A fork for which the agent has no log yet.
struct FilledFork<'a> {
    /// The id of the fork's session.
    session: &'a str,
    moved: Option<MovedDirectory<'a>>,
}

/// Creates the log of a fork from the log of its nearest ancestor that has one.
fn fill_fork(
    opened: &Opened,
    rewind: &'static Rewind,
    conversation: &Conversation,
    fork: &SessionRecord,
) -> Result<PreparedCopy, ConversationError> {
    let mut child = fork.clone();
    let mut messages = None;
    while conversation.messages.iter().all(|message| message.inherited || message.undone)
        && child.parent_kind == Some(ParentKind::Fork)
        && let Some(parent) = child.parent_session_id.take()
    {
        child = opened.ledger_or_new()?.session(&parent)?;
        let (agent, id) = parent.split_once(':').unwrap_or_default();
        let logs = find_logs(opened, agent, id);
        if agent == rewind.agent && !logs.is_empty() {
            messages = Some((conversation.of_ancestor(opened, &parent)?, logs));
            break;
        }
    }
    let (source, logs) = messages.ok_or(ConversationError::NoLog)?;
    let directories = child.workspace.as_deref().zip(fork.workspace.as_deref());
    let moved = directories
        .filter(|(from, to)| from != to)
        .map(|(from, to)| MovedDirectory { from: Path::new(from), to: Path::new(to) });
    let fill = FilledFork { session: &fork.id, moved };
    let copy = copy_logs(opened, rewind, &source, &logs, Some(&fill))?;
    if let Some(MovedDirectory { from, to }) = moved {
        takeback_undo::rollback::leave_for_fork(opened, &fork.id, from, to)?;
    }
    Ok(copy)
}

/// Copies the first log that can be copied, and records the copy.
fn copy_logs(
    opened: &Opened,
    rewind: &'static Rewind,
    conversation: &Conversation,
    logs: &[LogRef],
    fill: Option<&FilledFork<'_>>,
) -> Result<PreparedCopy, ConversationError> {
    let (_, id) = conversation.session.split_once(':').unwrap_or_default();
    let kept = conversation.kept();
    let own_directory = notes::own_directory(opened);
    let mut outcome = Err(ConversationError::NoLog);
    for log in logs {
        let request = RewindRequest {
            new: fill.and_then(|fill| fill.session.split_once(':')).map(|(_, id)| id),
            moved: fill.and_then(|fill| fill.moved),
            ..conversation.request(opened, log, &kept, &own_directory)
        };
        let copy = rewind.prepare_copy(&request).map_err(ConversationError::from);
        // If no log can be copied, the error for the newest log is the most useful one.
        if copy.is_ok() || matches!(outcome, Err(ConversationError::NoLog)) {
            outcome = copy;
        }
        if outcome.is_ok() {
            if rewind.may_delete_logs {
                originals::keep_original(opened, id, log).map_err(ConversationError::Original)?;
            }
            break;
        }
    }
    let copy = outcome?;
    let note = CopyNote::new(opened, rewind, &conversation.session, conversation.last(), &copy);
    notes::make_copy(opened, &note, &copy)?;
    Ok(copy)
}

/// Finds an earlier copy that ends at the same point and has not been continued.
fn find_copy_at(
    opened: &Opened,
    rewind: &Rewind,
    conversation: &Conversation,
) -> Result<Option<(String, LogRef)>, ConversationError> {
    let children = opened.ledger_or_new()?.descendants(&conversation.session)?;
    let forks = children
        .into_iter()
        .filter(|child| child.depth == 1 && child.session.parent_kind == Some(ParentKind::Fork));
    for fork in forks.take(MAX_COMPARED) {
        let id = &fork.session.id;
        let copy = Conversation::read(opened, id, None)?;
        let parent = opened.ledger_or_new()?.session(&conversation.session)?;
        let is_same = copy.kept == conversation.kept
            && copy.messages.iter().all(|message| message.inherited)
            && fork.session.workspace == parent.workspace;
        let (agent, id) = id.split_once(':').unwrap_or_default();
        if !is_same || agent != rewind.agent {
            continue;
        }
        let logs = find_logs(opened, agent, id);
        if let Some(log) = find_log_at(opened, rewind, &logs, &copy.kept()) {
            return Ok(Some((id.to_owned(), log.clone())));
        }
    }
    Ok(None)
}

/// Finds the logs of a session, newest first. The logs of its subagents, which are in deeper
/// directories, are left out. Copies among takeback's own files come last.
fn find_logs(opened: &Opened, agent: &str, id: &str) -> Vec<LogRef> {
    let Some((format, directory)) = log_format(agent).zip(opened.log_directory(agent)) else {
        return Vec::new();
    };
    let mut logs = format.logs_of_session(id, None, directory);
    let depth = |log: &LogRef| log.path.components().count();
    let least = logs.iter().map(depth).min();
    let has_session = |log: &LogRef| {
        log.session.is_none()
            || read_pages(format, log).is_ok_and(|pages| count_messages(&pages) > 0)
    };
    logs.retain(|log| Some(depth(log)) == least && has_session(log));
    logs.reverse();
    let own = notes::own_directory(opened).join(id).join(format!("{id}.jsonl"));
    logs.extend(own.is_file().then_some(LogRef { path: own, session: None }));
    logs.extend(originals::find_original(opened, id));
    logs
}

/// Among the logs that the agent would continue, finds the one that contains exactly the messages
/// in `kept`.
fn find_log_at<'l>(
    opened: &Opened,
    rewind: &Rewind,
    logs: &'l [LogRef],
    kept: &BTreeSet<String>,
) -> Option<&'l LogRef> {
    let own = notes::own_directory(opened);
    let continued = if rewind.continues_logs { 1 } else { logs.len() };
    let mut continued = logs.iter().take(continued);
    continued.find(|log| !kept.is_empty() && rewind.is_at(log, kept, &own).unwrap_or(false))
}

/// Finds the directory in which a conversation was started, according to the first log that names
/// an existing directory. This directory may be below the workspace, and some agents find a
/// conversation only if they are started there.
fn find_directory<'l>(
    rewind: &Rewind,
    logs: impl IntoIterator<Item = &'l LogRef>,
) -> Option<String> {
    let read = |log: &LogRef| {
        let page = rewind.log_format().read_page(log, None).ok()?.page;
        page.entries.into_iter().find_map(|entry| match entry.fact {
            LogFact::Session(record) => record.workspace,
            _ => None,
        })
    };
    logs.into_iter().filter_map(read).find(|directory| Path::new(directory).is_dir())
}
