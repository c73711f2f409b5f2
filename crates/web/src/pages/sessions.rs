//! Sessions: the list, the search, and a single conversation.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use maud::{Markup, html};
use serde::Deserialize;
use takeback_ledger::render::session_title;
use takeback_ledger::{
    ListOptions, MessageFilter, MessageRecord, SearchHit, SearchOptions, SearchResults,
    SessionRecord, SessionSummary,
};
use takeback_undo::History;
use takeback_undo::history::{find_first_message, known_workspaces};

use super::layout::{Shell, column, relative_time};
use super::timeline::encode;
use super::{PageResult, conversation, lineage};
use crate::api::Params;
use crate::app::{App, Work};
use crate::problem::{Problem, WorkError};
use crate::text;

/// The number of sessions in a list.
const LISTED: usize = 100;

/// The number of results of a search.
const RESULTS: usize = 60;

/// The number of messages on a page of a conversation.
const MESSAGES: usize = 300;

/// The parameters of the list of sessions.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct SessionsQuery {
    source: String,
}

/// The parameters of a search.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct SearchQuery {
    q: String,
}

/// The parameters of a conversation.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct SessionQuery {
    /// The number of the first message that is shown.
    from: i64,
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Params(query): Params<SessionsQuery>,
) -> PageResult {
    let page = app.work(move |work| {
        let sources = Some(query.source).filter(|source| !source.is_empty());
        let options = ListOptions {
            sources: sources.into_iter().collect(),
            limit: Some(LISTED),
            ..ListOptions::default()
        };
        let found = match work.ledger()? {
            Some(ledger) => ledger.sessions(&options)?,
            None => Vec::new(),
        };
        let now = text::timestamp(work.opened.now());
        let content = html! {
            div .title-row { h1 { "Sessions" } a href="/usage" { "Tokens and cost" } }
            @if found.is_empty() {
                div .empty { h2 { "No sessions yet" } p { "Run " code { "takeback install AGENT" } " to record new ones, or " code { "takeback sessions import" } " to import old ones." } }
            }
            ul .sessions { @for summary in &found { (render_summary(work, summary, now, "/sessions/", None)) } }
            @if found.len() == LISTED { p .faint { "To find older sessions, use the search." } }
        };
        Ok(Shell::new(work, None)?.render("Sessions", "sessions", &column(&content)))
    });
    Ok(page.await?)
}

pub(super) fn render_summary(
    work: &Work,
    summary: &SessionSummary,
    now: jiff::Timestamp,
    address: &str,
    mark: Option<&str>,
) -> Markup {
    let session = &summary.session;
    let title = session.title.as_deref().filter(|title| !title.trim().is_empty());
    let title = title.unwrap_or(&summary.preview);
    html! {
        li .{ "hue-" (text::agent_hue(&session.source)) } {
            a href={ (address) (encode(&session.id)) } {
                span .title { @if title.is_empty() { span .faint { "(no prompt)" } } @else { (text::one_line(title)) } }
                span .meta {
                    @if let Some(mark) = mark { span .badge .live { (mark) } }
                    span .agent { (text::one_line(&session.source)) }
                    (relative_time(text::timestamp(summary.last_activity), now))
                    span { (text::count(session.message_count.unsigned_abs(), "message")) }
                    @if let Some(cost) = cost(session) { span { (cost) } }
                    @if let Some(workspace) = &session.workspace { span .path { bdi { (work.app.tilde(std::path::Path::new(workspace))) } } }
                }
            }
        }
    }
}

/// Formats the cost of a session, with `~` if it is estimated.
fn cost(session: &SessionRecord) -> Option<String> {
    let actual =
        session.actual_cost_usd.filter(|cost| *cost > 0.0).map(|cost| format!("${cost:.2}"));
    let estimated = session.estimated_cost_usd.filter(|cost| *cost > 0.0);
    actual.or_else(|| estimated.map(|cost| format!("~${cost:.2}")))
}

pub(super) async fn search(
    State(app): State<Arc<App>>,
    Params(SearchQuery { q }): Params<SearchQuery>,
) -> PageResult {
    let page = app.work(move |work| {
        let options = SearchOptions { limit: RESULTS, ..SearchOptions::default() };
        let found = match q.trim() {
            "" => SearchResults::default(),
            query => work.search(query, &options)?,
        };
        let content = html! {
            h1 { "Search" }
            form .big-search role="search" action="/search" {
                input type="search" name="q" value=(q) aria-label="Search all conversations" placeholder="Words, “exact phrases”, NOT, OR, begin*" autocomplete="off";
                button { "Search" }
            }
            @if !q.trim().is_empty() { (render_results(&found)) }
        };
        let title = format!("{} — search", text::shorten(&text::one_line(&q), 40));
        Ok(Shell::new(work, None)?.render(&title, "search", &column(&content)))
    });
    Ok(page.await?)
}

