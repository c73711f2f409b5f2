//! The agent's own session: what it has to be told, what was said in it, what it cost.

use serde::Serialize;
use serde_json::json;
use takeback_agents::notice_text;
use takeback_ledger::{MessageRecord, SessionRecord, UsageRecord};
use takeback_tree::{AnyPath, RelPath};
use takeback_undo::{EffectView, LedgerGuard, Notice, rollback};

use super::super::Server;
use super::super::params::{Name, Params};
use super::super::protocol::{Answer, Error, answer};
use crate::context::Context;
use crate::failure::Failure;

#[derive(Serialize)]
struct NoticeView {
    workspace: AnyPath,
    files: Vec<FileView>,
    /// How many more files.
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

/// Each is taken once.
pub(super) fn take_notices(_: &Server, context: &Context, mut params: Params) -> Answer {
    let (_, session) = session(&mut params)?;
    params.end()?;
    let failed = |cause: String| Failure::new("notices cannot be taken").because_of(&cause);
    let notices = rollback::take_notices(context.opened()?, &session).map_err(failed)?;
    let views: Vec<NoticeView> = notices.iter().map(NoticeView::from).collect();
    answer(&json!({ "session": session, "notices": views, "text": notice_text(&notices) }))
}

pub(super) fn append(_: &Server, context: &Context, mut params: Params) -> Answer {
    let (agent, session) = session(&mut params)?;
    let messages: Vec<MessageRecord> = params.required("messages")?;
    params.end()?;
    for (number, message) in messages.iter().enumerate() {
        let wrong = match message.role.as_str() {
            "" => "role is missing",
            // It would be there twice, and begin a turn that has no checkpoints.
            "user" => "what the user says is the prompt of turn.start",
            _ => continue,
        };
        return Err(Error::invalid_params(format!("messages[{number}]: {wrong}")));
    }
    let mut ledger = ledger_with(&agent, &session, context)?;
    let numbers = ledger.append(&session, &messages, context.now()).map_err(Failure::from)?;
    answer(&json!({ "session": session, "messages": numbers }))
}

pub(super) fn record_usage(_: &Server, context: &Context, mut params: Params) -> Answer {
    let (agent, session) = session(&mut params)?;
    let usage: UsageRecord = params.required("usage")?;
    params.end()?;
    let mut ledger = ledger_with(&agent, &session, context)?;
    ledger.record_usage(&session, &usage, context.now()).map_err(Failure::from)?;
    answer(&json!({ "session": session }))
}

/// The agent, and its session as the ledger knows it: named as in what it reports.
fn session(params: &mut Params) -> Result<(String, String), Error> {
    let agent: Option<Name> = params.optional("agent")?;
    let agent = agent.map(|Name(agent)| agent).filter(|agent| !agent.is_empty());
    let agent = agent.unwrap_or_else(|| "generic".into());
    let session: Option<Name> = params.optional("session")?;
    let name = session.map_or_else(|| "default".into(), |Name(name)| name);
    let id = format!("{agent}:{name}");
    Ok((agent, id))
}

/// The ledger, with this session in it and all that was reported of it before.
fn ledger_with<'c>(
    agent: &str,
    session: &str,
    context: &'c Context,
) -> Result<LedgerGuard<'c>, Failure> {
    let mut ledger = context.ledger()?;
    if !ledger.catch_up()? {
        return Err(Failure::new("earlier events cannot be written yet").hint("repeat it later"));
    }
    let workspace = context.opened()?.find_root(&context.directory).ok();
    let record = SessionRecord {
        id: session.to_owned(),
        source: agent.to_owned(),
        workspace: workspace.map(|path| path.display().to_string()),
        ..SessionRecord::default()
    };
    ledger.create_session(&record, context.now())?;
    Ok(ledger)
}
