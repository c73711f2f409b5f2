//! Returns the agents' own conversations to where a rollback has led.

use std::collections::BTreeSet;
use std::path::Path;

use takeback_agents::{LogRef, Rewind, RewindRequest, WrittenCopy, find_rewind, log_format};
use takeback_base::errors::error_chain;
use takeback_ledger::{ConversationPoint, MessageOrigin, NewFork};
use takeback_undo::{Resume, RollbackView, rollback};

use crate::context::Context;
use crate::failure::Failure;

/// Finds, for each conversation that a rollback has moved, the way to continue the agent's own
/// conversation from there. If the agent's log goes on after that point, a copy is made that ends
/// there; the log itself stays as it is. A conversation that cannot be copied stays as it is, and
/// the reason is added to the view. The files have been restored by now, so nothing here fails.
pub(crate) fn follow_rollback(view: &mut RollbackView, context: &Context) {
    if view.safety_checkpoint.is_none() {
        return;
    }
    let mut moved = std::mem::take(&mut view.sessions);
    for session in &mut moved {
        let Some((agent, id)) = session.session.split_once(':') else { continue };
        // A subagent's conversation is part of its parent's.
        let Some(rewind) = find_rewind(agent).filter(|_| !id.contains('/')) else { continue };
        match follow_session(rewind, &session.session, view, context) {
            Ok(resume) => session.resume = resume,
            Err(reason) => session.stays = Some(reason),
        }
    }
    view.sessions = moved;
}

fn follow_session(
    rewind: &'static Rewind,
    session: &str,
    view: &RollbackView,
    context: &Context,
) -> Result<Option<Resume>, String> {
    let told = |failure: Failure| failure.to_string();
    let divided = divide_messages(session, None, context).map_err(told)?;
    let last = divided.last;
    let Some((resume, copy)) = find_way(rewind, session, divided, context)? else {
        return Ok(None);
    };
    if let Some(copy) = copy.filter(|_| rewind.keeps_id) {
        let new = record_copy(rewind, session, &copy, last, context).map_err(told)?;
        leave_notice(&new, &resume, view, context).map_err(told)?;
    }
    Ok(Some(resume))
}

/// Tells the agent that continues a copy about what the rollback could not take back.
fn leave_notice(
    session: &str,
    resume: &Resume,
    view: &RollbackView,
    context: &Context,
) -> Result<(), Failure> {
    let Some(workspace) = &resume.cwd else { return Ok(()) };
    let opened = context.opened()?;
    Ok(rollback::leave_for_rewound(opened, session, Path::new(workspace), view)?)
}

/// Finds the way to continue the agent's own conversation of a session: where it is now, or at the
/// end of an earlier turn.
pub(crate) fn continue_session(
    session: &str,
    at: Option<i64>,
    context: &Context,
) -> Result<Resume, Failure> {
    let (agent, _) = session.split_once(':').unwrap_or_default();
    let rewind = find_rewind(agent).ok_or_else(|| {
        Failure::new(format!("takeback does not know how to continue {session}"))
            .hint("`takeback sessions show` shows the conversation")
    })?;
    let divided = divide_messages(session, at, context)?;
    let last = divided.last;
    let cannot = |reason: String| Failure::new(format!("cannot continue {session}: {reason}"));
    let way = find_way(rewind, session, divided, context).map_err(cannot)?;
    let Some((resume, copy)) = way else {
        return Err(Failure::new(format!("{session} has nothing of its own at that point")));
    };
    if let Some(copy) = copy.filter(|_| rewind.keeps_id) {
        record_copy(rewind, session, &copy, last, context)?;
    }
    Ok(resume)
}

/// The messages of a session, divided by whether they are to be kept.
struct Divided {
    kept: BTreeSet<String>,
    /// The number of the last message to keep, or 0.
    last: i64,
    /// The first message after that.
    first_gone: Option<MessageOrigin>,
    /// True if only messages of the session that this one was forked from are kept.
    is_only_inherited: bool,
}

