//! Sessions, messages, search, usage and the status of the store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use takeback_ledger::{
    Ledger, ListOptions, MessageFilter, MessageRecord, SearchHit, SearchOptions, SessionRecord,
    SessionSummary, Time, UsageBy, UsageTotal,
};
use takeback_undo::retention::read_status;
use takeback_undo::{LedgerGuard, Status, finish_forks};
use utoipa::{IntoParams, ToSchema};

use super::input::Params;
use crate::app::{App, Work};
use crate::checkup::Checkup;
use crate::problem::{Problem, WorkError};
use crate::text;

/// The maximum number of sessions or search results in an answer.
const MAX_LIMIT: usize = 500;

/// The maximum number of messages in an answer.
const MAX_MESSAGES: usize = 2_000;

/// The maximum time that a search may take.
const SEARCH_TIME: Duration = Duration::from_secs(10);

impl Work {
    /// Opens the ledger, after adding the newest entries from the agents' own logs. Returns `None`
    /// if there is no ledger.
    pub(crate) fn ledger(&self) -> Result<Option<LedgerGuard<'_>>, WorkError> {
        self.catch_up();
        finish_forks(&self.opened);
        Ok(self.opened.ledger()?)
    }

    /// Searches all messages, for a limited time.
    pub(crate) fn search(
        &self,
        query: &str,
        options: &SearchOptions,
    ) -> Result<takeback_ledger::SearchResults, WorkError> {
        let Some(mut ledger) = self.ledger()? else { return Ok(Default::default()) };
        let start = Instant::now();
        let stopping = self.app.stopping.clone();
        let is_over = || start.elapsed() > SEARCH_TIME || *stopping.borrow();
        Ok(ledger.search_until(query, options, &is_over)?)
    }
}

/// The sessions that a client requests.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct SessionsQuery {
    /// Only sessions of this agent or platform.
    source: Option<String>,
    /// Only sessions in this directory.
    workspace: Option<String>,
    /// True to include archived sessions.
    #[serde(default)]
    archived: bool,
    /// The maximum number of sessions.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// A session in a list.
#[derive(Serialize, ToSchema)]
pub(super) struct SessionView {
    #[serde(flatten)]
    #[schema(value_type = Object)]
    session: SessionRecord,
    /// The beginning of the first prompt.
    preview: String,
    #[schema(value_type = f64)]
    last_activity: Time,
}

/// Lists sessions, the most recently active first.
#[utoipa::path(get, path = "/api/v1/sessions", tag = "sessions", params(SessionsQuery), responses(
    (status = 200, body = [SessionView]), (status = "default", body = Problem)))]
pub(super) async fn sessions(
    State(app): State<Arc<App>>,
    Params(query): Params<SessionsQuery>,
) -> Result<Json<Vec<SessionView>>, Problem> {
    let limit = check_limit(query.limit, 50)?;
    let options = ListOptions {
        sources: query.source.into_iter().collect(),
        workspace: query.workspace,
        archived: query.archived,
        limit: Some(limit),
    };
    let found = app.work(move |work| match work.ledger()? {
        Some(ledger) => Ok(ledger.sessions(&options)?),
        None => Ok(Vec::new()),
    });
    let view = |found: SessionSummary| SessionView {
        // The system prompt is long, and is not needed in a list.
        session: SessionRecord { system_prompt: None, ..found.session },
        preview: found.preview,
        last_activity: found.last_activity,
    };
    Ok(Json(found.await?.into_iter().map(view).collect()))
}

/// The messages that a client requests.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct MessagesQuery {
    /// The id of the session, or the beginning of its id.
    session: String,
    /// Only messages with a higher number.
    #[serde(default)]
    after: i64,
    /// True to include messages that were taken back or summarized.
    #[serde(default)]
    all: bool,
}

/// Messages of a session.
#[derive(Serialize, ToSchema)]
pub(super) struct MessagePage {
    session: String,
    /// The messages in order, as in `takeback sessions export`.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<MessageRecord>,
    /// True if there are more messages after these.
    more: bool,
}

/// Returns the messages of a session.
#[utoipa::path(get, path = "/api/v1/messages", tag = "sessions", params(MessagesQuery), responses(
    (status = 200, body = MessagePage), (status = "default", body = Problem)))]
pub(super) async fn messages(
    State(app): State<Arc<App>>,
    Params(query): Params<MessagesQuery>,
) -> Result<Json<MessagePage>, Problem> {
    let page = app.work(move |work| {
        let ledger = work.ledger()?.ok_or_else(|| Problem::not_found("session"))?;
        let session = resolve(&ledger, &query.session)?;
        let filter = if query.all { MessageFilter::All } else { MessageFilter::Current };
        let mut messages = ledger.messages(&session, filter)?;
        messages.retain(|message| message.seq > query.after);
        let more = messages.len() > MAX_MESSAGES;
        messages.truncate(MAX_MESSAGES);
        Ok(MessagePage { session, messages, more })
    });
    Ok(Json(page.await?))
}

fn resolve(ledger: &Ledger, typed: &str) -> Result<String, WorkError> {
    Ok(ledger.resolve(typed)?)
}

