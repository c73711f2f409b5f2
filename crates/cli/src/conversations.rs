//! Returns the agents' own conversations to where a rollback has led.

use std::collections::BTreeSet;
use std::path::Path;

use takeback_agents::{LogRef, Rewind, RewindRequest, WrittenCopy, find_rewind, log_format};
use takeback_base::errors::error_chain;
use takeback_ledger::{MessageOrigin, NewFork};
use takeback_undo::{MovedSession, Resume, RollbackView, rollback};

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
        match follow_session(rewind, session, view, context) {
            Ok(resume) => session.resume = resume,
            Err(failure) => session.stays = Some(failure),
        }
    }
    view.sessions = moved;
}

/// The messages of a session, divided by whether they are part of the conversation.
struct Divided {
    kept: BTreeSet<String>,
    /// The first message after the end of the conversation.
    first_gone: Option<MessageOrigin>,
    /// True if only messages of the session that this one was forked from are left.
    is_only_inherited: bool,
}

fn follow_session(
    rewind: &'static Rewind,
    moved: &MovedSession,
    view: &RollbackView,
    context: &Context,
) -> Result<Option<Resume>, String> {
    let told = |failure: Failure| failure.to_string();
    let divided = divide_messages(&moved.session, context).map_err(told)?;
    let cwd = find_workspace(&moved.session, context).map_err(told)?;
    let resume = |session: Option<&str>, argv, typed| Resume {
        agent: rewind.agent.to_owned(),
        session: session.map(str::to_owned),
        argv,
        cwd: cwd.clone(),
        typed,
    };
    if divided.kept.is_empty() {
        return Ok(Some(resume(None, rewind.new_command(), None)));
    }
    if divided.is_only_inherited {
        // The session that it was forked from has this conversation.
        return Ok(None);
    }
    let (_, id) = moved.session.split_once(':').expect("the caller has split it");
    let logs = find_logs(rewind.agent, id, context);
    if let Some(log) = find_log_at(rewind, &logs, &divided.kept) {
        return Ok(Some(resume(Some(id), rewind.command(id, &log.path), rewind.typed(id))));
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
    if rewind.keeps_id {
        record_copy(rewind, moved, &copy, cwd.as_deref(), view, context).map_err(told)?;
    }
    let (new, path) = (copy.session.as_str(), copy.log.path.as_path());
    Ok(Some(resume(Some(new), rewind.command(new, path), rewind.typed(new))))
}

fn divide_messages(session: &str, context: &Context) -> Result<Divided, Failure> {
    let ledger = context.ledger()?;
    let messages = ledger.message_origins(session)?;
    let is_kept = |message: &&MessageOrigin| !message.undone;
    let last = messages.iter().rfind(is_kept).map_or(0, |message| message.seq);
    Ok(Divided {
        kept: messages.iter().filter(is_kept).filter_map(|kept| kept.origin.clone()).collect(),
        is_only_inherited: messages.iter().filter(is_kept).all(|kept| kept.inherited),
        first_gone: messages.into_iter().find(|message| message.seq > last),
    })
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

/// Adds the copy to the ledger as a fork, so that its messages are not imported a second time, and
/// leaves a notice about what the rollback could not take back.
fn record_copy(
    rewind: &Rewind,
    moved: &MovedSession,
    copy: &WrittenCopy,
    workspace: Option<&str>,
    view: &RollbackView,
    context: &Context,
) -> Result<(), Failure> {
    let id = format!("{}:{}", rewind.agent, copy.session);
    let new = NewFork { id: &id, log: &copy.pages, ..NewFork::default() };
    let now = context.now();
    context.ledger()?.fork_at(&moved.session, &new, now)?;
    if let Some(workspace) = workspace {
        rollback::leave_for_rewound(context.opened()?, &id, Path::new(workspace), view)?;
    }
    Ok(())
}
