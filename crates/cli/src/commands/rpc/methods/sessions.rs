//! Methods about the sessions of all agents.

use std::sync::atomic::Ordering;

use serde::Deserialize;
use takeback_ledger::{Ledger, Time, replay};
use takeback_tree::AnyPath;

use super::super::Server;
use super::super::params::Params;
use super::super::protocol::{Answer, Error, answer};
use crate::commands::sessions::edit::{self, RewindView};
use crate::commands::sessions::list::{self as listing, ListArguments};
use crate::commands::sessions::{
    prune, search as searching, show, state, stats as totals, tree as lineage, when,
};
use crate::context::Context;
use crate::failure::Failure;
use crate::logs;

pub(super) fn list(_: &Server, context: &Context, mut params: Params) -> Answer {
    let workspace: Option<AnyPath> = params.optional("workspace")?;
    let arguments = ListArguments {
        sources: params.or_default("sources")?,
        workspace: workspace.map(|AnyPath(path)| path),
        limit: take_limit(&mut params)?,
        archived: params.or_default("archived")?,
        fleet: false,
    };
    params.end()?;
    let ledger = logs::current_ledger(context)?;
    let found = listing::find_sessions(&arguments, &ledger, context)?;
    answer(&listing::SessionList::new(&arguments, &found))
}

pub(super) fn get(_: &Server, context: &Context, mut params: Params) -> Answer {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Format {
        #[default]
        Json,
        Openai,
        Anthropic,
    }
    let session: String = params.required("session")?;
    let format = params.or_default("format")?;
    params.end()?;
    let ledger = logs::current_ledger(context)?;
    let id = ledger.resolve(&session).map_err(Failure::from)?;
    match format {
        Format::Json => answer(&ledger.transcript(&id).map_err(Failure::from)?),
        Format::Openai => answer(&show::replay_session(&ledger, &id, replay::openai)?),
        Format::Anthropic => answer(&show::replay_session(&ledger, &id, replay::anthropic)?),
    }
}

pub(super) fn search(server: &Server, context: &Context, mut params: Params) -> Answer {
    let arguments = searching::Arguments {
        query: vec![params.required("query")?],
        sources: params.or_default("sources")?,
        exclude_sources: params.or_default("exclude_sources")?,
        workspace: None,
        roles: params.or_default("roles")?,
        since: take_since(&mut params)?,
        undone: params.or_default("undone")?,
        limit: take_limit(&mut params)?.unwrap_or(20),
        fleet: false,
    };
    params.end()?;
    let is_cancelled = || server.is_stopped.load(Ordering::Relaxed);
    let mut ledger = logs::current_ledger(context)?;
    answer(&searching::search_messages(&arguments, &mut ledger, &is_cancelled)?)
}

pub(super) fn tree(_: &Server, context: &Context, mut params: Params) -> Answer {
    let session: String = params.required("session")?;
    params.end()?;
    let ledger = logs::current_ledger(context)?;
    let id = ledger.resolve(&session).map_err(Failure::from)?;
    answer(&lineage::session_tree(&ledger, &id)?)
}

pub(super) fn title(_: &Server, context: &Context, mut params: Params) -> Answer {
    let session: String = params.required("session")?;
    let title: String = params.required("title")?;
    let next = params.or_default("next")?;
    params.end()?;
    answer(&edit::set_title(&mut *logs::current_ledger(context)?, &session, &title, next)?)
}

pub(super) fn end(_: &Server, context: &Context, mut params: Params) -> Answer {
    let session: String = params.required("session")?;
    let reason: Option<String> = params.optional("reason")?;
    params.end()?;
    let reason = reason.as_deref().unwrap_or(state::ENDED);
    let end =
        |ledger: &mut Ledger, id: &str| ledger.end_session(id, reason, context.now()).map(drop);
    answer(&state::change_state(&mut *logs::current_ledger(context)?, &session, end)?)
}

pub(super) fn reopen(_: &Server, context: &Context, mut params: Params) -> Answer {
    let session: String = params.required("session")?;
    params.end()?;
    let reopen = |ledger: &mut Ledger, id: &str| ledger.reopen_session(id);
    answer(&state::change_state(&mut *logs::current_ledger(context)?, &session, reopen)?)
}

pub(super) fn archive(_: &Server, context: &Context, mut params: Params) -> Answer {
    let session: String = params.required("session")?;
    let archived: Option<bool> = params.optional("archived")?;
    params.end()?;
    let archive =
        |ledger: &mut Ledger, id: &str| ledger.archive_session(id, archived.unwrap_or(true));
    answer(&state::change_state(&mut *logs::current_ledger(context)?, &session, archive)?)
}

pub(super) fn clear(_: &Server, context: &Context, mut params: Params) -> Answer {
    let session: String = params.required("session")?;
    params.end()?;
    answer(&prune::clear_session(&mut *logs::current_ledger(context)?, &session)?)
}

pub(super) fn fork(_: &Server, context: &Context, mut params: Params) -> Answer {
    let session: String = params.required("session")?;
    let at = params.required("at")?;
    params.end()?;
    answer(&edit::fork_session(&mut *logs::current_ledger(context)?, &session, at, context.now())?)
}

pub(super) fn undo(_: &Server, context: &Context, mut params: Params) -> Answer {
    let session: String = params.required("session")?;
    let turns: Option<usize> = params.optional("turns")?;
    params.end()?;
    if turns == Some(0) {
        return Err(Error::invalid_params("turns must be at least 1"));
    }
    let mut ledger = logs::current_ledger(context)?;
    let session = ledger.resolve(&session).map_err(Failure::from)?;
    let undone = ledger.rewind_turns(&session, turns.unwrap_or(1), context.now());
    answer(&RewindView::new(session, undone.map_err(Failure::from)?))
}

pub(super) fn redo(_: &Server, context: &Context, mut params: Params) -> Answer {
    let session: String = params.required("session")?;
    params.end()?;
    let mut ledger = logs::current_ledger(context)?;
    let session = ledger.resolve(&session).map_err(Failure::from)?;
    let redone = ledger.unrewind(&session, context.now());
    answer(&RewindView::new(session, redone.map_err(Failure::from)?))
}

pub(super) fn stats(_: &Server, context: &Context, mut params: Params) -> Answer {
    let by = params.or_default("by")?;
    params.end()?;
    answer(&totals::add_up(by, &*logs::current_ledger(context)?, context)?)
}

fn take_limit(params: &mut Params) -> Result<Option<u32>, Error> {
    match params.optional("limit")? {
        Some(0) => Err(Error::invalid_params("limit must be at least 1")),
        limit => Ok(limit),
    }
}

/// Takes a point in time, in the form in which users write it: a span before now, or a date.
fn take_since(params: &mut Params) -> Result<Option<Time>, Error> {
    let typed: Option<String> = params.optional("since")?;
    let wrong = |message| Error::invalid_params(format!("since: {message}"));
    typed.map(|typed| when::parse(&typed).map_err(wrong)).transpose()
}