/// The terms of a search, and its limits.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct SearchQuery {
    /// The terms, as in `takeback search`.
    q: String,
    /// Only sessions of this agent or platform.
    source: Option<String>,
    /// Only messages of this role.
    role: Option<String>,
    /// True to include messages that were taken back.
    #[serde(default)]
    undone: bool,
    /// The maximum number of results.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// The results of a search.
#[derive(Serialize, ToSchema)]
pub(super) struct SearchAnswer {
    results: Vec<HitView>,
    /// The number of matching messages that were counted.
    total: usize,
    /// True if counting stopped early.
    more: bool,
    /// True if the search took too long and was stopped.
    stopped: bool,
}

/// A message that matches.
#[derive(Serialize, ToSchema)]
pub(super) struct HitView {
    session: String,
    message: i64,
    role: String,
    #[schema(value_type = f64)]
    time: Time,
    /// The text around the first match, with `>>>` and `<<<` around each match.
    snippet: String,
    before: Option<String>,
    after: Option<String>,
    source: String,
    model: Option<String>,
    title: Option<String>,
}

/// Searches the messages of all sessions.
#[utoipa::path(get, path = "/api/v1/search", tag = "sessions", params(SearchQuery), responses(
    (status = 200, body = SearchAnswer), (status = "default", body = Problem)))]
pub(super) async fn search(
    State(app): State<Arc<App>>,
    Params(query): Params<SearchQuery>,
) -> Result<Json<SearchAnswer>, Problem> {
    let options = SearchOptions {
        sources: query.source.into_iter().collect(),
        roles: query.role.into_iter().collect(),
        undone: query.undone,
        limit: check_limit(query.limit, 20)?,
        ..SearchOptions::default()
    };
    let found = app.work(move |work| work.search(&query.q, &options)).await?;
    let view = |hit: SearchHit| HitView {
        session: hit.session,
        message: hit.message,
        role: hit.role,
        time: hit.time,
        snippet: hit.snippet,
        before: hit.before,
        after: hit.after,
        source: hit.source,
        model: hit.model,
        title: hit.title,
    };
    let (total, more, stopped) = (found.total, found.more, found.stopped);
    let results = found.results.into_iter().map(view).collect();
    Ok(Json(SearchAnswer { results, total, more, stopped }))
}

/// The property that totals are grouped by.
#[derive(Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum StatsBy {
    #[default]
    Model,
    Day,
    Workspace,
    Source,
    Session,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct StatsQuery {
    /// The property to group by.
    #[serde(default)]
    #[param(inline)]
    by: StatsBy,
}

/// Adds up sessions, tokens and cost.
#[utoipa::path(get, path = "/api/v1/stats", tag = "sessions", params(StatsQuery), responses(
    (status = 200, body = [Object]), (status = "default", body = Problem)))]
pub(super) async fn stats(
    State(app): State<Arc<App>>,
    Params(query): Params<StatsQuery>,
) -> Result<Json<Vec<UsageTotal>>, Problem> {
    let by = match query.by {
        StatsBy::Model => UsageBy::Model,
        StatsBy::Day => UsageBy::Day,
        StatsBy::Workspace => UsageBy::Workspace,
        StatsBy::Source => UsageBy::Source,
        StatsBy::Session => UsageBy::Session,
    };
    let zone = app.zone.clone();
    let totals = app.work(move |work| {
        let day = |time: Time| {
            text::timestamp(time).to_zoned(zone.clone()).strftime("%Y-%m-%d").to_string()
        };
        match work.ledger()? {
            Some(ledger) => {
                Ok(ledger.usage_by(by, &day, &|model, tokens| work.app.price(model, tokens))?)
            }
            None => Ok(Vec::new()),
        }
    });
    Ok(Json(totals.await?))
}

/// Returns the status of the store: its size, workspaces and failures.
#[utoipa::path(get, path = "/api/v1/status", tag = "checkpoints", responses(
    (status = 200, body = Object), (status = "default", body = Problem)))]
pub(super) async fn status(State(app): State<Arc<App>>) -> Result<Json<Status>, Problem> {
    Ok(Json(app.work(|work| Ok(read_status(&work.opened)?)).await?))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CheckupQuery {
    /// True to read all checkpoints and messages, which may take minutes.
    #[serde(default)]
    thorough: bool,
}

/// Checks the agents, the store and the ledger, as `takeback doctor` does.
#[utoipa::path(get, path = "/api/v1/doctor", tag = "checkpoints", params(CheckupQuery), responses(
    (status = 200, body = Checkup), (status = "default", body = Problem)))]
pub(super) async fn doctor(
    State(app): State<Arc<App>>,
    Params(query): Params<CheckupQuery>,
) -> Result<Json<Checkup>, Problem> {
    Ok(Json(app.work(move |work| work.check_up(query.thorough)).await?))
}

fn check_limit(limit: Option<usize>, usual: usize) -> Result<usize, Problem> {
    match limit.unwrap_or(usual) {
        limit @ 1..=MAX_LIMIT => Ok(limit),
        _ => Err(Problem::invalid(format!("limit must be between 1 and {MAX_LIMIT}"))),
    }
}