fn render_results(found: &SearchResults) -> Markup {
    if found.results.is_empty() {
        return html! {
            div .empty { h2 { "No message matches" } p { "Try fewer words, or the beginning of one with a star: " code { "migrat*" } } }
        };
    }
    let mut sessions: Vec<(&str, Vec<&SearchHit>)> = Vec::new();
    for hit in &found.results {
        match sessions.iter_mut().find(|(session, _)| *session == hit.session) {
            Some((_, hits)) => hits.push(hit),
            None => sessions.push((&hit.session, vec![hit])),
        }
    }
    html! {
        p .faint { @if found.more { "At least " } (text::count(found.total as u64, "message")) @if found.results.len() < found.total { ", the best " (found.results.len()) " shown" } }
        @for (session, hits) in &sessions {
            section .hits .{ "hue-" (text::agent_hue(&hits[0].source)) } {
                h2 {
                    span .agent { (text::one_line(&hits[0].source)) }
                    a href={ "/sessions/" (encode(session)) } { (text::one_line(hits[0].title.as_deref().unwrap_or(session))) }
                }
                ol { @for hit in hits {
                    li { a href={ "/sessions/" (encode(session)) "?from=" (hit.message) "#m" (hit.message) } {
                        span .role { (text::one_line(&hit.role)) }
                        span .snippet { (mark_matches(&hit.snippet)) }
                    } }
                } }
            }
        }
    }
}

/// Marks the matches, which the ledger puts between `>>>` and `<<<`.
fn mark_matches(snippet: &str) -> Markup {
    let mut parts = snippet.split(">>>");
    let first = parts.next().unwrap_or_default();
    html! {
        (text::visible(first))
        @for part in parts {
            @let (found, rest) = part.split_once("<<<").unwrap_or((part, ""));
            mark { (text::visible(found)) } (text::visible(rest))
        }
    }
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Params(query): Params<SessionQuery>,
) -> PageResult {
    let page = app.work(move |work| {
        let (session, messages, lineage) = {
            let ledger = work.ledger()?.ok_or_else(|| Problem::not_found("session"))?;
            let id = ledger.resolve(&id)?;
            let messages = ledger.messages(&id, MessageFilter::All)?;
            (ledger.session(&id)?, messages, lineage::render(&ledger, &id)?)
        };
        let places = find_checkpoints(work, &session.id)?;
        let conversation = render_conversation(work, &session, &messages, &places, query.from);
        let content =
            html! { (render_head(work, &session, messages.len(), !places.is_empty())) (lineage) (conversation) };
        let title = text::shorten(&text::one_line(session_title(&session)), 60);
        Ok(Shell::new(work, None)?.render(&title, "sessions", &column(&content)))
    });
    Ok(page.await?)
}

/// The workspace and the checkpoint of a turn, by their ids.
pub(super) type TurnPlace = (String, String);

/// Finds the checkpoint of each turn of a session, by the number of the turn's first message.
pub(super) fn find_checkpoints(
    work: &Work,
    session: &str,
) -> Result<BTreeMap<i64, TurnPlace>, WorkError> {
    let mut places = BTreeMap::new();
    for (known, _) in known_workspaces(&work.opened)? {
        let history = History::read(known.store(), known.id())?;
        for row in history.rows().filter(|row| row.turn().is_some_and(|(own, _)| own == session)) {
            if let Some(first) = find_first_message(&work.opened, &row)? {
                let place = (known.id().to_string(), row.first().pin.id.to_string());
                places.entry(first).or_insert(place);
            }
        }
    }
    Ok(places)
}

fn render_head(work: &Work, session: &SessionRecord, messages: usize, has_turns: bool) -> Markup {
    let workspace = session.workspace.as_deref().map(std::path::Path::new);
    html! {
        header .session-head .{ "hue-" (text::agent_hue(&session.source)) } {
            h1 { (text::one_line(session_title(session))) }
            p .meta {
                span .agent { (text::one_line(&session.source)) }
                @if let Some(model) = &session.model { span { (text::one_line(model)) } }
                span { (text::count(messages as u64, "message")) }
                @if let Some(cost) = cost(session) { span { (cost) } }
                @if let Some(path) = workspace { span .path { bdi { (work.app.tilde(path)) } } }
                @if has_turns { a href={ "/?session=" (encode(&session.id)) } { "Its turns in the timeline" } }
                a href={ "/sessions/" (encode(&session.id)) "/export" } download="" { "Export as a file" }
            }
        }
    }
}

fn render_conversation(
    work: &Work,
    session: &SessionRecord,
    messages: &[MessageRecord],
    places: &BTreeMap<i64, TurnPlace>,
    from: i64,
) -> Markup {
    // A page that opens at a search result also shows earlier messages.
    let hit = messages.iter().position(|message| message.seq >= from).unwrap_or(0);
    let start = if hit < MESSAGES { 0 } else { hit - 20 };
    let shown = &messages[start..messages.len().min(start + MESSAGES)];
    let link = |label: &str, message: Option<&MessageRecord>| {
        html! {
            @if let Some(message) = message {
                p .more { a href={ "/sessions/" (encode(&session.id)) "?from=" (message.seq) } { (label) } }
            }
        }
    };
    html! {
        @if messages.is_empty() { div .empty { h2 { "No messages" } p { "This conversation was never recorded, or has been cleared." } } }
        @if start > 0 { (link("Earlier messages", messages.first())) }
        div .messages {
            @for message in shown {
                @if let Some((workspace, checkpoint)) = places.get(&message.seq) {
                    p .checkpoint-mark { a href={ "/w/" (workspace) "/c/" (checkpoint) } { span aria-hidden="true" { "◆" } " Checkpoint before this turn: look at it, or return to it" } }
                }
                (conversation::render_message(message, &work.app.zone))
            }
        }
        (link("Later messages", messages.get(start + MESSAGES)))
    }
}
