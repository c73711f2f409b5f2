//! The pages. Everything has an address, and every page can be read without scripts.
//!
//! A script can request a single part of a page, with the parameter `part`.

mod charts;
mod chat;
mod conversation;
mod diff;
mod downloads;
pub(crate) mod export;
mod files;
mod goals;
mod health;
mod layout;
mod lineage;
mod overview;
mod sessions;
mod timeline;
mod turn;
mod usage;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use maud::{Markup, html};
use serde::Deserialize;

use crate::api::Params;
use crate::app::{App, Work};
use crate::problem::{Problem, WorkError};
use crate::view::filter::{Filter, FilterQuery};
use crate::view::timeline::take_page;
use layout::Shell;

pub(crate) use self::conversation::markdown as render_markdown;

/// The number of entries that a page shows at first, and that scrolling adds each time.
const WINDOW: usize = 50;

/// A problem, shown as a page.
pub(crate) struct PageProblem(Problem);

type PageResult = Result<Markup, PageProblem>;

impl From<Problem> for PageProblem {
    fn from(problem: Problem) -> PageProblem {
        PageProblem(problem)
    }
}

impl IntoResponse for PageProblem {
    fn into_response(self) -> Response {
        error_page(&self.0).into_response()
    }
}

/// Renders a problem as a page.
pub(crate) fn error_page(problem: &Problem) -> (StatusCode, Markup) {
    (problem.code(), layout::bare_page(&problem.title, &layout::problem_box(problem)))
}

pub(crate) async fn not_found() -> PageProblem {
    PageProblem(Problem::not_found("page"))
}

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(all_timelines))
        .route("/w/{workspace}", get(timeline))
        .route("/w/{workspace}/c/{id}", get(turn::show))
        .route("/w/{workspace}/c/{id}/file", get(turn::show_file))
        .route("/w/{workspace}/c/{id}/image", get(turn::show_image))
        .route("/w/{workspace}/c/{id}/card", get(turn::show_card))
        .route("/chat", get(chat::home))
        .route("/chat/{session}", get(chat::show))
        .route("/sessions", get(sessions::list))
        .route("/sessions/{id}", get(sessions::show))
        .route("/sessions/{id}/export", get(downloads::session))
        .route("/w/{workspace}/c/{id}/export", get(downloads::turn))
        .route("/export", get(downloads::day))
        .route("/search", get(sessions::search))
        .route("/usage", get(usage::show))
        .route("/health", get(health::show))
}

/// The parameters of a timeline's address.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ListQuery {
    agent: String,
    session: String,
    text: String,
    file: String,
    since: String,
    until: String,
    before: String,
    part: String,
}

impl ListQuery {
    fn to_filter(&self, app: &App) -> Result<Filter, Problem> {
        let ListQuery { agent, session, text, file, since, until, before, .. } = self;
        let query = FilterQuery {
            agent: agent.clone(),
            session: session.clone(),
            text: text.clone(),
            file: file.clone(),
            since: since.clone(),
            until: until.clone(),
            before: before.clone(),
        };
        Filter::new(query, &app.zone)
    }
}

async fn all_timelines(
    State(app): State<Arc<App>>,
    Params(query): Params<ListQuery>,
) -> PageResult {
    show_timelines(app, None, query).await
}

async fn timeline(
    State(app): State<Arc<App>>,
    Path(workspace): Path<String>,
    Params(query): Params<ListQuery>,
) -> PageResult {
    show_timelines(app, Some(workspace), query).await
}

async fn show_timelines(app: Arc<App>, workspace: Option<String>, query: ListQuery) -> PageResult {
    let filter = query.to_filter(&app)?;
    let page = app.work(move |work| {
        let list = render_list(work, workspace.as_deref(), &filter, None)?;
        if query.part == "rows" {
            return Ok(list);
        }
        let shell = Shell::new(work, workspace.as_deref())?;
        let overview = overview::render(work, workspace.as_deref())?;
        let title = match &shell.path {
            Some(path) => format!("{path} — timeline"),
            None => "All workspaces — timeline".to_owned(),
        };
        Ok(shell.render(&title, "timeline", &layout::panes("show-list", &list, &overview)))
    });
    Ok(page.await?)
}

/// Renders the list of entries, which is the left pane of most pages.
fn render_list(
    work: &Work,
    workspace: Option<&str>,
    filter: &Filter,
    selected: Option<takeback_tree::Oid>,
) -> Result<Markup, WorkError> {
    let timelines = match workspace {
        Some(id) => vec![work.timeline(id)?],
        None => work.all_timelines()?,
    };
    let filter = &filter.clone().find_rows(work, &timelines)?;
    let page = take_page(&timelines, filter, WINDOW);
    let address = workspace.map_or("/".to_owned(), |id| format!("/w/{id}"));
    let list =
        timeline::ListView { work, address: &address, timelines: &timelines, filter, selected };
    Ok(html! { (list.render(&page)) })
}
