//! Downloads a turn, a session or a day as a file.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use jiff::civil::Date;
use serde::Deserialize;

use super::PageProblem;
use super::export::{ExportSubject, export};
use crate::api::Params;
use crate::app::App;
use crate::problem::Problem;

/// The parameters for the download of a day.
#[derive(Deserialize)]
pub(super) struct DayQuery {
    day: String,
}

pub(super) async fn turn(
    State(app): State<Arc<App>>,
    Path((workspace, checkpoint)): Path<(String, String)>,
) -> Result<Response, PageProblem> {
    let name = format!("takeback-{}", checkpoint.chars().take(10).collect::<String>());
    download(app, ExportSubject::Turn { workspace, checkpoint }, &name).await
}

pub(super) async fn session(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Response, PageProblem> {
    let name = format!("takeback-{id}");
    download(app, ExportSubject::Session(id), &name).await
}

pub(super) async fn day(
    State(app): State<Arc<App>>,
    Params(query): Params<DayQuery>,
) -> Result<Response, PageProblem> {
    let day: Date = query
        .day
        .parse()
        .map_err(|_| Problem::invalid("day must be a date, such as 2026-11-18"))?;
    download(app, ExportSubject::Day(day), &format!("takeback-{day}")).await
}

async fn download(
    app: Arc<App>,
    subject: ExportSubject,
    name: &str,
) -> Result<Response, PageProblem> {
    let file = app.work(move |work| export(work, &subject)).await?;
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.chars().map(safe).take(80).collect();
    let kind = "text/html; charset=utf-8".to_owned();
    let attachment = format!("attachment; filename=\"{name}.html\"");
    Ok(([(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, attachment)], file).into_response())
}
