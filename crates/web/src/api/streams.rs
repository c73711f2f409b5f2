//! The stream of events.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{KeepAlive, Sse};

use crate::app::App;
use crate::events::{EventStream, start_watching};
use crate::problem::Problem;

/// Streams the changes of workspaces and conversations.
///
/// The events are `workspace` (the data holds the workspace's id), `ledger`, `ready` after the
/// missed events, and `gap` if the client missed events that the server no longer has. Later events
/// have larger ids.
#[utoipa::path(get, path = "/api/v1/events", tag = "events", params(
    ("Last-Event-ID" = Option<u64>, Header, description = "The id of the last event that was received.")),
    responses((status = 200, description = "Server-sent events.", content_type = "text/event-stream",
        body = String), (status = "default", body = Problem)))]
pub(super) async fn events(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<
    Sse<impl futures_core::Stream<Item = <EventStream as futures_core::Stream>::Item>>,
    Problem,
> {
    let last = read_last_event(&headers)?;
    let now = app.work(|work| Ok(work.opened.now())).await?;
    let stream = app.hub.subscribe(u64::try_from(now.0).unwrap_or(0), last)?;
    start_watching(&app);
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(20))))
}

/// Reads the id of the last event that a client received.
pub(super) fn read_last_event(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    match headers.get("last-event-id").map(|id| id.to_str().unwrap_or_default()) {
        None | Some("") => Ok(None),
        Some(id) => match id.parse() {
            Ok(id) => Ok(Some(id)),
            Err(_) => Err(Problem::invalid("Last-Event-ID is not a number")),
        },
    }
}