/// Divides the messages of a session at the end of a turn, or at the end of the conversation.
fn divide_messages(session: &str, at: Option<i64>, context: &Context) -> Result<Divided, Failure> {
    let messages = context.ledger()?.message_origins(session)?;
    let is_kept =
        |message: &&MessageOrigin| !message.undone && at.is_none_or(|turn| message.turn <= turn);
    let last = messages.iter().rfind(is_kept).map_or(0, |message| message.seq);
    Ok(Divided {
        kept: messages.iter().filter(is_kept).filter_map(|kept| kept.origin.clone()).collect(),
        is_only_inherited: messages.iter().filter(is_kept).all(|kept| kept.inherited),
        first_gone: messages.into_iter().find(|message| message.seq > last),
        last,
    })
}

/// Finds the way to continue a conversation that ends after the kept messages. Also returns the
/// copy, if one had to be made. Returns `None` if the session that this one was forked from has the
/// conversation.
fn find_way(
    rewind: &'static Rewind,
    session: &str,
    divided: Divided,
    context: &Context,
) -> Result<Option<(Resume, Option<WrittenCopy>)>, String> {
    let cwd = find_workspace(session, context).map_err(|failure| failure.to_string())?;
    let resume = |session: Option<&str>, argv, typed| Resume {
        agent: rewind.agent.to_owned(),
        session: session.map(str::to_owned),
        argv,
        cwd: cwd.clone(),
        typed,
    };
    if divided.kept.is_empty() {
        return Ok(Some((resume(None, rewind.new_command(), None), None)));
    }
    let (_, id) = session.split_once(':').unwrap_or_default();
    let logs = find_logs(rewind.agent, id, context);
    if let Some(log) = find_log_at(rewind, &logs, &divided.kept) {
        return Ok(Some((resume(Some(id), rewind.command(id, &log.path), rewind.typed(id)), None)));
    }
    if divided.is_only_inherited {
        return Ok(None);
    }
    let gone = divided.first_gone.ok_or("its log has other messages than the ledger")?;
    let first_gone = gone.origin.as_deref().ok_or("its log lacks the prompt")?;
    let mut outcome = Err("its log was not found".to_owned());
    for log in &logs {
        let request = RewindRequest {
            log,
            session: id,
            kept: &divided.kept,
            first_gone,
            is_prompt: gone.role == "user",
            own_directory: &context.home.join("conversations"),
        };
        outcome = rewind.write_copy(&request).map_err(|error| error_chain(&error));
        if outcome.is_ok() {
            break;
        }
    }
    let copy = outcome?;
    let (new, path) = (copy.session.as_str(), copy.log.path.as_path());
    let resume = resume(Some(new), rewind.command(new, path), rewind.typed(new));
    Ok(Some((resume, Some(copy))))
}

fn find_workspace(session: &str, context: &Context) -> Result<Option<String>, Failure> {
    Ok(context.ledger()?.session(session)?.workspace)
}

/// Finds the logs of a session, newest first, but not those of its subagents, which are deeper.
fn find_logs(agent: &str, id: &str, context: &Context) -> Vec<LogRef> {
    let find = || {
        let format = log_format(agent)?;
        Some(format.logs_of_session(id, None, &context.logs_of(format)?))
    };
    let mut logs = find().unwrap_or_default();
    let depth = |log: &LogRef| log.path.components().count();
    let least = logs.iter().map(depth).min();
    logs.retain(|log| log.session.is_none() && Some(depth(log)) == least);
    logs.reverse();
    logs
}

/// Finds the log that contains exactly these messages.
fn find_log_at<'l>(
    rewind: &Rewind,
    logs: &'l [LogRef],
    kept: &BTreeSet<String>,
) -> Option<&'l LogRef> {
    logs.iter().find(|log| rewind.is_at(log, kept).unwrap_or(false))
}

/// Adds a copy to the ledger as a fork, so that its messages are not imported a second time.
/// Returns the id of the new session.
fn record_copy(
    rewind: &Rewind,
    parent: &str,
    copy: &WrittenCopy,
    last: i64,
    context: &Context,
) -> Result<String, Failure> {
    let id = format!("{}:{}", rewind.agent, copy.session);
    let point = Some(ConversationPoint::AfterMessage(last));
    let new = NewFork { id: &id, point, log: &copy.pages, ..NewFork::default() };
    context.ledger()?.fork_at(parent, &new, context.now())?;
    Ok(id)
}
