//! Methods for the agent's session: notices, messages, usage.

use serde::Serialize;
use serde_json::json;
use takeback_ledger::{
    Ledger, LedgerError, MessageRecord, SessionRecord, SessionSettings, Time, UsageRecord,
};
use takeback_tree::{AnyPath, RelPath};
use takeback_undo::{EffectView, Notice, rollback};

use super::super::Server;
use super::super::params::{Name, Params};
use super::super::protocol::{Answer, Error, answer};
use super::reports;
use crate::context::Context;
use crate::failure::Failure;

#[derive(Serialize)]
struct NoticeView {
    workspace: AnyPath,
    files: Vec<FileView>,
    /// The number of additional files that are not listed.
    more: usize,
    effects: Vec<EffectView>,
}

#[derive(Serialize)]
struct FileView {
    path: RelPath,
    removed: bool,
}

impl From<&Notice> for NoticeView {
    fn from(notice: &Notice) -> NoticeView {
        let files = notice.files.iter();
        NoticeView {
            workspace: AnyPath(notice.workspace.clone()),
            files: files
                .map(|file| FileView { path: file.path.clone(), removed: file.is_gone })
                .collect(),
            more: notice.more,
            effects: notice.effects.clone(),
        }
    }
}

/// Takes the pending notices of a session. Each notice is returned only once.
pub(super) fn take_notices(_: &Server, context: &Context, mut params: Params) -> Answer {
    let (_, session) = take_session(&mut params)?;
    params.end()?;
    let failed = |cause: String| Failure::new("cannot read the pending notices").because_of(&cause);
    let notices = rollback::take_notices(context.opened()?, &session).map_err(failed)?;
    let views: Vec<NoticeView> = notices.iter().map(NoticeView::from).collect();
    answer(
        &json!({ "session": session, "notices": views, "text": rollback::notice_text(&notices) }),
    )
}

pub(super) fn append(_: &Server, context: &Context, mut params: Params) -> Answer {
    let (agent, session) = take_session(&mut params)?;
    let messages: Vec<MessageRecord> = params.required("messages")?;
    params.end()?;
    for (number, message) in messages.iter().enumerate() {
        let wrong = match message.role.as_str() {
            "" => "role is missing",
            // A prompt that was passed here would be recorded twice, and would begin a turn without
            // checkpoints.
            "user" => "pass a message from the user as the prompt of turn.start",
            _ => continue,
        };
        return Err(Error::invalid_params(format!("messages[{number}]: {wrong}")));
    }
    let numbers = write_in_session(&agent, &session, context, |ledger| {
        append_messages(ledger, &session, &messages, context.now())
    })?;
    answer(&json!({ "session": session, "messages": numbers }))
}

/// Appends messages, and returns their numbers. A message that summarizes earlier messages replaces
/// them in the conversation.
fn append_messages(
    ledger: &mut Ledger,
    session: &str,
    messages: &[MessageRecord],
    now: Time,
) -> Result<Vec<i64>, LedgerError> {
    let mut numbers = Vec::new();
    for group in messages.chunk_by(|a, b| a.summarizes.is_none() && b.summarizes.is_none()) {
        match group {
            [MessageRecord { summarizes: Some(upto), .. }] => {
                numbers.push(ledger.compact(session, *upto, &group[0], now)?);
            }
            _ => numbers.extend(ledger.append(session, group, now)?),
        }
    }
    Ok(numbers)
}

/// Updates a session with the settings that the agent passes.
pub(super) fn set_session(_: &Server, context: &Context, mut params: Params) -> Answer {
    let (agent, session) = take_session(&mut params)?;
    let settings = SessionSettings {
        user_id: params.optional("user")?,
        model: params.optional("model")?,
        model_config: params.optional("model_config")?,
        system_prompt: params.optional("system_prompt")?,
    };
    params.end()?;
    write_in_session(&agent, &session, context, |ledger| {
        ledger.update_session(&session, &settings)
    })?;
    answer(&json!({ "session": session }))
}

/// Continues a session under another name after its conversation has been summarized.
pub(super) fn compress(_: &Server, context: &Context, mut params: Params) -> Answer {
    let (agent, parent) = take_session(&mut params)?;
    let Name(to) = params.required("to")?;
    params.end()?;
    let session = format!("{agent}:{to}");
    let child = write_in_session(&agent, &parent, context, |ledger| {
        ledger.continue_session(&parent, &session, context.now())
    })?;
    answer(&json!({ "session": session, "parent": parent, "title": child.title }))
}

/// Reports the end of a session, with a reason if the agent gives one.
pub(super) fn end_session(server: &Server, context: &Context, mut params: Params) -> Answer {
    let reason: Option<String> = params.optional("reason")?;
    let Some(reason) = reason else {
        return reports::report("session_end", &[], server, context, params);
    };
    let (agent, session) = take_session(&mut params.clone())?;
    let was_open = match context.ledger()?.session(&session) {
        Ok(record) => record.ended_at.is_none(),
        Err(_) => true,
    };
    let reported = reports::report("session_end", &[], server, context, params)?;
    if was_open {
        // The report has recorded the default reason, so replace it.
        write_in_session(&agent, &session, context, |ledger| {
            ledger.reopen_session(&session)?;
            ledger.end_session(&session, &reason, context.now())
        })?;
    }
    Ok(reported)
}

pub(super) fn record_usage(_: &Server, context: &Context, mut params: Params) -> Answer {
    let (agent, session) = take_session(&mut params)?;
    let usage: UsageRecord = params.required("usage")?;
    params.end()?;
    write_in_session(&agent, &session, context, |ledger| {
        ledger.record_usage(&session, &usage, context.now())
    })?;
    answer(&json!({ "session": session }))
}

/// Takes the parameters `agent` and `session`, with the same defaults as reports. Returns the agent
/// and the id of the session in the ledger.
fn take_session(params: &mut Params) -> Result<(String, String), Error> {
    let agent: Option<Name> = params.optional("agent")?;
    let agent = agent.map(|Name(agent)| agent).filter(|agent| !agent.is_empty());
    let agent = agent.unwrap_or_else(|| "generic".into());
    let session: Option<Name> = params.optional("session")?;
    let name = session.map_or_else(|| "default".into(), |Name(name)| name);
    let id = format!("{agent}:{name}");
    Ok((agent, id))
}

/// Writes to the ledger once all earlier reports have been written, and creates the session if it
/// is new.
fn write_in_session<T>(
    agent: &str,
    session: &str,
    context: &Context,
    write: impl Fn(&mut Ledger) -> Result<T, LedgerError>,
) -> Result<T, Failure> {
    let mut ledger = context.ledger()?;
    if !ledger.catch_up()? {
        return Err(
            Failure::new("earlier events have not been written yet").hint("try again later")
        );
    }
    match write(&mut ledger) {
        Err(LedgerError::NoSuchSession(_)) => {}
        written => return Ok(written?),
    }
    let workspace = context.opened()?.find_root(&context.directory).ok();
    let record = SessionRecord {
        id: session.to_owned(),
        source: agent.to_owned(),
        workspace: workspace.map(|path| path.display().to_string()),
        ..SessionRecord::default()
    };
    ledger.create_session(&record, context.now())?;
    Ok(write(&mut ledger)?)
}
